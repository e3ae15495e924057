"""What a recorded run shows about its point: kinks, branches, steps, and where values stop being finite."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcli.arithmetic.recorded_program import RecordedProgram, record
from gradcli.arithmetic.tape import CONSTANT, Line, Recorded, Tape, sweep_back, transpose
from gradcli.classes import dataclass
from gradcli.errors import GradcliError, Undecided
from gradcli.rules.kinds import CAREFUL, ConstantSlope, Joint, Linear, Partial
from gradcli.rules.shaping import SELECT
from gradcli.tracing.primitive import Params, Primitive, Rule, Transposer, Value, primitive_by_name
from gradcli.tracing.provenance import code_at
from gradcli.tracing.shapes import all_finite, shape, unbroadcast
from gradcli.tracing.tracer import plain_value

_SIGNS = {"less": "<", "less_equal": "<=", "greater": ">", "greater_equal": ">=", "equal": "==", "not_equal": "!="}
EQUALITIES = (primitive_by_name("equal"), primitive_by_name("not_equal"))


@dataclass(frozen=True, slots=True)
class Mark:
    """An operation to report: where it is, why, the mask of each input's entries that reach it, and what to do."""

    primitive: Primitive
    position: Any
    says: str
    reach: tuple[Any, ...]
    hint: str | None = None


def reach_by_slopes(
    tape: Tape, slots: Sequence[int], inputs: Sequence[Recorded], seeds: Sequence[Value]
) -> tuple[Any, ...]:
    """Return, for each input, which entries the given slots depend on, by the slopes at this point.

    Shapes  one mask for each input, in its shape.
    Cost    one reverse sweep for each slot.
    """
    masks = [np.zeros(np.shape(x.primal), dtype=bool) for x in inputs]
    for slot, seed in zip(slots, seeds, strict=True):
        if slot == CONSTANT:
            continue
        bars = tape.sweep(slot, seed)
        for k, x in enumerate(inputs):
            if bars[x.slot] is not None:
                masks[k] |= np.asarray(bars[x.slot]) != 0
    return tuple(masks)


def _dependent_slots(tape: Tape, inputs: Sequence[Recorded]) -> set[int]:
    """Return the slots that depend on the inputs."""
    moving = {x.slot for x in inputs}
    for k, (_, slots, _, _, _, _) in enumerate(tape.lines):
        if not moving.isdisjoint(slots):
            moving.add(k)
    return moving


def find_kinks(program: RecordedProgram, bars: Sequence[Value]) -> list[Mark]:
    """Return the kinks the run hit exactly: ties of maximum and max, abs and relu at 0, branches on a tie.

    A tie through which no cotangent flows changes nothing and is left out.
    """
    _, inputs, tape = program
    found = []
    for line, ybar in zip(tape.lines, bars, strict=True):
        primitive, slots, xs, y, params, position = line
        if primitive is None or primitive.kink is None or ybar is None:
            continue
        hit = np.asarray(primitive.kink(y, *xs, **(params or {}))) & (np.asarray(ybar) != 0)
        if np.any(hit) and not _has_same_operands(tape, line, hit, inputs):
            seeds = [_seed_at_kink(primitive, hit, x, params or {}) for x in xs]
            says = f"{primitive.name} has a kink where {primitive.kinks}"
            found.append(Mark(primitive, position, says, reach_by_slopes(tape, slots, inputs, seeds)))
    moving = _dependent_slots(tape, inputs)
    for primitive, slots, xs, _, _, position in tape.decisions:
        if primitive is None or primitive.name not in _SIGNS or not moving.intersection(slots):
            continue
        tie = np.equal(*xs)
        if np.any(tie):
            reach = _reach_of_difference(tape, slots, inputs, xs, tie)
            if any(np.any(mask) for mask in reach):
                found.append(Mark(primitive, position, "the two sides of a comparison are exactly equal", reach))
    return found


