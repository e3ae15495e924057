"""Elementwise primitives: a table with one row for each primitive and its partials.

A row has `(partial, kernel)` where the textbook partial loses digits in float64. A test proves that each kernel equals
its partial, and `gradcli ops` measures the worst error of each row.
"""

from typing import Any

import numpy as np

from gradcli.errors import NoRule, Undecided
from gradcli.rules.kinds import constant, elementwise, require_float64
from gradcli.rules.shaping import as_value
from gradcli.tracing.primitive import (
    ABOVE_1,
    ABOVE_MINUS_1,
    ADDITION,
    AWAY_FROM_0,
    INSIDE_1,
    MOVE,
    MULTIPLICATION,
    NOT_HALF_PI,
    POSITIVE,
    POWER,
    REAL,
    F,
    Value,
    handle,
    handles,
)
from gradcli.tracing.shapes import shape, zeros_like
from gradcli.tracing.tracer import Tracer, exact_integer, plain_value

LN2, LN10 = np.log(2.0), np.log(10.0)


def pi(x: Value) -> Value:
    """Return pi in the arithmetic of `x`."""
    return 4 * np.arctan(exact_integer(1, x))


def ln(number: int, x: Value) -> Value:
    """Return the logarithm of an integer in the arithmetic of `x`; a float64 constant would make balls inexact."""
    return np.log(exact_integer(number, x))


def sech2(y: Value, x: Value) -> Value:
    """Return the slope of tanh without cancellation: 1 / cosh(x)^2."""
    s = 1.0 / np.cosh(x)
    return s * s


def two_sum(a: Value, b: Value) -> tuple[Value, Value]:
    """Return a + b rounded, and the rounding error.

    Source  Knuth, The Art of Computer Programming 2, section 4.2.2.
    """
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def maximum_partial(a: Value, b: Value) -> Value:
    """Return the partial of maximum(a, b) by `a`: 1 where it is larger, 0 where it is smaller, half at a tie."""
    return (a > b) * 1.0 + (a == b) * 0.5


def power_partial(y: Value, x: Value, p: Value) -> Value:
    """Return d(x**p)/dx = p x**(p-1); x**0 is 1 everywhere, also at 0."""
    flat = np.equal(plain_value(p), 0)
    if np.any(flat):
        flat = flat & np.equal(plain_value(x), 0)
    if not np.any(flat):
        return p * x ** (p - 1)
    return np.where(flat, 0.0, p * np.where(flat, 1.0, x) ** (p - 1))


def power_kernel(y: Value, x: Value, p: Value) -> Value:
    """Return p y / x, or `power_partial` where y or x is tiny or infinite.

    In `power_partial`, a large log(x) magnifies the rounding of p - 1.
    """
    usable = (np.abs(y) > 1e-290) & np.isfinite(y) & (np.abs(x) > 1e-290)
    return np.where(usable, p * (y / np.where(usable, x, 1.0)), power_partial(y, x, p))[()]


def exponent_partial(y: Value, x: Value, p: Value) -> Value:
    """Return d(x**p)/dp = y log(x); 0 where y is 0 (x = 0, p > 0)."""
    return np.where(y == 0, 0.0, y * np.log(np.where(y == 0, 1.0, x)))


def softplus_kernel(y: Value, a: Value, b: Value) -> Value:
    """Return 1 / (1 + exp(b - a)), corrected for the rounding error of a - b."""
    d, error = two_sum(a, -b)
    error = np.where(np.isfinite(error), error, 0.0)
    e = np.exp(-np.abs(d))
    s = np.where(d >= 0, 1.0 / (1.0 + e), e / (1.0 + e))
    return (s * (1.0 + error * (1.0 - s)))[()]


def complex_log1p(z: Value) -> Any:
    """Return log(1 + z), with full accuracy for small z; numpy's log1p has it for real numbers only."""
    re, im = np.real(z), np.imag(z)
    return 0.5 * np.log1p(re * (2 + re) + im * im) + np.arctan2(im, 1 + re) * 1j


