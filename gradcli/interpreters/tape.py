"""The tape: a flat list of what is computed, in order, and the reverse sweep over it. No recursion anywhere.

A line is a plain tuple `(primitive, slots, xs, y, params, position)`, slot k being line k and -1 a constant: tuples
and a list are the cheapest record Python has, and the fast path of `Recorded`'s operators does nothing else. Lines are
read by unpacking, and never by a number.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.core import levels
from gradcli.core.primitive import Params, Primitive, Value, kept
from gradcli.core.provenance import HERE
from gradcli.core.provenance import position as _position
from gradcli.core.shapes import is_plain, shape, unbroadcast, zeros_like
from gradcli.core.tracer import Tracer, defined
from gradcli.errors import TraceEnded
from gradcli.interpreters.liveness import without
from gradcli.primitives.kinds import CAREFUL, LARGE, Factor, Partial, times

Line = tuple[Primitive | None, tuple[int, ...], Sequence[Value], Value, Params | None, Any]
CONSTANT = -1
MOST_LINES = 2_000_000  # of a trace: about a gigabyte; a longer function is called for its values, not recorded
_NONE: Params = {}
SPENT: Line = (None, (), (), None, None, None)  # a line that passes nothing on


def too_long() -> TraceEnded:
    """Return the error that ends a trace of more than MOST_LINES."""
    says = f"the trace has more than {MOST_LINES:,} lines"
    return TraceEnded(says, do="use fewer and larger operations on arrays, or a smaller problem")


class Ended(list[Line]):
    """What was recorded in a sweep that is over: the user's code may have kept a value of it, and use it again."""

    def append(self, line: Line) -> None:
        raise kept()


def sweep_back(
    lines: list[Line], bars: list[Value], top: int, bottom: int = 0, keep: bool = True, once: bool = False
) -> None:
    """Add to `bars` what the lines from `top` down to `bottom` pass on of their cotangents: the one reverse sweep.

    `bars[k]` is the cotangent of line k, None where nothing flows. See `Tape.sweep` for `keep` and `once`.
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
            if s >= 0:  # for scalars and plain arrays, what `pull` does without the calls
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
    """The lines of one run at one nesting level, and the constant steps (floor, comparisons) it took.

    Lines of inputs have no primitive. `decisions` holds `(primitive, slots, xs, y, position)`. A tape that is
    `swept_once` is used for nothing else: large values that no rule will read are forgotten while it is recorded.
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
        """The value of one line."""
        _, _, _, y, _, _ = self.lines[slot]
        return y

    def operands(self, slot: int) -> tuple[int, ...]:
        """The slots that a line reads, CONSTANT among them."""
        _, slots, _, _, _, _ = self.lines[slot]
        return slots

    def primitive(self, slot: int) -> Primitive | None:
        """The operation of a line; None of an input."""
        primitive, _, _, _, _, _ = self.lines[slot]
        return primitive

    def position(self, slot: int) -> Any:
        """Where a line was recorded, as `provenance.place` reads it."""
        _, _, _, _, _, position = self.lines[slot]
        return position

    def variable(self, x: Value) -> "Recorded":
        """Return `x` as an input of the recorded program."""
        self.lines.append((None, (), (), x, None, None))
        return Recorded(x, len(self.lines) - 1, self)

    def sweep(self, slot: int, ybar: Value, keep: bool = True, once: bool = False) -> list[Value]:
        """Return the cotangent of every slot up to `slot`, given that of `slot`; None where nothing flows.

        Unless they are kept, cotangents of anything but inputs are dropped as soon as they are used; a tape that is swept
        `once` drops its lines too, so that the memory of the way forward serves the way back.
        """
        bars: list[Value] = [None] * len(self.lines)
        bars[slot] = ybar
        sweep_back(self.lines, bars, slot, 0, keep, once)
        return bars

    def swept(self, slot: int, ybar: Value, inputs: Sequence["Recorded"], keep: bool = True) -> list[Value]:
        """Return what `sweep` does; where that makes nans at an input, once more with zeros kept zero.

        A slope that is infinite where nothing flows, as that of the log in `where(x > 0, log(x), 0)` at 0, is no slope of
        the function.
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
        """Return the cotangents of `inputs`; zeros where `y` does not depend on one."""
        if not (isinstance(y, Recorded) and y.tape is self) or y.slot == CONSTANT:
            return [zeros_like(x.primal) for x in inputs]
        if once:
            bars = self.sweep(y.slot, defined(y.primal, ybar), keep=False, once=True)
        else:
            bars = self.swept(y.slot, ybar, inputs, keep=False)
        return [zeros_like(x.primal) if bars[x.slot] is None else bars[x.slot] for x in inputs]


class Meter:
    """How much memory the values on tapes take: of a tape, and at most of those recorded and dropped on the way back."""

    def __init__(self) -> None:
        self.most_nested = 0
        self.kept = False  # a checkpointed function was recorded line by line after all

    def nested(self, tape: Tape) -> None:
        """Count a tape that is recorded while another one is swept."""
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
            primals.append(x.primal if mine else _safe(x))
            slots.append(x.slot if mine else CONSTANT)
        y = primitive(*primals, **params)
        if max(slots) == CONSTANT and not primitive.constant:
            return Recorded(y, CONSTANT, tape)  # what stands still is followed, for its memory, and not recorded
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


def _safe(x: Value) -> Value:
    """Return an operand that stays as it is: the user's own array may be written to after the operation."""
    return x.copy() if type(x) is np.ndarray and x.flags.writeable else x


def transpose(program: Callable[[Value], Value], x: Value, ybar: Value) -> Value:
    """Return the transpose of a linear program, applied to `ybar`: record it at zero, then sweep.

    Shapes  `x` shows the shape of the program's argument, and of the result.
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
    "held_bytes",
    "sweep_back",
    "too_long",
    "transpose",
]