def _has_same_operands(tape: Tape, line: Line, hit: Any, inputs: Sequence[Recorded]) -> bool:
    """Whether the tied operands are the same function of the inputs, so that the tie is no kink."""
    primitive, slots, xs, _, params, _ = line
    if primitive is None:
        return False
    if primitive.name in ("maximum", "minimum", "fmax", "fmin"):
        return not any(map(np.any, _reach_of_difference(tape, slots, inputs, xs, hit)))
    if primitive.name != "max" or slots[0] == CONSTANT:
        return False
    axis = (params or {})["axis"]
    tied = np.asarray(xs[0]) == np.max(xs[0], axis=axis, keepdims=True)
    weights = np.where(tied, np.random.default_rng(0).uniform(0.5, 1.5, np.shape(xs[0])), 0.0)
    mean = np.sum(weights, axis=axis, keepdims=True) / np.sum(tied, axis=axis, keepdims=True)
    bars = tape.sweep(slots[0], np.where(tied, weights - mean, 0.0))
    sizes = tape.sweep(slots[0], tied * 1.0)
    found = [(bars[x.slot], sizes[x.slot]) for x in inputs if bars[x.slot] is not None]
    return all(np.all(np.abs(bar) <= 1e-9 * (1 + np.abs(size))) for bar, size in found)


def _reach_of_difference(
    tape: Tape, slots: Sequence[int], inputs: Sequence[Recorded], xs: Sequence[Value], tie: Any
) -> tuple[Any, ...]:
    """Return which entries of the inputs change the difference of two operands at their ties; identical terms cancel."""
    weights = np.where(tie, np.random.default_rng(0).uniform(0.5, 1.5, np.shape(tie)), 0.0)
    total: list[Any] = [np.zeros(np.shape(x.primal)) for x in inputs]
    sizes: list[Any] = [np.zeros(np.shape(x.primal)) for x in inputs]
    for sign, slot, x in zip((1.0, -1.0), slots, xs, strict=True):
        if slot != CONSTANT:
            bars = tape.sweep(slot, sign * _unbroadcast(weights, x))
            for k, recorded in enumerate(inputs):
                if bars[recorded.slot] is not None:
                    total[k] = total[k] + bars[recorded.slot]
                    sizes[k] = sizes[k] + np.abs(bars[recorded.slot])
    return tuple(np.abs(t) > 1e-9 * s for t, s in zip(total, sizes, strict=True))


def _unbroadcast(weights: Any, x: Value) -> Value:
    return transpose(lambda t: t + np.zeros(np.shape(weights)), x, np.asarray(weights) + np.zeros(np.shape(weights)))


@dataclass(frozen=True, slots=True)
class ScalarComparison:
    """A comparison of scalars that depend on the inputs: where, how it went, and by what margin."""

    position: Any
    says: str
    margin: float


def nearest_branches(program: RecordedProgram) -> list[ScalarComparison]:
    """Return the nearest branch of each line of the user's code that compares scalars; ties are kinks and left out."""
    _, inputs, tape = program
    moving = _dependent_slots(tape, inputs)
    nearest: dict[Any, ScalarComparison] = {}
    for primitive, slots, xs, y, _, position in tape.decisions:
        if primitive is None or primitive.name not in _SIGNS or np.shape(y) != () or not moving.intersection(slots):
            continue
        margin = float(xs[0]) - float(xs[1])
        known = nearest.get(position)
        if margin != 0 and (known is None or abs(margin) < abs(known.margin)):
            says = f"{float(xs[0]):.6g} {_SIGNS[primitive.name]} {float(xs[1]):.6g} is {str(bool(y)).lower()}"
            nearest[position] = ScalarComparison(position, f"{says}, by a margin of {abs(margin):.2g}", margin)
    return list(nearest.values())


def _seed_at_kink(primitive: Primitive, hit: Any, x: Value, params: dict[str, Any]) -> Value:
    if primitive.name == "max":  # only the tied entries reach the kink
        largest = np.max(x, axis=params["axis"], keepdims=True)
        return (np.asarray(x) == largest) * np.reshape(hit, np.shape(largest)) * 1.0
    if primitive.kind != "elementwise":
        return np.ones(np.shape(x))
    return np.minimum(_unbroadcast(np.asarray(hit, dtype=float), x), 1.0)  # 1 where the broadcast mask touches an entry


