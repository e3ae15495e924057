"""The certified mode for expressions of a few numbers: the same proof and the same witness, by straight-line code.

The function, read from its text, runs once on values that nobody can look at; the code written down of it then is the
function at every point and at every precision. What this code leaves open, for whatever reason, goes the general way.
"""

import math
import weakref
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb

from gradcli.errors import GradcliError, Undecided
from gradcli.interpreters.ball import Ball, decimals, error_of, nearest, precision, radius
from gradcli.modes.mode import Question
from gradcli.numerics.rounding import FUNCTION_ERROR
from gradcli.point import Cost, Estimate
from gradcli.programs.balls import InBalls, in_balls
from gradcli.source.derived import either_way
from gradcli.source.function import Function

FIRST_BITS = 128
RELATIVE_RADIUS = 1e-30
ACCURATE_BITS = 100  # the same of a ball, also where float64 underflows
DIGITS = 50  # of the decimals; 4096 bits are asked for only to reach 1e-30
WITNESS_AGREEMENT = 1e-18  # of the sum of |g v|; truncation at h = 2^-(bits/3) is far below it for tame functions
WITNESS_SEED = 0x5EED
_CODE: weakref.WeakKeyDictionary[Function, dict[Any, InBalls | None]] = weakref.WeakKeyDictionary()


def of_numbers(q: Question) -> Estimate | None:
    """Return the certified gradient at the first number of bits, or None where it takes more, or another way."""
    code = _code(q)
    if code is None or not math.isfinite(q.value):
        return None
    at = [arb(float(x)) for x in q.point.values.values()]
    try:
        with precision(53):
            y = Ball(code.value(*at))
            if not error_of(y, q.value) <= 3 * radius(y) + FUNCTION_ERROR * abs(q.value):
                return None
        with precision(FIRST_BITS):
            _, found = code.both(*at)
            slopes = list(map(Ball, found))
            near, radii = list(map(nearest, slopes)), list(map(radius, slopes))
            if not all(x.value.rel_accuracy_bits() >= ACCURATE_BITS for x in slopes) or not np.all(np.isfinite(near)):
                return None
            if not _witnessed(q, code, at, slopes):
                return None
            written = [decimals(x, DIGITS)[()] for x in slopes]
    except Undecided:
        return None
    bounds = list(map(written_bound, radii, near))
    value, bound, shown = (dict(zip(q.wrt, part, strict=True)) for part in (near, bounds, written))
    return Estimate(value, bound, proved=True, decimals=shown, cost=Cost(evaluations=4), notes=(f"{FIRST_BITS} bits",))


def written_bound(radius: Any, near: Any) -> Any:
    """Return the radius, and what writing the midpoint in decimals loses."""
    return np.asarray(radius + np.abs(near) * 10.0 ** (1 - DIGITS))[()]


def _code(q: Question) -> InBalls | None:
    """Return the code of a question's function, written when it is first asked for; None where there is none."""
    if (
        q.f.kind != "expression"
        or q.blind is not None
        or not all(isinstance(x, float) for x in q.point.values.values())
    ):
        return None
    known = _CODE.setdefault(q.f, {})
    key = (tuple(q.point.values), q.wrt)
    if key not in known:
        try:
            with np.errstate(all="ignore"):
                known[key] = in_balls(q.f, q.point.values, q.wrt)
        except (GradcliError, TypeError, ValueError, ArithmeticError):  # the general way says what the matter is
            known[key] = None
    return known[key]


def _witnessed(q: Question, code: InBalls, at: list[arb], slopes: list[Ball]) -> bool:
    """Whether <g, v> is a symmetric difference along v, which uses no rule."""
    h = arb(2) ** -(FIRST_BITS // 3)
    steps, along, scale = list(map(arb, [0.0] * len(at))), arb(0), arb(0)
    places = {name: k for k, name in enumerate(q.point.values)}
    for name, slope, way in zip(q.wrt, slopes, _ways(q.seed, len(slopes)), strict=True):
        k = places[name]
        v = way * (abs(float(at[k])) or 1.0)
        steps[k] = arb(v) * h
        along += slope.value * steps[k]
        scale += abs(slope.value * steps[k])
    up = code.value(*(x + step for x, step in zip(at, steps, strict=True)))
    down = code.value(*(x - step for x, step in zip(at, steps, strict=True)))
    return bool(abs((up - down) / 2 - along) <= WITNESS_AGREEMENT * scale)  # of balls: none is too small for it


@lru_cache(maxsize=64)
def _ways(seed: int, count: int) -> tuple[float, ...]:
    """Return how far each input is moved, of its size: kept, for a generator costs more than the rest."""
    found: list[float] = either_way(np.random.default_rng([seed, WITNESS_SEED]), (count,)).tolist()
    return tuple(found)
