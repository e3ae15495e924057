"""Gather the evidence for the verdict: what the modes give at once, and what costs more, only when the verdict needs it."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from gradcli.arithmetic.ball import Ball, nearest_float64, precision, radius
from gradcli.arithmetic.tape import CONSTANT, Line
from gradcli.checks.assumed_sets import find_sets_left
from gradcli.checks.causes import needs_projections, run_projections
from gradcli.checks.decide import confirmed_entries
from gradcli.checks.evidence import (
    DISAGREE,
    SMALL_CONSTANT,
    Cause,
    ClaimRounding,
    DirectionalCheck,
    Evidence,
    EvidenceKind,
    HullDistance,
    MutationResult,
    OmittedConstant,
    judge_entries,
    largest_relative_error,
    resolution_of,
    zero_scale,
)
from gradcli.checks.findings_at_point import call_claim_again, compare_along_direction, scale_findings
from gradcli.checks.framework_claim import FrameworkClaim
from gradcli.checks.request import Request
from gradcli.checks.run_modes import PointCheck
from gradcli.classes import dataclass
from gradcli.errors import GradcliError, TraceEnded
from gradcli.modes import difference_steps
from gradcli.modes.claim import ClaimedFunction
from gradcli.modes.mode import Question
from gradcli.modes.pieces import CLOSE, Pieces
from gradcli.modes.recording import MANY, Effort, solvers_of, work_of_line
from gradcli.modes.rounding import EPS
from gradcli.modes.trace_test import TraceTest
from gradcli.report import numbers
from gradcli.report.common import Finding, finding
from gradcli.report.point_report import Mutant
from gradcli.request.point import Array, Estimate, Witness
from gradcli.tracing.primitive import Params, Primitive, Value
from gradcli.tracing.provenance import WRITTEN, place_of_position
from gradcli.tracing.shapes import concatenate_entries, is_plain, largest_finite, shape
from gradcli.words import Kind, Severity

ALONE = "let it depend on its arguments alone"


def complete_evidence(case: PointCheck, request: Request) -> PointCheck:
    """Return the evidence with all that is known once the modes have run and been compared."""
    q = case.q
    ran = bool(case.outcomes)
    estimates = [outcome.estimate for outcome in case.outcomes.values() if outcome.estimate is not None]
    by_solvers = any(np.any(np.asarray(x) > 0) for estimate in estimates for x in estimate.solvers.values())
    return replace(
        case, undecided=dict(zip(q.wrt, q.undecided, strict=True)) if case.reference is not None else {},
        scale_findings=tuple(scale_findings(case)), trace=q.trace_test if ran else TraceTest(None),
        untraced=q.untraced, solvers=solvers_of(q.f) if by_solvers else (),
        written_as_text=bool(WRITTEN),
        may_retry_without_trace=q.blind is None and "finite-difference" in request.modes and ran,
        sets_left=find_sets_left(case), may_keep_state=q.f.kind == "python", wants_mutants=request.options.mutate,
        needs_projections=ran and needs_projections(case),
    )  # fmt: skip


def _compare_along_direction(case: PointCheck) -> DirectionalCheck:
    """Compare the reference along a direction, in balls if the user named the certified mode, and it was not run."""
    certified = case.outcomes.get("certified")
    balls = case.q.budget.effort is Effort.NAMED and certified is not None and certified.status == "not run"
    return compare_along_direction(case.q, case.estimate(str(case.reference)), balls)


# Find the operation whose derivative rule is wrong, when function values contradict a traced gradient.

_MOST_LINES = 400
_BITS = 384  # the precision in which an operation and its rule are compared
_STEP_EXPONENT = 96  # the step is 2**-96 of a direction of the operand's own size
_MOST_OPERATIONS = 200_000  # in one line: beyond this, balls cost too much
_CONTRADICTION_FACTOR = 10.0  # a rule contradicts the values only if it is off by more than this many bounds
_RULE_TOLERANCE = 1e-11  # relative to the sum of |rule|, allowed in addition to the bound
_FLOAT64_RULE_TOLERANCE = 1e-6  # the same for a rule evaluated in float64, where terms may cancel


def find_wrong_rule(q: Question) -> tuple[Primitive, Any] | None:
    """Return the first operation whose rule contradicts its values, and its position in the source; None if none is found.

    Each operation is compared at its recorded operands in 384-bit balls, so that truncation and rounding errors are far
    below those of float64. Operations that balls do not support, or that are too large, are compared by float64
    differences. Only the first 400 lines of the program are searched, and for each argument of a primitive only the first
    line that uses it.

    Cost  five evaluations of the operation and one of its rule, in balls, for each comparison.
    """
    rng = np.random.default_rng([q.seed, 0xB1A])
    tried: set[tuple[str, int]] = set()
    with np.errstate(all="ignore"):
        for line in q.lines[:_MOST_LINES]:
            primitive, slots, xs, y, _, position = line
            if primitive is None or not is_plain(y) or not all(map(is_plain, xs)):
                continue
            if primitive.error is not None:
                continue  # its values have the error of a solver, of which differences know nothing
            for i, slot in enumerate(slots):
                if slot != CONSTANT and (primitive.name, i) not in tried:
                    tried.add((primitive.name, i))
                    if _rule_contradicts_values(primitive, line, i, rng):
                        return primitive, position
    return None


def _rule_contradicts_values(primitive: Primitive, line: Line, i: int, rng: np.random.Generator) -> bool:
    _, _, xs, y, params, _ = line
    x = np.asarray(xs[i])
    xdot = (rng.choice([-1.0, 1.0], shape(x)) * rng.uniform(0.5, 1.0, shape(x)) * np.where(x == 0, 1.0, np.abs(x)))[()]
    weights = rng.uniform(0.5, 1.5, shape(y)) * ~_entries_at_a_kink(line)  # at a kink, any slope is a convention
    by_rule = weights * primitive.rule(i).push(primitive, i, y, xs, xdot, params or {})
    size, rule_slope = float(np.sum(np.abs(by_rule))), float(np.sum(by_rule))
    in_balls = None
    if work_of_line(line).operations <= _MOST_OPERATIONS:
        with suppress(GradcliError, ArithmeticError, TypeError, ValueError), precision(_BITS):
            in_balls = _slopes_in_balls(primitive, i, xs, xdot, weights, params or {})
    if in_balls is None:  # balls do not support the operation, or cost too much
        return _differences_contradict(primitive, line, i, xdot, weights, rule_slope, size)
    slope, rule_slope_in_balls, bound = in_balls
    if not np.isfinite(bound):
        return False
    apart, apart_in_floats = abs(rule_slope_in_balls - slope), abs(rule_slope - slope)
    return (
        apart > _CONTRADICTION_FACTOR * bound + _RULE_TOLERANCE * size
        or apart_in_floats > _CONTRADICTION_FACTOR * bound + _FLOAT64_RULE_TOLERANCE * size
    )


def _slopes_in_balls(
    primitive: Primitive, i: int, xs: Sequence[Value], xdot: Value, weights: Any, params: Params
) -> tuple[float, float, float]:
    """Return a weighted sum of the slopes by values, the same sum by the rule, and a bound on the error of both."""
    balls, direction = [Ball.lift(x) for x in xs], Ball.lift(xdot)

    def total(y: Value) -> Value:
        return np.sum(Ball.lift(0) + y * Ball.lift(weights)) if shape(y) else Ball.lift(0) + y * Ball.lift(weights)

    def at(h: Value) -> Value:
        return total(primitive.fun(*balls[:i], balls[i] + direction * h, *balls[i + 1 :], **params))

    step_sizes = [Ball.lift(2) ** -halvings for halvings in (_STEP_EXPONENT, _STEP_EXPONENT - 1)]
    fine, coarse = ((at(h) - at(-h)) / (h * 2) for h in step_sizes)
    y = Ball.lift(0) + primitive.fun(*balls, **params)
    rule = total(primitive.rule(i).push(primitive, i, y, balls, direction, params))
    bound = abs(float(nearest_float64(coarse - fine))) + sum(float(radius(part)) for part in (fine, coarse, rule))
    return float(nearest_float64(fine)), float(nearest_float64(rule)), bound


def _differences_contradict(
    primitive: Primitive, line: Line, i: int, xdot: Value, weights: Any, by_rule: float, size: float
) -> bool:
    """Whether differences of an operation contradict its rule; False if the differences show a kink or a second slope."""
    _, _, xs, y, params, _ = line

    def phi(t: float) -> Any:
        moved = list(xs)
        moved[i] = (xs[i] + t * xdot)[()]
        return float(np.sum(weights * primitive.fun(*moved, **(params or {}))))

    found = difference_steps.derivative(
        difference_steps.Line(phi, at=phi(0.0)),
        noise=difference_steps.FunctionNoise(EPS * float(np.sum(np.abs(weights * y)))),
    )
    room = _CONTRADICTION_FACTOR * float(found.bound) + _RULE_TOLERANCE * size
    is_smooth = bool(np.isfinite(room) and not found.kinked and np.isnan(found.other))
    return is_smooth and abs(by_rule - float(found.value)) > room


def hits_a_kink(q: Question) -> bool:
    """Whether any recorded operation is evaluated at its kink, even if the slope of f is continuous there."""
    return any(np.any(_entries_at_a_kink(line)) for line in q.lines)


def _entries_at_a_kink(line: Line) -> Any:
    """Return a mask of the entries of a line's result at which the operation has a kink."""
    primitive, _, xs, y, params, _ = line
    kink = None if primitive is None else primitive.kink
    return np.zeros(shape(y), dtype=bool) if kink is None else np.asarray(kink(y, *xs, **(params or {})))


