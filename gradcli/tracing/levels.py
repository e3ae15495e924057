"""Levels of nested sweeps: each sweep has its own, so that tangents and cotangents of different sweeps never mix."""

import itertools
import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_UNIQUE = 2.0**-40
_depth: ContextVar[int] = ContextVar("depth", default=0)
_number = itertools.count(1)
LIVE: set[float] = {0, 1, 2, 3, math.inf}  # levels of open sweeps, and integers, which no sweep gets


def depth() -> int:
    """Return the number of open sweeps."""
    return _depth.get()


@contextmanager
def sweep() -> Iterator[float]:
    """Open a sweep and yield its level; close the sweep on exit, also when user code raises.

    A level is the depth of the sweep, 1 for the outermost, plus a fraction that no other sweep has. A value that user code
    keeps from one sweep is therefore never mistaken for a value of another.
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
