"""Sums, products, maxima and minima, and functions made of them."""

from functools import partial
from typing import Any

import numpy as np

from gradcli.errors import NoRule
from gradcli.rules.kinds import (
    Axes,
    constant,
    count_entries,
    differential,
    fill_excluded,
    is_given,
    linear,
    reduction_axes,
    require_float64,
    restore_axes,
    write_result,
)
from gradcli.rules.shaping import SCATTER, as_value, is_traced
from gradcli.rules.sorting import arg_extreme, fill_nan
from gradcli.tracing import shapes
from gradcli.tracing.primitive import (
    ADDITION,
    AWAY_FROM_0,
    FUNCTION_OF_ALL,
    REDUCTION,
    Primitive,
    Value,
    handle,
    handles,
)
from gradcli.tracing.shapes import restore_reduced_axes, shape, size
from gradcli.tracing.tracer import arithmetic_of, freeze_index, plain_value, without_derivative

_SMALL = 4096  # entries; up to this size, np.full is faster than np.broadcast_to


def _sum_transpose(ybar: Value, x: Value, *, axis: Axes) -> Value:
    if type(ybar) is np.float64 and size(x) < _SMALL:  # np.full is faster here
        return np.full(shape(x), ybar)[()]
    return np.broadcast_to(restore_reduced_axes(ybar, axis, x), shape(x))


def _peaks(x: Value, *, axis: Axes) -> Value:
    """Return 1 at the largest entries along the axes and 0 elsewhere; a tie is shared equally."""
    top = x == np.max(x, axis=axis, keepdims=True)
    return top / np.sum(top, axis=axis, keepdims=True)


def _max_differential(xdot: Value, y: Value, x: Value, *, axis: Axes) -> Value:
    weights = PEAKS(x, axis=axis)
    return SUM(np.where(weights == 0, 0.0, xdot * weights), axis=axis)


def _norm(x: Value) -> Value:
    """Return the Euclidean norm of all entries, scaled so that squares neither overflow nor underflow."""
    scale = np.max(np.abs(x), initial=0.0)
    if not 0 < scale < np.inf:
        return np.float64(scale)
    return scale * np.sqrt(np.sum(np.square(x / scale)))


def _logsumexp(x: Value, *, axis: Axes) -> Value:
    shift = np.max(x, axis=axis, keepdims=True)
    shift = np.where(np.isfinite(shift), shift, 0.0)
    return np.log(np.sum(np.exp(x - shift), axis=axis)) + np.reshape(shift, np.shape(np.sum(x, axis=axis)))


# fmt: off
#                           numpy                                       transpose: cotangent of y -> cotangent of x
SUM               = linear(lambda x, *, axis: np.sum(x, axis=axis),     _sum_transpose, name="sum", cost=REDUCTION)
CUMSUM: Primitive = linear(lambda x, *, axis: np.cumsum(x, axis=axis),
                           lambda ybar, x, *, axis: np.flip(CUMSUM(np.flip(ybar, axis), axis=axis), axis),
                           name="cumsum", cost=ADDITION)
PEAKS             = constant(_peaks, name="peaks")
#                        numpy                                     ydot, given xdot, y and x
MAX       = differential(lambda x, *, axis: np.max(x, axis=axis),  _max_differential, name="max", cost=REDUCTION,
                         kinks="two largest entries are equal (shared equally)",
                         kink=lambda y, x, *, axis: np.sum(x == np.max(x, axis=axis, keepdims=True), axis=axis) > 1,
                         branch=lambda y, x, *, axis: [PEAKS(x, axis=axis)])
NORM      = differential(_norm, lambda xdot, y, x: SUM(x / y * xdot, axis=tuple(range(len(shape(x))))),
                         name="norm", on=(AWAY_FROM_0,), cost=FUNCTION_OF_ALL,
                         kinks="all entries are 0", kink=lambda y, x: y == 0, analytic=False)
