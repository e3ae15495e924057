"""`check`: is the gradient right, and how small an error would have been seen?"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gradcli.checks.causes import (
    Cause,
    PointResult,
    Verified,
    drop_late_causes,
    make_cause_search,
    search_calls_at_point,
    with_causes,
)
from gradcli.checks.decide import Decision, decide
from gradcli.checks.evidence import (
    CANNOT_TELL,
    DISAGREE,
    Evidence,
    EvidenceKind,
    Outcome,
    allowed_difference,
    worst_verdict,
)
from gradcli.checks.findings_at_point import add_claim, add_point_findings, compare_all_modes
from gradcli.checks.framework_claim import describe_environment
from gradcli.checks.more_evidence import ALONE, GATHER, complete_evidence
from gradcli.checks.request import Request
from gradcli.checks.run_modes import PointCheck, choose_reference, is_without_balls, report_missing_modes, run_modes
from gradcli.checks.wrong import FEWEST, CauseBudget
from gradcli.classes import dataclass
from gradcli.errors import FunctionFailed, GradcliError, TooLarge, TraceEnded
from gradcli.modes.claim import Claimed, ClaimedFunction, WrongShape, reshape_claim
from gradcli.modes.difference_steps import second_derivative
from gradcli.modes.finite_difference import GradientByValues
from gradcli.modes.mode import Question
from gradcli.modes.recording import Effort, smaller_tolerances, solvers_of
from gradcli.modes.registry import FRAMEWORKS, MODES
from gradcli.modes.trace_test import TraceTest
from gradcli.report.check import CheckReport
from gradcli.report.common import ABSENT, Absent, Finding, SourceLine, Target, finding
from gradcli.report.encode import MAX_ENTRIES
from gradcli.report.point_report import (
    NO_SIZE,
    Detects,
    Entries,
    Mismatch,
    ModeResult,
    NativeReport,
    PointReport,
    TraceTestReport,
    UnresolvedEntries,
    order_worst_first,
)
from gradcli.request.point import Array, Estimate, Point, Witness
from gradcli.targets.derived import (
    STEP,
    Gradient,
    SumOfEntries,
    Weighted,
    inner_gradient,
    original_function,
    random_direction,
)
from gradcli.targets.facts import Notice, restrict_to_inputs
from gradcli.targets.limits import memory_bytes
from gradcli.targets.python import PythonFunction, output_entry_names
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import concatenate_entries, largest_magnitude, shape, size
from gradcli.words import OUTLINE, Derivative, Exit, Kind, Severity, Verdict, worst_status

Progress = Callable[
    [int, PointReport | CheckReport], None
]  # the number of a point and its report; OUTLINE and the whole
Heard = Callable[[PointReport], None] | None  # what is told the report of a point so far
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
    return drop_late_causes(with_causes(verified, budget), budget)


# A claim that reads what the function kept of its last call: it is called right after the function, at the same point.

_AWAY = 2.0**-6  # the other point at which the function is called, relative to each entry and in addition to it


def call_claim_after_function(request: Request) -> Request | None:
    """Return the request with a claim that follows the function at each point; None if the claim does not read what that keeps.

    Cost  three evaluations of f, and three of the claim.
    """
    claim, f = request.claim, original_function(request.f)
    if not isinstance(claim, ClaimedFunction) or not isinstance(f, PythonFunction):
        return None
    if f.pick is not None or request.own is not None or not request.points:
        return None
    after, at = claim.after(f), dict(request.points[0].values)
    other = {name: x * (1 + _AWAY) + _AWAY if name in f.inputs else x for name, x in at.items()}
    try:
        first = after(at)
        f(other)
        stale = claim(dict(at))
        again = after(at)
        if not _is_same_gradient(first, again) or _is_same_gradient(first, stale):
            return None
    except (GradcliError, ArithmeticError, TypeError, ValueError):
        return None
    says = (
        f"{claim.text} reads what the function kept of its last call: it was called right after it, at the same point"
    )
    hint = "call them in this order, or let it depend on its arguments alone"
    notice = Notice(Kind.EARLIER_CALLS, Severity.WARNING, says, hint=hint)
    return replace(request, claim=after, notices=(*request.notices, notice))


def _is_same_gradient(a: dict[str, object], b: dict[str, object]) -> bool:
    """Whether two gradients are equal. Raises TypeError for what is no array, such as a sparse matrix."""
    return a.keys() == b.keys() and all(
        np.array_equal(np.asarray(a[name], dtype=float), np.asarray(b[name], dtype=float), equal_nan=True) for name in a
    )


def verify(request: Request, progress: Progress | None = None, answers: Answers | None = None) -> Verified:
    """Verify the gradient at each point and return a report with the verdict; causes are yet to be looked for.

    `progress` is called with the number of a point and its report so far, after each mode, and before with OUTLINE and a
    report that says what is checked. Modes that are among the
    `answers` are not run again at the first point.

    Raises  GradcliError if the function cannot be evaluated at a point, or the claim cannot be called.
    """
    if progress is not None:
        progress(OUTLINE, _make_outline(request))
    if solvers_of(request.f):
        answers = None  # they were given with the user's own tolerances
    with smaller_tolerances(request.f), np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # numpy warns of places that differences try outside the domain
        request = with_values_at_smaller_tolerances(request)
        results = _check_points(request, progress, answers)
        open_ = any(result.report.verdict != Verdict.PASS for result in results)
        turned = call_claim_after_function(request) if open_ else None
        if turned is not None:
            request, results = turned, _check_points(turned, progress, None)
    points = tuple(result.report for result in results)
    answered = {name for point in points for name, mode in point.modes.items() if mode.status == "ok"}
    report = replace(
        _make_outline(request), detects=_largest_detection_limit(points), points=points, native=ABSENT,
        environment=describe_environment(tuple(name for name in FRAMEWORKS if name in answered)),
        derivative=_name_derivative(request, points),
        on={name: surface.name for name, surface in request.surfaces.items()} or ABSENT,
    )  # fmt: skip
    report = _with_verdict(request, report)
    inner: dict[int, Cause] = {}
    if request.own is not None:
        from gradcli.checks.examine import examine_derivatives  # code without a framework loads none of this

        report, inner = examine_derivatives(request, report, request.own, verify)
        report = _with_verdict(request, report)
    if request.layer is not None:
        from gradcli.checks.inner_gradients import with_layers

        report, inner = with_layers(request, report, verify)
    if hasattr(original_function(request.f), "by_rank"):
        from gradcli.checks.inner_gradients import with_ranks

        report, inner = with_ranks(request, report, verify)
    if request.implementation is not None:
        from gradcli.checks.kernel_scenarios import compare_with_reference

        report = compare_with_reference(request, report)
    causes = {number: result.cause for number, result in enumerate(results) if result.cause is not None}
    return Verified(report, causes, inner, max((result.calls for result in results), default=0))


def _make_outline(request: Request) -> CheckReport:
    """Return a report that says what is checked, before anything is found."""
    native = None if request.own is None else request.own.native
    text = request.implementation.text if request.implementation else original_function(request.f).text
    place = None if request.claim is None else request.claim.place
    return CheckReport(
        target=Target(request.f.kind, text),
        claim=request.claim.text if request.claim else None,
        seed=request.seed, command=request.command, exit_status=int(Exit.INCONCLUSIVE), verdict=Verdict.INCONCLUSIVE,
        detects=NO_SIZE, points=(), environment={}, derivative=request.derivative,
        claimed_at=ABSENT if place is None else SourceLine(place.file, place.line, place.source),
        native=ABSENT if native is None else NativeReport(native.framework.name, "", native.placed.device, native.placed.dtype),
    )  # fmt: skip


def _with_verdict(request: Request, report: CheckReport) -> CheckReport:
    """Return the report with the verdict that follows from those on its points, and the exit status."""
    points = report.points
    status = worst_status(_STATUS[point.verdict] for point in points)
    verdict = next(word for word, exit_ in _STATUS.items() if exit_ == status)
    if status is Exit.INCONCLUSIVE:  # findings that `--allow` names count as success; a timeout must be named
        kinds = {f.kind for point in points for f in point.findings if f.severity == Severity.INCONCLUSIVE}
        excused = kinds <= request.options.allow or (request.options.allow_inconclusive and Kind.TIMEOUT not in kinds)
        status = Exit.CONFIRMED if kinds and excused else status
    if any(mode.status == "unavailable" for point in points for mode in point.modes.values()):
        status = worst_status([status, Exit.UNUSABLE])  # modes that were requested by name but are not installed
    return replace(report, verdict=verdict, exit_status=int(status))


def _check_points(request: Request, progress: Progress | None, answers: Answers | None) -> list[PointResult]:
    found = []
    for k, point in enumerate(request.points):
        heard = None if progress is None else partial(progress, k)
        found.append(_check_steady_point(request, point, heard, None if k else answers))
        if heard is not None:
            heard(found[-1].report)
    return found


def with_values_at_smaller_tolerances(request: Request) -> Request:
    """Return the request with the values of f that smaller tolerances of its solvers give, beside the user's own."""
    if not solvers_of(request.f):
        return request
    points = list(request.points)
    for k, point in enumerate(points):
        if point.value is not None and point.own_value is None:
            value = np.asarray(request.f(point.values), dtype=float)[()]
            points[k] = replace(point, value=value, own_value=point.value)
    return replace(request, points=tuple(points))


