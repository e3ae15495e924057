"""The tracer: an array-like that intercepts numpy calls. Each interpreter is one subclass.

A tracer receives ufuncs through `__array_ufunc__`, other numpy functions through `__array_function__`, and Python's
operators and array methods through its own methods. All of them call `bind`, which finds the handler of a numpy function.
"""

import contextlib
import copy
import functools
import gc
import operator
import sys
import threading
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import CellType, CodeType, FunctionType, MethodType
from typing import Any, NoReturn

import numpy as np

from gradcli.errors import BadShape, NoRule, TraceEnded
from gradcli.tracing import shapes
from gradcli.tracing.primitive import METHODS, VIEWS, Interpreted, Primitive, Value, bind
from gradcli.tracing.provenance import called_name, note_text_conversion, package_called
from gradcli.tracing.shapes import size

IS_ZERO = Primitive("is_zero", np.equal, (), kind="constant", on=())


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


# The product of a plain array with a traced one by the array's own method, `A.dot(x)`, which numpy computes in C.
#
# The method takes a traced operand by `__array__`. What it gets is an array of linear forms, one for each entry: sums and
# products with numbers are all that the product needs. The coefficients of the result are those of A, and at its first use
# the result becomes one traced product.

_MOST_COEFFICIENTS = 1_000_000
Multiply = Callable[[Any, Any], Any]


class _Deferred:
    """What becomes traced values as soon as one of numpy's functions gets it."""

    __slots__ = ()

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return getattr(ufunc, method)(*map(resolve_forms, inputs), **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return function(*resolve_forms(args), **resolve_forms(kwargs))


class LinearForm(_Deferred):
    """A number that is a linear function of the entries of a traced array: coefficients by the entry's position.

    As soon as something else than a sum or a product with a number is asked of it, it is the traced number.
    """

    __slots__ = ("coefficients", "operand")
    __array_priority__ = 2000.0

    def __init__(self, operand: "ProductOperand", coefficients: dict[int, float]) -> None:
        self.operand, self.coefficients = operand, coefficients

    def traced(self) -> Any:
        """Return the form as a traced number."""
        return self.operand.product([self])[0]

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, int | float):
            return LinearForm(self.operand, {k: c * other for k, c in self.coefficients.items()})
        return self.traced() * (other.traced() if isinstance(other, LinearForm) else other)

    def __add__(self, other: Any) -> Any:
        if isinstance(other, LinearForm) and other.operand is self.operand:
            found = dict(self.coefficients)
            for k, c in other.coefficients.items():
                found[k] = found.get(k, 0.0) + c
            return LinearForm(self.operand, found)
        if isinstance(other, int) and other == 0:
            return self
        return self.traced() + (other.traced() if isinstance(other, LinearForm) else other)

    __rmul__, __radd__ = __mul__, __add__

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # numpy looks for its protocols, which are not those of a traced value
            raise AttributeError(name)
        return getattr(self.traced(), name)


def _delegate_method(name: str) -> Callable[..., Any]:
    def method(self: LinearForm, *args: Any) -> Any:
        return getattr(self.traced(), name)(*map(resolve_forms, args))

    return method


for _name in (
    "sub", "rsub", "truediv", "rtruediv", "pow", "rpow", "neg", "abs", "pos", "lt", "le", "gt", "ge", "eq", "ne", "bool", "float",
    "hash", "mod", "rmod", "floordiv", "rfloordiv", "matmul", "rmatmul", "format", "round",
):  # fmt: skip
    setattr(LinearForm, f"__{_name}__", _delegate_method(f"__{_name}__"))


class ProductOperand:
    """A traced array whose entries are linear forms for the time of a product; `multiply` records the product."""

    def __init__(self, x: Any, multiply: Multiply) -> None:
        self.x, self.multiply = x, multiply

    def forms(self) -> "Dotted":
        """Return an array of linear forms in the shape of the traced array."""
        entries = np.empty(self.x.shape, dtype=object)
        flat = entries.reshape(-1)
        for k in range(flat.size):
            flat[k] = LinearForm(self, {k: 1.0})
        made = entries.view(Dotted)
        made.operand = self
        return made

    def product(self, forms: Sequence[LinearForm]) -> Any:
        """Return linear forms as one traced vector: the product with the matrix of their coefficients."""
        matrix = np.zeros((len(forms), int(np.prod(self.x.shape, dtype=int))))
        for row, form in zip(matrix, forms, strict=True):
            for k, c in form.coefficients.items():
                row[k] = c
        return self.multiply(matrix, self.x)


