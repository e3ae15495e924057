"""The cause of a FAIL, looked for once the verdict is decided, within one budget."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gradcli.checks.decide import entries_to_explain
from gradcli.checks.diagnose import diagnose
from gradcli.checks.evidence import Evidence, allowed
from gradcli.checks.run_modes import PointCheck
from gradcli.checks.screened import mistake_in_projections
from gradcli.checks.witness import directional
from gradcli.checks.wrong import CauseBudget, Wrong, calls_for
from gradcli.errors import GradcliError
from gradcli.modes.claim import GRANT, Claimed, in_shape
from gradcli.modes.mode import Question
from gradcli.modes.redraw import redraw_inputs
from gradcli.modes.registry import MODES
from gradcli.modes.rounding import EPS
from gradcli.modes.solver_changes import smaller_tolerances
from gradcli.report.check import CheckReport
from gradcli.report.common import finding
from gradcli.report.native import NativeReport
from gradcli.report.point_report import Diagnosis, PointReport
from gradcli.request.point import Estimate, Point
from gradcli.targets.derived import STEP
from gradcli.tracing.shapes import shape, size
from gradcli.words import OF_SHAPE, DiagnosisKind, Kind, Severity, Verdict

Cause = Callable[[CauseBudget], Diagnosis | None]  # looks for the likely mistake


@dataclass(frozen=True, slots=True)
class PointResult:
    """The report of one point, how the cause of its FAIL is looked for, and how many calls of f that may take."""

    report: PointReport
    cause: Cause | None = None
    calls: int = 0


@dataclass(frozen=True, slots=True)
class Verified:
    """A report whose verdict is decided, and how the causes of what is wrong are looked for.

    `causes` is by the number of a point, `inner_causes` by the number of a custom gradient inside the function.
    """

    report: CheckReport
    causes: Mapping[int, Cause] = field(default_factory=dict)
    inner_causes: Mapping[int, Cause] = field(default_factory=dict)
    calls: int = 0

    @property
    def first_cause(self) -> Cause | None:
        """How the cause at the first wrong point is looked for."""
        return next(iter(self.causes.values()), None)


# A wrong claim at points where all inputs are drawn anew, where a name of its mistake has to hold, too.

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


def cause_at(case: PointCheck, seen: Evidence, in_wider_format: Cause | None) -> Cause:
    """Return how the cause of a wrong claim at one point is looked for.

    `in_wider_format` looks at the same gradient in a wider format, where that alone shows the mistake.
    """

    def look(budget: CauseBudget) -> Diagnosis | None:
        with smaller_tolerances(case.q.f):
            return explain(budget)

    def explain(budget: CauseBudget) -> Diagnosis | None:
        if seen.needs_projections:
            return mistake_in_projections(case, seen.projections, budget)
        masks = entries_to_explain(seen)
        if not any(np.any(mask) for mask in masks.values()):
            return None if in_wider_format is None else in_wider_format(budget)
        claim, right = seen.estimate("claim"), seen.estimate(str(seen.reference))
        room = {name: np.asarray(allowed(claim, right, name, seen.tolerance)) for name in masks}
        claimed, known = ({n: estimate.value[n] for n in masks} for estimate in (claim, right))
        confirms = case.claim is not None and budget.left > 0  # a name has to hold at other inputs, too
        elsewhere = wrong_at_other_inputs(case.q, case.claim, budget) if confirms and case.claim is not None else ()
        return diagnose(Wrong(case.q, claimed, known, masks, room, budget=budget), elsewhere)

    return look


def calls_of(case: PointCheck) -> int:
    """Return how many calls the search for a cause may take, from the calls that the modes took at a point."""
    estimates = [outcome.estimate for outcome in case.outcomes.values() if outcome.estimate is not None]
    evaluations = sum(estimate.cost.evaluations for estimate in estimates)
    return calls_for(evaluations, case.q.operations if case.q.untraced is None else None)


def with_causes(verified: Verified, budget: CauseBudget) -> CheckReport:
    """Return the report with the likely mistake at each wrong point, and in each wrong custom gradient."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", RuntimeWarning
        )  # of points outside the domain, and of formats that are too narrow
        found = {number: cause(budget) for number, cause in verified.causes.items()}
        inner = {number: cause(budget) for number, cause in verified.inner_causes.items()}
    report = verified.report
    points = list(report.points)
    for number, diagnosis in found.items():
        points[number] = replace(points[number], diagnosis=diagnosis)
    native = report.native
    if isinstance(native, NativeReport):
        parts = list(native.parts)
        for number, diagnosis in inner.items():
            if diagnosis is not None and diagnosis.kind is not DiagnosisKind.UNKNOWN:
                parts[number] = replace(parts[number], message=diagnosis.message)
        native = replace(native, parts=tuple(parts))
    return replace(report, points=tuple(points), native=native)


def within_time(report: CheckReport, budget: CauseBudget) -> CheckReport:
    """Return the report; without a cause, and with a finding that says so, if the time limit of the search was reached."""
    if not budget.late:
        return report
    says = "the search for the cause reached its time limit, so that no cause is shown"
    late = finding(Kind.TIMEOUT, Severity.INFO, says, hint="--diagnose TIME sets another limit")

    def at(point: PointReport) -> PointReport:
        known = point.diagnosis is not None and point.diagnosis.kind in OF_SHAPE
        kept = point.diagnosis if known and point.diagnosis is not None else None
        wrong = point.verdict == Verdict.FAIL
        return replace(point, diagnosis=kept, findings=(*point.findings, late) if wrong else point.findings)

    return replace(report, points=tuple(at(point) for point in report.points))
