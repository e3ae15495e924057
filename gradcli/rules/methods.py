"""Array methods and attributes of traced values: the same as those of numpy's arrays."""

import inspect
import operator
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

import numpy as np

from gradcli.errors import NoRule, TraceEnded
from gradcli.rules.writing import write_flat
from gradcli.tracing import shapes
from gradcli.tracing.bind import bind
from gradcli.tracing.primitive import Value
from gradcli.tracing.storage import positions, storage, view, write
from gradcli.tracing.tracer import Tracer, call, calling, frozen

# fmt: off
SAME_NAME = (  # the method calls numpy's function of that name, with the array as its first argument
    "sum", "mean", "max", "min", "prod", "var", "std", "cumsum", "cumprod", "trace", "diagonal", "argmax", "argmin", "argsort",
    "argpartition", "clip", "ravel", "squeeze", "swapaxes", "repeat", "take", "any", "all", "round", "nonzero", "searchsorted",
    "choose", "put", "dot", "conj", "conjugate",
)
REFUSED: dict[str, str] = {
    "tobytes": "writes bytes", "tofile": "writes a file", "dump": "writes a file", "dumps": "writes bytes",
    "byteswap": "rearranges bytes", "getfield": "reinterprets bytes", "setfield": "reinterprets bytes",
    "resize": "changes memory in place: x = np.resize(x, shape)", "setflags": "changes how memory may be used",
}
# fmt: on


class Flat:
    """numpy's `x.flat`: the entries of an array as a vector that can be read, written and iterated over."""

    __slots__ = ("base",)

    def __init__(self, base: Tracer) -> None:
        self.base = base

    def __len__(self) -> int:
        return self.base.size

    def __iter__(self) -> Iterator[Any]:
        row: Any = bind(np.reshape, self.base, -1)
        return (row[k] for k in range(len(self)))

    def __getitem__(self, index: Any) -> Any:
        return np.positive(bind(np.reshape, self.base, -1)[index])

    def __setitem__(self, index: Any, value: Any) -> None:
        at = np.arange(len(self))[frozen(index)]
        bind(np.put, self.base, at, value)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        rows = tuple(bind(np.reshape, x.base, -1) if isinstance(x, Flat) else x for x in args)
        return function(*rows, **kwargs)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        rows = (bind(np.reshape, x.base, -1) if isinstance(x, Flat) else x for x in inputs)
        return getattr(ufunc, method)(*rows, **kwargs)