def complex_logaddexp(a: Value, b: Value) -> Value:
    """Return log(exp(a) + exp(b)) at complex numbers near the real axis, without overflow."""
    first = np.real(a) >= np.real(b)
    larger: Any = np.where(first, a, b)
    other: Any = np.where(first, b, a)
    return larger + complex_log1p(np.exp(other - larger))


def integer_power_partial(y: Value, x: Value, *, n: int) -> Value:
    """Return n x**(n-1); x**0 is 1 everywhere, also at 0."""
    if n == 2:
        return 2 * x
    return n * x ** (n - 1) if n != 0 else zeros_like(x)


# fmt: off
#           numpy          dy/dx, given y and x: the mathematics       an accurate kernel                          where it is smooth
elementwise(np.positive,   1.0, cost=MOVE)
elementwise(np.negative,  -1.0, cost=ADDITION)
elementwise(np.add,        1.0, 1.0, cost=ADDITION)
elementwise(np.subtract,   1.0, -1.0, cost=ADDITION)
elementwise(np.multiply,   lambda y, a, b: b,                          lambda y, a, b: a, cost=MULTIPLICATION)
elementwise(np.divide,     lambda y, a, b: 1 / b,                      lambda y, a, b: -y / b,                     on=(REAL, AWAY_FROM_0), cost=MULTIPLICATION)
elementwise(np.square,     lambda y, x: 2 * x, cost=MULTIPLICATION)
elementwise(np.reciprocal, lambda y, x: -y * y,                                                                    on=AWAY_FROM_0, cost=MULTIPLICATION)
elementwise(np.sqrt,       lambda y, x: 0.5 / y,                                                                   on=POSITIVE)
elementwise(np.cbrt,       lambda y, x: 1 / (3 * y * y),                                                           on=AWAY_FROM_0, analytic=False)
elementwise(np.exp,        lambda y, x: y)
elementwise(np.exp2,      (lambda y, x: y * ln(2, x),                  lambda y, x: y * LN2))
elementwise(np.expm1,     (lambda y, x: y + 1,                         lambda y, x: np.exp(x)))
elementwise(np.log,        lambda y, x: 1 / x,                                                                     on=POSITIVE)
elementwise(np.log2,      (lambda y, x: 1 / (x * ln(2, x)),            lambda y, x: 1 / LN2 / x),                  on=POSITIVE)
elementwise(np.log10,     (lambda y, x: 1 / (x * ln(10, x)),           lambda y, x: 1 / LN10 / x),                 on=POSITIVE)
elementwise(np.log1p,      lambda y, x: 1 / (1 + x),                                                               on=ABOVE_MINUS_1)
elementwise(np.sin,        lambda y, x: np.cos(x))
elementwise(np.cos,        lambda y, x: -np.sin(x))
elementwise(np.tan,        lambda y, x: 1 + y * y,                                                                 on=NOT_HALF_PI)
elementwise(np.arcsin,    (lambda y, x: 1 / np.sqrt(1 - x * x),        lambda y, x: 1 / np.sqrt((1 - x) * (1 + x))),  on=INSIDE_1)
elementwise(np.arccos,    (lambda y, x: -1 / np.sqrt(1 - x * x),       lambda y, x: -1 / np.sqrt((1 - x) * (1 + x))), on=INSIDE_1)
elementwise(np.arctan,    (lambda y, x: 1 / (1 + x * x),               lambda y, x: (1 / np.hypot(1, x)) ** 2))
elementwise(np.sinh,       lambda y, x: np.cosh(x))
elementwise(np.cosh,       lambda y, x: np.sinh(x))
elementwise(np.tanh,      (lambda y, x: 1 - y * y,                     sech2))
elementwise(np.arcsinh,   (lambda y, x: 1 / np.sqrt(1 + x * x),        lambda y, x: 1 / np.hypot(1, x)))
elementwise(np.arccosh,   (lambda y, x: 1 / np.sqrt(x * x - 1),        lambda y, x: 1 / (np.sqrt(x - 1) * np.sqrt(x + 1))), on=ABOVE_1)
elementwise(np.arctanh,   (lambda y, x: 1 / (1 - x * x),               lambda y, x: 1 / ((1 - x) * (1 + x))),      on=INSIDE_1)