def _largest_detection_limit(points: Sequence[PointReport]) -> Detects:
    """Return the detection limit of the point where it is largest, with the entries of all points that were not resolved."""
    every = [point.detects for point in points]
    unresolved = [detects.unresolved for detects in every if isinstance(detects.unresolved, UnresolvedEntries)]
    most = max(unresolved, key=lambda entries: (entries.count, entries.below), default=ABSENT)

    def limits(detects: Detects) -> list[float]:  # the relative one, then the absolute one; None sorts first
        return [x if isinstance(x, float) else -1.0 for x in (detects.relative, detects.absolute)]

    return replace(max(every, key=limits), unresolved=most)


def _name_derivative(request: Request, points: Sequence[PointReport]) -> Derivative:
    """Return the name of the derivative that is checked; the gradient of a function with array values is a Jacobian."""
    vector = any(not isinstance(point.value, Absent) and np.ndim(point.value) > 0 for point in points)
    return "Jacobian" if vector and request.derivative == "gradient" else request.derivative


def _check_steady_point(request: Request, point: Point, heard: Heard, answers: Answers | None) -> PointResult:
    """Check one point; inconclusive if f had a value there first and raises in a later call, since it then keeps state."""
    try:
        return _check_point(request, point, heard, answers)
    except (FunctionFailed, TraceEnded) as error:
        if point.value is None:
            raise
        q = replace(request.question(point), blind=error)
        case = _add_notices(PointCheck(q.wrt, tolerance=request.accepted_errors, q=q), request)
        says = f"the function had a value at this point, but a later call fails: {error.what}"
        case.inconclusive(Kind.EARLIER_CALLS, says, at=error.where, hint=ALONE)
        return _gather_and_decide(case, request)


