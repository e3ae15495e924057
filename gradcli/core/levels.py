"""How deep the sweeps are nested: each has a level, so that tangents and cotangents of different sweeps never mix."""

import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_UNIQUE = 2.0**-40
_depth: ContextVar[int] = ContextVar("depth", default=0)
_number = itertools.count(1)
LIVE: set[float] = {0, 1, 2, 3, math.inf}  # the levels under way, and whole ones, which no sweep is given


def depth() -> int:
    """The number of sweeps under way."""
    return _depth.get()


@contextmanager
def sweep() -> Iterator[float]:
    """Open a sweep and yield its level, closed again also when user code raises.

    A level lies between its depth, 1 for the outermost, and the next, and is given once: what the user's code keeps of one
    sweep is not taken for a value of another.
    """
    depth = _depth.get() + 1
    level = depth + next(_number) % 2**39 * _UNIQUE
    token = _depth.set(depth)
    LIVE.add(level)
    try:
        yield level
    finally:
        LIVE.discard(level)
        _depth.reset(token)
