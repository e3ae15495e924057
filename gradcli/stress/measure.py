"""How many digits are right at a point without a claim: of the value of f, and of its gradient by each mode."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gradcli.core.shapes import shape
from gradcli.errors import GradcliError
from gradcli.modes.mode import Question
from gradcli.modes.registry import MODES
from gradcli.point import Estimate
from gradcli.stress.exact import both_ways
from gradcli.stress.look import (
    FULL,
    Look,
    Word,
    digits_of,
    given_digits,
    left_digits,
    moved,
    right_digits,
    right_gradient,
)
from gradcli.verify.request import Request

VALUE = "value"
BY_RULES = ("forward", "reverse")  # modes that lose digits by rounding alone
MEASURED = (*BY_RULES, "finite-difference")


def measured(request: Request, q: Question) -> dict[str, Look]:
    """Return the right digits of the value of f and of its gradient by each mode; nothing where they cannot be known.

    Shapes  digits are those of the worst entry.
    """
    if q.untraced is not None:
        return {}
    right = right_gradient(q)
    if right is None:
        return {}
    found = dict(_gradients(request, q, right))
    value = _value(request, q)
    return found if value is None else {VALUE: value, **found}


def _gradients(request: Request, q: Question, right: Estimate) -> Iterator[tuple[str, Look]]:
    given: float | None = None
    for mode in (name for name in MEASURED if name in request.modes):
        try:
            with np.errstate(all="ignore"):
                found = MODES[mode].gradient(q)
        except (GradcliError, ValueError, ArithmeticError, np.linalg.LinAlgError):
            continue
        digits, name = digits_of(found, right)
        if given is None and digits < FULL - 4:
            given = given_digits(q, right)
        yield mode, Look(Word.RIGHT, q.point.values, digits, FULL if given is None else given, name)


def _value(request: Request, q: Question) -> Look | None:
    values: Mapping[str, Any] = q.point.values
    exact = both_ways(request.f, q.wrt, values)
    if exact is None or shape(exact[1]) != shape(np.ravel(q.value)):
        return None
    digits = right_digits(np.ravel(q.value), exact[1])
    given = FULL
    if digits < FULL - 4:
        other = both_ways(request.f, q.wrt, moved(q))
        given = 0.0 if other is None else left_digits(exact[1], other[1])
    return Look(Word.RIGHT, values, digits, given)