class Dotted(_Deferred, np.ndarray[Any, Any]):
    """The result of `A.dot(x)` in numpy's hands: an array of linear forms that becomes traced when something uses it."""

    __array_priority__ = 2000.0  # above a plain array's: the product gets this class, and the operand
    operand: ProductOperand | None = None

    def __array_finalize__(self, made_from: Any) -> None:
        self.operand = getattr(made_from, "operand", None)

    def traced(self) -> Any:
        """Return the array as a traced one."""
        plain = self.view(np.ndarray)
        return plain if self.operand is None else self.operand.product(plain.reshape(-1).tolist()).reshape(plain.shape)

    def __getitem__(self, index: Any) -> Any:
        return self.traced()[index]

    def __iter__(self) -> Any:
        return iter(self.traced())


for _name in (
    "dot", "astype", "sum", "mean", "max", "min", "tolist", "item", "copy", "clip", "cumsum", "prod", "std", "var",
):  # fmt: skip
    setattr(Dotted, _name, _delegate_method(_name))


def resolve_forms(x: Any) -> Any:
    """Return a value, or a container of values, with linear forms as traced values."""
    if isinstance(x, LinearForm | Dotted):
        return x.traced()
    if isinstance(x, list | tuple) and any(isinstance(part, LinearForm | Dotted | list | tuple) for part in x):
        return type(x)(map(resolve_forms, x))
    if isinstance(x, dict):
        return {key: resolve_forms(value) for key, value in x.items()}
    return x


class FloatResult:
    """What `float(x)` gives for a traced number: it can be returned, and every other use ends the trace."""

    def __init__(self, traced: Any) -> None:
        self.traced = traced


def traced_result(y: Any) -> Any:
    """Return the traced number behind a result of float(), and anything else as it is."""
    return y.traced if isinstance(y, FloatResult) else y