LOGSUMEXP = differential(_logsumexp, lambda xdot, y, x, *, axis: SUM(softmax(x, axis) * xdot, axis=axis),
                         name="logsumexp", cost=FUNCTION_OF_ALL)
# fmt: on


@handles(np.sum)
def sum_(
    a: Value, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
    where: Any = None,
) -> Value:  # fmt: skip
    require_float64("sum", dtype)
    a = fill_excluded(as_value(a), where, 0.0)
    over = reduction_axes(a, axis)
    y = restore_axes(SUM(a, axis=over), keepdims, over, a)
    return write_result(out, y + initial if is_given(initial) else y)


@handles(np.mean)
def mean(
    a: Value, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = None
) -> Value:
    require_float64("mean", dtype)
    a = as_value(a)
    over = shapes.normalise_axes(axis, len(shape(a)))
    y = SUM(fill_excluded(a, where, 0.0), axis=over) / count_entries(a, over, where)
    return write_result(out, restore_axes(y, keepdims, over, a))


@handles(np.average)
def average(
    a: Value, axis: Any = None, weights: Value = None, returned: bool = False, *, keepdims: Any = False
) -> Value:
    a = as_value(a)
    over = shapes.normalise_axes(axis, len(shape(a)))
    if weights is None:
        y, total = mean(a, axis, keepdims=keepdims), count_entries(a, over)
    else:
        w = _broadcast_weights(a, over if axis is not None else None, as_value(weights))
        total = sum_(w, axis, keepdims=keepdims)
        y = sum_(a * w, axis, keepdims=keepdims) / total
    return (y, np.broadcast_to(total, shape(y)) if shape(y) else total) if returned else y


def _broadcast_weights(a: Value, over: Axes | None, weights: Value) -> Value:
    """Return weights in the shape of `a`; they are given for every entry, or for the axes `over` only."""
    if shape(weights) == shape(a):
        return weights
    if over is None:
        raise TypeError("Axis must be specified when shapes of a and weights differ.")
    if shape(weights) != tuple(shape(a)[k] for k in over):
        raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
    return np.broadcast_to(np.reshape(weights, tuple(n if k in over else 1 for k, n in enumerate(shape(a)))), shape(a))


def var(
    a: Value, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False, *,
    where: Any = None, mean: Value = None, correction: Any = None,
) -> Value:  # fmt: skip
    require_float64("var", dtype)
    a = as_value(a)
    over = shapes.normalise_axes(axis, len(shape(a)))
    count = count_entries(a, over, where)
    if not is_given(mean):
        mean = restore_reduced_axes(SUM(fill_excluded(a, where, 0.0), axis=over) / count, over, a)
    total = SUM(fill_excluded(np.square(a - mean), where, 0.0), axis=over)
    free = np.maximum(count - (correction if is_given(correction) else ddof), 0)
    return write_result(out, restore_axes(total / free, keepdims, over, a))


def std(
    a: Value, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False, *,
    where: Any = None, mean: Value = None, correction: Any = None,
) -> Value:  # fmt: skip
    y = var(a, axis, dtype, None, ddof, keepdims, where=where, mean=mean, correction=correction)
    return write_result(out, np.sqrt(y))


@handles(np.max, np.amax)
def max_(
    a: Value, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = None
) -> Value:
    a = as_value(a)
    if is_given(where) and where is not True and not is_given(initial):
        raise ValueError(
            "reduction operation 'maximum' does not have an identity, so to use a where mask one has to specify 'initial'"
        )
    a = fill_excluded(a, where, initial)
    over = reduction_axes(a, axis)
    empty = is_given(initial) and not shapes.size(a)
    y = np.full(tuple(n for k, n in enumerate(shape(a)) if k not in over), initial)[()] if empty else MAX(a, axis=over)
    return write_result(out, restore_axes(np.maximum(y, initial) if is_given(initial) else y, keepdims, over, a))


@handles(np.min, np.amin)
def min_(
    a: Value, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = None
) -> Value:
    return write_result(out, -max_(-as_value(a), axis, None, keepdims, -initial if is_given(initial) else None, where))


