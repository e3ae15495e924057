"""The cause of a FAIL, looked for once the verdict is decided, within one budget."""

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcli.checks.decide import entries_to_explain
from gradcli.checks.evidence import Projections, allowed_difference
from gradcli.checks.findings_at_point import compare_along_direction, kink_at, report_kink
from gradcli.checks.run_modes import PointCheck
from gradcli.checks.wrong import CauseBudget, Wrong, allowed_search_calls
from gradcli.classes import dataclass
from gradcli.errors import GradcliError, Place
from gradcli.frameworks.native import native_of
from gradcli.modes.claim import GRANT, GRANT_NARROW, GRANT_SOLVER, Claimed, reshape_claim
from gradcli.modes.mode import Question
from gradcli.modes.recording import smaller_tolerances
from gradcli.modes.registry import MODES
from gradcli.modes.rounding import EPS
from gradcli.report import numbers
from gradcli.report.check import CheckReport
from gradcli.report.common import ABSENT, Finding, finding
from gradcli.report.point_report import NO_SIZE, Detects, Diagnosis, Entries, Mismatch, NativeReport, Part, PointReport
from gradcli.request.point import Array, Estimate, Point
from gradcli.targets.derived import STEP, original_function
from gradcli.tracing.shapes import concatenate_entries, largest_magnitude, shape, size, split_like
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

    def judge(self, part: Part) -> Part:
        """Return a part that was checked alone with its verdict: how small an error was seen, or why it is not confirmed."""
        report = self.report
        if report.verdict != Verdict.PASS:
            return replace(part, verdict=report.verdict, message=report.sentence())
        relative = report.detects.relative
        return replace(part, verdict=Verdict.PASS, detects=ABSENT if relative is None else relative)


def open_part(name: str, at: Place | None) -> Part:
    """Return a custom gradient or a layer that is not checked yet, with the line of its backward function."""
    part = Part(name, Verdict.INCONCLUSIVE)
    return part if at is None else replace(part, file=at.file, line=at.line, source=at.source)


# A wrong claim at points where all inputs are drawn anew, where a name of its mistake has to hold, too.

REDRAWN = 3  # points
if TYPE_CHECKING:
    from gradcli.modes.screening import ScreeningResult

_DRAWS = 2  # for each of them, until one is smooth
_MOST_ENTRIES = 2_000  # of a gradient or Jacobian
_CALLS = 9  # of f and of the claim, beside a sweep for each output
_SAME = 1e-9  # relative to each entry: a slip is never so small
_FAILURES = (GradcliError, ValueError, ArithmeticError, IndexError, TypeError, np.linalg.LinAlgError)


_MOST_LINES = 5_000  # of a recording whose rounding is estimated, which takes several sweeps


def is_long(q: Question) -> bool:
    """Whether the rounding of the gradient is not estimated at points other than the given one: a slip is never so small."""
    return q.untraced is None and not q.solvers and not q.checkpointed and len(q.program_lines) > _MOST_LINES


def _reverse_gradient(q: Question) -> Estimate:
    if not is_long(q):
        return MODES["reverse"].gradient(q)
    q.refuse_large_jacobian()
    bound = {name: np.full(shape(x), _SAME * largest_magnitude(x)) for name, x in q.slopes.items()}
    return Estimate(dict(q.slopes), bound, statistical=True)


def confirmed_gradient(q: Question) -> Estimate | None:
    """Return the gradient by the reverse mode, confirmed by a difference along a random direction; else by differences.

    None where f has no finite gradient, or nothing can say what it is.

    Cost  one reverse sweep for each output, and about seven evaluations of f; without a trace, the differences of all entries.
    """
    if not np.all(np.isfinite(q.value)) or (q.untraced is None and (q.kinks or q.not_finite is not None)):
        return None
    for name in ("reverse", "finite-difference"):
        try:
            if name != "reverse":
                return MODES[name].gradient(q)
            estimate = _reverse_gradient(q)
            if compare_along_direction(q, estimate, rounding_of_f=estimate.bound if is_long(q) else None).agrees:
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
    from gradcli.modes.redraw import redraw_inputs

    rng = np.random.default_rng([q.seed, 0x9E9A4])
    given = claim(q.point.values)
    fixed = {STEP, *getattr(claim, "sizes", {})}
    drawn = {name: x for name, x in q.point.values.items() if name not in fixed}
    for _ in range(REDRAWN):
        wrong = None
        for _ in range(_DRAWS):
            values = {**q.point.values, **redraw_inputs(drawn, q.wrt, rng)}
            budget.spend(_CALLS + size(q.value))
            wrong = _compare_claim_at(replace(q.point, values=values, value=None), q, claim, budget)
            if wrong is not None:
                break
        if wrong is None:
            continue
        if all(np.array_equal(x, given[n], equal_nan=True) for n, x in wrong.claimed.items()):
            return
        if wrong.count:
            yield wrong


