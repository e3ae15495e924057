"""The tracer: an array-like that intercepts numpy calls. Each interpreter is one subclass.

A tracer receives ufuncs through `__array_ufunc__`, other numpy functions through `__array_function__`, and Python's
operators and array methods through its own methods. All of them call `bind`, which finds the handler of a numpy function.
"""

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradcli.errors import BadShape, NoRule, TraceEnded
from gradcli.tracing import shapes
from gradcli.tracing.bind import METHODS, VIEWS, bind
from gradcli.tracing.conversions import Conversions
from gradcli.tracing.linear_form import Dotted, LinearForm, settle
from gradcli.tracing.primitive import Interpreted, Primitive, Value
from gradcli.tracing.provenance import written
from gradcli.tracing.storage import Storage, assign, view, write

_AS_VALUE = np.asarray  # its handler accepts lists with traced entries; np.asarray itself is replaced in a trace
_FIRST = ("a", "m", "x", "ary", "array")  # names of the first argument of numpy's functions of one array


class NoLength(AttributeError, TypeError):
    """The error of `len(x)` and of `x.__len__` for a traced scalar."""


class _OfArrays:
    """A method that traced scalars lack, so that `hasattr(x, "__len__")` is the same for traced and for numpy values."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self.method = method

    def __get__(self, x: Any, kind: Any = None) -> Any:
        if x is None:
            return self
        if not x.shape:
            raise NoLength(f"object of type '{x.__class__.__name__}' has no len()")
        return self.method.__get__(x, kind)


class Tracer(Conversions, Interpreted):
    """A value under a sweep. A subclass stores what its sweep needs, and its `process` runs a primitive.

    Shapes  `shape` is the value's own; sweeps over several directions nest instead of adding an axis.
    """

    __slots__ = ("__weakref__", "storage")
    __array_priority__ = 1000.0
    leads = False  # whether numpy's calls go to this tracer at any position among the arguments
    detached: Callable[[], "Tracer"] | None = None  # of an abstract value: the same value without its derivative
    differentiated: Callable[..., tuple[Value, list[Value]]] | None = None  # of an abstract value: writes a gradient
    storage: Storage | None
    primal: Value

    def hold(self, x: Value) -> "Tracer":
        """Return `x` as a constant of the same sweep, into which traced values can be written."""
        raise NotImplementedError

    def rebind(self, other: "Tracer") -> None:
        """Take over the value of `other` after a write to this tracer's memory; a tracer changes in no other way.

        Raises  TraceEnded if `other` belongs to another sweep.
        """
        if type(other) is not type(self) or other.level != self.level:
            raise TraceEnded(
                "an array made outside this sweep is written to inside it",
                do="make the array inside the function that is differentiated",
            )
        self._take(other)

    @property
    def moves(self) -> bool:
        """Whether the value depends on an input of its sweep; an array that user's code makes does not."""
        return True

    def note(self, question: Primitive, operand: Value, answer: Any) -> None:
        """Record a comparison that a rule made on this value; only tracers with a tape do so."""

    def twin(self) -> "Tracer":
        """Return the same value in new memory, without recording an operation."""
        twin: Tracer = object.__new__(type(self))
        twin.storage = None
        twin._take(self)
        return twin

    def _take(self, other: "Tracer") -> None:
        for kind in type(self).__mro__:
            for name in getattr(kind, "__slots__", ()):
                if name not in ("storage", "__weakref__"):
                    setattr(self, name, getattr(other, name))

    # Called by numpy.

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        for x in inputs:
            if type(x) in _FORMS:
                inputs = settle(inputs)
                break
        if method not in ("at", "reduceat"):  # their inputs may be lists of positions
            inputs = tuple(bind(_AS_VALUE, x) if isinstance(x, list | tuple) else x for x in inputs)
        if method == "__call__" and not kwargs:
            return bind(ufunc, *inputs)
        return METHODS[method](ufunc, inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if len(types) > 1 and not self.leads and any(getattr(kind, "leads", False) for kind in types):
            return NotImplemented
        if any(kind in _FORMS for kind in types):
            args, kwargs = settle(args), settle(kwargs)
        return call(function, *args, **kwargs)

    # Called by Python.

    @property
    def under(self) -> Value:
        """The value one sweep further down."""
        return self.primal

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
    def __class__(self) -> type:
        """The class of the numpy value, so that `isinstance(x, np.ndarray)` in user code is the same as without tracing."""
        return np.ndarray if self.shape else np.float64

    @__class__.setter
    def __class__(self, value: type) -> None:
        raise TypeError("the class of a traced value is fixed")

    @_OfArrays
    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[k] for k in range(len(self)))

    def __contains__(self, x: Any) -> bool:
        if not self.shape:
            raise TypeError("a scalar is not iterable")
        return bool(np.any(bind(np.equal, self, x)))

    def __getitem__(self, index: Any) -> Any:
        if type(index) is int and self.ndim == 1:
            return bind(operator.getitem, self, index)
        fixed = frozen(index)
        return view(self, lambda x: bind(operator.getitem, x, fixed) if isinstance(x, Tracer) else x[fixed])

    def __setitem__(self, index: Any, value: Any) -> None:
        write(self, frozen(index), value.traced() if type(value) in _FORMS else value)

    def __bool__(self) -> bool:
        return bool(bind(np.not_equal, self, 0))

    def __floor__(self) -> int:
        return int(plain(bind(np.floor, self)))

    def __ceil__(self) -> int:
        return int(plain(bind(np.ceil, self)))

    def __trunc__(self) -> int:
        return int(plain(bind(np.trunc, self)))

    def __round__(self, ndigits: int | None = None) -> Any:
        if self.shape:
            raise TypeError("round() of an array: write np.round(x)")
        return int(plain(bind(np.rint, self))) if ndigits is None else bind(np.round, self, ndigits)

    def __divmod__(self, other: Any) -> Any:
        return bind(np.divmod, self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return bind(np.divmod, other, self)

    def __hash__(self) -> int:
        """Return the hash of the number, as numpy does, so that sets and dicts find equal numbers."""
        if self.shape:
            raise TypeError("unhashable type: 'numpy.ndarray'")
        return hash(plain(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.primal!r})"

    def __str__(self) -> str:
        written()
        return str(plain(self))

    def __format__(self, spec: str) -> str:
        written()
        return format(plain(self), spec)

    def __copy__(self) -> Any:
        return bind(np.positive, self)

    def __deepcopy__(self, memo: Any) -> Any:
        return bind(np.positive, self)


def call(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call the handler of a numpy function; views share memory, and the result is written into `out=`."""
    out = kwargs.pop("out", None)
    if function in VIEWS:
        first = args[0] if args else next((kwargs.pop(name) for name in _FIRST if name in kwargs), None)
        if isinstance(first, Tracer):
            return view(first, calling(function, *args[1:], **kwargs))
        args = args or (first,)
    y = bind(function, *args, **kwargs)
    return y if out is None else store(out, y)


def calling(function: Any, *args: Any, **kwargs: Any) -> Callable[[Any], Any]:
    """Return a numpy function with all arguments fixed but the first, which may be traced or plain."""
    return lambda x: bind(function, x, *args, **kwargs) if isinstance(x, Tracer) else function(x, *args, **kwargs)


def frozen(index: Any) -> Any:
    """Return a copy of an index, which does not change when the user's array does.

    Raises  NoRule if the index is, or contains, a traced value.
    """
    kind = type(index)
    if kind is int:
        return index
    if kind is np.ndarray:
        return index.copy()
    if kind is tuple:
        return tuple(frozen(part) for part in index)
    if kind is list:
        return [frozen(part) for part in index]
    if kind is slice:
        return slice(*(frozen(part) for part in (index.start, index.stop, index.step)))
    if isinstance(index, Tracer):
        raise NoRule("an index is a traced value", do="index with plain integers")
    return index


def store(target: Any, y: Value) -> Any:
    """Write a result into `out=` and return that array.

    Raises  TraceEnded if that array is plain; ValueError if it is a read-only view.
    """
    if isinstance(target, tuple):
        return tuple(store(*pair) for pair in zip(target, y, strict=True)) if len(target) > 1 else store(target[0], y)
    same = isinstance(target, Tracer) and type(y) is type(target) and y.level == target.level
    if same and y.shape == target.shape:
        assign(target, y)
    else:
        write(target, ..., y)
    return target


_FORMS = (LinearForm, Dotted)
# Other types use their own operators.
_OPERANDS = (Tracer, LinearForm, np.ndarray, np.generic, int, float, complex, list, tuple)


def _operand(x: Any) -> Any:
    kind = type(x)
    if kind is list or kind is tuple:
        return bind(_AS_VALUE, x)
    return x.traced() if kind in _FORMS else x


def _binary(function: Any) -> tuple[Any, Any]:
    def operate(self: Tracer, other: Any) -> Any:
        if not isinstance(other, _OPERANDS):
            return NotImplemented
        return bind(function, self, _operand(other))

    def reflected(self: Tracer, other: Any) -> Any:
        if not isinstance(other, _OPERANDS):
            return NotImplemented
        return bind(function, _operand(other), self)

    return operate, reflected


def _inplace(function: Any) -> Any:
    def operate(self: Tracer, other: Any) -> Any:
        y = getattr(self, f"__{function}__")(other)
        if not self.shape:
            return y
        if shapes.shape(y) != self.shape:
            raise BadShape(
                f"a result of shape {shapes.shape(y)} does not fit into an array of shape {self.shape} in place"
            )
        return store(self, y)

    return operate


_OPERATORS: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "pow": np.power,
    "matmul": np.matmul, "mod": np.remainder, "floordiv": np.floor_divide,
}  # fmt: skip
_COMPARISONS: dict[str, Any] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
_UNARY: dict[str, Any] = {"neg": np.negative, "pos": np.positive, "abs": np.absolute}


def _install() -> None:
    for name, function in _OPERATORS.items():
        operate, reflected = _binary(function)
        setattr(Tracer, f"__{name}__", operate)
        setattr(Tracer, f"__r{name}__", reflected)
        setattr(Tracer, f"__i{name}__", _inplace(name))
    for name, function in _COMPARISONS.items():
        setattr(Tracer, f"__{name}__", _binary(function)[0])
    for name, function in _UNARY.items():
        setattr(Tracer, f"__{name}__", lambda self, function=function: bind(function, self))


_install()


class Arithmetic(Tracer):
    """A tracer that is a number system (balls, symbols) and not a sweep; it lies underneath all sweeps."""

    __slots__ = ()
    symbolic = False  # whether its values are formulas, in which nothing overflows

    @property
    def moves(self) -> bool:
        """Whether a derivative could be lost; most arithmetics compute values only."""
        return False

    @classmethod
    def lift(cls, number: Value) -> Any:
        """Return `number` in this arithmetic, without error if the arithmetic can represent it."""
        raise NotImplementedError

    @classmethod
    def lift_constant(cls, name: str, value: Value) -> Any:
        """Return the constant pi or e, given its float64 `value`: as exact as this arithmetic can be."""
        return cls.lift(value)


def plain(x: Value) -> Value:
    """Return the float64 value under any number of sweeps."""
    while isinstance(x, Tracer):
        x = x.primal
    return x


def depends(x: Any) -> bool:
    """Whether a value depends on what is differentiated; an array that user's code makes is traced, and does not."""
    return isinstance(x, Tracer) and x.moves


def arithmetic(x: Value) -> type[Arithmetic] | None:
    """Return the number system underneath `x`, or None for float64."""
    while isinstance(x, Tracer):
        if isinstance(x, Arithmetic):
            return type(x)
        x = x.under
    return None


def defined(y: Value, ydot: Value) -> Value:
    """Return a tangent or cotangent `ydot` of a value `y`, made nan where `y` is nan; zeros in an array stay zero.

    Where a function has no value it has no derivative, but the formula may give a number: 1 / x for log(x) at x < 0.
    """
    x = plain(y)
    if type(x) is np.float64:
        return ydot if x == x or arithmetic(y) is not None else ydot * np.nan
    if (
        type(x) is not np.ndarray
        or x.dtype.kind != "f"
        or not np.isnan(np.minimum.reduce(x, axis=None, initial=np.inf))
    ):
        return ydot
    lost = np.isnan(x) & (plain(ydot) != 0)
    return ydot if arithmetic(y) is not None else ydot * np.where(lost, np.nan, 1.0)


def exact(number: int, like: Value) -> Value:
    """Return an integer in the arithmetic underneath `like`, so that functions of it are as accurate as the rest."""
    system = arithmetic(like)
    return np.float64(number) if system is None else system.lift(number)