def _method_that_ends_trace(says: str, do: str) -> Callable[..., NoReturn]:
    def end_trace(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise TraceEnded(says, do=do)

    return end_trace


_refuse_float_use = _method_that_ends_trace(
    "float() of a traced value loses its derivative",
    "drop float() and use np.* instead of math.*; a function may return float(...) at its end",
)
for _conversions_name in (
    "add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "pow", "rpow", "mod", "rmod", "floordiv", "rfloordiv",
    "neg", "pos", "abs", "lt", "le", "gt", "ge", "eq", "ne", "bool", "float", "int", "index", "complex", "hash", "array", "round",
    "array_ufunc", "array_function", "str", "format", "repr", "iter", "getitem", "len", "floor", "ceil", "trunc", "divmod",
    "rdivmod", "matmul", "rmatmul", "getattr",
):  # fmt: skip
    setattr(FloatResult, f"__{_conversions_name}__", _refuse_float_use)


# Memory shared between traced arrays: views, and writes that every view must see.
#
# A tracer is a value, and a write makes a new value. In numpy, `y = x[1:]; y[0] = 5` also changes `x`; this module makes
# traced arrays behave in the same way. A view stores its base and the numpy call that made it. To find which entries of
# the base it holds, the same call is made on an array of positions, but only when something is written. A write changes
# the owner of the memory and then updates every view that is still alive, so that reads cost nothing.

_MANY = 64


class Storage:
    """The memory behind one traced array: its views, a count of writes and, for a view, its base and the call on it."""

    __slots__ = ("base", "index", "version", "views")

    def __init__(self, base: "Tracer | None" = None, index: Callable[[Any], Any] | None = None) -> None:
        self.base = base
        self.index = index
        self.version = 0
        self.views: list[weakref.ref[Any]] = []


def storage_of(x: "Tracer") -> Storage:
    """Return the storage of `x`, which is created on the first call."""
    if x.storage is None:
        x.storage = Storage()
    return x.storage


def make_view(base: "Tracer", index: Callable[[Any], Any]) -> Any:
    """Return `index(base)`, as a view where numpy would return one; `index` accepts tracers and plain arrays."""
    seen = index(base)
    if not seen.shape or seen is base or not base.shape:
        return seen
    seen.storage = Storage(base, index)
    views = storage_of(base).views
    if len(views) >= _MANY:
        views[:] = [ref for ref in views if ref() is not None]
    views.append(weakref.ref(seen))
    return seen


def positions_in_memory(x: "Tracer") -> tuple["Tracer", Any]:
    """Return the owner of the memory behind `x`, and the positions of the entries of `x` in it.

    If numpy made a copy of the base and no view, `x` becomes the owner of its memory.

    Shapes  the positions count the owner's entries in C order, and have the shape of `x`.
    """
    memory = storage_of(x)
    if memory.base is None or memory.index is None:
        return x, np.arange(size(x)).reshape(x.shape)
    owner, of_base = positions_in_memory(memory.base)
    mine = memory.index(of_base)
    if np.may_share_memory(mine, of_base):
        return owner, mine
    memory.base = memory.index = None
    return x, np.arange(size(x)).reshape(x.shape)


def has_shared_memory(x: "Tracer", y: "Tracer") -> bool:
    """Return whether two traced arrays have an entry of memory in common."""
    (owner, mine), (other, yours) = positions_in_memory(x), positions_in_memory(y)
    return owner is other and np.intersect1d(mine, yours).size > 0


def assign_value(x: "Tracer", new: "Tracer") -> None:
    """Replace the value of `x` by `new`, in every array that shares its memory.

    Shapes  `new` has the shape of `x`.
    Raises  ValueError if `x` is a view that numpy makes read-only.
    """
    owner, at = (x, None) if storage_of(x).base is None else positions_in_memory(x)
    if at is not None and not at.flags.writeable:
        raise ValueError("assignment destination is read-only")
    if owner is x:
        x.rebind(new)
    else:
        flat = bind(operator.setitem, bind(np.reshape, owner, -1), at, new)
        owner.rebind(bind(np.reshape, flat, owner.shape))
    _refresh_views(owner)


def write_at(x: Any, index: Any, value: Any) -> None:
    """Write `value` into `x` at `index`, as `x[index] = value` does.

    Raises  TraceEnded if `x` is a plain array; ValueError if it is a read-only view.
    """
    if not hasattr(x, "storage"):
        raise TraceEnded(
            "a traced result is stored into a plain array, where its derivative is lost",
            do="write a = a + t instead of a += t, or make the array inside the function",
        )
    assign_value(x, bind(operator.setitem, x, index, value))


def _refresh_views(x: "Tracer") -> None:
    memory = storage_of(x)
    memory.version += 1
    for seen in [view for ref in memory.views if (view := ref()) is not None]:
        positions_in_memory(seen)  # if the call turns out to copy, this ends the sharing
        if seen.storage.base is not None:
            seen.rebind(seen.storage.index(x))
            _refresh_views(seen)
    memory.views = [ref for ref in memory.views if (view := ref()) is not None and view.storage.base is not None]


class Tracer(Interpreted):
    """A value under a sweep. A subclass stores what its sweep needs, and its `process` runs a primitive.

    Shapes  `shape` is the value's own; sweeps over several directions nest instead of adding an axis.
    """

    __slots__ = ("__weakref__", "storage")
    __array_priority__ = 1000.0
    leads = False  # whether numpy's calls go to this tracer at any position among the arguments
    scalar_class: type = np.float64  # of the numpy value that a traced number stands for
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
        self._take_value(other)

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
        twin._take_value(self)
        return twin

    def _take_value(self, other: "Tracer") -> None:
        for kind in type(self).__mro__:
            for name in getattr(kind, "__slots__", ()):
                if name not in ("storage", "__weakref__"):
                    setattr(self, name, getattr(other, name))

    # Called by numpy.

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        caller = sys._getframe(1)
        call = called_name(caller.f_code, caller.f_lasti) if dtype in (None, np.dtype(object)) else None
        # the matrix of a square product is taken for granted
        if call == ("attribute", "dot") and float(np.prod(self.shape, dtype=float)) ** 2 <= _MOST_COEFFICIENTS:
            return ProductOperand(self, lambda a, x: bind(np.matmul, a, bind(np.reshape, x, (-1,)))).forms()
        called = package_called()
        if called is not None:
            raise TraceEnded(
                f"{called[0]} of {called[1]} is not traced: it converts a traced value to a plain array",
                do="write it with numpy's functions, or give your own gradient to check: --grad",
            )
        raise TraceEnded(
            "a traced value is converted to a plain array",
            do="call numpy's functions (np.dot(a, x), a @ x) instead of methods of plain arrays; leave out dtype=",
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        for x in inputs:
            if type(x) in _FORMS:
                inputs = resolve_forms(inputs)
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
            args, kwargs = resolve_forms(args), resolve_forms(kwargs)
        return call_function(function, *args, **kwargs)

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
        return np.dtype(self.scalar_class)

    @property
    def __class__(self) -> type:
        """The class of the numpy value, so that `isinstance(x, np.ndarray)` in user code is the same as without tracing."""
        return np.ndarray if self.shape else self.scalar_class

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
        fixed = freeze_index(index)
        return make_view(self, lambda x: bind(operator.getitem, x, fixed) if isinstance(x, Tracer) else x[fixed])

    def __setitem__(self, index: Any, value: Any) -> None:
        value = value.traced() if type(value) in _FORMS else value
        fills = isinstance(index, Tracer) and index.shape == self.shape and np.ndim(plain_value(value)) == 0
        if fills and np.asarray(plain_value(index)).dtype == bool:
            index, value = ..., bind(np.where, index, value, self)
        write_at(self, freeze_index(index), value)

    def __bool__(self) -> bool:
        return bool(bind(np.not_equal, self, 0))

    def __round__(self, ndigits: int | None = None) -> Any:
        if self.shape:
            raise TypeError("round() of an array: write np.round(x)")
        return int(plain_value(bind(np.rint, self))) if ndigits is None else bind(np.round, self, ndigits)

    def __divmod__(self, other: Any) -> Any:
        return bind(np.divmod, self, other)

    def __rdivmod__(self, other: Any) -> Any:
        return bind(np.divmod, other, self)

    def __hash__(self) -> int:
        """Return the hash of the number, as numpy does, so that sets and dicts find equal numbers."""
        if self.shape:
            raise TypeError("unhashable type: 'numpy.ndarray'")
        return hash(plain_value(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.primal!r})"

    def __str__(self) -> str:
        note_text_conversion()
        return str(plain_value(self))

    def __format__(self, spec: str) -> str:
        note_text_conversion()
        return format(plain_value(self), spec)

    def __copy__(self) -> Any:
        return bind(np.positive, self)

    def __deepcopy__(self, memo: Any) -> Any:
        return bind(np.positive, self)


def call_function(function: Any, *args: Any, **kwargs: Any) -> Any:
    """Call the handler of a numpy function; views share memory, and the result is written into `out=`."""
    out = kwargs.pop("out", None)
    if function in VIEWS:
        first = args[0] if args else next((kwargs.pop(name) for name in _FIRST if name in kwargs), None)
        if isinstance(first, Tracer):
            return make_view(first, fix_arguments(function, *args[1:], **kwargs))
        args = args or (first,)
    y = bind(function, *args, **kwargs)
    return y if out is None else store_result(out, y)


def fix_arguments(function: Any, *args: Any, **kwargs: Any) -> Callable[[Any], Any]:
    """Return a numpy function with all arguments fixed but the first, which may be traced or plain."""
    return lambda x: bind(function, x, *args, **kwargs) if isinstance(x, Tracer) else function(x, *args, **kwargs)


def freeze_index(index: Any) -> Any:
    """Return a copy of an index, which does not change when the user's array does.

    Raises  NoRule if the index is, or contains, a traced value.
    """
    kind = type(index)
    if kind is int:
        return index
    if kind is np.ndarray:
        return index.copy()
    if kind is tuple:
        return tuple(freeze_index(part) for part in index)
    if kind is list:
        return [freeze_index(part) for part in index]
    if kind is slice:
        return slice(*(freeze_index(part) for part in (index.start, index.stop, index.step)))
    if isinstance(index, Tracer):
        raise NoRule("an index is a traced value", do="index with plain integers, or write np.where(mask, a, b)")
    return index


def store_result(target: Any, y: Value) -> Any:
    """Write a result into `out=` and return that array.

    Raises  TraceEnded if that array is plain; ValueError if it is a read-only view.
    """
    if isinstance(target, tuple) and len(target) > 1:
        return tuple(store_result(*pair) for pair in zip(target, y, strict=True))
    if isinstance(target, tuple):
        return store_result(target[0], y)
    same = isinstance(target, Tracer) and type(y) is type(target) and y.level == target.level
    if same and y.shape == target.shape:
        assign_value(target, y)
    else:
        write_at(target, ..., y)
    return target


_FORMS = (LinearForm, Dotted)
# Other types use their own operators.
_OPERANDS = (Tracer, LinearForm, np.ndarray, np.generic, int, float, complex, list, tuple)


def _convert_operand(x: Any) -> Any:
    kind = type(x)
    if kind is list or kind is tuple:
        return bind(_AS_VALUE, x)
    return x.traced() if kind in _FORMS else x


def _binary_operators(function: Any) -> tuple[Any, Any]:
    def operate(self: Tracer, other: Any) -> Any:
        if not isinstance(other, _OPERANDS):
            return NotImplemented
        return bind(function, self, _convert_operand(other))

    def reflected(self: Tracer, other: Any) -> Any:
        if not isinstance(other, _OPERANDS):
            return NotImplemented
        return bind(function, _convert_operand(other), self)

    return operate, reflected


def _inplace_operator(function: Any) -> Any:
    def operate(self: Tracer, other: Any) -> Any:
        y = getattr(self, f"__{function}__")(other)
        if not self.shape:
            return y
        if shapes.shape(y) != self.shape:
            raise BadShape(
                f"a result of shape {shapes.shape(y)} does not fit into an array of shape {self.shape} in place"
            )
        return store_result(self, y)

    return operate


_OPERATORS: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "truediv": np.divide, "pow": np.power,
    "matmul": np.matmul, "mod": np.remainder, "floordiv": np.floor_divide,
}  # fmt: skip
_COMPARISONS: dict[str, Any] = {
    "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
}  # fmt: skip
_UNARY: dict[str, Any] = {"neg": np.negative, "pos": np.positive, "abs": np.absolute}
_TO_INTEGER: dict[str, Any] = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}


