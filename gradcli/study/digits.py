"""Count the right digits of an estimate, as far as the accuracy of the reference allows."""

from typing import Any

import numpy as np

from gradcli.core.shapes import shape
from gradcli.modes.mode import Question
from gradcli.point import Estimate
from gradcli.reports.absent import ABSENT, Absent
from gradcli.reports.compare_rows import EXACT, RightDigits

FULL = 16.0  # digits of a float64
_RESOLVED = 0.1  # times an error: a reference with a smaller bound measures this error


def right_digits(q: Question, estimate: Estimate, right: Estimate, *, own: bool = True) -> RightDigits | Absent:
    """Return the number of right digits of an estimate, in the worst and in the median entry.

    If the reference is not known better than the two differ, the number is a lower bound: from the difference plus the
    reference's bound or, if `own` is set and it gives more digits, from the estimate's own bound.

    Units  decimal digits, relative to the size of each reference entry.
    """
    if estimate is right:
        digits = each(q, right, right, lambda name: _by_bound(right.value[name], right.bound[name]))
        return _summary(digits if right.proved else np.clip(digits, 0.0, FULL), at_least=not right.proved)
    digits = each(q, estimate, right, lambda name: _digits(estimate, right, name, own))
    lower = each(q, estimate, right, lambda name: _is_lower(estimate, right, name)).astype(bool)
    return _summary(digits, at_least=bool(np.any(lower & (digits < FULL))))


def digits_against(x: Any, reference: Any, bound: Any) -> tuple[Any, Any]:
    """Return the number of right digits of each entry, and a mask of the entries where it is only a lower bound.

    Shapes  all arguments and both results have the same shape.
    Units   decimal digits relative to the reference, whose error is at most `bound`.
    """
    error, room = _relative(x, reference, bound)
    with np.errstate(all="ignore"):
        lower = ~(room <= _RESOLVED * error)
        digits = -np.log10(np.where(lower, error + room, error))
    digits = np.where(np.isnan(digits), 0.0, np.clip(digits, 0.0, FULL) + 0.0)
    return digits, lower & (digits < FULL)


def each(q: Question, estimate: Estimate, right: Estimate, measure: Any) -> Any:
    """Return `measure` of every entry, as one vector; entries that a kink or a staircase leaves undecided are left out."""
    found = [
        np.ravel(measure(name))[~np.ravel(np.broadcast_to(open_, shape(right.value[name])))]
        for name, open_ in zip(q.wrt, q.undecided, strict=True)
        if name in estimate.value and name in right.value
    ]
    return np.concatenate(found) if found else np.zeros(0)


def _digits(estimate: Estimate, right: Estimate, name: str, own: bool) -> Any:
    x, reference, bound = estimate.value[name], right.value[name], right.bound[name]
    digits, lower = digits_against(x, reference, bound)
    if not own:
        return digits
    error, room = _relative(x, reference, bound)
    _, claimed = _relative(x, reference, estimate.bound[name])
    with np.errstate(all="ignore"):
        better = lower & (error <= room + claimed)  # the estimate's bound is not violated
        by_own = np.clip(-np.log10(claimed), 0.0, FULL)
    return np.where(better & (by_own > digits), by_own, digits)


def _is_lower(estimate: Estimate, right: Estimate, name: str) -> Any:
    return digits_against(estimate.value[name], right.value[name], right.bound[name])[1]


def _relative(x: Any, reference: Any, bound: Any) -> tuple[Any, Any]:
    """Return the distance of two values, and a bound, both relative to the reference."""
    reference = np.asarray(reference, dtype=float)
    scale = np.where(reference == 0, 1.0, np.abs(reference))
    with np.errstate(all="ignore"):
        return np.abs(np.asarray(x, dtype=float) - reference) / scale, np.asarray(bound, dtype=float) / scale


def _by_bound(value: Any, bound: Any) -> Any:
    scale = np.where(np.asarray(value) == 0, 1.0, np.abs(value))
    return np.where(np.asarray(bound) == 0, EXACT, -np.log10(np.where(np.asarray(bound) == 0, 1.0, bound) / scale))


def _summary(digits: Any, at_least: bool) -> RightDigits | Absent:
    if not digits.size:
        return ABSENT
    return RightDigits(float(np.min(digits)), float(np.median(digits)), at_least or ABSENT)
