"""Primitives that move entries and change none: reshape, index, join, select, and writes into arrays."""

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcli.core import shapes
from gradcli.core.bind import handles
from gradcli.core.primitive import Primitive, Value
from gradcli.core.shapes import shape
from gradcli.core.tracer import Tracer
from gradcli.errors import NoRule
from gradcli.primitives.kinds import jointly_linear, linear


def _getitem(x: Value, *, index: Any) -> Value:
    return x[index]


def _put(x: Value, v: Value, *, index: Any) -> Value:
    """Return a copy of `x` with `v` written at `index`."""
    y = np.array(x, dtype=np.result_type(x, v))
    y[index] = v[()] if type(v) is np.ndarray and v.ndim == 0 else v
    return y


def _scatter(v: Value, *, index: Any, into: tuple[int, ...]) -> Value:
    """Return zeros of shape `into` with `v` added at `index`, repeated positions summed."""
    v = np.asarray(v)
    y = np.zeros(into, dtype=v.dtype)
    np.add.at(y, index, v)
    return y


def _ungetitem(ybar: Value, x: Value, *, index: Any) -> Value:
    return SCATTER(ybar, index=index, into=shape(x))


def _unput(i: int, ybar: Value, x: Value, v: Value, *, index: Any) -> Value:
    if i == 0:
        return PUT(ybar, np.float64(0), index=index)
    return shapes.unbroadcast(GETITEM(ybar, index=index), v)


def _unjoin(i: int, ybar: Value, *xs: Value, axis: int) -> Value:
    start = sum(shape(x)[axis] for x in xs[:i])
    index = (slice(None),) * axis + (slice(start, start + shape(xs[i])[axis]),)
    return GETITEM(ybar, index=index)


def _unselect(i: int, ybar: Value, condition: Any, a: Value, b: Value) -> Value:
    kept = SELECT(condition, ybar, np.float64(0)) if i == 1 else SELECT(condition, np.float64(0), ybar)
    return shapes.unbroadcast(kept, (condition, a, b)[i])


def _join(*xs: Value, axis: int) -> Value:
    return np.concatenate(xs, axis=axis)


def _select(condition: Any, a: Value, b: Value) -> Value:
    y: Any = np.where(condition, a, b)
    return y[()]


def _reshape(x: Value, *, to: tuple[int, ...]) -> Value:
    y: Any = np.reshape(x, to)
    return y if to else y[()]


def _transpose(x: Value, *, axes: tuple[int, ...]) -> Value:
    return np.transpose(x, axes)


def _broadcast(x: Value, *, to: tuple[int, ...]) -> Value:
    return np.broadcast_to(x, to)


# fmt: off
#                    numpy         transpose: cotangent of y -> cotangent of x
GETITEM   = linear(_getitem,      _ungetitem,                                                                 name="getitem")
SCATTER   = linear(_scatter,      lambda ybar, v, *, index, into: GETITEM(ybar, index=index),                 name="scatter")
RESHAPE: Primitive   = linear(_reshape,      lambda ybar, x, *, to: RESHAPE(ybar, to=shape(x)),                          name="reshape")
TRANSPOSE: Primitive = linear(_transpose,    lambda ybar, x, *, axes: TRANSPOSE(ybar, axes=tuple(np.argsort(axes).tolist())), name="transpose")
BROADCAST = linear(_broadcast,    lambda ybar, x, *, to: shapes.unbroadcast(ybar, x),                         name="broadcast_to")
JOIN      = jointly_linear(_join,   _unjoin,   name="concatenate")
PUT       = jointly_linear(_put,    _unput,    name="put")
SELECT    = jointly_linear(_select, _unselect, name="where", leading=1)
# fmt: on


@handles(operator.getitem)
def getitem(x: Value, index: Any) -> Value:
    """Return x[index]; positions are facts of the program."""
    if isinstance(index, Tracer):
        raise NoRule("an index is a traced value", do="index with plain integers")
    return GETITEM(x, index=index)


@handles(operator.setitem)
def setitem(x: Value, index: Any, v: Value) -> Value:
    """Return `x` with `v` written at `index`."""
    return PUT(x, as_value(v), index=index)


@handles(np.reshape)
def reshape(a: Value, shape: Any = None, order: str = "C", *, newshape: Any = None, copy: Any = None) -> Value:
    if order not in ("C", "A", "K"):
        raise NoRule(f"reshape with order={order!r} has no derivative rule", do="transpose first: x.T.reshape(...)")
    wanted = shape if newshape is None else newshape
    wanted = (wanted,) if isinstance(wanted, int | np.integer) else tuple(int(n) for n in wanted)
    return RESHAPE(a, to=np.empty(shapes.shape(a), dtype=np.int8).reshape(wanted).shape)


@handles(np.ravel)
def ravel(a: Value, order: str = "C") -> Value:
    return reshape(a, -1, order)


@handles(np.squeeze)
def squeeze(a: Value, axis: Any = None) -> Value:
    drop = axis if axis is None else shapes.axes(axis, len(shape(a)))
    return RESHAPE(a, to=tuple(n for k, n in enumerate(shape(a)) if not (n == 1 if drop is None else k in drop)))


@handles(np.expand_dims)
def expand_dims(a: Value, axis: Any) -> Value:
    many = (axis,) if isinstance(axis, int) else tuple(axis)
    ndim = len(shape(a)) + len(many)
    new = shapes.axes(many, ndim)
    kept = iter(shape(a))
    return RESHAPE(a, to=tuple(1 if k in new else next(kept) for k in range(ndim)))


