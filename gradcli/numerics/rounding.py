"""What rounding can have done to a float64 gradient: the same sweep in balls of 53 bits."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.shapes import shape
from gradcli.interpreters.ball import Ball, precision, radius
from gradcli.interpreters.tape import Recorded, Tape, record
from gradcli.primitives.kinds import KERNELS

EPS = float(np.finfo(np.float64).eps)
ULPS = 8 * EPS  # what a kernel or numpy's own functions may differ by from the correctly rounded operation


def jacobian(y: Value, inputs: Sequence[Recorded], tape: Tape, one: Value) -> list[list[Value]]:
    """Return the cotangents of all inputs for each entry of `y` in turn, seeded with `one`.

    Shapes  a list over the entries of y (in C order) of lists over inputs.
    """
    if shape(y) == ():
        return [tape.pull(y, one, inputs)]
    rows = []
    zero = one * 0
    for k in range(int(np.prod(shape(y)))):
        seed = [one if i == k else zero for i in range(int(np.prod(shape(y))))]
        rows.append(tape.pull(y, np.reshape(np.stack(seed), shape(y)), inputs))
    return rows


def stacked(rows: list[list[Value]], like: Value, number: int, x: Value) -> Any:
    """Return row by row cotangents of one input as an array: the output's shape, then the input's."""
    entries = [np.asarray(row[number], dtype=float) for row in rows]
    if not entries:
        return np.zeros(shape(like) + shape(x))
    return np.stack(entries).reshape(shape(like) + np.shape(entries[0]))[()]


def rounding_bounds(f: Callable[..., Value], xs: Sequence[Value], kernels: bool = False) -> tuple[Value, list[Any]]:
    """Return the radius of f(*xs) and of its gradient, entry by entry, at 53 bits.

    With `kernels`, for the partials as float64 computes them; else for the textbook's.

    Error   a bound for the operations in the order they were done; numpy's functions may add a few ulps each.
    Raises  Undecided where 53 bits cannot decide a comparison.
    Source  Johansson (2017), Arb: efficient arbitrary-precision midpoint-radius interval arithmetic.
    """
    token = KERNELS.set(kernels)
    try:
        return _radii(f, xs)
    finally:
        KERNELS.reset(token)


def _radii(f: Callable[..., Value], xs: Sequence[Value]) -> tuple[Value, list[Any]]:
    with precision(53):
        y, inputs, tape = record(f, [Ball.lift(x) for x in xs])
        rows = jacobian(y, inputs, tape, Ball.lift(1))
        radii = [[radius(xbar) for xbar in row] for row in rows]
        value = y.primal if isinstance(y, Recorded) else y
        return radius(value), [stacked(radii, y, k, x) for k, x in enumerate(xs)]
