"""The tape: a flat list of what was computed, in order, and the reverse sweep over it. No recursion anywhere.

A line is a plain tuple `(primitive, slots, xs, y, params, position)`, slot k being line k and -1 a constant: tuples
and a list are the cheapest record Python has, and the fast path of `Recorded`'s operators does nothing else.
"""

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.core import levels
from gradcli.core.primitive import KEPT, Params, Primitive, Value, named, settled
from gradcli.core.provenance import HERE, position
from gradcli.core.shapes import is_plain, shape, zeros_like
from gradcli.core.tracer import Tracer
from gradcli.errors import BadShape, TraceEnded
from gradcli.primitives.kinds import CAREFUL, Factor, Partial

Line = tuple[Primitive | None, tuple[int, ...], Sequence[Value], Value, Params | None, Any]
CONSTANT = -1
_SPENT: Line = (None, (), (), None, None, None)


class Tape:
    """The lines of one run at one nesting level, and the constant steps (floor, comparisons) it took.

    Lines of inputs have no primitive. `decisions` holds `(primitive, slots, xs, y, position)`.
    """

    __slots__ = ("decisions", "level", "lines")

    def __init__(self, level: float) -> None:
        self.level = level
        self.lines: list[Line] = []
        self.decisions: list[Line] = []

    def variable(self, x: Value) -> "Recorded":
        """Return `x` as an input of the recorded program."""
        self.lines.append((None, (), (), x, None, None))
        return Recorded(x, len(self.lines) - 1, self)

    def sweep(self, slot: int, ybar: Value, keep: bool = True, once: bool = False) -> list[Value]:
        """Return the cotangent of every slot up to `slot`, given that of `slot`; None where nothing flows.

        Unless they are kept, cotangents of anything but inputs are dropped as soon as they are used; a tape that is swept
        `once` drops its lines too, so that the memory of the way forward serves the way back.
        """
        lines = self.lines
        careful = CAREFUL.get()
        bars: list[Value] = [None] * len(lines)
        bars[slot] = ybar
        for k in range(slot, -1, -1):
            ybar = bars[k]
            primitive, slots, xs, y, params, _ = lines[k]
            if ybar is None or primitive is None:
                continue
            if not keep:
                bars[k] = None
            if once:
                lines[k] = _SPENT
            rules = primitive.rules
            scalar = type(y) is np.float64
            for i, s in enumerate(slots):
                if s >= 0:
                    rule = rules[i] if i < len(rules) else rules[-1]
                    if (
                        scalar and isinstance(rule, Partial) and not params and not careful
                    ):  # what `pull` does for scalars, without the calls
                        xbar = ybar * (rule.kernel or rule.partial)(y, *xs)
                    elif scalar and isinstance(rule, Factor):
                        xbar = ybar if rule.factor == 1.0 else rule.factor * ybar
                    else:
                        xbar = rule.pull(ybar, i, y, xs, params or _NONE, transpose)
                    seen = bars[s]
                    bars[s] = xbar if seen is None else seen + xbar
        return bars

    def swept(self, slot: int, ybar: Value, inputs: Sequence["Recorded"], keep: bool = True) -> list[Value]:
        """Return what `sweep` does; where that makes nans at an input, once more with zeros kept zero.

        A slope that is infinite where nothing flows, as that of the log in `where(x > 0, log(x), 0)` at 0, is no slope of
        the function.
        """
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
        bars = self.sweep(y.slot, ybar, keep=False, once=True) if once else self.swept(y.slot, ybar, inputs, keep=False)
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
    seen = {id(line[3]): np.asarray(line[3]).nbytes for line in tape.lines if not isinstance(line[3], Tracer)}
    return sum(seen.values())


_NONE: Params = {}
_caller = sys._getframe
_NUMBERS = {float, int, np.float64}


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
            raise TraceEnded(KEPT, do="do not keep values between calls: they belong to one evaluation")
        return self.primal

    def hold(self, x: Value) -> "Recorded":
        return Recorded(self.primal.hold(x) if isinstance(self.primal, Tracer) else x, CONSTANT, self.tape)

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
        line: Line = (primitive, tuple(slots), primals, y, params, HERE.position or position())
        if primitive.constant:
            tape.decisions.append(line)
            return y
        tape.lines.append(line)
        return Recorded(y, len(tape.lines) - 1, tape)


def _safe(x: Value) -> Value:
    """Return an operand that stays as it is: the user's own array may be written to after the operation."""
    return x.copy() if type(x) is np.ndarray and x.flags.writeable else x


def _fast(
    primitive: Primitive, operate: Callable[[Value, Value], Value], slow: Any, reflected_slow: Any
) -> tuple[Any, Any]:
    """Return an operator and its reflection that record a line at once when the operands need no thought."""

    def forward(self: Recorded, other: Value) -> Value:
        tape = self.tape
        kind = type(other)
        if self.slot < 0:
            return slow(self, other)
        if kind is Recorded and other.tape is tape:
            xs, slots = (self.primal, other.primal), (self.slot, other.slot)
        elif kind in _NUMBERS:
            xs, slots = (self.primal, other), (self.slot, CONSTANT)
        else:
            return slow(self, other)
        y = operate(*xs)
        position = HERE.position
        if position is None:  # who uses an operator is nearly always the user: `place` looks again
            frame = _caller(1)
            position = (frame.f_code, frame.f_lasti)
        lines = tape.lines
        lines.append((primitive, slots, xs, y, None, position))
        return Recorded(y, len(lines) - 1, tape)

    def reflected(self: Recorded, other: Value) -> Value:
        if type(other) not in _NUMBERS or self.slot < 0:
            return reflected_slow(self, other)
        xs = (other, self.primal)
        y = operate(*xs)
        lines = self.tape.lines
        position = HERE.position
        if position is None:
            frame = _caller(1)
            position = (frame.f_code, frame.f_lasti)
        lines.append((primitive, (CONSTANT, self.slot), xs, y, None, position))
        return Recorded(y, len(lines) - 1, self.tape)

    return forward, reflected


_FAST = {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide"}


def _install() -> None:
    import operator

    for dunder, name in _FAST.items():
        slow, reflected_slow = getattr(Tracer, f"__{dunder}__"), getattr(Tracer, f"__r{dunder}__")
        forward, reflected = _fast(named(name), getattr(operator, dunder), slow, reflected_slow)
        setattr(Recorded, f"__{dunder}__", forward)
        setattr(Recorded, f"__r{dunder}__", reflected)


_install()


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


def record(f: Callable[..., Value], xs: Sequence[Value]) -> tuple[Value, list[Recorded], Tape]:
    """Run `f` on a new tape and return its value (still recorded), its inputs and the tape."""
    with levels.sweep() as level:
        tape = Tape(level)
        inputs = [tape.variable(x) for x in xs]
        return settled(f(*inputs)), inputs, tape


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
    y, inputs, tape = record(f, xs)
    value = y.primal if isinstance(y, Recorded) and y.tape is tape else y
    if shape(value) != ():
        raise BadShape(
            f"the value has shape {shape(value)}, and only a scalar has a gradient", do="use gradcli.jacobian"
        )
    xbars = tape.pull(y, one(value), inputs, once=True)
    if any(np.any(np.isnan(xbar)) for xbar in xbars if is_plain(xbar)):
        y, inputs, tape = record(f, xs)
        xbars = tape.pull(y, one(value), inputs)
    return value, xbars


__all__ = [
    "CONSTANT",
    "METER",
    "Line",
    "Recorded",
    "Tape",
    "held_bytes",
    "record",
    "transpose",
    "value_and_pulled",
    "vjp",
]