def _find_cause(case: PointCheck) -> Cause:
    wrong = find_wrong_rule(case.q)
    if wrong is None:
        return Cause(operation_at_kink=hits_a_kink(case.q))
    return Cause(wrong[0].name, place_of_position(wrong[1]))


def _call_function_again(case: PointCheck) -> tuple[Finding, ...]:
    """Return a finding if a Python function returns a different value when called again, or a value stored in an earlier call."""
    q = case.q
    own = case.claim.compute if case.claim_again == () and isinstance(case.claim, ClaimedFunction) else None
    if isinstance(own, FrameworkClaim) and np.array_equal(np.ravel(own.value), np.ravel(q.value)):
        return ()  # the second call of the claim has called f, too
    try:
        if np.array_equal(np.asarray(q.near(*q.xs)), np.asarray(q.value), equal_nan=True):
            return ()
        says = (
            "the function's value at this point has changed since the first call: the function or the claim keeps state"
        )
    except TraceEnded:
        says = "the function returns a value that it stored in an earlier call"
    return (finding(Kind.EARLIER_CALLS, Severity.INCONCLUSIVE, says, hint=ALONE),)


# Decide whether a claim at a kink is a subgradient: a convex combination of the gradients of the pieces that meet there.
#
# The pieces are found by stepping off the kink: f is smooth along almost every direction. The convex hull of the limits of
# its gradients is the set of all subgradients (Clarke 1983, Optimization and Nonsmooth Analysis, theorem 2.5.1).