# Whether a check fits into the memory that is free, said before its arrays are made.

_SMALL = 2**22  # entries: the free memory is not looked up for fewer
_ARRAYS = 7  # of the size of the inputs: what a check holds at its peak, without what f computes on the way
_BY_VALUES = 13  # the same where function values alone are compared
_SWEEPS = 2  # times the values of the recorded run: their adjoints, and another run with other roundings
_FORGETTING = 1  # the same where each is held no longer than it is needed
_ROUNDED = 1e-12  # of the largest entry: a bound of the reverse sweep that leaves a claim's own bound the wider one


def _require_memory(needed: int, q: Question) -> None:
    free = memory_bytes()
    if needed > free:
        what = f"a check of {q.entries:,} entries needs about {needed / 1e9:.2g} GB, and {free / 1e9:.2g} GB are free"
        raise TooLarge(what, do="check fewer of the inputs (--wrt), or a smaller problem")


def _check_point(request: Request, point: Point, heard: Heard = None, answers: Answers | None = None) -> PointResult:
    """Check one point by all modes, or by function values alone if the trace turns out to differ from the function.

    A claim of few entries is looked at quickly first: where that is no pass, or reverse has lost digits, nothing of it is kept,
    and all is run that counts allow. Of very many entries nothing more would be run.
    """
    q = answers.q if answers else request.question(point)
    if any(notice.kind == Kind.NOT_DETERMINISTIC for notice in point.notices):
        case = PointCheck(q.wrt, tolerance=request.accepted_errors, q=q)
        return _gather_and_decide(_add_notices(case, request), request)
    full = q.budget
    if request.claim is not None and answers is None and full.effort is Effort.DEFAULT and not q.crowded:
        q = replace(q, budget=replace(full, effort=Effort.QUICK))
    if q.entries > _SMALL:
        _require_memory(8 * _ARRAYS * q.entries, q)
        if q.untraced is None:
            sweeps = _FORGETTING if q.drops_values else _SWEEPS
            _require_memory(8 * _ARRAYS * q.entries + sweeps * q.recorded_bytes, q)
        else:
            _require_memory(8 * _BY_VALUES * q.entries, q)
    if request.claim is not None:
        known, q = q, q.by_values_at_infinite_slopes()
        answers = answers if q is known else None
    try:
        result = _check_by_modes(request, q, heard, answers)
        passes = result.report.verdict == Verdict.PASS
        if not is_without_balls(q) or (passes and _needs_no_balls(q, result.report)):
            return result
        return _check_by_modes(request, q.within(full), heard)
    except _NotTheFunction as error:
        return _check_by_modes(request, replace(q, budget=full).without_trace(error.why, error.test), heard)


