"""Primitives that move entries and change none: reshape, index, join, select, and writes into arrays."""

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.errors import NoRule
from gradcli.rules.kinds import as_booleans, jointly_linear, linear
from gradcli.tracing import shapes
from gradcli.tracing.primitive import MOVE, SCATTERED, VIEWS, Primitive, Value, handle, handles
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import Dotted, LinearForm, Tracer, freeze_index, write_at


def write_flat(a: Value, at: Any, v: Value) -> None:
    """Write values at flat positions of `a`, one for each position."""
    write_at(a, np.unravel_index(at, shape(a)) if shape(a) else (), v)


# numpy's function, and which argument the array is, by position and by name
MOVES: dict[Callable[..., Any], tuple[int, str]] = {
    np.roll:            (0, "a"),
    np.tile:            (0, "A"),
    np.repeat:          (0, "a"),
    np.resize:          (0, "a"),
    np.take:            (0, "a"),
    np.take_along_axis: (0, "arr"),
    np.delete:          (0, "arr"),
    np.compress:        (1, "a"),
    np.extract:         (1, "arr"),
    np.lib.stride_tricks.sliding_window_view: (0, "x"),
}  # fmt: skip


def flat_positions(x: Value, first: int = 0) -> Any:
    """Return the positions of the entries of `x` in C order, counted from `first`, in the shape of `x`."""
    return np.arange(first, first + shapes.size(x)).reshape(shape(x))


def _put(x: Value, v: Value, *, index: Any) -> Value:
    """Return a copy of `x` with `v` written at `index`."""
    y = np.array(x, dtype=np.result_type(x, v))
    y[index] = v[()] if type(v) is np.ndarray and v.ndim == 0 else v
    return y


def _scatter(v: Value, *, index: Any, into: tuple[int, ...]) -> Value:
    """Return zeros of shape `into` with `v` added at `index`, repeated positions summed."""
    v = np.asarray(v)
    y = np.zeros(into, dtype=v.dtype)
    if is_basic_index(index):
        y[index] = v
    else:
        np.add.at(y, index, v)
    return y


def add_at(y: Value, index: Any, v: Value) -> bool:
    """Add `v` to `y` at an index, in place, and return True; False, and nothing, where either is no plain float64."""
    if (
        type(y) is not np.ndarray
        or y.dtype != np.float64
        or type(v) not in (np.ndarray, np.float64)
        or v.dtype != np.float64
    ):
        return False
    if is_basic_index(index):
        y[index] += v
    else:
        np.add.at(y, index, v)
    return True


def is_basic_index(index: Any) -> bool:
    """Return whether an index consists of integers, slices, None and `...`, so that it selects no entry twice."""
    parts = index if type(index) is tuple else (index,)
    return all(part is None or part is ... or type(part) in (int, slice) for part in parts)


def _put_transpose(i: int, ybar: Value, x: Value, v: Value, *, index: Any) -> Value:
    if i == 0:
        return PUT(ybar, np.float64(0), index=index)
    written = GETITEM(ybar, index=index)
    if any(isinstance(part, list | np.ndarray) for part in (index if isinstance(index, tuple) else (index,))):
        turn = flat_positions(written)
        last = np.full(shape(x), -1)
        last[index] = turn
        counts = last[index] == turn  # of the values that were written to one position, the last
        written = written if np.all(counts) else SELECT(counts, written, np.float64(0))
    return shapes.unbroadcast(written, v)


def _join_transpose(i: int, ybar: Value, *xs: Value, axis: int) -> Value:
    start = sum(shape(x)[axis] for x in xs[:i])
    index = (slice(None),) * axis + (slice(start, start + shape(xs[i])[axis]),)
    return GETITEM(ybar, index=index)


def _select_transpose(i: int, ybar: Value, condition: Any, a: Value, b: Value) -> Value:
    kept = SELECT(condition, ybar, np.float64(0)) if i == 1 else SELECT(condition, np.float64(0), ybar)
    return shapes.unbroadcast(kept, (condition, a, b)[i])


def _reshape(x: Value, *, to: tuple[int, ...]) -> Value:
    y: Any = np.reshape(x, to)
    return y if to else y[()]


