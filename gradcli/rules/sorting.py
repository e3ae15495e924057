"""Sorting, ranks, quantiles and searching.

The order is taken from the float64 values. Every comparison that it depends on is recorded: a tie is a kink, and an order
that balls cannot decide raises Undecided.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.errors import NoRule, Undecided
from gradcli.rules.kinds import as_booleans, is_given, merge_axes_last, refuse_options, restore_axes, write_result
from gradcli.rules.shaping import GETITEM, PUT, as_value, as_vector, is_traced
from gradcli.tracing import shapes
from gradcli.tracing.primitive import Value, handle, handles
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import Tracer, freeze_index, plain_value


def record_order(a: Value, b: Value) -> None:
    """Record the comparison a <= b, which holds for the float64 values.

    Raises  Undecided if it does not hold in another arithmetic.
    """
    if not (shapes.size(a) and shapes.size(b)):
        return
    holds = plain_value(np.less_equal(a, b))
    if not np.all(holds | np.isnan(plain_value(a)) | np.isnan(plain_value(b))):
        raise Undecided(
            "two entries are equal in float64 and not in ball arithmetic", do="the function may have a kink here"
        )


def _move_axis_last(x: Value, axis: Any) -> Value:
    """Return `x` with the axis to sort along moved to the end; None flattens `x`."""
    return as_vector(x) if axis is None else np.moveaxis(x, axis, -1)


def sorting_positions(x: Value) -> Any:
    """Return the positions that sort `x` along the last axis; equal entries keep their order."""
    at = np.argsort(plain_value(x), axis=-1, kind="stable")
    y = np.take_along_axis(x, at, -1)
    record_order(y[..., :-1], y[..., 1:])
    return at


def _normalise_axis(name: str, axis: Any, x: Value, **options: Any) -> int | None:
    refuse_options(name, **options)
    return None if axis is None else shapes.normalise_axis(axis, len(shape(x)))


@handles(np.sort)
def sort(a: Value, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Value:
    a = as_value(a)
    at = argsort(a, axis, order=order)
    return GETITEM(as_vector(a), index=at) if axis is None else np.take_along_axis(a, at, axis)


@handles(np.argsort)
def argsort(a: Value, axis: Any = -1, kind: Any = None, order: Any = None, *, stable: Any = None) -> Any:
    a = as_value(a)
    k = _normalise_axis("argsort", axis, a, order=order)
    found = sorting_positions(_move_axis_last(a, k))
    return found if k is None else np.moveaxis(found, -1, k)


@handles(np.partition)
def partition(a: Value, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Value:
    a = as_value(a)
    at = argpartition(a, kth, axis, kind, order)
    return GETITEM(as_vector(a), index=at) if axis is None else np.take_along_axis(a, at, axis)


@handles(np.argpartition)
def argpartition(a: Value, kth: Any, axis: Any = -1, kind: str = "introselect", order: Any = None) -> Any:
    """Return the positions that put the values in the order of np.partition."""
    a = as_value(a)
    k = _normalise_axis("partition", axis, a, order=order)
    x = _move_axis_last(a, k)
    left = np.argsort(np.partition(plain_value(x), freeze_index(kth), axis=-1), axis=-1, kind="stable")
    at = np.empty_like(left)
    np.put_along_axis(at, left, np.argsort(plain_value(x), axis=-1, kind="stable"), -1)
    y = np.take_along_axis(x, at, -1)
    for place in np.atleast_1d(kth).tolist() if shape(x)[-1] else []:
        place %= shape(x)[-1]
        record_order(y[..., :place], y[..., place, None])
        record_order(y[..., place, None], y[..., place + 1 :])
    return at if k is None else np.moveaxis(at, -1, k)


def arg_extreme(find: Any, a: Value, axis: Any, out: Any, keepdims: Any) -> Any:
    """Return where an extreme is, by np.argmax or np.argmin; that it is one is recorded."""
    over = None if axis is None else shapes.normalise_axis(axis, len(shape(a)))
    x = _move_axis_last(a, over)
    at = find(plain_value(x), axis=-1, keepdims=True)
    others = np.arange(shape(x)[-1] - 1)
    others = others + (others >= at)
    best, rest = np.take_along_axis(x, at, -1), np.take_along_axis(x, others, -1)
    record_order(*((rest, best) if find is np.argmax else (best, rest)))
    y = find(plain_value(a), axis=axis, keepdims=bool(is_given(keepdims) and keepdims))
    if out is None:
        return y
    out[...] = y
    return out


# Quantiles.


def _interpolate_sorted(x: Value, low: int, t: float) -> Value:
    """Return the value a fraction `t` of the way from sorted entry `low` to the next along the last axis.

    Only comparisons that the value depends on are recorded: those between entries of different weight.
    """
    at = np.argsort(plain_value(x), axis=-1, kind="stable")
    y = np.take_along_axis(x, at, -1)
    high = low + 1 if t else low
    below, above = y[..., low], y[..., high]
    record_order(y[..., :low], below[..., None] if shape(below) else below)
    record_order(above[..., None] if shape(above) else above, y[..., high + 1 :])
    if t not in (0.0, 0.5):
        record_order(below, above)
    if not t:
        return below
    return (below + above) / 2.0 if t == 0.5 else below + (above - below) * t


def _quantile_place(count: int, q: float, method: str) -> tuple[int, float]:
    """Return which of `count` sorted entries is below numpy's quantile, and the fraction of the way to the next one."""
    low = int(np.floor(np.quantile(np.arange(float(count)), q, method=method)))  # type: ignore[call-overload]
    return low, float(np.quantile((np.arange(count) > low) * 1.0, q, method=method))  # type: ignore[call-overload]


