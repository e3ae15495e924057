"""A claim on float32 inputs: the digits that it keeps of those that float32 leaves."""

from typing import Any

import numpy as np

from gradcli.core.shapes import shape
from gradcli.errors import GradcliError
from gradcli.modes.claim import WrongShape, in_shape
from gradcli.modes.claimed import Called, ClaimedFunction
from gradcli.point import Point
from gradcli.stress.look import FULL, Look, Word, given_digits, right_digits, right_gradient
from gradcli.verify.request import Request

MOST = 60  # points at which float32 is tried
DIGITS = float(-np.log10(np.finfo(np.float32).eps))
_FEWEST_GIVEN = 3.0  # digits that float32 must leave of the right gradient
_LOST = 3.0  # digits that are lost beside those that float64 loses; fewer are no finding
_SMALLEST, _LARGEST = 1e-30, 1e30  # numbers whose squares and products float32 may not have are left out, unless zero


def takes_float32(request: Request) -> bool:
    """Whether a claim can be called with float32 inputs: a Python function can."""
    return isinstance(request.claim, ClaimedFunction) and isinstance(request.claim.compute, Called)


def look_in_float32(request: Request, seen: Look) -> Look | None:
    """Return what the claim keeps on float32 inputs, if it loses more digits than at the point seen in float64; else None.

    The right gradient is that at the same numbers, in float64.
    """
    values = seen.values
    narrow = {**values, **{name: np.asarray(values[name], dtype=np.float32)[()] for name in request.wrt}}
    wide = {**values, **{name: np.asarray(narrow[name], dtype=float)[()] for name in request.wrt}}
    if not all(_has_room(wide[name]) for name in request.wrt) or request.claim is None:
        return None
    q = request.question(Point(wide))
    right = right_gradient(q)
    if right is None or not all(map(_has_room, right.value.values())):
        return None
    given = DIGITS - (FULL - given_digits(q, right))
    if given < _FEWEST_GIVEN:
        return None
    try:
        with np.errstate(all="ignore"):
            found = request.claim(narrow)
            claimed = {n: in_shape(n, x, np.shape(q.value), shape(wide[n])) for n, x in found.items()}
    except (GradcliError, WrongShape, ValueError, TypeError, ArithmeticError, np.linalg.LinAlgError):
        return None
    digits = {
        n: min(right_digits(x, right.value[n], right.bound[n]), DIGITS) for n, x in claimed.items() if n in right.value
    }
    name = min(digits, key=lambda n: digits[n])
    narrowed = Look(Word.RIGHT, wide, digits[name], given, name)
    return narrowed if narrowed.lost > seen.lost + _LOST else None


def _has_room(x: Any) -> bool:
    x = np.abs(np.asarray(x))
    return bool(np.all((x == 0) | ((x > _SMALLEST) & (x < _LARGEST))))
