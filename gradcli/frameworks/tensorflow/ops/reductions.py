"""Reductions over axes and over segments, running (cumulative) operations, argmax and top-k."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.shapes import shape
from gradcli.frameworks.ops.places import added, put_with
from gradcli.frameworks.ops.reductions import TABLE as RUNNING

Entry = Callable[..., Any]


def axes_of(axis: Any, x: Value) -> tuple[int, ...]:
    """Return an input that holds axis numbers, as a tuple."""
    return tuple(int(k) % max(len(shape(x)), 1) for k in np.ravel(axis))


def reduced(function: Entry) -> Entry:
    """Return an entry that reduces over the axes its second input names."""
    return lambda x, axis, *, keep_dims=False, **attrs: function(x, axis=axes_of(axis, x), keepdims=bool(keep_dims))


def length(x: Value, axis: tuple[int, ...], keepdims: bool) -> Value:
    """Return the Euclidean norm over axes."""
    return np.sqrt(np.sum(np.square(x), axis=axis, keepdims=keepdims))


def running(name: str) -> Entry:
    """Return an entry that accumulates along the axis its second input names."""
    return lambda x, axis, **attrs: RUNNING[name](x, axis=int(axis) % len(shape(x)), **attrs)


def positioned(function: Entry) -> Entry:
    """Return an entry that finds a position along one axis, such as that of the maximum."""
    return lambda x, axis, *, output_type, **attrs: np.asarray(function(x, axis=int(axis))).astype(
        output_type.as_numpy_dtype
    )


def top_k(x: Value, k: Any, **attrs: Any) -> tuple[Value, Any]:
    """Return the k largest entries along the last axis, from the largest, and their positions."""
    order = (np.argsort(-x, axis=-1, kind="stable") if not _whole(x) else np.argsort(~x, axis=-1, kind="stable"))[
        ..., : int(k)
    ]
    return np.take_along_axis(x, order, -1), order.astype(np.int32)


def _whole(x: Value) -> bool:
    return getattr(x, "dtype", np.dtype(float)).kind in "iu"


def _rows(x: Value, ids: Any, count: int) -> tuple[Any, Value]:
    """Return the target position of each entry, and the entries; rows with a negative segment number are left out."""
    ids = np.asarray(ids)
    inner = shape(x)[ids.ndim :]
    places = np.arange(count * int(np.prod(inner, dtype=int))).reshape(count, *inner)
    kept = np.ravel(ids) >= 0
    rows = np.reshape(x, (ids.size, *inner))
    return places[np.ravel(ids)[kept]], rows if np.all(kept) else rows[kept]


def segmented(join: str) -> Entry:
    """Return an entry that reduces the rows of each segment; the third input, or else the last id, gives their number."""

    def entry(x: Value, ids: Any, count: Any = None, **attrs: Any) -> Value:
        n = int(count) if count is not None else int(np.max(ids, initial=-1)) + 1
        places, rows = _rows(x, ids, n)
        empty = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "max": -np.inf, "min": np.inf}[join]
        into = (n, *shape(x)[np.ndim(ids) :])
        if join in ("sum", "mean"):
            y = added(np.zeros(into), places, rows)
            sizes = np.bincount(np.ravel(ids)[np.ravel(ids) >= 0], minlength=n).reshape((-1,) + (1,) * (len(into) - 1))
            return y / np.maximum(sizes, 1) if join == "mean" else y
        function: Any = {"prod": np.multiply, "max": np.maximum, "min": np.minimum}[join]
        y = put_with(function)(np.full(into, empty), places, rows)
        missing = np.bincount(np.ravel(ids)[np.ravel(ids) >= 0], minlength=n) == 0
        if not np.any(missing) or join == "prod":
            return y
        low = 0.0 if count is None else -np.finfo(float).max if join == "max" else np.finfo(float).max
        return np.where(missing.reshape((-1,) + (1,) * (len(into) - 1)), low, y)

    return entry


def bincount(ids: Any, size: Any, weights: Value, **attrs: Any) -> Value:
    """Return, for each id, the sum of its weights, or its count if there are no weights."""
    ids = np.ravel(ids)
    if not shape(weights)[0]:
        return np.bincount(ids[ids < int(size)], minlength=int(size))
    kept = ids < int(size)
    return added(np.zeros(int(size)), ids[kept], np.reshape(weights, (-1,))[kept])


def add_all(*xs: Value, **attrs: Any) -> Value:
    """Return the sum of the inputs."""
    return sum(xs[1:], start=xs[0])


TABLE: dict[str, Entry] = {
    "Sum": reduced(np.sum), "Mean": reduced(np.mean), "Max": reduced(np.max), "Min": reduced(np.min), "Prod": reduced(np.prod),
    "All": reduced(np.all), "Any": reduced(np.any), "EuclideanNorm": reduced(length), 
    "Cumsum": running("cumsum"), "Cumprod": running("cumprod"),
    "CumulativeLogsumexp": running("cumlogsumexp"),
    "ArgMax": positioned(np.argmax), "ArgMin": positioned(np.argmin), "TopKV2": top_k,
    "SegmentSum": segmented("sum"), "SegmentMean": segmented("mean"), "SegmentProd": segmented("prod"),
    "SegmentMax": segmented("max"), "SegmentMin": segmented("min"), "UnsortedSegmentSum": segmented("sum"),
    "UnsortedSegmentProd": segmented("prod"), "UnsortedSegmentMax": segmented("max"), "UnsortedSegmentMin": segmented("min"),
    "DenseBincount": bincount,
    "L2Loss": lambda x, **attrs: np.sum(np.square(x)) / 2, "AddN": add_all, "AccumulateNV2": add_all,
}  # fmt: skip
