"""Operations that move entries and change none. What is a view in torch is a view here, so that writes reach its base."""

import math
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from gradcli.frameworks.ops.indexing import put_with
from gradcli.frameworks.torch.aten.rows import Row, allow_scalars, at_axis, aten, axis, missing_rule, register
from gradcli.rules.shaping import GETITEM, PUT, SCATTER
from gradcli.tracing import shapes
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape, size
from gradcli.tracing.tracer import plain_value


def _identity(x: Value) -> Value:
    return x


def _copy(x: Value) -> Value:
    return np.copy(x) if shape(x) else x


def _ndim(x: Value) -> int:
    return len(shape(x))


def permute(x: Value, dims: Sequence[int]) -> Value:
    """Return the array with its axes in another order."""
    return np.transpose(x, tuple(dims)) if shape(x) else x


def transpose(x: Value, dim0: int, dim1: int) -> Value:
    """Return the array with two axes exchanged."""
    return np.swapaxes(x, dim0, dim1) if shape(x) else x


def view(x: Value, to: Any, stride: Any = None) -> Value:
    """Return the entries in another shape. Raises NoRule for a view as another dtype."""
    if to is None or isinstance(to, str):
        raise missing_rule("a view of the same bits as another dtype", "x.to(dtype)")
    return np.reshape(x, tuple(to))


def expand(x: Value, to: Sequence[int]) -> Value:
    """Return the array repeated along axes of length 1 and along new ones in front."""
    have = (1,) * (len(to) - _ndim(x)) + shape(x)
    wanted = tuple(m if n == -1 else n for m, n in zip(have, to, strict=True))
    return np.broadcast_to(x, wanted) if wanted else x


def squeeze(x: Value, dim: Any = None) -> Value:
    """Return the array without its axes of length 1, or without those of them that are named."""
    named = range(_ndim(x)) if dim is None else shapes.normalise_axes(dim, _ndim(x)) if shape(x) else ()
    return np.reshape(x, tuple(n for k, n in enumerate(shape(x)) if n != 1 or k not in named))


def unsqueeze(x: Value, dim: int) -> Value:
    """Return the array with a new axis of length 1."""
    return np.expand_dims(x, dim)


def select(x: Value, dim: int, index: int) -> Value:
    """Return the part at one index along an axis, without that axis."""
    return x[at_axis(axis(dim, _ndim(x)), int(index))]


