"""Abstract values: what a function gets while its program is written. They have a shape and a dtype, and no value."""

from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from gradcli.classes import dataclass
from gradcli.compiling.straight_line import OfNode, StraightLine
from gradcli.errors import BadShape, CannotCompile, NoRule, TraceEnded
from gradcli.rules.methods import SAME_NAME
from gradcli.tracing.primitive import Primitive, Value, bind
from gradcli.tracing.tracer import Arithmetic, Tracer, assign_value

_SELECT = "np.where(condition, a, b), np.maximum and np.minimum"
_TRUTHS = {np.any, np.all, np.count_nonzero}
_POSITIONS = {np.nonzero, np.argwhere, np.flatnonzero}
_NEED_VALUES = (  # they compile as calls; the shapes of their results depend on shapes only
    "sort", "argsort", "partition", "argpartition", "argmax", "argmin", "median", "percentile", "quantile", "searchsorted",
    "digitize", "interp", "unwrap", "cov", "corrcoef", "gradient", "polyfit", "nan_to_num", "geomspace", "take_along_axis",
    "nansum", "nanprod", "nanmean", "nanvar", "nanstd", "nanmax", "nanmin", "nanmedian", "nanpercentile", "nanquantile",
    "nancumsum", "nancumprod", "nanargmax", "nanargmin",
)  # fmt: skip
_CALLED = {*(getattr(np, name) for name in _NEED_VALUES), np.linalg.slogdet, np.linalg.matrix_rank}
_ARGUMENTS = (int, float, str, bool, type(None), np.generic, np.ndarray, slice)


@dataclass(frozen=True, slots=True)
class DetachedFunction:
    """A function of numpy's whose result carries no derivative, as an operation of a program."""

    function: Callable[..., Any]

    @property
    def is_identity(self) -> bool:
        """Whether the result is the operand itself, without its derivative."""
        return self.function is _identity

    def __call__(self, *xs: Value, **params: Any) -> Value:
        return self.function(*xs, **params)


@dataclass(frozen=True, slots=True, eq=False)
class NumpyCall:
    """A call of a function of numpy's that has to see values, such as np.sort, as one operation of a program.

    `args` and `kwargs` have a `ValuePlace` for each abstract value. `output` is the number of the result, where there
    are several.
    """

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    shape: tuple[int, ...] | None = None
    output: int | None = None

    def __call__(self, *xs: Value) -> Value:
        args, kwargs = _map_arguments(lambda x: xs[x.number] if type(x) is ValuePlace else x, (self.args, self.kwargs))
        found = self.function(*args, **kwargs)
        y = found if self.output is None else found[self.output]
        if self.shape is not None and np.shape(y) != self.shape:
            gives = f"np.{self.function.__name__} gives shape {np.shape(y)}"
            do = "use functions whose results have the same shape for all values"
            raise BadShape(f"{gives}; the function was compiled for {self.shape}", do=do)
        return y


@dataclass(frozen=True, slots=True)
class NamedConstant:
    """The constant pi or e, as an operation of a program: an arithmetic may know more of it than its float64 `value`."""

    name: str
    value: float

    def __call__(self) -> Value:
        return np.float64(self.value)


class ValuePlace:
    """The place of one of several values: of an operand among the arguments of a `NumpyCall`, of a result in a structure.

    It is no dataclass, which would be a structure itself.
    """

    def __init__(self, number: int) -> None:
        self.number = number


def _map_arguments(change: Callable[[Any], Any], x: Any) -> Any:
    """Return arguments with each of them changed, also those in dicts, lists and tuples."""
    if type(x) is dict:
        return {name: _map_arguments(change, part) for name, part in x.items()}
    return type(x)(_map_arguments(change, part) for part in x) if type(x) in (list, tuple) else change(x)


def _identity(x: Value) -> Value:
    return x


def _missing_value(what: str, do: str) -> CannotCompile:
    return CannotCompile(f"the function needs {what}, which a compiled function does not have", do=do)