def _needs_no_balls(q: Question, report: PointReport) -> bool:
    """Whether f has no kink, and the reverse sweep nearly all digits: balls would show no smaller error of a claim."""
    reverse = report.modes["reverse"]
    bounds = (reverse.bound or {}).items()
    keeps = (np.all(x <= _ROUNDED * np.max(np.abs(reverse.values[name]), initial=0.0)) for name, x in bounds)
    return not any(map(np.any, q.undecided)) and all(keeps)


class _NotTheFunction(Exception):
    """The trace differs from the function: `why` in words, and the trace test that showed it, if one did."""

    def __init__(self, why: str, test: TraceTest | None = None) -> None:
        super().__init__(why)
        self.why, self.test = why, test


# Make the report of one point from the evidence and the decision.


def make_point_report(seen: PointCheck, decision: Decision) -> PointReport:
    """Return the report of a point, with the smallest error that would have been detected."""
    q, not_claimed = seen.q, seen.not_claimed
    seen = seen if decision.agreement is None else replace(seen, agreement=decision.agreement)
    values = ABSENT if seen.reference is None else seen.estimate(seen.reference).value
    vector = shape(q.value) != ()
    test = seen.trace
    trace_test: TraceTestReport | Absent = ABSENT
    if test.agrees is not None or test.why:
        trace_test = TraceTestReport(test.agrees, test.detects, test.evaluations, test.why or ABSENT)
    compared = seen.agreement.get("claim") or (seen.agreement.get(seen.reference) if seen.reference else None) or {}
    report = PointReport(
        at={name: x for name, x in q.point.values.items() if name != STEP}, drawn=q.point.drawn,
        differentiated=seen.claimed or q.wrt,
        constant=tuple(name for name in q.point.values if name not in (*q.wrt, *not_claimed, STEP)),
        not_claimed=not_claimed or ABSENT,
        value=q.own_value, verdict=decision.verdict, reference=seen.reference,
        gradient=ABSENT if vector else values, jacobian=values if vector else ABSENT,
        entries=_count_entries(compared),
        mismatches=_list_mismatches(seen, len(shape(q.value))) if decision.verdict == Verdict.FAIL else (),
        modes={name: _report_mode(o, seen, vector, decision.findings) for name, o in seen.outcomes.items()},
        findings=decision.findings, diagnosis=decision.diagnosis, detects=decision.detects,
        outputs=tuple(output_entry_names(q.f.outputs)) if q.f.outputs and np.size(q.value) <= MAX_ENTRIES else ABSENT,
        trace_test=trace_test,
        mutants=ABSENT if seen.mutants is None else seen.mutants.mutants,
    )  # fmt: skip
    found = seen.projections
    if found is None:
        return report
    report = replace(report, entries=found.entries)
    if report.verdict == Verdict.INCONCLUSIVE:
        return report
    word = worst_verdict([] if found.agrees else [DISAGREE])
    modes = report.modes | {"claim": replace(report.modes["claim"], verdict=word)}
    return replace(report, modes=modes, mismatches=() if found.agrees else sort_mismatches(found.wrong))


