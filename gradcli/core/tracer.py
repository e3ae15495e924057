"""The array-like that watches numpy calls; each interpreter is one subclass.

A tracer receives ufuncs through `__array_ufunc__`, other numpy functions through `__array_function__`, and Python's
operators and array methods here. All of them end in `bind`, which knows what stands for a numpy function.
"""

import operator
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from gradcli.core import shapes
from gradcli.core.bind import bind
from gradcli.core.primitive import Interpreted, Value
from gradcli.core.storage import Storage, assign, view
from gradcli.errors import BadShape, NoRule, TraceEnded

_REDUCTIONS: dict[Any, Any] = {np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min}
_VIEWS = {
    np.reshape,
    np.ravel,
    np.transpose,
    np.swapaxes,
    np.moveaxis,
    np.squeeze,
    np.expand_dims,
    np.flip,
    np.diagonal,
}
_IGNORED = {"casting", "order", "subok"}


class Tracer(Interpreted):
    """A value under a sweep. Subclasses carry what their sweep needs and say how a primitive runs (`process`).

    Shapes  `shape` is the value's own; sweeps over several directions nest instead of adding an axis.
    """

    __slots__ = ("__weakref__", "storage")
    __array_priority__ = 1000.0
    storage: Storage | None
    primal: Value

    def hold(self, x: Value) -> "Tracer":
        """Return `x` as a value of the same sweep that does not move, and can be written into."""
        raise NotImplementedError

    def rebind(self, other: "Tracer") -> None:
        """Become `other`, in place: the only change a tracer ever undergoes, after a write to its memory."""
        if type(other) is not type(self) or other.level != self.level:
            raise TraceEnded(
                "an array made outside this sweep is written to inside it",
                do="make the array inside the function that is differentiated",
            )
        for kind in type(self).__mro__:
            for name in getattr(kind, "__slots__", ()):
                if name not in ("storage", "__weakref__"):
                    setattr(self, name, getattr(other, name))

    # What numpy asks.

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: Any = None, **kwargs: Any) -> Any:
        unknown = set(kwargs) - _IGNORED
        if method == "reduce" and ufunc in _REDUCTIONS:
            y = bind(_REDUCTIONS[ufunc], *inputs, **_reduce_arguments(kwargs))
        elif method == "accumulate" and ufunc is np.add:
            y = bind(np.cumsum, *inputs, **_reduce_arguments(kwargs))
        elif method == "__call__" and not unknown:
            y = bind(ufunc, *inputs)
        else:
            raise NoRule(f"np.{ufunc.__name__}.{method}({', '.join(sorted(unknown))}) has no derivative rule")
        return y if out is None else _store(out[0], y)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if function in _VIEWS and args and isinstance(args[0], Tracer):
            return view(args[0], _call(function, *args[1:], **kwargs))
        return bind(function, *args, **kwargs)

    # What Python asks.

    @property
    def shape(self) -> tuple[int, ...]:
        return shapes.shape(self.primal)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return shapes.size(self)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(np.float64)

    @property
    def T(self) -> Any:
        return view(self, _call(np.transpose))

    @property
    def __class__(self) -> type:
        """As numpy has it, so that `isinstance(x, np.ndarray)` in user code says what it would without tracing."""
        return np.ndarray if self.shape else np.float64

    @__class__.setter
    def __class__(self, value: type) -> None:
        raise TypeError("the class of a traced value is fixed")

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("a scalar has no length")
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        if type(index) is int and self.ndim == 1:
            return bind(operator.getitem, self, index)
        return view(self, lambda x: bind(operator.getitem, x, index) if isinstance(x, Tracer) else x[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        assign(self, bind(operator.setitem, self, index, value))

    def __bool__(self) -> bool:
        return bool(bind(np.not_equal, self, 0))

    def __float__(self) -> NoReturn:
        raise TraceEnded(
            "float() of a traced value loses its derivative", do="leave out float(), or use np.* instead of math.*"
        )

    def __int__(self) -> NoReturn:
        raise TraceEnded(
            "int() of a traced value loses its derivative", do="use np.floor, or pass integers as integer inputs"
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> NoReturn:
        raise TraceEnded("a traced value is converted to a plain array", do="leave out np.asarray(..., dtype=float)")

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.primal!r})"

    def copy(self) -> Any:
        """Return the value in memory of its own."""
        return bind(np.positive, self)


def _call(function: Any, *args: Any, **kwargs: Any) -> Callable[[Any], Any]:
    """Return a numpy call waiting for its first argument, traced or not."""
    return lambda x: bind(function, x, *args, **kwargs) if isinstance(x, Tracer) else function(x, *args, **kwargs)


def _reduce_arguments(kwargs: dict[str, Any]) -> dict[str, Any]:
    """A ufunc's `reduce` takes axis 0 where the function takes all axes."""
    given = {name: value for name, value in kwargs.items() if value is not None or name == "axis"}
    return {"axis": 0, **given}


def _store(target: Any, y: Value) -> Any:
    if not isinstance(target, Tracer):
        raise TraceEnded(
            "a traced result is stored into a plain array, where its derivative is lost",
            do="write a = a + t instead of a += t, or make the array inside the function",
        )
    assign(target, y)
    return target


def _binary(function: Any) -> tuple[Any, Any]:
    def operate(self: Tracer, other: Any) -> Any:
        return bind(function, self, other)

    def reflected(self: Tracer, other: Any) -> Any:
        return bind(function, other, self)

    return operate, reflected


def _inplace(function: Any) -> Any:
    def operate(self: Tracer, other: Any) -> Any:
        y = bind(function, self, other)
        if not self.shape:
            return y
        if shapes.shape(y) != self.shape:
            raise BadShape(
                f"a result of shape {shapes.shape(y)} does not fit into an array of shape {self.shape} in place"
            )
        assign(self, y)
        return self

    return operate


_OPERATORS: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "pow": np.power,
    "matmul": np.matmul, "mod": np.remainder, "floordiv": np.floor_divide,
}  # fmt: skip
_COMPARISONS: dict[str, Any] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
_UNARY: dict[str, Any] = {"neg": np.negative, "pos": np.positive, "abs": np.absolute}
_METHODS: dict[str, Any] = {
    "sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod, "var": np.var, "std": np.std,
    "dot": np.dot, "cumsum": np.cumsum, "trace": np.trace, "diagonal": np.diagonal, "argmax": np.argmax,
    "argmin": np.argmin, "clip": np.clip, "ravel": np.ravel, "squeeze": np.squeeze, "swapaxes": np.swapaxes,
    "repeat": np.repeat, "take": np.take, "any": np.any, "all": np.all, "round": np.round,
}  # fmt: skip


