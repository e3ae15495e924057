"""Bound the rounding error of a float64 gradient by repeating its reverse sweep in ball arithmetic (Arb) at 53 bits."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.arithmetic.ball import Ball, precision, radius
from gradcli.arithmetic.program import record
from gradcli.arithmetic.tape import Recorded
from gradcli.modes.jacobians import by_rows, stacked
from gradcli.request.point import Array
from gradcli.rules.kinds import KERNELS
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import blocks, part_of

EPS = float(np.finfo(np.float64).eps)
FUNCTION_ERROR = 8 * EPS  # relative: the assumed largest rounding error of a kernel or of a numpy function


def contribution(bar: Value, y: Value) -> tuple[float, float]:
    """Return the sum and the Euclidean norm of the finite contributions of a line, which are its value times its adjoint.

    Shapes  `bar` and `y` have one shape.
    """
    if type(y) is np.float64 and isinstance(bar, float):
        moved = abs(float(bar) * float(y))
        return (moved, moved) if math.isfinite(moved) else (0.0, 0.0)
    bar, y = np.asarray(bar), np.asarray(y)
    total, norm = 0.0, 0.0
    for part in blocks(y.size):
        moved = np.abs(part_of(bar, part) * part_of(y, part))
        added = float(moved.sum())
        if not math.isfinite(added):
            moved = moved[np.isfinite(moved)]
            added = float(moved.sum())
        total += added
        norm = math.hypot(norm, _norm(moved.reshape(-1)))
    return total, norm


def _norm(sizes: Array) -> float:
    """Return the Euclidean norm of sizes, also where their squares overflow or vanish."""
    squares = float(np.einsum("i,i->", sizes, sizes, dtype=float))
    if 1e-200 < squares < math.inf:
        return math.sqrt(squares)
    top = float(sizes.max(initial=0.0))
    return top * math.sqrt(float(np.square(sizes / top).sum())) if top > 0 else 0.0


def rounding_bounds(f: Callable[..., Value], xs: Sequence[Value], kernels: bool = False) -> tuple[Value, list[Any]]:
    """Return f(*xs) in balls, and the radius of each entry of its gradient, both at 53 bits.

    With `kernels`, partials are computed by the kernels that float64 sweeps use, else by the textbook's formulas.

    Error   a bound on the rounding of the operations in the order in which they were recorded; each numpy function may add
            FUNCTION_ERROR.
    Raises  Undecided if 53 bits cannot decide a comparison.
    Source  Johansson (2017), Arb: efficient arbitrary-precision midpoint-radius interval arithmetic.
    """
    token = KERNELS.set(kernels)
    try:
        return _value_and_radii(f, xs)
    finally:
        KERNELS.reset(token)


def _value_and_radii(f: Callable[..., Value], xs: Sequence[Value]) -> tuple[Value, list[Any]]:
    with precision(53):
        program = record(f, [Ball.lift(x) for x in xs])
        rows = by_rows(program, Ball.lift(1))
        radii = [[radius(xbar) for xbar in row] for row in rows]
        y = program.y
        value = y.primal if isinstance(y, Recorded) else y
        return value, [stacked(radii, y, k, x) for k, x in enumerate(xs)]
