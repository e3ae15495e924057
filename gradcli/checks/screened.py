"""Check claims with too many entries to move one by one, by random projections of function values and a search."""

import warnings

import numpy as np

from gradcli.checks.diagnose import diagnose
from gradcli.checks.evidence import Projections
from gradcli.checks.run_modes import PointCheck
from gradcli.checks.witness import kink_at
from gradcli.checks.wrong import CauseBudget, Wrong
from gradcli.errors import GradcliError
from gradcli.frameworks.native import native_of
from gradcli.modes.claim import GRANT_NARROW, GRANT_SOLVER
from gradcli.modes.mode import Question
from gradcli.modes.rounding import EPS
from gradcli.modes.screening import Limits, ScreeningResult, WrongEntry, screen
from gradcli.report.common import Finding, finding
from gradcli.report.point_report import NO_SIZE, Detects, Diagnosis, Entries, Mismatch
from gradcli.request.point import Array
from gradcli.targets.derived import root_of
from gradcli.tracing.shapes import end_to_end, shape, size, split_like
from gradcli.words import DiagnosisKind, Kind, Severity

_Odd = tuple[WrongEntry, str, tuple[int, ...]]
_MOST_CALLS = 20_000
_GRANT = 1e-12  # relative rounding of a claim, whose algorithm is unknown, in float64


def applies(case: PointCheck) -> bool:
    """Whether only function values are available, and there are too many entries to move each one alone."""
    differences = case.outcomes.get("finite-difference")
    return (
        case.q.untraced is not None
        and "claim" in case.outcomes
        and case.outcomes["claim"].estimate is not None
        and shape(case.q.value) == ()
        and bool(np.isfinite(case.q.value))
        and differences is not None
        and differences.status == "not run"
    )


def projections(case: PointCheck) -> Projections:
    """Return what random projections show of a claim, and how much of it they cover.

    Cost  at most as many evaluations of f as the budget allows, or 20,000 if there is none.
    """
    q, claim = case.q, case.estimate("claim").value
    names = _names(case)
    flat = end_to_end([claim[name] for name in names])
    coarseness = case.claim.precision.coarseness() if case.claim is not None else 1.0
    found = _screen(q, names, flat, _GRANT if coarseness == 1.0 else GRANT_NARROW * coarseness * EPS)
    odd = [(suspect, name, at, kink_at(q, name, at)) for suspect, name, at in _placed(q, names, found)]
    wrong = [_mismatch(name, at, flat[s.index], s) for s, name, at, kink in odd if kink is None]
    kinks = [finding(Kind.KINK, Severity.INCONCLUSIVE, kink) for *_, kink in odd if kink is not None]
    undecided_because = (*kinks, *_along(q, names, found))
    unplaced = found.agrees is False and not wrong and not undecided_because  # an entry is wrong, but it was not found
    return Projections(
        agrees=found.agrees, coverage=_coverage(found, flat), undecided_because=undecided_because, wrong=tuple(wrong),
        entries=Entries(len(flat), len(wrong) + unplaced, sum(len(group) for group in found.suspected)),
        complete=found.complete, calls=found.calls,
        detects=_detects(q, names, found, flat) if found.agrees else NO_SIZE,
    )  # fmt: skip


def mistake_in_projections(case: PointCheck, found: Projections | None, budget: CauseBudget) -> Diagnosis | None:
    """Return the likely mistake, from the entries that were measured alone; if `found` is None, from those not finite."""
    q = case.q
    claim = {name: np.asarray(case.estimate("claim").value[name]) for name in _names(case)}
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


def _names(case: PointCheck) -> tuple[str, ...]:
    """Return the inputs that the claim covers."""
    claim = case.estimate("claim").value
    return tuple(name for name in case.q.wrt if name in claim)