def _count_entries(agreement: Mapping[str, Any]) -> Entries:
    """Return how many entries of all inputs were compared, and how many of them are wrong or undecided."""
    whole = [np.asarray(word) for word in agreement.values()]
    wrong, open_ = (sum(int(np.sum(word == what)) for word in whole) for what in (DISAGREE, CANNOT_TELL))
    return Entries(sum(word.size for word in whole), wrong, open_)


def sort_mismatches(found: Sequence[Mismatch]) -> tuple[Mismatch, ...]:
    """Return wrong entries of all inputs, the worst first."""
    claimed, right = (np.array([getattr(m, word) for m in found]) for word in ("claimed", "reference"))
    return tuple(found[k] for k in order_worst_first(claimed, right))


def _report_mode(outcome: Outcome, seen: Evidence, vector: bool, findings: tuple[Finding, ...]) -> ModeResult:
    """Return the outcome of one mode; where f has no gradient its bound is one of a convention, and proves nothing.

    `vector` means that f is no scalar.
    """
    rests = tuple(witness.value for witness in Witness if witness in outcome.mode.rests_on)
    agreement = seen.agreement.get(outcome.mode.name)
    estimate, error = outcome.estimate, outcome.error
    if estimate is None:
        message, hint = (error.what, error.do) if error else (ABSENT, ABSENT)
        return ModeResult(outcome.status, rests_on=rests, message=message, hint=hint)
    open_ = any(np.any(mask) for mask in seen.undecided.values())
    open_ = open_ and any(f.kind in (Kind.KINK, Kind.JUMP, Kind.INFINITE_SLOPE) for f in findings)
    result = ModeResult(
        "ok", bound=estimate.bound, decimals=estimate.decimals or ABSENT, proved=estimate.proved and not open_,
        verdict=worst_verdict(agreement.values()) if agreement is not None else ABSENT,
        evaluations=estimate.cost.evaluations, seconds=estimate.cost.seconds, rests_on=rests,
        ran_on=estimate.ran_on or ABSENT,
    )  # fmt: skip
    return replace(result, jacobian=estimate.value) if vector else replace(result, gradient=estimate.value)


