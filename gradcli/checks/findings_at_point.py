"""Gather the findings at a point from the recorded run, from the claim, and from comparing the modes."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from gradcli.checks.diagonal import diagonal_only
from gradcli.checks.evidence import (
    AGREE,
    CANNOT_TELL,
    DISAGREE,
    DOUBT,
    USEFUL,
    USEFUL_SOLVER,
    Outcome,
    entrywise,
    scale_of,
)
from gradcli.checks.gradient_slips import not_reduced
from gradcli.checks.run_modes import PointCheck
from gradcli.checks.structure import ClaimOnSurfaces
from gradcli.checks.witness import kink_along, kink_at, one_sided, slopes_in_words
from gradcli.checks.zero_slopes import at_rest, settled_zeros
from gradcli.errors import GradcliError, Place, SlopeNotFinite, Span
from gradcli.frameworks.framework import EPS
from gradcli.frameworks.native import native_of
from gradcli.modes.certified import FLOAT_CONSTANTS
from gradcli.modes.claim import GRANT_SOLVER, Claim, Claimed, ClaimedExpressions, WrongShape, allow_for_inputs, shaped
from gradcli.modes.kinks import TO_FINITE, Mark
from gradcli.modes.mode import Question
from gradcli.modes.problem import MANY
from gradcli.report.common import Finding, finding
from gradcli.report.point_report import Diagnosis
from gradcli.request.point import Estimate, Slopes
from gradcli.targets.derived import gradient_in, root_of
from gradcli.tracing.provenance import place
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import plain
from gradcli.words import DiagnosisKind, Kind, Severity

_SAME = 1e-11  # relative: trace and function call the same numpy functions, but composites may round differently
_BRANCHES = 3
_DIGITS = 1e-3  # relative to the largest slope, or to 1: a smaller bound means that some digits are known
_MOST_ENTRIES = 50  # entries whose one-sided slopes are compared
_STAIRCASE = 2.0**30  # float64 roundings in one rounding of the function: coarser than float32 (2**29)
_WHOLE = 1e-6  # a number of calls this near an integer counts as an integer
_MOST_CALLS = 100.5  # of a claim that a gradient may hold the sum of; a check makes fewer
_NARROWING = (1e-9, 1e-12, 1e-15)  # times the point's size: steps to both sides of a tie
_SHRINKS = 0.9  # of the distance of two values: by so much it shrinks with the steps, or f jumps
_SLOPES = 10  # entries whose one-sided slopes are looked at for a kink
_APART = 1e-3  # relative: two one-sided slopes that differ by less are not shown as those of a kink
_NEAR = 1e-4  # relative to the entry, or to 1: the width of the steps of differences


def place_findings(case: PointCheck) -> None:
    """Add the findings of the recorded run about the point: values that are not finite, kinks, jumps, staircases."""
    q = case.q
    _trace_findings(case)
    certified = case.outcomes["certified"].estimate if "certified" in case.outcomes else None
    for note in certified.notes if certified is not None else ():
        if note.startswith(FLOAT_CONSTANTS):
            case.findings.append(finding(Kind.REFERENCE, Severity.INFO, note))
    bad = q.not_finite
    if q.blind is not None and q.stepping.budget is None:
        _kinks_by_values(case)
    if bad is None and not np.all(np.isfinite(q.value)):
        says = f"the value of f is {np.ravel(q.value)[~np.isfinite(np.ravel(q.value))][0]}"
        case.inconclusive(Kind.NON_FINITE, says, hint=TO_FINITE)
        return
    if not q.wrt or not any(np.size(x) for x in q.xs) or not np.size(q.value):
        case.inconclusive(
            Kind.NOTHING_TO_CHECK,
            "there is nothing to differentiate: f has no inputs, or they are empty",
            hint="name an input",
        )
        return
    if bad is not None:
        case.inconclusive(Kind.NON_FINITE, bad.says, at=_span(bad), operation=_operation(bad), hint=bad.hint)
        return
    for mark in q.kinks:
        names = _reached(q, mark)
        where = f" at {names}" if names else ""
        broken = _jumps_or_rises(q, mark)
        if broken is not None:
            kind, says = broken
            case.inconclusive(kind, says.format(where), at=_span(mark))
            continue
        case.inconclusive(
            Kind.KINK, f"f has a kink{where}: {mark.says}{_slopes(q, mark)}", at=_span(mark), operation=_operation(mark),
            hint="the value shown is a convention; move the point, or accept it: --allow kink",
        )  # fmt: skip
    near = _nearby(q)
    case.findings += [near] if near is not None else []
    for mark in q.staircases:
        case.inconclusive(
            Kind.STAIRCASE, mark.says, at=_span(mark), operation=_operation(mark), hint="accept it: --allow staircase"
        )


def _kinks_by_values(case: PointCheck) -> None:
    """Add the findings that function values give if the trace is rejected: kinks, or no finite slope where rules have none."""
    q, found = case.q, case.outcomes.get("finite-difference")
    bad, estimate = q.untraced, None if found is None else found.estimate
    if isinstance(bad, SlopeNotFinite) and (estimate is None or not _sharp(estimate)):
        case.inconclusive(Kind.NON_FINITE, bad.what, at=bad.where, hint=bad.do)
    if shape(q.value) != ():
        return
    entries = ((name, at) for name, x in zip(q.wrt, q.xs, strict=True) for at in np.ndindex(shape(x)))
    kinks = (kink_at(q, name, at) for name, at in islice(entries, _MOST_ENTRIES))
    kink = next((kink for kink in kinks if kink is not None), None)
    if kink is None and estimate is not None and _sharp(estimate):
        kink = kink_along(q, estimate)
    if kink is not None:
        case.inconclusive(Kind.KINK, kink, hint="move the point, or accept it: --allow kink")


def _sharp(estimate: Estimate) -> bool:
    """Whether differences show finite slopes, known to some digits relative to the largest one."""
    sizes = [float(np.max(np.abs(g), initial=0.0)) for g in estimate.value.values()]
    room = _DIGITS * max([1.0, *sizes])
    return bool(np.all(np.isfinite(sizes))) and all(np.all(np.asarray(b) <= room) for b in estimate.bound.values())


def _trace_findings(case: PointCheck) -> None:
    """Add the findings of the recording: the error that ended it, whether it is the function, the branches it took."""
    q = case.q
    if q.untraced is not None:
        native = native_of(root_of(q.f))
        values = native.values_say if native is not None and gradient_in(q.f) is None else ""
        formats = f", {values}" if values else ""
        says = f"checked by function values alone{formats}: {q.untraced.what}"
        case.findings.append(finding(Kind.UNTRACED, Severity.WARNING, says, at=q.untraced.where, hint=q.untraced.do))
        return
    apart = np.abs(np.asarray(plain(q.recording.y)) - np.asarray(q.value))
    room = _SAME * (np.abs(q.value) + q.largest_adjoint * _SAME) + 1e3 * q.noise_floor
    if np.any(apart > room):
        case.inconclusive(
            Kind.TRACE, f"the trace differs from the function: {_first(q.recording.y)} traced, {_first(q.value)} called"
        )
    if q.trace_test.why:
        severity = Severity.INCONCLUSIVE if q.trace_test.failed else Severity.INFO
        says = f"near the point the trace was not compared with the function: {q.trace_test.why}"
        case.findings.append(finding(Kind.TRACE_TEST, severity, says))
    if q.unbounded:
        says = f"the rounding error of the gradient has no bound: {q.unbounded}"
        case.findings.append(finding(Kind.NOISE, Severity.WARNING, says))
    for branch in sorted(q.branches, key=lambda b: abs(b.margin))[:_BRANCHES]:
        case.findings.append(finding(Kind.BRANCH, Severity.INFO, branch.says, at=place(branch.position)))


def _first(y: Any) -> str:
    return f"{float(np.ravel(plain(y))[0]):.17g}" if np.size(plain(y)) else "nothing"


def _jumps_or_rises(q: Question, mark: Mark) -> tuple[Kind, str] | None:
    """Return the kind of a finding, and what it says of a place, where f jumps at a tie or has an infinite slope there."""
    apart: list[float] = []
    for step in _NARROWING:
        sides = []
        for sign in (-1.0, 1.0):
            moved = [x + sign * step * np.maximum(1.0, np.abs(x)) * m for x, m in zip(q.xs, mark.reach, strict=True)]
            sides.append(np.asarray(q.near(*moved), dtype=float))
        apart.append(float(np.max(np.abs(sides[1] - sides[0]), initial=0.0)))
        size = 1.0 + float(np.max(np.abs(sides[0]), initial=0.0))
        if not apart[0] > 1e-6 * size + 1e-6 * q.largest_adjoint:
            return None
    if not apart[-1] <= _SHRINKS * apart[0]:
        return Kind.JUMP, "f jumps{}: it has no gradient there"
    return Kind.INFINITE_SLOPE, "f is continuous{}, but its slope grows without bound as the point is approached"


def _nearby(q: Question) -> Finding | None:
    """Return a finding with the distance of the nearest kink, if steps of differences would cross it."""
    if q.untraced is not None or gradient_in(q.f) is not None or q.kinks:
        return None
    found = q.nearest_kink
    if found is None:
        return None
    x = np.asarray(q.xs[found.number])
    if not found.distance < _NEAR * max(1.0, abs(float(x[found.at]))):
        return None
    name = q.wrt[found.number] + (f"[{','.join(map(str, found.at))}]" if found.at else "")
    says = f"a kink is {found.distance:.2g} away in {name}; the gradient is checked on the smooth piece at the point itself"
    return finding(Kind.KINK_NEARBY, Severity.INFO, says, at=place(found.position), operation=found.primitive.name)


def _slopes(q: Question, mark: Mark) -> str:
    """Return in words the slopes on both sides of a kink, for the first of some entries where they differ."""
    for name, mask in zip(q.wrt, mark.reach, strict=True):
        for at in map(tuple, np.argwhere(mask)[:_SLOPES]) if shape(q.value) == () else ():
            left, right = one_sided(q, name, at)
            if np.isfinite(left) and np.isfinite(right) and abs(right - left) > _APART * max(abs(left), abs(right)):
                return f"; the slope is {slopes_in_words(q, name, at)}"
    return ""


def _span(mark: Mark) -> Span | Place | None:
    return place(mark.position)


def _operation(mark: Mark) -> str:
    return mark.primitive.name


def _reached(q: Question, mark: Mark) -> str:
    """Return in words the entries that reach a kink, such as `x[1] = 0`; three at most."""
    found = []
    for name, x, mask in zip(q.wrt, q.xs, mark.reach, strict=True):
        for at in np.argwhere(mask)[:3]:
            entry = f"{name}[{','.join(map(str, at))}]" if len(at) else name
            found.append(f"{entry} = {float(np.asarray(x)[tuple(at)]):.6g}")
    return ", ".join(found[:3])


def add_claim(case: PointCheck, claimed: Claimed) -> None:
    """Add the claim to the outcomes of the modes; a claim of the wrong shape gets its diagnosis here."""
    claim = Claim(claimed)
    case.claimed = claimed.names
    try:
        estimate = _with_solvers(case, claim.gradient(case.q))
    except WrongShape as error:
        case.wrong_shape = _of_shape(case, error)
        case.outcomes = {"claim": Outcome(claim, "failed", error=error)} | case.outcomes
        return
    case.outcomes = {"claim": Outcome(claim, "ok", estimate)} | case.outcomes
    case.findings += [finding(Kind.CLAIM, Severity.INFO, says) for says in estimate.notes]
    if isinstance(claimed, ClaimOnSurfaces):
        case.findings += claimed.notes()
    if claimed.mutates:
        says = f"{claimed.text} writes into its input; it was given copies"
        case.inconclusive(
            Kind.MUTATES_INPUT, says, hint="work on a copy: x = x.copy(); or accept it: --allow mutates-input"
        )


def _with_solvers(case: PointCheck, claim: Estimate) -> Estimate:
    """Return the claim with what it is granted because solvers in f stop at a tolerance: ten times what that changes."""
    changes = case.q.solver_changes
    if changes is None:
        return claim
    differences = case.outcomes["finite-difference"].estimate if "finite-difference" in case.outcomes else None
    reference = case.estimate(case.reference).solvers if case.reference is not None else {}
    granted = {}
    for name, x in claim.value.items():
        change, least = changes.of(name, x), 0.0
        if differences is not None and name in differences.solvers:
            least = (
                differences.bound[name] - differences.solvers[name]
            )  # a change within the bound of differences is none
        granted[name] = np.where(change > least, GRANT_SOLVER * change - reference.get(name, 0.0), 0.0)
    return replace(claim, bound={n: b + granted.get(n, 0.0) for n, b in claim.bound.items()}, solvers=granted)


def claim_again(case: PointCheck) -> Finding | None:
    """Return a finding if a second call of the claim gives a different gradient, beyond its bound; else None."""
    mode, first = case.outcomes["claim"].mode, case.outcomes["claim"].estimate
    if first is None or not isinstance(mode, Claim) or isinstance(mode.claimed, ClaimedExpressions):
        return None  # an expression gives the same value at every call
    try:
        again = shaped(
            mode.claimed(dict(case.q.point.values)), case.q
        )  # a new dict, so that a cache by identity is not hit
        apart = max(_beyond(again[name], x, first.bound[name]) for name, x in first.value.items())
        if apart and _grows(again, first.value):
            says = "each call adds its gradient to that of earlier calls: .grad is not set to zero"
            return finding(
                Kind.ACCUMULATES, Severity.ERROR, says, hint="zero it first: optimizer.zero_grad(), x.grad = None"
            )
        how = f"two calls with the same arguments give different values by {apart:.1e}"
    except (GradcliError, KeyError, ValueError):
        apart, how = np.inf, "a second call with the same arguments fails"
    hint = "fix the seed inside the claim; keep no state"
    says = f"the claimed gradient is not deterministic: {how}"
    return finding(Kind.NOT_DETERMINISTIC, Severity.ERROR, says, hint=hint) if apart else None


def _grows(again: Any, first: Any) -> bool:
    """Whether a second gradient is n + 1 times one gradient where the first was n times it, as when .grad accumulates."""
    pairs = [(np.ravel(again[name]), np.ravel(x)) for name, x in first.items()]
    after, before = (np.concatenate(part) for part in zip(*pairs, strict=True))
    size = float(np.dot(before, before))
    ratio = float(np.dot(after, before)) / size if size else 0.0
    calls = 1.0 / (ratio - 1.0) if ratio > 1.0 else np.inf
    if not calls < _MOST_CALLS or abs(calls - round(calls)) >= _WHOLE:
        return False  # a gradient that changes in its last digits has grown by no whole part of itself
    return bool(np.allclose(round(calls) * (after - before), before, rtol=_WHOLE))


def _beyond(again: Any, x: Any, bound: Any) -> float:
    """Return the largest difference of two arrays that exceeds its bound, or 0 if none does."""
    if np.array_equal(again, x):
        return 0.0
    apart = np.where(np.isnan(again) & np.isnan(x) | (again == x), 0.0, np.abs(again - x))
    return float(np.max(np.where(apart <= bound, 0.0, np.nan_to_num(apart, nan=np.inf)), initial=0.0))


def _of_shape(case: PointCheck, error: WrongShape) -> Diagnosis:
    """Return the diagnosis of a claim of the wrong shape, with the reduction that would make it right, if there is one."""
    if error.diagonal is not None and case.reference is not None:
        says = diagonal_only(case.q, error.diagonal, case.estimate(case.reference))
        if says is not None:
            return Diagnosis(DiagnosisKind.DIAGONAL_ONLY, says)
    says = None
    if error.claimed is not None and case.reference is not None:
        says = not_reduced(error.claimed, case.estimate(case.reference).value[error.name], error.name)
    return Diagnosis(DiagnosisKind.SHAPE, error.what + (f"; {says}" if says else ""))


# Judge entries by differences at several scales, which show kinks, and slopes that change with the step size.

_MOST = 10  # entries that get a finding
_CLEAR = 10.0  # times the bounds: a claim must differ by this much where the bounds are wide compared with the slope


def by_scales(case: PointCheck, mode: str, name: str, word: Any) -> Any:
    """Return the verdicts of one input's entries if differences are one of the two compared modes.

    A mode is not wrong, but undecided, if it differs from the slope over the smaller steps and fits the slope over the
    wider ones, if the bound of the slope is too wide to contradict anything, or if f has a kink. A mode that fits only the wider
    steps is not confirmed if f jumps and has a slope between its jumps.

    Shapes  `word` and the result have the shape of the Jacobian with respect to this input: of the output, then of the input.
    """
    found = case.outcomes["finite-difference"].estimate
    against = case.outcomes[str(case.reference) if mode == "finite-difference" else mode].estimate
    if found is None or against is None or name not in found.value or name not in against.value:
        return word
    x, bound, slopes = np.asarray(against.value[name]), np.asarray(against.bound[name]), found.slopes.get(name)
    # what the tolerances of solvers make of a bound is granted, and is no doubt of the differences
    blunt = _wide(found.value[name], found.bound[name] - np.asarray(found.solvers.get(name, 0.0)))
    if slopes is not None:
        apart, room = np.abs(x - slopes.other), slopes.other_bound + bound
        fits = apart <= DOUBT * room
        clear = np.abs(x - found.value[name]) > _CLEAR * (found.bound[name] + bound)
        blunt = blunt & ~(clear & ~_wide(slopes.other, slopes.other_bound))
        teeth = slopes.jumps & (np.abs(slopes.other) > DOUBT * slopes.other_bound)  # f may be constant between them
        open_ = (word == DISAGREE) & fits | (word == AGREE) & teeth & ~(apart <= room) | kinked(slopes)
        word = np.where(open_, CANNOT_TELL, word)
    if mode == "claim" and not np.any(found.value[name]) and np.any((word == DISAGREE) & blunt):
        blunt = blunt & ~at_rest(case, name, np.where(word == DISAGREE, x, 0.0))
    return np.where((word == DISAGREE) & blunt, CANNOT_TELL, word)


def _wide(value: Any, bound: Any) -> Any:
    """Return a mask of the slopes whose bounds are too wide, relative to the largest slope, to contradict anything."""
    size = float(np.max(np.abs(value), initial=0.0, where=np.isfinite(value)))
    return np.asarray(~(np.asarray(bound) <= USEFUL * size))


def kinked(slopes: Slopes) -> Any:
    """Return a mask of the entries at which the one-sided slopes differ."""
    return np.isfinite(slopes.left) & np.isfinite(slopes.right)


def scale_findings(case: PointCheck) -> list[Finding]:
    """Return findings on the undecided entries at which differences show a kink or a second slope."""
    outcome = case.outcomes.get("finite-difference")
    if outcome is None or outcome.estimate is None:
        return []
    found = []
    for name, slopes in outcome.estimate.slopes.items():
        open_ = np.zeros(np.shape(slopes.h), dtype=bool)
        for mode, words in case.agreement.items():
            if name in words and (mode == "claim" or (case.claimed is None and mode == "finite-difference")):
                open_ |= words[name] == CANNOT_TELL
        both = kinked(slopes)
        found += [_kink(case, name, k, slopes) for k in _scales_first(open_ & both)]
        found += [_two(case, name, k, slopes) for k in _scales_first(open_ & ~both & np.isfinite(slopes.other))]
    return found


def _scales_first(mask: Any) -> Iterator[tuple[int, ...]]:
    return (tuple(int(i) for i in k) for k in np.argwhere(mask)[:_MOST])


def _entry(case: PointCheck, name: str, k: tuple[int, ...]) -> str:
    """Return an entry in words: `x[1]` if f is a scalar, else `output [0] by x[1]`."""
    outputs = len(shape(case.q.value))
    entry = name + (f"[{','.join(map(str, k[outputs:]))}]" if k[outputs:] else "")
    return f"output [{','.join(map(str, k[:outputs]))}] by {entry}" if outputs else entry


def _kink(case: PointCheck, name: str, k: tuple[int, ...], slopes: Slopes) -> Finding:
    left, right = float(slopes.left[k]), float(slopes.right[k])
    says = (
        f"f has a kink at {_entry(case, name, k)}: its slope is {left:.5g} from the left and {right:.5g} from the right"
    )
    return finding(Kind.KINK, Severity.INCONCLUSIVE, says, hint="move the point, or accept it: --allow kink")


def _two(case: PointCheck, name: str, k: tuple[int, ...], slopes: Slopes) -> Finding:
    """Return a finding that an entry has two slopes: a staircase if f jumps between their scales, else fine structure."""
    found = case.estimate("finite-difference")
    value, bound = (float(np.asarray(part[name])[k]) for part in (found.value, found.bound))
    here, there = f"{value:.5g}", f"{float(np.asarray(slopes.other)[k]):.5g}"
    h, other_h = (f"{float(np.asarray(x)[k]):.0e}" for x in (slopes.h, slopes.other_h))
    at, slope = _entry(case, name, k), f"its slope is {here} over steps of {h}"
    if np.asarray(slopes.jumps)[k]:
        says = f"f is a staircase at {at}: {slope} and {there} between its jumps"
        return finding(Kind.STAIRCASE, Severity.INCONCLUSIVE, says, hint="accept it: --allow staircase")
    says = f"f has fine structure at {at}: {slope} and {there} over steps of {other_h}"
    if abs(value - float(np.asarray(slopes.other)[k])) <= bound:
        says = f"f has fine structure at {at}: {slope}; over smaller ones, which rounding hides, it may be {bound:.1e} off that"
    hint = "smaller steps are closer to the derivative: claim their slope, or accept it: --allow fine-structure"
    return finding(Kind.FINE_STRUCTURE, Severity.INCONCLUSIVE, says, hint=hint)


def compare_all(case: PointCheck) -> None:
    """Compare every mode with the reference, entry by entry; entries at a kink stay undecided."""
    if case.reference is None:
        return
    right = case.estimate(case.reference)
    claim = case.outcomes.get("claim")
    if claim is not None and claim.estimate is not None:
        claim = replace(claim, estimate=allow_for_inputs(claim.estimate, right, case.q))
        case.outcomes = {**case.outcomes, "claim": claim}
    scale = scale_of(right, case.q.xs, case.q.value)
    useful = USEFUL if case.q.solver_changes is None else USEFUL_SOLVER
    # of bounds that one shaken run gives, a few are too small: the more entries, the further
    shaken = DOUBT * max(1.0, case.q.entries / MANY)
    for mode, outcome in case.outcomes.items():
        if outcome.estimate is None:
            continue
        fixed = case.fixed if mode == "claim" else None
        agreement = {}
        for k, name in enumerate(case.q.wrt):
            if name in outcome.estimate.value:
                own_bound = mode == "claim" or "finite-difference" in (mode, case.reference)
                doubt = DOUBT if own_bound else shaken
                word = entrywise(outcome.estimate, right, name, scale, fixed, useful, doubt)
                if mode == "claim":
                    known = np.isfinite(outcome.estimate.value[name])
                    word = word if np.all(known) else np.where(~known & np.isfinite(right.value[name]), DISAGREE, word)
                if mode == "claim" and case.q.untraced is not None and _too_coarse(case, outcome):
                    word = np.where(word == DISAGREE, CANNOT_TELL, word)
                if "finite-difference" in (mode, case.reference) and mode != case.reference:
                    word = by_scales(case, mode, name, word)
                if mode == "claim":
                    word = settled_zeros(case, name, word)
                open_ = case.q.undecided[k]
                agreement[name] = (
                    np.where(np.broadcast_to(open_, word.shape), CANNOT_TELL, word) if np.any(open_) else word
                )
        case.agreement[mode] = agreement


def _too_coarse(case: PointCheck, claim: Outcome) -> bool:
    """Whether function values are in a format so narrow that they form a staircase, whose differences contradict nothing."""
    native = native_of(root_of(case.q.f))
    if native is not None:  # its values may be taken in a wider format than the claim
        return EPS[native.values_format] / EPS["float64"] > _STAIRCASE
    return isinstance(claim.mode, Claim) and claim.mode.claimed.precision.coarseness() > _STAIRCASE
