"""Sums, products, extremes, and what is made of them."""

from typing import Any

import numpy as np

from gradcli.core import shapes
from gradcli.core.bind import handles
from gradcli.core.domain import AWAY_FROM_0
from gradcli.core.primitive import Value
from gradcli.core.shapes import shape, with_kept
from gradcli.core.tracer import exact, plain
from gradcli.errors import NoRule
from gradcli.primitives.kinds import constant, differential, linear

Axes = tuple[int, ...]
_UNSET: Any = getattr(np, "_NoValue", None)


def _sum(x: Value, *, axis: Axes) -> Value:
    return np.sum(x, axis=axis)


def _spread(ybar: Value, x: Value, *, axis: Axes) -> Value:
    return np.broadcast_to(with_kept(ybar, axis, x), shape(x))


def _cumsum(x: Value, *, axis: int) -> Value:
    return np.cumsum(x, axis=axis)


def _uncumsum(ybar: Value, x: Value, *, axis: int) -> Value:
    return np.flip(CUMSUM(np.flip(ybar, axis), axis=axis), axis)


def _max(x: Value, *, axis: Axes) -> Value:
    return np.max(x, axis=axis)


def _peaks(x: Value, *, axis: Axes) -> Value:
    """Return 1 at the largest entries along the axes and 0 elsewhere; a tie is shared equally."""
    top = x == np.max(x, axis=axis, keepdims=True)
    return top / np.sum(top, axis=axis, keepdims=True)


def _max_differential(xdot: Value, y: Value, x: Value, *, axis: Axes) -> Value:
    weights = PEAKS(x, axis=axis)
    return SUM(np.where(weights == 0, 0.0, xdot * weights), axis=axis)


def _tied(y: Value, x: Value, *, axis: Axes) -> Any:
    return np.sum(x == np.max(x, axis=axis, keepdims=True), axis=axis) > 1


def _norm(x: Value) -> Value:
    """Return the length of all entries together, scaled so that squares neither overflow nor vanish."""
    scale = np.max(np.abs(x), initial=0.0)
    if not 0 < scale < np.inf:
        return np.float64(scale)
    return scale * np.sqrt(np.sum(np.square(x / scale)))


def _logsumexp(x: Value, *, axis: Axes) -> Value:
    shift = np.max(x, axis=axis, keepdims=True)
    shift = np.where(np.isfinite(shift), shift, 0.0)
    return np.log(np.sum(np.exp(x - shift), axis=axis)) + np.reshape(shift, np.shape(np.sum(x, axis=axis)))


def _logsumexp_differential(xdot: Value, y: Value, x: Value, *, axis: Axes) -> Value:
    return SUM(softmax(x, axis) * xdot, axis=axis)


# fmt: off
#              numpy    transpose: cotangent of y -> cotangent of x
SUM    = linear(_sum,    _spread,    name="sum")
CUMSUM = linear(_cumsum, _uncumsum,  name="cumsum")
PEAKS  = constant(_peaks, name="peaks")
#                  numpy        ydot, given xdot, y and x
MAX  = differential(_max,       _max_differential, name="max", kinks="two largest entries are equal (shared equally)", kink=_tied)
NORM = differential(_norm,      lambda xdot, y, x: SUM(x / y * xdot, axis=tuple(range(len(shape(x))))), name="norm", on=(AWAY_FROM_0,),
                    kinks="all entries are 0", kink=lambda y, x: y == 0, analytic=False)
LOGSUMEXP = differential(_logsumexp, _logsumexp_differential, name="logsumexp")
# fmt: on


def _refuse(name: str, **given: Any) -> None:
    for option, value in given.items():
        if value is not None and value is not _UNSET:
            raise NoRule(f"{name} with {option}= has no derivative rule", do=f"leave out {option}=")


def _kept(y: Value, keepdims: Any, over: Axes, x: Value) -> Value:
    return with_kept(y, over, x) if keepdims is True else y


@handles(np.sum)
def sum_(
    a: Value,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = None,
    where: Any = None,
) -> Value:
    _refuse("sum", dtype=dtype, out=out, where=where)
    over = shapes.axes(axis, len(shape(a)))
    y = _kept(SUM(a, axis=over), keepdims, over, a)
    return y if initial is None or initial is _UNSET else y + initial


@handles(np.mean)
def mean(
    a: Value, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: Any = False, *, where: Any = None
) -> Value:
    _refuse("mean", dtype=dtype, out=out, where=where)
    total = sum_(a, axis, keepdims=keepdims)
    return total / np.float64(shapes.size(a) / max(1, shapes.size(total)))


@handles(np.average)
def average(a: Value, axis: Any = None, weights: Value = None, *, keepdims: Any = False) -> Value:
    if weights is None:
        return mean(a, axis, keepdims=keepdims)
    return sum_(a * weights, axis, keepdims=keepdims) / sum_(
        np.broadcast_to(weights, shape(a)), axis, keepdims=keepdims
    )


@handles(np.var)
def var(
    a: Value, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False, **rest: Any
) -> Value:
    _refuse("var", dtype=dtype, out=out, **rest)
    centred = a - mean(a, axis, keepdims=True)
    total = sum_(np.square(centred), axis, keepdims=keepdims)
    return total / np.float64(shapes.size(a) / max(1, shapes.size(total)) - ddof)