def _list_mismatches(seen: Evidence, outputs: int) -> tuple[Mismatch, ...]:
    """Return the wrong entries, the worst first, at most 1000 of each input; `outputs` is the number of output axes."""
    if "claim" not in seen.agreement or seen.reference is None:
        return ()
    claim, right = seen.estimate("claim"), seen.estimate(seen.reference)
    found = []
    for name, word in seen.agreement["claim"].items():
        room = np.broadcast_to(allowed_difference(claim, right, name, seen.tolerance), word.shape)
        wrong = np.asarray(word == DISAGREE)
        order = order_worst_first(*(np.broadcast_to(of.value[name], wrong.shape)[wrong] for of in (claim, right)))
        for where in np.argwhere(wrong)[order[:1000]]:
            k = tuple(int(n) for n in where)
            a, b = float(np.asarray(claim.value[name])[k]), float(np.asarray(right.value[name])[k])
            ratio = a / b if b else float("inf")
            output = k[:outputs] if outputs else ABSENT
            found.append(Mismatch(name, k[outputs:], a, b, a - b, float(room[k]), ratio, output))
    return sort_mismatches(found)


# Check a Jacobian that is too large to hold, by its product with one random vector of outputs.


class ProjectedClaim:
    """The product w J of a vector and the claimed Jacobian; sparse matrices and LinearOperators stay as they are.

    Shapes  `w` has the shape of the output, the product for each input the shape of the input.
    """

    def __init__(self, claim: Claimed, w: Any) -> None:
        self.text, self.place = claim.text, claim.place
        self.precision = replace(claim.precision, typical=lambda values: None)
        self.claim = claim
        self.w = w

    @property
    def names(self) -> tuple[str, ...]:
        return self.claim.names

    @property
    def mutates(self) -> bool:
        return self.claim.mutates

    def __call__(self, values: Mapping[str, Value]) -> dict[str, Any]:
        made = {}
        for name, x in self.claim(values).items():
            at, expected = values[name], (size(self.w), size(values[name]))
            if isinstance(x, np.ndarray):
                made[name] = np.tensordot(self.w, reshape_claim(name, x, shape(self.w), shape(at)), np.ndim(self.w))
                continue
            if x.shape != expected:
                says = f"the claimed Jacobian of {name} has shape {x.shape}; the right one has shape {expected}"
                raise WrongShape(says)
            product = x.rmatvec(np.ravel(self.w)) if hasattr(x, "rmatvec") else x.T @ np.ravel(self.w)
            made[name] = np.reshape(product, shape(at))
        return made


def project_outputs(q: Question, claim: Claimed | None) -> tuple[Question, Claimed | None, Finding]:
    """Return the question for w . f with random weights w, the claim of its gradient, and a finding that says so."""
    rng = np.random.default_rng([q.seed, 0x9905])
    w = rng.uniform(0.5, 1.5, shape(q.value)) * rng.choice([-1.0, 1.0], shape(q.value))
    entries = sum(size(x) for x in q.xs)
    says = (
        f"the Jacobian has {size(q.value):,} x {entries:,} entries; checked is its product with one random vector "
        f"of outputs (seed {q.seed})"
    )
    point = replace(q.point, value=None)
    weighted = replace(q, f=Weighted(q.f, w), point=point)
    return weighted, ProjectedClaim(claim, w) if claim else None, finding(Kind.PROJECTION, Severity.INFO, says)


