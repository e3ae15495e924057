"""The tape: a flat list of the operations of a run, in order, and the reverse sweep over it, without recursion.

A line is a plain tuple `(primitive, slots, xs, y, params, position)`. Slot k is line k, and slot -1 is a constant. Tuples in
a list are the cheapest record in Python, and the fast path of `Recorded`'s operators appends nothing else. Lines are read by
unpacking, never by the number of a field.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.arithmetic.liveness import without
from gradcli.errors import TraceEnded
from gradcli.rules.kinds import CAREFUL, LARGE, Factor, Partial, times
from gradcli.tracing import primitive as levels
from gradcli.tracing.primitive import Params, Primitive, Value, kept
from gradcli.tracing.provenance import HERE
from gradcli.tracing.provenance import position as _position
from gradcli.tracing.shapes import is_plain, shape, unbroadcast, zeros_like
from gradcli.tracing.tracer import Tracer, defined

Line = tuple[Primitive | None, tuple[int, ...], Sequence[Value], Value, Params | None, Any]
CONSTANT = -1
MOST_LINES = 2_000_000  # of a trace, about a gigabyte; a longer function is only called for its values
_NONE: Params = {}
SPENT: Line = (None, (), (), None, None, None)  # a line that contributes no cotangents


def too_long() -> TraceEnded:
    """Return the error that ends a trace of more than MOST_LINES lines."""
    says = f"the trace has more than {MOST_LINES:,} lines"
    return TraceEnded(says, do="use fewer and larger operations on arrays, or a smaller problem")


class Ended(list[Line]):
    """The lines of a sweep that has ended; user code that uses a value it kept from the sweep gets TraceEnded."""

    def append(self, line: Line) -> None:
        raise kept()


def sweep_back(
    lines: list[Line], bars: list[Value], top: int, bottom: int = 0, keep: bool = True, once: bool = False
) -> None:
    """Sweep back over the lines from `top` down to `bottom`, and add the cotangents of their operands to `bars`.

    `bars[k]` is the cotangent of line k; None is zero. See `Tape.sweep` for `keep` and `once`.
    """
    careful = CAREFUL.get()
    for k in range(top, bottom - 1, -1):
        ybar = bars[k]
        primitive, slots, xs, y, params, _ = lines[k]
        if ybar is None or primitive is None:
            continue
        if not keep:
            bars[k] = None
        if once:
            lines[k] = SPENT
        rules = primitive.rules
        scalar = type(y) is np.float64
        plain = not careful and type(ybar) is np.ndarray and is_plain(y)
        for i, s in enumerate(slots):
            if s >= 0:  # for scalars and plain arrays, do the work of `pull` here, without calls
                rule = rules[i] if i < len(rules) else rules[-1]
                if scalar and type(rule) is Partial and not params and not careful:
                    xbar = ybar * (rule.kernel or rule.partial)(y, *xs)
                elif scalar and type(rule) is Factor:
                    xbar = ybar if rule.factor == 1.0 else rule.factor * ybar
                elif plain and type(rule) is Factor:
                    xbar = ybar if rule.factor == 1.0 else rule.factor * ybar
                    xbar = xbar if xbar.shape == shape(xs[i]) else unbroadcast(xbar, xs[i])
                elif plain and type(rule) is Partial and ybar.size < LARGE:
                    xbar = times(ybar, (rule.kernel or rule.partial)(y, *xs, **(params or _NONE)), y, xs)
                    xbar = xbar if xbar.shape == shape(xs[i]) else unbroadcast(xbar, xs[i])
                else:
                    xbar = rule.pull(ybar, i, y, xs, params or _NONE, transpose)
                seen = bars[s]
                bars[s] = xbar if seen is None else seen + xbar


class Tape:
    """The lines of one run at one nesting level, and the decisions in it: its constant operations (floor, comparisons).

    Lines of inputs have no primitive. `decisions` holds tuples with the same fields as lines. A tape that is `swept_once`
    is used for one reverse sweep only: large values that no rule will read are dropped while it is recorded.
    """

    __slots__ = ("decisions", "level", "lines", "swept_once")

    def __init__(self, level: float, swept_once: bool = False) -> None:
        self.level = level
        self.swept_once = swept_once
        self.lines: list[Line] = []
        self.decisions: list[Line] = []

    @property
    def values(self) -> list[Value]:
        """The values of all lines."""
        return [y for _, _, _, y, _, _ in self.lines]

    def value(self, slot: int) -> Value:
        """Return the value of one line."""
        _, _, _, y, _, _ = self.lines[slot]
        return y

    def operands(self, slot: int) -> tuple[int, ...]:
        """Return the slots of a line's operands, CONSTANT for constants."""
        _, slots, _, _, _, _ = self.lines[slot]
        return slots

    def primitive(self, slot: int) -> Primitive | None:
        """Return the operation of a line; None for an input."""
        primitive, _, _, _, _, _ = self.lines[slot]
        return primitive

    def position(self, slot: int) -> Any:
        """Return the position where a line was recorded, for `provenance.place`."""
        _, _, _, _, _, position = self.lines[slot]
        return position

    def variable(self, x: Value) -> "Recorded":
        """Return `x` as an input of the recorded program."""
        self.lines.append((None, (), (), x, None, None))
        return Recorded(x, len(self.lines) - 1, self)

    def sweep(self, slot: int, ybar: Value, keep: bool = True, once: bool = False) -> list[Value]:
        """Return the cotangent of every slot, given the cotangent `ybar` of `slot`; None is zero.

        Without `keep`, the cotangents of all lines but inputs are dropped after use. With `once`, the lines are dropped too,
        so that the reverse sweep reuses the memory of the forward run.

        Shapes  `ybar` has the shape of the value of `slot`; each cotangent has the shape of its line's value.
        """
        bars: list[Value] = [None] * len(self.lines)
        bars[slot] = ybar
        sweep_back(self.lines, bars, slot, 0, keep, once)
        return bars

    def swept(self, slot: int, ybar: Value, inputs: Sequence["Recorded"], keep: bool = True) -> list[Value]:
        """Return what `sweep` returns; if an input gets nan, sweep again with zero times infinity counted as zero.

        An infinite slope that meets a zero cotangent, as that of the log in `where(x > 0, log(x), 0)` at 0, is not part of
        the derivative of the function.
        """
        ybar = defined(self.value(slot), ybar)
        bars = self.sweep(slot, ybar, keep)
        if not any(np.any(np.isnan(bars[x.slot])) for x in inputs if is_plain(bars[x.slot])):
            return bars
        token = CAREFUL.set(True)
        try:
            return self.sweep(slot, ybar, keep)
        finally:
            CAREFUL.reset(token)

    def pull(self, y: Value, ybar: Value, inputs: Sequence["Recorded"], once: bool = False) -> list[Value]:
        """Return the cotangents of `inputs`, given the cotangent `ybar` of `y`; zeros for inputs that `y` does not use."""
        if not (isinstance(y, Recorded) and y.tape is self) or y.slot == CONSTANT:
            return [zeros_like(x.primal) for x in inputs]
        if once:
            bars = self.sweep(y.slot, defined(y.primal, ybar), keep=False, once=True)
        else:
            bars = self.swept(y.slot, ybar, inputs, keep=False)
        return [zeros_like(x.primal) if bars[x.slot] is None else bars[x.slot] for x in inputs]


