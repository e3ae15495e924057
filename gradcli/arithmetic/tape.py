"""The tape: a flat list of the operations of a run, in order, and the reverse sweep over it, without recursion.

A line is a plain tuple `(primitive, slots, xs, y, params, position)`. Slot k is line k, and slot -1 is a constant. Tuples in
a list are the cheapest record in Python, and the fast path of `Recorded`'s operators appends nothing else. Lines are read by
unpacking, never by the number of a field.
"""

import dis
import operator
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gradcli.errors import TraceEnded
from gradcli.rules.elementwise import INTEGER_POWER
from gradcli.rules.kinds import CAREFUL, LARGE, ConstantSlope, Partial, multiply_by_slope
from gradcli.rules.linalg import MATMUL
from gradcli.rules.reductions import SUM
from gradcli.rules.shaping import GETITEM, RESHAPE, add_at
from gradcli.tracing import shapes
from gradcli.tracing.primitive import (
    HANDLERS,
    Params,
    Primitive,
    Value,
    kept_value_error,
    open_sweep,
    primitive_by_name,
)
from gradcli.tracing.provenance import HERE, current_position, known_as_users
from gradcli.tracing.shapes import Forgotten, is_plain, shape, unbroadcast, zeros_like
from gradcli.tracing.tracer import Tracer, nan_where_undefined

_caller = sys._getframe
_new: Any = object.__new__
_general: Any = Tracer  # its operators, which are set by name, take the general path
_NUMBERS = {float, int, np.float64}
_MOST = 10**6  # the largest integer exponent, as in the handler of np.power
_SUM = np.sum  # while a function is traced, np.sum is replaced
_FLOAT64 = np.dtype(np.float64)
_KNOWN: dict[Any, Primitive | None] = {}  # the elementwise primitive of one argument for a ufunc, or None
_BINARY = {ufunc: primitive_by_name(ufunc.__name__) for ufunc in (np.add, np.subtract, np.multiply, np.divide)}
Line = tuple[Primitive | None, tuple[int, ...], Sequence[Value], Value, Params | None, Any]

CONSTANT = -1
MOST_LINES = 2_000_000  # of a trace, about a gigabyte; a longer function is only called for its values
_NONE: Params = {}
SPENT: Line = (None, (), (), None, None, None)  # a line that contributes no cotangents


def too_long_error() -> TraceEnded:
    """Return the error that ends a trace of more than MOST_LINES lines."""
    says = f"the trace has more than {MOST_LINES:,} lines"
    return TraceEnded(says, do="use fewer and larger operations on arrays, or a smaller problem")


class EndedSweep(list[Line]):
    """The lines of a sweep that has ended; user code that uses a value it kept from the sweep gets TraceEnded."""

    def append(self, line: Line) -> None:
        raise kept_value_error()


def sweep_back(
    lines: list[Line], bars: list[Value], top: int, bottom: int = 0, keep: bool = True, once: bool = False,
    own: set[int] | None = None,
) -> None:  # fmt: skip
    """Sweep back over the lines from `top` down to `bottom`, and add the cotangents of their operands to `bars`.

    `bars[k]` is the cotangent of line k; None is zero. See `Tape.sweep` for `keep` and `once`. `own` are the lines whose
    cotangent was made here: what an index took from their value is added to it in place, or a loop over the entries of an
    array would take as many arrays as it has entries.
    """
    careful, own = CAREFUL.get(), set[int]() if own is None else own
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
                elif scalar and type(rule) is ConstantSlope:
                    xbar = ybar if rule.factor == 1.0 else rule.factor * ybar
                elif plain and type(rule) is ConstantSlope:
                    xbar = ybar if rule.factor == 1.0 else rule.factor * ybar
                    xbar = xbar if xbar.shape == shape(xs[i]) else unbroadcast(xbar, xs[i])
                elif plain and type(rule) is Partial and ybar.size < LARGE:
                    xbar = multiply_by_slope(ybar, (rule.kernel or rule.partial)(y, *xs, **(params or _NONE)), y, xs)
                    xbar = xbar if xbar.shape == shape(xs[i]) else unbroadcast(xbar, xs[i])
                else:
                    if primitive is GETITEM:
                        if s in own and add_at(bars[s], params["index"], ybar):  # type: ignore[index]  # it always has one
                            continue
                        own.add(s)
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
        ybar = nan_where_undefined(self.value(slot), ybar)
        bars = self.sweep(slot, ybar, keep)
        if not any(np.any(np.isnan(bars[x.slot])) for x in inputs if is_plain(bars[x.slot])):
            return bars
        token = CAREFUL.set(True)
        try:
            return self.sweep(slot, ybar, keep)
        finally:
            CAREFUL.reset(token)

    def iterate_cotangents(self, slot: int, ybar: Value, forget: bool = False) -> Iterator[tuple[int, Value]]:
        """Yield the number of each line that has a cotangent, and this, from `slot` back; none is held any longer than needed.

        With `forget`, the values of a line are forgotten after its cotangent has been yielded, as `forget_values` does.
        """
        bars: list[Value] = [None] * (slot + 1)
        bars[slot] = nan_where_undefined(self.value(slot), ybar)
        own = set[int]()
        for k in range(slot, -1, -1):
            bar = bars[k]
            if bar is not None:
                yield k, bar
                sweep_back(self.lines, bars, k, k, keep=False, own=own)
                bars[k] = bar = None
            if forget:
                self.lines[k] = forget_values(self.lines[k])

    def pull(self, y: Value, ybar: Value, inputs: Sequence["Recorded"], once: bool = False) -> list[Value]:
        """Return the cotangents of `inputs`, given the cotangent `ybar` of `y`; zeros for inputs that `y` does not use."""
        if not (isinstance(y, Recorded) and y.tape is self) or y.slot == CONSTANT:
            return [zeros_like(x.primal) for x in inputs]
        if once:
            bars = self.sweep(y.slot, nan_where_undefined(y.primal, ybar), keep=False, once=True)
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