# fmt: off
#                             numpy                                     transpose: cotangent of y -> cotangent of x
GETITEM: Primitive   = linear(lambda x, *, index: x[index],             lambda ybar, x, *, index: SCATTER(ybar, index=index, into=shape(x)), name="getitem", cost=MOVE)
SCATTER: Primitive   = linear(_scatter,                                 lambda ybar, v, *, index, into: GETITEM(ybar, index=index), name="scatter", cost=SCATTERED)
RESHAPE: Primitive   = linear(_reshape,                                 lambda ybar, x, *, to: RESHAPE(ybar, to=shape(x)), name="reshape", cost=MOVE)
TRANSPOSE: Primitive = linear(lambda x, *, axes: np.transpose(x, axes), lambda ybar, x, *, axes: TRANSPOSE(ybar, axes=tuple(np.argsort(axes).tolist())), name="transpose", cost=MOVE)
BROADCAST            = linear(lambda x, *, to: np.broadcast_to(x, to),  lambda ybar, x, *, to: shapes.unbroadcast(ybar, x), name="broadcast_to", cost=MOVE)
JOIN   = jointly_linear(lambda *xs, axis: np.concatenate(xs, axis=axis), _join_transpose,   name="concatenate", cost=MOVE)
PUT    = jointly_linear(_put,                                            _put_transpose,    name="put", cost=MOVE)
SELECT = jointly_linear(lambda condition, a, b: np.where(condition, a, b)[()], _select_transpose, name="where", cost=MOVE, leading=1)  # type: ignore[call-overload]
# fmt: on


@handles(operator.getitem)
def getitem(x: Value, index: Any) -> Value:
    """Return x[index]; the index is a constant of the recorded program.

    Raises  NoRule if the index is traced.
    """
    return GETITEM(x, index=freeze_index(index))


@handles(operator.setitem)
def setitem(x: Value, index: Any, v: Value) -> Value:
    """Return `x` with `v` written at `index`."""
    return PUT(x, as_value(v), index=index)


@handles(np.asarray, np.asanyarray, np.ascontiguousarray)
def as_value(x: Any, dtype: Any = None) -> Value:
    """Return nested lists, with or without tracers in them, as one value."""
    if isinstance(x, LinearForm | Dotted):
        return x.traced()
    if not isinstance(x, list | tuple):
        return x
    parts = [as_value(part) for part in x]
    return stack(parts) if any(isinstance(part, Tracer) for part in parts) else np.asarray(x)


@handles(np.reshape)
def reshape(a: Value, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None) -> Value:
    a, wanted = as_value(a), shape if newshape is None else newshape
    wanted = (wanted,) if isinstance(wanted, int | np.integer) else tuple(int(n) for n in wanted)
    to = np.empty(shapes.shape(a), dtype=np.int8).reshape(wanted).shape
    if order == "F" and len(shapes.shape(a)) > 1:
        return TRANSPOSE(RESHAPE(transpose(a), to=to[::-1]), axes=tuple(reversed(range(len(to)))))
    if order == "F" and len(to) > 1:
        return TRANSPOSE(RESHAPE(a, to=to[::-1]), axes=tuple(reversed(range(len(to)))))
    if order not in ("C", "F") and len(shapes.shape(a)) > 1:
        raise NoRule(
            f"reshape with order={order!r} depends on how the array lies in memory", do="say order='C' or order='F'"
        )
    return RESHAPE(a, to=to)


@handles(np.squeeze)
def squeeze(a: Value, axis: Any = None) -> Value:
    drop = axis if axis is None else shapes.normalise_axes(axis, len(shape(a)))
    if drop is not None and any(shape(a)[k] != 1 for k in drop):
        raise ValueError("cannot select an axis to squeeze out which has size not equal to one")
    return RESHAPE(a, to=tuple(n for k, n in enumerate(shape(a)) if not (n == 1 if drop is None else k in drop)))


@handles(np.expand_dims)
def expand_dims(a: Value, axis: Any) -> Value:
    many = (axis,) if isinstance(axis, int | np.integer) else tuple(axis)
    ndim = len(shape(a)) + len(many)
    new = shapes.normalise_axes(many, ndim)
    rest = iter(shape(a))
    return RESHAPE(a, to=tuple(1 if k in new else next(rest) for k in range(ndim)))