@handles(np.prod)
def prod(
    a: Value, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None,
    where: Any = None,
) -> Value:  # fmt: skip
    """Return the product, computed by halving and not by division, so that a zero factor loses no derivative."""
    require_float64("prod", dtype)
    a = fill_excluded(as_value(a), where, 1.0)
    over = reduction_axes(a, axis)
    system = arithmetic_of(a)
    if system is not None and system.symbolic:
        y = np.exp(np.sum(np.log(a), axis=over))
        return write_result(out, restore_axes(y * initial if is_given(initial) else y, keepdims, over, a))
    rest = tuple(k for k in range(len(shape(a))) if k not in over)
    count, others = int(count_entries(a, over)), tuple(shape(a)[k] for k in rest)
    y = np.reshape(np.transpose(a, (*over, *rest)), (count, *others))
    while shape(y)[0] > 1:
        half = shape(y)[0] // 2
        odd = y[2 * half :]
        y = y[:half] * y[half : 2 * half]
        y = np.concatenate([y, odd]) if shape(odd)[0] else y
    y = y[0] if shape(y)[0] else np.ones(others)[()]
    return write_result(out, restore_axes(y * initial if is_given(initial) else y, keepdims, over, a))


@handles(np.cumsum)
def cumsum(a: Value, axis: Any = None, dtype: Any = None, out: Any = None) -> Value:
    require_float64("cumsum", dtype)
    x = np.reshape(a, -1) if axis is None or not shape(a) else as_value(a)
    return write_result(out, CUMSUM(x, axis=0 if axis is None else shapes.normalise_axis(axis, len(shape(x)))))


@handles(np.cumprod)
def cumprod(a: Value, axis: Any = None, dtype: Any = None, out: Any = None) -> Value:
    """Return the cumulative product, computed entry by entry and not by division, so that a zero loses no derivative."""
    require_float64("cumprod", dtype)
    x = np.reshape(a, -1) if axis is None or not shape(a) else as_value(a)
    k = 0 if axis is None else shapes.normalise_axis(axis, len(shape(x)))
    rows = np.moveaxis(x, k, 0)
    parts: list[Value] = []
    for n in range(shape(rows)[0]):
        parts.append(parts[-1] * rows[n] if parts else rows[n])
    return write_result(out, np.stack(parts, axis=k) if parts else np.positive(x))


def _accumulate(
    function: Any, first: float, x: Value, *, axis: Any = None, dtype: Any = None, out: Any = None,
    include_initial: bool = False,
) -> Value:  # fmt: skip
    if axis is None and len(shape(x)) > 1:
        raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
    k = 0 if axis is None or not shape(x) else shapes.normalise_axis(axis, len(shape(x)))
    y = function(x, k, dtype)
    if include_initial:
        start = np.full(tuple(1 if j == k else n for j, n in enumerate(shape(x))), first)
        y = np.concatenate([start, y], axis=k)
    return write_result(out, y)


handles(getattr(np, "cumulative_sum", None))(partial(_accumulate, cumsum, 0.0))
handles(getattr(np, "cumulative_prod", None))(partial(_accumulate, cumprod, 1.0))


def overflow_shift(x: Value, axis: Any) -> Any:
    """Return the largest plain value along the axes: a constant that prevents overflow and cancels in the result."""
    system = arithmetic_of(x)
    if system is not None and system.symbolic:
        return 0.0
    top = np.max(without_derivative(x), axis=axis, keepdims=True)
    return np.where(np.isfinite(top), top, 0.0)


def softmax(x: Value, axis: Any = None) -> Value:
    """Return exp(x) / sum(exp(x)) along the axes (by default all of them, as in scipy).

    Shapes  the result has the shape of x.
    """
    e = np.exp(x - overflow_shift(x, axis))
    return e / np.sum(e, axis=axis, keepdims=True)


