"""Slices, gathers and scatters at positions that are plain integers; and windows: convolutions and pooling."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.errors import NotSupported
from gradcli.rules.shaping import PUT, SCATTER
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape, size

Entry = Callable[..., Any]
Sizes = Sequence[int]


def iota(*, dtype: Any, shape: Sizes, dimension: int, **params: Any) -> Any:
    """Return the numbers from 0 along one axis."""
    along = np.arange(shape[dimension]).reshape([-1 if k == dimension else 1 for k in range(len(shape))])
    return np.broadcast_to(along, tuple(shape)).astype(dtype)


def broadcast_in_dim(x: Value, *, shape: Sizes, broadcast_dimensions: Sizes, **params: Any) -> Value:
    """Return `x` broadcast to `shape`, with its axes placed at `broadcast_dimensions`."""
    sizes = dict(zip(broadcast_dimensions, np.shape(x), strict=True))
    grown = tuple(sizes.get(k, 1) for k in range(len(shape)))
    lifted = x if np.shape(x) == grown else np.reshape(x, grown)
    return lifted if grown == tuple(shape) else np.broadcast_to(lifted, tuple(shape))


def reshape(x: Value, *, new_sizes: Sizes, dimensions: Any = None, **params: Any) -> Value:
    """Return the entries of `x`, taken in the order of the axes `dimensions`, in another shape."""
    return np.reshape(x if dimensions is None else np.transpose(x, tuple(dimensions)), tuple(new_sizes))


def slice_(x: Value, *, start_indices: Sizes, limit_indices: Sizes, strides: Any = None, **params: Any) -> Value:
    """Return a block of `x`."""
    steps = strides or (1,) * len(start_indices)
    return x[tuple(slice(*ends) for ends in zip(start_indices, limit_indices, steps, strict=True))]


def block_index(starts: Sequence[Any], whole: Sizes, part: Sizes) -> tuple[slice, ...]:
    """Return the index of a block that begins at `starts`, shifted to lie inside the array."""
    firsts = [min(max(int(at), 0), n - m) for at, n, m in zip(starts, whole, part, strict=True)]
    return tuple(slice(at, at + m) for at, m in zip(firsts, part, strict=True))


def dynamic_slice(x: Value, *starts: Any, slice_sizes: Sizes, **params: Any) -> Value:
    """Return a block of `x` that begins at computed positions."""
    return x[block_index(starts, shape(x), slice_sizes)]


# Arrays of flat positions (plain integers), by which values are gathered, scattered, padded and cut into windows.
#
# A position equal to the number of entries stands for the filling.

Ends = Sequence[Sequence[int]]


def gather_flat(x: Value, places: Any, filling: Value = 0.0) -> Value:
    """Return the entries of `x` at flat positions; the position after the last one gives `filling`.

    Shapes  the result has the shape of `places`.
    """
    row = np.reshape(x, (-1,))
    if np.any(places == size(x)):
        row = np.concatenate([row, np.reshape(filling, (1,))])
    return row[places]


def padded_positions(sizes: Sizes, config: Ends) -> Any:
    """Return the positions of a padded array; `config` has the padding before, after and between entries of each axis.

    A negative width before or after removes entries.
    """
    count = int(np.prod(sizes, dtype=int))
    places: Any = np.arange(count).reshape(tuple(sizes))
    for axis, (before, after, between) in enumerate(config):
        lead, n = (slice(None),) * axis, places.shape[axis]
        if between and n:
            spread = np.full((*places.shape[:axis], n + (n - 1) * between, *places.shape[axis + 1 :]), count)
            spread[(*lead, slice(None, None, between + 1))] = places
            places = spread
        around = [(max(before, 0), max(after, 0)) if k == axis else (0, 0) for k in range(places.ndim)]
        places = np.pad(places, around, constant_values=count)
        places = places[(*lead, slice(max(-before, 0), places.shape[axis] - max(-after, 0)))]
    return places


def window_positions(places: Any, windows: Sizes, strides: Sizes, dilations: Sizes) -> Any:
    """Return the positions that each window covers.

    Shapes  first the number of windows along each axis of `places`, then the sizes of a window.
    """
    starts = [
        np.arange((n - (w - 1) * d - 1) // s + 1 if n > (w - 1) * d else 0) * s
        for n, w, s, d in zip(places.shape, windows, strides, dilations, strict=True)
    ]
    seen = [start[:, None] + np.arange(w) * d for start, w, d in zip(starts, windows, dilations, strict=True)]
    grid = places[np.ix_(*(index.reshape(-1) for index in seen))]
    split = grid.reshape([n for index in seen for n in index.shape])
    return split.transpose([*range(0, split.ndim, 2), *range(1, split.ndim, 2)])


def block_positions(corners: Sequence[Any], sizes: Sizes, lengths: Sizes) -> Any:
    """Return the positions, in an array of the given sizes, of blocks that begin at `corners`.

    Shapes  each corner has the shape of the batch; the result has the shape of the batch, then the lengths of a block.
    """
    batch, count = np.shape(corners[0]) if corners else (), len(sizes)
    places: Any = np.zeros(batch + (1,) * count, dtype=int)
    step = 1
    for axis in reversed(range(count)):
        along = np.arange(lengths[axis]).reshape([-1 if k == axis else 1 for k in range(count)])
        places = places + (np.reshape(corners[axis], batch + (1,) * count) + along) * step
        step *= sizes[axis]
    return places


def put(x: Value, places: Any, values: Value) -> Value:
    """Return `x` with values written at positions; at a repeated position the last value is kept."""
    return np.reshape(PUT(np.reshape(x, (-1,)), values, index=places), shape(x))


def add_at(x: Value, places: Any, values: Value) -> Value:
    """Return `x` with values added at positions, repeated ones summed."""
    return x + np.reshape(SCATTER(values, index=places, into=(size(x),)), shape(x))


def put_with(
    function: Callable[[Value, Value], Value], include_first: bool = True
) -> Callable[[Value, Any, Value], Value]:
    """Return a `put` that combines an entry of `x` with each of the values at its position by a function.

    Without `include_first`, the first value at a position replaces the entry of `x`.
    """

    def combined(x: Value, places: Any, values: Value) -> Value:
        row, flat, each = np.reshape(x, (-1,)), np.ravel(places), np.reshape(values, (-1,))
        order = np.argsort(flat, kind="stable")
        turn = np.empty(flat.size, dtype=int)
        turn[order] = np.arange(flat.size) - np.searchsorted(flat[order], flat[order])  # how often it occurred before
        for number in range(turn.max(initial=-1) + 1):
            now = np.flatnonzero(turn == number)
            new = function(row[flat[now]], each[now]) if include_first or number else each[now]
            row = PUT(row, new, index=flat[now])
        return np.reshape(row, shape(x))

    return combined


def dynamic_update_slice(x: Value, block: Value, *starts: Any, **params: Any) -> Value:
    """Return `x` with a block written over it at computed positions."""
    places = np.arange(size(x)).reshape(shape(x))[block_index(starts, shape(x), shape(block))]
    return put(x, places, block)


def _block_corners(indices: Any, targets: Sizes, batching: Sizes, batched: Sizes, sizes: Sizes) -> list[Any]:
    """Return where each block begins along each axis: from the last axis of `indices`, or from its place in the batch."""
    batch = indices.shape[:-1]
    corners = [np.zeros(batch, dtype=int) for _ in sizes]
    for k, axis in enumerate(targets):
        corners[axis] = indices[..., k].astype(int)
    for axis, along in zip(batching, batched, strict=True):
        corners[axis] = np.broadcast_to(
            np.arange(batch[along]).reshape([-1 if k == along else 1 for k in range(len(batch))]), batch
        )
    return corners


def _positions_in_bounds(corners: list[Any], sizes: Sizes, lengths: Sizes, mode: Any) -> tuple[Any, Any]:
    """Return the positions of the blocks, shifted to lie inside the array, and which blocks were in bounds."""
    inside = [np.clip(at, 0, n - m) for at, n, m in zip(corners, sizes, lengths, strict=True)]
    valid = np.ones(np.shape(corners[0]) if corners else (), dtype=bool)
    if getattr(mode, "name", str(mode)) != "CLIP":
        for at, moved in zip(corners, inside, strict=True):
            valid = valid & (at == moved)
    return block_positions(inside, sizes, lengths), valid


def _out_of_bounds_value(x: Value) -> Any:
    kind = getattr(x, "dtype", np.dtype(float))
    if kind.kind in "iu":
        return np.iinfo(kind).min if kind.kind == "i" else np.iinfo(kind).max
    return kind.type(True) if kind.kind == "b" else np.nan


def gather(
    x: Value, indices: Any, *, dimension_numbers: Any, slice_sizes: Sizes, mode: Any, fill_value: Any, **params: Any
) -> Value:
    """Return blocks of `x` that begin at `indices`; blocks out of bounds are shifted inside, or filled, as `mode` says."""
    d = dimension_numbers
    batching = tuple(d.operand_batching_dims)
    corners = _block_corners(np.asarray(indices), d.start_index_map, batching, d.start_indices_batching_dims, shape(x))
    places, valid = _positions_in_bounds(corners, shape(x), slice_sizes, mode)
    if getattr(mode, "name", str(mode)) == "FILL_OR_DROP":
        places = np.where(np.reshape(valid, valid.shape + (1,) * len(shape(x))), places, size(x))
    dropped = {*d.collapsed_slice_dims, *batching}
    window = [n for k, n in enumerate(slice_sizes) if k not in dropped]
    places = places.reshape(valid.shape + tuple(window))
    rest = iter(range(valid.ndim))
    offsets = list(d.offset_dims)
    order = [valid.ndim + offsets.index(k) if k in offsets else next(rest) for k in range(places.ndim)]
    return gather_flat(x, places.transpose(order), _out_of_bounds_value(x) if fill_value is None else fill_value)


def scatter_entry(combine: Entry) -> Entry:
    """Return an entry that combines updates into `x` by `combine(x, positions, values)`."""

    def scatter(
        x: Value, indices: Any, updates: Value, *, dimension_numbers: Any, mode: Any, update_jaxpr: Any, **params: Any
    ) -> Value:
        d = dimension_numbers
        if combine is put and update_jaxpr is not None and update_jaxpr.eqns:
            raise NotSupported("x.at[...].apply(f) is not replayed", do="x.at[i].set(f(x[i]))")
        batching = tuple(d.operand_batching_dims)
        windows = list(d.update_window_dims)
        dropped = {*d.inserted_window_dims, *batching}
        rest = iter(shape(updates)[k] for k in windows)
        lengths = [1 if k in dropped else next(rest) for k in range(len(shape(x)))]
        at = np.asarray(indices)
        corners = _block_corners(
            at, d.scatter_dims_to_operand_dims, batching, d.scatter_indices_batching_dims, shape(x)
        )
        places, valid = _positions_in_bounds(corners, shape(x), lengths, mode)
        order = [k for k in range(len(shape(updates))) if k not in windows] + windows
        values = np.transpose(updates, order)
        places = places.reshape(shape(values))
        return combine(x, places, values) if np.all(valid) else combine(x, places[valid], values[valid])

    return scatter


TABLE: dict[str, Entry] = {
    "dynamic_slice": dynamic_slice, "dynamic_update_slice": dynamic_update_slice, "gather": gather,
    "scatter": scatter_entry(put), "scatter-add": scatter_entry(add_at),
    "scatter-sub": scatter_entry(lambda x, places, v: add_at(x, places, -v)),
    "scatter-mul": scatter_entry(put_with(np.multiply)), "scatter-min": scatter_entry(put_with(np.minimum)),
    "scatter-max": scatter_entry(put_with(np.maximum)),
}  # fmt: skip
TABLE |= {name.replace("-", "_"): entry for name, entry in TABLE.items()}


# Primitives that move entries to places known from the equation's parameters alone.


def pad(x: Value, filling: Value, *, padding_config: Any, **params: Any) -> Value:
    """Return `x` padded with `filling` around and between its entries; a negative width removes entries."""
    return gather_flat(x, padded_positions(shape(x), padding_config), filling)


def split(x: Value, *, sizes: Sizes, axis: int, **params: Any) -> tuple[Value, ...]:
    """Return blocks of given lengths along an axis."""
    ends = np.cumsum(sizes).tolist()
    lead = (slice(None),) * axis
    return tuple(x[(*lead, slice(end - int(size), end))] for end, size in zip(ends, sizes, strict=True))


def unstack(x: Value, *, axis: int, **params: Any) -> tuple[Value, ...]:
    """Return the slices along an axis."""
    return tuple(x[(*(slice(None),) * axis, k)] for k in range(shape(x)[axis]))


SHAPING: dict[str, Entry] = {
    "iota": iota, "broadcast_in_dim": broadcast_in_dim, "reshape": reshape, "slice": slice_, "pad": pad, "split": split,
    "unstack": unstack,
    "transpose": lambda x, *, permutation, **params: np.transpose(x, tuple(permutation)),
    "squeeze": lambda x, *, dimensions, **params: np.squeeze(x, tuple(dimensions)),
    "rev": lambda x, *, dimensions, **params: np.flip(x, tuple(dimensions)),
    "concatenate": lambda *xs, dimension, **params: np.concatenate(xs, axis=dimension),
    "stack": lambda *xs, axis, **params: np.stack(xs, axis=axis),
    "tile": lambda x, *, reps, **params: np.tile(x, tuple(reps)),
}  # fmt: skip


# Convolutions and pooling.


def _padding_ends(padding: Any, dilation: Sizes) -> list[tuple[int, int, int]]:
    return [(int(low), int(high), d - 1) for (low, high), d in zip(padding, dilation, strict=True)]


def pooling_entry(function: Entry, filling: float) -> Entry:
    """Return a table entry that reduces each window with `function`; positions outside the array count as `filling`."""

    def pool(
        x: Value, *, window_dimensions: Sizes, window_strides: Sizes, padding: Any, base_dilation: Any = None,
        window_dilation: Any = None, **params: Any,
    ) -> Value:  # fmt: skip
        rank = len(shape(x))
        ends = _padding_ends(padding, base_dilation or (1,) * rank)
        seen = window_positions(
            padded_positions(shape(x), ends), window_dimensions, window_strides, window_dilation or (1,) * rank
        )
        return function(gather_flat(x, seen, filling), axis=tuple(range(rank, 2 * rank)))

    return pool


def select_and_scatter_add(
    source: Value, x: Value, *, select_prim: Any, window_dimensions: Sizes, window_strides: Sizes, padding: Any,
    **params: Any,
) -> Value:  # fmt: skip
    """Return zeros in the shape of `x`, with each entry of `source` added at the first extreme of its window in `x`."""
    ones = (1,) * len(shape(x))
    places = window_positions(
        padded_positions(shape(x), _padding_ends(padding, ones)), window_dimensions, window_strides, ones
    )
    rows = places.reshape((*places.shape[: len(ones)], -1))
    largest = str(select_prim) in ("ge", "gt")
    seen = gather_flat(x, rows, -np.inf if largest else np.inf)
    at = (np.argmax if largest else np.argmin)(seen, axis=-1)
    return add_at(np.zeros(shape(x)), np.take_along_axis(rows, at[..., None], -1)[..., 0], source)


# Convolution and its transpose as one matrix product: the windows of the input are gathered into columns.

PaddedEnds = Sequence[tuple[int, int, int]]


class Convolution:
    """A cross-correlation of inputs of shape `x` with kernels of shape `w`.

    `ends` gives the padding of each spatial axis before, after and between its entries.

    Shapes  x (batch, channels, space...), w (features, channels / groups, window...); the result (batch, features, space...).
    """

    def __init__(self, x: Sizes, w: Sizes, strides: Sizes, ends: PaddedEnds, dilation: Sizes, groups: int = 1) -> None:
        self.x, self.w, self.groups = tuple(x), tuple(w), groups
        self.features_first = (1, 0, *range(2, len(x)))  # the order of axes, and back
        batch, channels, rank = x[0], x[1], len(x) - 2
        places = padded_positions(x, [(0, 0, 0), (0, 0, 0), *ends])
        seen = window_positions(places, (1, 1, *w[2:]), (1, 1, *strides), (1, 1, *dilation))
        self.space, self.count = seen.shape[2 : 2 + rank], int(np.prod(w[1:], dtype=int))
        spread = seen.reshape(batch, groups, channels // groups, *self.space, -1)
        self.columns = spread.transpose(1, 2, 3 + rank, 0, *range(3, 3 + rank)).reshape(groups, self.count, -1)

    def __call__(self, x: Value, w: Value) -> Value:
        """Return the correlation."""
        y = self._multiply_groups(self._kernels_as_matrices(w), gather_flat(x, self.columns))
        return np.transpose(np.reshape(y, (self.w[0], self.x[0], *self.space)), self.features_first)

    def to_input(self, ybar: Value, w: Value) -> Value:
        """Apply the transpose of the map from `x` to the result; `ybar` has the shape of the result."""
        columns = np.reshape(np.transpose(ybar, self.features_first), (self.groups, self.w[0] // self.groups, -1))
        pulled = self._multiply_groups(np.swapaxes(self._kernels_as_matrices(w), -1, -2), columns)
        row = add_at(np.zeros(int(np.prod(self.x, dtype=int)) + 1), self.columns, pulled)
        return np.reshape(row[:-1], self.x)

    def _multiply_groups(self, a: Value, b: Value) -> Value:
        return np.matmul(a, b) if self.groups > 1 else np.matmul(a[0], b[0])[None]

    def _kernels_as_matrices(self, w: Value) -> Value:
        return np.reshape(w, (self.groups, self.w[0] // self.groups, self.count))


def conv_general_dilated(
    x: Value, w: Value, *, window_strides: Sizes, padding: Any, lhs_dilation: Sizes, rhs_dilation: Sizes,
    dimension_numbers: Any, feature_group_count: int, batch_group_count: int, **params: Any,
) -> Value:  # fmt: skip
    """Return XLA's general convolution: axes in any order, both operands dilated, in groups of features or batches."""
    lhs, rhs, out = dimension_numbers.lhs_spec, dimension_numbers.rhs_spec, dimension_numbers.out_spec
    x, w, groups = np.transpose(x, lhs), np.transpose(w, rhs), feature_group_count
    if batch_group_count > 1:
        groups = batch_group_count
        batch, channels, *space = shape(x)
        apart = np.swapaxes(np.reshape(x, (groups, batch // groups, channels, *space)), 0, 1)
        x = np.reshape(apart, (batch // groups, groups * channels, *space))
    convolve = Convolution(
        shape(x), shape(w), window_strides, _padding_ends(padding, lhs_dilation), rhs_dilation, groups
    )
    return np.transpose(convolve(x, w), np.argsort(out).tolist())


WINDOWS: dict[str, Entry] = {
    "reduce_window_sum": pooling_entry(np.sum, 0.0), "reduce_window_max": pooling_entry(np.max, -np.inf),
    "reduce_window_min": pooling_entry(np.min, np.inf), "select_and_scatter_add": select_and_scatter_add,
    "conv_general_dilated": conv_general_dilated,
}  # fmt: skip
