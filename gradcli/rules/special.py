"""scipy.special's functions as primitives; scipy is imported when the first of them is called."""

from collections.abc import Callable
from functools import partial
from math import comb
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import GradcliError, NoRule, NotSupported
from gradcli.rules import complex_values
from gradcli.rules.elementwise import pi
from gradcli.rules.kinds import Partial, elementwise
from gradcli.tracing.domain import (
    ABOVE_12,
    ABOVE_30,
    ABOVE_MINUS_1,
    AWAY_FROM_0,
    BELOW_1,
    BEYOND_12,
    BEYOND_30,
    INSIDE_1,
    NEAR_0,
    NEAR_1,
    NOT_POLE,
    POSITIVE,
    REAL,
    UNIT,
    UP_TO_10000,
)
from gradcli.tracing.primitive import LATE_LOOKUPS, PRIMITIVES, Primitive, Value, declare, primitive_by_name
from gradcli.tracing.tracer import Tracer, arithmetic_of, exact_integer, is_zero, plain_value

LARGE_EXPONENT = "the density is the exponential of a large number"


def _gamma_density(a: Value, x: Value) -> Value:
    return np.exp((a - 1) * np.log(x) - x - primitive_by_name("gammaln")(a))


def _gamma_kernel(y: Value, a: Value, x: Value) -> Value:
    """Return the density; from a = 10 on by Stirling's series, where the exponent has no large terms that cancel.

    Source  DLMF 5.11.1.
    """
    large = (a >= 10) & (x > 0)
    order, ratio = np.where(large, a, 10.0), np.where(large, (x - a) / np.where(large, a, 1.0), 0.0)
    terms = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
    rest = sum(c * order ** -(2.0 * k + 1) for k, c in enumerate(terms))
    logs = order * (np.log1p(ratio) - ratio) - rest
    own = np.sqrt(order / (2 * np.pi)) * np.exp(logs) / np.where(large, x, 1.0)
    return np.where(large, own, _gamma_density(np.where(large, 1.0, a), x))[()]


def _beta_density(a: Value, b: Value, x: Value) -> Value:
    return np.exp((a - 1) * np.log(x) + (b - 1) * np.log1p(-x) - primitive_by_name("betaln")(a, b))


def _order_derivative_by_x(y: Value, a: Value, x: Value, *, n: int = 1) -> Value:
    """Return the n-th derivative of the density by the order, from the derivatives of its logarithm."""
    of_log: Any = lambda k: -primitive_by_name("polygamma")(a, n=k) if k else np.log(x) - psi(a)
    found = [_gamma_density(a, x)]
    for m in range(n):
        found.append(sum(comb(m, k) * of_log(k) * found[m - k] for k in range(m + 1)))
    return found[n]


_GAMMA: dict[str, Any] = {"on": (UP_TO_10000, UP_TO_10000), "analytic": False, "reason": LARGE_EXPONENT}


@dataclass(frozen=True, slots=True)
class ByOrder:
    """The rule of an order: the derivative has no closed form, and NoRule is raised."""

    what: str

    def push(self, *args: Any) -> Value:
        """Raise NoRule."""
        raise self.error()

    pull = push

    def error(self) -> NoRule:
        """Return the error that names the function."""
        return NoRule(f"{self.what} has no derivative by its order", do="pass the order as a plain number")


# Parts of the partials of special functions: densities, series where a formula cancels, and scipy, imported late.

_INFINITE = 1e9  # 1F1 is infinite from here on, unless its parameters are as large
_TINY = 1e-7  # below it one term of the series is enough
Refusal = Callable[..., GradcliError | None]
FACTORIALS = [float(np.prod(np.arange(1.0, n + 1))) for n in range(24)]


class LateFunction:
    """A function of scipy.special, or one of its several results, imported when it is first called.

    `refuses` returns an error for arguments at which scipy's value is wrong, and the call raises this error.
    """

    def __init__(self, name: str, result: int | None = None, refuses: Refusal | None = None) -> None:
        self.__name__ = name
        self.function: Callable[..., Value] | None = None
        self.result = result
        self.refuses = refuses

    def __call__(self, *xs: Value) -> Value:
        error = self.refuses and self.refuses(*xs)
        if error:
            raise error
        if self.function is None:
            import scipy.special

            self.function = getattr(scipy.special, self.__name__)
        y = self.function(*xs)
        return y if self.result is None else y[self.result]


class Polynomial(LateFunction):
    """A family of polynomials: integer degrees use scipy's recurrences, other degrees its series.

    scipy's series returns 0 for arguments that are too large for it; the result here is nan.
    """

    def __call__(self, n: Value, *xs: Value) -> Value:
        degrees = np.asarray(n)
        whole = (degrees == np.floor(degrees)) & (degrees >= 0) & (degrees < 2.0**31)
        if np.all(whole):
            return super().__call__(degrees.astype(np.int64)[()], *xs)
        y = super().__call__(n, *xs)
        lost = (degrees != np.floor(degrees)) & (y == 0) & (np.abs(xs[-1]) > 1)
        return np.where(lost, np.nan, y)[()] if np.any(lost) else y


class Chebyshev(Polynomial):
    """Chebyshev polynomials of the first kind; for x > 1 and other than integer degrees, scipy would lose digits."""

    def __call__(self, n: Value, *xs: Value) -> Value:
        (x,) = xs
        y = super().__call__(n, x)
        far = (np.asarray(n) != np.floor(n)) & (np.asarray(x) > 1)
        return np.where(far, np.cosh(n * np.arccosh(np.where(far, x, 1.0))), y)[()] if np.any(far) else y


class Confluent(LateFunction):
    """Kummer's function 1F1. For huge arguments scipy never returns; the result is infinite unless the series ends.

    For parameters so large that the function may be finite there, the result is nan.
    """

    def __call__(self, a: Value, b: Value, x: Value) -> Value:
        ends = (np.asarray(a) <= 0) & (np.asarray(a) == np.floor(a))
        far = ~ends & (np.asarray(x) > _INFINITE)
        y = super().__call__(a, b, np.where(far, _INFINITE, x)[()])
        return np.where(far & np.isfinite(y), np.nan, y)[()] if np.any(far) else y