def distance_from_hull(q: Question, claim: Estimate) -> HullDistance:
    """Return the distance of a claim from the convex hull of the pieces' gradients at a kink, without pieces if it is unknown.

    It is unknown if f has no trace or is no scalar, if the claim leaves out inputs, or if no piece is found. Only the
    entries that reach the kink are compared, each relative to its own largest slope, so that no entry hides behind a
    larger one.

    Cost  two reverse sweeps and three evaluations of f for each direction; at most 64 pieces are collected.
    """
    names = [name for name in q.wrt if name in claim.value]
    if q.untraced is not None or shape(q.value) != () or len(names) < len(q.wrt):
        return HullDistance()
    reached = np.flatnonzero(concatenate_entries(q.undecided))
    wanted = concatenate_entries([claim.value[name] for name in q.wrt])[reached]
    room = concatenate_entries([claim.bound[name] for name in q.wrt])[reached]
    pieces = Pieces(q, reached)
    with np.errstate(all="ignore"):
        pieces.look_around()
        if not pieces.found:
            return HullDistance()
        nearest = pieces.look_towards(wanted)
        slopes = pieces.slopes()
        allowed = CLOSE * slopes + room
        apart = np.abs(wanted - nearest)
        unit = np.where(slopes > 0, slopes, np.maximum(np.abs(wanted), np.finfo(float).tiny))  # without a slope
        limits = np.where(slopes > 0, allowed / unit, CLOSE)
        worst = int(np.argmax(np.where(apart <= allowed, 0.0, apart / unit)))
    distance = 0.0 if np.all(apart <= allowed) else float(apart[worst] / unit[worst])
    return HullDistance(distance, len(pieces.found), float(np.max(limits, initial=CLOSE)), pieces.contradicted)