def _quantile(a: Value, q: Any, axis: Any, method: str, keepdims: Any, skip: bool) -> Value:
    a = as_value(a)
    over = shapes.normalise_axes(axis, len(shape(a)))
    rows = merge_axes_last(a, over)
    probabilities = np.asarray(q, dtype=float)
    parts = [
        restore_axes(_quantile_of_rows(rows, p, method, skip), keepdims, over, a)
        for p in probabilities.reshape(-1).tolist()
    ]
    return parts[0] if not probabilities.shape else np.reshape(np.stack(parts), probabilities.shape + shape(parts[0]))


def _quantile_of_rows(rows: Value, q: float, method: str, skip: bool) -> Value:
    """Return the quantile of each row: nan if the row contains nan, unless `skip` ignores these entries."""
    missing = np.isnan(plain_value(rows))
    if not shape(rows)[-1]:
        return np.full(shape(rows)[:-1], np.nan)[()]
    if not skip or not np.any(missing):
        y = _interpolate_sorted(rows, *_quantile_place(shape(rows)[-1], q, method))
        return np.where(np.any(missing, axis=-1), np.nan, y) if np.any(missing) else y
    outer = shape(rows)[:-1]
    parts = [
        _quantile_of_rows(rows[at][~missing[at]], q, method, False) if not np.all(missing[at]) else np.float64(np.nan)
        for at in np.ndindex(*outer)
    ]
    return np.reshape(np.stack(parts), outer) if outer else parts[0]


def _quantile_handler(function: Any, scale: float, skip: bool) -> Callable[..., Value]:
    def quantile(
        a: Value, q: Any, axis: Any = None, out: Any = None, overwrite_input: bool = False, method: str = "linear",
        keepdims: Any = False, *, weights: Any = None,
    ) -> Value:  # fmt: skip
        refuse_options("quantile", weights=weights)
        if is_traced(q):
            raise NoRule("the probability of a quantile is a traced value", do="pass it as a plain number")
        return write_result(out, _quantile(a, np.true_divide(q, scale), axis, method, keepdims, skip))

    quantile.__wrapped__ = function  # type: ignore[attr-defined]  # its signature is numpy's
    quantile.__doc__ = f"Return np.{function.__name__}: linear in the sorted entries."
    return quantile


for _function, _scale, _skip in (
    (np.quantile, 1.0, False), (np.percentile, 100.0, False), (np.nanquantile, 1.0, True), (np.nanpercentile, 100.0, True),
):  # fmt: skip
    handles(_function)(_quantile_handler(_function, _scale, _skip))


handle({
    np.argmax: lambda a, axis=None, out=None, *, keepdims=False: arg_extreme(np.argmax, as_value(a), axis, out, keepdims),
    np.argmin: lambda a, axis=None, out=None, *, keepdims=False: arg_extreme(np.argmin, as_value(a), axis, out, keepdims),
    np.median: lambda a, axis=None, out=None, overwrite_input=False, keepdims=False:
        write_result(out, _quantile(a, 0.5, axis, "linear", keepdims, False)),
    np.nanmedian: lambda a, axis=None, out=None, overwrite_input=False, keepdims=False:
        write_result(out, _quantile(a, 0.5, axis, "linear", keepdims, True)),
})  # fmt: skip


# Searching.


@handles(np.searchsorted)
def searchsorted(a: Value, v: Value, side: str = "left", sorter: Any = None) -> Any:
    knots, x = as_value(a), as_value(v)
    knots = knots if sorter is None else GETITEM(knots, index=freeze_index(np.asarray(sorter)))
    at = np.searchsorted(plain_value(knots), plain_value(x), side=side)  # type: ignore[call-overload]
    row, places, count = np.reshape(x, -1), np.ravel(at), shape(knots)[0]
    above, below = places > 0, places < count
    record_order(knots[places[above] - 1], row[above])
    record_order(row[below], knots[places[below]])
    return at


@handles(np.digitize)
def digitize(x: Value, bins: Value, right: bool = False) -> Any:
    knots = as_value(bins)
    side = "left" if right else "right"
    if np.all(np.diff(plain_value(knots)) >= 0):
        return searchsorted(knots, x, side)
    if np.any(np.diff(plain_value(knots)) > 0):
        raise ValueError("bins must be monotonically increasing or decreasing")
    return shape(knots)[0] - searchsorted(knots[::-1], x, side)


