"""Arrays of flat positions (plain integers), by which values are gathered, scattered, padded and cut into windows.

A position equal to the number of entries stands for the filling.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.rules.shaping import PUT, SCATTER
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape, size

Sizes = Sequence[int]
Ends = Sequence[Sequence[int]]


def gathered(x: Value, places: Any, filling: Value = 0.0) -> Value:
    """Return the entries of `x` at flat positions; the position after the last one gives `filling`.

    Shapes  the result has the shape of `places`.
    """
    row = np.reshape(x, (-1,))
    if np.any(places == size(x)):
        row = np.concatenate([row, np.reshape(filling, (1,))])
    return row[places]


def padded(sizes: Sizes, config: Ends) -> Any:
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


def windowed(places: Any, windows: Sizes, strides: Sizes, dilations: Sizes) -> Any:
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


def blocks(corners: Sequence[Any], sizes: Sizes, lengths: Sizes) -> Any:
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


def added(x: Value, places: Any, values: Value) -> Value:
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
