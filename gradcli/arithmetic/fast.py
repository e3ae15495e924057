"""The fast path: operations on plain values under one sweep record their line directly.

In general, `np.tanh(x)` goes through numpy's dispatch, the handlers, the primitive's choice of the innermost tracer, and the
tape; `x * y` goes through all but the first. Nearly always, the operands are floats and float64 arrays under one sweep. Then
the primitive's function is called and one line is recorded. All other cases take the general path, which defines the result.
"""

import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.arithmetic.liveness import without
from gradcli.arithmetic.tape import CONSTANT, MOST_LINES, Recorded, Tape, too_long
from gradcli.rules.linalg import MATMUL
from gradcli.rules.shaping import RESHAPE
from gradcli.tracing import shapes
from gradcli.tracing.primitive import HANDLERS, Params, Primitive, Value, named
from gradcli.tracing.provenance import HERE, is_users, position
from gradcli.tracing.tracer import Tracer

_caller = sys._getframe
_new: Any = object.__new__
_NUMBERS = {float, int, np.float64}
_OPERATORS = {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide"}
_MOST = 10**6  # the largest integer exponent, as in the handler of np.power
_SUM = np.sum  # while a function is traced, np.sum is replaced
_FLOAT64 = np.dtype(np.float64)
_KNOWN: dict[Any, Primitive | None] = {}  # the elementwise primitive of one argument for a ufunc, or None
_BINARY = {ufunc: named(ufunc.__name__) for ufunc in (np.add, np.subtract, np.multiply, np.divide)}


def _recorded(primal: Value, slot: int, tape: Tape) -> Recorded:
    """Return Recorded(primal, slot, tape) without the cost of calling its constructor.

    Raises  TraceEnded if the tape is too long.
    """
    if slot >= MOST_LINES:
        raise too_long()
    made: Recorded = _new(Recorded)
    made.primal, made.slot, made.tape, made.storage = primal, slot, tape, None
    return made


def _line(
    tape: Tape, primitive: Primitive, slots: tuple[int, ...], xs: Any, y: Value, params: Params | None
) -> Recorded:
    """Record a line for a call made two frames above; a tape that is swept once stores no positions."""
    lines = tape.lines
    if tape.swept_once:
        lines.append((primitive, slots, *without(primitive, slots, xs, y), params, None))
        return _recorded(y, len(lines) - 1, tape)
    where = HERE.position
    if where is None:
        frame = _caller(2)
        where = (frame.f_code, frame.f_lasti) if is_users(frame.f_code.co_filename) else position()
    lines.append((primitive, slots, xs, y, params, where))
    return _recorded(y, len(lines) - 1, tape)


def _holds_floats(x: Recorded) -> bool:
    primal = x.primal
    return type(primal) is np.float64 or (type(primal) is np.ndarray and primal.dtype is _FLOAT64)


def _is_plain(x: Recorded) -> bool:
    """Return whether a value depends on an input and is a float64 or a float64 array."""
    return x.slot >= 0 and _holds_floats(x)


def _operands(tape: Tape, a: Value, b: Value) -> tuple[tuple[int, int], Any] | None:
    """Return the slots and the values of two plain operands, or None."""
    slots, xs = [], []
    for x in (a, b):
        kind = type(x)
        if kind is Recorded and x.tape is tape and _holds_floats(x):
            slots.append(x.slot)
            xs.append(x.primal)
        elif kind in _NUMBERS or (kind is np.ndarray and x.dtype is _FLOAT64):
            slots.append(CONSTANT)
            xs.append(x.copy() if kind is np.ndarray and x.flags.writeable else x)  # the user may write to it later
        else:
            return None
    return None if slots[0] == CONSTANT == slots[1] else ((slots[0], slots[1]), xs)


def _operator(
    primitive: Primitive, operate: Callable[[Value, Value], Value], slow: Any, reflected_slow: Any
) -> tuple[Any, Any]:
    """Return an operator and its reflection, which record a line directly if the operands are plain."""

    def forward(self: Recorded, other: Value) -> Value:
        tape, slot = self.tape, self.slot
        kind = type(other)
        if kind is Recorded and other.tape is tape and slot >= 0:
            xs, slots = (self.primal, other.primal), (slot, other.slot)
        elif kind in _NUMBERS and slot >= 0:
            xs, slots = (self.primal, other), (slot, CONSTANT)
        else:
            plain = _operands(tape, self, other) if kind is np.ndarray or kind is Recorded else None
            if plain is None:
                return slow(self, other)
            return _line(tape, primitive, plain[0], plain[1], operate(*plain[1]), None)
        return written(tape, slots, xs, operate(*xs))

    def reflected(self: Recorded, other: Value) -> Value:
        if type(other) not in _NUMBERS or self.slot < 0:
            return reflected_slow(self, other)
        xs = (other, self.primal)
        return written(self.tape, (CONSTANT, self.slot), xs, operate(*xs))

    def written(tape: Tape, slots: tuple[int, int], xs: tuple[Value, Value], y: Value) -> Recorded:
        lines = tape.lines
        if not tape.swept_once:
            where = HERE.position
            if where is None:  # user code calls nearly all operators; `place` checks it
                frame = _caller(2)
                where = (frame.f_code, frame.f_lasti)
            lines.append((primitive, slots, xs, y, None, where))
        elif type(y) is np.ndarray:
            lines.append((primitive, slots, *without(primitive, slots, xs, y), None, None))
        else:
            lines.append((primitive, slots, xs, y, None, None))
        slot = len(lines) - 1
        if slot >= MOST_LINES:
            raise too_long()
        made: Recorded = _new(Recorded)
        made.primal, made.slot, made.tape, made.storage = y, slot, tape, None
        return made

    return forward, reflected


def _product(tape: Tape, a: Value, b: Value) -> Recorded | None:
    """Record a product of matrices, or of a matrix and a vector as a column; None for anything else."""
    plain = _operands(tape, a, b)
    if plain is None:
        return None
    (left, right), (x, y) = plain
    if type(x) is not np.ndarray or x.ndim != 2 or type(y) is not np.ndarray:
        return None
    if y.ndim == 2:
        return _line(tape, MATMUL, (left, right), (x, y), x @ y, None)
    if y.ndim != 1:
        return None
    z, column = x @ y, y.reshape(-1, 1)
    if right != CONSTANT:
        right = _line(tape, RESHAPE, (right,), (y,), column, {"to": column.shape}).slot
    rows = z.reshape(-1, 1)
    product = _line(tape, MATMUL, (left, right), (x, column), rows, None)
    return _line(tape, RESHAPE, (product.slot,), (rows,), z, {"to": z.shape})


def _matmul(slow: Any) -> Any:
    def matmul(self: Recorded, other: Value) -> Value:
        found = _product(self.tape, self, other)
        return slow(self, other) if found is None else found

    return matmul


def _ufunc(slow: Any) -> Any:
    def __array_ufunc__(self: Recorded, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "__call__" and not kwargs:
            found = None
            if len(inputs) == 1 and inputs[0] is self and _is_plain(self):
                primitive = _KNOWN[ufunc] if ufunc in _KNOWN else _known(ufunc)
                if primitive is not None:
                    found = _line(self.tape, primitive, (self.slot,), (self.primal,), primitive.fun(self.primal), None)
            elif ufunc is np.matmul:
                found = _product(self.tape, *inputs)
            elif ufunc in _BINARY:
                plain = _operands(self.tape, *inputs)
                if plain is not None:
                    found = _line(self.tape, _BINARY[ufunc], *plain, ufunc(*plain[1]), None)
            if found is not None:
                return found
        return slow(self, ufunc, method, *inputs, **kwargs)

    return __array_ufunc__


def _known(ufunc: Any) -> Primitive | None:
    found = HANDLERS.get(ufunc)
    known = found if isinstance(found, Primitive) and found.kind == "elementwise" and len(found.rules) == 1 else None
    _KNOWN[ufunc] = known
    return known


def _power(slow: Any) -> Any:
    integer_power = named("integer_power")

    def power(self: Recorded, other: Value) -> Value:
        if type(other) is int and -_MOST <= other <= _MOST and _is_plain(self):
            params = {"n": other}
            return _line(
                self.tape, integer_power, (self.slot,), (self.primal,), integer_power.fun(self.primal, **params), params
            )
        return slow(self, other)

    return power


def _function(slow: Any) -> Any:
    total = named("sum")

    def __array_function__(self: Recorded, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function is _SUM and args and type(args[0]) is Recorded and _is_plain(args[0]):
            x = args[0]
            if kwargs.keys() <= {"axis"} and len(args) + len(kwargs) <= 2:
                over = shapes.axes(args[1] if len(args) == 2 else kwargs.get("axis"), x.primal.ndim)
                return _line(x.tape, total, (x.slot,), (x.primal,), total.fun(x.primal, axis=over), {"axis": over})
        return slow(self, function, types, args, kwargs)

    return __array_function__


def _install() -> None:
    fast: dict[str, Any] = {
        "__pow__": _power, "__matmul__": _matmul, "__array_ufunc__": _ufunc, "__array_function__": _function,
    }  # fmt: skip
    for dunder, name in _OPERATORS.items():
        slow, reflected_slow = getattr(Tracer, f"__{dunder}__"), getattr(Tracer, f"__r{dunder}__")
        forward, reflected = _operator(named(name), getattr(operator, dunder), slow, reflected_slow)
        setattr(Recorded, f"__{dunder}__", forward)
        setattr(Recorded, f"__r{dunder}__", reflected)
    for dunder, made in fast.items():
        setattr(Recorded, dunder, made(getattr(Tracer, dunder)))


_install()