# Why an operation gives a value that is not finite: it overflows, or the point is a pole or outside its domain.

INTO_THE_DOMAIN = "move the point into the domain of the function"
TO_FINITE = "move the point to where f and its slope are finite"
_BY_MAXIMUM = "subtract the maximum first (logsumexp, softmax, softplus), or scale the input"
_UNDERFLOWING = {"exp", "exp2"}
_UNDERFLOWED = f"exp underflows to 0 before: {_BY_MAXIMUM}"
_BY_SCALE = "scale the input, or compute with logarithms"
_EXPONENTIAL = {"exp", "exp2", "expm1"}
_OPERATORS = {
    "add": "the sum", "subtract": "the difference", "multiply": "the product", "divide": "the quotient",
    "power": "the power", "integer_power": "the power", "square": "the square", "reciprocal": "the quotient",
    "matmul": "the product", "einsum": "the product", "absolute": "the absolute value",
}  # fmt: skip


def primitive_in_words(primitive: Primitive, position: Any) -> str:
    """Return how a message calls a primitive: by its name if the user wrote it, else `the product` for `x*y`."""
    written = re.search(rf"\b{primitive.name}\b", code_at(position))
    return primitive.name if written else _OPERATORS.get(primitive.name, primitive.name)


def underflow_hint(before: Iterable[Line], xs: Sequence[Value], y: Value) -> str | None:
    """Return advice if an operation has a pole at 0 where exponentials `before` it underflowed to 0; else None."""
    bad = ~np.isfinite(np.asarray(y))
    if not any(np.all(np.equal(np.broadcast_to(x, bad.shape)[bad], 0)) for x in xs if np.size(x) in (1, bad.size)):
        return None
    powers = ((p, own[0], z) for p, _, own, z, _, _ in before if p is not None and p.name in _UNDERFLOWING)
    return _UNDERFLOWED if any(np.any(np.equal(z, 0) & np.isfinite(x)) for _, x, z in powers) else None


def _has_overflowed(primitive: Primitive, xs: Sequence[Value], y: Value, params: Params) -> bool:
    """Whether the first entry that is not finite would be finite in exact arithmetic; the operands are finite."""
    bad = ~np.isfinite(np.asarray(y))
    if np.isnan(np.asarray(y)[bad][0]):
        return False
    from gradcli.arithmetic.ball import ENTRIES

    exact = ENTRIES.get(primitive.name)
    if primitive.kind == "elementwise" and exact is not None:
        from flint import arb

        operands = (arb(float(np.broadcast_to(x, shape(y))[bad].flat[0])) for x in xs)
        try:
            return bool(exact(*operands, **params).is_finite())
        except (Undecided, ValueError, TypeError):
            return False
    if primitive.kind in ("linear", "bilinear"):
        return True
    flags: list[str] = []
    with np.errstate(all="ignore", over="call", divide="call", call=lambda kind, _: flags.append(kind)):
        primitive.fun(*xs, **params)
    return set(flags) == {"overflow"}


def refuse_undefined(y: Value) -> None:
    """Raise Undecided if a value is not finite: some modes would find a slope even there."""
    if not np.all(np.isfinite(y)):
        raise Undecided("f is not finite here", do=TO_FINITE)


def first_not_finite(program: RecordedProgram, bars: Sequence[Value]) -> Mark | None:
    """Return the operation that made the first inf or nan, in the values or else in the adjoints; None if there is none."""
    token = CAREFUL.set(True)
    try:
        return _first_not_finite(program.tape, bars)
    finally:
        CAREFUL.reset(token)