def _screen(q: Question, names: tuple[str, ...], claim: Array, grant: float) -> ScreeningResult:
    """Return what projections show of a claim, which may be off by `grant` of each entry by rounding."""
    native = native_of(root_of(q.f))
    xs = dict(zip(q.wrt, q.xs, strict=True))
    scales = end_to_end([q.stepping.sizes(name, xs[name]) for name in names])

    def phi(step: Array) -> float:
        moved = dict(zip(names, split_like(step, [xs[name] for name in names]), strict=True))
        at = [x + moved[name] if name in moved else x for name, x in xs.items()]
        return float(q.near(*at))

    def complex_phi(step: Array) -> complex:
        moved = dict(zip(names, split_like(step, [xs[name] for name in names]), strict=True))
        with warnings.catch_warnings():
            warnings.simplefilter("error", np.exceptions.ComplexWarning)
            try:
                return complex(q.g(*[x + moved[name] if name in moved else x for name, x in xs.items()]))
            except (GradcliError, np.exceptions.ComplexWarning) as error:
                raise ValueError(str(error)) from error

    budget, changes = q.stepping.budget or _MOST_CALLS, q.solver_changes
    slopes = dict(zip(names, split_like(claim, [xs[name] for name in names]), strict=True))
    solvers = 0.0 if changes is None else end_to_end([GRANT_SOLVER * changes.of(n, g) for n, g in slopes.items()])
    return screen(
        phi, claim, scales, seed=q.seed, limits=Limits(budget), claim_error=grant * np.abs(claim) + solvers,
        complex_phi=complex_phi, phi_at_zero=float(q.value),
        rounds=native is not None and native.values_format != "float64",
    )  # fmt: skip


def _along(q: Question, names: tuple[str, ...], found: ScreeningResult) -> list[Finding]:
    """Return findings that leave the claim undecided: kinks, or a slope along a direction that fits only wider steps."""
    said = []
    for kink in found.kinks:
        where = "along a random direction"
        if kink.index is not None:
            name, at = _place(q, names, kink.index)
            where = f"at {name}" + (f"[{','.join(map(str, at))}]" if at else "")
        says = f"its slope is {kink.left:.5g} from the left and {kink.right:.5g} from the right"
        hint = "move the point, or accept it: --allow kink"
        said.append(finding(Kind.KINK, Severity.INCONCLUSIVE, f"f has a kink {where}: {says}", hint=hint))
    for d in found.only_wider[:1]:
        kind = Kind.STAIRCASE if d.jumps else Kind.FINE_STRUCTURE
        says = (
            f"f has fine structure along a random direction: its slope is {float(d.value):.5g} over steps of {float(d.h):.0e} "
            f"of the entries and {float(d.other):.5g} over steps of {float(d.other_h):.0e}, which the claim fits"
        )
        said.append(finding(kind, Severity.INCONCLUSIVE, says, hint=f"accept it: --allow {kind}"))
    return said


def _placed(q: Question, names: tuple[str, ...], found: ScreeningResult) -> list[_Odd]:
    return [(suspect, *_place(q, names, suspect.index)) for suspect in found.wrong]


def _place(q: Question, names: tuple[str, ...], index: int) -> tuple[str, tuple[int, ...]]:
    """Return the input, and the index in it, of an entry of the concatenated inputs."""
    for name in names:
        x = q.point.values[name]
        if index < size(x):
            return name, tuple(int(k) for k in np.unravel_index(index, shape(x))) if shape(x) else ()
        index -= size(x)
    raise IndexError(index)


def _coverage(found: ScreeningResult, claim: Array) -> Finding:
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


def _mismatch(name: str, at: tuple[int, ...], claimed: float, suspect: WrongEntry) -> Mismatch:
    ratio = claimed / suspect.measured if suspect.measured else float("inf")
    return Mismatch(name, at, float(claimed), suspect.measured, float(claimed) - suspect.measured, suspect.bound, ratio)


def _detects(q: Question, names: tuple[str, ...], found: ScreeningResult, claim: Array) -> Detects:
    if not np.any(claim) and np.all(np.isfinite(found.detectable)):
        return Detects(None, None, float(np.max(found.detectable, initial=0.0)))
    with np.errstate(all="ignore"):
        relative = np.where(claim != 0, found.detectable / np.abs(claim), -1.0)
    worst = int(np.argmax(relative))
    if not 0 <= relative[worst] < 1:
        return NO_SIZE
    name, at = _place(q, names, worst)
    return Detects(float(relative[worst]), name + (f"[{','.join(map(str, at))}]" if at else ""))