def _compare_claim_at(point: Point, q: Question, claim: Claimed, budget: CauseBudget) -> Wrong | None:
    """Return the claim and the right gradient at a point; None where there is none of them."""
    other = Question(q.f, point, q.wrt, q.seed, q.budget, q.stepping, q.device)
    try:
        with np.errstate(all="ignore"):
            estimate = confirmed_gradient(other)
            if estimate is None:
                return None
            given = claim({n: np.array(x) if isinstance(x, np.ndarray) else x for n, x in point.values.items()})
            made = {n: reshape_claim(n, x, shape(other.value), shape(point.values[n])) for n, x in given.items()}
    except _FAILURES:
        return None
    right = {n: np.asarray(estimate.value[n]) for n in made}
    rounding = GRANT * EPS * claim.precision.coarseness()
    sizes = {n: np.abs(x) + np.max(np.abs(x), initial=0.0) for n, x in right.items()}
    room = {n: estimate.bound[n] + rounding * size_ for n, size_ in sizes.items()}
    masks = {n: ~(np.abs(made[n] - x) <= room[n] + _SAME * np.abs(x)) for n, x in right.items()}
    return Wrong(other, made, right, masks, room, budget=budget)


# Check claims with too many entries to move one by one, by random projections of function values and a search.

_MOST_CALLS = 20_000
_GRANT = 1e-12  # relative rounding of a claim, whose algorithm is unknown, in float64


def needs_projections(case: PointCheck) -> bool:
    """Whether only function values are available, and there are too many entries to move each one alone."""
    claim, differences = case.outcomes.get("claim"), case.outcomes.get("finite-difference")
    is_number = case.q.untraced is not None and shape(case.q.value) == () and bool(np.isfinite(case.q.value))
    has_claim = claim is not None and claim.estimate is not None
    return is_number and has_claim and differences is not None and differences.status == "not run"


def run_projections(case: PointCheck) -> Projections:
    """Return what random projections show of a claim, and how much of it they cover.

    Cost  at most as many evaluations of f as the budget allows, or 20,000 if there is none.
    """
    q, claim = case.q, case.estimate("claim").value
    names = _claimed_inputs(case)
    flat = concatenate_entries([claim[name] for name in names])
    coarseness = case.claim.precision.coarseness() if case.claim is not None else 1.0
    found = _screen_claim(q, names, flat, _GRANT if coarseness == 1.0 else GRANT_NARROW * coarseness * EPS)
    wrong, kinks = [], []
    for suspect in found.wrong:
        name, at = _locate_entry(q, names, suspect.index)
        kink = kink_at(q, name, at)
        if kink is not None:
            kinks.append(finding(Kind.KINK, Severity.INCONCLUSIVE, kink))
            continue
        claimed, right = float(flat[suspect.index]), suspect.measured
        ratio = claimed / right if right else float("inf")
        wrong.append(Mismatch(name, at, claimed, right, claimed - right, suspect.bound, ratio))
    undecided_because = (*kinks, *_report_doubtful_slopes(q, names, found))
    unplaced = found.agrees is False and not wrong and not undecided_because  # an entry is wrong, but it was not found
    return Projections(
        agrees=found.agrees, coverage=_report_coverage(found, flat), undecided_because=undecided_because, wrong=tuple(wrong),
        entries=Entries(len(flat), len(wrong) + unplaced, sum(len(group) for group in found.suspected)),
        complete=found.complete, calls=found.calls,
        detects=_detection_limit(q, names, found, flat) if found.agrees else NO_SIZE,
    )  # fmt: skip


def mistake_in_projections(case: PointCheck, budget: CauseBudget) -> Diagnosis | None:
    """Return the likely mistake, from the entries that were measured alone; without projections, from those not finite."""
    from gradcli.checks.diagnose import diagnose  # a claim that is right loads no names of mistakes

    q, found = case.q, case.projections
    claim = {name: np.asarray(case.estimate("claim").value[name]) for name in _claimed_inputs(case)}
    if found is None:
        masks = {name: ~np.isfinite(x) for name, x in claim.items()}
        return diagnose(Wrong(q, claim, {name: np.zeros(shape(x)) for name, x in claim.items()}, masks, budget=budget))
    right = {name: np.array(x, dtype=float) for name, x in claim.items()}
    masks = {name: np.zeros(shape(x), dtype=bool) for name, x in claim.items()}
    room = {name: np.array(EPS * np.abs(x)) for name, x in right.items()}
    for entry in found.wrong:
        right[entry.input][entry.index], masks[entry.input][entry.index] = entry.reference, True
        room[entry.input][entry.index] = 3 * entry.bound
    said = diagnose(Wrong(q, claim, right, masks, room, budget=budget))
    return None if said.kind in (DiagnosisKind.UNKNOWN, DiagnosisKind.APPROXIMATION) else said


