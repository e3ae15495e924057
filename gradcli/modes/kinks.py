"""What a recorded run shows about its point: kinks, branches, and where values stop being finite."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gradcli.arithmetic.recorded_program import RecordedProgram
from gradcli.arithmetic.tape import CONSTANT, Line, Recorded, Tape, transpose
from gradcli.classes import dataclass
from gradcli.errors import Undecided
from gradcli.rules.kinds import CAREFUL
from gradcli.tracing.primitive import Params, Primitive, Value, primitive_by_name
from gradcli.tracing.provenance import code_at
from gradcli.tracing.shapes import all_finite, shape

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
    from gradcli.arithmetic.arb import ENTRIES

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
