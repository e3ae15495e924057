"""Reductions that ignore nan."""

from typing import Any

import numpy as np

from gradcli.rules import reductions, sorting
from gradcli.rules.options import given, kept, stored
from gradcli.rules.selecting import nan_filled
from gradcli.rules.shaping import as_value
from gradcli.tracing import shapes
from gradcli.tracing.bind import handles
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import plain


@handles(np.nansum)
def nansum(
    a: Value, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **options: Any
) -> Value:
    return reductions.sum_(nan_filled(as_value(a), 0.0)[0], axis, dtype, out, keepdims, **options)


@handles(np.nanprod)
def nanprod(
    a: Value, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, **options: Any
) -> Value:
    return reductions.prod(nan_filled(as_value(a), 1.0)[0], axis, dtype, out, keepdims, **options)


@handles(np.nancumsum)
def nancumsum(a: Value, axis: Any = None, dtype: Any = None, out: Any = None) -> Value:
    return reductions.cumsum(nan_filled(as_value(a), 0.0)[0], axis, dtype, out)


@handles(np.nancumprod)
def nancumprod(a: Value, axis: Any = None, dtype: Any = None, out: Any = None) -> Value:
    return reductions.cumprod(nan_filled(as_value(a), 1.0)[0], axis, dtype, out)


@handles(np.nanmean)
def nanmean(
    a: Value, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Value:
    a = as_value(a)
    return reductions.mean(a, axis, dtype, out, keepdims, where=_numbers(a, where))


@handles(np.nanvar)
def nanvar(
    a: Value,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: Any = False,
    **options: Any,
) -> Value:
    """Return the variance of the entries that are not nan; nan where there are at most `ddof` of them."""
    a, where = as_value(a), options.pop("where", True)
    numbers = _numbers(a, where)
    over = shapes.axes(axis, len(shape(a)))
    free = np.sum(np.broadcast_to(numbers, shape(a)), axis=over) - ddof
    y = reductions.var(nan_filled(np.real(a), 0.0)[0], axis, dtype, None, ddof, False, where=numbers, **options)
    return stored(out, kept(np.where(free <= 0, np.nan, y) if np.any(free <= 0) else y, keepdims, over, a))


@handles(np.nanstd)
def nanstd(
    a: Value,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    ddof: float = 0,
    keepdims: Any = False,
    **options: Any,
) -> Value:
    return stored(out, np.sqrt(nanvar(a, axis, dtype, None, ddof, keepdims, **options)))


def _numbers(a: Value, where: Any) -> Any:
    numbers = ~np.isnan(plain(a))
    return numbers & where if given(where) else numbers


@handles(np.nanmax)
def nanmax(
    a: Value, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = None
) -> Value:
    return _extreme(as_value(a), -np.inf, reductions.max_, axis, out, keepdims, initial, where)


@handles(np.nanmin)
def nanmin(
    a: Value, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = None
) -> Value:
    return _extreme(as_value(a), np.inf, reductions.min_, axis, out, keepdims, initial, where)


def _extreme(
    a: Value, lowest: float, extreme: Any, axis: Any, out: Any, keepdims: Any, initial: Any, where: Any
) -> Value:
    y = extreme(nan_filled(a, lowest)[0], axis, None, keepdims, initial, where)
    nothing = np.all(np.isnan(plain(a)), axis=axis, keepdims=bool(given(keepdims) and keepdims))
    return stored(out, np.where(nothing, np.nan, y) if np.any(nothing) else y)


@handles(np.nanargmax)
def nanargmax(a: Value, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    _refuse_nothing(a, axis)
    return sorting.argmax(nan_filled(as_value(a), -np.inf)[0], axis, out, keepdims=keepdims)


@handles(np.nanargmin)
def nanargmin(a: Value, axis: Any = None, out: Any = None, *, keepdims: Any = False) -> Any:
    _refuse_nothing(a, axis)
    return sorting.argmin(nan_filled(as_value(a), np.inf)[0], axis, out, keepdims=keepdims)


def _refuse_nothing(a: Value, axis: Any) -> None:
    if np.any(np.all(np.isnan(plain(as_value(a))), axis=axis)):
        raise ValueError("All-NaN slice encountered")