# Liveness: which values a rule reads, so that the tape need not keep the others until the reverse sweep.
#
# The rules of elementwise primitives are small functions of `(y, *xs)`; their byte code shows which parameters they load.
# Rules of linear primitives never read the result.

_LARGE = 512  # entries; a smaller value is always kept
_VARIADIC = 0x04 | 0x08  # flags of code with *args or **kwargs


def drop_unread_values(
    primitive: Primitive, slots: Sequence[int], xs: Sequence[Value], y: Value, kernels: bool = True
) -> tuple[Sequence[Value], Value]:
    """Return a line's operands and result, with large arrays that its rules do not read replaced by their shapes.

    Without `kernels`, its rules are the textbook's formulas.
    """
    if type(y) is not np.ndarray or y.size < _LARGE:
        return xs, y
    if len(xs) == 1:
        read = values_read_by_rules(primitive, (True,), kernels)
        xs = (xs[0] if 1 in read else _forget_value(xs[0]),)
    elif len(xs) == 2:
        read = values_read_by_rules(primitive, (slots[0] >= 0, slots[1] >= 0), kernels)
        a, b = xs
        xs = (a if 1 in read else _forget_value(a), b if 2 in read else _forget_value(b))
    else:
        return xs, y
    return xs, (y if 0 in read else _shape_alone(y.shape))


def forget_values(line: Line) -> Line:
    """Return a line to be run again with other operands: its arrays that depend on the inputs are replaced by their shapes.

    Operations on matrices keep theirs, whose conditions say how they round, and so do those that choose a branch.
    """
    primitive, slots, xs, y, params, position = line
    if primitive is None or primitive.branch or primitive.kind not in ("elementwise", "linear", "bilinear"):
        return line
    xs = tuple(x if slot == CONSTANT else _forget_value(x) for slot, x in zip(slots, xs, strict=True))
    return primitive, slots, xs, _forget_value(y), params, position


def _forget_value(x: Value) -> Value:
    return _shape_alone(x.shape) if type(x) is np.ndarray else x


_shape_alone = lru_cache(maxsize=256)(Forgotten)


@lru_cache(maxsize=1024)
def values_read_by_rules(primitive: Primitive, moving: tuple[bool, ...], kernels: bool = True) -> frozenset[int]:
    """Return the positions in `(y, *xs)` that are read by the rules of the operands marked in `moving`.

    Without `kernels`, those that the textbook's formulas read: that of tanh reads its value alone.
    """
    everything = frozenset(range(1 + len(moving)))
    if primitive.kind in ("linear", "bilinear"):
        return everything - {0}
    if primitive.kind != "elementwise":
        return everything
    read: set[int] = set()
    for i in (i for i, moves in enumerate(moving) if moves):
        rule = primitive.rule(i)
        loaded = _loaded_parameters((kernels and rule.kernel) or rule.partial) if isinstance(rule, Partial) else set()
        if loaded is None or not isinstance(rule, Partial | ConstantSlope):
            return everything
        read |= loaded
    return frozenset(read)


