"""Indexing, gathers and scatters by index tensors; sorting, the k largest entries, medians and modes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.frameworks.ops.places import put_with
from gradcli.frameworks.torch.aten.rows import along, at_axis, aten, axis, refuse
from gradcli.rules.shaping import GETITEM, PUT, SCATTER
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape, size
from gradcli.tracing.tracer import plain


def _places(indices: Sequence[Any]) -> tuple[Any, ...]:
    """Return torch's list of index tensors as numpy's index; None selects a whole axis."""
    return tuple(slice(None) if i is None else np.asarray(i) if _is_mask(i) else i for i in indices)


def _is_mask(i: Any) -> bool:
    return getattr(i, "dtype", None) == np.bool_


def _spread(v: Value, to: tuple[int, ...]) -> Value:
    return v if shape(v) == to else np.broadcast_to(v, to)


@aten("index")
def index(x: Value, indices: Sequence[Any]) -> Value:
    """Return the entries that index tensors select."""
    return x[_places(indices)]


@aten("index_put", "_index_put_impl")
def index_put(x: Value, indices: Sequence[Any], values: Value, accumulate: bool = False, unsafe: bool = False) -> Value:
    """Return x with values written, or added, where index tensors select."""
    at = _places(indices)
    if not accumulate:
        return PUT(x, values, index=at)
    to = np.empty(shape(x), dtype=np.int8)[at].shape
    return x + SCATTER(_spread(values, to), index=at, into=shape(x))


@aten()
@along
def index_select(x: Value, dim: int, index: Any) -> Value:
    """Return the slices at these positions along an axis."""
    return np.take(x, np.reshape(index, -1), axis=dim)


def _grid(index: Any, k: int) -> tuple[Any, ...]:
    """Return numpy's index for torch's gather: `index` along axis k, and an entry's own position along the others."""
    ndim = np.ndim(index)
    return tuple(
        np.asarray(index) if j == k else np.arange(n).reshape([-1 if i == j else 1 for i in range(ndim)])
        for j, n in enumerate(np.shape(index))
    )


def _scalars(row: Callable[..., Value]) -> Callable[..., Value]:
    """Return a row of x, axis, index and entries of src that treats scalars as vectors of one entry."""

    def run(x: Value, dim: int, index: Any, src: Value = None, *args: Any, **kwargs: Any) -> Value:
        at = np.atleast_1d(index)
        k = axis(dim, len(shape(x)))
        rows = np.reshape(x, (1,)) if not shape(x) else x
        if src is not None:
            src = _spread(src, at.shape) if not shape(src) else src[tuple(slice(n) for n in at.shape)]
            args = (src, *args)
        y = row(rows, k, at, *args, **kwargs)
        return np.reshape(y, np.shape(index) if src is None else shape(x))

    return run


@aten()
def gather(x: Value, dim: int, index: Any, *, sparse_grad: bool = False) -> Value:
    """Return the entries at these positions along an axis; the other coordinates of an entry stay."""
    if not np.size(index):
        return np.zeros(np.shape(index))
    return _scalars(lambda x, k, at: GETITEM(x, index=_grid(at, k)))(x, dim, index)


@aten()
def scatter(
    x: Value, dim: int, index: Any, src: Value = None, value: Any = None, *, reduce: str | None = None
) -> Value:
    """Return x with entries of src written, added or multiplied at these positions along an axis."""
    if reduce is not None:
        return scatter_reduce(
            x, dim, index, value if src is None else src, {"add": "sum", "multiply": "prod"}.get(reduce, reduce)
        )
    return _scalars(lambda x, k, at, src: PUT(x, src, index=_grid(at, k)))(x, dim, index, value if src is None else src)


@aten()
def scatter_add(x: Value, dim: int, index: Any, src: Value) -> Value:
    """Return x with entries of src added at these positions along an axis."""
    return scatter_reduce(x, dim, index, src, "sum")


