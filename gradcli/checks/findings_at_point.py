"""Gather the findings at a point from the recorded run, from the claim, and from comparing the modes."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from gradcli.checks.assumed_sets import ClaimOnSurfaces
from gradcli.checks.diagonal import explain_claimed_diagonal
from gradcli.checks.evidence import (
    AGREE,
    CANNOT_TELL,
    DISAGREE,
    DOUBT,
    USEFUL,
    USEFUL_SOLVER,
    DirectionalCheck,
    Outcome,
    judge_entries,
    zero_scale,
)
from gradcli.checks.run_modes import PointCheck
from gradcli.errors import GradcliError, SlopeNotFinite
from gradcli.frameworks.framework import EPS as FORMATS
from gradcli.frameworks.native import native_of
from gradcli.modes.certified import FLOAT_CONSTANTS, certified_difference
from gradcli.modes.claim import (
    GRANT_SOLVER,
    MAY_BE_TRANSPOSED,
    Claim,
    Claimed,
    ClaimedExpressions,
    ClaimedFunction,
    WrongShape,
    grant_input_rounding,
    reshape_claims,
)
from gradcli.modes.difference_steps import QUICK, Line, derivative, quick_derivative
from gradcli.modes.kinks import TO_FINITE, WIDTHS, Mark
from gradcli.modes.mode import Question
from gradcli.modes.recording import MANY
from gradcli.modes.rounding import EPS
from gradcli.report import numbers
from gradcli.report.common import Finding, finding
from gradcli.report.point_report import Diagnosis
from gradcli.request.point import Array, Estimate, Slopes
from gradcli.targets.derived import inner_gradient, original_function, random_signs
from gradcli.tracing.provenance import place_of_position
from gradcli.tracing.shapes import (
    all_finite,
    entries_of_part,
    iterate_blocks,
    largest_finite,
    largest_magnitude,
    map_in_blocks,
    shape,
    size,
)
from gradcli.tracing.tracer import plain_value
from gradcli.words import DiagnosisKind, Kind, Severity

_SAME = 1e-11  # relative: trace and function call the same numpy functions, but composites may round differently
_BRANCHES = 3
_DIGITS = 1e-3  # relative to the largest slope, or to 1: a smaller bound means that some digits are known
_MOST_ENTRIES = 50  # entries whose one-sided slopes are compared
_STAIRCASE = 2.0**30  # float64 roundings in one rounding of the function: coarser than float32 (2**29)
_NEAR_INTEGER = 1e-6  # a number of calls this near an integer counts as an integer
_MOST_CALLS = 100.5  # of a claim that a gradient may hold the sum of; a check makes fewer
_NARROWING = (1e-9, 1e-12, 1e-15)  # times the point's size: steps to both sides of a tie
_SHRINKS = 0.9  # of the distance of two values: by so much it shrinks with the steps, or f jumps
_SLOPES = 10  # entries whose one-sided slopes are looked at for a kink
_SLOPES_DIFFER = 1e-3  # relative: two one-sided slopes that differ by less are not shown as those of a kink
_BOUNDED = (1e-4, 1e-8)  # steps between which a bounded slope less than doubles
_MOVE_OR_ACCEPT = "move the point, or accept it: --allow kink"
_NEAR = 1e-4  # relative to the entry, or to 1: the width of the steps of differences


def add_point_findings(case: PointCheck) -> None:
    """Add the findings of the recorded run about the point: values that are not finite, kinks, jumps, staircases."""
    q = case.q
    _add_trace_findings(case)
    certified = case.estimate_or_none("certified")
    for note in certified.notes if certified is not None else ():
        if note.startswith(FLOAT_CONSTANTS):
            case.findings += (finding(Kind.REFERENCE, Severity.INFO, note),)
    bad = q.not_finite
    if q.blind is not None and q.stepping.budget is None:
        _add_kinks_by_values(case)
    if bad is None and not np.all(np.isfinite(q.value)):
        says = f"the value of f is {np.ravel(q.value)[~np.isfinite(np.ravel(q.value))][0]}"
        case.inconclusive(Kind.NON_FINITE, says, hint=TO_FINITE)
        return
    if not q.wrt or not any(np.size(x) for x in q.xs) or not np.size(q.value):
        says = "there is nothing to differentiate: f has no inputs, or they are empty"
        case.inconclusive(Kind.NOTHING_TO_CHECK, says, hint="name an input")
        return
    if bad is not None:
        at = place_of_position(bad.position)
        kink = _first_kink_by_values(q) if q.stepping.budget is None and _has_bounded_slopes(q) else None
        kind, says, hint = Kind.NON_FINITE, bad.says, bad.hint
        if kink is not None:  # whatever the rule of the operation gives there, as for norm(x) at 0
            kind, says, hint = Kind.KINK, f"{kink}; {bad.says}", _MOVE_OR_ACCEPT
        case.inconclusive(kind, says, at=at, operation=bad.primitive.name, hint=hint)
        return
    for mark in q.kinks:
        names = _describe_reached_entries(q, mark)
        where = f" at {names}" if names else ""
        broken, at = _find_jump_or_rise(q, mark), place_of_position(mark.position)
        if broken is not None:
            kind, says = broken
            case.inconclusive(kind, says.format(where), at=at)
            continue
        says = f"f has a kink{where}: {mark.says}{_describe_slopes_at(q, mark)}"
        hint = "the value shown is a convention; move the point, or accept it: --allow kink"
        case.inconclusive(Kind.KINK, says, at=at, operation=mark.primitive.name, hint=hint)
    case.findings += _report_nearby_kink(q)
    for mark in q.staircases:
        at, operation = place_of_position(mark.position), mark.primitive.name
        case.inconclusive(Kind.STAIRCASE, mark.says, at=at, operation=operation, hint="accept it: --allow staircase")


# Compare a gradient with differences of the untouched function, which need no rules and no trace.

_DIRECTIONS = 4  # along which a gradient is compared with one-sided slopes
_JUMP = 1e-2  # relative to the slopes: a smaller difference of the one-sided slopes is no kink
_SHRINKING = (1e-6, 1e-9, 1e-12)  # steps over which a slope that is infinite keeps growing
_SHARP = 1e-7  # relative to the slope: a bound this small is good enough
_SUMMED = 1e-14  # of the sum of all contributions: the rounding of the sum <g, v>
_SHARP_FOR_RULES = 1e-3  # relative to all contributions: the same if the trace was tested, and only rules can be wrong


def compare_along_direction(
    q: Question, gradient: Estimate, balls: bool = False, rounding_of_f: Mapping[str, Array] | None = None
) -> DirectionalCheck:
    """Compare a gradient with function values along one random direction, in proportion to the entries.

    `rounding_of_f` is in units of the gradient, and estimated where it is not given. With `balls`, it is
    also compared with a difference of the recorded program in balls, where that can be run in blocks.

    Cost  4 evaluations of the untouched function where it is smooth and has this gradient, 6 where it is smooth or its trace
          was tested, else 35 more; none beyond the budget. In balls 2 evaluations.
    """
    most = (q.stepping.budget or np.inf) - 2 * len(QUICK)
    if most < 0:
        return DirectionalCheck(None, 0.0, 0)
    weights = random_signs(np.random.default_rng([q.seed, 0xD1EC]), shape(q.value))
    step = lambda w, x: w * np.maximum(np.abs(x), 1e-3)
    moved = [map_in_blocks(step, np.float64, w, x) for w, x in zip(q.weights, q.xs, strict=True)]
    vs = [np.where(mask, 0.0, v) if np.any(mask) else v for v, mask in zip(moved, q.undecided, strict=True)]

    def phi(t: float) -> float:
        return float(np.sum(weights * q.near(*[x + t * v for x, v in zip(q.xs, vs, strict=True)])))

    with np.errstate(all="ignore"):
        along, scale, rounding = _slope_with_errors(q, gradient, weights, vs, rounding_of_f)
        found = quick_derivative(phi, q.noise_floor, expected=along)
        confirmed = q.trace_test.agrees and abs(float(found.value) - along) <= float(found.bound) + rounding
        if not found.bound <= (_SHARP_FOR_RULES * scale if confirmed else _SHARP * abs(found.value)):
            found = derivative(Line(phi, at=np.sum(weights * q.value), most=most))
        bound = float(found.bound) + rounding
        distance = abs(float(found.value) - along)
    relative_bound = bound / scale if scale else 0.0
    if not np.isfinite(distance) or not np.isfinite(bound) or relative_bound > 1e-2:
        return DirectionalCheck(None, relative_bound, found.calls)
    displacements = dict(zip(q.wrt, vs, strict=True)) if shape(q.value) == () else {}
    seen = DirectionalCheck(distance <= 3 * bound, relative_bound, found.calls, bound, displacements)
    exact = certified_difference(q, vs, scale) if balls and seen.agrees and scale > 0 else None
    if exact is None:
        return seen
    finer = abs(float(weights)) * float(exact.bound) + rounding + _SUMMED * scale
    if not finer < bound:  # the values of f meet each other in it again and again: its balls are wide
        return seen
    agrees = abs(float(weights * exact.value) - along) <= 3 * finer
    return replace(seen, agrees=agrees, relative_bound=finer / scale, in_balls=True)


def _slope_with_errors(
    q: Question, gradient: Estimate, weights: Array, vs: Sequence[Array], rounding_of_f: Mapping[str, Array] | None
) -> tuple[float, float, float]:
    """Return <g, v>, the sum of the sizes of its terms, and how far rounding may move it, in g and in f."""
    along, scale, rounding = 0.0, 0.0, 0.0
    known = rounding_of_f or (q.rounding if q.untraced is None and q.affords_slopes else {})
    for name, v in zip(q.wrt, vs, strict=True):
        sign, step = 1.0, v
        if shape(q.value) == ():
            sign = weights
        else:
            step = np.reshape(weights, shape(q.value) + (1,) * np.ndim(v)) * v
        g, bound = (np.broadcast_to(x, shape(step)) for x in (gradient.value[name], gradient.bound[name]))
        own = known.get(name, 0.0)  # rounding of f, in addition to the bound of the gradient
        for part in iterate_blocks(size(step)):
            g_, step_, bound_, own_ = (entries_of_part(x, part) for x in (g, step, bound, own))
            step_ = sign * step_
            terms = (g_ if all_finite(g_) else np.where(np.isfinite(g_), g_, 0.0)) * step_
            along += float(np.sum(terms))
            scale += float(np.sum(np.abs(terms)))
            rounding += float(np.sum(np.abs((bound_ + own_) * step_)))
    return along, scale, rounding


def kink_at(q: Question, name: str, at: tuple[int, ...]) -> str | None:
    """Return in words the kink that function values show at one entry; None if the one-sided slopes meet as steps shrink."""
    wide, fine = (one_sided_slopes(q, name, at, step) for step in (1e-4, 1e-6))
    jump, before = abs(fine[1] - fine[0]), abs(wide[1] - wide[0])
    size = max(abs(fine[0]), abs(fine[1]))
    if not jump > _JUMP * size or not 0.5 * before < jump < 2 * before or not np.isfinite(jump):
        return None
    return f"f has a kink at {numbers.entry_name(name, at)}: its slope is {slopes_in_words(q, name, at)}"


def slopes_in_words(q: Question, name: str, at: tuple[int, ...]) -> str:
    """Return the slopes on both sides of one entry; one that grows without bound as the steps shrink is infinite."""
    slopes = [one_sided_slopes(q, name, at, step) for step in _SHRINKING]
    noise = 10 * EPS * abs(float(q.value)) / _SHRINKING[-1]
    found = []
    for side, word in ((0, "left"), (1, "right")):
        wide, middle, fine = (pair[side] for pair in slopes)
        more = abs(fine - middle) > max(abs(middle - wide) / 2, _JUMP * abs(fine), noise)
        infinite = more and abs(fine) > abs(middle) > abs(wide)
        found.append(f"{'infinite' if infinite else f'{wide:.5g}'} from the {word}")
    return " and ".join(found)


def kink_along(q: Question, gradient: Estimate) -> str | None:
    """Return in words a kink: a direction whose slope, even over short steps, is not what the gradient says; else None.

    Partial derivatives can exist where f has no gradient, for example those of `sqrt(abs(x*y))` at the origin.

    Cost  16 evaluations of f, 4 for each of 4 directions.
    """
    rng = np.random.default_rng([q.seed, 0xD1A6])
    for _ in range(_DIRECTIONS):
        vs = [random_signs(rng, shape(x)) * np.maximum(1.0, np.abs(x)) for x in q.xs]
        terms = [gradient.value[name] * v for name, v in zip(q.wrt, vs, strict=True)]
        along, largest = (sum(float(np.sum(part(t))) for t in terms) for part in (np.positive, np.abs))
        apart = []
        for h in (1e-4, -1e-4, 1e-6, -1e-6):
            slope = (float(q.near(*(x + h * v for x, v in zip(q.xs, vs, strict=True)))) - float(q.value)) / h
            apart.append(abs(slope - along))
            largest = max(largest, abs(slope))
        wide, fine = max(apart[:2]), max(apart[2:])
        if np.isfinite(fine) and fine > max(wide / 2, _JUMP * largest):
            return (
                f"f has a kink: along a direction its slope differs from that of its partial derivatives by {fine:.2g}"
            )
    return None


def one_sided_slopes(q: Question, name: str, at: tuple[int, ...], step: float = 1e-6) -> tuple[float, float]:
    """Return the slopes of a scalar f to the left and to the right of one entry, by differences without an error bound."""
    h = step * max(1.0, abs(float(np.asarray(q.xs[q.wrt.index(name)])[at])))
    left, here, right = (value_beside(q, name, at, t) for t in (-h, 0.0, h))
    return (here - left) / h, (right - here) / h


def value_beside(q: Question, name: str, at: tuple[int, ...], t: float) -> float:
    """Return the value of a scalar f with one entry moved by t."""
    k = q.wrt.index(name)
    moved = np.array(q.xs[k])
    moved[at] += t
    return float(q.near(*q.xs[:k], moved[()], *q.xs[k + 1 :]))


def _add_kinks_by_values(case: PointCheck) -> None:
    """Add the findings that function values give if the trace is rejected: kinks, or no finite slope where rules have none."""
    q, estimate = case.q, case.estimate_or_none("finite-difference")
    bad = q.untraced if isinstance(q.untraced, SlopeNotFinite) else None
    kink = _first_kink_by_values(q)
    if bad is not None and kink is not None and _has_bounded_slopes(q):
        case.inconclusive(Kind.KINK, f"{kink}; {bad.what}", at=bad.where, hint=_MOVE_OR_ACCEPT)
        return
    if bad is not None and (estimate is None or not _has_known_slopes(estimate)):
        case.inconclusive(Kind.NON_FINITE, bad.what, at=bad.where, hint=bad.do)
    if kink is None and shape(q.value) == () and estimate is not None and _has_known_slopes(estimate):
        kink = kink_along(q, estimate)
    if kink is not None:
        case.inconclusive(Kind.KINK, kink, hint=_MOVE_OR_ACCEPT)


def _first_kink_by_values(q: Question) -> str | None:
    """Return in words the first kink that function values show at one of the first entries; None if they show none."""
    kinks = (kink_at(q, name, at) for name, at in islice(_entries(q), _MOST_ENTRIES))
    return next((kink for kink in kinks if kink is not None), None) if shape(q.value) == () else None


def _has_bounded_slopes(q: Question) -> bool:
    """Whether the one-sided slopes of a scalar f stay bounded at every entry as the steps shrink; False for many entries."""
    if shape(q.value) != () or q.entries > _MOST_ENTRIES:
        return False
    noise = 10 * EPS * abs(float(q.value)) / _BOUNDED[1]
    for name, at in _entries(q):
        wide, fine = (np.max(np.abs(one_sided_slopes(q, name, at, step))) for step in _BOUNDED)
        if not fine <= 2 * wide + noise:
            return False
    return True


def _entries(q: Question) -> Iterator[tuple[str, tuple[int, ...]]]:
    return ((name, at) for name, x in zip(q.wrt, q.xs, strict=True) for at in np.ndindex(shape(x)))


def _has_known_slopes(estimate: Estimate) -> bool:
    """Whether differences show finite slopes, known to some digits relative to the largest one."""
    sizes = [largest_magnitude(g) for g in estimate.value.values()]
    room = _DIGITS * max([1.0, *sizes])
    return bool(np.all(np.isfinite(sizes))) and all(np.all(np.asarray(b) <= room) for b in estimate.bound.values())


def _add_trace_findings(case: PointCheck) -> None:
    """Add the findings of the recording: the error that ended it, whether it is the function, the branches it took."""
    q = case.q
    if q.untraced is not None:
        native = native_of(original_function(q.f))
        values = native.values_say if native is not None and inner_gradient(q.f) is None else ""
        formats = f", {values}" if values else ""
        says = f"checked by function values alone{formats}: {q.untraced.what}"
        case.findings += (finding(Kind.UNTRACED, Severity.WARNING, says, at=q.untraced.where, hint=q.untraced.do),)
        return
    apart = np.abs(np.asarray(plain_value(q.program.y)) - np.asarray(q.value))
    room = _SAME * (np.abs(q.value) + q.largest_adjoint * _SAME) + 1e3 * q.noise_floor
    if np.any(apart > room):
        traced, called = _show_first_entry(q.program.y), _show_first_entry(q.value)
        case.inconclusive(Kind.TRACE, f"the trace differs from the function: {traced} traced, {called} called")
    if q.trace_test.why:
        severity = Severity.INCONCLUSIVE if q.trace_test.failed else Severity.INFO
        says = f"near the point the trace was not compared with the function: {q.trace_test.why}"
        case.findings += (finding(Kind.TRACE_TEST, severity, says),)
    if q.unbounded:
        says = f"the rounding error of the gradient has no bound: {q.unbounded}"
        case.findings += (finding(Kind.NOISE, Severity.WARNING, says),)
    for branch in sorted(q.branches, key=lambda b: abs(b.margin))[:_BRANCHES]:
        case.findings += (finding(Kind.BRANCH, Severity.INFO, branch.says, at=place_of_position(branch.position)),)


def _show_first_entry(y: Any) -> str:
    return f"{float(np.ravel(plain_value(y))[0]):.17g}" if np.size(plain_value(y)) else "nothing"


def _find_jump_or_rise(q: Question, mark: Mark) -> tuple[Kind, str] | None:
    """Return the kind of a finding, and what it says of a place, where f jumps at a tie or has an infinite slope there."""
    apart: list[float] = []
    for step in _NARROWING:
        sides = []
        for sign in (-1.0, 1.0):
            moved = [x + sign * step * np.maximum(1.0, np.abs(x)) * m for x, m in zip(q.xs, mark.reach, strict=True)]
            sides.append(np.asarray(q.near(*moved), dtype=float))
        apart.append(largest_magnitude(sides[1] - sides[0]))
        size = 1.0 + largest_magnitude(sides[0])
        if not apart[0] > 1e-6 * size + 1e-6 * q.largest_adjoint:
            return None
    if not apart[-1] <= _SHRINKS * apart[0]:
        return Kind.JUMP, "f jumps{}: it has no gradient there"
    return Kind.INFINITE_SLOPE, "f is continuous{}, but its slope grows without bound as the point is approached"


def _report_nearby_kink(q: Question) -> tuple[Finding, ...]:
    """Return a finding with the distance of the nearest kink, if steps of differences would cross it."""
    if q.untraced is not None or inner_gradient(q.f) is not None or q.kinks:
        return ()
    found = q.nearest_kink
    if found is None or not found.distance < _NEAR * max(1.0, abs(float(np.asarray(q.xs[found.number])[found.at]))):
        return ()
    name = numbers.entry_name(q.wrt[found.number], found.at)
    says = f"a kink is {found.distance:.2g} away in {name}; the gradient is checked on the smooth piece at the point itself"
    at = place_of_position(found.position)
    return (finding(Kind.KINK_NEARBY, Severity.INFO, says, at=at, operation=found.primitive.name),)


def _describe_slopes_at(q: Question, mark: Mark) -> str:
    """Return in words the slopes on both sides of a kink, for the first of some entries where they differ."""
    for name, mask in zip(q.wrt, mark.reach, strict=True):
        for at in map(tuple, np.argwhere(mask)[:_SLOPES]) if shape(q.value) == () else ():
            left, right = one_sided_slopes(q, name, at)
            differ = abs(right - left) > _SLOPES_DIFFER * max(abs(left), abs(right))
            if np.isfinite(left) and np.isfinite(right) and differ:
                return f"; the slope is {slopes_in_words(q, name, at)}"
    return ""


def _describe_reached_entries(q: Question, mark: Mark) -> str:
    """Return in words the entries that reach a kink, such as `x[1] = 0`; three at most."""
    found = []
    for name, x, mask in zip(q.wrt, q.xs, mark.reach, strict=True):
        for at in np.argwhere(mask)[:3]:
            found.append(f"{numbers.entry_name(name, tuple(at))} = {float(np.asarray(x)[tuple(at)]):.6g}")
    return ", ".join(found[:3])


def add_claim(case: PointCheck, claimed: Claimed) -> None:
    """Add the claim to the outcomes of the modes; a claim of the wrong shape gets its diagnosis here."""
    claim = Claim(claimed)
    case.claimed = claimed.names
    try:
        estimate = _grant_solver_errors(case, claim.gradient(case.q))
    except WrongShape as error:
        case.wrong_shape = _diagnose_shape(case, error)
        case.outcomes = {"claim": Outcome(claim, "failed", error=error)} | case.outcomes
        return
    case.outcomes = {"claim": Outcome(claim, "ok", estimate)} | case.outcomes
    case.findings += tuple(finding(Kind.CLAIM, Severity.INFO, says) for says in estimate.notes)
    if isinstance(claimed, ClaimOnSurfaces):
        case.findings += tuple(claimed.notes())
    if claimed.mutates:
        says = f"{claimed.text} writes into its input; it was given copies"
        hint = "work on a copy: x = x.copy(); or accept it: --allow mutates-input"
        case.inconclusive(Kind.MUTATES_INPUT, says, hint=hint)


def _grant_solver_errors(case: PointCheck, claim: Estimate) -> Estimate:
    """Return the claim with what it is granted because solvers in f stop at a tolerance: ten times what that changes."""
    changes = case.q.solver_changes
    if changes is None:
        return claim
    differences = case.estimate_or_none("finite-difference")
    reference = case.estimate(case.reference).solvers if case.reference is not None else {}
    granted = {}
    for name, x in claim.value.items():
        change, least = changes.of(name, x), 0.0
        if differences is not None and name in differences.solvers:  # a change within the bound of differences is none
            least = differences.bound[name] - differences.solvers[name]
        granted[name] = np.where(change > least, GRANT_SOLVER * change - reference.get(name, 0.0), 0.0)
    return replace(claim, bound={n: b + granted.get(n, 0.0) for n, b in claim.bound.items()}, solvers=granted)


def call_claim_again(case: PointCheck) -> tuple[Finding, ...]:
    """Return a finding if a second call of the claim gives a different gradient, beyond its bound."""
    claimed, first = case.claim, case.outcomes["claim"].estimate
    if first is None or claimed is None or isinstance(claimed, ClaimedExpressions):
        return ()  # an expression gives the same value at every call
    in_another_order = claimed.in_another_order if isinstance(claimed, ClaimedFunction) else None
    hint = "fix the seed inside the claim; keep no state"
    try:
        with (in_another_order or contextlib.nullcontext)():
            # a new dict, so that a cache by identity is not hit
            again = reshape_claims(claimed(dict(case.q.point.values)), case.q)
        apart = max(_largest_excess(again[name], x, first.bound[name]) for name, x in first.value.items())
        if apart and _has_accumulated(again, first.value):
            says = "each call adds its gradient to that of earlier calls: .grad is not set to zero"
            hint = "zero it first: optimizer.zero_grad(), x.grad = None"
            return (finding(Kind.ACCUMULATES, Severity.ERROR, says, hint=hint),)
        how = f"two calls with the same arguments give different values by {apart:.1e}"
        if apart and in_another_order is not None:
            usual = reshape_claims(claimed(dict(case.q.point.values)), case.q)
            if not any(_largest_excess(usual[name], x, first.bound[name]) for name, x in first.value.items()):
                how = f"the order in which a set has its objects changes it by {apart:.1e}"
                hint = "add to each gradient with +=: a set has its objects in another order at each run"
    except (GradcliError, KeyError, ValueError):
        apart, how = np.inf, "a second call with the same arguments fails"
    says = f"the claimed gradient is not deterministic: {how}"
    return (finding(Kind.NOT_DETERMINISTIC, Severity.ERROR, says, hint=hint),) if apart else ()


def _has_accumulated(again: Any, first: Any) -> bool:
    """Whether a second gradient is n + 1 times one gradient where the first was n times it, as when .grad accumulates."""
    pairs = [(np.ravel(again[name]), np.ravel(x)) for name, x in first.items()]
    after, before = (np.concatenate(part) for part in zip(*pairs, strict=True))
    size = float(np.dot(before, before))
    ratio = float(np.dot(after, before)) / size if size else 0.0
    calls = 1.0 / (ratio - 1.0) if ratio > 1.0 else np.inf
    if not calls < _MOST_CALLS or abs(calls - round(calls)) >= _NEAR_INTEGER:
        return False  # a gradient that changes in its last digits has grown by no whole part of itself
    return bool(np.allclose(round(calls) * (after - before), before, rtol=_NEAR_INTEGER))


def _largest_excess(again: Any, x: Any, bound: Any) -> float:
    """Return the largest difference of two arrays that exceeds its bound, or 0 if none does."""
    if np.array_equal(again, x):
        return 0.0
    apart = np.where(np.isnan(again) & np.isnan(x) | (again == x), 0.0, np.abs(again - x))
    return float(np.max(np.where(apart <= bound, 0.0, np.nan_to_num(apart, nan=np.inf)), initial=0.0))


def _diagnose_shape(case: PointCheck, error: WrongShape) -> Diagnosis:
    """Return the diagnosis of a claim of the wrong shape, with the reduction that would make it right, if there is one."""
    says = None
    right = None if case.reference is None else case.estimate(case.reference)
    if error.diagonal is not None and right is not None:
        says = explain_claimed_diagonal(case.q, error.diagonal, right)
        if says is not None:
            return Diagnosis(DiagnosisKind.DIAGONAL_ONLY, says)
    if error.claimed is not None and right is not None:
        from gradcli.checks.gradient_slips import explain_wrong_shape

        says = explain_wrong_shape(error.claimed, right.value[error.name], error.name)
    what = f"{error.what.removesuffix(MAY_BE_TRANSPOSED)}; {says}" if says else error.what
    return Diagnosis(DiagnosisKind.SHAPE, what)


_MOST = 10  # entries that get a finding
_CLEAR = 10.0  # times the bounds: a claim must differ by this much where the bounds are wide compared with the slope


# Check claims of a zero slope for functions that can only be called, where finite differences may mislead.
#
# A function that rounds internally has the slope 0 almost everywhere, although its differences over wider steps are not 0.

_MOST_ZERO_SLOPES = 50  # entries that are examined
# relative to the size of the entry
_STEPS = 10.0 ** -np.array([2.0, 2.5, 5.0, 5.5, 6.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0])
_WIDE = 2  # the number of steps that count as wide
_BESIDE = 1e-6  # relative to a step: the distance of a second value from the first
_SMALLER_SLOPES = 0.1  # times the slopes over wide steps: if f is smooth and even, slopes over small steps are smaller
_SEEN = 8.0  # roundings of f: a smaller change of f shows nothing


def judge_zero_slopes(case: PointCheck, name: str, word: Any) -> Any:
    """Return the verdicts of a claim for one input; undecided where the evidence for or against a zero is too weak.

    Shapes  `word` and the result have the shape of the input.
    Cost    up to 40 evaluations of f for each entry that is claimed to be zero.
    """
    claim, right = case.estimate("claim").value[name], case.estimate(str(case.reference)).value[name]
    if case.q.untraced is None or shape(case.q.value) != ():
        return word
    word = np.array(word)
    for at in map(tuple, np.argwhere(np.asarray(claim) == 0)[:_MOST_ZERO_SLOPES]):
        slopes = _one_sided_quotients(case, name, at)
        entry = numbers.entry_name(name, at)
        if word[at] == AGREE and not np.any(slopes) and _moves_in_steps(case, name, at):
            word[at] = CANNOT_TELL
            says = f"f changes with {entry} in steps alone: its slope is 0 although its value changes"
            case.inconclusive(Kind.STAIRCASE, says, hint="accept it: --allow staircase")
        if word[at] == DISAGREE:
            slope, size = abs(float(np.asarray(right)[at])), _size_of_entry(case, name, at)
            if np.any(np.all(slopes == 0, axis=1) & _steps_with_visible_slope(case, slope, size)):
                word[at] = CANNOT_TELL
                says = f"f is a step function at {entry}: it is constant over small steps and changes over wider ones"
                case.inconclusive(Kind.STAIRCASE, says, hint="accept it: --allow staircase")
    return word[()]


def find_vanishing_slopes(case: PointCheck, name: str, claimed: Any) -> Any:
    """Return a mask of the entries where f changes, but over small steps much less than claimed: the slope there is 0.

    Shapes  the mask has the shape of `claimed`.
    Cost    up to 24 evaluations of f for each entry.
    """
    found = np.zeros(shape(claimed), dtype=bool)
    if shape(case.q.value) != ():
        return found
    for at in map(tuple, np.argwhere(np.asarray(claimed) != 0)[:_MOST_ZERO_SLOPES]):
        slopes = _one_sided_quotients(case, name, at)
        largest = np.max(np.abs(slopes), axis=1)
        wide, most = float(np.max(largest[:_WIDE])), _SMALLER_SLOPES * abs(float(np.asarray(claimed)[at]))
        fine = largest[_steps_with_visible_slope(case, wide, _size_of_entry(case, name, at))][_WIDE:]
        shrinks = bool(fine.size) and float(np.max(fine)) <= _SMALLER_SLOPES * wide
        moves = np.all(np.isfinite(slopes)) and np.all(slopes[:_WIDE] != 0)
        found[at] = bool(moves) and shrinks and not float(np.min(fine[fine > 0], initial=wide)) > most
    return found


def _one_sided_quotients(case: PointCheck, name: str, at: tuple[int, ...]) -> Any:
    """Return the difference quotients of f to the right and to the left, one row for each step."""
    q = case.q
    steps, here = _size_of_entry(case, name, at) * _STEPS, float(q.value)
    return np.array([[(value_beside(q, name, at, t) - here) / h for t in (h, -h)] for h in steps])


def _moves_in_steps(case: PointCheck, name: str, at: tuple[int, ...]) -> bool:
    """Whether f has other values further away, but is locally constant there too."""
    levels = []
    for step in _size_of_entry(case, name, at) * np.outer(WIDTHS, (1.0, -1.0)).ravel():
        there, beside = (value_beside(case.q, name, at, t) for t in (step, step * (1 + _BESIDE)))
        if np.isfinite(there) and np.isfinite(beside) and there != float(case.q.value):
            levels.append(there == beside)
    return bool(levels) and all(levels)


def _steps_with_visible_slope(case: PointCheck, slope: float, size: float) -> Any:
    """Return a mask of the steps over which a slope would show above the rounding of f and of its inputs."""
    native = native_of(original_function(case.q.f))
    eps = EPS * (1.0 if native is None else native.coarseness)
    return slope * size * _STEPS > _SEEN * eps * max(abs(float(case.q.value)), slope * size, np.finfo(float).tiny)


def _size_of_entry(case: PointCheck, name: str, at: Sequence[int]) -> float:
    x = case.q.xs[case.q.wrt.index(name)]
    return float(np.asarray(case.q.stepping.sizes_of_entries(name, x))[tuple(at)])


def judge_by_scales(case: PointCheck, mode: str, name: str, word: Any) -> Any:
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
    blunt = _mask_wide_bounds(found.value[name], found.bound[name] - np.asarray(found.solvers.get(name, 0.0)))
    if slopes is not None:
        apart, room = np.abs(x - slopes.other), slopes.other_bound + bound
        fits = apart <= DOUBT * room
        clear = np.abs(x - found.value[name]) > _CLEAR * (found.bound[name] + bound)
        blunt = blunt & ~(clear & ~_mask_wide_bounds(slopes.other, slopes.other_bound))
        teeth = slopes.jumps & (np.abs(slopes.other) > DOUBT * slopes.other_bound)  # f may be constant between them
        open_ = (word == DISAGREE) & fits | (word == AGREE) & teeth & ~(apart <= room) | mask_kinks(slopes)
        word = np.where(open_, CANNOT_TELL, word)
    if mode == "claim" and not np.any(found.value[name]) and np.any((word == DISAGREE) & blunt):
        blunt = blunt & ~find_vanishing_slopes(case, name, np.where(word == DISAGREE, x, 0.0))
    return np.where((word == DISAGREE) & blunt, CANNOT_TELL, word)


def _mask_wide_bounds(value: Any, bound: Any) -> Any:
    """Return a mask of the slopes whose bounds are too wide, relative to the largest slope, to contradict anything."""
    size = largest_finite(value)
    return np.asarray(~(np.asarray(bound) <= USEFUL * size))


def mask_kinks(slopes: Slopes) -> Any:
    """Return a mask of the entries at which the one-sided slopes differ."""
    return np.isfinite(slopes.left) & np.isfinite(slopes.right)


def scale_findings(case: PointCheck) -> list[Finding]:
    """Return findings on the undecided entries at which differences show a kink or a second slope."""
    differences = case.estimate_or_none("finite-difference")
    if differences is None:
        return []
    found = []
    for name, slopes in differences.slopes.items():
        open_ = np.zeros(np.shape(slopes.h), dtype=bool)
        for mode, words in case.agreement.items():
            if name in words and (mode == "claim" or (case.claimed is None and mode == "finite-difference")):
                open_ |= words[name] == CANNOT_TELL
        both = mask_kinks(slopes)
        for k in map(tuple, np.argwhere(open_ & both)[:_MOST]):
            found.append(report_kink(f"at {_name_entry(case, name, k)}", slopes.left[k], slopes.right[k]))
        two = map(tuple, np.argwhere(open_ & ~both & np.isfinite(slopes.other))[:_MOST])
        found += [_report_two_slopes(case, name, k, slopes) for k in two]
    return found


def report_kink(where: str, left: Any, right: Any) -> Finding:
    """Return the finding that f has different slopes on both sides of a place, or along a direction."""
    says = f"f has a kink {where}: its slope is {float(left):.5g} from the left and {float(right):.5g} from the right"
    return finding(Kind.KINK, Severity.INCONCLUSIVE, says, hint=_MOVE_OR_ACCEPT)


def _name_entry(case: PointCheck, name: str, k: tuple[int, ...]) -> str:
    """Return an entry in words: `x[1]` if f is a scalar, else `output [0] by x[1]`."""
    outputs = len(shape(case.q.value))
    entry = numbers.entry_name(name, k[outputs:])
    return f"output [{','.join(map(str, k[:outputs]))}] by {entry}" if outputs else entry


def _report_two_slopes(case: PointCheck, name: str, k: tuple[int, ...], slopes: Slopes) -> Finding:
    """Return a finding that an entry has two slopes: a staircase if f jumps between their scales, else fine structure."""
    found = case.estimate("finite-difference")
    value, bound = (float(np.asarray(part[name])[k]) for part in (found.value, found.bound))
    here, there = f"{value:.5g}", f"{float(np.asarray(slopes.other)[k]):.5g}"
    h, other_h = (f"{float(np.asarray(x)[k]):.0e}" for x in (slopes.h, slopes.other_h))
    at, slope = _name_entry(case, name, k), f"its slope is {here} over steps of {h}"
    if np.asarray(slopes.jumps)[k]:
        says = f"f is a staircase at {at}: {slope} and {there} between its jumps"
        return finding(Kind.STAIRCASE, Severity.INCONCLUSIVE, says, hint="accept it: --allow staircase")
    says = f"f has fine structure at {at}: {slope} and {there} over steps of {other_h}"
    if abs(value - float(np.asarray(slopes.other)[k])) <= bound:
        says = f"f has fine structure at {at}: {slope}; over smaller ones, which rounding hides, it may be {bound:.1e} off that"
    hint = "smaller steps are closer to the derivative: claim their slope, or accept it: --allow fine-structure"
    return finding(Kind.FINE_STRUCTURE, Severity.INCONCLUSIVE, says, hint=hint)


def compare_all_modes(case: PointCheck) -> None:
    """Compare every mode with the reference, entry by entry; entries at a kink stay undecided."""
    if case.reference is None:
        return
    right = case.estimate(case.reference)
    claim = case.outcomes.get("claim")
    if claim is not None and claim.estimate is not None:
        granted, case.input_rounding = grant_input_rounding(claim.estimate, right, case.q)
        added = granted.notes[len(claim.estimate.notes) :]
        case.findings += tuple(finding(Kind.REFERENCE, Severity.INFO, says) for says in added)
        claim = replace(claim, estimate=granted)
        case.outcomes = {**case.outcomes, "claim": claim}
    scale = zero_scale(right, case.q.xs, case.q.value)
    useful = USEFUL if case.q.solver_changes is None else USEFUL_SOLVER
    # of bounds that one shaken run gives, a few are too small: the more entries, the further
    shaken = DOUBT * max(1.0, case.q.entries / MANY)
    for mode, outcome in case.outcomes.items():
        if outcome.estimate is None:
            continue
        is_claim, by_differences = mode == "claim", "finite-difference" in (mode, case.reference)
        fixed, doubt = case.tolerance if is_claim else None, DOUBT if is_claim or by_differences else shaken
        how = right, scale, fixed, useful, doubt
        case.agreement[mode] = _compare_mode(case, mode, *how)
        differs = any(np.any(word == DISAGREE) for word in case.agreement[mode].values())
        if differs and not is_claim and mode != case.reference:
            # in balls, arrays that are not differentiated are exact, also where f loses digits of what it computes of them;
            # numbers that the code computes of constants are those of float64
            rounding = case.q.rounding_with_other_inputs
            if rounding is not None:
                bound = {name: b + rounding[name] for name, b in outcome.estimate.bound.items()}
                wider = replace(outcome, estimate=replace(outcome.estimate, bound=bound))
                case.outcomes = {**case.outcomes, mode: wider}
                case.agreement[mode] = _compare_mode(case, mode, *how)


def _compare_mode(
    case: PointCheck, mode: str, right: Estimate, scale: float, fixed: Any, useful: float, doubt: float
) -> dict[str, Any]:
    """Return how each entry of a mode compares with the reference, by input."""
    estimate, is_claim = case.estimate(mode), mode == "claim"
    agreement = {}
    for name, open_ in zip(case.q.wrt, case.q.undecided, strict=True):
        if name not in estimate.value:
            continue
        word = judge_entries(estimate, right, name, scale, fixed, useful, doubt)
        if is_claim:
            known = np.isfinite(estimate.value[name])
            word = word if np.all(known) else np.where(~known & np.isfinite(right.value[name]), DISAGREE, word)
        if is_claim and case.q.untraced is not None and _is_too_coarse(case):
            word = np.where(word == DISAGREE, CANNOT_TELL, word)
        if "finite-difference" in (mode, case.reference) and mode != case.reference:
            word = judge_by_scales(case, mode, name, word)
        if is_claim:
            word = judge_zero_slopes(case, name, word)
        agreement[name] = np.where(np.broadcast_to(open_, word.shape), CANNOT_TELL, word) if np.any(open_) else word
    return agreement


def _is_too_coarse(case: PointCheck) -> bool:
    """Whether function values are in a format so narrow that they form a staircase, whose differences contradict nothing."""
    native = native_of(original_function(case.q.f))
    if native is not None:  # its values may be taken in a wider format than the claim
        return FORMATS[native.values_format] / FORMATS["float64"] > _STAIRCASE
    return case.claim is not None and case.claim.precision.coarseness() > _STAIRCASE