@handles(np.unique)
def unique(
    ar: Value, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False, axis: Any = None,
    *, equal_nan: bool = True, sorted: bool = True,
) -> Any:  # fmt: skip
    """Return the distinct values in order; equal values are recorded as ties."""
    refuse_options("unique", axis=axis)
    x = as_vector(as_value(ar))
    sorting_positions(x)
    plain_unique: Any = np.unique
    found = plain_unique(plain_value(x), True, return_inverse, return_counts, equal_nan=equal_nan)
    y = GETITEM(x, index=found[1])
    rest = [found[1]] if return_index else []
    rest += [np.reshape(found[2], shape(ar))] if return_inverse else []
    rest += [found[-1]] if return_counts else []
    return (y, *rest) if rest else y


# Choosing among values by conditions, and functions applied to parts of an array.


@handles(np.select)
def select(condlist: Sequence[Any], choicelist: Sequence[Value], default: Value = 0) -> Value:
    """Return, entry by entry, the first choice whose condition holds."""
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not condlist:
        raise ValueError("select with an empty condition list is not possible")
    y = as_value(default)
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        y = np.where(as_booleans(condition), as_value(choice), y)
    return y


@handles(np.choose)
def choose(a: Any, choices: Any, mode: str = "raise") -> Value:
    """Return, entry by entry, the choice whose number is in the array `a`."""
    which = freeze_index(np.asarray(a) if isinstance(a, list | tuple) else a)
    parts = [as_value(choice) for choice in choices]
    to = np.broadcast_shapes(np.shape(which), *(shape(part) for part in parts))
    number = np.choose(which, list(range(len(parts))), mode=mode)  # type: ignore[call-overload]
    spread = np.stack([np.broadcast_to(part, to) if shape(part) != to else part for part in parts])
    count = math.prod(to)
    at = np.broadcast_to(number, to) * count + np.arange(count).reshape(to)
    return GETITEM(as_vector(spread), index=at)


@handles(np.piecewise)
def piecewise(x: Value, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Value:
    """Return, entry by entry, the function whose condition holds, or 0; each function is called on its entries only."""
    single = not isinstance(condlist, list | tuple | np.ndarray) or (
        not isinstance(condlist[0], list | tuple | np.ndarray) and len(shape(x)) != 0
    )
    conditions = [np.broadcast_to(as_booleans(c), shape(x)) for c in ([condlist] if single else condlist)]
    if len(conditions) == len(funclist) - 1:
        conditions.append(~np.any(conditions, axis=0))
    if len(conditions) != len(funclist):
        count = len(conditions)
        raise ValueError(f"with {count} condition(s), either {count} or {count + 1} functions are expected")
    y = np.zeros_like(_at_least_vector(x))
    for condition, function in zip(conditions, funclist, strict=True):
        chosen = np.atleast_1d(condition)
        if not np.any(chosen):
            continue
        value = function(_at_least_vector(x)[chosen], *args, **kw) if callable(function) else function
        y = PUT(y, as_value(value), index=chosen)
    return y if shape(x) else y[0]


def _at_least_vector(x: Value) -> Value:
    return x if shape(x) else np.reshape(x, (1,))


@handles(np.apply_along_axis)
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Value, *args: Any, **kwargs: Any) -> Value:
    k = shapes.normalise_axis(axis, len(shape(arr)))
    rows = np.moveaxis(arr, k, -1)
    outer = shape(rows)[:-1]
    parts = [as_value(func1d(rows[at], *args, **kwargs)) for at in np.ndindex(*outer)]
    y, count = np.reshape(np.stack(parts), outer + shape(parts[0])), len(shape(parts[0]))
    return np.moveaxis(y, tuple(range(len(outer), len(outer) + count)), tuple(range(k, k + count))) if count else y


@handles(np.apply_over_axes)
def apply_over_axes(func: Callable[..., Any], a: Value, axes: Any) -> Value:
    y = as_value(a)
    for axis in np.atleast_1d(axes).tolist():
        result = func(y, axis)
        y = result if len(shape(result)) == len(shape(y)) else np.expand_dims(result, axis)
    return y


def fill_nan(x: Value, filling: Any) -> tuple[Value, Any]:
    """Return `x` with nan replaced by `filling`, and a mask of the replaced entries."""
    missing = np.isnan(x)
    return (np.where(missing, filling, x) if np.any(missing) else x), np.asarray(missing)


@handles(np.nan_to_num)
def nan_to_num(x: Value, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Value:
    """Return `x` with nan and infinities replaced."""
    top = np.finfo(np.float64).max
    y, _ = fill_nan(as_value(x), nan)
    infinite = np.isinf(y)
    if np.any(infinite):
        up = infinite & np.greater(y, 0)
        y = np.where(infinite & ~up, -top if neginf is None else neginf, y)
        y = np.where(up, top if posinf is None else posinf, y)
    if copy or not isinstance(x, Tracer) or not shape(x):
        return np.positive(y)
    x[...] = y
    return x