# Decide whether a claim that is nearly right is wrong by its own rounding errors alone.


def look_at_rounding_of_claim(case: PointCheck) -> ClaimRounding:
    """Return whether the claim, evaluated without rounding, is the right gradient, and where it loses digits.

    Cost  one run of the claim in float64 and one in balls; one more of each for the line that loses the digits. None for
          more than 5,000 entries; no balls for a claim of more than 30,000 operations on them.
    """
    from gradcli.checks.lost_digits import is_right_without_rounding, report_inaccuracy, traceable_claim

    claim, right, q = case.estimate("claim"), case.estimate(str(case.reference)), case.q
    values = q.point.values
    if claim.narrow or sum(np.size(x) for x in claim.value.values()) > MANY:
        return ClaimRounding()
    room = {
        name: np.broadcast_to(right.bound[name] + 2 * EPS * np.abs(right.value[name]), shape(x))
        for name, x in claim.value.items()
    }
    work = Effort.DEFAULT.value
    if not is_right_without_rounding(case.claim, q.wrt, values, claim.value, right.value, room, work):
        return ClaimRounding()
    off, worst, at = max(_worst_entry(x, right.value[name], name) for name, x in claim.value.items())
    digits = float(-np.log10(off))
    said = report_inaccuracy(f"the claim of {worst}", digits, values, traceable_claim(case.claim), q.wrt, None)
    return ClaimRounding(said, off, numbers.entry_name(worst, at))


def _worst_entry(x: Any, right: Any, name: str) -> tuple[float, str, tuple[int, ...]]:
    """Return the largest relative error of the entries that are not zero, at least one rounding, and its place."""
    with np.errstate(all="ignore"):
        error = np.asarray(np.abs(np.asarray(x) - right) / np.abs(right))
    error = np.where(np.isfinite(error), np.maximum(error, EPS), EPS)
    at = np.unravel_index(int(np.argmax(error)), error.shape)
    return float(error[at]), name, tuple(int(k) for k in at)


# Find the small constant that a claim leaves out, such as the epsilon that keeps a logarithm from zero.

_GUARDED = {"log": "log", "sqrt": "sqrt", "divide": "a division", "reciprocal": "a division", "power": "a power"}
_ROUNDED = 1e-13  # relative to the largest entry: what the gradient without the constant may be off by rounding