def _check_by_modes(request: Request, q: Question, heard: Heard, answers: Answers | None = None) -> PointResult:
    """Run the modes at one point, and decide. Raises _NotTheFunction if the trace differs from the function."""
    claim, said = request.claim, []
    blind = q.blind is not None
    if not q.affords_slopes:
        q, claim, projection = project_outputs(q, claim)
        said, answers = [projection], None
    q.summarise_adjoints()
    if q.drops_values:
        _ = q.trace_test  # it calls f, and the bounds of the gradient, which are as large as this, are not there yet
    q.prepare()
    if not blind and q.by_convention:
        raise _NotTheFunction("f is smooth where an operation has a tie, and the rules give another slope there")

    def tell(outcomes: Mapping[str, Outcome]) -> None:  # of the modes that have finished
        if heard is not None:
            so_far = PointCheck(q.wrt, outcomes=dict(outcomes), q=q)
            heard(make_point_report(so_far, Decision(Verdict.INCONCLUSIVE, ())))

    tell({})
    modes = [MODES[name] for name in request.modes]
    outcomes = run_modes(
        q, modes, tell, answers.outcomes if answers else {}, for_verdict=claim is not None or request.for_verdict
    )
    if q.trace_test.agrees is False and not blind:
        raise _NotTheFunction(f"the trace differs from the function: {q.trace_test.why}", q.trace_test)
    case = PointCheck(
        q.wrt, outcomes, choose_reference(outcomes), findings=(*said, *report_missing_modes(outcomes)), q=q, claim=claim,
        tolerance=request.accepted_errors, not_claimed=request.not_claimed,
    )  # fmt: skip
    add_point_findings(_add_notices(case, request))
    if q.drops_values:
        q.drop_recording()
    first_order = check_inner_gradient(request, q)
    case.findings += () if first_order is None else (first_order,)
    if claim is not None:
        add_claim(case, claim)
    compare_all_modes(case)
    given = case.estimate_or_none("claim")
    of_hessian = [find_asymmetry(q, given.value) if given else None]
    of_hessian += [check_hessian_by_values(q, case.estimate(case.reference)) if case.reference is not None else None]
    case.findings += tuple(filter(None, of_hessian))
    return _gather_and_decide(case, request)


def _gather_and_decide(case: PointCheck, request: Request) -> PointResult:
    """Return the report of a point, after gathering all evidence that its verdict depends on."""
    case = complete_evidence(case, request)
    while isinstance(decision := decide(case), EvidenceKind):
        if decision is EvidenceKind.VALUES_ALONE:
            raise _NotTheFunction("the trace differs from the function")
        if decision is EvidenceKind.FORMAT:
            from gradcli.checks.lost_digits import format_evidence

            case.format = format_evidence(case, request, verify)
        else:
            setattr(case, decision.value, GATHER[decision](case))
    report = make_point_report(case, decision)
    calls = search_calls_at_point(case) if decision.verdict == Verdict.FAIL else 0
    return PointResult(report, make_cause_search(case) if decision.unexplained else None, calls)


# Further checks of second derivatives: that the gradient is right, second differences of f, and symmetry.

_SYMMETRIC = 1e-6  # relative to the largest entry: a Hessian that differs more from its transpose gets a finding


def check_inner_gradient(request: Request, q: Question) -> Finding | None:
    """Return a finding that says whether the gradient that is differentiated is itself right; None if there is none.

    A Hessian by second differences of f needs no gradient.
    """
    gradient = inner_gradient(q.f)
    if gradient is None or isinstance(gradient, GradientByValues):
        return None
    whose = "the gradient that is differentiated" if gradient.claim is None else "the claimed gradient"
    values = {name: x for name, x in q.point.values.items() if name != STEP}
    point = Point(values, q.point.drawn, q.point.number)
    claim: Any = gradient.claim
    alone = replace(request, f=gradient.f, wrt=gradient.wrt, claim=claim, notices=(), not_claimed=())
    result = _check_point(alone, point)
    cause = None if result.cause is None else result.cause(CauseBudget(FEWEST))
    report = result.report if cause is None else replace(result.report, diagnosis=cause)
    if report.verdict == Verdict.PASS:
        relative = report.detects.relative
        better = "" if relative is None else f" to better than {relative:.0e}"
        return finding(Kind.FIRST_ORDER, Severity.INFO, f"{whose} is confirmed{better}")
    if report.verdict == Verdict.FAIL and gradient.claim is not None:
        why = f": {report.diagnosis.message}" if report.diagnosis else ""
        return finding(Kind.FIRST_ORDER, Severity.ERROR, f"{whose} is wrong{why}", hint="check it alone: --grad")
    said = next((f.message for f in report.findings if f.severity == Severity.INCONCLUSIVE), "its modes disagree")
    return finding(Kind.FIRST_ORDER, Severity.INCONCLUSIVE, f"{whose} is not confirmed: {said}")