for _name, _function in _OPERATORS.items():
    _operate, _reflected = _binary_operators(_function)
    setattr(Tracer, f"__{_name}__", _operate)
    setattr(Tracer, f"__r{_name}__", _reflected)
    setattr(Tracer, f"__i{_name}__", _inplace_operator(_name))
for _name, _function in _COMPARISONS.items():
    setattr(Tracer, f"__{_name}__", _binary_operators(_function)[0])
for _name, _function in _UNARY.items():
    setattr(Tracer, f"__{_name}__", lambda self, function=_function: bind(function, self))
for _name, _function in _TO_INTEGER.items():
    setattr(Tracer, f"__{_name}__", lambda self, function=_function: int(plain_value(bind(function, self))))


# Conversions to a plain number end the trace, for the derivative would be lost.
for _name, _says, _do in (
    ("float", "float() of a traced value loses its derivative",
     "drop float() and use np.* instead of math.*; compiled code that calls float() cannot be traced"),
    ("int", "int() of a traced value loses its derivative", "use np.floor, or pass integers as integer inputs"),
    ("index", "a traced value is used as an index or a size", "index with plain integers: pass them as integer inputs"),
    ("complex", "complex() of a traced value loses its derivative", "leave out complex()"),
):  # fmt: skip
    setattr(Tracer, f"__{_name}__", _method_that_ends_trace(_says, _do))


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


