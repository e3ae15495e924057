"""The kinds of derivative rule, and the functions that declare primitives with them.

Each argument of a primitive has one rule, from which both its jvp (`push`) and its vjp (`pull`) are derived.
"""

import math
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any, NoReturn

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import GradcliError, NoRule, TraceEnded
from gradcli.tracing import shapes
from gradcli.tracing.primitive import HANDLERS, REAL, Domain, Params, Primitive, Transposer, Value, declare
from gradcli.tracing.shapes import Forgotten, is_number, is_plain, shape, unbroadcast, zeros_like
from gradcli.tracing.tracer import Tracer, arithmetic_of, store_result

Function = Callable[..., Value]
KERNELS: ContextVar[bool] = ContextVar("kernels", default=False)  # run kernels in other arithmetics, to round alike
CAREFUL: ContextVar[bool] = ContextVar("careful", default=False)  # a zero cotangent times an infinite slope is zero


@dataclass(frozen=True, slots=True)
class Partial:
    """The rule of an elementwise primitive.

    `partial(y, *xs, **params)` is the textbook formula, and `kernel` a form that is more accurate in float64, if there is
    one. The error of the kernel was measured where all arguments are in `holds`; elsewhere, the kernel calls the partial.
    """

    partial: Function
    kernel: Function | None = None
    holds: Domain = REAL

    def slope(self, y: Value, xs: Sequence[Value], params: Params) -> Value:
        """Return dy/dx_i, computed by the kernel on plain floats."""
        if is_plain(y):
            return (self.kernel or self.partial)(y, *xs, **params)
        system = arithmetic_of(y)  # among balls, 1 / 3.0 is a ball
        operands = xs if system is None else [system.lift(x) if is_number(x) else x for x in xs]
        if self.kernel is not None and KERNELS.get():
            before = TraceEnded.raised
            try:
                return self.kernel(y, *operands, **params)
            except (TypeError, GradcliError):  # its bit operations or branches need float64
                TraceEnded.raised = before
        return self.partial(y, *operands, **params)

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        return self.slope(y, xs, params) * xdot

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        if CAREFUL.get() and is_plain(y):
            slope = self.slope(y, xs, params)
            return unbroadcast(np.where(np.equal(ybar, 0), 0.0, ybar * slope), xs[i])
        if type(ybar) is np.ndarray and ybar.size >= LARGE:
            found = _multiply_by_blocks(self.kernel or self.partial, ybar, y, xs, params)
            if found is not None:
                return unbroadcast(found, xs[i])
        return unbroadcast(ybar * self.slope(y, xs, params), xs[i])


LARGE = 2**17  # entries; from this size on, temporary arrays cost more than the arithmetic
_BLOCK = 2**15  # entries; the operands and the result of a block stay in the cache
_REUSED = 2**12  # entries; from this size on, reusing the memory of a slope saves time


def multiply_by_slope(ybar: Any, slope: Any, y: Value, xs: Sequence[Value]) -> Any:
    """Return ybar times a newly computed slope; a large slope is overwritten if nothing else uses its memory."""
    own = type(slope) is np.ndarray and slope.size >= _REUSED and slope.base is None and slope.shape == ybar.shape
    if own and slope.dtype == np.float64 and slope is not y and all(slope is not x for x in xs):
        return np.multiply(ybar, slope, out=slope)
    return ybar * slope