def find_omitted_constant(case: PointCheck) -> OmittedConstant:
    """Return the small constant without which f has the claimed gradient; none unless f is a traced number.

    Cost  for each small constant that is added before a logarithm, a root or a division, one run and one sweep of the program.
    """
    q, claim = case.q, case.estimate("claim").value
    if q.untraced is not None or shape(q.value) != () or set(claim) - set(q.wrt):
        return OmittedConstant()
    guards = {slot: p.name for p, slots, *_ in q.lines if p is not None and p.name in _GUARDED for slot in slots}
    added: dict[float, list[int]] = {}
    for k, (primitive, slots, xs, *_) in enumerate(q.lines):
        constants = [x for x, slot in zip(xs, slots, strict=True) if slot == CONSTANT]
        if k in guards and primitive is not None and primitive.name in ("add", "subtract") and len(constants) == 1:
            values = np.unique(np.abs(np.asarray(constants[0], dtype=float)))
            if len(values) == 1 and 0 < values[0] <= SMALL_CONSTANT:
                added.setdefault(float(values[0]), []).append(k)
    for c, lines in added.items():
        made = dict(zip(q.wrt, q.recording.without_constants(frozenset(lines)).pull(np.float64(1)), strict=True))
        room = {name: case.estimate("claim").bound[name] + _ROUNDED * largest_finite(x) for name, x in claim.items()}
        if all(bool(np.all(np.abs(claim[name] - made[name]) <= room[name])) for name in claim):
            return OmittedConstant(f"{c:g}", _GUARDED[guards[lines[0]]], largest_relative_error(case))
    return OmittedConstant()


# Plant mistakes in the gradient under test, and count which of them the check would have caught.

_SIZES = tuple(10.0**-k for k in range(16))  # relative errors, the largest first
_GROSS = 0.01  # relative: entries that a mistake without a size changes by less than this count as unchanged
Makes = Callable[[Array], Array]
_GROSS_MISTAKES: dict[str, Makes] = {
    "the sign of one entry flipped": lambda g: -g,
    "one entry zero": np.zeros_like,
    "one entry doubled": lambda g: 2 * g,
    "the entries shifted by one": lambda g: np.roll(g, 1),
}


def plant_mistakes(case: PointCheck) -> MutationResult:
    """Return how many planted mistakes would be caught, and a finding if a gross one is missed or none was planted.

    The gradient under test is the claim, or gradcli's own gradient if there is no claim. No mode is run again.
    """
    tested, right = _gradient_under_test(case)
    if tested is None or right is None:
        says = "no mistake was planted: no other mode checks the gradient entry by entry"
        return MutationResult((), finding(Kind.MUTANT, Severity.INFO, says))
    if case.wrong_shape is not None or case.contradicts("claim"):
        says = "no mistake was planted: the claim already disagrees without a planted mistake"
        return MutationResult((), finding(Kind.MUTANT, Severity.INFO, says))
    trial = _Trial(case, tested, right, confirmed_entries(case)[0])
    mutants = (
        _plant_by_size(trial, "one entry off by a relative error", lambda g, s: g * (1 + s)),
        _plant_by_size(
            trial, "one entry off by a part of the largest", lambda g, s: g + s * np.max(np.abs(g), initial=0.0)
        ),
        *(Mutant(says, *trial.count(makes, _GROSS), None, None) for says, makes in _GROSS_MISTAKES.items()),
    )
    survived = [m for m in mutants if m.sizeless and m.caught < m.planted]
    if not survived:
        return MutationResult(mutants, _report_skipped_kinks(case))
    first = survived[0]
    says = f"{first.planted - first.caught} of {first.planted} planted mistakes would not be found: {first.mistake}"
    if all(
        m.mistake in _GROSS_MISTAKES and m.planted - m.caught <= trial.unresolved(_GROSS_MISTAKES[m.mistake])
        for m in survived
    ):
        says += "; they are in entries that were not resolved"
        return MutationResult(mutants, finding(Kind.MUTANT, Severity.WARNING, says))
    hint = "the bounds of the modes are too wide for these entries"
    return MutationResult(mutants, finding(Kind.MUTANT, Severity.INCONCLUSIVE, says, hint=hint))


def _report_skipped_kinks(seen: Evidence) -> Finding | None:
    """Return a finding that says how many entries no mistake was planted in, since other values are right there, too."""
    count = sum(int(np.sum(mask)) for mask in seen.undecided.values())
    if not count:
        return None
    entries = "1 entry" if count == 1 else f"{count} entries"
    says = f"no mistake was planted in {entries} at a kink: other subgradients are right there, too"
    return finding(Kind.MUTANT, Severity.INFO, says)


