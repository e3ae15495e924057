"""`check`: is the gradient right, and how small an error would have been seen?"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcli.core.provenance import WRITTEN
from gradcli.core.shapes import shape
from gradcli.errors import FunctionFailed, TraceEnded
from gradcli.modes.mode import Question
from gradcli.modes.registry import FRAMEWORKS, MODES
from gradcli.point import Point, Witness
from gradcli.report.check import CheckReport
from gradcli.report.common import Finding, Target, finding
from gradcli.report.encode import ABSENT, MAX_ENTRIES, Absent
from gradcli.report.point_report import Detects, Entries, Mismatch, ModeResult, PointReport, TraceReport
from gradcli.source.derived import STEP, root_of
from gradcli.source.outputs import named_outputs
from gradcli.verify.case import Case
from gradcli.verify.compare import CANNOT_TELL, DISAGREE, Outcome, allowed, missing, reference_of, run, word_of
from gradcli.verify.environment import environment
from gradcli.verify.examine import examined
from gradcli.verify.gather import add_claim, compare_all, place_findings
from gradcli.verify.mutate import mutants
from gradcli.verify.projection import projected
from gradcli.verify.request import Request
from gradcli.verify.screened import applies, by_projections
from gradcli.verify.second_order import asymmetry, by_values, first_order
from gradcli.verify.verdict import detects_of, limit_of_trace, verdict_of
from gradcli.words import Exit, Kind, Severity, Verdict, worst

Progress = Callable[[int, PointReport], None]
_ALONE = "let it depend on its arguments alone"
_STATUS = {Verdict.PASS: Exit.CONFIRMED, Verdict.FAIL: Exit.WRONG, Verdict.INCONCLUSIVE: Exit.INCONCLUSIVE}


def check(request: Request, progress: Progress | None = None) -> CheckReport:
    """Verify the gradient at each point and return everything found; `progress` hears of a point after each mode."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # numpy's advice on places that differences try
        points = tuple(
            _heard(_steady_point(request, point, k, progress), k, progress) for k, point in enumerate(request.points)
        )
    status = worst(_STATUS[point.verdict] for point in points)
    verdict = next(word for word, exit_ in _STATUS.items() if exit_ == status)
    report = CheckReport(
        target=Target(request.f.kind, root_of(request.f).text),
        claim=request.claim.text if request.claim else None,
        seed=request.seed,
        command=request.command,
        exit_status=int(worst([Exit(_excused(request, status, points)), *_unmet(points)])),
        verdict=verdict,
        detects=max((point.detects for point in points), key=lambda d: -1.0 if d.relative is None else d.relative),
        points=points,
        environment=environment(_frameworks(points)),
        derivative=_named(request, points),
    )
    return report if request.own is None else examined(request, report, request.own, check)


def _unmet(points: Sequence[PointReport]) -> list[Exit]:
    """Return the status of modes that were asked for by name and are not installed."""
    states = {result.status for point in points for result in point.modes.values()}
    return [Exit.UNUSABLE] if "unavailable" in states else []


def _frameworks(points: Sequence[PointReport]) -> tuple[str, ...]:
    return tuple(name for name in FRAMEWORKS if any(name in p.modes and p.modes[name].status == "ok" for p in points))


def _heard(point: PointReport, number: int, progress: Progress | None) -> PointReport:
    if progress is not None:
        progress(number, point)
    return point


def _named(request: Request, points: Sequence[PointReport]) -> str:
    """Return what is checked, in words: the gradient of a vector is a Jacobian."""
    vector = request.derivative == "gradient" and any(
        not isinstance(point.value, Absent) and np.ndim(point.value) > 0 for point in points
    )
    return "Jacobian" if vector else request.derivative


def _excused(request: Request, status: Exit, points: Sequence[PointReport]) -> int:
    """`--allow` turns the findings it names into success; never a timeout unless it is named."""
    if status is not Exit.INCONCLUSIVE:
        return int(status)
    kinds = {f.kind for point in points for f in point.findings if f.severity == Severity.INCONCLUSIVE}
    excused = kinds <= request.allow or (request.allow_inconclusive and Kind.TIMEOUT not in kinds)
    return int(Exit.CONFIRMED if kinds and excused else status)