def _multiply_by_blocks(slope: Function, ybar: Value, y: Any, xs: Sequence[Value], params: Params) -> Value | None:
    """Return ybar times the slope, block by block; None unless the operands are numbers and contiguous arrays of one shape."""
    flat = []
    for x in (ybar, y, *xs):
        if type(x) is np.ndarray and x.shape == ybar.shape and x.dtype == np.float64:
            if not any(x.strides):
                x = x.flat[0]  # a broadcast number, such as the cotangent of a sum
            elif not x.flags.c_contiguous:
                return None
            else:
                x = x.reshape(-1)
        elif not isinstance(x, float | int | np.float64 | Forgotten):
            return None
        flat.append(x)
    found = np.empty(ybar.shape)
    out = found.reshape(-1)
    for start in range(0, ybar.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        ybar_, y_, *xs_ = (x[block] if type(x) is np.ndarray else x for x in flat)
        slope_ = slope(y_, *xs_, **params)
        if start == 0 and any(slope_ is x for x in xs_):  # a product's slope is an operand: blocks save nothing
            return None
        np.multiply(ybar_, slope_, out=out[block])
    return found


@dataclass(frozen=True, slots=True)
class ConstantSlope:
    """The rule of an elementwise primitive with a constant slope: addition, subtraction, negation."""

    factor: float

    def slope(self, y: Value, xs: Sequence[Value], params: Params) -> Value:
        return self.factor

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        return xdot if self.factor == 1 else self.factor * xdot

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        return unbroadcast(ybar if self.factor == 1 else self.factor * ybar, xs[i])


@dataclass(frozen=True, slots=True)
class Linear:
    """The rule of an argument in which the primitive is linear: `transpose(ybar, *xs, **params)` is its cotangent."""

    transpose: Function

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        return primitive(*xs[:i], xdot, *xs[i + 1 :], **params)

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        return self.transpose(ybar, *xs, **params)


@dataclass(frozen=True, slots=True)
class Joint:
    """The rule of arguments in which the primitive is linear jointly (concatenate, where).

    `transpose(i, ybar, *xs, **params)` is the cotangent of argument i. The first `leading` arguments are not among them.
    """

    transpose: Function
    leading: int = 0

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        moved = [x if k < self.leading else xdot if k == i else zeros_like(x) for k, x in enumerate(xs)]
        return primitive(*moved, **params)

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        return self.transpose(i, ybar, *xs, **params)


@dataclass(frozen=True, slots=True)
class Differential:
    """The rule of any other argument: `differential(xdot, y, *xs, **params)` is ydot.

    The differential is linear in xdot, and the vjp is the transpose of that linear program.
    """

    differential: Function

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        return self.differential(xdot, y, *xs, **params)

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        return transpose(lambda xdot: self.differential(xdot, y, *xs, **params), xs[i], ybar)


Row = tuple[Function, Function] | tuple[Function, Function, Domain] | Function | float


def _rule_of_row(row: Row) -> Partial | ConstantSlope:
    if isinstance(row, int | float):
        return ConstantSlope(float(row))
    if not isinstance(row, tuple):
        return Partial(row)
    return Partial(row[0], _kernel_or_partial(row[2], row[1], row[0]), row[2]) if len(row) == 3 else Partial(*row)


def _kernel_or_partial(holds: Domain, kernel: Function, partial: Function) -> Function:
    """Return a slope that is the kernel where all arguments are in `holds`, and the partial elsewhere."""

    def slope(y: Value, *xs: Value, **params: Any) -> Value:
        inside = np.logical_and.reduce(np.broadcast_arrays(*map(holds.contains, xs)))
        if np.all(inside):
            return kernel(y, *xs, **params)
        own = kernel(y, *(np.where(inside, x, np.nan) for x in xs), **params) if np.any(inside) else np.nan
        return np.where(inside, own, partial(y, *xs, **params))[()]

    return slope


def elementwise(fun: Any, *partials: Row, on: Domain | tuple[Domain, ...] = REAL, **facts: Any) -> Primitive:
    """Declare an elementwise primitive by one partial, or one constant slope, for each argument.

    A partial may have a kernel, `(partial, kernel)`, and the kernel a domain, `(partial, kernel, holds)`. `facts` are
    further fields of the `Primitive`.
    """
    domains = on if isinstance(on, tuple) else (on,) * len(partials)
    return _declare_primitive(fun, tuple(map(_rule_of_row, partials)), on=domains, **facts)


def linear(fun: Any, transpose: Function, **facts: Any) -> Primitive:
    """Declare a primitive that is linear in its one argument, by its transpose `(ybar, x, **params)`."""
    return _declare_primitive(fun, (Linear(transpose),), kind="linear", **facts)


def bilinear(fun: Any, left: Function, right: Function, **facts: Any) -> Primitive:
    """Declare a primitive linear in each of two arguments, by the transposes `(ybar, a, b)`."""
    return _declare_primitive(fun, (Linear(left), Linear(right)), kind="bilinear", **facts)


def jointly_linear(fun: Any, transpose: Function, leading: int = 0, **facts: Any) -> Primitive:
    """Declare a primitive jointly linear in all arguments from `leading` on, by its transpose `(i, ybar, *xs, **params)`."""
    return _declare_primitive(fun, tuple(Joint(transpose, leading) for _ in range(leading + 1)), kind="linear", **facts)


def differential(fun: Any, *rules: Function | Linear, **facts: Any) -> Primitive:
    """Declare a primitive by its differential in each argument, `(xdot, y, *xs)`, or by a transpose where it is linear."""
    made = tuple(rule if isinstance(rule, Linear) else Differential(rule) for rule in rules)
    return _declare_primitive(fun, made, kind="differential", **facts)


def constant(fun: Any, *, staircase: bool = False, **facts: Any) -> Primitive:
    """Declare an operation whose derivative is zero wherever it exists; a `staircase` (floor) changes in jumps."""
    return _declare_primitive(fun, (), kind="constant", on=(), analytic=not staircase, staircase=staircase, **facts)


def _declare_primitive(fun: Any, rules: tuple[Any, ...], name: str | None = None, **facts: Any) -> Primitive:
    row = declare(Primitive(name or fun.__name__, fun, rules, **facts))
    if isinstance(fun, np.ufunc):
        HANDLERS[fun] = row
    return row


# The options that numpy's functions share: dtype=, out=, where=, keepdims=, initial=.

_UNSET: Any = getattr(np, "_NoValue", None)
Axes = tuple[int, ...]


def is_given(value: Any) -> bool:
    """Return whether an option is given: it is neither None nor numpy's placeholder for no value."""
    return value is not None and value is not _UNSET


def value_or_default(value: Any, default: Any) -> Any:
    """Return an option, or its default where it is not given."""
    return value if is_given(value) else default


def require_float64(name: str, dtype: Any) -> None:
    """Check that a dtype, if it is given, is float64.

    Raises  NoRule for any other dtype.
    """
    if is_given(dtype) and np.dtype(dtype) != np.float64:
        raise NoRule(f"{name} with dtype={np.dtype(dtype).name} has no derivative rule", do="leave out dtype=")


def refuse_options(name: str, **options: Any) -> None:
    """Raise NoRule for any option that is given."""
    for option, value in options.items():
        if is_given(value):
            raise NoRule(f"{name} with {option}= has no derivative rule", do=f"leave out {option}=")


def make_refusal(says: str, do: str) -> Callable[..., NoReturn]:
    """Return a function that raises NoRule, whatever it is called with."""

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NoRule(says, do=do)

    return refuse


def as_booleans(x: Value) -> Any:
    """Return a value as plain booleans; for a traced value, the comparison with 0 is recorded."""
    return np.not_equal(x, 0) if isinstance(x, Tracer) else np.asarray(x, dtype=bool)


def write_result(out: Any, y: Value) -> Value:
    """Return a result, written into `out` if that is given."""
    return store_result(out, y) if is_given(out) else y


def restore_axes(y: Value, keepdims: Any, over: Axes, x: Value) -> Value:
    """Return a reduced value; with `keepdims`, the reduced axes are put back with length 1."""
    return shapes.restore_reduced_axes(y, over, x) if is_given(keepdims) and keepdims else y


def fill_excluded(a: Value, where: Any, filling: float) -> Value:
    """Return `a` with the entries that `where` excludes replaced by `filling`."""
    return np.where(as_booleans(where), a, filling) if is_given(where) and where is not True else a


def merge_axes_last(x: Value, over: Axes) -> Value:
    """Return `x` with the axes `over` moved to the end, as one axis."""
    kept_axes = tuple(k for k in range(len(shape(x))) if k not in over)
    moved = np.transpose(x, (*kept_axes, *over)) if shape(x) else x
    return np.reshape(moved, (*(shape(x)[k] for k in kept_axes), math.prod(shape(x)[k] for k in over)))


def reduction_axes(a: Value, axis: Any) -> Axes:
    """Return the axes of a ufunc's reduction; for a scalar, axis 0 and axis -1 are accepted and mean no axes."""
    scalar = not shape(a) and isinstance(axis, int) and axis in (0, -1)
    return () if scalar else shapes.normalise_axes(axis, len(shape(a)))


def count_entries(a: Value, over: Axes, where: Any = None) -> Any:
    """Return the number of entries in each reduction over the axes `over`: a number, or an array if `where` is given."""
    if not is_given(where) or where is True:
        return np.float64(math.prod(shape(a)[k] for k in over))
    chosen = np.broadcast_to(as_booleans(where), shape(a))
    return np.sum(chosen, axis=over).astype(float)[()]