@aten()
def scatter_reduce(x: Value, dim: int, index: Any, src: Value, reduce: str, *, include_self: bool = True) -> Value:
    """Return x with entries of src combined with those at these positions along an axis."""
    run = _scalars(lambda x, k, at, src: joined(x, _grid(at, k), src, reduce, include_self))
    return run(x, dim, index, src)


def joined(x: Value, at: Any, src: Value, reduce: str, include_self: bool = True) -> Value:
    """Return x combined with src at positions that may repeat, by sum, mean, product, maximum or minimum."""
    touched = np.zeros(shape(x))
    np.add.at(touched, at, np.ones(shape(src)))
    if reduce in ("sum", "mean"):
        y = (x if include_self else np.where(touched > 0, 0.0, x)) + SCATTER(src, index=at, into=shape(x))
        return y / np.maximum(touched + include_self, 1.0) if reduce == "mean" else y
    join = put_with({"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}[reduce], include_self)
    places = np.broadcast_to(np.arange(size(x)).reshape(shape(x))[at], shape(src))
    return join(x, places, src)


def _lengthened(x: Value, src: Value) -> tuple[Value, Value]:
    return (x, src) if shape(x) else (np.reshape(x, (1,)), np.reshape(src, (1,)))


@aten()
def index_reduce(x: Value, dim: int, index: Any, source: Value, reduce: str, *, include_self: bool = True) -> Value:
    """Return x with slices of source combined with those at these positions along an axis."""
    rows, parts = _lengthened(x, source)
    k = axis(dim, len(shape(x)))
    at = np.broadcast_to(
        np.atleast_1d(index).reshape([-1 if j == k else 1 for j in range(len(shape(parts)))]), shape(parts)
    )
    return np.reshape(joined(rows, _grid(at, k), parts, reduce, include_self), shape(x))


@aten()
def put(x: Value, index: Any, source: Value, accumulate: bool = False) -> Value:
    """Return x with entries written, or added, at flat positions."""
    row, values, at = np.reshape(x, -1), np.reshape(source, -1), np.ravel(index)
    return np.reshape(
        row + SCATTER(values, index=at, into=shape(row)) if accumulate else PUT(row, values, index=at), shape(x)
    )


@aten()
def masked_select(x: Value, mask: Any) -> Value:
    """Return the entries where the mask holds, as a vector."""
    to = np.broadcast_shapes(shape(x), np.shape(mask))
    return np.reshape(_spread(x, to), -1)[np.flatnonzero(np.broadcast_to(mask, to))]


@aten()
def masked_scatter(x: Value, mask: Any, source: Value) -> Value:
    """Return x with successive entries of source written where the mask holds."""
    to = np.broadcast_shapes(shape(x), np.shape(mask))
    at = np.flatnonzero(np.broadcast_to(mask, to))
    return np.reshape(PUT(np.reshape(_spread(x, to), -1), np.reshape(source, -1)[: at.size], index=at), to)


# Sorting and order statistics.


def _ordered(x: Value, dim: int, descending: bool) -> tuple[Value, Any]:
    at = np.argsort(-x if descending else x, axis=dim, kind="stable")
    return np.take_along_axis(x, at, dim), at


@aten()
def sort(x: Value, dim: int = -1, descending: bool = False, *, stable: Any = None) -> Any:
    """Return the sorted entries along an axis, and their old positions."""
    return along(_ordered)(x, dim, descending)


def _largest(x: Value, dim: int, k: int, largest: bool) -> tuple[Value, Any]:
    key = -x if largest else x
    if k < shape(x)[dim]:
        first = np.argpartition(key, max(k - 1, 0), axis=dim)[at_axis(dim, slice(k))]
        order = np.argsort(np.take_along_axis(key, first, dim), axis=dim, kind="stable")
        at = np.take_along_axis(first, order, dim)
    else:
        at = np.argsort(key, axis=dim, kind="stable")
    return np.take_along_axis(x, at, dim), at


@aten()
def topk(x: Value, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    """Return the k largest entries along an axis, the largest first, and their positions; or the k smallest."""
    return along(_largest)(x, dim, k, largest)


def _middle(x: Value, dim: int, k: int, keepdim: bool) -> tuple[Value, Any]:
    at = np.argpartition(x, k, axis=dim)[at_axis(dim, slice(k, k + 1))]
    y = np.take_along_axis(x, at, dim)
    return (y, at) if keepdim else (np.squeeze(y, dim), np.squeeze(at, dim))


@aten()
def kthvalue(x: Value, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the k-th smallest entry along an axis, counted from 1, and its position."""
    return (
        along(lambda x, dim: _middle(x, dim, k - 1, keepdim or not shape(x)))(x, dim) if shape(x) else (x, np.int64(0))
    )


@aten()
def median(x: Value, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the median (the smaller of two middle entries), and with an axis its position.

    Raises  NoRule for entries that are nan.
    """
    if np.any(np.isnan(plain(x))):
        raise refuse("the median of what is not a number", "nanmedian")
    if dim is None:
        return _middle(np.reshape(x, -1), 0, (size(x) - 1) // 2, False)[0]
    return kthvalue(x, (shape(x)[dim] - 1) // 2 + 1 if shape(x) else 1, dim, keepdim)


@aten()
def nanmedian(x: Value, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the median of the entries that are not nan (the smaller of two middle ones), and with an axis its position."""
    if not shape(x):
        return x if dim is None else (x, np.int64(0))
    rows = np.reshape(x, -1) if dim is None else np.moveaxis(x, dim, -1)
    count = np.sum(~np.isnan(plain(rows)), axis=-1, keepdims=True)
    order = np.argsort(plain(rows), axis=-1, kind="stable")
    at = np.take_along_axis(order, np.maximum(count - 1, 0) // 2, -1)
    y = np.take_along_axis(rows, at, -1)
    if dim is None:
        return y[0]
    y, at = np.moveaxis(y, -1, dim), np.moveaxis(at, -1, dim)
    return (y, at) if keepdim else (np.squeeze(y, dim), np.squeeze(at, dim))


@aten()
def mode(x: Value, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the most frequent entry along an axis, the smallest if there are several, and its last position."""
    if not shape(x):
        return x, np.int64(0)
    k = axis(dim, len(shape(x)))
    rows = np.moveaxis(plain(x), k, -1)
    counts = np.sum(rows[..., :, None] == rows[..., None, :], axis=-1)
    lowest = np.min(np.where(counts == counts.max(-1, keepdims=True), rows, np.inf), axis=-1, keepdims=True)
    last = rows.shape[-1] - 1 - np.argmax((rows == lowest)[..., ::-1], axis=-1, keepdims=True)
    at = np.moveaxis(last, -1, k)
    y = np.take_along_axis(x, at, k)
    return (y, at) if keepdim else (np.squeeze(y, k), np.squeeze(at, k))


@aten()
def searchsorted(
    edges: Any, x: Any, *, out_int32: bool = False, right: bool = False, side: Any = None, sorter: Any = None
) -> Any:
    """Return the index at which each entry would be inserted into the sorted edges, row by row."""
    after: Any = "right" if right or side == "right" else "left"
    rows = plain(edges) if sorter is None else np.take_along_axis(plain(edges), sorter, -1)
    if np.ndim(rows) == 1:
        return np.searchsorted(rows, plain(x), side=after)
    below = rows[..., None, :] <= plain(x)[..., None] if after == "right" else rows[..., None, :] < plain(x)[..., None]
    return np.sum(below, axis=-1)


@aten()
def bucketize(x: Any, edges: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """Return the index at which each entry would be inserted into the sorted edges."""
    return searchsorted(edges, x, right=right)
