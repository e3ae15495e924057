"""`check`: is the gradient right, and how small an error would have been seen?"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gradcli.checks.budget import FEWEST, CauseBudget
from gradcli.checks.causes import Cause, PointResult, Verified, calls_of, cause_at, with_causes, within_time
from gradcli.checks.decide import decide
from gradcli.checks.environment import environment
from gradcli.checks.evidence import EvidenceKind, Outcome
from gradcli.checks.examine import examined
from gradcli.checks.findings_at_point import add_claim, compare_all, place_findings
from gradcli.checks.kernel_scenarios import compared
from gradcli.checks.memory import admit_inputs, admit_recording
from gradcli.checks.more_evidence import ALONE, evidence_of, with_evidence
from gradcli.checks.narrow_formats import format_evidence
from gradcli.checks.point_check import PointCheck
from gradcli.checks.point_reports import report_of, unfinished
from gradcli.checks.projection import projected
from gradcli.checks.request import Request
from gradcli.checks.run_modes import missing, reference_of, run
from gradcli.checks.second_order import asymmetry, by_values, first_order
from gradcli.checks.shared_state import in_turn
from gradcli.errors import FunctionFailed, TraceEnded
from gradcli.modes.claim import Claimed
from gradcli.modes.mode import Question
from gradcli.modes.registry import FRAMEWORKS, MODES
from gradcli.modes.solver_changes import smaller_tolerances, solvers_of
from gradcli.modes.trace_test import TraceTest
from gradcli.report.absent import ABSENT, Absent
from gradcli.report.check import CheckReport
from gradcli.report.common import Finding, SourceLine, Target, finding
from gradcli.report.native import NativeReport
from gradcli.report.point_report import NO_SIZE, Detects, PointReport, UnresolvedEntries
from gradcli.request.point import Point
from gradcli.targets.derived import root_of
from gradcli.words import OUTLINE, Derivative, Exit, Kind, Severity, Verdict, worst

Progress = Callable[
    [int, PointReport | CheckReport], None
]  # the number of a point and its report; OUTLINE and the whole
_STATUS = {Verdict.PASS: Exit.CONFIRMED, Verdict.FAIL: Exit.WRONG, Verdict.INCONCLUSIVE: Exit.INCONCLUSIVE}


@dataclass(frozen=True, slots=True)
class Answers:
    """The question at the first point, and the outcomes of modes that have already run there."""

    q: Question
    outcomes: Mapping[str, Outcome]


def check(request: Request, progress: Progress | None = None, answers: Answers | None = None) -> CheckReport:
    """Verify the gradient at each point, look for the cause of what is wrong, and return a report of everything that was found.

    As `verify`, which see.
    """
    verified = verify(request, progress, answers)
    budget = CauseBudget(verified.calls)
    return within_time(with_causes(verified, budget), budget)


def verify(request: Request, progress: Progress | None = None, answers: Answers | None = None) -> Verified:
    """Verify the gradient at each point and return a report with the verdict; causes are yet to be looked for.

    `progress` is called with the number of a point and its report so far, after each mode, and before with OUTLINE and a
    report that says what is checked. Modes that are among the
    `answers` are not run again at the first point.

    Raises  GradcliError if the function cannot be evaluated at a point, or the claim cannot be called.
    """
    if progress is not None:
        progress(OUTLINE, _outline(request))
    if solvers_of(request.f):
        answers = None  # they were given with the user's own tolerances
    with smaller_tolerances(request.f), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # numpy warns of places that differences try outside the domain
        request = with_values_at_smaller_tolerances(request)
        results = _results(request, progress, answers)
        open_ = any(result.report.verdict != Verdict.PASS for result in results)
        turned = in_turn(request) if open_ else None
        if turned is not None:
            request, results = turned, _results(turned, progress, None)
    points = tuple(result.report for result in results)
    report = replace(
        _outline(request),
        detects=_detects(points),
        points=points,
        environment=environment(_frameworks(points)),
        derivative=_named(request, points),
        native=ABSENT,
        on={name: surface.name for name, surface in request.surfaces.items()} or ABSENT,
    )
    report = _with_verdict(request, report)
    inner: dict[int, Cause] = {}
    if request.own is not None:
        report, inner = examined(request, report, request.own, verify)
        report = _with_verdict(request, report)
    if request.implementation is not None:
        report = compared(request, report)
    causes = {number: result.cause for number, result in enumerate(results) if result.cause is not None}
    return Verified(report, causes, inner, max((result.calls for result in results), default=0))


def _outline(request: Request) -> CheckReport:
    """Return a report that says what is checked, before anything is found."""
    native = None if request.own is None else request.own.native
    return CheckReport(
        target=Target(
            request.f.kind, request.implementation.text if request.implementation else root_of(request.f).text
        ),
        claim=request.claim.text if request.claim else None,
        seed=request.seed, command=request.command, exit_status=int(Exit.INCONCLUSIVE), verdict=Verdict.INCONCLUSIVE,
        detects=NO_SIZE, points=(), environment={}, derivative=request.derivative, claimed_at=_claimed_at(request.claim),
        native=ABSENT if native is None else NativeReport(native.framework.name, "", native.placed.device, native.placed.dtype),
    )  # fmt: skip


def _with_verdict(request: Request, report: CheckReport) -> CheckReport:
    """Return the report with the verdict that follows from those on its points, and the exit status."""
    points = report.points
    status = worst(_STATUS[point.verdict] for point in points)
    verdict = next(word for word, exit_ in _STATUS.items() if exit_ == status)
    exit_status = int(worst([Exit(_excused(request, status, points)), *_unmet(points)]))
    return replace(report, verdict=verdict, exit_status=exit_status)


def _results(request: Request, progress: Progress | None, answers: Answers | None) -> list[PointResult]:
    return [
        _report_progress(_steady_point(request, point, k, progress, None if k else answers), k, progress)
        for k, point in enumerate(request.points)
    ]


def with_values_at_smaller_tolerances(request: Request) -> Request:
    """Return the request with the values of f that smaller tolerances of its solvers give, beside the user's own."""
    if not solvers_of(request.f):
        return request
    points = (
        point
        if point.value is None or point.own_value is not None
        else replace(point, value=np.asarray(request.f(point.values), dtype=float)[()], own_value=point.value)
        for point in request.points
    )
    return replace(request, points=tuple(points))


