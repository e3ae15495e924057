"""The recorded program: what a function computed at one point, to be swept back, run again, or changed at some of its lines."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gradcli.arithmetic.tape import CONSTANT, Ended, Line, Recorded, Tape
from gradcli.errors import BadShape
from gradcli.tracing import heap
from gradcli.tracing import primitive as levels
from gradcli.tracing.primitive import Rule, Value, settled
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import SeldomCollected, Tracer


class Program(NamedTuple):
    """A function's value, still recorded, its inputs, and the tape of what was computed on the way."""

    y: Value
    inputs: list[Recorded]
    tape: Tape

    @property
    def moves(self) -> bool:
        """Whether the value depends on the inputs at all."""
        return isinstance(self.y, Recorded) and self.y.slot != CONSTANT

    @property
    def lines(self) -> list[Line]:
        """What was computed, in order, the inputs first."""
        return self.tape.lines

    def pull(self, ybar: Value) -> list[Value]:
        """Return the cotangents of the inputs, given that of the value; zeros where it does not move."""
        return self.tape.pull(self.y, ybar, self.inputs)

    def on(self, tape: Tape) -> "Program":
        """Return the program with the lines of another tape, one for each of its own."""
        y = Recorded(tape.value(self.y.slot), self.y.slot, tape) if self.moves else self.y
        return Program(y, self.inputs, tape)

    def with_rules(self, rules: Mapping[int, Mapping[int, Rule]]) -> "Program":
        """Return the program with other rules: `rules[k][i]` is that of argument i at line k."""
        return self.with_lines({k: _line_with(self.lines[k], changed) for k, changed in rules.items()})

    def with_lines(self, lines: Mapping[int, Line]) -> "Program":
        """Return the program with other lines in place of some."""
        made = Tape(self.tape.level)
        made.lines = list(self.lines)
        for k, line in lines.items():
            made.lines[k] = line
        return self.on(made)

    def run(self, xs: Sequence[Value]) -> Value | None:
        """Return the value at other inputs, or None where the program would have decided otherwise there.

        Decisions are comparisons, orders and steps like rounding: what the record holds as constants.

        Raises  what an operation raises, as where a matrix has no factors.
        """
        values: list[Value] = [None] * len(self.lines)
        for recorded, x in zip(self.inputs, xs, strict=True):
            values[recorded.slot] = x

        def operands(slots: Sequence[int], constants: Sequence[Value]) -> list[Value]:
            return [x if slot == CONSTANT else values[slot] for slot, x in zip(slots, constants, strict=True)]

        for k, (primitive, slots, constants, _, params, _) in enumerate(self.lines):
            if primitive is None:
                continue
            if params:
                values[k] = primitive.fun(*operands(slots, constants), **params)
            elif len(slots) == 2:  # most lines: without a list for the operands
                (i, j), (a, b) = slots, constants
                values[k] = primitive.fun(a if i == CONSTANT else values[i], b if j == CONSTANT else values[j])
            else:
                values[k] = primitive.fun(*operands(slots, constants))
        for primitive, slots, constants, decided, params, _ in self.tape.decisions:
            if primitive is not None and max(slots) != CONSTANT:
                again = primitive.fun(*operands(slots, constants), **(params or {}))
                if not np.array_equal(again, decided, equal_nan=True):
                    return None
        return values[self.y.slot] if self.moves else (self.y.primal if isinstance(self.y, Recorded) else self.y)


def _line_with(line: Line, changed: Mapping[int, Rule]) -> Line:
    primitive, slots, xs, y, params, position = line
    if primitive is None:
        return line
    own = tuple(changed.get(i) or primitive.rule(i) for i in range(len(slots)))
    return replace(primitive, rules=own), slots, xs, y, params, position


def record(f: Callable[..., Value], xs: Sequence[Value], swept_once: bool = False) -> Program:
    """Run `f` on a new tape and return the program."""
    heap.reuse_pages()
    with SeldomCollected(), levels.sweep() as level:
        tape = Tape(level, swept_once)
        inputs = [tape.variable(x) for x in xs]
        y = settled(f(*inputs))
        tape.lines, tape.decisions = Ended(tape.lines), Ended(tape.decisions)
        return Program(y, inputs, tape)


def vjp(f: Callable[..., Value], xs: Sequence[Value]) -> tuple[Value, Callable[[Value], list[Value]]]:
    """Return f(*xs) and `pull`, which takes a cotangent of the value to the cotangents of the inputs."""
    y, inputs, tape = record(f, xs)
    value = y.primal if isinstance(y, Recorded) and y.tape is tape else y
    return value, lambda ybar: tape.pull(y, ybar, inputs)


def value_and_pulled(
    f: Callable[..., Value], xs: Sequence[Value], one: Callable[[Value], Value]
) -> tuple[Value, list[Value]]:
    """Return f(*xs), a scalar, and its gradient; the tape is used up. `one` gives the cotangent to begin with.

    Raises  BadShape where the value is no scalar.
    """
    for x in xs:
        if isinstance(x, Tracer) and x.differentiated is not None:
            return x.differentiated(f, xs)
    y, inputs, tape = record(f, xs, swept_once=True)
    value = y.primal if isinstance(y, Recorded) and y.tape is tape else y
    if shape(value) != ():
        raise BadShape(
            f"the value has shape {shape(value)}, and only a scalar has a gradient", do="use gradcli.jacobian"
        )
    xbars = tape.pull(y, one(value), inputs, once=True)
    if any(map(_has_nan, xbars)):
        y, inputs, tape = record(f, xs)
        xbars = tape.pull(y, one(value), inputs)
    return value, xbars


def _has_nan(x: Value) -> bool:
    """Whether a plain value has a nan: the least entry is nan then."""
    if type(x) is np.ndarray:
        return bool(np.isnan(np.minimum.reduce(x, axis=None, initial=np.inf)))
    return type(x) is np.float64 and bool(np.isnan(x))