def _loaded_parameters(function: Callable[..., Any]) -> set[int] | None:
    """Return the positions of the parameters that a function's code loads; None if that cannot be determined."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_flags & _VARIADIC or code.co_cellvars:
        return None
    names = code.co_varnames[: code.co_argcount]
    loads = [step.argval for step in dis.get_instructions(code) if "LOAD_FAST" in step.opname]
    used = {name for load in loads for name in (load if isinstance(load, tuple) else (load,))}
    return {k for k, name in enumerate(names) if name in used}


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
            raise kept_value_error()
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
            primals.append(x.primal if mine else freeze_operand(x))
            slots.append(x.slot if mine else CONSTANT)
        y = primitive(*primals, **params)
        if max(slots) == CONSTANT and not primitive.constant:
            return Recorded(y, CONSTANT, tape)  # a constant is not recorded, but stays traced because of its memory
        position = None if tape.swept_once else HERE.position or current_position()
        if primitive.constant:
            tape.decisions.append((primitive, tuple(slots), primals, y, params, position))
            return y
        held = drop_unread_values(primitive, slots, primals, y) if tape.swept_once else (primals, y)
        tape.lines.append((primitive, tuple(slots), *held, params, position))
        slot = len(tape.lines) - 1
        if slot >= MOST_LINES:
            raise too_long_error()
        return Recorded(y, slot, tape)

    # The fast path; + - * / are set below.

    def __pow__(self, other: Value) -> Value:
        if type(other) is int and -_MOST <= other <= _MOST and _is_moving_float64(self):
            y = INTEGER_POWER.fun(self.primal, n=other)
            return _record_line(self.tape, INTEGER_POWER, (self.slot,), (self.primal,), y, {"n": other})
        return _general.__pow__(self, other)

    def __matmul__(self, other: Value) -> Value:
        found = _record_product(self.tape, self, other)
        return _general.__matmul__(self, other) if found is None else found

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "__call__" and not kwargs:
            found = None
            if len(inputs) == 1 and inputs[0] is self and _is_moving_float64(self):
                primitive = _KNOWN[ufunc] if ufunc in _KNOWN else _unary_primitive(ufunc)
                if primitive is not None:
                    x = self.primal
                    found = _record_line(self.tape, primitive, (self.slot,), (x,), primitive.fun(x), None)
            elif ufunc is np.matmul:
                found = _record_product(self.tape, *inputs)
            elif ufunc in _BINARY:
                plain = _plain_operands(self.tape, *inputs)
                if plain is not None:
                    found = _record_line(self.tape, _BINARY[ufunc], *plain, ufunc(*plain[1]), None)
            if found is not None:
                return found
        return _general.__array_ufunc__(self, ufunc, method, *inputs, **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is _SUM and args and type(args[0]) is Recorded and _is_moving_float64(args[0]):
            x = args[0]
            if kwargs.keys() <= {"axis"} and len(args) + len(kwargs) <= 2:
                over = shapes.normalise_axes(args[1] if len(args) == 2 else kwargs.get("axis"), x.primal.ndim)
                y = SUM.fun(x.primal, axis=over)
                return _record_line(x.tape, SUM, (x.slot,), (x.primal,), y, {"axis": over})
        return _general.__array_function__(self, function, types, args, kwargs)


def _unary_primitive(ufunc: Any) -> Primitive | None:
    found = HANDLERS.get(ufunc)
    known = found if isinstance(found, Primitive) and found.kind == "elementwise" and len(found.rules) == 1 else None
    _KNOWN[ufunc] = known
    return known


def freeze_operand(x: Value) -> Value:
    """Return an operand that cannot change: a copy of a plain array, which user code may write to after the operation."""
    return x.copy() if type(x) is np.ndarray and x.flags.writeable else x


def transpose(program: Callable[[Value], Value], x: Value, ybar: Value) -> Value:
    """Return the transpose of a linear program, applied to `ybar`: record the program at zero, then sweep back.

    Shapes  `x` has the shape of the program's argument and of the result; `ybar` has the shape of the program's value.
    """
    token = CAREFUL.set(False)  # inside a rule, zero times infinity is undefined
    try:
        with open_sweep() as level:
            tape = Tape(level)
            xdot = tape.variable(zeros_like(x))
            y = program(xdot)
            if not (isinstance(y, Recorded) and y.tape is tape) or y.slot == CONSTANT:
                return zeros_like(x)
            bar = tape.sweep(y.slot, ybar, keep=False)[xdot.slot]
            return zeros_like(x) if bar is None else bar
    finally:
        CAREFUL.reset(token)


# The fast path: operations on plain values under one sweep record their line directly.
#
# In general, `np.tanh(x)` goes through numpy's dispatch, the handlers, the primitive's choice of the innermost tracer, and the
# tape; `x * y` goes through all but the first. Nearly always, the operands are floats and float64 arrays under one sweep. Then
# the primitive's function is called and one line is recorded. All other cases take the general path, which defines the result.


def _record_line(
    tape: Tape, primitive: Primitive, slots: tuple[int, ...], xs: Any, y: Value, params: Params | None
) -> Recorded:
    """Record a line for a call made two frames above; a tape that is swept once stores no positions.

    Raises  TraceEnded if the tape is too long.
    """
    lines = tape.lines
    if not tape.swept_once:
        where = HERE.position
        if where is None:  # user code calls nearly all operators
            frame = _caller(2)
            code = frame.f_code
            where = (code, frame.f_lasti) if known_as_users(code.co_filename) else current_position()
        lines.append((primitive, slots, xs, y, params, where))
    elif type(y) is np.ndarray:
        lines.append((primitive, slots, *drop_unread_values(primitive, slots, xs, y), params, None))
    else:
        lines.append((primitive, slots, xs, y, params, None))
    slot = len(lines) - 1
    if slot >= MOST_LINES:
        raise too_long_error()
    made: Recorded = _new(Recorded)  # without the cost of calling its constructor
    made.primal, made.slot, made.tape, made.storage = y, slot, tape, None
    return made


def _has_float64(x: Recorded) -> bool:
    primal = x.primal
    return type(primal) is np.float64 or (type(primal) is np.ndarray and primal.dtype is _FLOAT64)


def _is_moving_float64(x: Recorded) -> bool:
    """Return whether a value depends on an input and is a float64 or a float64 array."""
    return x.slot >= 0 and _has_float64(x)


def _plain_operands(tape: Tape, a: Value, b: Value) -> tuple[tuple[int, int], Any] | None:
    """Return the slots and the values of two plain operands, or None."""
    slots, xs = [], []
    for x in (a, b):
        kind = type(x)
        if kind is Recorded and x.tape is tape and _has_float64(x):
            slots.append(x.slot)
            xs.append(x.primal)
        elif kind in _NUMBERS or (kind is np.ndarray and x.dtype is _FLOAT64):
            slots.append(CONSTANT)
            xs.append(x.copy() if kind is np.ndarray and x.flags.writeable else x)  # the user may write to it later
        else:
            return None
    return None if slots[0] == CONSTANT == slots[1] else ((slots[0], slots[1]), xs)


def _recording_operators(
    primitive: Primitive, operate: Callable[[Value, Value], Value], slow: Any, reflected_slow: Any
) -> tuple[Any, Any]:
    """Return an operator and its reflection, which record a line directly if the operands are plain."""

    def forward(self: Recorded, other: Value) -> Value:
        tape, slot, x = self.tape, self.slot, self.primal
        kind = type(other)
        if kind is Recorded and other.tape is tape and slot >= 0:
            z = other.primal
            return _record_line(tape, primitive, (slot, other.slot), (x, z), operate(x, z), None)
        if kind in _NUMBERS and slot >= 0:
            return _record_line(tape, primitive, (slot, CONSTANT), (x, other), operate(x, other), None)
        plain = _plain_operands(tape, self, other) if kind is np.ndarray or kind is Recorded else None
        if plain is None:
            return slow(self, other)
        return _record_line(tape, primitive, plain[0], plain[1], operate(*plain[1]), None)

    def reflected(self: Recorded, other: Value) -> Value:
        if type(other) not in _NUMBERS or self.slot < 0:
            return reflected_slow(self, other)
        xs = (other, self.primal)
        return _record_line(self.tape, primitive, (CONSTANT, self.slot), xs, operate(*xs), None)

    return forward, reflected


def _record_product(tape: Tape, a: Value, b: Value) -> Recorded | None:
    """Record a product of matrices, or of a matrix and a vector as a column; None for anything else."""
    plain = _plain_operands(tape, a, b)
    if plain is None:
        return None
    (left, right), (x, y) = plain
    if type(x) is not np.ndarray or x.ndim != 2 or type(y) is not np.ndarray:
        return None
    if y.ndim == 2:
        return _record_line(tape, MATMUL, (left, right), (x, y), x @ y, None)
    if y.ndim != 1:
        return None
    z, column = x @ y, y.reshape(-1, 1)
    if right != CONSTANT:
        right = _record_line(tape, RESHAPE, (right,), (y,), column, {"to": column.shape}).slot
    rows = z.reshape(-1, 1)
    product = _record_line(tape, MATMUL, (left, right), (x, column), rows, None)
    return _record_line(tape, RESHAPE, (product.slot,), (rows,), z, {"to": z.shape})


for _dunder, _name in (("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("truediv", "divide")):
    _forward, _reflected = _recording_operators(
        primitive_by_name(_name),
        getattr(operator, _dunder),
        getattr(Tracer, f"__{_dunder}__"),
        getattr(Tracer, f"__r{_dunder}__"),
    )
    setattr(Recorded, f"__{_dunder}__", _forward)
    setattr(Recorded, f"__r{_dunder}__", _reflected)
