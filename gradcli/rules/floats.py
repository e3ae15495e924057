"""Functions of the parts of a floating-point number, maxima and minima that ignore nan, and ranges such as linspace."""

from typing import Any

import numpy as np

from gradcli.errors import NoRule, Undecided
from gradcli.rules.options import real_dtype
from gradcli.rules.shaping import as_value
from gradcli.tracing.bind import handles
from gradcli.tracing.primitive import Value, named
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import Tracer, plain


def _without_nan(extreme: Any, lowest: float, a: Value, b: Value) -> Value:
    """Return the maximum or minimum of two operands, of which a nan is ignored."""
    first, second = np.isnan(plain(a)), np.isnan(plain(b))
    if not (np.any(first) or np.any(second)):
        return extreme(a, b)
    y = extreme(np.where(first, lowest, a), np.where(second, lowest, b))
    return np.where(first & second, np.nan, y)


@handles(np.fmax)
def fmax(a: Value, b: Value) -> Value:
    return _without_nan(np.maximum, -np.inf, a, b)


@handles(np.fmin)
def fmin(a: Value, b: Value) -> Value:
    return _without_nan(np.minimum, np.inf, a, b)


@handles(np.divmod)
def divmod_(a: Value, b: Value) -> tuple[Value, Value]:
    return np.floor_divide(a, b), np.remainder(a, b)


@handles(np.modf)
def modf(x: Value) -> tuple[Value, Value]:
    """Return the fractional part and the integral part."""
    whole = np.trunc(x)
    return np.where(np.isinf(plain(x)), 0.0, x - whole) if np.any(np.isinf(plain(x))) else x - whole, whole


@handles(np.copysign)
def copysign(a: Value, b: Value) -> Value:
    """Return a or -a, with the sign of b; the comparisons of both with 0 are recorded."""
    for x in (a, b):
        np.less(x, 0)
    return np.where(np.signbit(plain(a)) == np.signbit(plain(b)), a, -a)


@handles(np.ldexp)
def ldexp(x: Value, n: Any) -> Value:
    if isinstance(n, Tracer):
        raise NoRule("the exponent of ldexp is a traced value", do="x * 2.0**n")
    return x * np.ldexp(1.0, n)


@handles(np.frexp)
def frexp(x: Value) -> tuple[Value, Any]:
    """Return m and n, where x = m 2**n and |m| is in [0.5, 1); the jumps at powers of 2 are recorded.

    Raises  Undecided if another arithmetic does not confirm the exponent of float64.
    """
    n = np.frexp(plain(x))[1]
    m = x * np.ldexp(1.0, -n)
    size = np.abs(m)
    usual = np.isfinite(plain(x)) & (plain(x) != 0)
    fits = np.greater_equal(size, 0.5) & np.less(size, 1.0)
    if not np.all(fits | ~usual):
        raise Undecided("the exponent of frexp is not that of float64", do="the function may have a jump here")
    return m, n


@handles(np.heaviside)
def heaviside(x: Value, h0: Value) -> Value:
    """Return 0 for negative x, h0 for 0, and 1 for positive x."""
    if not isinstance(h0, Tracer):
        return named("heaviside")(x, h0)
    return np.where(np.equal(x, 0), h0, np.greater(x, 0) * 1.0)


@handles(getattr(np, "matvec", None))
def matvec(a: Value, x: Value) -> Value:
    """Return matrices times vectors."""
    return np.squeeze(np.matmul(as_value(a), as_value(x)[..., None]), -1)


@handles(getattr(np, "vecmat", None))
def vecmat(x: Value, a: Value) -> Value:
    """Return conjugated vectors times matrices."""
    return np.squeeze(np.matmul(np.conjugate(as_value(x))[..., None, :], as_value(a)), -2)


# Ranges between traced ends.


@handles(np.linspace)
def linspace(
    start: Value,
    stop: Value,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    **device: Any,
) -> Any:
    """Return `num` equally spaced numbers."""
    real_dtype("linspace", dtype)
    start, stop = as_value(start), as_value(stop)
    if num < 0:
        raise ValueError(f"Number of samples, {num}, must be non-negative.")
    count = num - 1 if endpoint else num
    delta = stop - start
    k = np.arange(float(num)).reshape((-1,) + (1,) * len(shape(delta)))
    step = delta / count if count > 0 else np.float64(np.nan)
    y = start + k * (step if count > 0 else delta)
    if endpoint and num > 1:
        y = np.concatenate([y[:-1], np.broadcast_to(stop, (1, *shape(delta)))])
    y = np.moveaxis(y, 0, axis) if axis else y
    return (y, step) if retstep else y


@handles(np.logspace)
def logspace(
    start: Value,
    stop: Value,
    num: int = 50,
    endpoint: bool = True,
    base: Value = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Value:
    """Return powers of the base with equally spaced exponents."""
    real_dtype("logspace", dtype)
    return np.power(base, linspace(start, stop, num, endpoint, axis=axis))


@handles(np.geomspace)
def geomspace(
    start: Value, stop: Value, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Value:
    """Return `num` numbers with a constant ratio.

    Raises  ValueError if the ends have different signs, or one of them is 0.
    """
    real_dtype("geomspace", dtype)
    start, stop = as_value(start), as_value(stop)
    if np.any(plain(start) * plain(stop) <= 0):
        raise ValueError("Geometric sequence cannot include zero")
    sign = np.sign(plain(start))
    y = np.exp(linspace(np.log(start * sign), np.log(stop * sign), num, endpoint)) * sign
    ends = [np.broadcast_to(end, (1, *shape(y)[1:])) for end in (start, stop)]
    inner = y[1:-1] if endpoint else y[1:]
    signed = np.concatenate([ends[0], inner, *(ends[1:] if endpoint else [])]) if num > 1 else y
    return np.moveaxis(signed, 0, axis) if axis else signed
