"""How much work a mode is, counted on the recorded program: scalar operations, never seconds.

What runs by default is decided by these counts, so that it is the same on every machine and under every load.
"""

from collections.abc import Iterable
from enum import Enum
from math import inf
from typing import Any

from gradcli.tracing.cost import Work

CALL = 1_000  # scalar operations that take as long as one call of numpy
FUNCTION = 10_000  # the same, for one call of the user's function
TRACED = 4  # times the function: one traced evaluation
REVERSE = 5  # times the function: recording it and sweeping back
_BALL = 6_000  # scalar operations that take as long as one on balls, forward and backward
_BALL_PRODUCT = 30  # the same, for one multiply-add of a matrix product in balls
MOST_EVALUATIONS = 100_000  # of a function that can only be called, unless the user allows another number


class Effort(Enum):
    """How many scalar operations a mode may take.

    The default is 30,000 operations on balls; `--modes all` allows what takes about ten seconds, and a mode that is
    requested by name has no limit.
    """

    DEFAULT = 30_000.0 * _BALL
    ALL = 1e10
    NAMED = inf


def work(line: Any) -> Work:
    """Return the work of one line."""
    primitive, _, xs, y, params, _ = line
    return Work() if primitive is None else primitive.cost.work(xs, y, params or {})


def work_of(lines: Iterable[Any]) -> int:
    """Return the work of one evaluation, in scalar operations: those of the lines, and what calling numpy costs."""
    return FUNCTION + sum(CALL + found.entries + found.products for found in map(work, lines))


def work_in_balls(lines: Iterable[Any]) -> int:
    """Return the work of a forward and a backward sweep in balls, in scalar operations of float64."""
    return sum(found.entries * _BALL + found.products * _BALL_PRODUCT for found in map(work, lines))


def balls(work: float) -> float:
    """Return work as a number of operations on balls."""
    return work / _BALL
