"""A wrong claim at points where all inputs are drawn anew, where a name of its mistake has to hold, too."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from gradcli.checks.budget import CauseBudget
from gradcli.checks.witness import directional
from gradcli.checks.wrong import Wrong
from gradcli.errors import GradcliError
from gradcli.modes.claim import GRANT, Claimed, in_shape
from gradcli.modes.mode import Question
from gradcli.modes.redraw import redraw_inputs
from gradcli.modes.registry import MODES
from gradcli.modes.rounding import EPS
from gradcli.request.point import Estimate, Point
from gradcli.targets.derived import STEP
from gradcli.tracing.shapes import shape, size

REDRAWN = 3  # points
_DRAWS = 2  # for each of them, until one is smooth
_MOST_ENTRIES = 2_000  # of a gradient or Jacobian
_CALLS = 9  # of f and of the claim, beside a sweep for each output
_SAME = 1e-9  # relative to each entry: a slip is never so small
_FAILURES = (GradcliError, ValueError, ArithmeticError, IndexError, TypeError, np.linalg.LinAlgError)


def confirmed_gradient(q: Question) -> Estimate | None:
    """Return the gradient by the reverse mode, confirmed by a difference along a random direction; else by differences.

    None where f has no finite gradient, or nothing can say what it is.

    Cost  one reverse sweep for each output, and about seven evaluations of f; without a trace, the differences of all entries.
    """
    if not np.all(np.isfinite(q.value)) or (q.untraced is None and (q.kinks or q.not_finite is not None)):
        return None
    for name in ("reverse", "finite-difference"):
        try:
            estimate = MODES[name].gradient(q)
            if name != "reverse" or directional(q, estimate).agrees:
                return estimate
        except GradcliError:
            continue
    return None


def wrong_at_other_inputs(q: Question, claim: Claimed, budget: CauseBudget) -> Iterator[Wrong]:
    """Yield the claim with the right gradient at up to three points with all inputs drawn anew, where it is wrong there, too.

    A claim that is the same there, as numbers that were recorded or typed are, says nothing about other points. Raises
    BudgetSpent.
    """
    if size(q.value) * q.entries > _MOST_ENTRIES or q.untraced is not None:
        return
    rng = np.random.default_rng([q.seed, 0x9E9A4])
    given = claim(q.point.values)
    fixed = {STEP, *getattr(claim, "sizes", {})}
    drawn = {name: x for name, x in q.point.values.items() if name not in fixed}
    for _ in range(REDRAWN):
        wrong = None
        for _ in range(_DRAWS):
            values = {**q.point.values, **redraw_inputs(drawn, q.wrt, rng)}
            budget.spend(_CALLS + size(q.value))
            wrong = _wrong_at(replace(q.point, values=values, value=None), q, claim, budget)
            if wrong is not None:
                break
        if wrong is None:
            continue
        if all(np.array_equal(x, given[n], equal_nan=True) for n, x in wrong.claimed.items()):
            return
        if wrong.count:
            yield wrong


def _wrong_at(point: Point, q: Question, claim: Claimed, budget: CauseBudget) -> Wrong | None:
    """Return the claim and the right gradient at a point; None where there is none of them."""
    other = Question(q.f, point, q.wrt, q.seed, q.budget, q.stepping, q.device)
    try:
        with np.errstate(all="ignore"):
            estimate = confirmed_gradient(other)
            if estimate is None:
                return None
            given = claim({n: np.array(x) if isinstance(x, np.ndarray) else x for n, x in point.values.items()})
            made = {n: in_shape(n, x, shape(other.value), shape(point.values[n])) for n, x in given.items()}
    except _FAILURES:
        return None
    right = {n: np.asarray(estimate.value[n]) for n in made}
    rounding = GRANT * EPS * claim.precision.coarseness()
    room: dict[str, Any] = {n: estimate.bound[n] + rounding * (np.abs(x) + _largest(x)) for n, x in right.items()}
    masks = {n: ~(np.abs(made[n] - x) <= room[n] + _SAME * np.abs(x)) for n, x in right.items()}
    return Wrong(other, made, right, masks, room, budget=budget)


def _largest(x: Any) -> float:
    return float(np.max(np.abs(x), initial=0.0))