class Laguerre(Polynomial):
    """Laguerre polynomials, generalized by a parameter; by 1F1 where scipy is wrong: other than integer degrees, large x."""

    def __call__(self, n: Value, *xs: Value) -> Value:
        y = super().__call__(n, *xs)
        *parameter, x = xs
        far = (np.asarray(n) != np.floor(n)) & (np.asarray(x) > 100)
        if not np.any(far):
            return y
        import scipy.special

        a = np.asarray(parameter[0] if parameter else 0.0)
        return np.where(far, scipy.special.binom(n + a, n) * primitive_by_name("hyp1f1").fun(-n, a + 1, x), y)[()]


class Modified(LateFunction):
    """The modified Bessel function of the first kind; by (x/2)^v / gamma(v + 1) for tiny arguments, where scipy gives 0.

    For a negative integer order, it equals the function of the positive order.
    """

    def __call__(self, v: Value, x: Value) -> Value:
        y = super().__call__(v, x)
        lost = (y == 0) & (np.abs(x) < _TINY)
        if not np.any(lost & (x != 0)):
            return y
        import scipy.special

        order = np.where(np.equal(v, np.floor(v)), np.abs(v), v)
        sign = np.where((x < 0) & (np.fmod(v, 2) != 0), -1.0, 1.0)
        sizes = np.abs(np.asarray(x)) / 2
        return np.where(lost, sign * sizes**order * scipy.special.rgamma(np.add(order, 1.0)), y)[()]


class Degrees(LateFunction):
    """A function of an angle in degrees; full turns are removed first, because scipy gives 0 for large angles."""

    def __call__(self, x: Value) -> Value:
        return super().__call__(np.fmod(x, 360.0))


class Oscillating(LateFunction):
    """A Bessel function of the first or (`second`) second kind; from 1e10 on, where scipy loses digits, by DLMF 10.17.3.

    The order is the first argument, or `order`. Two terms of the series are enough: for |order| < 30, the third is smaller
    than the rounding error.
    """

    def __init__(self, name: str, second: bool, order: float | None = None, **facts: Any) -> None:
        super().__init__(name, **facts)
        self.second, self.order = second, order

    def __call__(self, *xs: Value) -> Value:
        y = super().__call__(*xs)
        x, v = xs[-1], xs[0] if self.order is None else self.order
        far = (np.abs(x) > 1e10) & (np.abs(v) < 30) & np.isfinite(x) & ~np.isnan(y)
        if not np.any(far):
            return y
        size = np.where(far, np.abs(x), 1e10)
        phase = (np.asarray(v) / 2 + 0.25) * np.pi
        cosine = np.cos(size) * np.cos(phase) + np.sin(size) * np.sin(phase)
        sine = np.sin(size) * np.cos(phase) - np.cos(size) * np.sin(phase)
        head, next_term = (sine, cosine) if self.second else (cosine, -sine)
        wave = np.sqrt(2 / np.pi / size) * (head + (4 * np.square(v) - 1) / 8 / size * next_term)
        return np.where(far, np.where((x < 0) & (np.fmod(v, 2) != 0), -wave, wave), y)[()]


def require_whole_orders(name: str) -> Refusal:
    """Return a check that refuses orders other than 0, 1, 2, ..., for which scipy has no values or wrong ones."""

    def refuse(n: Value, *xs: Value) -> NotSupported | None:
        orders = np.ravel(plain_value(n)).astype(float)
        other = orders[(orders != np.floor(orders)) | (orders < 0)]
        if not other.size or np.isnan(other[0]):
            return None
        return NotSupported(
            f"{name} of the order {other[0]:g}: scipy has values for 0, 1, 2, ... alone", do="take a whole order"
        )

    return refuse


def find_hyperu_error(a: Value, b: Value, x: Value) -> NotSupported | None:
    """Return an error for parameters at which all digits of scipy's hyperu may be wrong, else None.

    These are integers b below 1, and integers b above 1 where a is close to an integer and terms of the series cancel.
    """
    a, b = np.broadcast_arrays(plain_value(a), plain_value(b))
    off = np.abs(a - np.rint(a))
    wrong = (b == np.floor(b)) & ((b < 1) | ((b > 1) & (off > 0) & (off < 0.1)))
    if not np.any(wrong):
        return None
    where = tuple(np.argwhere(wrong)[0])
    return NotSupported(
        f"hyperu({a[where]:g}, {b[where]:g}, x): scipy's values are wrong there",
        do="take a b that is not a whole number",
    )


def digamma(x: Value) -> Value:
    """Return the derivative of log|gamma|; for x < 0 by reflection, with the distance to the pole exact (DLMF 5.5.4)."""
    import scipy.special

    left = np.less(x, 0)
    if not np.any(left):
        return scipy.special.psi(x)
    t = _distance_to_pole(x, left)
    y = scipy.special.psi(np.where(left, 1 - x, x)) - np.where(
        left, np.pi / np.where(left, np.tan(np.pi * t), 1.0), 0.0
    )
    return np.where(left & (t == 0), np.nan, y)[()]


def polygamma(x: Value, *, n: int) -> Value:
    """Return the n-th derivative of digamma; for x < 0 and n = 1 by reflection, where scipy has none.

    Source  DLMF 5.15.6.
    """
    import scipy.special

    left = np.less(x, 0)
    if n != 1 or not np.any(left):
        return scipy.special.polygamma(n, x)[()]
    y = scipy.special.polygamma(1, np.where(left, 1 - x, x))
    waves = (np.pi / np.sin(np.pi * _distance_to_pole(x, left))) ** 2
    return np.where(left, waves - y, y)[()]


def _distance_to_pole(x: Value, left: Value) -> Value:
    """Return the exact difference of x < 0 and the nearest integer; one half elsewhere."""
    return np.where(left, x - np.rint(x), 0.5)


def _exp_of_square(x: Value, factor: float) -> Value:
    """Return exp(-factor x*x), 0 at infinity; the square is split so that exp does not magnify its rounding error."""
    far = np.where(np.isfinite(x), x, 0.0)
    head = np.asarray(far, dtype=np.float32).astype(np.float64)
    head = np.where(np.isfinite(head), head, far)
    y = np.exp(-factor * head * head) * np.exp(-factor * (far - head) * (far + head))
    return np.where(np.isinf(x), 0.0, np.where(np.isnan(x), np.nan, y))