def check_hessian_by_values(q: Question, right: Estimate) -> Finding | None:
    """Compare v H v with a second difference of the untouched function along v, and the Hessian with its transpose.

    Return None if f is no gradient, or if the bounds are too wide to decide.
    """
    f = q.f.f if isinstance(q.f, SumOfEntries) else q.f
    if not isinstance(f, Gradient) or isinstance(f, GradientByValues) or set(right.value) != set(f.wrt):
        return None
    v = {name: random_direction(q.seed, name, q.point.values[name]) for name in f.wrt}
    xs = [q.point.values[name] for name in f.wrt]
    g = restrict_to_inputs(f.f, q.point.values, f.wrt)
    found = second_derivative(lambda t: g(*[x + t * v[name] for x, name in zip(xs, f.wrt, strict=True)]))
    if f is q.f:
        h, bound = join_hessian_blocks(right.value, f.wrt), join_hessian_blocks(right.bound, f.wrt)
    else:
        diagonals = ([np.asarray(of[name]) for name in f.wrt] for of in (right.value, right.bound))
        h, bound = (np.diag(concatenate_entries(entries)) for entries in diagonals)
    flat = np.concatenate([np.reshape(v[name], -1) for name in f.wrt])
    along, scale = flat @ h @ flat, np.abs(flat) @ np.abs(h) @ np.abs(flat)
    room = float(found.bound) + float(np.abs(flat) @ bound @ np.abs(flat))
    if not np.isfinite(room) or room > 1e-2 * scale:
        return None
    if abs(float(found.value) - along) > 3 * room:
        says = "second differences of the untouched function contradict the Hessian along a random direction"
        return finding(Kind.DISAGREEMENT, Severity.INCONCLUSIVE, says)
    apart = largest_magnitude(h - h.T) / max(largest_magnitude(h), 1e-300)
    says = (
        f"second differences of the untouched function confirm one random direction to {room / max(scale, 1e-300):.0e}"
    )
    return finding(Kind.SECOND_ORDER, Severity.INFO, f"{says}; the Hessian is symmetric to {apart:.0e}")


def find_asymmetry(q: Question, claim: dict[str, Array]) -> Finding | None:
    """Return a finding if a claimed Hessian is not symmetric, else None."""
    f = q.f
    if not isinstance(f, Gradient) or set(claim) != set(f.wrt):
        return None
    if any(shape(claim[name]) != shape(q.value) + shape(q.point.values[name]) for name in f.wrt):
        return None
    h = join_hessian_blocks(claim, f.wrt)
    apart = np.abs(h - h.T)
    if not np.any(apart > _SYMMETRIC * np.max(np.abs(h), initial=0.0)):
        return None
    i, j = np.unravel_index(int(np.argmax(apart)), apart.shape)
    says = f"the claimed Hessian is not symmetric: {h[i, j]:.6g} at {i},{j} and {h[j, i]:.6g} at {j},{i}"
    return finding(Kind.NOT_SYMMETRIC, Severity.WARNING, says)


def join_hessian_blocks(blocks: dict[str, Any], wrt: tuple[str, ...]) -> Any:
    """Return the blocks of a Hessian, one for each pair of inputs, joined into one square matrix.

    Shapes  `blocks[x]` is (n, shape of x), with n entries of all inputs; the result is (n, n).
    """
    rows = shape(next(iter(blocks.values())))[0]
    return np.hstack([np.reshape(blocks[name], (rows, size(blocks[name]) // max(rows, 1))) for name in wrt])


def _add_notices(case: PointCheck, request: Request) -> PointCheck:
    """Add the notices from the first calls of the function to the findings, and return the same evidence."""
    for notice in (*request.notices, *case.q.point.notices):
        case.findings += (finding(notice.kind, notice.severity, notice.message, at=notice.at, hint=notice.hint),)
    return case
