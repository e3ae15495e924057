"""How much work a mode is, counted on the recorded program: scalar operations, never seconds.

What runs by default is decided by these counts, so that it is the same on every machine and under every load.
"""

from collections.abc import Iterable
from enum import Enum
from math import inf
from typing import Any

from gradcli.core.shapes import shape, size

CALL = 1_000  # scalar operations that take the time of one call of numpy
FUNCTION = 10_000  # the same, of calling the user's function at all
TRACED = 4  # times the function: one traced evaluation
REVERSE = 5  # times the function: recording it and sweeping back
_BALL = 6_000  # scalar operations that take the time of one on balls, forward and backward
_BALL_PRODUCT = 30  # the same, of one multiply-add of a matrix product in balls
_CUBIC = {  # multiply-adds for each entry and row of a matrix, in balls
    "solve": 1, "inv": 1, "det": 1, "logdet": 1, "cholesky": 5, "qr": 5, "pinv": 5,
    "eigvalsh": 30, "eigenvectors": 30, "svdvals": 30, "singular_vectors": 30,
}  # fmt: skip
MOST_EVALUATIONS = 100_000  # of a function that can only be called, unless the user allows another number


class Effort(Enum):
    """How many scalar operations a mode may take.

    By default that is 30,000 operations on balls; `--modes all` allows what takes about ten seconds, and a mode that is
    requested by name runs whatever it takes.
    """

    DEFAULT = 30_000.0 * _BALL
    ALL = 1e10
    NAMED = inf


def work(line: Any) -> tuple[int, int]:
    """Return the entries and the multiply-adds of one line."""
    primitive, _, xs, y, _, _ = line
    if primitive is None:
        return 0, 0
    if primitive.name == "matmul":
        return 0, size(y) * shape(xs[0])[-1]
    if primitive.name in _CUBIC:
        return 0, _CUBIC[primitive.name] * size(xs[0]) * max(shape(xs[0])[-2:], default=1)
    if primitive.name in ("dft_cos", "dft_sin"):
        return 10 * size(y), size(y) * shape(y)[-1]
    if primitive.name == "einsum":
        return 0, size(y) * max(1, *(size(x) for x in xs))
    return max(size(y), *(size(x) for x in xs)), 0


def work_of(lines: Iterable[Any]) -> int:
    """Return the work of one evaluation, in scalar operations: those of the lines, and what calling numpy costs."""
    return FUNCTION + sum(CALL + sum(work(line)) for line in lines)


def work_in_balls(lines: Iterable[Any]) -> int:
    """Return the work of a forward and a backward sweep in balls, in scalar operations of float64."""
    return sum(a * _BALL + b * _BALL_PRODUCT for a, b in map(work, lines))


def balls(work: float) -> float:
    """Return work as a number of operations on balls."""
    return work / _BALL