@handles(np.std)
def std(
    a: Value, axis: Any = None, dtype: Any = None, out: Any = None, ddof: float = 0, keepdims: Any = False, **rest: Any
) -> Value:
    return np.sqrt(var(a, axis, dtype, out, ddof, keepdims, **rest))


@handles(np.max)
def max_(
    a: Value, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = None
) -> Value:
    _refuse("max", out=out, initial=initial, where=where)
    over = shapes.axes(axis, len(shape(a)))
    return _kept(MAX(a, axis=over), keepdims, over, a)


@handles(np.min)
def min_(
    a: Value, axis: Any = None, out: Any = None, keepdims: Any = False, initial: Any = None, where: Any = None
) -> Value:
    return -max_(-a, axis, out, keepdims, initial, where)


@handles(np.ptp)
def ptp(a: Value, axis: Any = None) -> Value:
    return max_(a, axis) - min_(a, axis)


@handles(np.prod)
def prod(
    a: Value,
    axis: Any = None,
    dtype: Any = None,
    out: Any = None,
    keepdims: Any = False,
    initial: Any = None,
    where: Any = None,
) -> Value:
    """Multiply in halves, so that a zero among the factors costs no derivative."""
    _refuse("prod", dtype=dtype, out=out, initial=initial, where=where)
    over = shapes.axes(axis, len(shape(a)))
    kept = tuple(k for k in range(len(shape(a))) if k not in over)
    rest = tuple(shape(a)[k] for k in kept)
    y = np.reshape(np.transpose(a, (*over, *kept)), (-1, *rest))
    while shape(y)[0] > 1:
        half = shape(y)[0] // 2
        odd = y[2 * half :]
        y = y[:half] * y[half : 2 * half]
        y = np.concatenate([y, odd]) if shape(odd)[0] else y
    y = y[0] if shape(y)[0] else np.ones(rest)
    return _kept(y, keepdims, over, a)


@handles(np.cumsum)
def cumsum(a: Value, axis: Any = None, dtype: Any = None, out: Any = None) -> Value:
    _refuse("cumsum", dtype=dtype, out=out)
    x = np.ravel(a) if axis is None else a
    return CUMSUM(x, axis=0 if axis is None else shapes.axes(axis, len(shape(a)))[0])


@handles(np.linalg.norm)
def norm(x: Value, ord: Any = None, axis: Any = None, keepdims: Any = False) -> Value:
    """Return vector norms, and the Frobenius norm of a matrix."""
    if axis is None and (ord is None or (ord == "fro" and len(shape(x)) == 2) or (ord == 2 and len(shape(x)) == 1)):
        return _kept(NORM(x), keepdims, shapes.axes(None, len(shape(x))), x)
    if axis is None and len(shape(x)) != 1:
        return _matrix_norm(x, ord)
    magnitude = np.abs(x)
    if ord is None or ord == 2:
        return np.sqrt(sum_(np.square(x), axis, keepdims=keepdims))
    if ord == 1:
        return sum_(magnitude, axis, keepdims=keepdims)
    if ord == np.inf:
        return max_(magnitude, axis, keepdims=keepdims)
    if ord == -np.inf:
        return min_(magnitude, axis, keepdims=keepdims)
    if isinstance(ord, int | float) and ord != 0:
        return np.power(sum_(np.power(magnitude, ord), axis, keepdims=keepdims), exact(1, x) / ord)
    raise NoRule(
        f"norm of order {ord!r} has no derivative rule",
        do="orders with one: 'fro', 1, 2, inf, -inf and other nonzero numbers",
    )


def _matrix_norm(x: Value, ord: Any) -> Value:
    """Return the largest absolute column sum (1) or row sum (inf)."""
    if ord in (1, np.inf):
        return max_(sum_(np.abs(x), 0 if ord == 1 else 1))
    raise NoRule(
        f"the matrix norm of order {ord!r} has no derivative rule", do="matrix norms with one: 'fro', 1 and inf"
    )


def shift_of(x: Value, axis: Any) -> Any:
    """Return the largest plain value along the axes: a constant that cancels out, for the sake of range only."""
    top = np.max(plain(x), axis=axis, keepdims=True)
    return np.where(np.isfinite(top), top, 0.0)


def softmax(x: Value, axis: Any = None) -> Value:
    """Return exp(x) / sum(exp(x)) along the axes (all of them, as scipy has it)."""
    e = np.exp(x - shift_of(x, axis))
    return e / np.sum(e, axis=axis, keepdims=True)


def logsumexp(a: Value, axis: Any = None, keepdims: bool = False) -> Value:
    """Return log(sum(exp(a))) along the axes (all of them, as scipy has it)."""
    over = shapes.axes(axis, len(shape(a)))
    return _kept(LOGSUMEXP(a, axis=over), keepdims, over, a)


def log_softmax(x: Value, axis: Any = None) -> Value:
    """Return log(softmax(x)) without underflow."""
    z = x - shift_of(x, axis)
    return z - logsumexp(z, axis, keepdims=True)
