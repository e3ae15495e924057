"""How many digits of an estimate are right, as far as what it is measured against tells."""

from typing import Any

import numpy as np

from gradcli.core.shapes import shape
from gradcli.modes.mode import Question
from gradcli.point import Estimate
from gradcli.reports.compare_rows import EXACT, RightDigits
from gradcli.reports.encode import ABSENT, Absent

FULL = 16.0  # digits of a float64
_RESOLVED = 0.1  # of an error: a reference whose bound is smaller measures it


def right_digits(q: Question, estimate: Estimate, right: Estimate, *, own: bool = True) -> RightDigits | Absent:
    """Return the digits of an estimate that are right, in the worst and in the median entry.

    Against a reference that is known no better than the two differ they are a lower bound: that of the difference and
    the reference's bound together or, where that says more and `own` lets it, that of the estimate's own bound.
    """
    if estimate is right:
        digits = each(q, right, right, lambda name: _by_bound(right.value[name], right.bound[name]))
        return _summary(digits if right.proved else np.clip(digits, 0.0, FULL), at_least=not right.proved)
    digits = each(q, estimate, right, lambda name: _digits(estimate, right, name, own))
    lower = each(q, estimate, right, lambda name: _is_lower(estimate, right, name)).astype(bool)
    return _summary(digits, at_least=bool(np.any(lower & (digits < FULL))))


def digits_against(x: Any, reference: Any, bound: Any) -> tuple[Any, Any]:
    """Return how many digits of each entry are right, and where that is only a lower bound.

    They count from the size of the reference's entry, whose error is at most `bound`.
    """
    error, room = _relative(x, reference, bound)
    with np.errstate(all="ignore"):
        lower = ~(room <= _RESOLVED * error)
        digits = -np.log10(np.where(lower, error + room, error))
    digits = np.where(np.isnan(digits), 0.0, np.clip(digits, 0.0, FULL) + 0.0)
    return digits, lower & (digits < FULL)


def each(q: Question, estimate: Estimate, right: Estimate, measure: Any) -> Any:
    """Return a measure of every entry whose derivative no kink and no staircase leaves open."""
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
        better = lower & (error <= room + claimed)  # the bound was not seen to fail
        by_own = np.clip(-np.log10(claimed), 0.0, FULL)
    return np.where(better & (by_own > digits), by_own, digits)


def _is_lower(estimate: Estimate, right: Estimate, name: str) -> Any:
    return digits_against(estimate.value[name], right.value[name], right.bound[name])[1]


def _relative(x: Any, reference: Any, bound: Any) -> tuple[Any, Any]:
    """Return how far apart two values are and how wide a bound is, in units of the reference's entry."""
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