def _steady_point(request: Request, point: Point, number: int, progress: Progress | None) -> PointReport:
    """Check one point; a function that gave a value there and raises in a later call keeps something of its calls."""
    try:
        return _point(request, point, number, progress)
    except (FunctionFailed, TraceEnded) as error:
        if point.value is None:
            raise
        q = Question(request.f, point, request.wrt, blind=error)
        case = _noticed(Case(q, {}, None, request.fixed), request, point)
        says = f"the function had a value at this point, and fails in a later call: {error.what}"
        case.inconclusive(Kind.EARLIER_CALLS, says, at=error.where, hint=_ALONE)
        return _report(case, Verdict.INCONCLUSIVE)


def _point(
    request: Request, point: Point, number: int, progress: Progress | None, blind: Question | None = None
) -> PointReport:
    """Judge one point; `blind` is its question for function values alone, where the trace is not the function."""
    q = blind or Question(
        request.f, point, request.wrt, request.seed, request.effort, request.mode_timeout, request.stepping
    )
    if any(notice.kind == Kind.NOT_DETERMINISTIC for notice in point.notices):
        return _report(_noticed(Case(q, {}, None, request.fixed), request, point), Verdict.INCONCLUSIVE)
    whole, claim, said = q, request.claim, []
    if not q.affords_slopes:
        q, claim, projection = projected(q, claim)
        said = [projection]
    q.prepare()
    if progress is not None:
        progress(number, _so_far(q, {}))
    modes = [MODES[name] for name in request.modes]
    outcomes = run(q, modes, None if progress is None else lambda done: progress(number, _so_far(q, done)))
    if q.trace_test.agrees is False and blind is None:
        differs = f"the trace differs from the function: {q.trace_test.why}"
        return _point(request, point, number, progress, whole.unbelieved(differs, q.trace_test))
    case = Case(
        q, outcomes, reference_of(outcomes), request.fixed, findings=[*said, *missing(outcomes)],
        not_claimed=request.not_claimed,
    )  # fmt: skip
    place_findings(_noticed(case, request, point))
    confirmed = first_order(
        q,
        lambda inner: _point(
            replace(request, f=inner.f, wrt=inner.wrt, claim=None, notices=()), inner.point, number, None
        ),
    )
    case.findings += [confirmed] if confirmed else []
    if claim is not None:
        add_claim(case, claim)
    compare_all(case)
    case.findings += _about_hessians(case)
    verdict = verdict_of(case)
    may_go_untraced = blind is None and "finite-difference" in request.modes
    if verdict == Verdict.INCONCLUSIVE and may_go_untraced and _lost_its_trace(case):
        return _point(request, point, number, progress, whole.unbelieved("the trace differs from the function"))
    if _changed(case):
        return _report(case, Verdict.INCONCLUSIVE)
    report = _with_mutants(case, verdict) if request.mutate else _report(case, verdict)
    return by_projections(case, report) if report.verdict == Verdict.INCONCLUSIVE and applies(case) else report


def _with_mutants(case: Case, verdict: Verdict) -> PointReport:
    """Return the report of a point with the mistakes that were planted; no pass where one of them was not caught."""
    planted, survived = mutants(case)
    if survived is not None:
        case.findings.append(survived)
        if verdict == Verdict.PASS and survived.severity == Severity.INCONCLUSIVE:
            verdict = Verdict.INCONCLUSIVE
    return replace(_report(case, verdict), mutants=planted)


def _changed(case: Case) -> bool:
    """Whether a Python function gives another value now than at first; what it keeps of its last call is plain again."""
    q = case.q
    if q.f.kind != "python":
        return False
    try:
        if np.array_equal(np.asarray(q.near(*q.xs)), np.asarray(q.value), equal_nan=True):
            return False
        says = "the function's value at this point has changed since the first call: it, or the claim, keeps a state"
    except TraceEnded:
        says = "the function returns a value that it kept of an earlier call"
    case.inconclusive(Kind.EARLIER_CALLS, says, hint=_ALONE)
    case.diagnosis = None
    return True


def _lost_its_trace(case: Case) -> bool:
    """Whether what was traced is not the function: its value differs, or a value went through a text and slopes differ."""
    kinds = {f.kind for f in case.findings}
    contrary = kinds & {Kind.CONTRADICTION, Kind.DISAGREEMENT}
    return case.q.untraced is None and (Kind.TRACE in kinds or bool(WRITTEN and contrary))


def _noticed(case: Case, request: Request, point: Point) -> Case:
    """Add what the first calls of the function showed to the findings."""
    for notice in (*request.notices, *point.notices):
        case.findings.append(finding(notice.kind, notice.severity, notice.message, at=notice.at, hint=notice.hint))
    return case


def _about_hessians(case: Case) -> list[Finding]:
    claim = case.outcomes["claim"].estimate if "claim" in case.outcomes else None
    found = [asymmetry(case.q, claim.value) if claim else None]
    found += [by_values(case.q, case.estimate(case.reference))] if case.reference is not None else []
    return [f for f in found if f is not None]


