"""How far the point is from the nearest kink that the run did not hit."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.arithmetic.program import Program
from gradcli.arithmetic.tape import CONSTANT, Recorded, Tape
from gradcli.tracing.primitive import Primitive, Value


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


def nearest(program: Program, bars: Sequence[Value]) -> Nearby | None:
    """Return the kink whose own argument is nearest to it, with its distance in the inputs by linearisation, or None.

    Cost    one reverse sweep for each operand of that kink.
    """
    _, inputs, tape = program
    best: tuple[float, int, int] | None = None
    for k, ((primitive, _, xs, _, _, _), bar) in enumerate(zip(tape.lines, bars, strict=True)):
        if primitive is None or primitive.margin is None or bar is None:
            continue
        margin = np.atleast_1d(np.abs(np.asarray(primitive.margin(*xs), dtype=float)))
        relative = np.where(margin > 0, margin, np.inf) / max(1.0, *(float(np.max(np.abs(x), initial=0.0)) for x in xs))
        where = int(np.argmin(relative)) if relative.size else 0
        if relative.size and (best is None or np.ravel(relative)[where] < best[0]):
            best = float(np.ravel(relative)[where]), k, where
    return None if best is None or not np.isfinite(best[0]) else _reached(tape, inputs, *best[1:])


def _reached(tape: Tape, inputs: Sequence[Recorded], k: int, where: int) -> Nearby | None:
    primitive, slots, xs, _, _, position = tape.lines[k]
    if primitive is None or primitive.margin is None:
        return None
    whole = np.asarray(primitive.margin(*xs), dtype=float)
    margin = abs(float(np.ravel(whole)[where]))
    slopes: list[Any] = [np.zeros(np.shape(x.primal)) for x in inputs]
    for sign, slot, x in zip((1.0, -1.0), slots, xs, strict=False):
        if slot == CONSTANT or np.shape(x) != np.shape(whole):
            continue
        seed = np.zeros(whole.size)
        seed[where] = sign
        found = tape.sweep(slot, seed.reshape(whole.shape)[()])
        for n, recorded in enumerate(inputs):
            if found[recorded.slot] is not None:
                slopes[n] = slopes[n] + found[recorded.slot]
    fastest = [float(np.max(np.abs(s), initial=0.0)) for s in slopes]
    number = int(np.argmax(fastest))
    if not fastest[number] > 0:
        return None
    at = np.unravel_index(int(np.argmax(np.abs(slopes[number]))), np.shape(slopes[number]))
    return Nearby(primitive, position, margin / fastest[number], number, tuple(int(i) for i in at))