@handles(np.transpose, np.permute_dims)
def transpose(a: Value, axes: Any = None) -> Value:
    ndim = len(shape(a))
    order = tuple(reversed(range(ndim))) if axes is None else tuple(int(k) % ndim for k in axes)
    return TRANSPOSE(a, axes=order)


@handles(np.matrix_transpose)
def matrix_transpose(x: Value) -> Value:
    return swapaxes(x, -1, -2)


@handles(np.swapaxes)
def swapaxes(a: Value, axis1: int, axis2: int) -> Value:
    order = list(range(len(shape(a))))
    order[axis1], order[axis2] = order[axis2], order[axis1]
    return TRANSPOSE(a, axes=tuple(order))


@handles(np.moveaxis)
def moveaxis(a: Value, source: int, destination: int) -> Value:
    order = list(range(len(shape(a))))
    order.insert(destination % len(order), order.pop(source))
    return TRANSPOSE(a, axes=tuple(order))


@handles(np.broadcast_to)
def broadcast_to(array: Value, shape: Any, subok: bool = False) -> Value:
    return BROADCAST(array, to=(shape,) if isinstance(shape, int) else tuple(shape))


def as_value(x: Any) -> Value:
    """Return nested lists, tracers in them or not, as one value."""
    if isinstance(x, list | tuple):
        return stack([as_value(part) for part in x])
    return x


@handles(np.concatenate)
def concatenate(arrays: Sequence[Value], axis: int | None = 0) -> Value:
    parts = [as_value(x) for x in arrays]
    if axis is None:
        parts, axis = [np.ravel(x) for x in parts], 0
    return JOIN(*parts, axis=shapes.axes(axis, len(shape(parts[0])))[0])


@handles(np.stack)
def stack(arrays: Sequence[Value], axis: int = 0) -> Value:
    parts = [as_value(x) for x in arrays]
    if len({shape(x) for x in parts}) > 1:
        raise ValueError("all parts must have the same shape: " + ", ".join(str(shape(x)) for x in parts))
    return JOIN(*[np.expand_dims(x, axis) for x in parts], axis=shapes.axes(axis, len(shape(parts[0])) + 1)[0])


@handles(np.atleast_1d)
def atleast_1d(x: Value) -> Value:
    return x if shape(x) else np.reshape(x, (1,))


@handles(np.atleast_2d)
def atleast_2d(x: Value) -> Value:
    return x if len(shape(x)) >= 2 else np.reshape(x, (1, -1))


@handles(np.hstack)
def hstack(tup: Sequence[Value]) -> Value:
    parts = [atleast_1d(as_value(x)) for x in tup]
    return np.concatenate(parts, axis=0 if len(shape(parts[0])) == 1 else 1)


@handles(np.vstack)
def vstack(tup: Sequence[Value]) -> Value:
    return np.concatenate([atleast_2d(as_value(x)) for x in tup], axis=0)


@handles(np.column_stack)
def column_stack(tup: Sequence[Value]) -> Value:
    parts = [as_value(x) for x in tup]
    return np.concatenate([x if len(shape(x)) > 1 else np.reshape(x, (-1, 1)) for x in parts], axis=1)


@handles(np.where)
def where(condition: Any, x: Value = None, y: Value = None) -> Value:
    if x is None or y is None:
        raise NoRule("where with one argument gives positions", do="np.where(condition, a, b)")
    chosen = np.not_equal(condition, 0) if isinstance(condition, Tracer) else condition
    return SELECT(chosen, as_value(x), as_value(y))


@handles(np.diagonal)
def diagonal(a: Value, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    last = moveaxis(moveaxis(a, axis1, -1), axis2 if axis2 < axis1 else axis2 - 1, -1)
    rows, columns = shape(last)[-2:]
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    k = np.arange(count)
    return GETITEM(last, index=(..., k - min(offset, 0), k + max(offset, 0)))


@handles(np.diag)
def diag(v: Value, k: int = 0) -> Value:
    if len(shape(v)) == 2:
        return diagonal(v, k)
    n = shape(v)[0] + abs(k)
    at = np.arange(shape(v)[0])
    return SCATTER(v, index=(at - min(k, 0), at + max(k, 0)), into=(n, n))


@handles(np.flip)
def flip(m: Value, axis: Any = None) -> Value:
    over = shapes.axes(axis, len(shape(m)))
    return GETITEM(m, index=tuple(slice(None, None, -1 if k in over else 1) for k in range(len(shape(m)))))


@handles(np.take)
def take(a: Value, indices: Any, axis: int | None = None) -> Value:
    if axis is None:
        return GETITEM(np.ravel(a), index=np.asarray(indices))
    return GETITEM(a, index=(slice(None),) * shapes.axes(axis, len(shape(a)))[0] + (np.asarray(indices),))


@handles(np.repeat)
def repeat(a: Value, repeats: Any, axis: int | None = None) -> Value:
    length = shapes.size(a) if axis is None else shape(a)[axis]
    return take(a, np.repeat(np.arange(length), repeats), axis)


def _below(m: Value, k: int) -> Any:
    """Return where a matrix is on or below its k-th diagonal."""
    rows, columns = shape(m)[-2:]
    return np.tri(rows, columns, k=k, dtype=bool)


@handles(np.tril)
def tril(m: Value, k: int = 0) -> Value:
    return SELECT(_below(m, k), m, np.float64(0))


@handles(np.triu)
def triu(m: Value, k: int = 0) -> Value:
    return SELECT(_below(m, k - 1), np.float64(0), m)