def _claimed_inputs(case: PointCheck) -> tuple[str, ...]:
    """Return the inputs that the claim covers."""
    claim = case.estimate("claim").value
    return tuple(name for name in case.q.wrt if name in claim)


def _screen_claim(q: Question, names: tuple[str, ...], claim: Array, grant: float) -> "ScreeningResult":
    """Return what projections show of a claim, which may be off by `grant` of each entry by rounding."""
    from gradcli.modes.screening import screen  # a claim of many entries alone needs it

    native = native_of(original_function(q.f))
    xs = dict(zip(q.wrt, q.xs, strict=True))
    scales = concatenate_entries([q.stepping.sizes_of_entries(name, xs[name]) for name in names])

    def by_input(entries: Array) -> dict[str, Array]:
        return dict(zip(names, split_like(entries, [xs[name] for name in names]), strict=True))

    def moved_by(step: Array) -> list[Any]:
        moved = by_input(step)
        return [x + moved[name] if name in moved else x for name, x in xs.items()]

    def complex_phi(step: Array) -> complex:
        with warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            try:
                return complex(q.g(*moved_by(step)))
            except (GradcliError, np.exceptions.ComplexWarning) as error:
                raise ValueError(str(error)) from error

    budget, changes = q.stepping.budget or _MOST_CALLS, q.solver_changes
    solvers: Any = 0.0
    if changes is not None:
        solvers = concatenate_entries([GRANT_SOLVER * changes.of(n, g) for n, g in by_input(claim).items()])
    return screen(
        lambda step: float(q.near(*moved_by(step))), claim, scales, seed=q.seed, budget=budget,
        claim_error=grant * np.abs(claim) + solvers, complex_phi=complex_phi, phi_at_zero=float(q.value),
        rounds=native is not None and native.values_format != "float64",
    )  # fmt: skip


def _report_doubtful_slopes(q: Question, names: tuple[str, ...], found: "ScreeningResult") -> list[Finding]:
    """Return findings that leave the claim undecided: kinks, or a slope along a direction that fits only wider steps."""
    said = []
    for kink in found.kinks:
        where = "along a random direction"
        if kink.index is not None:
            where = f"at {numbers.entry_name(*_locate_entry(q, names, kink.index))}"
        said.append(report_kink(where, kink.left, kink.right))
    for d in found.only_wider[:1]:
        kind = Kind.STAIRCASE if d.jumps else Kind.FINE_STRUCTURE
        says = (
            f"f has fine structure along a random direction: its slope is {float(d.value):.5g} over steps of {float(d.h):.0e} "
            f"of the entries and {float(d.other):.5g} over steps of {float(d.other_h):.0e}, which the claim fits"
        )
        said.append(finding(kind, Severity.INCONCLUSIVE, says, hint=f"accept it: --allow {kind}"))
    return said


def _locate_entry(q: Question, names: tuple[str, ...], index: int) -> tuple[str, tuple[int, ...]]:
    """Return the input, and the index in it, of an entry of the concatenated inputs."""
    for name in names:
        x = q.point.values[name]
        if index < size(x):
            return name, tuple(int(k) for k in np.unravel_index(index, shape(x))) if shape(x) else ()
        index -= size(x)
    raise IndexError(index)


def _report_coverage(found: "ScreeningResult", claim: Array) -> Finding:
    with np.errstate(all="ignore"):
        relative = found.detectable[claim != 0] / np.abs(claim[claim != 0])
    half = float(np.median(relative)) if relative.size else np.inf
    seen = float(np.mean(relative < 1)) if relative.size else 0.0
    says = (
        f"function values alone: {found.projections} projections of {len(claim):,} entries, {found.calls:,} evaluations"
    )
    if np.isfinite(half):
        wholly = "any" if seen == 1 else f"{100 * seen:.0f} % of them"
        says += (
            f"; with {100 * found.confidence:.0f} % probability, a relative error of {half:.0e} would be seen in half of "
            f"the entries, a wholly wrong value in {wholly}"
        )
    if found.suspected:
        says += f"; {sum(map(len, found.suspected)):,} more entries are in groups that disagree and were not searched further"
    more = "" if found.complete else "; the search was cut short (--budget N allows more)"
    return finding(Kind.COVERAGE, Severity.INFO if seen > 0.99 and found.complete else Severity.WARNING, says + more)


