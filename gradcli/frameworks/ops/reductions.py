"""Reductions, running (cumulative) operations, argmax and argmin, and sorting."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.tracing.primitive import Value

Entry = Callable[..., Any]


def reduced(function: Entry) -> Entry:
    """Return a table entry that reduces over `axes`."""
    return lambda x, *, axes, **params: function(x, axis=tuple(axes))


def running(function: Entry) -> Entry:
    """Return an entry that accumulates along `axis`, from its end if `reverse`."""

    def run(x: Value, *, axis: int, reverse: bool = False, **params: Any) -> Value:
        x = np.flip(x, axis) if reverse else x
        y = function(x, axis=axis)
        return np.flip(y, axis) if reverse else y

    return run


def reduce_xor(x: Any, *, axes: Any, **params: Any) -> Any:
    """Return the exclusive or of truth values or bits."""
    return np.bitwise_xor.reduce(x, axis=tuple(axes))


def positioned(function: Entry) -> Entry:
    """Return an entry that finds a position along one axis, such as that of the maximum."""
    return lambda x, *, axes, index_dtype, **params: np.asarray(function(x, axis=axes[0])).astype(index_dtype)


def sort(*operands: Value, dimension: int, num_keys: int, **params: Any) -> tuple[Value, ...]:
    """Sort all operands by the first `num_keys` of them; the first is the primary key, and the sort is stable."""
    order: Any = None
    for key in reversed(operands[:num_keys]):
        seen = key if order is None else np.take_along_axis(key, order, dimension)
        step = np.argsort(seen, axis=dimension, kind="stable")
        order = step if order is None else np.take_along_axis(order, step, dimension)
    return tuple(np.take_along_axis(x, order, dimension) for x in operands)


def top_k(x: Value, *, k: int, axis: int = -1, **params: Any) -> tuple[Value, Any]:
    """Return the k largest entries along an axis, from the largest, and their positions."""
    order = np.take(np.argsort(-x, axis=axis, kind="stable"), np.arange(k), axis=axis)
    return np.take_along_axis(x, order, axis), order


TABLE: dict[str, Entry] = {
    "reduce_sum": reduced(np.sum), "reduce_prod": reduced(np.prod), "reduce_max": reduced(np.max), "reduce_min": reduced(np.min),
    "reduce_and": reduced(np.all), "reduce_or": reduced(np.any), "reduce_xor": reduce_xor,
    "argmax": positioned(np.argmax), "argmin": positioned(np.argmin),
    "cumsum": running(np.cumsum), "cumprod": running(np.cumprod),
    "cummax": running(np.maximum.accumulate), "cummin": running(np.minimum.accumulate),
    "cumlogsumexp": running(np.logaddexp.accumulate),
    "sort": sort, "top_k": top_k,
}  # fmt: skip