def _same_name(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def method(self: Tracer, *args: Any, **kwargs: Any) -> Any:
        return call(function, self, *args, **kwargs)

    method.__doc__ = f"Return np.{name} of the array."
    return method


def reshape(self: Tracer, *shape: Any, order: str = "C", copy: Any = None) -> Any:
    """Return the entries in another shape."""
    return view(self, calling(np.reshape, shape[0] if len(shape) == 1 else shape, order=order))


def transpose(self: Tracer, *axes: Any) -> Any:
    """Return the array with its axes in another order, the reverse by default."""
    return view(self, calling(np.transpose, (axes[0] if len(axes) == 1 else axes) or None))


def astype(
    self: Tracer, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True
) -> Any:
    """Return the value as another type: float64 without change, bool as a plain mask, complex as a pair.

    Raises  NoRule for other floating-point types; TraceEnded for types without a derivative.
    """
    wanted = np.dtype(dtype)
    if wanted == np.float64:
        return bind(np.positive, self) if copy else self
    if wanted == np.bool_:
        return bind(np.not_equal, self, 0)
    if wanted == np.complex128:
        return bind(complex, self)
    if wanted.kind in "fc":
        raise NoRule(
            f"astype({wanted.name}) rounds to fewer or more digits than float64", do="leave out the conversion"
        )
    raise TraceEnded(f"astype({wanted.name}) of a traced value loses its derivative", do="leave out the conversion")


def flatten(self: Tracer, order: str = "C") -> Any:
    """Return a copy of the entries as a vector."""
    return bind(np.reshape, self, -1, order=order)


def copy(self: Tracer, order: str = "C") -> Any:
    """Return a copy of the value."""
    return bind(np.positive, self)


def item(self: Tracer, *index: Any) -> Any:
    """Return one entry, still traced: the only one, or the one at a flat position or at an index.

    Raises  ValueError if there is no index and the size is not 1.
    """
    if not index and self.size != 1:
        raise ValueError("can only convert an array of size 1 to a Python scalar")
    at = frozen(index[0] if len(index) == 1 else index)
    if isinstance(at, tuple) and at:
        return bind(operator.getitem, self, at)
    return bind(operator.getitem, bind(np.reshape, self, -1), at if index else 0)


def tolist(self: Tracer) -> Any:
    """Return the entries, still traced, in nested lists."""
    return [tolist(part) for part in self] if self.shape else self


def fill(self: Tracer, value: Value) -> None:
    """Write one value into every entry."""
    write(self, ..., value)


def sort(self: Tracer, axis: int = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> None:
    """Sort in place."""
    write(self, ..., bind(np.sort, self, axis, kind, order))


def partition(self: Tracer, kth: Any, axis: int = -1, kind: str = "introselect", order: Any = None) -> None:
    """Partition in place."""
    write(self, ..., bind(np.partition, self, kth, axis, kind, order))


def compress(self: Tracer, condition: Any, axis: Any = None, out: Any = None) -> Any:
    """Return the entries, or slices along an axis, that a condition selects."""
    return call(np.compress, condition, self, axis=axis, out=out)


def same_memory(self: Tracer, dtype: Any = None, type: Any = None) -> Any:
    """Return a view of the whole array.

    Raises  NoRule for a dtype other than float64, and for another class of arrays.
    """
    if inspect.isclass(dtype) and issubclass(dtype, np.ndarray) and dtype is not np.ndarray:
        says = f"an array as np.{dtype.__name__} is not traced: its operators mean other operations"
        raise NoRule(says, do="keep the array, and write @ for products of matrices")
    if dtype is not None and dtype not in (np.ndarray, float) and np.dtype(dtype) != np.float64:
        raise NoRule("x.view() of another dtype reinterprets bytes", do="leave it out")
    return self[...]


def _refused(name: str, why: str) -> Callable[..., NoReturn]:
    def method(self: Tracer, *args: Any, **kwargs: Any) -> NoReturn:
        raise NoRule(f"x.{name}() has no derivative rule: it {why}", do="leave it out of the function")

    return method


def _set_flat(self: Tracer, value: Any) -> None:
    write_flat(self, np.arange(self.size), np.resize(value, self.size) if shapes.shape(value) else value)


ATTRIBUTES: dict[str, property] = {
    "T": property(lambda self: view(self, calling(np.transpose)), doc="The array with its axes reversed."),
    "mT": property(lambda self: view(self, calling(np.swapaxes, -1, -2)), doc="The matrices transposed."),
    "real": property(lambda self: view(self, calling(np.real)), doc="The array itself."),
    "imag": property(lambda self: bind(np.imag, self), doc="Zeros."),
    "flat": property(Flat, _set_flat, doc="The entries in a row."),
    "itemsize": property(lambda self: self.dtype.itemsize, doc="Bytes of an entry."),
    "nbytes": property(lambda self: self.size * self.dtype.itemsize, doc="Bytes of all entries."),
    "base": property(lambda self: storage(self).base, doc="The array whose memory this is a view of."),
    "flags": property(lambda self: positions(self)[1].flags, doc="How the memory lies and may be used."),
    "strides": property(lambda self: positions(self)[1].strides, doc="Bytes from entry to entry along each axis."),
    "device": property(lambda self: "cpu", doc="Where the memory is."),
}


def _install() -> None:
    for name in SAME_NAME:
        setattr(Tracer, name, _same_name(name))
    for method in (reshape, transpose, astype, flatten, copy, item, tolist, fill, sort, partition, compress):
        setattr(Tracer, method.__name__, method)
    setattr(Tracer, "view", same_memory)  # noqa: B010
    for name, attribute in ATTRIBUTES.items():
        setattr(Tracer, name, attribute)
    for name, why in REFUSED.items():
        setattr(Tracer, name, _refused(name, why))


_install()