def _first_not_finite(tape: Tape, bars: Sequence[Value]) -> Mark | None:
    reached = [
        ybar is not None and not all_finite(y) and np.any(~np.isfinite(y) & (np.asarray(ybar) != 0))
        for y, ybar in zip(tape.values, bars, strict=True)
    ]
    for k, (primitive, _, xs, y, params, position) in enumerate(tape.lines if any(reached) else []):
        if primitive is not None and not all_finite(y) and all(all_finite(x) for x in xs):
            if _has_overflowed(primitive, xs, y, params or {}):
                how, hint = "overflows", _BY_MAXIMUM if primitive.name in _EXPONENTIAL else _BY_SCALE
            else:
                how = f"gives {np.ravel(y)[~np.isfinite(np.ravel(y))][0]}"
                hint = underflow_hint(tape.lines[:k], xs, y) or INTO_THE_DOMAIN
            says = f"{primitive_in_words(primitive, position)} {how} at {_describe_operands(xs, y)}"
            return Mark(primitive, position, says, (), hint)
    if all(ybar is None or all_finite(ybar) for ybar in bars):  # a slope that is not finite would show in an adjoint
        return None
    for line, ybar in reversed(list(zip(tape.lines, bars, strict=True))):
        primitive, slots, xs, y, params, position = line
        if primitive is None or ybar is None or not all_finite(ybar):
            continue
        for i, slot in enumerate(slots):
            if slot != CONSTANT and not all_finite(primitive.rule(i).pull(ybar, i, y, xs, params or {}, transpose)):
                says = f"the slope of {primitive_in_words(primitive, position)} is not finite at {_describe_operands(xs, y)}"
                return Mark(primitive, position, says, (), TO_FINITE)
    return None


def _describe_operands(xs: Sequence[Value], y: Value) -> str:
    """Return the operands at the first entry that is not finite, or all of them if they are scalars."""
    bad = ~np.isfinite(np.asarray(y))
    shown = []
    for x in xs:
        if np.shape(x) == ():
            shown.append(f"{float(x):.6g}")
        elif np.shape(x) == np.shape(y) and np.any(bad):
            shown.append(f"{float(np.asarray(x)[bad][0]):.6g}")
        else:
            shown.append(f"an array of shape {np.shape(x)}")
    return ", ".join(shown)


# How far the point is from the nearest kink that the run did not hit.


@dataclass(frozen=True, slots=True)
class Nearby:
    """A kink near the point: its operation and place, and how far one entry of an input has to move to reach it.

    That entry is the one that reaches it soonest: entry `at` of the input with this `number`.
    """

    primitive: Primitive
    position: Any
    distance: float
    number: int
    at: tuple[int, ...]


def find_nearest_kink(program: RecordedProgram, bars: Sequence[Value]) -> Nearby | None:
    """Return the kink whose own argument is nearest to it, with its distance in the inputs by linearisation, or None.

    Cost    one reverse sweep for each operand of that kink.
    """
    _, inputs, tape = program
    best: tuple[float, Line, int] | None = None
    for line, bar in zip(tape.lines, bars, strict=True):
        primitive, _, xs, *_ = line
        if primitive is None or primitive.margin is None or bar is None:
            continue
        sizes = np.atleast_1d(np.abs(np.asarray(primitive.margin(*xs), dtype=float)))
        relative = np.where(sizes > 0, sizes, np.inf) / max(1.0, *(float(np.max(np.abs(x), initial=0.0)) for x in xs))
        where = int(np.argmin(relative)) if relative.size else 0
        if relative.size and (best is None or np.ravel(relative)[where] < best[0]):
            best = float(np.ravel(relative)[where]), line, where
    if best is None or not np.isfinite(best[0]):
        return None
    _, (primitive, slots, xs, _, _, position), where = best
    if primitive is None or primitive.margin is None:
        return None
    margin = np.asarray(primitive.margin(*xs), dtype=float)
    slopes: list[Any] = [np.zeros(np.shape(x.primal)) for x in inputs]
    for sign, slot, x in zip((1.0, -1.0), slots, xs, strict=False):
        if slot == CONSTANT or np.shape(x) != margin.shape:
            continue
        seed = np.zeros(margin.size)
        seed[where] = sign
        found = tape.sweep(slot, seed.reshape(margin.shape)[()])
        for n, recorded in enumerate(inputs):
            if found[recorded.slot] is not None:
                slopes[n] = slopes[n] + found[recorded.slot]
    fastest = [float(np.max(np.abs(s), initial=0.0)) for s in slopes]
    number = int(np.argmax(fastest))
    if not fastest[number] > 0:
        return None
    at = np.unravel_index(int(np.argmax(np.abs(slopes[number]))), np.shape(slopes[number]))
    distance = abs(float(np.ravel(margin)[where])) / fastest[number]
    return Nearby(primitive, position, distance, number, tuple(int(i) for i in at))