def erf_slope(y: Value, x: Value) -> Value:
    """Return exp(-x*x) 2/sqrt(pi)."""
    return (2.0 / np.sqrt(np.pi) * _exp_of_square(x, 1.0))[()]


def normal_density(x: Value) -> Value:
    """Return the density of the normal distribution."""
    return np.exp(-x * x / 2) / np.sqrt(2 * pi(x))


def normal_density_kernel(y: Value, x: Value) -> Value:
    """Return the density of the normal distribution."""
    return (_exp_of_square(x, 0.5) / np.sqrt(2 * np.pi))[()]


def inverse_mills_ratio(y: Value, x: Value) -> Value:
    """Return density over distribution function of the normal distribution, without underflow."""
    right, left = np.maximum(x, 0.0), np.minimum(x, 0.0)
    far = np.sqrt(2 / np.pi) / primitive_by_name("erfcx")(-left / np.sqrt(2.0))
    return np.where(x > 0, normal_density_kernel(y, right) / primitive_by_name("ndtr")(right), far)[()]


def asymptotic_series(x: Value, terms: int, sign: float) -> Value:
    """Return the sum of sign^k (2k+1)!! / (2 x^2)^k from k = 0, a factor in the asymptotic series of erfcx and dawsn."""
    q = sign * (0.5 / x) / x
    y, term = np.ones_like(x), np.ones_like(x)
    for k in range(1, terms):
        term = term * (2 * k + 1) * q
        y = y + term
    return y


def exprel_partial(y: Value, x: Value) -> Value:
    """Return (exp(x) - y) / x; float64 uses the series near 0, balls use it at 0 only, where seven derivatives are exact."""
    if arithmetic_of(x) is None:
        return exprel_kernel(y, x)
    origin = is_zero(x)
    near = sum((k + 1) / FACTORIALS[k + 2] * x**k for k in range(8))
    return np.where(origin, near, (np.exp(x) - y) / np.where(origin, 1.0, x))


def exprel_kernel(y: Value, x: Value) -> Value:
    """Return ((x - 1) exp(x) + 1) / x^2, by its series near 0."""
    near = np.abs(plain_value(x)) < 1.0
    small = np.where(near, x, 0.0)
    series = sum((k + 1) / FACTORIALS[k + 2] * small**k for k in range(18))
    safe = np.where(near, 2.0, x)
    return np.where(near, series, (np.exp(safe) - np.where(near, 1.0, y)) / safe)[()]


def quotient_at_0(f: Callable[[Value], Value], x: Value) -> Value:
    """Return f(x) / x, 1 at 0, for functions like sin."""
    origin = is_zero(x)
    safe = np.where(origin, 1.0, x)
    return np.where(origin, 1.0, f(safe) / safe)


def log_ratio(x: Value, y: Value) -> Value:
    """Return log(x / y), near 1 without cancellation; nan unless both are positive."""
    positive = (x > 0) & (y > 0)
    x, y = np.where(positive, x, np.nan), np.where(positive, y, np.nan)
    close = np.abs(x - y) < 0.5 * np.abs(y)
    ratio = np.where(close, 1.0, x / y)
    usual = (ratio > 1e-300) & (ratio < 1e300)
    far = np.where(usual, np.log(np.where(usual, ratio, 1.0)), np.log(x) - np.log(y))
    return np.where(close, np.log1p(np.where(close, (x - y) / y, 0.0)), far)[()]


def nan_outside_domain(slope: Callable[..., Value]) -> Callable[..., Value]:
    """Return a slope that is nan where the function is not finite, as scipy's functions are outside their domains."""
    return lambda y, *xs, **params: np.where(np.isfinite(y), slope(y, *xs, **params), np.nan)[()]


def log_quotient(x: Value) -> Value:
    """Return log(x) / (x - 1), 1 at 1, without cancellation."""
    one = x == 1
    away = np.where(one, 1.0, x - 1)
    close = np.abs(away) < 0.5
    return np.where(one, 1.0, np.where(close, np.log1p(np.where(close, away, 0.0)), np.log(x)) / away)[()]


def psi_difference(a: Value, b: Value) -> Value:
    """Return digamma(a) - digamma(a + b); for b small beside the distance of a to a pole, by derivatives of digamma."""
    near = np.abs(b) < 0.02 * np.where(np.greater(a, 0), a, np.abs(a - np.rint(a)))
    middle, step = np.where(near, a + b / 2, 1.0), np.where(near, b, 0.0)
    polygamma = primitive_by_name("polygamma")
    series = 2 * sum(polygamma(middle, n=n) * step * (step / 2) ** (n - 1) / (2 * FACTORIALS[n]) for n in (1, 3, 5))
    psi = primitive_by_name("digamma")
    return np.where(near, -series, psi(a) - psi(a + np.where(near, 1.0, b)))[()]


def scaled_bessel_slope(order: int, sign: float) -> Callable[[Value, Value], Value]:
    """Return the slope of exp(-|x|) I for |x| > 30, or of exp(x) K for x > 30, by its asymptotic series.

    Source  DLMF 10.40.1, 10.40.2.
    """
    scale = 1 / np.sqrt(2 * np.pi) if sign < 0 else np.sqrt(np.pi / 2)
    terms = [1.0]
    for k in range(1, 24):
        terms.append(sign * terms[-1] * (4 * order**2 - (2 * k - 1) ** 2) / (8 * k))

    def slope(y: Value, x: Value) -> Value:
        size = np.abs(x)
        series = -scale * sum((k + 0.5) * a * size**-k for k, a in enumerate(terms)) / size / np.sqrt(size)
        return series * (np.sign(x) if sign < 0 and order % 2 == 0 else 1.0)

    return slope


def elliptic_series(second: bool, complement: bool = False) -> Callable[[Value, Value], Value]:
    """Return the slope of K or E for |m| < 0.15 by the power series; the argument is m or, as `complement`, 1 - m.

    Source  DLMF 19.5.1, 19.5.2.
    """
    terms, c = [], 1.0
    for n in range(1, 26):
        c *= ((2 * n - 1) / (2 * n)) ** 2
        terms.append(np.pi / 2 * n * (-c / (2 * n - 1) if second else c))

    def slope(y: Value, x: Value) -> Value:
        m = 1 - x if complement else x
        series = sum(a * m**k for k, a in enumerate(terms))
        return -series if complement else series

    return slope


