"""Primitives that move entries to places known from the equation's parameters alone."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.frameworks.ops.places import gathered, padded
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape

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


def pad(x: Value, filling: Value, *, padding_config: Any, **params: Any) -> Value:
    """Return `x` padded with `filling` around and between its entries; a negative width removes entries."""
    return gathered(x, padded(shape(x), padding_config), filling)


def split(x: Value, *, sizes: Sizes, axis: int, **params: Any) -> tuple[Value, ...]:
    """Return blocks of given lengths along an axis."""
    ends = np.cumsum(sizes).tolist()
    lead = (slice(None),) * axis
    return tuple(x[(*lead, slice(end - int(size), end))] for end, size in zip(ends, sizes, strict=True))


def unstack(x: Value, *, axis: int, **params: Any) -> tuple[Value, ...]:
    """Return the slices along an axis."""
    return tuple(x[(*(slice(None),) * axis, k)] for k in range(shape(x)[axis]))


TABLE: dict[str, Entry] = {
    "iota": iota, "broadcast_in_dim": broadcast_in_dim, "reshape": reshape, "slice": slice_, "pad": pad, "split": split,
    "unstack": unstack,
    "transpose": lambda x, *, permutation, **params: np.transpose(x, tuple(permutation)),
    "squeeze": lambda x, *, dimensions, **params: np.squeeze(x, tuple(dimensions)),
    "rev": lambda x, *, dimensions, **params: np.flip(x, tuple(dimensions)),
    "concatenate": lambda *xs, dimension, **params: np.concatenate(xs, axis=dimension),
    "stack": lambda *xs, axis, **params: np.stack(xs, axis=axis),
    "tile": lambda x, *, reps, **params: np.tile(x, tuple(reps)),
}  # fmt: skip