def plain_value(x: Value) -> Value:
    """Return the float64 value under any number of sweeps."""
    while isinstance(x, Tracer):
        x = x.primal
    return x


def is_differentiated(x: Any) -> bool:
    """Whether a value depends on what is differentiated; an array that user's code makes is traced, and does not."""
    return isinstance(x, Tracer) and x.moves


def arithmetic_of(x: Value) -> type[Arithmetic] | None:
    """Return the number system underneath `x`, or None for float64."""
    while isinstance(x, Tracer):
        if isinstance(x, Arithmetic):
            return type(x)
        x = x.under
    return None


def nan_where_undefined(y: Value, ydot: Value) -> Value:
    """Return a tangent or cotangent `ydot` of a value `y`, made nan where `y` is nan; zeros in an array stay zero.

    Where a function has no value it has no derivative, but the formula may give a number: 1 / x for log(x) at x < 0.
    """
    x = plain_value(y)
    if type(x) is np.float64:
        return ydot if x == x or arithmetic_of(y) is not None else ydot * np.nan
    if type(x) is not np.ndarray or x.dtype.kind != "f":
        return ydot
    if not np.isnan(np.minimum.reduce(x, axis=None, initial=np.inf)):
        return ydot
    lost = np.isnan(x) & (plain_value(ydot) != 0)
    return ydot if arithmetic_of(y) is not None else ydot * np.where(lost, np.nan, 1.0)