def square_modulo_4(x: Value) -> Value:
    """Return x^2 modulo 4 in float64, corrected for the rounding error of the square."""
    whole = np.abs(x) >= 2.0**53  # such floats are even, their squares multiples of 4
    safe = np.where(whole, 0.0, x)
    high = (safe * 134217729.0) - (safe * 134217729.0 - safe)
    low = safe - high
    square = safe * safe
    error = ((high * high - square) + 2 * high * low) + low * low
    return np.fmod(np.fmod(square, 4.0) + error, 4.0)


expit, log_expit = LateFunction("expit"), LateFunction("log_expit")
GAMMA_ROOT = (
    "near a root of digamma the relative error is that of scipy's digamma, which grows with its condition number"
)
TRIGAMMA = "scipy's zeta function, and the reflection formula for x < 0, lose some digits"
SCIPY = "the partial is made of scipy's own function, which loses some digits"
MAGNIFIED = "the exponential magnifies the rounding of the function's value"
DIFFERENCE = "two digammas are subtracted"
FAR = "scipy's Bessel functions lose digits as x grows, six of them at 1e10"
LOSS = 1e-11  # relative error of scipy's values at complex numbers near the real axis
ELLIPTIC = "two elliptic integrals are subtracted"
TURNS = "near a root the rounding of pi / 2 shows"


def psi(x: Value) -> Value:
    """Return the digamma function."""
    return primitive_by_name("digamma")(x)


def bessel(name: str, order: int, x: Value) -> Value:
    """Return a Bessel function of an integer order."""
    return primitive_by_name(name)(np.float64(order), x)


# fmt: off
elementwise(LateFunction("erf"),      (lambda y, x: 2 / np.sqrt(pi(x)) * np.exp(-x * x),   erf_slope),       complex_loss=LOSS)
elementwise(LateFunction("erfc"),     (lambda y, x: -2 / np.sqrt(pi(x)) * np.exp(-x * x),  lambda y, x: -erf_slope(y, x)),
                                      complex_loss=LOSS)
elementwise(LateFunction("erfcx"),    (lambda y, x: 2 * x * y - 2 / np.sqrt(pi(x)),
                                       lambda y, x: -asymptotic_series(x, 18, -1.0) / np.sqrt(np.pi) / x / x, ABOVE_12), complex_loss=LOSS, reason=SCIPY)
elementwise(LateFunction("erfi"),      lambda y, x: 2 / np.sqrt(pi(x)) * np.exp(x * x),    complex_loss=LOSS, reason=MAGNIFIED)
elementwise(LateFunction("erfinv"),    lambda y, x: np.sqrt(pi(x)) / 2 * np.exp(y * y),    on=INSIDE_1, analytic=False, reason=MAGNIFIED)
elementwise(LateFunction("erfcinv"),   lambda y, x: -np.sqrt(pi(x)) / 2 * np.exp(y * y),   on=UNIT, analytic=False, reason=MAGNIFIED)
elementwise(LateFunction("dawsn"),    (lambda y, x: 1 - 2 * x * y,
                                       lambda y, x: -asymptotic_series(x, 18, 1.0) * (0.5 / x) / x, BEYOND_12), analytic=False, reason=SCIPY)
elementwise(LateFunction("ndtr"),     (lambda y, x: normal_density(x),               normal_density_kernel), complex_loss=LOSS)
elementwise(LateFunction("log_ndtr"), (lambda y, x: normal_density(x) / np.exp(y),   inverse_mills_ratio), analytic=False)
elementwise(LateFunction("ndtri"),     lambda y, x: 1 / normal_density(y),           on=UNIT, analytic=False, reason=MAGNIFIED)
elementwise(expit,            (lambda y, x: y * (1 - y),     lambda y, x: expit(x) * expit(-x)), on_complex=complex_values.expit)
elementwise(LateFunction("logit"),     lambda y, x: 1 / (x * (1 - x)),        on=UNIT, on_complex=complex_values.logit)
elementwise(log_expit,         lambda y, x: primitive_by_name("expit")(-x), on_complex=complex_values.log_expit)
elementwise(LateFunction("entr"),      lambda y, x: -np.log(x) - 1,           on=POSITIVE, analytic=False)
elementwise(LateFunction("xlogy"),     lambda y, a, b: np.log(b),   lambda y, a, b: a / b,       on=(REAL, POSITIVE), complex_loss=LOSS)
elementwise(LateFunction("xlog1py"),   lambda y, a, b: np.log1p(b), lambda y, a, b: a / (1 + b), on=(REAL, ABOVE_MINUS_1), complex_loss=LOSS)
elementwise(LateFunction("rel_entr"), (lambda y, a, b: np.log(a / b) + 1,     lambda y, a, b: log_ratio(a, b) + 1),
                               (lambda y, a, b: -a / b,               nan_outside_domain(lambda y, a, b: -a / b)), on=(POSITIVE, POSITIVE), analytic=False, reason="log(a / b) + 1 cancels near b = e a")
elementwise(LateFunction("kl_div"),   (lambda y, a, b: np.log(a / b),         lambda y, a, b: log_ratio(a, b)),
                              (lambda y, a, b: 1 - a / b,             nan_outside_domain(lambda y, a, b: (b - a) / b)), on=(POSITIVE, POSITIVE), analytic=False)
elementwise(LateFunction("pseudo_huber"), lambda y, d, r: d * np.square(y / (d * d)) / np.sqrt(1 + np.square(r / d)),
                              (lambda y, d, r: r / np.sqrt(1 + np.square(r / d)), nan_outside_domain(lambda y, d, r: d * (r / np.hypot(d, r)))),
                               on=(POSITIVE, REAL), analytic=False, reason=SCIPY)