#           kinks: reports state the slope at a kink as a convention
elementwise(np.absolute,   lambda y, x: np.sign(x),  on=AWAY_FROM_0, kinks="x = 0 (slope 0)", kink=lambda y, x: x == 0, analytic=False, cost=ADDITION, branch=lambda y, x: [np.sign(x)], margin=lambda x: x)
elementwise(np.maximum,    lambda y, a, b: maximum_partial(a, b), lambda y, a, b: maximum_partial(b, a), kinks="a = b (half each)", kink=lambda y, a, b: a == b, cost=ADDITION, branch=lambda y, a, b: [np.heaviside(a - b, 0.5), np.heaviside(b - a, 0.5)], margin=lambda a, b: a - b)
elementwise(np.minimum,    lambda y, a, b: maximum_partial(b, a), lambda y, a, b: maximum_partial(a, b), kinks="a = b (half each)", kink=lambda y, a, b: a == b, cost=ADDITION, branch=lambda y, a, b: [np.heaviside(b - a, 0.5), np.heaviside(a - b, 0.5)], margin=lambda a, b: a - b)

elementwise(np.power,     (power_partial, power_kernel), exponent_partial,                                         on=(POSITIVE, REAL))
elementwise(np.arctan2,   (lambda y, a, b: b / (a * a + b * b),        lambda y, a, b: b / np.hypot(a, b) / np.hypot(a, b)),
                          (lambda y, a, b: -a / (a * a + b * b),       lambda y, a, b: -a / np.hypot(a, b) / np.hypot(a, b)),
                           on=(AWAY_FROM_0, AWAY_FROM_0), analytic=False)
elementwise(np.hypot,      lambda y, a, b: a / y, lambda y, a, b: b / y, on=(AWAY_FROM_0, AWAY_FROM_0),
                           kinks="a = b = 0", kink=lambda y, a, b: y == 0, analytic=False)
elementwise(np.logaddexp, (lambda y, a, b: np.exp(a - y),              softplus_kernel),
                          (lambda y, a, b: np.exp(b - y),              lambda y, a, b: softplus_kernel(y, b, a)), on_complex=complex_logaddexp)

elementwise(np.remainder,  1.0, lambda y, a, b: -np.floor_divide(a, b), on=(REAL, AWAY_FROM_0),
                           kinks="a / b an integer (jump)", kink=lambda y, a, b: y == 0, analytic=False)
elementwise(np.fmod,       1.0, (lambda y, a, b: -np.trunc(a / b),     lambda y, a, b: -np.rint((a - y) / b)), on=(REAL, AWAY_FROM_0),
                           kinks="a / b an integer but 0 (jump)", kink=lambda y, a, b: (y == 0) & (a != 0), analytic=False)
INTEGER_POWER = elementwise(lambda x, *, n: np.power(x, float(n)), integer_power_partial, name="integer_power", on=AWAY_FROM_0, cost=POWER)
RELU = elementwise(lambda x: np.maximum(x, 0.0), lambda y, x: np.heaviside(x, 0.0), name="relu", kinks="x = 0 (slope 0)", kink=lambda y, x: x == 0, cost=ADDITION,
                           branch=lambda y, x: [np.heaviside(x, 0.0)], margin=lambda x: x)

#        slope 0 wherever it exists; a staircase changes in jumps
constant(np.sign,          staircase=True)
constant(np.floor,         staircase=True)
constant(np.ceil,          staircase=True)
constant(np.trunc,         staircase=True)
constant(np.rint,          staircase=True)
constant(np.floor_divide,  staircase=True)
constant(np.heaviside,     staircase=True)
# fmt: on

for test in (
    np.greater, np.greater_equal, np.less, np.less_equal, np.equal, np.not_equal,
    np.isnan, np.isfinite, np.isinf, np.signbit, np.logical_not, np.logical_and, np.logical_or, np.logical_xor,
):  # fmt: skip
    constant(test)


@handles(np.power, np.float_power)
def power(x: Value, p: Value) -> Value:
    """Return x**p; a plain integer exponent becomes the parameter of `integer_power` and is not differentiated."""
    number = not isinstance(p, Tracer | complex | np.complexfloating) and np.ndim(p) == 0 and np.isfinite(p)
    if number and float(p).is_integer() and abs(p) <= 10**6:
        return INTEGER_POWER(x, n=int(p))
    return F.power(x, p)