def logsumexp(a: Value, axis: Any = None, keepdims: bool = False) -> Value:
    """Return log(sum(exp(a))) along the axes (by default all of them, as in scipy).

    Shapes  the result has the shape of `a` without the axes; with `keepdims`, they have length 1.
    """
    over = shapes.normalise_axes(axis, len(shape(a)))
    return restore_axes(LOGSUMEXP(a, axis=over), keepdims, over, a)


def log_softmax(x: Value, axis: Any = None) -> Value:
    """Return log(softmax(x)) without underflow."""
    z = x - overflow_shift(x, axis)
    return z - logsumexp(z, axis, keepdims=True)


def reduce_loss(loss: Value, reduction: str) -> Value:
    """Return the mean or the sum of the losses of all entries, or with 'none' these themselves.

    Raises  ValueError for another reduction.
    """
    if reduction not in ("mean", "sum", "none"):
        raise ValueError(f"reduction is 'mean', 'sum' or 'none', not {reduction!r}")
    return loss if reduction == "none" else np.mean(loss) if reduction == "mean" else np.sum(loss)


# Covariances, correlations, weighted counts.


@handles(np.cov)
def cov(
    m: Value, y: Value = None, rowvar: bool = True, bias: bool = False, ddof: int | None = None, fweights: Any = None,
    aweights: Any = None, *, dtype: Any = None,
) -> Value:  # fmt: skip
    require_float64("cov", dtype)
    m = as_value(m)
    if len(shape(m)) > 2:
        raise ValueError("m has more than 2 dimensions")
    x = np.atleast_2d(m)
    x = x.T if not rowvar and len(shape(m)) != 1 else x
    if y is not None:
        other = np.atleast_2d(as_value(y))
        other = other.T if not rowvar and shape(other)[0] != 1 else other
        x = np.concatenate([x, other], axis=0)
    free = (0 if bias else 1) if ddof is None else int(ddof)
    if is_traced(fweights):
        raise NoRule("the counts fweights of cov are traced", do="pass them as plain integers, or use aweights=")
    given = [as_value(w) for w in (fweights, aweights) if w is not None]
    if not given:
        weighted = centred = x - np.mean(x, axis=1, keepdims=True)
        spread: Value = float(shape(x)[1]) - free
    else:
        w = given[0] if len(given) == 1 else given[0] * given[1]
        total = np.sum(w)
        centred = x - (np.sum(x * w, axis=1) / total)[:, None]
        weighted = centred * w
        aw = 1.0 if aweights is None else as_value(aweights)
        spread = total - free * np.sum(w * aw) / total
    spread = spread if plain_value(spread) > 0 else np.float64(0)
    return np.squeeze(np.matmul(weighted, np.conjugate(centred.T)) / spread)


@handles(np.corrcoef)
def corrcoef(x: Value, y: Value = None, rowvar: bool = True, *, dtype: Any = None) -> Value:
    """Return covariances over standard deviations; numpy's clipping to [-1, 1] only removes rounding errors and is omitted."""
    c = cov(x, y, rowvar, dtype=dtype)
    if not shape(c):
        return c / c
    deviation = np.sqrt(np.diagonal(c))
    return c / deviation[:, None] / deviation[None, :]


@handles(np.bincount)
def bincount(x: Any, /, weights: Value = None, minlength: int = 0) -> Value:
    """Return the sum of the weights of each integer in `x`.

    Raises  NoRule if `x` is traced.
    """
    at = freeze_index(x if is_traced(x) else np.asarray(x, dtype=None if np.size(x) else int))
    if weights is None:
        return np.bincount(at, minlength=minlength)
    count = len(np.bincount(at, minlength=minlength))
    return SCATTER(as_value(weights), index=(at,), into=(count,))


# Reductions that ignore nan.


@handles(np.nanmean)
def nanmean(
    a: Value, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = True
) -> Value:
    a = as_value(a)
    return mean(a, axis, dtype, out, keepdims, where=_mask_of_numbers(a, where))


