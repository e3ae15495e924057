"""Gather the evidence for the verdict: what the modes give at once, and what costs more, only when the verdict needs it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.checks.blame import hits_a_kink, wrong_rule
from gradcli.checks.evidence import Cause, Evidence, EvidenceKind, Pieces, RepeatedCall, TraceComparison
from gradcli.checks.findings_at_point import claim_again
from gradcli.checks.mutate import plant_mistakes
from gradcli.checks.point_check import PointCheck
from gradcli.checks.request import Request
from gradcli.checks.scales import scale_findings
from gradcli.checks.screened import applies, projections
from gradcli.checks.structure import sets_left
from gradcli.checks.subgradient import hull
from gradcli.checks.witness import directional
from gradcli.errors import TraceEnded
from gradcli.modes.mode import Question
from gradcli.modes.problem import Effort
from gradcli.modes.solver_changes import solvers_of
from gradcli.report.common import finding
from gradcli.tracing.provenance import WRITTEN, place
from gradcli.words import Kind, Severity

ALONE = "let it depend on its arguments alone"


def evidence_of(case: PointCheck, request: Request) -> Evidence:
    """Return the evidence that is available once the modes have run and been compared."""
    q = case.q
    ran = bool(case.outcomes)
    return Evidence(
        inputs=q.wrt, outcomes=case.outcomes, reference=case.reference, agreement=case.agreement, claimed=case.claimed,
        findings=tuple(case.findings), wrong_shape=case.wrong_shape, tolerance=case.fixed,
        undecided=dict(zip(q.wrt, q.undecided, strict=True)) if case.reference is not None else {},
        scale_findings=tuple(scale_findings(case)), trace=_trace_comparison(q) if ran else TraceComparison(),
        untraced=q.untraced, solvers=_solvers_that_count(case),
        written_as_text=bool(WRITTEN),
        may_retry_without_trace=q.blind is None and "finite-difference" in request.modes and ran,
        sets_left=sets_left(case), may_keep_state=q.f.kind == "python", wants_mutants=request.mutate,
        needs_projections=ran and applies(case),
    )  # fmt: skip


def _solvers_that_count(case: PointCheck) -> tuple[str, ...]:
    """Return the solvers in f with their tolerances, if smaller ones change a derivative."""
    estimates = [outcome.estimate for outcome in case.outcomes.values() if outcome.estimate is not None]
    changed = any(np.any(np.asarray(x) > 0) for estimate in estimates for x in estimate.solvers.values())
    return solvers_of(case.q.f) if changed else ()


def _trace_comparison(q: Question) -> TraceComparison:
    test = q.trace_test
    return TraceComparison(test.agrees, test.detects, test.why, test.evaluations)


def with_evidence(case: PointCheck, seen: Evidence, kind: EvidenceKind) -> Evidence:
    """Return the evidence with the field that `kind` names filled in."""
    return seen.with_gathered(kind, _GATHER[kind](case, seen))


def _wants_balls(case: PointCheck) -> bool:
    """Whether the user named the certified mode, and it was not run."""
    named = case.q.budget.effort is Effort.NAMED
    return named and "certified" in case.outcomes and case.outcomes["certified"].status == "not run"


def _blame(case: PointCheck, seen: Evidence) -> Cause:
    wrong = wrong_rule(case.q)
    if wrong is None:
        return Cause(operation_at_kink=hits_a_kink(case.q))
    return Cause(wrong[0].name, place(wrong[1]))


def _function_again(case: PointCheck, seen: Evidence) -> RepeatedCall:
    """Return a finding if a Python function returns a different value when called again, or a value stored in an earlier call."""
    q = case.q
    try:
        if np.array_equal(np.asarray(q.near(*q.xs)), np.asarray(q.value), equal_nan=True):
            return RepeatedCall()
        says = (
            "the function's value at this point has changed since the first call: the function or the claim keeps state"
        )
    except TraceEnded:
        says = "the function returns a value that it stored in an earlier call"
    return RepeatedCall(finding(Kind.EARLIER_CALLS, Severity.INCONCLUSIVE, says, hint=ALONE))


_GATHER: dict[EvidenceKind, Callable[[PointCheck, Evidence], Any]] = {
    EvidenceKind.DIRECTION: lambda case, seen: directional(
        case.q, seen.estimate(str(seen.reference)), _wants_balls(case)
    ),
    EvidenceKind.BLAME: _blame,
    EvidenceKind.CLAIM_AGAIN: lambda case, seen: RepeatedCall(claim_again(case)),
    EvidenceKind.PIECES: lambda case, seen: Pieces(hull(case.q, seen.estimate("claim"))),
    EvidenceKind.FUNCTION_AGAIN: _function_again,
    EvidenceKind.MUTANTS: plant_mistakes,
    EvidenceKind.PROJECTIONS: lambda case, seen: projections(case),
}