def _claimed_at(claim: Claimed | None) -> SourceLine | Absent:
    place = None if claim is None else claim.place
    return ABSENT if place is None else SourceLine(place.file, place.line, place.source)


def _detects(points: Sequence[PointReport]) -> Detects:
    """Return the detection limit of the point where it is largest, with the entries of all points that were not resolved."""
    every = [point.detects for point in points]
    unresolved = [detects.unresolved for detects in every if isinstance(detects.unresolved, UnresolvedEntries)]
    most = max(unresolved, key=lambda entries: (entries.count, entries.below), default=ABSENT)
    return replace(max(every, key=_least_seen), unresolved=most)


def _least_seen(detects: Detects) -> tuple[float, float]:
    """Return the key that orders detection limits: the relative limit, then the absolute one; None sorts first."""
    relative, absolute = (x if isinstance(x, float) else -1.0 for x in (detects.relative, detects.absolute))
    return relative, absolute


def _unmet(points: Sequence[PointReport]) -> list[Exit]:
    """Return the exit status of modes that were requested by name but are not installed."""
    states = {result.status for point in points for result in point.modes.values()}
    return [Exit.UNUSABLE] if "unavailable" in states else []


def _frameworks(points: Sequence[PointReport]) -> tuple[str, ...]:
    return tuple(name for name in FRAMEWORKS if any(name in p.modes and p.modes[name].status == "ok" for p in points))


def _report_progress(result: PointResult, number: int, progress: Progress | None) -> PointResult:
    if progress is not None:
        progress(number, result.report)
    return result


def _named(request: Request, points: Sequence[PointReport]) -> Derivative:
    """Return the name of the derivative that is checked; the gradient of a function with array values is a Jacobian."""
    vector = request.derivative == "gradient" and any(
        not isinstance(point.value, Absent) and np.ndim(point.value) > 0 for point in points
    )
    return "Jacobian" if vector else request.derivative


def _excused(request: Request, status: Exit, points: Sequence[PointReport]) -> int:
    """Return the exit status after `--allow`: findings that it names count as success; a timeout must be named."""
    if status is not Exit.INCONCLUSIVE:
        return int(status)
    kinds = {f.kind for point in points for f in point.findings if f.severity == Severity.INCONCLUSIVE}
    excused = kinds <= request.allow or (request.allow_inconclusive and Kind.TIMEOUT not in kinds)
    return int(Exit.CONFIRMED if kinds and excused else status)


def _steady_point(
    request: Request, point: Point, number: int, progress: Progress | None, answers: Answers | None
) -> PointResult:
    """Check one point; inconclusive if f had a value there first and raises in a later call, since it then keeps state."""
    try:
        return _point(request, point, number, progress, answers)
    except (FunctionFailed, TraceEnded) as error:
        if point.value is None:
            raise
        case = _noticed(PointCheck(replace(request.question(point), blind=error), {}, None, request.fixed), request)
        says = f"the function had a value at this point, but a later call fails: {error.what}"
        case.inconclusive(Kind.EARLIER_CALLS, says, at=error.where, hint=ALONE)
        return _decided(case, request)