@handles(np.nanvar)
def nanvar(
    a: Value, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False,
    **options: Any,
) -> Value:  # fmt: skip
    """Return the variance of the entries that are not nan; nan where there are at most `ddof` of them."""
    a, where = as_value(a), options.pop("where", True)
    numbers = _mask_of_numbers(a, where)
    over = shapes.normalise_axes(axis, len(shape(a)))
    free = np.sum(np.broadcast_to(numbers, shape(a)), axis=over) - ddof
    y = var(fill_nan(np.real(a), 0.0)[0], axis, dtype, None, ddof, False, where=numbers, **options)
    y = np.where(free <= 0, np.nan, y) if np.any(free <= 0) else y
    return write_result(out, restore_axes(y, keepdims, over, a))


def _mask_of_numbers(a: Value, where: Any) -> Any:
    numbers = ~np.isnan(plain_value(a))
    return numbers & where if is_given(where) else numbers


def _nan_extreme(
    a: Value, lowest: float, extreme: Any, axis: Any, out: Any, keepdims: Any, initial: Any, where: Any
) -> Value:
    y = extreme(fill_nan(a, lowest)[0], axis, None, keepdims, initial, where)
    nothing = np.all(np.isnan(plain_value(a)), axis=axis, keepdims=bool(is_given(keepdims) and keepdims))
    return write_result(out, np.where(nothing, np.nan, y) if np.any(nothing) else y)


def _nan_arg_extreme(find: Any, lowest: float, a: Value, axis: Any, out: Any, keepdims: Any) -> Any:
    a = as_value(a)
    if np.any(np.all(np.isnan(plain_value(a)), axis=axis)):
        raise ValueError("All-NaN slice encountered")
    return arg_extreme(find, fill_nan(a, lowest)[0], axis, out, keepdims)


handle({
    # numpy takes the modulus of complex numbers: not analytic
    np.var: lambda a, *args, **kwargs: var(np.real(a), *args, **kwargs),
    np.std: lambda a, *args, **kwargs: std(np.real(a), *args, **kwargs),
    np.ptp: lambda a, axis=None, out=None, keepdims=False:
        write_result(out, max_(a, axis, keepdims=keepdims) - min_(a, axis, keepdims=keepdims)),
    np.nansum: lambda a, axis=None, dtype=None, out=None, keepdims=False, **options:
        sum_(fill_nan(as_value(a), 0.0)[0], axis, dtype, out, keepdims, **options),
    np.nanprod: lambda a, axis=None, dtype=None, out=None, keepdims=False, **options:
        prod(fill_nan(as_value(a), 1.0)[0], axis, dtype, out, keepdims, **options),
    np.nancumsum: lambda a, axis=None, dtype=None, out=None: cumsum(fill_nan(as_value(a), 0.0)[0], axis, dtype, out),
    np.nancumprod: lambda a, axis=None, dtype=None, out=None: cumprod(fill_nan(as_value(a), 1.0)[0], axis, dtype, out),
    np.nanstd: lambda a, axis=None, dtype=None, out=None, ddof=0, keepdims=False, **options:
        write_result(out, np.sqrt(nanvar(a, axis, dtype, None, ddof, keepdims, **options))),
    np.nanmax: lambda a, axis=None, out=None, keepdims=False, initial=None, where=None:
        _nan_extreme(as_value(a), -np.inf, max_, axis, out, keepdims, initial, where),
    np.nanmin: lambda a, axis=None, out=None, keepdims=False, initial=None, where=None:
        _nan_extreme(as_value(a), np.inf, min_, axis, out, keepdims, initial, where),
    np.nanargmax: lambda a, axis=None, out=None, *, keepdims=False:
        _nan_arg_extreme(np.argmax, -np.inf, a, axis, out, keepdims),
    np.nanargmin: lambda a, axis=None, out=None, *, keepdims=False:
        _nan_arg_extreme(np.argmin, np.inf, a, axis, out, keepdims),
})  # fmt: skip
