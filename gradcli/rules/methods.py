"""Array methods and attributes of traced values: the same as those of numpy's arrays."""

import functools
import inspect
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gradcli.errors import NoRule, TraceEnded
from gradcli.rules.kinds import as_booleans, is_given, make_refusal, merge_axes_last, require_float64
from gradcli.rules.shaping import GETITEM, as_value, write_flat
from gradcli.tracing import shapes
from gradcli.tracing.primitive import METHODS, Value, bind
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import (
    Tracer,
    call_function,
    fix_arguments,
    freeze_index,
    make_view,
    positions_in_memory,
    storage_of,
    store_result,
    write_at,
)

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
        at = np.arange(len(self))[freeze_index(index)]
        bind(np.put, self.base, at, value)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        rows = tuple(bind(np.reshape, x.base, -1) if isinstance(x, Flat) else x for x in args)
        return function(*rows, **kwargs)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        rows = (bind(np.reshape, x.base, -1) if isinstance(x, Flat) else x for x in inputs)
        return getattr(ufunc, method)(*rows, **kwargs)


def _numpy_method(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def method(self: Tracer, *args: Any, **kwargs: Any) -> Any:
        return call_function(function, self, *args, **kwargs)

    method.__doc__ = f"Return np.{name} of the array."
    return method


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


def item(self: Tracer, *index: Any) -> Any:
    """Return one entry, still traced: the only one, or the one at a flat position or at an index.

    Raises  ValueError if there is no index and the size is not 1.
    """
    if not index and self.size != 1:
        raise ValueError("can only convert an array of size 1 to a Python scalar")
    at = freeze_index(index[0] if len(index) == 1 else index)
    if isinstance(at, tuple) and at:
        return bind(operator.getitem, self, at)
    return bind(operator.getitem, bind(np.reshape, self, -1), at if index else 0)


def tolist(self: Tracer) -> Any:
    """Return the entries, still traced, in nested lists."""
    return [tolist(part) for part in self] if self.shape else self


def view(self: Tracer, dtype: Any = None, type: Any = None) -> Any:
    """Return a view of the whole array.

    Raises  NoRule for a dtype other than float64, and for another class of arrays.
    """
    if inspect.isclass(dtype) and issubclass(dtype, np.ndarray) and dtype is not np.ndarray:
        says = f"an array as np.{dtype.__name__} is not traced: its operators mean other operations"
        raise NoRule(says, do="keep the array, and write @ for products of matrices")
    if dtype is not None and dtype not in (np.ndarray, float) and np.dtype(dtype) != np.float64:
        raise NoRule("x.view() of another dtype reinterprets bytes", do="leave it out")
    return self[...]


ONE_LINE: dict[str, Callable[..., Any]] = {  # sort, partition and fill write into the array
    "reshape": lambda self, *shape, order="C", copy=None:
        make_view(self, fix_arguments(np.reshape, shape[0] if len(shape) == 1 else shape, order=order)),
    "transpose": lambda self, *axes:
        make_view(self, fix_arguments(np.transpose, (axes[0] if len(axes) == 1 else axes) or None)),
    "flatten": lambda self, order="C": bind(np.reshape, self, -1, order=order),
    "copy": lambda self, order="C": bind(np.positive, self),
    "compress": lambda self, condition, axis=None, out=None: call_function(np.compress, condition, self, axis=axis, out=out),
    "fill": lambda self, value: write_at(self, ..., value),
    "sort": lambda self, axis=-1, kind=None, order=None, *, stable=None:
        write_at(self, ..., bind(np.sort, self, axis, kind, order)),
    "partition": lambda self, kth, axis=-1, kind="introselect", order=None:
        write_at(self, ..., bind(np.partition, self, kth, axis, kind, order)),
}  # fmt: skip
ATTRIBUTES: dict[str, property] = {
    "T": property(lambda self: make_view(self, fix_arguments(np.transpose)), doc="The array with its axes reversed."),
    "mT": property(lambda self: make_view(self, fix_arguments(np.swapaxes, -1, -2)), doc="The matrices transposed."),
    "real": property(lambda self: make_view(self, fix_arguments(np.real)), doc="The array itself."),
    "imag": property(lambda self: bind(np.imag, self), doc="Zeros."),
    "flat": property(
        Flat,
        lambda self, x: write_flat(self, np.arange(self.size), np.resize(x, self.size) if shapes.shape(x) else x),
        doc="The entries in a row.",
    ),
    "itemsize": property(lambda self: self.dtype.itemsize, doc="Bytes of an entry."),
    "nbytes": property(lambda self: self.size * self.dtype.itemsize, doc="Bytes of all entries."),
    "base": property(lambda self: storage_of(self).base, doc="The array whose memory this is a view of."),
    "flags": property(lambda self: positions_in_memory(self)[1].flags, doc="How the memory lies and may be used."),
    "strides": property(
        lambda self: positions_in_memory(self)[1].strides, doc="Bytes from entry to entry along each axis."
    ),
    "device": property(lambda self: "cpu", doc="Where the memory is."),
}


def _install_methods() -> None:
    for name in SAME_NAME:
        setattr(Tracer, name, _numpy_method(name))
    for method in (astype, item, tolist, view):
        setattr(Tracer, method.__name__, method)
    for name, attribute in (ONE_LINE | ATTRIBUTES).items():
        setattr(Tracer, name, attribute)
    for name, why in REFUSED.items():
        says = f"x.{name}() has no derivative rule: it {why}"
        setattr(Tracer, name, make_refusal(says, "leave it out of the function"))


_install_methods()


# Handlers of the options and methods of every ufunc: where=, out=, reduce, accumulate, outer, at, reduceat.

_REDUCTIONS: dict[Any, Callable[..., Any]] = {
    np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min, np.logical_or: np.any, np.logical_and: np.all,
}  # fmt: skip
_ACCUMULATIONS: dict[Any, Callable[..., Any]] = {np.add: np.cumsum, np.multiply: np.cumprod}
_IGNORED = ("casting", "order", "subok")
Options = dict[str, Any]


def _take_options(ufunc: Any, options: Options, *names: str) -> list[Any]:
    """Return the named options, None where one is not given.

    Raises  NoRule if any other option is given.
    """
    found = {name: value for name, value in options.items() if is_given(value) and name not in _IGNORED}
    require_float64(ufunc.__name__, found.pop("dtype", None))
    taken = [found.pop(name, None) for name in names]
    if found:
        raise NoRule(f"np.{ufunc.__name__} with {', '.join(sorted(found))}= has no derivative rule", do="leave it out")
    return taken


def _store_output(out: Any, y: Value) -> Value:
    return y if out is None or (isinstance(out, tuple) and out[0] is None) else store_result(out, y)


def call_ufunc(ufunc: Any, inputs: Sequence[Value], options: Options) -> Value:
    """Return the ufunc of the entries that where= selects; other entries keep their values in out=.

    Raises  NoRule for where= without out=, or for an option that has no rule.
    """
    if ufunc.signature is not None:
        out, *rest = _take_options(ufunc, options, "out", "axis", "axes", "keepdims")
        names = {name: value for name, value in zip(("axis", "axes", "keepdims"), rest, strict=True) if is_given(value)}
        return _store_output(out, bind(ufunc, *inputs, **names))
    out, where = _take_options(ufunc, options, "out", "where")
    if where is None or where is True:
        return _store_output(out, bind(ufunc, *inputs))
    if out is None or len(out) != 1:
        raise NoRule(
            f"np.{ufunc.__name__} with where= and no out= leaves entries undefined", do="add out=np.zeros_like(x)"
        )
    target = out[0]
    where = np.broadcast_to(as_booleans(where), shape(target))
    parts = [np.broadcast_to(x, shape(target))[where] for x in inputs]  # excluded entries must not affect slopes
    write_at(target, where, bind(ufunc, *parts))
    return target


def reduce_ufunc(ufunc: Any, inputs: Sequence[Value], options: Options) -> Value:
    """Return the reduction by the ufunc along an axis, by default the first, from left to right.

    Raises  ValueError for several axes if the ufunc is not reorderable; NoRule for where= without a rule.
    """
    (a,) = inputs
    axis, out, keepdims, initial, where = _take_options(
        ufunc, {"axis": 0} | options, "axis", "out", "keepdims", "initial", "where"
    )
    known = {"keepdims": bool(keepdims), "initial": initial, "where": where}
    if ufunc in _REDUCTIONS:
        wanted = {name: value for name, value in known.items() if value is not None}
        return _store_output(out, bind(_REDUCTIONS[ufunc], a, axis=axis, **wanted))
    if where is not None and where is not True:
        raise NoRule(f"np.{ufunc.__name__}.reduce with where= has no derivative rule", do="select the entries first")
    over = shapes.normalise_axes(axis, len(shape(a)))
    if len(over) > 1 and ufunc.identity is None:
        raise ValueError(
            f"reduction operation '{ufunc.__name__}' is not reorderable, so at most one axis may be specified"
        )
    rows = merge_axes_last(a, over)
    start = initial if initial is not None else ufunc.identity if not shape(rows)[-1] or ufunc is np.hypot else None
    y = _fold_left(ufunc, rows, start)
    return _store_output(out, shapes.restore_reduced_axes(y, over, a) if keepdims else y)


def _fold_left(ufunc: Any, rows: Value, start: Any) -> Value:
    """Return the reduction by the ufunc along the last axis of `rows`, from left to right."""
    columns = [rows[..., k] for k in range(shape(rows)[-1])]
    if start is not None:
        outer = shape(rows)[:-1]
        columns.insert(0, np.broadcast_to(np.float64(start), outer) if outer else np.float64(start))
    if not columns:
        raise ValueError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity")
    return functools.reduce(functools.partial(bind, ufunc), columns)


def accumulate_ufunc(ufunc: Any, inputs: Sequence[Value], options: Options) -> Value:
    """Return all partial results of the reduction along an axis, by default the first."""
    (a,) = inputs
    axis, out = _take_options(ufunc, {"axis": 0} | options, "axis", "out")
    if ufunc in _ACCUMULATIONS:
        return _store_output(out, bind(_ACCUMULATIONS[ufunc], a, axis=axis))
    rows = np.moveaxis(a, axis, 0)
    parts = [rows[0]] if shape(rows)[0] else []
    for k in range(1, shape(rows)[0]):
        parts.append(bind(ufunc, parts[-1], rows[k]))
    return _store_output(out, np.moveaxis(np.stack(parts), 0, axis) if parts else np.positive(a))


def outer(ufunc: Any, inputs: Sequence[Value], options: Options) -> Value:
    """Return the ufunc of every pair of entries."""
    a, b = inputs
    grown = np.reshape(a, shape(a) + (1,) * len(shape(b))) if shape(b) else a
    return call_ufunc(ufunc, (grown, b), options) if options else bind(ufunc, grown, b)


def apply_at(ufunc: Any, inputs: Sequence[Value], options: Options) -> None:
    """Apply the ufunc in place at positions, once for each time a position occurs."""
    a, index, *others = inputs
    if not isinstance(a, Tracer):
        write_at(a, index, None)
    flat = np.arange(shapes.size(a)).reshape(shape(a))[freeze_index(index)]
    spread = [np.reshape(np.broadcast_to(as_value(b), np.shape(flat)), -1) for b in others]
    where = np.ravel(flat)
    order = np.argsort(where, kind="stable")
    turn = np.empty(where.size, dtype=int)
    turn[order] = np.arange(where.size) - np.searchsorted(where[order], where[order])  # earlier occurrences
    for number in range(turn.max(initial=-1) + 1):
        now = np.flatnonzero(turn == number)
        places = np.unravel_index(where[now], shape(a))
        write_at(a, places, bind(ufunc, GETITEM(a, index=places), *(GETITEM(b, index=now) for b in spread)))


def reduce_slices(ufunc: Any, inputs: Sequence[Value], options: Options) -> Value:
    """Return reductions of the slices that begin at each index and end at the next."""
    a, indices = inputs
    axis, out = _take_options(ufunc, {"axis": 0} | options, "axis", "out")
    rows, starts = np.moveaxis(a, axis, 0), [int(k) for k in indices]
    ends = [*starts[1:], shape(rows)[0]]
    parts = [
        reduce_ufunc(ufunc, (rows[start:end],), {}) if start < end else rows[start]
        for start, end in zip(starts, ends, strict=True)
    ]
    return _store_output(out, np.moveaxis(np.stack(parts), 0, axis))


METHODS |= {
    "__call__": call_ufunc, "reduce": reduce_ufunc, "accumulate": accumulate_ufunc, "outer": outer, "at": apply_at,
    "reduceat": reduce_slices,
}  # fmt: skip
