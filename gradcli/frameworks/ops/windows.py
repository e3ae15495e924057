"""Convolutions and pooling."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.frameworks.ops.convolution import Convolution
from gradcli.frameworks.ops.places import added, gathered, padded, windowed
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape

Entry = Callable[..., Any]
Sizes = Sequence[int]


def _ends(padding: Any, dilation: Sizes) -> list[tuple[int, int, int]]:
    return [(int(low), int(high), d - 1) for (low, high), d in zip(padding, dilation, strict=True)]


def pooling(function: Entry, filling: float) -> Entry:
    """Return a table entry that reduces each window with `function`; positions outside the array count as `filling`."""

    def pool(
        x: Value, *, window_dimensions: Sizes, window_strides: Sizes, padding: Any, base_dilation: Any = None,
        window_dilation: Any = None, **params: Any,
    ) -> Value:  # fmt: skip
        rank = len(shape(x))
        ends = _ends(padding, base_dilation or (1,) * rank)
        seen = windowed(padded(shape(x), ends), window_dimensions, window_strides, window_dilation or (1,) * rank)
        return function(gathered(x, seen, filling), axis=tuple(range(rank, 2 * rank)))

    return pool


def select_and_scatter_add(
    source: Value, x: Value, *, select_prim: Any, window_dimensions: Sizes, window_strides: Sizes, padding: Any,
    **params: Any,
) -> Value:  # fmt: skip
    """Return zeros in the shape of `x`, with each entry of `source` added at the first extreme of its window in `x`."""
    ones = (1,) * len(shape(x))
    places = windowed(padded(shape(x), _ends(padding, ones)), window_dimensions, window_strides, ones)
    rows = places.reshape((*places.shape[: len(ones)], -1))
    largest = str(select_prim) in ("ge", "gt")
    seen = gathered(x, rows, -np.inf if largest else np.inf)
    at = (np.argmax if largest else np.argmin)(seen, axis=-1)
    return added(np.zeros(shape(x)), np.take_along_axis(rows, at[..., None], -1)[..., 0], source)


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
    convolve = Convolution(shape(x), shape(w), window_strides, _ends(padding, lhs_dilation), rhs_dilation, groups)
    return np.transpose(convolve(x, w), np.argsort(out).tolist())


TABLE: dict[str, Entry] = {
    "reduce_window_sum": pooling(np.sum, 0.0), "reduce_window_max": pooling(np.max, -np.inf),
    "reduce_window_min": pooling(np.min, np.inf), "select_and_scatter_add": select_and_scatter_add,
    "conv_general_dilated": conv_general_dilated,
}  # fmt: skip
