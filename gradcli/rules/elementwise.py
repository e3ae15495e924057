"""Elementwise primitives: a table with one row for each primitive and its partials.

A row has `(partial, kernel)` where the textbook partial loses digits in float64. A test proves that each kernel equals
its partial, and `gradcli ops` measures the worst error of each row.
"""

import numpy as np

from gradcli.rules import complex_values
from gradcli.rules.kinds import constant, elementwise
from gradcli.tracing.bind import handles
from gradcli.tracing.cost import ADDITION, MOVE, MULTIPLICATION, POWER
from gradcli.tracing.domain import ABOVE_1, ABOVE_MINUS_1, AWAY_FROM_0, INSIDE_1, NOT_HALF_PI, POSITIVE, REAL
from gradcli.tracing.primitive import Value, named
from gradcli.tracing.shapes import zeros_like
from gradcli.tracing.tracer import Tracer, exact, plain

LN2, LN10 = np.log(2.0), np.log(10.0)


def pi(x: Value) -> Value:
    """Return pi in the arithmetic of `x`."""
    return 4 * np.arctan(exact(1, x))


def ln(number: int, x: Value) -> Value:
    """Return the logarithm of an integer in the arithmetic of `x`; a float64 constant would make balls inexact."""
    return np.log(exact(number, x))


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


def share(a: Value, b: Value) -> Value:
    """Return the partial of maximum(a, b) by `a`: 1 where it is larger, 0 where it is smaller, half at a tie."""
    return (a > b) * 1.0 + (a == b) * 0.5


def power_partial(y: Value, x: Value, p: Value) -> Value:
    """Return d(x**p)/dx = p x**(p-1); x**0 is 1 everywhere, also at 0."""
    flat = np.equal(plain(p), 0)
    if np.any(flat):
        flat = flat & np.equal(plain(x), 0)
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


def hypot_partial(y: Value, x: Value, other: Value) -> Value:
    """Return x / y."""
    return x / y


def softplus_kernel(y: Value, a: Value, b: Value) -> Value:
    """Return 1 / (1 + exp(b - a)), corrected for the rounding error of a - b."""
    d, error = two_sum(a, -b)
    error = np.where(np.isfinite(error), error, 0.0)
    e = np.exp(-np.abs(d))
    s = np.where(d >= 0, 1.0 / (1.0 + e), e / (1.0 + e))
    return (s * (1.0 + error * (1.0 - s)))[()]


def at_zero(y: Value, x: Value) -> Value:
    """Return where x is at a kink at 0."""
    return x == 0


def at_tie(y: Value, a: Value, b: Value) -> Value:
    """Return where the operands are at a kink at a = b."""
    return a == b


def integer_power(x: Value, *, n: int) -> Value:
    """Return x**n for an integer n, negative ones included."""
    return np.power(x, float(n))


def integer_power_partial(y: Value, x: Value, *, n: int) -> Value:
    """Return n x**(n-1); x**0 is 1 everywhere, also at 0."""
    if n == 2:
        return 2 * x
    return n * x ** (n - 1) if n != 0 else zeros_like(x)


def relu(x: Value) -> Value:
    """Return max(x, 0)."""
    return np.maximum(x, 0.0)


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
elementwise(np.absolute,   lambda y, x: np.sign(x),  on=AWAY_FROM_0, kinks="x = 0 (slope 0)", kink=at_zero, analytic=False, cost=ADDITION, branch=lambda y, x: [np.sign(x)], margin=lambda x: x)
elementwise(np.maximum,    lambda y, a, b: share(a, b), lambda y, a, b: share(b, a), kinks="a = b (half each)", kink=at_tie, cost=ADDITION, branch=lambda y, a, b: [np.heaviside(a - b, 0.5), np.heaviside(b - a, 0.5)], margin=lambda a, b: a - b)
elementwise(np.minimum,    lambda y, a, b: share(b, a), lambda y, a, b: share(a, b), kinks="a = b (half each)", kink=at_tie, cost=ADDITION, branch=lambda y, a, b: [np.heaviside(b - a, 0.5), np.heaviside(a - b, 0.5)], margin=lambda a, b: a - b)

elementwise(np.power,     (power_partial, power_kernel), exponent_partial,                                         on=(POSITIVE, REAL))
elementwise(np.arctan2,   (lambda y, a, b: b / (a * a + b * b),        lambda y, a, b: b / np.hypot(a, b) / np.hypot(a, b)),
                          (lambda y, a, b: -a / (a * a + b * b),       lambda y, a, b: -a / np.hypot(a, b) / np.hypot(a, b)),
                           on=(AWAY_FROM_0, AWAY_FROM_0), analytic=False)
elementwise(np.hypot,      hypot_partial, lambda y, a, b: b / y, on=(AWAY_FROM_0, AWAY_FROM_0),
                           kinks="a = b = 0", kink=lambda y, a, b: y == 0, analytic=False)
elementwise(np.logaddexp, (lambda y, a, b: np.exp(a - y),              softplus_kernel),
                          (lambda y, a, b: np.exp(b - y),              lambda y, a, b: softplus_kernel(y, b, a)), on_complex=complex_values.logaddexp)

elementwise(np.remainder,  1.0, lambda y, a, b: -np.floor_divide(a, b), on=(REAL, AWAY_FROM_0),
                           kinks="a / b an integer (jump)", kink=lambda y, a, b: y == 0, analytic=False)
elementwise(np.fmod,       1.0, (lambda y, a, b: -np.trunc(a / b),     lambda y, a, b: -np.rint((a - y) / b)), on=(REAL, AWAY_FROM_0),
                           kinks="a / b an integer but 0 (jump)", kink=lambda y, a, b: (y == 0) & (a != 0), analytic=False)
INTEGER_POWER = elementwise(integer_power, integer_power_partial, name="integer_power", on=AWAY_FROM_0, cost=POWER)
RELU = elementwise(relu,   lambda y, x: np.heaviside(x, 0.0), name="relu", kinks="x = 0 (slope 0)", kink=at_zero, cost=ADDITION,
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

for comparison in (np.greater, np.greater_equal, np.less, np.less_equal, np.equal, np.not_equal):
    constant(comparison)
for test in (
    np.isnan, np.isfinite, np.isinf, np.signbit, np.logical_not, np.logical_and, np.logical_or, np.logical_xor,
):  # fmt: skip
    constant(test)


@handles(np.power, np.float_power)
def power(x: Value, p: Value) -> Value:
    """Return x**p; a plain integer exponent becomes the parameter of `integer_power` and is not differentiated."""
    number = not isinstance(p, Tracer | complex | np.complexfloating) and np.ndim(p) == 0 and np.isfinite(p)
    if number and float(p).is_integer() and abs(p) <= 10**6:
        return INTEGER_POWER(x, n=int(p))
    return named("power")(x, p)


@handles(np.fabs)
def fabs(x: Value) -> Value:
    return np.absolute(x)


@handles(np.deg2rad, np.radians)
def radians(x: Value) -> Value:
    return x * (pi(x) / 180)


@handles(np.rad2deg, np.degrees)
def degrees(x: Value) -> Value:
    return x * (180 / pi(x))
