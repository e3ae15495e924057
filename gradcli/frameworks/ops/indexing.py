"""Slices, gathers and scatters at positions that are plain integers."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.errors import NotSupported
from gradcli.frameworks.ops.places import added, blocks, gathered, put, put_with
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape, size

Entry = Callable[..., Any]
Sizes = Sequence[int]


def corner(starts: Sequence[Any], whole: Sizes, part: Sizes) -> tuple[slice, ...]:
    """Return the index of a block that begins at `starts`, shifted to lie inside the array."""
    firsts = [min(max(int(at), 0), n - m) for at, n, m in zip(starts, whole, part, strict=True)]
    return tuple(slice(at, at + m) for at, m in zip(firsts, part, strict=True))


def dynamic_slice(x: Value, *starts: Any, slice_sizes: Sizes, **params: Any) -> Value:
    """Return a block of `x` that begins at computed positions."""
    return x[corner(starts, shape(x), slice_sizes)]


def dynamic_update_slice(x: Value, block: Value, *starts: Any, **params: Any) -> Value:
    """Return `x` with a block written over it at computed positions."""
    places = np.arange(size(x)).reshape(shape(x))[corner(starts, shape(x), shape(block))]
    return put(x, places, block)


def _corners(indices: Any, targets: Sizes, batching: Sizes, batched: Sizes, sizes: Sizes) -> list[Any]:
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


def _placed(corners: list[Any], sizes: Sizes, lengths: Sizes, mode: Any) -> tuple[Any, Any]:
    """Return the positions of the blocks, shifted to lie inside the array, and which blocks were in bounds."""
    inside = [np.clip(at, 0, n - m) for at, n, m in zip(corners, sizes, lengths, strict=True)]
    valid = np.ones(np.shape(corners[0]) if corners else (), dtype=bool)
    if getattr(mode, "name", str(mode)) != "CLIP":
        for at, moved in zip(corners, inside, strict=True):
            valid = valid & (at == moved)
    return blocks(inside, sizes, lengths), valid


def _out_of_bounds(x: Value) -> Any:
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
    corners = _corners(np.asarray(indices), d.start_index_map, batching, d.start_indices_batching_dims, shape(x))
    places, valid = _placed(corners, shape(x), slice_sizes, mode)
    if getattr(mode, "name", str(mode)) == "FILL_OR_DROP":
        places = np.where(np.reshape(valid, valid.shape + (1,) * len(shape(x))), places, size(x))
    dropped = {*d.collapsed_slice_dims, *batching}
    window = [n for k, n in enumerate(slice_sizes) if k not in dropped]
    places = places.reshape(valid.shape + tuple(window))
    rest = iter(range(valid.ndim))
    offsets = list(d.offset_dims)
    order = [valid.ndim + offsets.index(k) if k in offsets else next(rest) for k in range(places.ndim)]
    return gathered(x, places.transpose(order), _out_of_bounds(x) if fill_value is None else fill_value)


def scattered(combine: Entry) -> Entry:
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
        corners = _corners(at, d.scatter_dims_to_operand_dims, batching, d.scatter_indices_batching_dims, shape(x))
        places, valid = _placed(corners, shape(x), lengths, mode)
        order = [k for k in range(len(shape(updates))) if k not in windows] + windows
        values = np.transpose(updates, order)
        places = places.reshape(shape(values))
        return combine(x, places, values) if np.all(valid) else combine(x, places[valid], values[valid])

    return scatter


TABLE: dict[str, Entry] = {
    "dynamic_slice": dynamic_slice, "dynamic_update_slice": dynamic_update_slice, "gather": gather,
    "scatter": scattered(put), "scatter-add": scattered(added),
    "scatter-sub": scattered(lambda x, places, v: added(x, places, -v)),
    "scatter-mul": scattered(put_with(np.multiply)), "scatter-min": scattered(put_with(np.minimum)),
    "scatter-max": scattered(put_with(np.maximum)),
}  # fmt: skip
TABLE |= {name.replace("-", "_"): entry for name, entry in TABLE.items()}