class AbstractValue(OfNode):
    """A value of a program that is being written; asking it for more than its shape and dtype raises CannotCompile."""

    __slots__ = ()

    @property
    def __class__(self) -> type:
        return np.ndarray if self.shape else self.dtype.type

    @__class__.setter
    def __class__(self, value: type) -> None:
        raise TypeError("the class of an abstract value is fixed")

    @property
    def under(self) -> Value:
        return np.float64(0)  # the arithmetic underneath is float64's

    @property
    def primal(self) -> Value:
        return self._plain_value("a plain value")

    def settle(self) -> NoReturn:
        raise CannotCompile("the function uses a value that it kept from an earlier call")

    def hold(self, x: Value) -> Tracer:
        return self.program.constant(x)

    def twin(self) -> Tracer:
        return type(self)(self.program, self.number)

    def __repr__(self) -> str:
        return f"AbstractValue({self.number})"

    def detached(self) -> OfNode:
        """Return the value without its derivative."""
        return self.program.operation(DetachedFunction(_identity), [self], {})

    def process(self, primitive: Primitive, xs: Sequence[Value], params: Any) -> Value:
        return self.program.operation(primitive, xs, params)

    def differentiated(self, f: Callable[..., Value], xs: Sequence[Value]) -> tuple[Value, list[Value]]:
        """Return a scalar function's value and gradient at abstract values, as nodes of their program.

        Raises  BadShape if the value is not a scalar.
        """
        if self.program.differentiate is None:
            raise CannotCompile("a gradient inside a function of this kind")
        return self.program.differentiate(f, xs)

    # What needs a plain value.

    def __bool__(self) -> bool:
        return bool(self._plain_value("the truth of a value (`if`, `and`, `max`)", f"use {_SELECT}"))

    def __index__(self) -> Any:
        do = "compute indices and sizes from integers alone"
        return self._plain_value("an index or a size from data", do).__index__()

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.array(self._plain_value("a plain array"), dtype)

    def _plain_value(self, asked: str, do: str = "use numpy's functions of arrays, which compile") -> Any:
        if not self.is_constant:
            raise _missing_value(asked, do)
        return self.node.value

    # Masks, and writes that they select.

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method == "__call__" and not kwargs and ufunc in _BITWISE:
            return self.program.operation(DetachedFunction(ufunc), inputs, {})
        return super().__array_ufunc__(ufunc, method, *inputs, **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function in _POSITIONS:
            raise _missing_value(f"a shape that depends on values (np.{function.__name__})", f"use {_SELECT}")
        if function in _TRUTHS and len(args) == 1 and args[0] is self and self.dtype == bool and not kwargs.get("out"):
            return self.program.operation(DetachedFunction(function), args, kwargs)
        before = TraceEnded.raised
        try:
            return super().__array_function__(function, types, args, kwargs)
        except (TraceEnded, NoRule):
            if function not in _CALLED or "out" in kwargs:
                raise
            TraceEnded.raised = before
            return self._record_call(function, args, kwargs)

    def called(self, function: Any, args: Sequence[Any], kwargs: Any) -> Any:
        """Return numpy's function of this name as the array's method."""
        return self.__array_function__(function, (type(self),), (self, *args), kwargs)

    def sort(self, axis: int = -1, **options: Any) -> None:
        """Sort in place."""
        self[...] = np.sort(self, axis, **options)

    def _record_call(self, function: Any, args: Any, kwargs: Any) -> Any:
        """Return a call of a function of numpy's as one operation, or one for each of its results.

        Raises  CannotCompile for functions among the arguments.
        """
        operands: list[Any] = []

        def replace_by_place(x: Any) -> Any:
            if isinstance(x, AbstractValue):
                operands.append(x)
                return ValuePlace(len(operands) - 1)
            if not isinstance(x, _ARGUMENTS) or isinstance(x, Tracer):
                raise _missing_value("plain values for a function that is passed to numpy", f"use {_SELECT}")
            return x

        call = NumpyCall(function, *_map_arguments(replace_by_place, (tuple(args), dict(kwargs))))
        found = call(*(x.node.value for x in operands))

        def operation(part: Value, output: int | None = None) -> Value:
            return self.program.operation(replace(call, shape=np.shape(part), output=output), operands, {})

        if not isinstance(found, tuple):
            return operation(found)
        made = [operation(part, k) for k, part in enumerate(found)]
        return type(found)(*made) if hasattr(found, "_fields") else tuple(made)

    def __getitem__(self, index: Any) -> Any:
        return super().__getitem__(_plain_index(index))

    def __setitem__(self, index: Any, value: Any) -> None:
        is_mask = isinstance(index, AbstractValue) and index.dtype == bool and index.shape == self.shape
        if is_mask and np.shape(value) == ():
            assign_value(self, bind(np.where, index, value, self))
        else:
            super().__setitem__(_plain_index(index), value)

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        """Return the value as another type; float64 carries the derivative."""
        wanted = np.dtype(dtype)
        if self.dtype != np.float64 and wanted.kind in "biuf":
            return self.program.operation(DetachedFunction(np.ndarray.astype), [self], {"dtype": wanted})
        return super().astype(dtype, *args, **kwargs)  # type: ignore[misc]


def _plain_index(index: Any) -> Any:
    """Return an index with the plain values of constants. Raises CannotCompile for one that depends on values."""
    parts = index if isinstance(index, tuple) else (index,)
    asked = "an index that depends on values", f"use {_SELECT}, or capture the index in a closure"
    plain = tuple(part._plain_value(*asked) if isinstance(part, AbstractValue) else part for part in parts)
    return plain if isinstance(index, tuple) else plain[0]


_BITWISE = {np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert}


def _install_methods() -> None:
    for kind in (float, int, complex):
        asked = f"a plain value for {kind.__name__}()"
        method = lambda self, kind=kind, asked=asked: kind(self._plain_value(asked))
        setattr(AbstractValue, f"__{kind.__name__}__", method)
    for name, ufunc in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
        setattr(AbstractValue, f"__{name}__", lambda self, other, ufunc=ufunc: ufunc(self, other))
        setattr(AbstractValue, f"__r{name}__", lambda self, other, ufunc=ufunc: ufunc(other, self))
    for name in SAME_NAME:
        f = getattr(np, name)
        setattr(AbstractValue, name, lambda self, *args, f=f, **kwargs: self.called(f, args, kwargs))
    setattr(AbstractValue, "__invert__", lambda self: np.invert(self))  # noqa: B010


_install_methods()


class Exact(AbstractValue, Arithmetic):
    """A value of a program for an arithmetic of its own, in which constants are exact and nothing is computed beforehand."""

    __slots__ = ()

    @classmethod
    def lift(cls, number: Value) -> OfNode:
        return number if isinstance(number, Exact) else WRITING.get().constant(number)

    @classmethod
    def lift_constant(cls, name: str, value: Value) -> OfNode:
        return WRITING.get().operation(NamedConstant(name, float(value)), [], {})

    def process(self, primitive: Primitive, xs: Sequence[Value], params: Any) -> Value:
        if primitive.kinks is not None or primitive.constant:
            raise CannotCompile(f"{primitive.name} has kinks or steps")
        return super().process(primitive, xs, params)


WRITING: ContextVar[StraightLine] = ContextVar("writing")  # the exact program that is being written
