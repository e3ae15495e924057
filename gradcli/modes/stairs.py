"""Step functions: operations that are constant except for jumps, such as rounding, signs and comparisons.

Away from its jumps a step has the slope 0. An entry that changes the result only through steps has a gradient of 0,
although the result depends on it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcli.arithmetic.recorded_program import RecordedProgram, record
from gradcli.arithmetic.tape import CONSTANT, sweep_back
from gradcli.classes import dataclass
from gradcli.errors import GradcliError
from gradcli.modes.kinks import Mark, reach_by_slopes
from gradcli.rules.kinds import ConstantSlope, Joint, Linear, Partial
from gradcli.rules.shaping import SELECT
from gradcli.tracing.primitive import Params, Primitive, Rule, Transposer, Value
from gradcli.tracing.provenance import code_at
from gradcli.tracing.shapes import shape, unbroadcast
from gradcli.tracing.tracer import plain_value

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