def _gradient_under_test(seen: Evidence) -> tuple[Estimate | None, Estimate | None]:
    """Return the gradient under test and its reference; for gradcli's own, a mode that depends on function values alone."""
    if seen.reference is None:
        return None, None
    own, claim = seen.estimate(seen.reference), seen.estimate_or_none("claim")
    if claim is not None:
        return claim, own
    for mode, outcome in seen.outcomes.items():
        by_values = outcome.mode.rests_on == {Witness.FUNCTION_VALUES}
        if outcome.estimate is not None and by_values and mode != seen.reference:
            return own, outcome.estimate
    return None, None


@dataclass(frozen=True, slots=True)
class _Trial:
    """The gradient under test, the estimate that it is compared with, and the entries that two modes confirm."""

    seen: PointCheck
    tested: Estimate
    right: Estimate
    confirmed: dict[str, Any]

    def missed(self, makes: Makes, least: float = 0.0) -> dict[str, tuple[Any, Any]]:
        """Return masks of the entries that a mistake changes and of those where it is not caught, each wrong alone.

        Entries at a kink are left out; an entry counts as changed if its relative change is more than `least`.
        """
        seen, tested, right = self.seen, self.tested, self.right
        scale = zero_scale(right, seen.q.xs, seen.q.value)
        found = {}
        for name, g in tested.value.items():
            made = np.asarray(makes(np.asarray(g)))
            changed = (np.abs(made - g) > least * np.abs(g)) & ~seen.undecided[name]
            moved = replace(tested, value={**tested.value, name: made})
            words = np.broadcast_to(np.asarray(judge_entries(moved, right, name, scale, seen.tolerance)), shape(g))
            shown = (words == DISAGREE) & (self.confirmed[name] if seen.claimed is not None else True)
            found[name] = changed, changed & ~shown
        return found

    def count(self, makes: Makes, least: float = 0.0) -> tuple[int, int]:
        """Return how many entries a mistake changes, and how many of these, each wrong alone, would be caught."""
        masks = self.missed(makes, least).values()
        planted = sum(int(np.sum(changed)) for changed, _ in masks)
        return planted, planted - sum(int(np.sum(missed)) for _, missed in masks)

    def unresolved(self, makes: Makes) -> int:
        """Return in how many entries that were not resolved a gross mistake is not caught."""
        accepted = resolution_of(self.seen).accepted
        missed = self.missed(makes, _GROSS)
        return sum(int(np.sum(missed[name][1] & mask)) for name, mask in accepted.items() if name in missed)


def _plant_by_size(trial: _Trial, says: str, makes: Callable[[Array, float], Array]) -> Mutant:
    """Return the mutant with the smallest size caught in every entry, and the smallest caught in at least one."""
    every = some = None
    planted = caught = 0
    for size in _SIZES:
        planted, caught = trial.count(lambda g, s=size: makes(g, s))  # type: ignore[misc]
        if planted and caught == planted:
            every = size
        if caught:
            some = size
        else:
            break
    return Mutant(says, planted, planted if every else 0, every, some)


# What gathers each kind of evidence; that on a narrow format takes a check of its own.
GATHER: dict[EvidenceKind, Callable[[PointCheck], Any]] = {
    EvidenceKind.DIRECTION: _compare_along_direction,
    EvidenceKind.BLAME: _find_cause,
    EvidenceKind.CLAIM_ROUNDING: look_at_rounding_of_claim,
    EvidenceKind.LEFT_OUT: find_omitted_constant,
    EvidenceKind.CLAIM_AGAIN: call_claim_again,
    EvidenceKind.PIECES: lambda case: distance_from_hull(case.q, case.estimate("claim")),
    EvidenceKind.FUNCTION_AGAIN: _call_function_again,
    EvidenceKind.MUTANTS: plant_mistakes,
    EvidenceKind.PROJECTIONS: run_projections,
}
