"""What recomputing instead of storing costs and saves, measured: a recorded program, run again in sqrt(L) segments.

Source  Griewank and Walther (2008), Evaluating Derivatives, chapter 12; Chen et al. (2016), sublinear memory cost.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.core.primitive import Primitive
from gradcli.interpreters.tape import CONSTANT, Recorded, Tape, transpose

Step = tuple[Primitive | None, tuple[int, ...], tuple[Any, ...], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Program:
    """A recorded run without its values; `last[k]` is the last step that uses slot k."""

    steps: tuple[Step, ...]
    result: int
    inputs: tuple[int, ...]
    last: tuple[int, ...]

    @property
    def segment(self) -> int:
        """The length of a segment: the square root of the program's."""
        return max(1, int(np.sqrt(len(self.steps))))


def program(y: Recorded, inputs: Sequence[Recorded], tape: Tape) -> Program:
    """Return the steps of a recorded run up to `y`."""
    steps: list[Step] = []
    last = list(range(y.slot + 1))
    for k, (primitive, slots, xs, _, params, _) in enumerate(tape.lines[: y.slot + 1]):
        constants = tuple(x if slot == CONSTANT else None for slot, x in zip(slots, xs, strict=True))
        steps.append((primitive, slots, constants, params or {}))
        for slot in slots:
            if slot != CONSTANT:
                last[slot] = k
    last[y.slot] = len(steps)
    return Program(tuple(steps), y.slot, tuple(x.slot for x in inputs), tuple(last))


def gradient(made: Program, xs: Sequence[Any], segment: int | None = None) -> list[Any]:
    """Return the gradient of a scalar program, storing what the starts of segments need and running each again.

    A segment as long as the program stores everything.
    """
    length = segment or len(made.steps)
    starts = range(0, len(made.steps), length)
    values: dict[int, Any] = dict(zip(made.inputs, xs, strict=True))
    kept: list[dict[int, Any]] = []
    for start in starts:
        kept.append(dict(values))
        stop = min(start + length, len(made.steps))
        if stop < len(made.steps):
            values = _run(made, values, start, stop)
            values = {k: x for k, x in values.items() if made.last[k] >= stop or k in made.inputs}
    bars: dict[int, Any] = {made.result: np.float64(1)}
    for start in reversed(starts):
        stop = min(start + length, len(made.steps))
        _sweep(made, _run(made, kept.pop(), start, stop), bars, start, stop)
    return [bars.get(k, np.zeros(np.shape(x))) for k, x in zip(made.inputs, xs, strict=True)]


def _run(made: Program, values: dict[int, Any], start: int, stop: int) -> dict[int, Any]:
    values = dict(values)
    for k in range(start, stop):
        primitive, slots, constants, params = made.steps[k]
        if primitive is not None:
            values[k] = primitive.fun(*_operands(values, slots, constants), **params)
    return values


def _sweep(made: Program, values: dict[int, Any], bars: dict[int, Any], start: int, stop: int) -> None:
    for k in range(stop - 1, start - 1, -1):
        primitive, slots, constants, params = made.steps[k]
        if primitive is None or k not in bars:
            continue
        ybar = bars.pop(k)
        xs = _operands(values, slots, constants)
        for i, slot in enumerate(slots):
            if slot != CONSTANT:
                xbar = primitive.rule(i).pull(ybar, i, values[k], xs, params, transpose)
                bars[slot] = xbar if slot not in bars else bars[slot] + xbar


def _operands(values: dict[int, Any], slots: Sequence[int], constants: Sequence[Any]) -> list[Any]:
    return [x if slot == CONSTANT else values[slot] for slot, x in zip(slots, constants, strict=True)]