@handles(np.transpose, np.permute_dims)
def transpose(a: Value, axes: Any = None) -> Value:
    a = as_value(a)
    ndim = len(shape(a))
    order = tuple(reversed(range(ndim))) if axes is None else tuple(shapes.normalise_axis(k, ndim) for k in axes)
    if sorted(order) != list(range(ndim)):
        raise ValueError("axes don't match array")
    return TRANSPOSE(a, axes=order)


@handles(np.swapaxes)
def swapaxes(a: Value, axis1: int, axis2: int) -> Value:
    order = list(range(len(shape(a))))
    i, j = shapes.normalise_axis(axis1, len(order)), shapes.normalise_axis(axis2, len(order))
    order[i], order[j] = order[j], order[i]
    return TRANSPOSE(a, axes=tuple(order))


@handles(np.moveaxis)
def moveaxis(a: Value, source: Any, destination: Any) -> Value:
    ndim = len(shape(a))
    sources, targets = ([shapes.normalise_axis(k, ndim) for k in np.atleast_1d(many)] for many in (source, destination))
    order = [k for k in range(ndim) if k not in sources]
    for target, moved in sorted(zip(targets, sources, strict=True)):
        order.insert(target, moved)
    return TRANSPOSE(a, axes=tuple(order))


def _booleans_as_floats(x: Value) -> Value:
    """Return plain booleans as floats, which can be joined with traced values."""
    return x if isinstance(x, Tracer) or np.asarray(x).dtype != bool else np.asarray(x) * 1.0


@handles(np.concatenate)
def concatenate(arrays: Sequence[Value], axis: int | None = 0, *, dtype: Any = None, casting: Any = None) -> Value:
    parts = [_booleans_as_floats(as_value(x)) for x in arrays]
    if axis is None:
        parts, axis = [np.reshape(x, -1) for x in parts], 0
    if not all(shape(x) for x in parts):
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    return JOIN(*parts, axis=shapes.normalise_axis(axis, len(shape(parts[0]))))


@handles(np.stack)
def stack(arrays: Sequence[Value], axis: int = 0, *, dtype: Any = None, casting: Any = None) -> Value:
    parts = [_booleans_as_floats(as_value(x)) for x in arrays]
    if len({shape(x) for x in parts}) > 1:
        raise ValueError("all parts must have the same shape: " + ", ".join(str(shape(x)) for x in parts))
    k = shapes.normalise_axis(axis, len(shape(parts[0])) + 1)
    return JOIN(*[np.expand_dims(x, k) for x in parts], axis=k)


def _at_least_ndim(ndim: int, *arys: Value) -> Any:
    if len(arys) != 1:
        return tuple(_at_least_ndim(ndim, x) for x in arys)
    x = as_value(arys[0])
    have = shape(x)
    if len(have) >= ndim:
        return x
    grown = {0: (1,) * ndim, 1: {2: (1, -1), 3: (1, -1, 1)}.get(ndim), 2: (*have, 1)}[len(have)]
    return np.reshape(x, grown)


@handles(np.hstack)
def hstack(tup: Sequence[Value], *, dtype: Any = None, casting: Any = None) -> Value:
    parts = [_at_least_ndim(1, x) for x in tup]
    return np.concatenate(parts, axis=0 if len(shape(parts[0])) == 1 else 1)


@handles(np.column_stack)
def column_stack(tup: Sequence[Value]) -> Value:
    parts = [as_value(x) for x in tup]
    return np.concatenate([x if len(shape(x)) > 1 else np.reshape(x, (-1, 1)) for x in parts], axis=1)


@handles(np.where)
def where(condition: Any, x: Value = None, y: Value = None) -> Value:
    chosen = as_booleans(as_value(condition))  # in the expression language, a comparison gives a number
    if x is None and y is None:
        return np.nonzero(chosen)
    return SELECT(chosen, _booleans_as_floats(as_value(x)), _booleans_as_floats(as_value(y)))