# Step functions: operations that are constant except for jumps, such as rounding, signs and comparisons.
#
# Away from its jumps a step has the slope 0. An entry that changes the result only through steps has a gradient of 0,
# although the result depends on it.

Masks = list[Any]
Function = Callable[..., Value]
Step = tuple[Primitive | None, tuple[int, ...], Any]  # the operation, the slots of its operands, its place

WIDTHS = (0.1, 0.3, 1.0, 10.0)  # times max(1, |entry|): how far an entry is moved to see whether f depends on it
_SHRINKING = (1e-4, 1e-6)  # times max(1, |entry|): steps to both sides of a jump
_ROUNDED = 1e-8  # of f plus its slope: the rounding of a slope by the smaller of these steps
_FEW = 4  # roundings of an operand: a step that changes within these is at its jump
_ROUNDS = 10  # most rounds of leaving out entries that elsewhere reach the result by other paths
_HALVINGS = 60  # of the way to another value of f: what is left is below its rounding
_PLACES = 8  # most places of steps that are reported


@dataclass(frozen=True, slots=True)
class _Reach:
    """A rule that carries dependence instead of slopes: a result depends on each entry that enters it."""

    rule: Rule
    whole: bool  # every entry of the argument may enter every entry of the result

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        raise NotImplementedError("what is reached is found on the way back")

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        reached = np.asarray(ybar) > 0
        if self.whole:
            return np.full(shape(xs[i]), float(np.any(reached)))[()]
        if isinstance(self.rule, Linear | Joint):
            weights = np.random.default_rng(0).uniform(0.5, 1.5, reached.shape)  # so that nothing cancels
            return (np.asarray(self.rule.pull((reached * weights)[()], i, y, xs, params, transpose)) != 0) * 1.0
        return (np.asarray(unbroadcast((reached * 1.0)[()], xs[i])) > 0) * 1.0


def _with_dependence_rules(primitive: Primitive, arguments: int) -> Primitive:
    """Return the operation with rules that carry dependence in place of its own."""
    elementwise = primitive is SELECT or all(isinstance(rule, Partial | ConstantSlope) for rule in primitive.rules)
    whole = not elementwise and primitive.kind != "linear"
    rules = (_Reach(ConstantSlope(1.0) if elementwise else primitive.rule(i), whole) for i in range(arguments))
    return replace(primitive, rules=tuple(rules))


def reach_of_slots(program: RecordedProgram, slots: Sequence[int]) -> Masks:
    """Return, for each input, the entries on which the values at `slots` depend other than through steps.

    Shapes  one mask for each input, in its shape.
    Cost    one sweep back over the program, whatever the number of slots.
    """
    return _sweep_masks(program, {k: np.ones(shape(program.tape.value(k)))[()] for k in slots if k != CONSTANT})


def reach_of_result(program: RecordedProgram, mask: Any) -> Masks:
    """Return, for each input, the entries on which the entries of the result in a mask depend other than through steps.

    Shapes  `mask` has the shape of the result; there is one mask for each input, in its shape.
    Cost    one sweep back over the program.
    """
    return _sweep_masks(program, {program.y.slot: (mask * 1.0)[()]} if program.moves else {})