def _point(
    request: Request, point: Point, number: int, progress: Progress | None, answers: Answers | None = None
) -> PointResult:
    """Check one point by all modes, or by function values alone if the trace turns out to differ from the function."""
    q = answers.q if answers else request.question(point)
    if any(notice.kind == Kind.NOT_DETERMINISTIC for notice in point.notices):
        return _decided(_noticed(PointCheck(q, {}, None, request.fixed), request), request)
    heard = None if progress is None else lambda report: progress(number, report)
    admit_inputs(q)
    admit_recording(q)
    if request.claim is not None:
        known, q = q, q.by_values_at_infinite_slopes()
        answers = answers if q is known else None
    try:
        return _by_modes(request, q, heard, answers)
    except _NotTheFunction as error:
        return _by_modes(request, q.unbelieved(error.why, error.test), heard)


class _NotTheFunction(Exception):
    """The trace differs from the function: `why` in words, and the trace test that showed it, if one did."""

    def __init__(self, why: str, test: TraceTest | None = None) -> None:
        super().__init__(why)
        self.why, self.test = why, test


def _by_modes(
    request: Request, q: Question, heard: Callable[[PointReport], None] | None, answers: Answers | None = None
) -> PointResult:
    """Run the modes at one point, and decide. Raises _NotTheFunction if the trace differs from the function."""
    claim, said = request.claim, []
    blind = q.blind is not None
    if not q.affords_slopes:
        q, claim, projection = projected(q, claim)
        said, answers = [projection], None
    q.prepare()
    if not blind and q.by_convention:
        raise _NotTheFunction("f is smooth where an operation has a tie, and the rules give another slope there")
    so_far = None if heard is None else lambda outcomes: heard(unfinished(q, outcomes))
    if so_far is not None:
        so_far({})
    modes = [MODES[name] for name in request.modes]
    outcomes = run(q, modes, so_far, answers.outcomes if answers else {}, claimed=claim is not None)
    if q.trace_test.agrees is False and not blind:
        raise _NotTheFunction(f"the trace differs from the function: {q.trace_test.why}", q.trace_test)
    case = PointCheck(
        q, outcomes, reference_of(outcomes), request.fixed, findings=[*said, *missing(outcomes)],
        not_claimed=request.not_claimed, claim=claim,
    )  # fmt: skip
    place_findings(_noticed(case, request))
    case.findings += _first_order(request, q)
    if claim is not None:
        add_claim(case, claim)
    compare_all(case)
    case.findings += _about_hessians(case)
    return _decided(case, request)


def _decided(case: PointCheck, request: Request) -> PointResult:
    """Return the report of a point, after gathering all evidence that its verdict depends on."""
    seen = evidence_of(case, request)
    wide: list[Verified] = []

    def verify_wide(wider: Request) -> CheckReport:
        wide.append(verify(wider))
        return wide[-1].report

    while isinstance(decision := decide(seen), EvidenceKind):
        if decision is EvidenceKind.VALUES_ALONE:
            raise _NotTheFunction("the trace differs from the function")
        if decision is EvidenceKind.FORMAT:
            seen = replace(seen, format=format_evidence(case, seen, request, verify_wide))
        else:
            seen = with_evidence(case, seen, decision)
    report = report_of(case.q, seen, decision, case.not_claimed)
    if not decision.unexplained:
        return PointResult(report, calls=calls_of(case) if decision.verdict == Verdict.FAIL else 0)
    return PointResult(report, cause_at(case, seen, wide[-1].first_cause if wide else None), calls_of(case))


def _first_order(request: Request, q: Question) -> list[Finding]:
    """Return a finding that says whether the gradient that is differentiated is itself right, if one is."""

    def checked(inner: Question, claim: Claimed | None) -> PointReport:
        alone = replace(request, f=inner.f, wrt=inner.wrt, claim=claim, notices=(), not_claimed=())
        found = _point(alone, inner.point, 0, None)
        why = None if found.cause is None else found.cause(CauseBudget(FEWEST))
        return found.report if why is None else replace(found.report, diagnosis=why)

    confirmed = first_order(q, checked)
    return [confirmed] if confirmed else []


def _noticed(case: PointCheck, request: Request) -> PointCheck:
    """Add the notices from the first calls of the function to the findings, and return the same evidence."""
    for notice in (*request.notices, *case.q.point.notices):
        case.findings.append(finding(notice.kind, notice.severity, notice.message, at=notice.at, hint=notice.hint))
    return case


def _about_hessians(case: PointCheck) -> list[Finding]:
    claim = case.outcomes["claim"].estimate if "claim" in case.outcomes else None
    found = [asymmetry(case.q, claim.value) if claim else None]
    found += [by_values(case.q, case.estimate(case.reference))] if case.reference is not None else []
    return [f for f in found if f is not None]
