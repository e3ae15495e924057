"""Choosing among values by conditions, and functions applied to parts of an array."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.rules.moving import flat
from gradcli.rules.options import truth
from gradcli.rules.shaping import GETITEM, PUT, as_value
from gradcli.tracing import shapes
from gradcli.tracing.bind import handles
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import Tracer, frozen


@handles(np.select)
def select(condlist: Sequence[Any], choicelist: Sequence[Value], default: Value = 0) -> Value:
    """Return, entry by entry, the first choice whose condition holds."""
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    if not condlist:
        raise ValueError("select with an empty condition list is not possible")
    y = as_value(default)
    for condition, choice in reversed(list(zip(condlist, choicelist, strict=True))):
        y = np.where(truth(condition), as_value(choice), y)
    return y


@handles(np.choose)
def choose(a: Any, choices: Any, mode: str = "raise") -> Value:
    """Return, entry by entry, the choice whose number is in the array `a`."""
    which = frozen(np.asarray(a) if isinstance(a, list | tuple) else a)
    parts = [as_value(choice) for choice in choices]
    to = np.broadcast_shapes(np.shape(which), *(shape(part) for part in parts))
    number = np.choose(which, list(range(len(parts))), mode=mode)  # type: ignore[call-overload]
    spread = np.stack([np.broadcast_to(part, to) if shape(part) != to else part for part in parts])
    at = np.broadcast_to(number, to) * int(np.prod(to, dtype=int)) + np.arange(int(np.prod(to, dtype=int))).reshape(to)
    return GETITEM(flat(spread), index=at)


@handles(np.piecewise)
def piecewise(x: Value, condlist: Any, funclist: Sequence[Any], *args: Any, **kw: Any) -> Value:
    """Return, entry by entry, the function whose condition holds, or 0; each function is called on its entries only."""
    single = not isinstance(condlist, list | tuple | np.ndarray) or (
        not isinstance(condlist[0], list | tuple | np.ndarray) and len(shape(x)) != 0
    )
    conditions = [np.broadcast_to(truth(c), shape(x)) for c in ([condlist] if single else condlist)]
    if len(conditions) == len(funclist) - 1:
        conditions.append(~np.any(conditions, axis=0))
    if len(conditions) != len(funclist):
        count = len(conditions)
        raise ValueError(f"with {count} condition(s), either {count} or {count + 1} functions are expected")
    y = np.zeros_like(_row(x))
    for condition, function in zip(conditions, funclist, strict=True):
        chosen = np.atleast_1d(condition)
        if not np.any(chosen):
            continue
        value = function(_row(x)[chosen], *args, **kw) if callable(function) else function
        y = PUT(y, as_value(value), index=chosen)
    return y if shape(x) else y[0]


def _row(x: Value) -> Value:
    return x if shape(x) else np.reshape(x, (1,))


@handles(np.apply_along_axis)
def apply_along_axis(func1d: Callable[..., Any], axis: int, arr: Value, *args: Any, **kwargs: Any) -> Value:
    k = shapes.axes(axis, len(shape(arr)))[0]
    rows = np.moveaxis(arr, k, -1)
    outer = shape(rows)[:-1]
    parts = [as_value(func1d(rows[at], *args, **kwargs)) for at in np.ndindex(*outer)]
    inner = shape(parts[0])
    y = np.reshape(np.stack(parts), outer + inner)
    count = len(inner)
    return np.moveaxis(y, tuple(range(len(outer), len(outer) + count)), tuple(range(k, k + count))) if count else y


@handles(np.apply_over_axes)
def apply_over_axes(func: Callable[..., Any], a: Value, axes: Any) -> Value:
    y = as_value(a)
    for axis in np.atleast_1d(axes).tolist():
        result = func(y, axis)
        y = result if len(shape(result)) == len(shape(y)) else np.expand_dims(result, axis)
    return y


def nan_filled(x: Value, filling: Any) -> tuple[Value, Any]:
    """Return `x` with nan replaced by `filling`, and a mask of the replaced entries."""
    missing = np.isnan(x)
    return (np.where(missing, filling, x) if np.any(missing) else x), np.asarray(missing)


@handles(np.nan_to_num)
def nan_to_num(x: Value, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Value:
    """Return `x` with nan and infinities replaced."""
    top = np.finfo(np.float64).max
    y, _ = nan_filled(as_value(x), nan)
    infinite = np.isinf(y)
    if np.any(infinite):
        up = infinite & np.greater(y, 0)
        y = np.where(
            up, top if posinf is None else posinf, np.where(infinite & ~up, -top if neginf is None else neginf, y)
        )
    if copy or not isinstance(x, Tracer) or not shape(x):
        return np.positive(y)
    x[...] = y
    return x