def _sweep_masks(program: RecordedProgram, seeds: dict[int, Any]) -> Masks:
    """Return, for each input, the entries that are reached from the masks at some lines."""
    bars: list[Any] = [seeds.get(k) for k in range(len(program.lines))]
    made: dict[tuple[Primitive | None, int], Primitive | None] = {}
    for primitive, slots_, _, _, _, _ in program.lines:
        if (primitive, len(slots_)) not in made:
            made[primitive, len(slots_)] = primitive and _with_dependence_rules(primitive, len(slots_))
    lines = [
        (made[primitive, len(slots)], slots, xs, y, params, None)
        for primitive, slots, xs, y, params, _ in program.lines
    ]
    sweep_back(lines, bars, len(bars) - 1)
    found = ((x, bars[x.slot]) for x in program.inputs)
    return [np.zeros(shape(x.primal), dtype=bool) if bar is None else np.asarray(bar) > 0 for x, bar in found]


def find_staircases(
    f: Function,
    xs: Sequence[Value],
    program: RecordedProgram,
    slopes: Sequence[Value],
    allowed: Callable[[Sequence[Value]], bool] = lambda xs: True,
) -> list[Mark]:
    """Return the steps that are the only path of some entries to the result; `slopes` are those of the sum of all outputs.

    Such an entry enters no other operation, neither at the point nor where it is moved to, and f changes with it.

    Cost    if there are such entries, 8 recordings a round; another round if some of them take other paths elsewhere. Where
            f changes without them, as much again, and 60 evaluations for each.
    """
    steps = [
        (primitive, slots, position)
        for primitive, slots, _, _, _, position in program.tape.decisions
        if any(slot != CONSTANT for slot in slots)
    ]
    left = [np.equal(slope, 0) for slope in slopes]
    if not steps or not any(map(np.any, left)):
        return []
    left = _intersect_masks(left, [~mask for mask in _reach_by_smooth_paths(program)])
    left = _intersect_masks(left, reach_of_slots(program, [slot for _, slots, _ in steps for slot in slots]))
    for _ in range(_ROUNDS):
        before, steps_alone = left, False
        for moved in _moved_points(xs, left) if any(map(np.any, left)) else ():
            there = _try_to_record(f, moved) if allowed(moved) else None
            if there is not None:
                entering = _intersect_masks(left, _reach_by_smooth_paths(there))
                if not any(map(np.any, entering)) and not _is_same_value(there.y, program.y):
                    first = _record_first_change(f, xs, moved, program.y)
                    entering = entering if first is None else _intersect_masks(left, _reach_by_smooth_paths(first))
                    steps_alone |= not any(map(np.any, entering))
                left = [mask & ~enters for mask, enters in zip(left, entering, strict=True)]
        if all(np.array_equal(one, other) for one, other in zip(left, before, strict=True)):
            return list(_marks_of_steps(program, steps, left)) if steps_alone else []
    return []  # each round finds more entries with other paths, as for the maximum of many


def _try_to_record(f: Function, xs: Sequence[Value]) -> RecordedProgram | None:
    """Return the function recorded at other values, or None if it fails there."""
    try:
        return record(f, xs)
    except GradcliError:
        return None


def _record_first_change(f: Function, xs: Sequence[Value], moved: Sequence[Value], y: Value) -> RecordedProgram | None:
    """Return f recorded just beyond the place between `xs` and `moved` where it is `y` no longer, or None if it fails there.

    There a median has another middle.
    """
    same, other = 0.0, 1.0
    for _ in range(_HALVINGS):
        t = (same + other) / 2
        try:
            unchanged = _is_same_value(f(*_point_between(xs, moved, t)), y)
        except GradcliError:
            return None
        same, other = (t, other) if unchanged else (same, t)
    return _try_to_record(f, _point_between(xs, moved, other))


def _point_between(xs: Sequence[Value], moved: Sequence[Value], t: float) -> list[Value]:
    return [(x + t * (there - x))[()] for x, there in zip(xs, moved, strict=True)]


def _is_same_value(a: Value, b: Value) -> bool:
    return bool(np.array_equal(np.asarray(plain_value(a)), np.asarray(plain_value(b)), equal_nan=True))