def exact_integer(number: int, like: Value) -> Value:
    """Return an integer in the arithmetic underneath `like`, so that functions of it are as accurate as the rest."""
    system = arithmetic_of(like)
    return np.float64(number) if system is None else system.lift(number)


# A context in which Python's garbage collector runs rarely, for use while a tape is recorded.
#
# A tape is a list of tuples that all stay alive until the reverse sweep. By default, Python's collector scans the young objects
# whenever there are 700 more of them, and all objects from time to time. On a long tape these scans find nothing to free.

_SELDOM = 100_000  # objects; not infinite, so that garbage made by the user's function is still collected
_LOCK = threading.Lock()
_UNDER_WAY = [0]
_USUAL = [gc.get_threshold()]


class SeldomCollected:
    """A context in which the collector waits for many more objects; the last one to end restores the usual threshold."""

    __slots__ = ()

    def __enter__(self) -> None:
        with _LOCK:
            _UNDER_WAY[0] += 1
            if _UNDER_WAY[0] == 1:
                _USUAL[0] = gc.get_threshold()
                if 0 < _USUAL[0][0] < _SELDOM:
                    gc.set_threshold(_SELDOM, *_USUAL[0][1:])

    def __exit__(self, *raised: object) -> None:
        with _LOCK:
            _UNDER_WAY[0] -= 1
            if _UNDER_WAY[0] == 0:
                gc.set_threshold(*_USUAL[0])


# Values without their derivatives, for rules that depend on where a value is zero.


def without_derivative(x: Value) -> Value:
    """Return `x` without its derivative: the plain value, or an abstract one while a program is written."""
    while isinstance(x, Tracer):
        if x.detached is not None:
            return x.detached()
        x = x.primal
    return x


def is_zero(x: Value) -> Any:
    """Return where a value is zero, for a rule that has a separate formula there; a tape records the answer.

    This is not a branch of the user's code: both formulas compute the same function.
    """
    answer = np.equal(without_derivative(x), 0)
    while isinstance(x, Tracer) and x.detached is None:
        x.note(IS_ZERO, np.float64(0), answer)
        x = x.primal
    return answer


# The traced values inside functions and containers: found, and replaced by others.
#
# A right-hand side that a solver calls again and again often holds the parameters that are differentiated: in its closure, in
# a partial, in the object that it is a method of.

_DEEPEST = 12  # levels of functions, objects and containers inside each other


class Captured:
    """The traced `leaves` inside a structure, each once, and the same structure with other values in their place.

    The structure is copied where it holds traced values: an object of the user's may hold others later.
    """

    def __init__(self, structure: Any) -> None:
        self.structure = structure
        self._collect_leaves()
        if self.leaves:
            self.structure = self.rebuilt(self.leaves)
            self._collect_leaves()

    def _collect_leaves(self) -> None:
        self.leaves: list[Tracer] = []
        self._places: dict[int, int] = {}
        self._holds: dict[int, bool] = {}
        self._find_traced(self.structure, 0)

    def rebuilt(self, values: Sequence[Any]) -> Any:
        """Return a copy of the structure in which `values` stand in the places of the leaves."""
        return self._copy_with_values(self.structure, values, {})

    def _find_traced(self, x: Any, depth: int) -> bool:
        """Return whether `x` contains a traced value, and note all that it contains."""
        if isinstance(x, Tracer):
            if id(x) not in self._places:
                self._places[id(x)] = len(self.leaves)
                self.leaves.append(x)
            return True
        if depth > _DEEPEST:
            return False
        if id(x) not in self._holds:
            self._holds[id(x)] = False  # while its parts are looked at, for structures that contain themselves
            self._holds[id(x)] = any(tuple(self._find_traced(part, depth + 1) for part in _objects_inside(x)))
        return self._holds[id(x)]

    def _copy_with_values(self, x: Any, values: Sequence[Any], known: dict[int, Any]) -> Any:
        if isinstance(x, Tracer):
            return values[self._places[id(x)]]
        if not self._holds.get(id(x), False):
            return x
        if id(x) not in known:
            known[id(x)] = x  # while its parts are copied, for containers that contain themselves
            _copy_object(known, x, lambda part: self._copy_with_values(part, values, known))
        return known[id(x)]