elementwise(LateFunction("exprel"),   (exprel_partial,               exprel_kernel), analytic=False, reason=SCIPY)
elementwise(LateFunction("gamma"),     lambda y, x: y * psi(x),               on=NOT_POLE, analytic=False, reason=GAMMA_ROOT)
elementwise(LateFunction("rgamma"),    lambda y, x: -y * psi(x),              on=NOT_POLE, analytic=False, reason=GAMMA_ROOT)
elementwise(LateFunction("gammaln"),   lambda y, x: psi(x),                   on=POSITIVE, reason=GAMMA_ROOT, on_complex=complex_values.gammaln)
elementwise(LateFunction("loggamma"),  lambda y, x: psi(x),                   on=POSITIVE, reason=GAMMA_ROOT, complex_loss=LOSS)
elementwise(digamma,           lambda y, x: primitive_by_name("polygamma")(x, n=1), on=NOT_POLE, name="digamma", complex_loss=LOSS, reason=TRIGAMMA)
elementwise(polygamma,         lambda y, x, *, n: primitive_by_name("polygamma")(x, n=n + 1), on=POSITIVE, analytic=False, reason=TRIGAMMA)
elementwise(LateFunction("beta"),     (lambda y, a, b: y * (psi(a) - psi(a + b)), lambda y, a, b: y * psi_difference(a, b)),
                              (lambda y, a, b: y * (psi(b) - psi(a + b)), lambda y, a, b: y * psi_difference(b, a)), on=(POSITIVE, POSITIVE), analytic=False, reason=DIFFERENCE)
elementwise(LateFunction("betaln"),   (lambda y, a, b: psi(a) - psi(a + b),       nan_outside_domain(lambda y, a, b: psi_difference(a, b))),
                              (lambda y, a, b: psi(b) - psi(a + b),       nan_outside_domain(lambda y, a, b: psi_difference(b, a))), on=(POSITIVE, POSITIVE), analytic=False, reason=DIFFERENCE)
elementwise(Oscillating("j0", False, 0),        lambda y, x: -primitive_by_name("j1")(x),          analytic=False, reason=FAR)
elementwise(Oscillating("j1", False, 1),        lambda y, x: (primitive_by_name("j0")(x) - bessel("jv", 2, x)) / 2, analytic=False, reason=FAR)
elementwise(Oscillating("y0", True, 0),        lambda y, x: -primitive_by_name("y1")(x),          on=POSITIVE, analytic=False, reason=FAR)
elementwise(Oscillating("y1", True, 1),        lambda y, x: primitive_by_name("y0")(x) - y / x,   on=POSITIVE, analytic=False, reason=FAR)
elementwise(LateFunction("i0"),        lambda y, x: primitive_by_name("i1")(x),           analytic=False, reason=SCIPY)
elementwise(LateFunction("i1"),        lambda y, x: (primitive_by_name("i0")(x) + bessel("iv", 2, x)) / 2, analytic=False, reason=SCIPY)
elementwise(LateFunction("i0e"),      (lambda y, x: primitive_by_name("i1e")(x) - np.sign(x) * y,
                                       scaled_bessel_slope(0, -1.0), BEYOND_30), on=AWAY_FROM_0, analytic=False, reason=SCIPY)
elementwise(LateFunction("i1e"),      (lambda y, x: (primitive_by_name("i0e")(x) + bessel("ive", 2, x)) / 2 - np.sign(x) * y,
                                       scaled_bessel_slope(1, -1.0), BEYOND_30), on=AWAY_FROM_0, analytic=False, reason=SCIPY)
elementwise(LateFunction("k0"),        lambda y, x: -primitive_by_name("k1")(x),          on=POSITIVE, analytic=False, reason=SCIPY)
elementwise(LateFunction("k1"),        lambda y, x: -primitive_by_name("k0")(x) - y / x,  on=POSITIVE, analytic=False, reason=SCIPY)
elementwise(LateFunction("k0e"),      (lambda y, x: y - primitive_by_name("k1e")(x),
                                       scaled_bessel_slope(0, 1.0), ABOVE_30), on=POSITIVE, analytic=False, reason=SCIPY)
elementwise(LateFunction("k1e"),      (lambda y, x: y - primitive_by_name("k0e")(x) - y / x,
                                       scaled_bessel_slope(1, 1.0), ABOVE_30), on=POSITIVE, analytic=False, reason=SCIPY)
elementwise(LateFunction("exp1"),      lambda y, x: -np.exp(-x) / x,          on=POSITIVE, complex_loss=LOSS)
elementwise(LateFunction("expi"),      lambda y, x: np.exp(x) / x,            on=AWAY_FROM_0, analytic=False)
elementwise(LateFunction("sici", 0),   lambda y, x: quotient_at_0(np.sin, x), name="si", analytic=False)
elementwise(LateFunction("sici", 1),   lambda y, x: np.cos(x) / x,            name="ci", on=POSITIVE, analytic=False)
elementwise(LateFunction("shichi", 0), lambda y, x: quotient_at_0(np.sinh, x), name="shi", analytic=False)
elementwise(LateFunction("shichi", 1), lambda y, x: np.cosh(x) / x,           name="chi", on=POSITIVE, analytic=False)
elementwise(LateFunction("fresnel", 0), (lambda y, x: np.sin(pi(x) / 2 * x * x), lambda y, x: np.sin(np.pi / 2 * square_modulo_4(x))), name="fresnel_s", analytic=False, reason=TURNS)
elementwise(LateFunction("fresnel", 1), (lambda y, x: np.cos(pi(x) / 2 * x * x), lambda y, x: np.cos(np.pi / 2 * square_modulo_4(x))), name="fresnel_c", analytic=False, reason=TURNS)
elementwise(LateFunction("spence"),   (lambda y, x: np.log(x) / (1 - x),      lambda y, x: -log_quotient(x)), on=POSITIVE, complex_loss=LOSS)
elementwise(LateFunction("wrightomega"), lambda y, x: y / (1 + y),            complex_loss=LOSS, reason=SCIPY)
elementwise(LateFunction("ellipk"),   (lambda y, m: (primitive_by_name("ellipe")(m) / (1 - m) - y) / (2 * m),
                                       elliptic_series(False), NEAR_0), on=BELOW_1, analytic=False, reason=ELLIPTIC)
