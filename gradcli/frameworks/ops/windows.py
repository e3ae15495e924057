"""Convolutions and pooling."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.frameworks.ops.indexing import add_at, gather_flat, padded_positions, window_positions
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape

Entry = Callable[..., Any]
Sizes = Sequence[int]


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

Ends = Sequence[tuple[int, int, int]]


class Convolution:
    """A cross-correlation of inputs of shape `x` with kernels of shape `w`.

    `ends` gives the padding of each spatial axis before, after and between its entries.

    Shapes  x (batch, channels, space...), w (features, channels / groups, window...); the result (batch, features, space...).
    """

    def __init__(self, x: Sizes, w: Sizes, strides: Sizes, ends: Ends, dilation: Sizes, groups: int = 1) -> None:
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


TABLE: dict[str, Entry] = {
    "reduce_window_sum": pooling_entry(np.sum, 0.0), "reduce_window_max": pooling_entry(np.max, -np.inf),
    "reduce_window_min": pooling_entry(np.min, np.inf), "select_and_scatter_add": select_and_scatter_add,
    "conv_general_dilated": conv_general_dilated,
}  # fmt: skip
