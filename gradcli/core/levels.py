"""How deep the sweeps are nested: each has a level, so that tangents and cotangents of different sweeps never mix."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_depth: ContextVar[int] = ContextVar("depth", default=0)


def depth() -> int:
    """The number of sweeps under way."""
    return _depth.get()


@contextmanager
def sweep() -> Iterator[int]:
    """Open a sweep and yield its level, 1 for the outermost; closed again also when user code raises."""
    level = _depth.get() + 1
    token = _depth.set(level)
    try:
        yield level
    finally:
        _depth.reset(token)