def find_steps_at_jumps(f: Function, program: RecordedProgram, bars: Sequence[Value]) -> list[Mark]:
    """Return the steps at their jump (`floor(x)` at 2) near which f itself jumps or has another slope.

    Cost    4 evaluations of f for each step at its jump.
    """
    found = []
    for line in program.tape.decisions:
        primitive, slots, xs, y, params, position = line
        if primitive is None or not primitive.staircase or all(slot == CONSTANT for slot in slots):
            continue
        x, *others = xs  # at a jump, the value changes within a few roundings of the first operand
        near = [x + sign * _FEW * np.spacing(np.abs(x)) for sign in (1.0, -1.0)]
        up, down = (primitive.fun(moved, *others, **(params or {})) for moved in near)
        hit = np.not_equal(up, y) | np.not_equal(down, y)
        if not np.any(hit):
            continue
        seeds = [(unbroadcast(hit * 1.0, x) > 0) * 1.0 for x in xs]
        reached = reach_by_slopes(program.tape, slots, program.inputs, seeds)
        if _has_kink_or_jump(f, program, bars, reached):
            found.append(Mark(primitive, position, f"{primitive.name} is at its jump", reached))
    return found


def _has_kink_or_jump(f: Function, program: RecordedProgram, bars: Sequence[Value], reached: Sequence[Any]) -> bool:
    """Whether the one-sided slopes of f do not approach the recorded slope as the steps shrink."""
    xs = [x.primal for x in program.inputs]
    units = [np.maximum(1.0, np.abs(x)) * mask for x, mask in zip(xs, reached, strict=True)]
    slopes = [bars[x.slot] for x in program.inputs]
    along = sum(float(np.sum(bar * unit)) for bar, unit in zip(slopes, units, strict=True) if bar is not None)
    here = float(np.sum(plain_value(program.y)))
    apart = []
    for h in _SHRINKING:
        moved = ([(x + side * unit)[()] for x, unit in zip(xs, units, strict=True)] for side in (h, -h))
        up, down = (np.sum(f(*point)) for point in moved)
        apart.append(max(abs((up - here) / h - along), abs((here - down) / h - along)))
    wide, fine = apart
    shrinks = fine <= max(wide / 2, _ROUNDED * (abs(here) + abs(along)))
    return bool(np.isfinite(wide) and np.isfinite(fine)) and not shrinks


def _reach_by_smooth_paths(program: RecordedProgram) -> Masks:
    """Return, for each input, the entries on which the result depends other than through steps."""
    return reach_of_slots(program, [program.y.slot] if program.moves else [])


def _marks_of_steps(program: RecordedProgram, steps: Sequence[Step], left: Masks) -> Iterator[Mark]:
    """Yield a mark for each place of steps; the last one also stands for all further places."""
    places: dict[tuple[Primitive, Any], list[int]] = {}
    for primitive, slots, position in steps:
        if primitive is not None:
            places.setdefault((primitive, position), []).extend(slots)
    shown = list(places.items())[:_PLACES]
    for further in list(places.values())[_PLACES:]:
        shown[-1][1].extend(further)
    for (primitive, position), reading in shown:
        reached = _intersect_masks(left, reach_of_slots(program, reading))
        if any(map(np.any, reached)):
            what = primitive.name if primitive.staircase else code_at(position) or primitive.name
            says = f"{what} is a step function: its slope is 0 although its value changes"
            yield Mark(primitive, position, says, tuple(reached))


def _moved_points(xs: Sequence[Value], left: Masks) -> Iterator[list[Value]]:
    """Yield points at which the entries in `left` are moved, by less and by more than their size, in both directions."""
    rng = np.random.default_rng(0)
    for width in WIDTHS:
        pairs = zip(xs, left, strict=True)
        moves = [width * rng.uniform(0.5, 1.5, shape(x)) * np.maximum(1.0, np.abs(x)) * mask for x, mask in pairs]
        for sign in (1.0, -1.0):
            yield [(x + sign * move)[()] for x, move in zip(xs, moves, strict=True)]


def _intersect_masks(a: Masks, b: Masks) -> Masks:
    return [one & other for one, other in zip(a, b, strict=True)]
