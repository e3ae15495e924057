"""Look at a claim at one point: is f smooth and finite there, is the claim right, and how many digits does it keep?"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from gradcli.checks.request import Request
from gradcli.errors import BadClaim, GradcliError
from gradcli.modes.claim import Claim, WrongShape, allow_for_inputs
from gradcli.modes.mode import Question
from gradcli.modes.registry import MODES
from gradcli.modes.rounding import EPS
from gradcli.repair.exact import explains
from gradcli.report import numbers
from gradcli.request.point import Estimate, Point
from gradcli.tracing.shapes import shape

FULL = 16.0  # digits of float64
_TINY = 1e-290  # below it numbers lose digits because float64 has no smaller ones
_LARGEST = 1e290  # above it the next operation may overflow
_MOST_ENTRIES = 20_000
_GROWN = 64.0  # ulps of an input, by which the right gradient moves: what no claim can keep


class Word(Enum):
    """What was seen at a point."""

    RIGHT = "right"
    WRONG = "wrong"
    SKIPPED = "skipped"  # f is not smooth or not finite there, or nothing can say what is right


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at a point: the word, the digits that the claim keeps in its worst entry, and that entry's input.

    `given` counts the digits that the inputs leave: if they move by a rounding, the right gradient moves too.
    """

    word: Word
    values: Mapping[str, Any]
    digits: float = FULL
    given: float = FULL
    name: str = ""

    @property
    def lost(self) -> float:
        """How many digits the claim loses that the inputs do not take."""
        return max(0.0, min(self.given, FULL) - self.digits)


def look(request: Request, values: Mapping[str, Any], *, conditioned: bool = True) -> Look:
    """Look at the claim of a request at one point.

    Raises  BadClaim if the claim raises where f is smooth.
    """
    skipped = Look(Word.SKIPPED, values)
    q = request.question(Point(dict(values)))
    right = right_gradient(q)
    if right is None or request.claim is None:
        return skipped
    try:
        claimed = Claim(request.claim).gradient(q)
    except WrongShape:
        return Look(Word.WRONG, values, 0.0)
    except BadClaim as error:
        raise replaced(error, values) from error
    except (GradcliError, ValueError, ArithmeticError, np.linalg.LinAlgError):
        return skipped
    digits, name = digits_of(claimed, right)
    if not all(np.all(np.isfinite(np.asarray(x))) for x in claimed.value.values()):
        return Look(Word.WRONG, values, 0.0, name=name)
    if _apart(claimed, right):
        claimed = allow_for_inputs(claimed, right, q)
    if not _apart(claimed, right):
        given = given_digits(q, right) if conditioned and digits < FULL - 4 else FULL
        return Look(Word.RIGHT, values, digits, given, name)
    if explains(request, values, claimed.value, right.value):
        return Look(Word.RIGHT, values, digits, given_digits(q, right) if conditioned else FULL, name)
    if q.untraced is None and any(map(np.any, q.undecided)):  # a staircase, which takes longer to see
        return skipped
    return Look(Word.WRONG, values, digits, name=name)


def replaced(error: BadClaim, values: Mapping[str, Any]) -> BadClaim:
    """Return the error of a claim, with the point where it was raised."""
    return BadClaim(f"{error.what}, at the hard point {numbers.at_values(values)}", where=error.where, do=error.do)


def right_gradient(q: Question) -> Estimate | None:
    """Return the right gradient where f is smooth and finite; None elsewhere."""
    try:
        with np.errstate(all="ignore"):
            if not np.all(np.isfinite(q.value)) or np.size(q.value) * q.entries > _MOST_ENTRIES:
                return None
            if q.untraced is not None:
                return MODES["finite-difference"].gradient(q)
            if np.any(np.abs(q.value) > _LARGEST) or q.ties:
                return None
            try:
                found = MODES["certified"].gradient(q)
            except GradcliError:
                return None
    except (GradcliError, ValueError, ArithmeticError, IndexError, TypeError, OverflowError, np.linalg.LinAlgError):
        return None
    finite = all(np.all(np.isfinite(x)) and np.all(np.abs(x) < _LARGEST) for x in found.value.values())
    return found if finite else None


def _apart(claimed: Estimate, right: Estimate) -> bool:
    """Whether the claim differs from the right gradient by more than a right one can."""
    for name, x in claimed.value.items():
        with np.errstate(all="ignore"):
            room = np.asarray(claimed.bound[name]) + np.asarray(right.bound[name]) + _TINY
            if shape(x) != shape(right.value[name]) or np.any(np.abs(np.asarray(x) - right.value[name]) > room):
                return True
    return False


def digits_of(found: Estimate, right: Estimate) -> tuple[float, str]:
    """Return the right digits in the worst entry of a gradient, as far as the right one is known, and this entry's input."""
    worst, at = FULL, ""
    for name, x in found.value.items():
        if shape(x) != shape(right.value[name]):
            return 0.0, name
        digits = right_digits(x, right.value[name], right.bound[name])
        if digits < worst:
            worst, at = digits, name
    return worst, at


def right_digits(x: Any, right: Any, bound: Any = 0.0) -> float:
    """Return how many digits of an array are right in its worst entry; the right one is known to the bound."""
    right = np.asarray(right)
    with np.errstate(all="ignore"):
        error = np.abs(np.asarray(x) - right) - np.asarray(bound)
        relative = np.where(error > _TINY, error / np.abs(right), 0.0)
        relative = np.where(np.isfinite(np.asarray(x)) & np.isfinite(relative), relative, 1.0)
    most = float(np.max(relative, initial=0.0))
    return FULL if most <= EPS else FULL - float(np.clip(FULL + np.log10(most), 0.0, FULL))


def given_digits(q: Question, right: Estimate) -> float:
    """Return the digits of the right gradient that inputs leave which are known to a rounding."""
    other = right_gradient(replace(q, point=Point(moved(q))))
    if other is None:
        return 0.0
    return min((left_digits(x, other.value[name]) for name, x in right.value.items()), default=FULL)


def moved(q: Question) -> dict[str, Any]:
    """Return the values of a point with every input moved by some roundings, which `left_digits` takes into account."""
    rng = np.random.default_rng(q.seed)
    made = dict(q.point.values)
    for name in q.wrt:
        x = np.asarray(made[name], dtype=float)
        made[name] = (x * (1 + _GROWN * EPS * rng.uniform(-1.0, 1.0, x.shape)))[()]
    return made


def left_digits(x: Any, other: Any) -> float:
    """Return the digits that one rounding of the inputs leaves of an array that becomes `other` where they are `moved`."""
    with np.errstate(all="ignore"):
        change = np.abs(np.asarray(other) - np.asarray(x)) / np.abs(np.asarray(x))
    worst = float(np.max(np.where(np.isfinite(change), change, 0.0), initial=0.0))
    return FULL if worst == 0.0 else FULL - float(np.clip(FULL + np.log10(worst / _GROWN), 0.0, FULL))
