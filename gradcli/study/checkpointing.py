"""Gradients by checkpointing: recompute a recorded program of L lines in sqrt(L) segments instead of storing all values.

Source  Griewank and Walther (2008), Evaluating Derivatives, chapter 12; Chen et al. (2016), sublinear memory cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.interpreters.program import Program
from gradcli.interpreters.tape import CONSTANT, SPENT, Line, sweep_back


@dataclass(frozen=True, slots=True)
class Skeleton:
    """A recorded program without its values; `last[k]` is the last line that uses slot k."""

    lines: tuple[Line, ...]
    inputs: tuple[int, ...]
    last: tuple[int, ...]

    @property
    def segment(self) -> int:
        """The length of a segment: the square root of the program's length."""
        return max(1, int(np.sqrt(len(self.lines))))


def skeleton(program: Program) -> Skeleton:
    """Return the lines of a recorded program without the values of its variables; constants are kept."""
    y, inputs, tape = program
    lines: list[Line] = []
    last = list(range(y.slot + 1))
    for k, (primitive, slots, xs, _, params, _) in enumerate(tape.lines[: y.slot + 1]):
        constants = tuple(x if slot == CONSTANT else None for slot, x in zip(slots, xs, strict=True))
        lines.append((primitive, slots, constants, None, params, None))
        for slot in slots:
            if slot != CONSTANT:
                last[slot] = k
    last[y.slot] = len(lines)
    return Skeleton(tuple(lines), tuple(x.slot for x in inputs), tuple(last))


def gradient(made: Skeleton, xs: Sequence[Any], segment: int | None = None) -> list[Any]:
    """Return the gradient of a scalar program; values are stored only at the starts of segments, and the rest recomputed.

    Without `segment` everything is stored.

    Shapes  the gradients have the shapes of `xs`.
    Cost    f twice at most, and one reverse sweep; the values of one segment and those alive at the starts are held.
    """
    count = len(made.lines)
    length = segment or count
    starts = range(0, count, length)
    values: dict[int, Any] = dict(zip(made.inputs, xs, strict=True))
    lines: list[Line] = [SPENT] * count
    kept: list[dict[int, Any]] = []
    for start in starts:
        kept.append(dict(values))
        stop = min(start + length, count)
        if stop < count:
            _run(made, values, start, stop)
            values = {k: x for k, x in values.items() if made.last[k] >= stop or k in made.inputs}
    bars: list[Any] = [None] * count
    bars[-1] = np.float64(1)
    for start in reversed(starts):
        stop = min(start + length, count)
        lines[start:stop] = _run(made, kept.pop(), start, stop)
        sweep_back(lines, bars, stop - 1, start, keep=False, once=True)
    return [np.zeros(np.shape(x)) if bars[k] is None else bars[k] for k, x in zip(made.inputs, xs, strict=True)]


def _run(made: Skeleton, values: dict[int, Any], start: int, stop: int) -> list[Line]:
    """Run one segment and return its lines with their values; the values are also added to `values`."""
    lines = []
    for k in range(start, stop):
        primitive, slots, constants, y, params, position = made.lines[k]
        xs: Sequence[Any] = constants
        if primitive is not None:
            xs = [x if slot == CONSTANT else values[slot] for slot, x in zip(slots, constants, strict=True)]
            y = values[k] = primitive.fun(*xs, **(params or {}))
        lines.append((primitive, slots, xs, y, params, position))
    return lines