def slice_(x: Value, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Value:
    """Return the part between two positions along an axis."""
    return x[at_axis(axis(dim, _ndim(x)), slice(start, end, step))]


def narrow(x: Value, dim: int, start: int, length: int) -> Value:
    """Return `length` consecutive entries along an axis."""
    return slice_(x, dim, int(start), int(start) + length)


def split(x: Value, width: Any, dim: int = 0) -> tuple[Value, ...]:
    """Return parts of one width along an axis (the last may be shorter), or parts of given widths."""
    k = axis(dim, _ndim(x))
    n = shape(x)[k]
    widths = width if not isinstance(width, int) else [width] * -(-n // width) if width else [0]
    ends = np.cumsum([0, *widths]).tolist()
    return tuple(x[at_axis(k, slice(a, min(b, n)))] for a, b in pairwise(ends))


def chunk(x: Value, chunks: int, dim: int = 0) -> tuple[Value, ...]:
    """Return at most `chunks` parts along an axis."""
    return split(x, max(1, -(-shape(x)[axis(dim, _ndim(x))] // chunks)), dim)


def unbind(x: Value, dim: int = 0) -> tuple[Value, ...]:
    """Return the slices at all positions along an axis."""
    k = axis(dim, _ndim(x))
    return tuple(x[at_axis(k, n)] for n in range(shape(x)[k]))


def diagonal(x: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """Return the diagonal of two axes as the last axis; of contiguous matrices, it is a view that can be written to."""
    ndim = _ndim(x)
    last = (axis(dim1, ndim), axis(dim2, ndim)) == (ndim - 2, ndim - 1)
    if not last or not size(x) or not x.flags.c_contiguous:
        return np.diagonal(x, offset, dim1, dim2)
    *lead, rows, columns = shape(x)
    count = max(0, min(rows + min(offset, 0), columns - max(offset, 0)))
    first = -offset * columns if offset < 0 else offset
    return np.reshape(x, (*lead, -1))[..., first : first + count * (columns + 1) : columns + 1][..., :count]


def _strided_view(row: Value, to: Sequence[int], stride: Sequence[int], start: int) -> Value:
    """Return entries of a vector at fixed strides as a view; None if reshapes and slices cannot express it."""
    last = start + sum((n - 1) * step for n, step in zip(to, stride, strict=True))
    if len(to) == 1 and to[0] and stride[0] > 0 and last < size(row):
        return row[start : last + 1 : stride[0]]
    dims = sorted((k for k, n in enumerate(to) if n != 1), key=lambda k: -stride[k])
    steps = [*(stride[k] for k in dims), 1]
    if 0 in to or min(steps) < 1 or size(row) % steps[0] or any(a % b for a, b in pairwise(steps)):
        return None
    extents = (size(row) // steps[0], *(a // b for a, b in pairwise(steps)))
    index: list[Any] = []
    for n, step, extent in zip([*(to[k] for k in dims), 1], steps, extents, strict=True):
        first, start = divmod(start, step)
        if first + n > extent:
            return None
        index.append(slice(first, first + n))
    y = np.reshape(row, extents)[(*index[:-1], index[-1].start)]
    y = np.transpose(y, tuple(np.argsort(dims).tolist())) if dims else y
    return np.expand_dims(y, tuple(k for k, n in enumerate(to) if n == 1)) if dims else np.reshape(y, tuple(to))


def as_strided(x: Value, to: Sequence[int], stride: Sequence[int], offset: int | None = None) -> Value:
    """Return entries of the contiguous memory of x at fixed strides: a view if possible. Raises NoRule beyond its end."""
    start, row = offset or 0, np.reshape(x, -1)
    seen = _strided_view(row, to, stride, start)
    if seen is not None:
        return seen
    at = np.array(start)
    for n, step in zip(to, stride, strict=True):
        at = at[..., None] + np.arange(n) * step
    count = math.prod(to)
    if at.size and np.array_equal(at.ravel(), np.arange(start, start + count)):
        return np.reshape(row[start : start + count], tuple(to))
    if at.size and at.max() >= size(x):
        raise missing_rule("as_strided beyond the entries of a view", "index the tensor it is a view of")
    return np.reshape(row[np.ravel(at)], tuple(to))


# fmt: off
VIEWS: dict[str, Row] = {
    "alias": _identity, "detach": _identity, "view": view, "permute": permute, "transpose": transpose, "expand": expand,
    "t": lambda x: np.transpose(x), "squeeze": squeeze, "unsqueeze": unsqueeze, "select": select, "slice": slice_,
    "split": split, "split_with_sizes": split, "unbind": unbind, "diagonal": diagonal, "as_strided": as_strided,
    "unfold": lambda x, dim, size, step: _unfold(x, dim, size, step), 
}
register(VIEWS)
register({f"{name}_copy": row for name, row in VIEWS.items()} | {"_reshape_copy": view})
register({
    "_unsafe_view": view, 
    "lift_fresh_copy": _copy, "clone": _copy, "_to_copy": _copy,
    "_neg_view": np.negative,  
    "unsafe_split": split, "unsafe_split_with_sizes": split, 
    "tril": lambda x, k=0: np.tril(x, k), "triu": lambda x, k=0: np.triu(x, k),
    "stack": lambda xs, dim=0: np.stack(xs, axis=dim),
})
# fmt: on


def _unfold(x: Value, dim: int, width: int, step: int) -> Value:
    if not shape(x):
        return np.reshape(x, (1,))[:width]
    k = axis(dim, _ndim(x))
    windows = np.lib.stride_tricks.sliding_window_view(x, width, axis=k)
    return windows[at_axis(k, slice(None, None, step))]


@aten("cat")
def cat(xs: Sequence[Value], dim: int = 0) -> Value:
    """Return tensors joined along an axis; empty vectors are left out, whatever the other shapes."""
    kept = [x for x in xs if shape(x) != (0,)] or list(xs[:1])
    return np.concatenate(kept, axis=axis(dim, _ndim(kept[0])))


@aten()
def flip(x: Value, dims: Sequence[int]) -> Value:
    """Return the entries in reverse order along axes."""
    return np.flip(x, axis=tuple(dims)) if shape(x) else x


@aten()
def repeat(x: Value, repeats: Sequence[int]) -> Value:
    """Return the array tiled along each axis; new axes come in front."""
    have = (1,) * (len(repeats) - _ndim(x)) + shape(x)
    spread = x
    if repeats:
        apart = np.reshape(x, tuple(m for n in have for m in (1, n)))
        spread = np.broadcast_to(apart, tuple(m for pair in zip(repeats, have, strict=True) for m in pair))
    return np.reshape(spread, tuple(n * r for n, r in zip(have, repeats, strict=True)))


@aten()
def repeat_interleave(x: Value, repeats: Any, dim: int | None = None, *, output_size: Any = None) -> Value:
    """Return each entry, or each part along an axis, several times in a row."""
    return np.repeat(np.reshape(x, -1) if dim is None else x, repeats, axis=dim or 0)


@aten()
def fill_diagonal(x: Value, value: float, wrap: bool = False) -> Value:
    """Return the array with its main diagonal filled."""
    on = np.zeros(shape(x), dtype=bool)
    np.fill_diagonal(on, True, wrap)
    return np.where(on, value, x)


def _replace_at(x: Value, src: Value, at: Any) -> Value:
    """Return x with the entries at flat positions replaced by those of src."""
    return np.reshape(PUT(np.reshape(x, -1), np.reshape(src, -1), index=np.ravel(at)), shape(x))


@aten()
def diagonal_scatter(x: Value, src: Value, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Value:
    """Return x with the diagonal of two axes replaced."""
    return _replace_at(x, src, np.diagonal(np.arange(size(x)).reshape(shape(x)), offset, dim1, dim2))


@aten()
def as_strided_scatter(x: Value, src: Value, to: Any, stride: Any, offset: int | None = None) -> Value:
    """Return x with the entries that a strided view would show replaced."""
    return _replace_at(x, src, as_strided(np.arange(size(x)), to, stride, offset))


# Padding.


def _pad_widths(pad: Sequence[int], ndim: int) -> list[tuple[int, int]]:
    """Return torch's padding widths, which have the last axis first, as (before, after) for each axis."""
    pairs = [(pad[k], pad[k + 1]) for k in range(0, len(pad), 2)][::-1]
    return [(0, 0)] * (ndim - len(pairs)) + pairs


def pad_or_crop(x: Value, around: list[tuple[int, int]], value: Any = 0.0, mode: str = "constant") -> Value:
    """Return x with entries added around it, or removed where a width is negative."""
    cut = tuple(slice(max(0, -a), n - max(0, -b)) for n, (a, b) in zip(shape(x), around, strict=True))
    widths = [(max(0, a), max(0, b)) for a, b in around]
    x = x[cut] if any(min(pair) < 0 for pair in around) else x
    if not any(map(any, widths)):
        return x
    return np.pad(x, widths, mode, constant_values=value) if mode == "constant" else np.pad(x, widths, mode)  # type: ignore[call-overload]


@aten()
def constant_pad_nd(x: Value, pad: Sequence[int], value: Any = 0) -> Value:
    """Return x padded with one number."""
    y = pad_or_crop(x, _pad_widths(pad, _ndim(x)), value)
    return _copy(y) if y is x else y


@aten("replication_pad1d", "replication_pad2d", "replication_pad3d")
def replication_pad(x: Value, pad: Sequence[int]) -> Value:
    """Return x padded with copies of its outermost entries."""
    return pad_or_crop(x, _pad_widths(pad, _ndim(x)), mode="edge")


# Indexing, gathers and scatters by index tensors; sorting, the k largest entries, medians and modes.


def _numpy_index(indices: Sequence[Any]) -> tuple[Any, ...]:
    """Return torch's list of index tensors as numpy's index; None selects a whole axis."""
    return tuple(
        slice(None) if i is None else np.asarray(i) if getattr(i, "dtype", None) == np.bool_ else i for i in indices
    )


def _broadcast(v: Value, to: tuple[int, ...]) -> Value:
    return v if shape(v) == to else np.broadcast_to(v, to)


@aten("index")
def index(x: Value, indices: Sequence[Any]) -> Value:
    """Return the entries that index tensors select."""
    return x[_numpy_index(indices)]


@aten("index_put", "_index_put_impl")
def index_put(x: Value, indices: Sequence[Any], values: Value, accumulate: bool = False, unsafe: bool = False) -> Value:
    """Return x with values written, or added, where index tensors select."""
    at = _numpy_index(indices)
    if not accumulate:
        return PUT(x, values, index=at)
    to = np.empty(shape(x), dtype=np.int8)[at].shape
    return x + SCATTER(_broadcast(values, to), index=at, into=shape(x))


@aten()
@allow_scalars
def index_select(x: Value, dim: int, index: Any) -> Value:
    """Return the slices at these positions along an axis."""
    return np.take(x, np.reshape(index, -1), axis=dim)


def _gather_index(index: Any, k: int) -> tuple[Any, ...]:
    """Return numpy's index for torch's gather: `index` along axis k, and an entry's own position along the others."""
    ndim = np.ndim(index)
    return tuple(
        np.asarray(index) if j == k else np.arange(n).reshape([-1 if i == j else 1 for i in range(ndim)])
        for j, n in enumerate(np.shape(index))
    )


def _treat_scalars_as_vectors(row: Callable[..., Value]) -> Callable[..., Value]:
    """Return a row of x, axis, index and entries of src that treats scalars as vectors of one entry."""

    def run(x: Value, dim: int, index: Any, src: Value = None, *args: Any, **kwargs: Any) -> Value:
        at = np.atleast_1d(index)
        k = axis(dim, len(shape(x)))
        rows = np.reshape(x, (1,)) if not shape(x) else x
        if src is not None:
            src = _broadcast(src, at.shape) if not shape(src) else src[tuple(slice(n) for n in at.shape)]
            args = (src, *args)
        y = row(rows, k, at, *args, **kwargs)
        return np.reshape(y, np.shape(index) if src is None else shape(x))

    return run


@aten()
def gather(x: Value, dim: int, index: Any, *, sparse_grad: bool = False) -> Value:
    """Return the entries at these positions along an axis; the other coordinates of an entry stay."""
    if not np.size(index):
        return np.zeros(np.shape(index))
    return _treat_scalars_as_vectors(lambda x, k, at: GETITEM(x, index=_gather_index(at, k)))(x, dim, index)


@aten()
def scatter(
    x: Value, dim: int, index: Any, src: Value = None, value: Any = None, *, reduce: str | None = None
) -> Value:
    """Return x with entries of src written, added or multiplied at these positions along an axis."""
    src = value if src is None else src
    if reduce is not None:
        return scatter_reduce(x, dim, index, src, {"add": "sum", "multiply": "prod"}.get(reduce, reduce))
    run = _treat_scalars_as_vectors(lambda x, k, at, src: PUT(x, src, index=_gather_index(at, k)))
    return run(x, dim, index, src)


@aten()
def scatter_add(x: Value, dim: int, index: Any, src: Value) -> Value:
    """Return x with entries of src added at these positions along an axis."""
    return scatter_reduce(x, dim, index, src, "sum")


@aten()
def scatter_reduce(x: Value, dim: int, index: Any, src: Value, reduce: str, *, include_self: bool = True) -> Value:
    """Return x with entries of src combined with those at these positions along an axis."""
    run = _treat_scalars_as_vectors(
        lambda x, k, at, src: combine_at(x, _gather_index(at, k), src, reduce, include_self)
    )
    return run(x, dim, index, src)


def combine_at(x: Value, at: Any, src: Value, reduce: str, include_self: bool = True) -> Value:
    """Return x combined with src at positions that may repeat, by sum, mean, product, maximum or minimum."""
    touched = np.zeros(shape(x))
    np.add.at(touched, at, np.ones(shape(src)))
    if reduce in ("sum", "mean"):
        y = (x if include_self else np.where(touched > 0, 0.0, x)) + SCATTER(src, index=at, into=shape(x))
        return y / np.maximum(touched + include_self, 1.0) if reduce == "mean" else y
    join = put_with({"prod": np.multiply, "amax": np.maximum, "amin": np.minimum}[reduce], include_self)
    places = np.broadcast_to(np.arange(size(x)).reshape(shape(x))[at], shape(src))
    return join(x, places, src)


@aten()
def index_reduce(x: Value, dim: int, index: Any, source: Value, reduce: str, *, include_self: bool = True) -> Value:
    """Return x with slices of source combined with those at these positions along an axis."""
    rows, parts = (x, source) if shape(x) else (np.reshape(x, (1,)), np.reshape(source, (1,)))
    k = axis(dim, len(shape(x)))
    at = np.broadcast_to(
        np.atleast_1d(index).reshape([-1 if j == k else 1 for j in range(len(shape(parts)))]), shape(parts)
    )
    return np.reshape(combine_at(rows, _gather_index(at, k), parts, reduce, include_self), shape(x))


@aten()
def put(x: Value, index: Any, source: Value, accumulate: bool = False) -> Value:
    """Return x with entries written, or added, at flat positions."""
    row, values, at = np.reshape(x, -1), np.reshape(source, -1), np.ravel(index)
    y = row + SCATTER(values, index=at, into=shape(row)) if accumulate else PUT(row, values, index=at)
    return np.reshape(y, shape(x))


@aten()
def masked_select(x: Value, mask: Any) -> Value:
    """Return the entries where the mask holds, as a vector."""
    to = np.broadcast_shapes(shape(x), np.shape(mask))
    return np.reshape(_broadcast(x, to), -1)[np.flatnonzero(np.broadcast_to(mask, to))]


@aten()
def masked_scatter(x: Value, mask: Any, source: Value) -> Value:
    """Return x with successive entries of source written where the mask holds."""
    to = np.broadcast_shapes(shape(x), np.shape(mask))
    at = np.flatnonzero(np.broadcast_to(mask, to))
    return np.reshape(PUT(np.reshape(_broadcast(x, to), -1), np.reshape(source, -1)[: at.size], index=at), to)


# Sorting and order statistics.


def _sort_along(x: Value, dim: int, descending: bool) -> tuple[Value, Any]:
    at = np.argsort(-x if descending else x, axis=dim, kind="stable")
    return np.take_along_axis(x, at, dim), at


@aten()
def sort(x: Value, dim: int = -1, descending: bool = False, *, stable: Any = None) -> Any:
    """Return the sorted entries along an axis, and their old positions."""
    return allow_scalars(_sort_along)(x, dim, descending)


def _largest_along(x: Value, dim: int, k: int, largest: bool) -> tuple[Value, Any]:
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
    return allow_scalars(_largest_along)(x, dim, k, largest)


def _kth_smallest(x: Value, dim: int, k: int, keepdim: bool) -> tuple[Value, Any]:
    at = np.argpartition(x, k, axis=dim)[at_axis(dim, slice(k, k + 1))]
    y = np.take_along_axis(x, at, dim)
    return (y, at) if keepdim else (np.squeeze(y, dim), np.squeeze(at, dim))


@aten()
def kthvalue(x: Value, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    """Return the k-th smallest entry along an axis, counted from 1, and its position."""
    return _kth_smallest(x, axis(dim, _ndim(x)), k - 1, keepdim) if shape(x) else (x, np.int64(0))


@aten()
def median(x: Value, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the median (the smaller of two middle entries), and with an axis its position.

    Raises  NoRule for entries that are nan.
    """
    if np.any(np.isnan(plain_value(x))):
        raise missing_rule("the median of what is not a number", "nanmedian")
    if dim is None:
        return _kth_smallest(np.reshape(x, -1), 0, (size(x) - 1) // 2, False)[0]
    return kthvalue(x, (shape(x)[dim] - 1) // 2 + 1 if shape(x) else 1, dim, keepdim)


@aten()
def nanmedian(x: Value, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the median of the entries that are not nan (the smaller of two middle ones), and with an axis its position."""
    if not shape(x):
        return x if dim is None else (x, np.int64(0))
    rows = np.reshape(x, -1) if dim is None else np.moveaxis(x, dim, -1)
    count = np.sum(~np.isnan(plain_value(rows)), axis=-1, keepdims=True)
    order = np.argsort(plain_value(rows), axis=-1, kind="stable")
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
    rows = np.moveaxis(plain_value(x), k, -1)
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
    rows = plain_value(edges) if sorter is None else np.take_along_axis(plain_value(edges), sorter, -1)
    if np.ndim(rows) == 1:
        return np.searchsorted(rows, plain_value(x), side=after)
    is_below = np.less_equal if after == "right" else np.less
    return np.sum(is_below(rows[..., None, :], plain_value(x)[..., None]), axis=-1)


@aten()
def bucketize(x: Any, edges: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """Return the index at which each entry would be inserted into the sorted edges."""
    return searchsorted(edges, x, right=right)