elementwise(LateFunction("ellipkm1"), (lambda y, p: (y - primitive_by_name("ellipe")(1 - p) / p) / (2 * (1 - p)),
                                       elliptic_series(False, complement=True), NEAR_1), on=POSITIVE, analytic=False, reason=ELLIPTIC)
elementwise(LateFunction("ellipe"),   (lambda y, m: (y - primitive_by_name("ellipk")(m)) / (2 * m),
                                       elliptic_series(True), NEAR_0), on=BELOW_1, analytic=False, reason=ELLIPTIC)
elementwise(Degrees("sindg"),     lambda y, x: primitive_by_name("cosdg")(x) * pi(x) / 180, analytic=False, reason=SCIPY)
elementwise(Degrees("cosdg"),     lambda y, x: -primitive_by_name("sindg")(x) * pi(x) / 180, analytic=False, reason=SCIPY)
elementwise(Degrees("tandg"),     lambda y, x: (1 + y * y) * pi(x) / 180, analytic=False, reason=SCIPY)
# scipy's cotangent loses digits near its pole
elementwise(lambda x: primitive_by_name("cosdg")(x) / primitive_by_name("sindg")(x),
                          (lambda y, x: -(1 + y * y) * pi(x) / 180,
                           lambda y, x: -np.pi / 180 / primitive_by_name("sindg")(x) ** 2), name="cotdg", on=AWAY_FROM_0, analytic=False, reason=SCIPY)
# fmt: on


# scipy.special's functions with an order, its functions made of others, and the look-up of a handler for each ufunc.


def declare_with_orders(
    name: str,
    *partials: Callable[..., Value] | None,
    kind: Callable[..., LateFunction] = LateFunction,
    refuses: Refusal | None = None,
) -> Primitive:
    """Declare a function of scipy.special; None in place of a partial marks an order.

    `refuses` returns an error for arguments at which scipy's values are wrong, else None.
    """
    rules = tuple(ByOrder(name) if partial is None else Partial(partial) for partial in partials)
    return declare(Primitive(name, kind(name, refuses=refuses), rules, on=(), analytic=False))


def _bessel_slope(name: str, sign: float) -> Callable[..., Value]:
    """Return the slope of a Bessel function: half the sum or difference of the neighbouring orders."""
    return lambda y, v, x: (primitive_by_name(name)(v - 1, x) + sign * primitive_by_name(name)(v + 1, x)) / 2


def _lower_degree(name: str, n: Value, *rest: Value) -> Value:
    """Return a polynomial of one degree less, 0 for degree 0."""
    flat = is_zero(n)
    return np.where(flat, 0.0, primitive_by_name(name)(np.where(flat, 1, n) - 1, *rest))


def _expn_slope(y: Value, n: Value, x: Value) -> Value:
    first = is_zero(n)
    return np.where(
        first,
        -np.exp(-x) * (1 / x + 1 / (x * x)),
        -primitive_by_name("expn")(np.where(first, 1, plain_value(n)) - 1, x),
    )


def _hyp2f1_slope(y: Value, a: Value, b: Value, c: Value, x: Value) -> Value:
    # hyp2f1 has a pole at c = 0, -1, ... unless its series ends before.
    ends, last = -np.maximum(_nonpositive_integer(a), _nonpositive_integer(b)), -_nonpositive_integer(c)
    pole = np.isfinite(last) & (ends > last)
    return np.where(pole, np.nan, a * b / c) * primitive_by_name("hyp2f1")(a + 1, b + 1, c + 1, x)


def _nonpositive_integer(a: Value) -> Value:
    """Return `a` where it is one of 0, -1, -2, ..., and -inf elsewhere."""
    a = plain_value(a)
    return np.where((a <= 0) & (a == np.floor(a)), a, -np.inf)


# fmt: off
#       name                dy/d order  ...  dy/dx
declare_with_orders("jv",               None, _bessel_slope("jv", -1.0), kind=partial(Oscillating, second=False))
declare_with_orders("yv",               None, _bessel_slope("yv", -1.0), kind=partial(Oscillating, second=True))
declare_with_orders("iv",               None, _bessel_slope("iv", 1.0), kind=Modified)
declare_with_orders("kv",               None, lambda y, v, x: -_bessel_slope("kv", 1.0)(y, v, x))
declare_with_orders("ive",              None, lambda y, v, x: _bessel_slope("ive", 1.0)(y, v, x) - np.sign(x) * y, kind=Modified)
declare_with_orders("kve",              None, lambda y, v, x: y - _bessel_slope("kve", 1.0)(y, v, x))
declare_with_orders("expn",             None, _expn_slope, refuses=require_whole_orders("expn"))
declare_with_orders("hyp0f1",           None, lambda y, v, x: primitive_by_name("hyp0f1")(v + 1, x) / v)
declare_with_orders("hyp1f1",           None, None, lambda y, a, b, x: a / b * primitive_by_name("hyp1f1")(a + 1, b + 1, x), kind=Confluent)
declare_with_orders("hyp2f1",           None, None, None, _hyp2f1_slope)
declare_with_orders("hyperu",           None, None, lambda y, a, b, x: -a * primitive_by_name("hyperu")(a + 1, b + 1, x), refuses=find_hyperu_error)
declare_with_orders("eval_jacobi", None, None, None, lambda y, n, a, b, x: (n + a + b + 1) / 2 * _lower_degree("eval_jacobi", n, a + 1, b + 1, x),
                    kind=Polynomial)
declare_with_orders("eval_legendre", None, lambda y, n, x: (n + 1) / 2 * _lower_degree("eval_jacobi", n, np.float64(1), np.float64(1), x),
                    kind=Polynomial)
declare_with_orders("eval_gegenbauer", None, None, lambda y, n, a, x: 2 * a * _lower_degree("eval_gegenbauer", n, a + 1, x),
                    kind=Polynomial)
declare_with_orders("eval_chebyt", None, lambda y, n, x: n * _lower_degree("eval_chebyu", n, x), kind=Chebyshev)
declare_with_orders("eval_chebyu", None, lambda y, n, x: 2 * _lower_degree("eval_gegenbauer", n, np.float64(2), x),
                    kind=Polynomial)