@handles(np.diagonal)
def diagonal(a: Value, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    ndim = len(shape(a))
    last = moveaxis(a, (axis1, axis2), (ndim - 2, ndim - 1))
    rows, columns = shape(last)[-2:]
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    k = np.arange(count)
    return GETITEM(last, index=(..., k - min(offset, 0), k + max(offset, 0)))


@handles(np.diag)
def diag(v: Value, k: int = 0) -> Value:
    v = as_value(v)
    if len(shape(v)) == 2:
        return np.diagonal(v, k)
    if len(shape(v)) != 1:
        raise ValueError("Input must be 1- or 2-d.")
    n = shape(v)[0] + abs(k)
    at = np.arange(shape(v)[0])
    return SCATTER(v, index=(at - min(k, 0), at + max(k, 0)), into=(n, n))


@handles(np.flip)
def flip(m: Value, axis: Any = None) -> Value:
    over = shapes.normalise_axes(axis, len(shape(m)))
    return GETITEM(m, index=tuple(slice(None, None, -1 if k in over else 1) for k in range(len(shape(m)))))


def _lower_mask(m: Value, k: int) -> Any:
    """Return a mask of the entries on or below the k-th diagonal of a matrix."""
    rows, columns = (shape(m) * 2 if len(shape(m)) == 1 else shape(m))[-2:]
    return np.tri(rows, columns, k=k, dtype=bool)


VIEWS |= {
    np.reshape, np.ravel, np.transpose, np.permute_dims, np.swapaxes, np.moveaxis, np.squeeze, np.expand_dims, np.flip,
    np.diagonal, np.broadcast_to,
}  # fmt: skip


# Functions that only move entries: numpy is called on an array of positions to find where each entry goes.


def as_vector(x: Value) -> Value:
    """Return a copy of the entries of `x` as a vector."""
    return RESHAPE(x, to=(shapes.size(x),))


def _handler_by_positions(function: Callable[..., Any], place: int, name: str) -> Callable[..., Value]:
    def move(*args: Any, **kwargs: Any) -> Value:
        given: dict[Any, Any] = dict(enumerate(args)) | kwargs
        key = name if name in given else place
        x = as_value(given[key])
        given[key] = flat_positions(x)
        rest: dict[Any, Any] = {k: given[k] if k == key else freeze_index(given[k]) for k in given}
        places = [rest.pop(k) for k in range(len(args))]
        return GETITEM(as_vector(x), index=function(*places, **rest))

    move.__wrapped__ = function  # type: ignore[attr-defined]  # its signature is numpy's
    move.__doc__ = f"Return what np.{function.__name__} returns, by moving entries."
    return move


for moving, (argument, called) in MOVES.items():
    handles(moving)(_handler_by_positions(moving, argument, called))


@handles(np.insert)
def insert(arr: Value, obj: Any, values: Value, axis: int | None = None) -> Value:
    a, v = as_value(arr), as_value(values)
    at = np.insert(flat_positions(a), freeze_index(obj), flat_positions(v, shapes.size(a)), axis)
    return GETITEM(np.concatenate([as_vector(a), as_vector(v)]), index=at)


_PAD_MODES = ("edge", "reflect", "symmetric", "wrap")


@handles(np.pad)
def pad(array: Value, pad_width: Any, mode: Any = "constant", **options: Any) -> Value:
    """Return the array padded with constants, or with its own entries.

    Raises  NoRule for modes other than 'constant', 'edge', 'reflect', 'symmetric' and 'wrap', and for odd reflections.
    """
    x = as_value(array)
    if mode == "constant":
        v = as_value(options.pop("constant_values", 0.0))
        outside = flat_positions(v, shapes.size(x))
        at = np.pad(flat_positions(x), freeze_index(pad_width), mode, constant_values=outside, **options)
        return GETITEM(np.concatenate([as_vector(x), as_vector(v)]), index=at)
    if mode not in _PAD_MODES or options.get("reflect_type", "even") != "even":
        said = f"mode={mode!r}" if mode not in _PAD_MODES else f"reflect_type={options['reflect_type']!r}"
        raise NoRule(
            f"pad with {said} has no derivative rule",
            do="modes with one: 'constant', " + ", ".join(map(repr, _PAD_MODES)),
        )
    return GETITEM(as_vector(x), index=np.pad(flat_positions(x), freeze_index(pad_width), mode, **options))


def _split(function: Any, ary: Value, indices_or_sections: Any, axis: int) -> list[Value]:
    """Return slices along an axis, one for each run of positions that numpy's function returns."""
    k = shapes.normalise_axis(axis, len(shape(ary)))
    runs = function(np.arange(shape(ary)[k]), freeze_index(indices_or_sections))
    ends = [(int(run[0]), int(run[-1]) + 1) if len(run) else (0, 0) for run in runs]
    return [ary[(*(slice(None),) * k, slice(*end))] for end in ends]


@handles(np.split)
def split(ary: Value, indices_or_sections: Any, axis: int = 0) -> list[Value]:
    return _split(np.split, ary, indices_or_sections, axis)


@handles(np.vsplit)
def vsplit(ary: Value, indices_or_sections: Any) -> Any:
    if len(shape(ary)) < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return split(ary, indices_or_sections, 0)


@handles(np.dsplit)
def dsplit(ary: Value, indices_or_sections: Any) -> Any:
    if len(shape(ary)) < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return split(ary, indices_or_sections, 2)


@handles(getattr(np, "unstack", None))
def unstack(x: Value, /, *, axis: int = 0) -> tuple[Value, ...]:
    k = shapes.normalise_axis(axis, len(shape(x)))
    return tuple(x[(*(slice(None),) * k, n)] for n in range(shape(x)[k]))


@handles(np.rollaxis)
def rollaxis(a: Value, axis: int, start: int = 0) -> Value:
    ndim = len(shape(a))
    labels = np.rollaxis(np.empty(tuple(range(1, ndim + 1))), axis, start).shape  # axis k has length k + 1
    return np.transpose(a, tuple(n - 1 for n in labels))


@handles(np.rot90)
def rot90(m: Value, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Value:
    i, j = (shapes.normalise_axis(axis, len(shape(m))) for axis in axes)
    if i == j:
        raise ValueError("Axes must be different.")
    turns = k % 4
    if turns in (0, 2):
        return m[...] if turns == 0 else np.flip(np.flip(m, i), j)
    order = list(range(len(shape(m))))
    order[i], order[j] = order[j], order[i]
    return np.transpose(np.flip(m, j), order) if turns == 1 else np.flip(np.transpose(m, order), j)


@handles(np.broadcast_arrays)
def broadcast_arrays(*args: Value, subok: bool = False) -> tuple[Value, ...]:
    values = [as_value(x) for x in args]
    to = np.broadcast_shapes(*(shape(x) for x in values))
    return tuple(x if shape(x) == to else np.broadcast_to(x, to) for x in values)


@handles(np.meshgrid)
def meshgrid(*xi: Value, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Value, ...]:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    rows = [np.reshape(as_value(x), -1) for x in xi]
    axes = list(range(len(rows)))
    if indexing == "xy" and len(rows) > 1:
        axes[0], axes[1] = 1, 0
    grown = [
        np.reshape(row, tuple(-1 if k == axis else 1 for k in range(len(rows))))
        for row, axis in zip(rows, axes, strict=True)
    ]
    spread = grown if sparse else broadcast_arrays(*grown)
    return tuple(np.positive(x) if copy else x for x in spread)


@handles(np.block)
def block(arrays: Any) -> Value:
    """Return nested lists of blocks as one array: the innermost lists are joined along the last axis."""
    depth = _nesting_depth(arrays)
    ndim = max([depth, *(len(shape(x)) for x in _flatten_nesting(arrays))])
    return np.positive(_join_blocks(arrays, depth, ndim))


def _nesting_depth(arrays: Any) -> int:
    return 1 + _nesting_depth(arrays[0]) if isinstance(arrays, list) else 0


def _flatten_nesting(arrays: Any) -> list[Any]:
    return [leaf for part in arrays for leaf in _flatten_nesting(part)] if isinstance(arrays, list) else [arrays]


def _join_blocks(arrays: Any, depth: int, ndim: int) -> Value:
    if not isinstance(arrays, list):
        have = shape(arrays)
        return np.reshape(arrays, (1,) * (ndim - len(have)) + have)
    return np.concatenate([_join_blocks(part, depth - 1, ndim) for part in arrays], axis=ndim - depth)


@handles(np.kron)
def kron(a: Value, b: Value) -> Value:
    a, b = as_value(a), as_value(b)
    ndim = max(len(shape(a)), len(shape(b)))
    left, right = ((1,) * (ndim - len(shape(x))) + shape(x) for x in (a, b))
    spread_left = tuple(n for size in left for n in (size, 1))
    spread_right = tuple(n for size in right for n in (1, size))
    product = np.reshape(a, spread_left) * np.reshape(b, spread_right)
    return np.reshape(product, tuple(m * n for m, n in zip(left, right, strict=True)))


def is_traced(x: Any) -> bool:
    """Return whether a value, or any value in nested lists, is traced."""
    return any(map(is_traced, x)) if isinstance(x, list | tuple) else isinstance(x, Tracer)


# Functions that write into an array; every array that shares its memory sees the change.


def _repeat_entries(v: Value, count: int) -> Value:
    """Return `count` entries of `v`, starting again from the first if there are fewer."""
    v = as_value(v)
    if not shape(v):
        return v
    return GETITEM(as_vector(v), index=np.arange(count) % shapes.size(v))


@handles(np.copyto)
def copyto(dst: Value, src: Value, casting: str = "same_kind", where: Any = True) -> None:
    if where is True:
        write_at(dst, ..., src)
        return
    mask = np.broadcast_to(as_booleans(where), shape(dst))
    write_at(dst, mask, np.broadcast_to(as_value(src), shape(dst))[mask])


@handles(np.put)
def put(a: Value, ind: Any, v: Value, mode: str = "raise") -> None:
    at = np.ravel(np.take(np.arange(shapes.size(a)), freeze_index(ind), mode=mode))  # type: ignore[call-overload]
    write_flat(a, at, _repeat_entries(v, at.size))


@handles(np.place)
def place(arr: Value, mask: Any, vals: Value) -> None:
    at = np.flatnonzero(np.broadcast_to(as_booleans(mask), shape(arr)))
    if at.size:
        write_flat(arr, at, _repeat_entries(vals, at.size))


@handles(np.putmask)
def putmask(a: Value, mask: Any, values: Value) -> None:
    at = np.flatnonzero(np.broadcast_to(as_booleans(mask), shape(a)))
    v = as_value(values)
    write_flat(a, at, GETITEM(as_vector(v), index=at % shapes.size(v)))


@handles(np.put_along_axis)
def put_along_axis(arr: Value, indices: Any, values: Value, axis: int | None = -1) -> None:
    indices = freeze_index(np.asarray(indices))
    at = np.take_along_axis(flat_positions(arr), indices, axis)
    write_flat(arr, at, values)


@handles(np.fill_diagonal)
def fill_diagonal(a: Value, val: Value, wrap: bool = False) -> None:
    mask = np.zeros(shape(a), dtype=bool)
    np.fill_diagonal(mask, True, wrap)
    at = np.flatnonzero(mask)
    write_flat(a, at, _repeat_entries(np.reshape(as_value(val), -1), at.size))


handle({
    np.broadcast_to: lambda array, shape, subok=False:
        BROADCAST(as_value(array), to=(int(shape),) if isinstance(shape, int | np.integer) else tuple(shape)),
    np.ravel: lambda a, order="C": reshape(a, -1, order),
    np.matrix_transpose: lambda x: np.swapaxes(x, -1, -2), np.linalg.matrix_transpose: lambda x: np.swapaxes(x, -1, -2),
    np.atleast_1d: lambda *arys: _at_least_ndim(1, *arys),
    np.atleast_2d: lambda *arys: _at_least_ndim(2, *arys),
    np.atleast_3d: lambda *arys: _at_least_ndim(3, *arys),
    np.vstack: lambda tup, *, dtype=None, casting=None: np.concatenate([_at_least_ndim(2, x) for x in tup], axis=0),
    np.dstack: lambda tup: np.concatenate([_at_least_ndim(3, x) for x in tup], axis=2),
    np.diagflat: lambda v, k=0: diag(np.reshape(v, -1), k),
    np.tril: lambda m, k=0: SELECT(_lower_mask(m, k), m, np.float64(0)),
    np.triu: lambda m, k=0: SELECT(_lower_mask(m, k - 1), np.float64(0), m),
    np.append: lambda arr, values, axis=None: np.concatenate([as_value(arr), as_value(values)], axis=axis),
    np.array_split: lambda ary, indices_or_sections, axis=0: _split(np.array_split, ary, indices_or_sections, axis),
    np.hsplit: lambda ary, indices_or_sections: split(ary, indices_or_sections, 1 if len(shape(ary)) > 1 else 0),
    np.fliplr: lambda m: np.flip(m, 1),
    np.flipud: lambda m: np.flip(m, 0),
})  # fmt: skip
