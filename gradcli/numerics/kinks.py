"""What a recorded run says about the place it was run at: kinks, staircases, and where numbers stop being finite."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.core.primitive import Primitive, Value
from gradcli.interpreters.tape import CONSTANT, Line, Recorded, Tape, transpose

_COMPARISONS = {"less", "less_equal", "greater", "greater_equal", "equal", "not_equal"}


@dataclass(frozen=True, slots=True)
class Mark:
    """One place on the tape worth telling: the line, why, and the mask of each input's entries it reaches."""

    line: Line
    says: str
    reach: tuple[Any, ...]


def _reach(tape: Tape, slots: Sequence[int], inputs: Sequence[Recorded], seeds: Sequence[Value]) -> tuple[Any, ...]:
    """Return, for each input, which entries the given slots depend on (by the slopes at this point)."""
    masks = [np.zeros(np.shape(x.primal), dtype=bool) for x in inputs]
    for slot, seed in zip(slots, seeds, strict=True):
        if slot == CONSTANT:
            continue
        bars = tape.sweep(slot, seed)
        for k, x in enumerate(inputs):
            if bars[x.slot] is not None:
                masks[k] |= np.asarray(bars[x.slot]) != 0
    return tuple(masks)


def _moving(tape: Tape, inputs: Sequence[Recorded]) -> set[int]:
    """Return the slots that depend on the inputs."""
    moving = {x.slot for x in inputs}
    for k, line in enumerate(tape.lines):
        if any(slot in moving for slot in line[1]):
            moving.add(k)
    return moving


def kinks(tape: Tape, bars: Sequence[Value], inputs: Sequence[Recorded]) -> list[Mark]:
    """Return the kinks the run hit exactly: ties of maximum and max, abs and relu at 0, branches on a tie.

    A tie through which no cotangent flows changes nothing and is left out.
    """
    found = []
    for line, ybar in zip(tape.lines, bars, strict=True):
        primitive, slots, xs, y, params, _ = line
        if primitive is None or primitive.kink is None or ybar is None:
            continue
        hit = np.asarray(primitive.kink(y, *xs, **(params or {}))) & (np.asarray(ybar) != 0)
        if np.any(hit):
            seeds = [_seed(primitive, hit, x, xs) for x in xs]
            found.append(
                Mark(line, f"{primitive.name} has a kink where {primitive.kinks}", _reach(tape, slots, inputs, seeds))
            )
    moving = _moving(tape, inputs)
    for line in tape.decisions:
        primitive, slots, xs, _, _, _ = line
        if primitive is None or primitive.name not in _COMPARISONS or not moving.intersection(slots):
            continue
        tie = np.equal(*xs)
        if np.any(tie):
            seeds = [_unspread(tie, x) for x in xs]
            found.append(Mark(line, "a comparison is exactly at its tie", _reach(tape, slots, inputs, seeds)))
    return found


def _seed(primitive: Primitive, hit: Any, x: Value, xs: Sequence[Value]) -> Value:
    return np.ones(np.shape(x)) if primitive.kind != "elementwise" else _unspread(hit, x)


def _unspread(mask: Any, x: Value) -> Value:
    """Return 1.0 where a broadcast mask touches an entry of `x`."""
    spread = transpose(
        lambda t: t + np.zeros(np.shape(mask)), x, np.asarray(mask, dtype=float) + np.zeros(np.shape(mask))
    )
    return np.minimum(spread, 1.0)


def staircases(tape: Tape, inputs: Sequence[Recorded]) -> list[Mark]:
    """Return the steps on the path whose slope is zero although they move: floor, sign, rounding."""
    moving = _moving(tape, inputs)
    found = []
    for line in tape.decisions:
        primitive, slots, xs, _, _, _ = line
        if primitive is not None and primitive.staircase and moving.intersection(slots):
            seeds = [np.ones(np.shape(x)) for x in xs]
            says = f"{primitive.name} is a staircase: its slope is 0 although its value moves"
            found.append(Mark(line, says, _reach(tape, slots, inputs, seeds)))
    return found


def first_not_finite(tape: Tape, bars: Sequence[Value]) -> Mark | None:
    """Return the operation that made the first inf or nan: in the values, or else in the adjoints."""
    for line in tape.lines:
        primitive, _, xs, y, _, _ = line
        if primitive is not None and not _finite(y) and all(_finite(x) for x in xs):
            return Mark(line, f"{primitive.name} gives {_first_bad(y)} at {_operand(xs, y)}", ())
    for line, ybar in reversed(list(zip(tape.lines, bars, strict=True))):
        primitive, slots, xs, y, params, _ = line
        if primitive is None or ybar is None or not _finite(ybar):
            continue
        for i, slot in enumerate(slots):
            if slot != CONSTANT and not _finite(primitive.rule(i).pull(ybar, i, y, xs, params or {}, transpose)):
                return Mark(line, f"the slope of {primitive.name} is not finite at {_operand(xs, y)}", ())
    return None


def _finite(x: Value) -> bool:
    return bool(np.all(np.isfinite(x)))


def _first_bad(y: Value) -> str:
    flat = np.ravel(y)
    return str(flat[~np.isfinite(flat)][0])


def _operand(xs: Sequence[Value], y: Value) -> str:
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