def _method(function: Any) -> Any:
    def method(self: Tracer, *args: Any, **kwargs: Any) -> Any:
        if function in _VIEWS:
            return view(self, _call(function, *args, **kwargs))
        return bind(function, self, *args, **kwargs)

    method.__name__ = function.__name__
    return method


def _reshape(self: Tracer, *shape: Any, order: str = "C") -> Any:
    return view(self, _call(np.reshape, shape[0] if len(shape) == 1 else shape, order=order))


def _transpose(self: Tracer, *axes: Any) -> Any:
    return view(self, _call(np.transpose, (axes[0] if len(axes) == 1 else axes) or None))


def _astype(self: Tracer, dtype: Any, **kwargs: Any) -> Any:
    if not np.issubdtype(np.dtype(dtype), np.floating):
        raise TraceEnded(
            f"astype({np.dtype(dtype).name}) of a traced value loses its derivative", do="leave out the conversion"
        )
    return bind(np.positive, self)


def _flatten(self: Tracer, order: str = "C") -> Any:
    return bind(np.reshape, self, -1, order=order)


def _install() -> None:
    for name, function in _OPERATORS.items():
        operate, reflected = _binary(function)
        setattr(Tracer, f"__{name}__", operate)
        setattr(Tracer, f"__r{name}__", reflected)
        setattr(Tracer, f"__i{name}__", _inplace(function))
    for name, function in _COMPARISONS.items():
        setattr(Tracer, f"__{name}__", _binary(function)[0])
    for name, function in _UNARY.items():
        setattr(Tracer, f"__{name}__", lambda self, function=function: bind(function, self))
    for name, function in _METHODS.items():
        setattr(Tracer, name, _method(function))
    for method in (_reshape, _transpose, _astype, _flatten):
        setattr(Tracer, method.__name__[1:], method)


_install()


class Arithmetic(Tracer):
    """A tracer that is a number system of its own (balls, symbols) rather than a sweep: the innermost of a nest."""

    __slots__ = ()

    @classmethod
    def lift(cls, number: Value) -> Any:
        """Return `number`, exact, in this arithmetic."""
        raise NotImplementedError


def plain(x: Value) -> Value:
    """Return the float64 value under any number of sweeps."""
    while isinstance(x, Tracer):
        x = x.primal
    return x


def arithmetic(x: Value) -> type[Arithmetic] | None:
    """Return the number system underneath `x`, or None for float64."""
    while isinstance(x, Tracer):
        if isinstance(x, Arithmetic):
            return type(x)
        x = x.primal
    return None


def exact(number: int, like: Value) -> Value:
    """Return an integer in the arithmetic underneath `like`, so that functions of it are as accurate as the rest."""
    system = arithmetic(like)
    return np.float64(number) if system is None else system.lift(number)