def _detection_limit(q: Question, names: tuple[str, ...], found: "ScreeningResult", claim: Array) -> Detects:
    if not np.any(claim) and np.all(np.isfinite(found.detectable)):
        return Detects(None, None, float(np.max(found.detectable, initial=0.0)))
    with np.errstate(all="ignore"):
        relative = np.where(claim != 0, found.detectable / np.abs(claim), -1.0)
    worst = int(np.argmax(relative))
    if not 0 <= relative[worst] < 1:
        return NO_SIZE
    return Detects(float(relative[worst]), numbers.entry_name(*_locate_entry(q, names, worst)))


def make_cause_search(case: PointCheck) -> Cause:
    """Return how the cause of a wrong claim at one point is looked for."""

    def look(budget: CauseBudget) -> Diagnosis | None:
        from gradcli.checks.diagnose import diagnose

        with smaller_tolerances(case.q.f):
            if case.needs_projections:
                return mistake_in_projections(case, budget)
            masks = entries_to_explain(case)
            if not any(np.any(mask) for mask in masks.values()):
                return None if case.wide_cause is None else case.wide_cause(budget)
            claim, right = case.estimate("claim"), case.estimate(str(case.reference))
            room = {name: np.asarray(allowed_difference(claim, right, name, case.tolerance)) for name in masks}
            claimed, known = ({n: estimate.value[n] for n in masks} for estimate in (claim, right))
            confirms = case.claim is not None and budget.left > 0  # a name has to hold at other inputs, too
            elsewhere = wrong_at_other_inputs(case.q, case.claim, budget) if confirms and case.claim is not None else ()
            return diagnose(Wrong(case.q, claimed, known, masks, room, budget=budget), elsewhere)

    return look


def search_calls_at_point(case: PointCheck) -> int:
    """Return how many calls the search for a cause may take, from the calls that the modes took at a point."""
    estimates = [outcome.estimate for outcome in case.outcomes.values() if outcome.estimate is not None]
    evaluations = sum(estimate.cost.evaluations for estimate in estimates)
    return allowed_search_calls(evaluations, case.q.operations if case.q.untraced is None else None)


def with_causes(verified: Verified, budget: CauseBudget) -> CheckReport:
    """Return the report with the likely mistake at each wrong point, and in each wrong custom gradient."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        # of points outside the domain, and of formats that are too narrow
        warnings.simplefilter("ignore", RuntimeWarning)
        layer, parts = verified.report.first_wrong_layer(), list(verified.report.parts())
        layers_first = {} if layer is None else verified.inner_causes
        inner = {number: cause(budget) for number, cause in layers_first.items()}
        said = None if layer is None else inner.get(parts.index(layer))
        if layer is not None and said is not None:  # the mistake of a layer, as that of the network that holds it
            says = f"in {layer.name}, {said.message}"
            known = said.kind is not DiagnosisKind.UNKNOWN
            said = replace(said, message=says, corrected=None, layer=layer.name) if known else None
        found = {number: said or cause(budget) for number, cause in verified.causes.items()}
        inner |= {n: cause(budget) for n, cause in verified.inner_causes.items() if n not in inner}
    report = verified.report
    points = list(report.points)
    for number, diagnosis in found.items():
        points[number] = replace(points[number], diagnosis=diagnosis)
    for number, diagnosis in inner.items():
        if diagnosis is not None and diagnosis.kind is not DiagnosisKind.UNKNOWN:
            parts[number] = replace(parts[number], message=diagnosis.message)
    report = replace(report, points=tuple(points))
    if isinstance(report.native, NativeReport):
        return replace(report, native=replace(report.native, parts=tuple(parts)))
    return replace(report, layers=tuple(parts) or ABSENT)


def drop_late_causes(report: CheckReport, budget: CauseBudget) -> CheckReport:
    """Return the report; without a cause, and with a finding that says so, if the time limit of the search was reached."""
    if not budget.late:
        return report
    says = "the search for the cause reached its time limit, so that no cause is shown"
    late = finding(Kind.TIMEOUT, Severity.INFO, says, hint="--diagnose TIME sets another limit")

    def at(point: PointReport) -> PointReport:
        kept = point.diagnosis if point.diagnosis is not None and point.diagnosis.kind in OF_SHAPE else None
        wrong = point.verdict == Verdict.FAIL
        return replace(point, diagnosis=kept, findings=(*point.findings, late) if wrong else point.findings)

    return replace(report, points=tuple(at(point) for point in report.points))