# Functions of the parts of a floating-point number, maxima and minima that ignore nan, and ranges such as linspace.


def _extreme_ignoring_nan(extreme: Any, lowest: float, a: Value, b: Value) -> Value:
    """Return the maximum or minimum of two operands, of which a nan is ignored."""
    first, second = np.isnan(plain_value(a)), np.isnan(plain_value(b))
    if not (np.any(first) or np.any(second)):
        return extreme(a, b)
    y = extreme(np.where(first, lowest, a), np.where(second, lowest, b))
    return np.where(first & second, np.nan, y)


@handles(np.modf)
def modf(x: Value) -> tuple[Value, Value]:
    """Return the fractional part and the integral part."""
    whole = np.trunc(x)
    infinite = np.isinf(plain_value(x))
    return np.where(infinite, 0.0, x - whole) if np.any(infinite) else x - whole, whole


@handles(np.copysign)
def copysign(a: Value, b: Value) -> Value:
    """Return a or -a, with the sign of b; that a is compared with 0 is recorded, and the sign of b as a step."""
    np.less(a, 0)
    np.sign(b)
    return np.where(np.signbit(plain_value(a)) == np.signbit(plain_value(b)), a, -a)


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
    n = np.frexp(plain_value(x))[1]
    m = x * np.ldexp(1.0, -n)
    size = np.abs(m)
    usual = np.isfinite(plain_value(x)) & (plain_value(x) != 0)
    if not np.all((np.greater_equal(size, 0.5) & np.less(size, 1.0)) | ~usual):
        raise Undecided("the exponent of frexp is not that of float64", do="the function may have a jump here")
    return m, n


@handles(np.heaviside)
def heaviside(x: Value, h0: Value) -> Value:
    """Return 0 for negative x, h0 for 0, and 1 for positive x."""
    if not isinstance(h0, Tracer):
        return F.heaviside(x, h0)
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
    start: Value, stop: Value, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None,
    axis: int = 0, **device: Any,
) -> Any:  # fmt: skip
    """Return `num` equally spaced numbers."""
    require_float64("linspace", dtype)
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
    start: Value, stop: Value, num: int = 50, endpoint: bool = True, base: Value = 10.0, dtype: Any = None,
    axis: int = 0,
) -> Value:  # fmt: skip
    """Return powers of the base with equally spaced exponents."""
    require_float64("logspace", dtype)
    return np.power(base, linspace(start, stop, num, endpoint, axis=axis))


@handles(np.geomspace)
def geomspace(
    start: Value, stop: Value, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Value:
    """Return `num` numbers with a constant ratio.

    Raises  ValueError if the ends have different signs, or one of them is 0.
    """
    require_float64("geomspace", dtype)
    start, stop = as_value(start), as_value(stop)
    if np.any(plain_value(start) * plain_value(stop) <= 0):
        raise ValueError("Geometric sequence cannot include zero")
    sign = np.sign(plain_value(start))
    y = np.exp(linspace(np.log(start * sign), np.log(stop * sign), num, endpoint)) * sign
    ends = [np.broadcast_to(end, (1, *shape(y)[1:])) for end in (start, stop)]
    inner = y[1:-1] if endpoint else y[1:]
    signed = np.concatenate([ends[0], inner, *(ends[1:] if endpoint else [])]) if num > 1 else y
    return np.moveaxis(signed, 0, axis) if axis else signed


handle({
    np.fabs: lambda x: np.absolute(x),
    np.deg2rad: lambda x: x * (pi(x) / 180), np.radians: lambda x: x * (pi(x) / 180),
    np.rad2deg: lambda x: x * (180 / pi(x)), np.degrees: lambda x: x * (180 / pi(x)),
    np.fmax: lambda a, b: _extreme_ignoring_nan(np.maximum, -np.inf, a, b),
    np.fmin: lambda a, b: _extreme_ignoring_nan(np.minimum, np.inf, a, b),
    np.divmod: lambda a, b: (np.floor_divide(a, b), np.remainder(a, b)),
})  # fmt: skip
