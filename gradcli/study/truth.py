"""The true slopes along rays, also beyond the range of float64, and the derivatives that truncation depends on."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from flint import arb

from gradcli.arithmetic.ball import Ball, precision
from gradcli.arithmetic.program import record
from gradcli.arithmetic.tape import Recorded
from gradcli.errors import Undecided
from gradcli.modes.jacobians import by_rows
from gradcli.modes.mode import Question
from gradcli.modes.schemes import STENCILS
from gradcli.study.curves import Truth
from gradcli.study.rays import Ray, directions, in_balls, weights
from gradcli.tracing.shapes import shape

_STENCIL_BITS, _STENCIL_STEP = 640, 2.0**-40
_ONE_SIDED_STEP_BITS = 400


def slope_along(q: Question, gradient: dict[str, Any], ray: Ray, *, sizes: bool = False) -> arb:
    """Return <g, v>, with the rows of a Jacobian summed by weights; with `sizes`, <g, |v|>, to add up error bounds."""
    w = weights(q)
    total = arb(0)
    for name, v in zip(q.wrt, directions(q, ray), strict=True):
        if v is not None and name in gradient:
            g = np.tensordot(w, np.asarray(gradient[name]), np.ndim(w)) if shape(w) else np.asarray(gradient[name])
            (g, a), (v, b) = _halved(g), _halved(np.abs(v) if sizes else v)
            total += arb(float(np.sum(g * v))) * arb(2) ** (a + b)
    return total.mid()


def _halved(x: Any) -> tuple[Any, int]:
    """Return numbers divided by a power of two, so that the largest is about 1, and the exponent."""
    largest = float(np.max(np.abs(x), initial=0.0))
    k = int(np.frexp(largest)[1]) if np.isfinite(largest) else 0
    return np.ldexp(x, -k), k


def derivatives(q: Question, ray: Ray) -> dict[int, float]:
    """Return the absolute values of the higher derivatives along a ray, by order, from stencils in balls.

    Error  about 1e-24 relative for smooth functions, not bounded.
    Cost   9 evaluations of f in balls.
    """
    h = arb(_STENCIL_STEP)
    values = in_balls(q, ray, [arb(k) * h for k in range(-4, 5)], _STENCIL_BITS)
    with precision(_STENCIL_BITS):
        found = {
            k: float(abs(sum((w * x for w, x in zip(ws, values, strict=True)), arb(0)) / h**k))
            for k, ws in STENCILS.items()
        }
    return {k: x for k, x in found.items() if np.isfinite(x) and x > 1e-20}


def slopes_in_balls(q: Question, rays: Sequence[Ray], bits: int) -> list[arb]:
    """Return the slopes along rays by one reverse sweep in balls for each output.

    Raises  Undecided if the balls are too wide for half of `bits`.
    """
    with precision(bits + 32):
        program = record(q.g, [Ball.lift(x) for x in q.xs])
        w = np.reshape(weights(q), -1)
        if not isinstance(program.y, Recorded):  # f is constant, as a floor is
            return [arb(0)] * len(rays)
        rows = by_rows(program, Ball.lift(1))
        totals = [
            sum((row[k] * float(part) for row, part in zip(rows, w, strict=True)), Ball.lift(0))
            for k in range(len(q.xs))
        ]
        found = []
        for ray in rays:
            parts = [np.sum(g * v) for g, v in zip(totals, directions(q, ray), strict=True) if v is not None]
            slope = sum(parts, Ball.lift(0)).value
            if not slope.is_finite() or slope.rad() > abs(slope) * arb(2) ** (-bits // 2) + arb(2) ** -bits:
                raise Undecided("ball arithmetic gives too wide an interval for the slope")
            found.append(slope.mid())
    return found


def one_sided(q: Question, rays: Sequence[Ray]) -> Truth:
    """Return the one-sided slopes along rays, `forward` and `backward`, by differences in high precision."""
    bits = 4 * _ONE_SIDED_STEP_BITS
    found: dict[str, list[arb]] = {"forward": [], "backward": []}
    for ray in rays:
        with precision(bits):
            h = arb(2) ** -_ONE_SIDED_STEP_BITS
            down, at, up = in_balls(q, ray, [-h, arb(0), h], bits)
            found["forward"].append(((up - at) / h).mid())
            found["backward"].append(((at - down) / h).mid())
    return found
