"""The cause of a FAIL, looked for once the verdict is decided, within one budget."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from gradcli.checks.budget import CauseBudget, calls_for
from gradcli.checks.decide import entries_to_explain
from gradcli.checks.diagnose import diagnose
from gradcli.checks.entries import allowed
from gradcli.checks.evidence import Evidence
from gradcli.checks.other_inputs import wrong_at_other_inputs
from gradcli.checks.point_check import PointCheck
from gradcli.checks.screened import mistake_in_projections
from gradcli.checks.wrong import Wrong
from gradcli.modes.solver_changes import smaller_tolerances
from gradcli.report.check import CheckReport
from gradcli.report.common import finding
from gradcli.report.native import NativeReport
from gradcli.report.point_report import Diagnosis, PointReport
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