class Meter:
    """The memory of tapes that are recorded and dropped during a reverse sweep: the largest one is kept."""

    def __init__(self) -> None:
        self.most_nested = 0
        self.kept = False  # a checkpointed function was recorded line by line after all

    def nested(self, tape: Tape) -> None:
        """Measure a tape that is recorded while another one is swept."""
        self.most_nested = max(self.most_nested, held_bytes(tape))


METER = Meter()


def held_bytes(tape: Tape) -> int:
    """Return the bytes of the values on a tape, each counted once."""
    seen = {id(y): np.asarray(y).nbytes for y in tape.values if not isinstance(y, Tracer)}
    return sum(seen.values())


class Recorded(Tracer):
    """A value and the slot of the line that made it."""

    __slots__ = ("primal", "slot", "tape")

    def __init__(self, primal: Value, slot: int, tape: Tape) -> None:
        self.primal = primal
        self.slot = slot
        self.tape = tape
        self.storage = None

    @property
    def level(self) -> float:  # type: ignore[override]
        return self.tape.level

    def settle(self) -> Value:
        if self.slot != CONSTANT:
            raise kept()
        return self.primal

    def hold(self, x: Value) -> "Recorded":
        return Recorded(self.primal.hold(x) if isinstance(self.primal, Tracer) else x, CONSTANT, self.tape)

    @property
    def moves(self) -> bool:
        return self.slot != CONSTANT or (
            isinstance(self.primal, Tracer) and self.primal.level >= 1 and self.primal.moves
        )

    def note(self, question: Primitive, operand: Value, answer: Any) -> None:
        if self.slot != CONSTANT:
            self.tape.decisions.append((question, (self.slot, CONSTANT), (self.primal, operand), answer, None, None))

    def twin(self) -> "Recorded":
        return Recorded(self.primal, self.slot, self.tape)

    def process(self, primitive: Primitive, xs: Sequence[Value], params: Params) -> Value:
        tape = self.tape
        primals, slots = [], []
        for x in xs:
            mine = isinstance(x, Recorded) and x.tape is tape
            primals.append(x.primal if mine else frozen_operand(x))
            slots.append(x.slot if mine else CONSTANT)
        y = primitive(*primals, **params)
        if max(slots) == CONSTANT and not primitive.constant:
            return Recorded(y, CONSTANT, tape)  # a constant is not recorded, but stays traced because of its memory
        position = None if tape.swept_once else HERE.position or _position()
        if primitive.constant:
            tape.decisions.append((primitive, tuple(slots), primals, y, params, position))
            return y
        held = without(primitive, slots, primals, y) if tape.swept_once else (primals, y)
        tape.lines.append((primitive, tuple(slots), *held, params, position))
        slot = len(tape.lines) - 1
        if slot >= MOST_LINES:
            raise too_long()
        return Recorded(y, slot, tape)


def frozen_operand(x: Value) -> Value:
    """Return an operand that cannot change: a copy of a plain array, which user code may write to after the operation."""
    return x.copy() if type(x) is np.ndarray and x.flags.writeable else x


def transpose(program: Callable[[Value], Value], x: Value, ybar: Value) -> Value:
    """Return the transpose of a linear program, applied to `ybar`: record the program at zero, then sweep back.

    Shapes  `x` has the shape of the program's argument and of the result; `ybar` has the shape of the program's value.
    """
    token = CAREFUL.set(False)  # inside a rule, zero times infinity is undefined
    try:
        with levels.sweep() as level:
            tape = Tape(level)
            xdot = tape.variable(zeros_like(x))
            y = program(xdot)
            if not (isinstance(y, Recorded) and y.tape is tape) or y.slot == CONSTANT:
                return zeros_like(x)
            bar = tape.sweep(y.slot, ybar, keep=False)[xdot.slot]
            return zeros_like(x) if bar is None else bar
    finally:
        CAREFUL.reset(token)


__all__ = [
    "CONSTANT",
    "METER",
    "MOST_LINES",
    "SPENT",
    "Ended",
    "Line",
    "Recorded",
    "Tape",
    "frozen_operand",
    "held_bytes",
    "sweep_back",
    "too_long",
    "transpose",
]