declare_with_orders("eval_hermite", None, lambda y, n, x: 2 * n * _lower_degree("eval_hermite", n, x),
                    refuses=require_whole_orders("eval_hermite"), kind=Polynomial)
declare_with_orders("eval_hermitenorm", None, lambda y, n, x: n * _lower_degree("eval_hermitenorm", n, x),
                    refuses=require_whole_orders("eval_hermitenorm"), kind=Polynomial)
declare_with_orders("eval_laguerre", None, lambda y, n, x: -_lower_degree("eval_genlaguerre", n, np.float64(1), x),
                    kind=Laguerre)
declare_with_orders("eval_genlaguerre", None, None, lambda y, n, a, x: -_lower_degree("eval_genlaguerre", n, a + 1, x),
                    kind=Laguerre)
# fmt: on


def huber(delta: Value, r: Value) -> Value:
    """Return r^2 / 2 where |r| <= delta, and its linear continuation elsewhere; infinity for a negative delta."""
    size = np.abs(r)
    inside = np.less_equal(size, delta)
    y = np.where(inside, np.square(r) / 2, delta * (size - delta / 2))
    return np.where(plain_value(delta) < 0, np.inf, y) if np.any(plain_value(delta) < 0) else y


def _expm1_quotient(t: Value, lmbda: Value) -> Value:
    """Return (exp(lmbda t) - 1) / lmbda; at lmbda = 0 it is t, and the first three derivatives are exact."""
    flat = is_zero(lmbda)
    near = t + lmbda * t * t / 2 + lmbda * lmbda * t**3 / 6 + lmbda**3 * t**4 / 24
    return np.where(flat, near, np.expm1(lmbda * t) / np.where(flat, 1.0, lmbda))


def _log1p_quotient(y: Value, lmbda: Value) -> Value:
    """Return log(1 + lmbda y) / lmbda; at lmbda = 0 it is y, and the first three derivatives are exact."""
    flat = is_zero(lmbda)
    near = y - lmbda * y * y / 2 + lmbda * lmbda * y**3 / 3 - lmbda**3 * y**4 / 4
    return np.where(flat, near, np.log1p(lmbda * y) / np.where(flat, 1.0, lmbda))


def _shifted_polynomial(name: str) -> Callable[..., Value]:
    """Return a family of polynomials, evaluated at 2x - 1."""
    return lambda n, x: primitive_by_name(name)(n, 2.0 * x - 1.0)


COMPOSITES: dict[str, Callable[..., Any]] = {
    "huber": huber,
    "boxcox": lambda x, lmbda: _expm1_quotient(np.log(x), lmbda),
    "boxcox1p": lambda x, lmbda: _expm1_quotient(np.log1p(x), lmbda),
    "inv_boxcox": lambda y, lmbda: np.exp(_log1p_quotient(y, lmbda)),
    "inv_boxcox1p": lambda y, lmbda: np.expm1(_log1p_quotient(y, lmbda)),
    "binom": lambda n, k: 1 / ((n + 1) * primitive_by_name("beta")(1 + n - k, 1 + k)),
    "poch": lambda z, m: primitive_by_name("gamma")(z + m) * primitive_by_name("rgamma")(z),
    "cosm1": lambda x: -2 * np.square(np.sin(x / 2)), "powm1": lambda x, y: np.expm1(y * np.log(x)),
    "exp10": lambda x: np.power(exact_integer(10, x), x), "radian": lambda d, m, s: (d + m / 60 + s / 3600) * (pi(d) / 180),
    "sici": lambda x: (primitive_by_name("si")(x), primitive_by_name("ci")(x)), "shichi": lambda x: (primitive_by_name("shi")(x), primitive_by_name("chi")(x)),
    "fresnel": lambda x: (primitive_by_name("fresnel_s")(x), primitive_by_name("fresnel_c")(x)),
    "log1p": np.log1p, "expm1": np.expm1, "exp2": np.exp2, "cbrt": np.cbrt, "round": np.rint,
    "eval_chebyc": lambda n, x: 2 * primitive_by_name("eval_chebyt")(n, x / 2), "eval_chebys": lambda n, x: primitive_by_name("eval_chebyu")(n, x / 2),
    "eval_sh_legendre": _shifted_polynomial("eval_legendre"), "eval_sh_chebyt": _shifted_polynomial("eval_chebyt"), "eval_sh_chebyu": _shifted_polynomial("eval_chebyu"),
    "chdtr": lambda v, x: primitive_by_name("gammainc")(v / 2, x / 2), "chdtrc": lambda v, x: primitive_by_name("gammaincc")(v / 2, x / 2),
    "pdtr": lambda k, m: primitive_by_name("gammaincc")(np.floor(k) + 1, m), "pdtrc": lambda k, m: primitive_by_name("gammainc")(np.floor(k) + 1, m),
    "gdtr": lambda a, b, x: primitive_by_name("gammainc")(b, a * x), "gdtrc": lambda a, b, x: primitive_by_name("gammaincc")(b, a * x),
    "fdtr": lambda n, d, x: primitive_by_name("betainc")(n / 2, d / 2, n * x / (d + n * x)),
    "fdtrc": lambda n, d, x: primitive_by_name("betainc")(d / 2, n / 2, d / (d + n * x)),
    "gammasgn": lambda x: np.sign(primitive_by_name("rgamma")(plain_value(x))),
}  # fmt: skip
ORDERS: dict[str, int] = {
    "eval_chebyc": 1, "eval_chebys": 1, "eval_sh_legendre": 1, "eval_sh_chebyt": 1, "eval_sh_chebyu": 1, "pdtr": 1, "pdtrc": 1,
    "fdtr": 2, "fdtrc": 2,
}  # fmt: skip
SAME = {"psi": "digamma", "kn": "kv", "yn": "yv"}
WHY = {"airy": "it has four complex-valued results", "zetac": "scipy has no derivative of the zeta function"}


def _refuse_traced_orders(name: str, function: Callable[..., Any], orders: list[int]) -> Callable[..., Any]:
    """Return the function; it raises NoRule when it is called with a traced order."""

    def call(*xs: Value) -> Value:
        for k in orders:
            if isinstance(xs[k], Tracer):
                raise ByOrder(name).error()
        return function(*xs)

    return call