# What a function holds: the values in its closure, and the code of the functions inside it.

UNBOUND: Any = type("Unbound", (), {"__repr__": lambda self: "unbound"})()


def content_of_cell(cell: CellType) -> Any:
    """Return the value in a cell of a closure; UNBOUND if its name has no value yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return UNBOUND


def closure_values(function: FunctionType) -> dict[str, Any]:
    """Return the names of a function's closure that have a value, with their values."""
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {name: x for name, cell in cells if (x := content_of_cell(cell)) is not UNBOUND}


def nested_codes(code: CodeType) -> Iterator[CodeType]:
    """Yield a code object and those of the functions inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from nested_codes(constant)


def unwrap_function(x: Any) -> Any:
    """Return the function of Python inside a bound method, or inside a function that numba compiles; anything else as it is."""
    inner = x.__func__ if isinstance(x, MethodType) else getattr(x, "__dict__", {}).get("py_func")
    return inner if isinstance(inner, FunctionType) else x


def _objects_inside(x: Any) -> list[Any]:
    """Return the objects directly inside a container, a function or an object of a class of the user's."""
    if isinstance(x, list | tuple | set | frozenset):
        return list(x)
    if isinstance(x, dict):
        return list(x.values())
    if isinstance(x, types.FunctionType):
        return [*map(content_of_cell, x.__closure__ or ()), *(x.__defaults__ or ()), *(x.__kwdefaults__ or {}).values()]
    if isinstance(x, functools.partial):
        return [x.func, *x.args, *x.keywords.values()]
    if isinstance(x, types.MethodType):
        return [x.__func__, x.__self__]
    if isinstance(x, type | types.ModuleType) or type(x).__module__ in ("builtins", "numpy"):
        return []
    return list(getattr(x, "__dict__", {}).values())


def _copy_object(known: dict[int, Any], x: Any, part: Callable[[Any], Any]) -> None:
    """Make `known[id(x)]` a copy with the copies of what is inside; a function or an object may refer to itself."""
    if isinstance(x, list | tuple | set | frozenset):
        parts = map(part, x)
        known[id(x)] = type(x)(*parts) if isinstance(x, tuple) and hasattr(x, "_fields") else type(x)(parts)
    elif isinstance(x, functools.partial):
        named = {k: part(v) for k, v in x.keywords.items()}
        known[id(x)] = functools.partial(part(x.func), *map(part, x.args), **named)
    elif isinstance(x, types.MethodType):
        known[id(x)] = types.MethodType(part(x.__func__), part(x.__self__))
    elif isinstance(x, types.FunctionType):
        cells = tuple(types.CellType() for _ in x.__closure__ or ())
        known[id(x)] = made = types.FunctionType(x.__code__, x.__globals__, x.__name__, None, cells)
        for own, cell in zip(cells, x.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # a name that is bound later
                own.cell_contents = part(cell.cell_contents)
        made.__defaults__ = tuple(map(part, x.__defaults__)) if x.__defaults__ else None
        made.__kwdefaults__ = {k: part(v) for k, v in x.__kwdefaults__.items()} if x.__kwdefaults__ else None
    else:
        known[id(x)] = copied = copy.copy(x)
        if isinstance(x, dict):
            copied.update((key, part(value)) for key, value in x.items())
        else:
            for name, value in vars(x).items():
                object.__setattr__(copied, name, part(value))