def _so_far(q: Question, outcomes: dict[str, Outcome]) -> PointReport:
    """Return what the modes that are done have found, without a further evaluation of f."""
    return _unfinished(Case(q, outcomes, None, None), Verdict.INCONCLUSIVE)


def _report(case: Case, verdict: Verdict) -> PointReport:
    """Return the report of a point, with what the trace test found and how small an error would have been seen."""
    return replace(_unfinished(case, verdict), detects=detects_of(case, verdict), trace_test=_tested(case))


def _unfinished(case: Case, verdict: Verdict) -> PointReport:
    """Return what is known of a point before its trace was tested."""
    q = case.q
    reference = None if case.reference is None else case.estimate(case.reference)
    values = ABSENT if reference is None else reference.value
    vector = shape(q.value) != ()
    mismatches = _mismatches(case) if verdict == Verdict.FAIL else ()
    judged = case.verdicts.get("claim") or (case.verdicts.get(case.reference) if case.reference else None) or {}
    wrong = sum(int(np.sum(word == DISAGREE)) for word in judged.values())
    doubtful = sum(int(np.sum(word == CANNOT_TELL)) for word in judged.values())
    return PointReport(
        at={name: x for name, x in q.point.values.items() if name != STEP}, drawn=q.point.drawn,
        differentiated=case.claimed or q.wrt,
        constant=tuple(name for name in q.point.values if name not in (*q.wrt, *case.not_claimed, STEP)),
        not_claimed=case.not_claimed or ABSENT,
        value=q.value, verdict=verdict, reference=case.reference,
        gradient=ABSENT if vector else values, jacobian=values if vector else ABSENT,
        entries=Entries(sum(int(np.size(word)) for word in judged.values()), wrong, doubtful),
        mismatches=mismatches, modes={name: mode_result(o, case.verdicts.get(name), vector) for name, o in case.outcomes.items()},
        findings=tuple(case.findings), diagnosis=case.diagnosis, detects=Detects(None, None),
        outputs=tuple(named_outputs(q.f.outputs)) if q.f.outputs and np.size(q.value) <= MAX_ENTRIES else ABSENT,
    )  # fmt: skip


def _tested(case: Case) -> TraceReport | Absent:
    """Return what the trace test found, where there was one."""
    test = case.q.trace_test if case.outcomes else None
    if test is None or (test.agrees is None and not test.why):
        return ABSENT
    return TraceReport(test.agrees, limit_of_trace(case), test.evaluations, test.why or ABSENT)


def mode_result(outcome: Outcome, words: dict[str, Any] | None, vector: bool) -> ModeResult:
    """Return one mode's outcome as it is reported."""
    rests = tuple(witness.value for witness in Witness if witness in outcome.mode.rests_on)
    if outcome.estimate is None:
        error = outcome.error
        return ModeResult(
            outcome.status, rests_on=rests, message=error.what if error else ABSENT, hint=error.do if error else ABSENT
        )
    estimate = outcome.estimate
    result = ModeResult(
        "ok", bound=estimate.bound, decimals=estimate.decimals or ABSENT, proved=estimate.proved,
        verdict=word_of(words.values()) if words is not None else ABSENT,
        evaluations=estimate.cost.evaluations, seconds=estimate.cost.seconds, rests_on=rests,
    )  # fmt: skip
    return replace(result, jacobian=estimate.value) if vector else replace(result, gradient=estimate.value)


def _mismatches(case: Case) -> tuple[Mismatch, ...]:
    """Return the wrong entries, the largest ratio of difference to bound first."""
    if "claim" not in case.verdicts or case.reference is None:
        return ()
    claim, right = case.estimate("claim"), case.estimate(case.reference)
    found = []
    for name, word in case.verdicts["claim"].items():
        room = np.broadcast_to(allowed(claim, right, name, case.fixed), word.shape)
        outputs = len(shape(case.q.value))
        for where in np.argwhere(word == DISAGREE)[:1000]:
            k = tuple(int(n) for n in where)
            a, b = float(np.asarray(claim.value[name])[k]), float(np.asarray(right.value[name])[k])
            ratio = a / b if b else float("inf")
            output = k[:outputs] if outputs else ABSENT
            found.append(Mismatch(name, k[outputs:], a, b, a - b, float(room[k]), ratio, output))
    return tuple(sorted(found, key=lambda m: -abs(m.difference) / max(m.bound, 1e-320)))