def with_plain_orders(name: str) -> Callable[..., Any]:
    """Return a function of the table, which raises NoRule when it is called with a traced order."""
    row = PRIMITIVES[name]
    orders = [k for k, rule in enumerate(row.rules) if isinstance(rule, ByOrder)]
    return _refuse_traced_orders(name, row, orders) if orders else row


def find_ufunc_handler(function: Callable[..., Any]) -> Callable[..., Any] | None:
    """Return the handler of a ufunc of scipy.special, or None.

    Raises  NoRule for a function that is refused for a reason in `WHY`.
    """
    if not isinstance(function, np.ufunc):
        return None
    name = SAME.get(function.__name__, function.__name__)
    if name in COMPOSITES:
        return _refuse_traced_orders(name, COMPOSITES[name], list(range(ORDERS.get(name, 0))))
    if name in PRIMITIVES and PRIMITIVES[name].kind == "elementwise":
        return with_plain_orders(name)
    if name in WHY:
        raise NoRule(
            f"{name} has no derivative rule: {WHY[name]}", do="write it with functions that have one: gradcli ops"
        )
    return None


LATE_LOOKUPS.append(find_ufunc_handler)


# Derivatives of the incomplete gamma function by its order: power series of balls.
#
# An order is a power series in h, and so is the value; its coefficients are the derivatives. The sum is a positive series,
# cut where a geometric series bounds the rest, coefficient by coefficient. A float is the middle of a ball that is narrower
# than the float's rounding error.
#
# Source  DLMF 8.7.1.

_LARGEST = 1e6  # of orders and arguments
_MOST_TERMS = 20_000  # of a series; enough for orders and arguments below 10,000
_FLOAT_BITS = (128, 256, 1024, 4096, 32768)  # precisions that are tried for a float
_NARROW = 2.0**-54
_SMALLEST = 1e-310  # half-widths of balls that are as good as exact


def gammainc_ball(a: Any, x: Any, *, n: int = 1) -> Any:
    """Return the n-th derivative by a of the regularised lower incomplete gamma function, in balls."""
    from flint import arb

    if not (0 < a < _LARGEST and 0 < x < _LARGEST):
        return arb.nan()
    value = _gammainc_series(a, x, n + 1)
    return value[n] * arb(n).fac()


def _gammainc_series(a: Any, x: Any, length: int) -> Any:
    """Return the regularised lower incomplete gamma function of the orders a + h, as a power series in h."""
    from flint import arb, arb_series, ctx

    order = arb_series([a, 1], length)
    term = total = arb_series([1], length)
    for n in range(1, _MOST_TERMS):
        term = term * x / (order + n)
        total = total + term
        if n % 8 == 0 and abs(term[0]) < total[0] * arb(2) ** -ctx.prec:
            ratio = x / arb_series([a + n, -1], length)  # its coefficients have the sizes of those of x / (a + n + h)
            if ratio[0] < 0.9:
                rest = arb_series([abs(term[k]) for k in range(length)], length) * ratio / (1 - ratio)
                total = total + arb_series([arb(0, rest[k].upper()) for k in range(length)], length)
                return (order * x.log() - x - (order + 1).lgamma()).exp() * total
    return arb_series([arb.nan()] * length, length)


def order_derivative(a: Value, x: Value, *, n: int = 1) -> Value:
    """Return the n-th derivative by a of the regularised lower incomplete gamma function, in float64; nan where there is none.

    Each entry is the middle of a narrow ball. Where the function or its complement is too small for a float, so is the
    derivative.
    """
    if np.iscomplexobj(a) or np.iscomplexobj(x):
        raise TypeError("the derivative of gammainc by its order is one of real numbers")
    rows = np.broadcast_arrays(a, x)
    entries = [
        _order_derivative_entry(float(order), float(at), n)
        for order, at in zip(*(part.flat for part in rows), strict=True)
    ]
    return np.reshape(np.array(entries, dtype=np.float64), rows[0].shape)[()]


def _order_derivative_entry(a: float, x: float, n: int) -> float:
    import scipy.special
    from flint import arb, ctx

    if a > 0 and (scipy.special.gammainc(a, x) == 0 or scipy.special.gammaincc(a, x) == 0):
        return 0.0
    before = ctx.prec
    try:
        for bits in _FLOAT_BITS:
            ctx.prec = bits
            y = gammainc_ball(arb(a), arb(x), n=n)
            if y.is_nan() or y.rad() <= max(abs(y.mid()) * _NARROW, _SMALLEST):
                break
        return float(y.mid()) if y.is_finite() else np.nan
    finally:
        ctx.prec = before


# The incomplete gamma functions, by argument and order, and the incomplete beta function and Student's t, by argument.
#
# The derivative of gammainc by its order has no closed form; it is a function of its own, `gammainc_order(a, x, n=1)`. By x,
# its derivative is that of the density by the order.


# fmt: off
#           function                              dy/d order ...  dy/dx
elementwise(LateFunction("gammainc"),                     lambda y, a, x: primitive_by_name("gammainc_order")(a, x, n=1),
                                                  (lambda y, a, x: _gamma_density(a, x), _gamma_kernel), **_GAMMA)
elementwise(LateFunction("gammaincc"),                    lambda y, a, x: -primitive_by_name("gammainc_order")(a, x, n=1),
                                                  (lambda y, a, x: -_gamma_density(a, x),
                                                   lambda y, a, x: -_gamma_kernel(y, a, x)), **_GAMMA)
declare_with_orders("betainc", None, None, lambda y, a, b, x: _beta_density(a, b, x))
declare_with_orders("betaincc", None, None, lambda y, a, b, x: -_beta_density(a, b, x))
declare_with_orders("stdtr", None, lambda y, df, x: np.exp(
    -np.log(df) / 2 - primitive_by_name("betaln")(df / 2, np.float64(0.5)) - (df + 1) / 2 * np.log1p(x * x / df)
))
elementwise(order_derivative, lambda y, a, x, *, n=1: primitive_by_name("gammainc_order")(a, x, n=n + 1),
                                                  (_order_derivative_by_x, nan_outside_domain(_order_derivative_by_x)),
                                                  name="gammainc_order", **_GAMMA)
# fmt: on
