"""scipy.special's functions as primitives; scipy is imported when the first of them is called."""

from collections.abc import Callable
from math import comb
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import GradcliError, NoRule, NotSupported
from gradcli.rules.elementwise import complex_log1p, complex_logaddexp, pi
from gradcli.rules.kinds import Partial, elementwise
from gradcli.tracing.primitive import (
    ABOVE_12,
    ABOVE_30,
    ABOVE_MINUS_1,
    AWAY_FROM_0,
    BELOW_1,
    BEYOND_12,
    BEYOND_30,
    INSIDE_1,
    LATE_LOOKUPS,
    NEAR_0,
    NEAR_1,
    NOT_POLE,
    POSITIVE,
    PRIMITIVES,
    REAL,
    UNIT,
    UP_TO_10000,
    F,
    Primitive,
    Value,
    declare,
    primitive_by_name,
)
from gradcli.tracing.tracer import Tracer, arithmetic_of, exact_integer, is_zero, plain_value

LARGE_EXPONENT = "the density is the exponential of a large number"


def _gamma_density(a: Value, x: Value) -> Value:
    return np.exp((a - 1) * np.log(x) - x - F.gammaln(a))


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
    return np.exp((a - 1) * np.log(x) + (b - 1) * np.log1p(-x) - F.betaln(a, b))


def _order_derivative_by_x(y: Value, a: Value, x: Value, *, n: int = 1) -> Value:
    """Return the n-th derivative of the density by the order, from the derivatives of its logarithm."""
    of_log: Any = lambda k: -F.polygamma(a, n=k) if k else np.log(x) - F.digamma(a)
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
_TERMS = 18  # of an asymptotic series, beyond 12
Refusal = Callable[..., GradcliError | None]
FACTORIALS = [float(np.prod(np.arange(1.0, n + 1))) for n in range(24)]


class LateFunction:
    """A function of scipy.special, or one of its several results, imported when it is first called.

    `refuses(name, *xs)` returns an error for arguments at which scipy's value is wrong, and the call raises this error.
    """

    def __init__(self, name: str, result: int | None = None, refuses: Refusal | None = None) -> None:
        self.__name__ = name
        self.function: Callable[..., Value] | None = None
        self.result = result
        self.refuses = refuses

    def __call__(self, *xs: Value) -> Value:
        error = self.refuses and self.refuses(self.__name__, *xs)
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
        return np.where(far, scipy.special.binom(n + a, n) * F.hyp1f1.fun(-n, a + 1, x), y)[()]


class Modified(LateFunction):
    """The modified Bessel function of the first kind; by (x/2)^v / gamma(v + 1) for tiny arguments, where scipy gives 0.

    For a negative integer order, it equals the function of the positive order.
    """

    def __call__(self, v: Value, x: Value) -> Value:
        y = super().__call__(v, x)
        lost = (y == 0) & (np.abs(x) < _TINY)
        if not np.any(lost & (x != 0)):
            return y
        order = np.where(np.equal(v, np.floor(v)), np.abs(v), v)
        sign = np.where((x < 0) & (np.fmod(v, 2) != 0), -1.0, 1.0)
        sizes = np.abs(np.asarray(x)) / 2
        return np.where(lost, sign * sizes**order * F.rgamma.fun(np.add(order, 1.0)), y)[()]


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


def find_order_error(name: str, n: Value, *xs: Value) -> NotSupported | None:
    """Return an error for orders other than 0, 1, 2, ..., for which scipy has no values or wrong ones, else None."""
    orders = np.ravel(plain_value(n)).astype(float)
    other = orders[(orders != np.floor(orders)) | (orders < 0)]
    if not other.size or np.isnan(other[0]):
        return None
    says = f"{name} of the order {other[0]:g}: scipy has values for 0, 1, 2, ... alone"
    return NotSupported(says, do="take a whole order")


def find_hyperu_error(name: str, a: Value, b: Value, x: Value) -> NotSupported | None:
    """Return an error for parameters at which all digits of scipy's hyperu may be wrong, else None.

    These are integers b below 1, and integers b above 1 where a is close to an integer and terms of the series cancel.
    """
    a, b = np.broadcast_arrays(plain_value(a), plain_value(b))
    off = np.abs(a - np.rint(a))
    wrong = (b == np.floor(b)) & ((b < 1) | ((b > 1) & (off > 0) & (off < 0.1)))
    if not np.any(wrong):
        return None
    where = tuple(np.argwhere(wrong)[0])
    says = f"{name}({a[where]:g}, {b[where]:g}, x): scipy's values are wrong there"
    return NotSupported(says, do="take a b that is not a whole number")


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
    far = np.sqrt(2 / np.pi) / F.erfcx(-left / np.sqrt(2.0))
    return np.where(x > 0, normal_density_kernel(y, right) / F.ndtr(right), far)[()]


def asymptotic_series(x: Value, sign: float) -> Value:
    """Return the sum of sign^k (2k+1)!! / (2 x^2)^k from k = 0, a factor in the asymptotic series of erfcx and dawsn."""
    q = sign * (0.5 / x) / x
    y, term = np.ones_like(x), np.ones_like(x)
    for k in range(1, _TERMS):
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
    series = 2 * sum(F.polygamma(middle, n=n) * step * (step / 2) ** (n - 1) / (2 * FACTORIALS[n]) for n in (1, 3, 5))
    return np.where(near, -series, F.digamma(a) - F.digamma(a + np.where(near, 1.0, b)))[()]


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


# At complex numbers near the real axis, where scipy computes these functions for real numbers only.


def complex_expit(x: Value) -> Value:
    """Return 1 / (1 + exp(-x)), without overflow."""
    e = np.exp(np.where(np.real(x) >= 0, -x, x))
    return np.where(np.real(x) >= 0, 1.0, e) / (1.0 + e)


def complex_gammaln(x: Value) -> Value:
    """Return the logarithm of the gamma function at numbers with a positive real part.

    Raises  TypeError for other numbers, where the complex function has its branch cut.
    """
    if np.any(np.real(x) <= 0):
        raise TypeError("gammaln takes complex numbers right of 0 alone")
    return F.loggamma.fun(x)


expit = LateFunction("expit")
GAMMA_ROOT = (
    "near a root of digamma the relative error is that of scipy's digamma, which grows with its condition number"
)
TRIGAMMA = "scipy's zeta function, and the reflection formula for x < 0, lose some digits"
SCIPY = "the partial is made of scipy's own function, which loses some digits"
BY_SCIPY: dict[str, Any] = {"analytic": False, "reason": SCIPY}
MAGNIFIED = "the exponential magnifies the rounding of the function's value"
DIFFERENCE = "two digammas are subtracted"
FAR = "scipy's Bessel functions lose digits as x grows, six of them at 1e10"
LOSS = 1e-11  # relative error of scipy's values at complex numbers near the real axis
ELLIPTIC = "two elliptic integrals are subtracted"
TURNS = "near a root the rounding of pi / 2 shows"


def special(function: str | LateFunction, *rows: Any, **facts: Any) -> Primitive:
    """Declare a function of scipy.special, as `elementwise` does; None in place of a partial marks an order."""
    fun = LateFunction(function) if isinstance(function, str) else function
    if None not in rows:
        return elementwise(fun, *rows, **facts)
    rules = tuple(ByOrder(fun.__name__) if row is None else Partial(row) for row in rows)
    return declare(Primitive(fun.__name__, fun, rules, on=(), analytic=False))


# fmt: off
#       function            dy/dx: the mathematics, and an accurate kernel, for each argument
special("erf",             (lambda y, x: 2 / np.sqrt(pi(x)) * np.exp(-x * x),   erf_slope), complex_loss=LOSS)
special("erfc",            (lambda y, x: -2 / np.sqrt(pi(x)) * np.exp(-x * x),  lambda y, x: -erf_slope(y, x)), complex_loss=LOSS)
special("erfcx",           (lambda y, x: 2 * x * y - 2 / np.sqrt(pi(x)),        lambda y, x: -asymptotic_series(x, -1.0) / np.sqrt(np.pi) / x / x, ABOVE_12), complex_loss=LOSS, reason=SCIPY)
special("erfi",             lambda y, x: 2 / np.sqrt(pi(x)) * np.exp(x * x),    complex_loss=LOSS, reason=MAGNIFIED)
special("erfinv",           lambda y, x: np.sqrt(pi(x)) / 2 * np.exp(y * y),    on=INSIDE_1, analytic=False, reason=MAGNIFIED)
special("erfcinv",          lambda y, x: -np.sqrt(pi(x)) / 2 * np.exp(y * y),   on=UNIT, analytic=False, reason=MAGNIFIED)
special("dawsn",           (lambda y, x: 1 - 2 * x * y,                         lambda y, x: -asymptotic_series(x, 1.0) * (0.5 / x) / x, BEYOND_12), **BY_SCIPY)
special("ndtr",            (lambda y, x: normal_density(x),                     normal_density_kernel), complex_loss=LOSS)
special("log_ndtr",        (lambda y, x: normal_density(x) / np.exp(y),         inverse_mills_ratio), analytic=False)
special("ndtri",            lambda y, x: 1 / normal_density(y),                 on=UNIT, analytic=False, reason=MAGNIFIED)
special(expit,             (lambda y, x: y * (1 - y),                           lambda y, x: expit(x) * expit(-x)), on_complex=complex_expit)
special("logit",            lambda y, x: 1 / (x * (1 - x)),                     on=UNIT, on_complex=lambda x: np.log(x) - complex_log1p(-x))
special("log_expit",        lambda y, x: F.expit(-x),                           on_complex=lambda x: -complex_logaddexp(0.0 * x, -x))
special("entr",             lambda y, x: -np.log(x) - 1,                        on=POSITIVE, analytic=False)
special("xlogy",            lambda y, a, b: np.log(b),    lambda y, a, b: a / b,       on=(REAL, POSITIVE), complex_loss=LOSS)
special("xlog1py",          lambda y, a, b: np.log1p(b),  lambda y, a, b: a / (1 + b), on=(REAL, ABOVE_MINUS_1), complex_loss=LOSS)
special("rel_entr",        (lambda y, a, b: np.log(a / b) + 1,  lambda y, a, b: log_ratio(a, b) + 1),
                           (lambda y, a, b: -a / b,             nan_outside_domain(lambda y, a, b: -a / b)), on=(POSITIVE, POSITIVE), analytic=False, reason="log(a / b) + 1 cancels near b = e a")
special("kl_div",          (lambda y, a, b: np.log(a / b),      lambda y, a, b: log_ratio(a, b)),
                           (lambda y, a, b: 1 - a / b,          nan_outside_domain(lambda y, a, b: (b - a) / b)), on=(POSITIVE, POSITIVE), analytic=False)
special("pseudo_huber",     lambda y, d, r: d * np.square(y / (d * d)) / np.sqrt(1 + np.square(r / d)),
                           (lambda y, d, r: r / np.sqrt(1 + np.square(r / d)), nan_outside_domain(lambda y, d, r: d * (r / np.hypot(d, r)))), on=(POSITIVE, REAL), **BY_SCIPY)
special("exprel",          (exprel_partial,                  exprel_kernel), **BY_SCIPY)
special("gamma",            lambda y, x: y * F.digamma(x),   on=NOT_POLE, analytic=False, reason=GAMMA_ROOT)
special("rgamma",           lambda y, x: -y * F.digamma(x),  on=NOT_POLE, analytic=False, reason=GAMMA_ROOT)
special("gammaln",          lambda y, x: F.digamma(x),       on=POSITIVE, reason=GAMMA_ROOT, on_complex=complex_gammaln)
special("loggamma",         lambda y, x: F.digamma(x),       on=POSITIVE, reason=GAMMA_ROOT, complex_loss=LOSS)
elementwise(digamma,        lambda y, x: F.polygamma(x, n=1),            on=NOT_POLE, complex_loss=LOSS, reason=TRIGAMMA)
elementwise(polygamma,      lambda y, x, *, n: F.polygamma(x, n=n + 1),  on=POSITIVE, analytic=False, reason=TRIGAMMA)
special("beta",            (lambda y, a, b: y * (F.digamma(a) - F.digamma(a + b)),  lambda y, a, b: y * psi_difference(a, b)),
                           (lambda y, a, b: y * (F.digamma(b) - F.digamma(a + b)),  lambda y, a, b: y * psi_difference(b, a)), on=(POSITIVE, POSITIVE), analytic=False, reason=DIFFERENCE)
special("betaln",          (lambda y, a, b: F.digamma(a) - F.digamma(a + b),        nan_outside_domain(lambda y, a, b: psi_difference(a, b))),
                           (lambda y, a, b: F.digamma(b) - F.digamma(a + b),        nan_outside_domain(lambda y, a, b: psi_difference(b, a))), on=(POSITIVE, POSITIVE), analytic=False, reason=DIFFERENCE)
special(Oscillating("j0", False, 0), lambda y, x: -F.j1(x),                                  analytic=False, reason=FAR)
special(Oscillating("j1", False, 1), lambda y, x: (F.j0(x) - F.jv(np.float64(2), x)) / 2,    analytic=False, reason=FAR)
special(Oscillating("y0", True, 0),  lambda y, x: -F.y1(x),                                  on=POSITIVE, analytic=False, reason=FAR)
special(Oscillating("y1", True, 1),  lambda y, x: F.y0(x) - y / x,                           on=POSITIVE, analytic=False, reason=FAR)
special("i0",               lambda y, x: F.i1(x),                                            **BY_SCIPY)
special("i1",               lambda y, x: (F.i0(x) + F.iv(np.float64(2), x)) / 2,             **BY_SCIPY)
special("i0e",             (lambda y, x: F.i1e(x) - np.sign(x) * y,                          scaled_bessel_slope(0, -1.0), BEYOND_30), on=AWAY_FROM_0, **BY_SCIPY)
special("i1e",             (lambda y, x: (F.i0e(x) + F.ive(np.float64(2), x)) / 2 - np.sign(x) * y, scaled_bessel_slope(1, -1.0), BEYOND_30), on=AWAY_FROM_0, **BY_SCIPY)
special("k0",               lambda y, x: -F.k1(x),                                           on=POSITIVE, **BY_SCIPY)
special("k1",               lambda y, x: -F.k0(x) - y / x,                                   on=POSITIVE, **BY_SCIPY)
special("k0e",             (lambda y, x: y - F.k1e(x),                                       scaled_bessel_slope(0, 1.0), ABOVE_30), on=POSITIVE, **BY_SCIPY)
special("k1e",             (lambda y, x: y - F.k0e(x) - y / x,                               scaled_bessel_slope(1, 1.0), ABOVE_30), on=POSITIVE, **BY_SCIPY)
special("exp1",             lambda y, x: -np.exp(-x) / x,            on=POSITIVE, complex_loss=LOSS)
special("expi",             lambda y, x: np.exp(x) / x,              on=AWAY_FROM_0, analytic=False)
special(LateFunction("sici", 0),    lambda y, x: quotient_at_0(np.sin, x),   name="si", analytic=False)
special(LateFunction("sici", 1),    lambda y, x: np.cos(x) / x,              name="ci", on=POSITIVE, analytic=False)
special(LateFunction("shichi", 0),  lambda y, x: quotient_at_0(np.sinh, x),  name="shi", analytic=False)
special(LateFunction("shichi", 1),  lambda y, x: np.cosh(x) / x,             name="chi", on=POSITIVE, analytic=False)
special(LateFunction("fresnel", 0), (lambda y, x: np.sin(pi(x) / 2 * x * x), lambda y, x: np.sin(np.pi / 2 * square_modulo_4(x))), name="fresnel_s", analytic=False, reason=TURNS)
special(LateFunction("fresnel", 1), (lambda y, x: np.cos(pi(x) / 2 * x * x), lambda y, x: np.cos(np.pi / 2 * square_modulo_4(x))), name="fresnel_c", analytic=False, reason=TURNS)
special("spence",          (lambda y, x: np.log(x) / (1 - x),                        lambda y, x: -log_quotient(x)), on=POSITIVE, complex_loss=LOSS)
special("wrightomega",      lambda y, x: y / (1 + y),                                complex_loss=LOSS, reason=SCIPY)
special("ellipk",          (lambda y, m: (F.ellipe(m) / (1 - m) - y) / (2 * m),      elliptic_series(False), NEAR_0), on=BELOW_1, analytic=False, reason=ELLIPTIC)
special("ellipkm1",        (lambda y, p: (y - F.ellipe(1 - p) / p) / (2 * (1 - p)),  elliptic_series(False, complement=True), NEAR_1), on=POSITIVE, analytic=False, reason=ELLIPTIC)
special("ellipe",          (lambda y, m: (y - F.ellipk(m)) / (2 * m),                elliptic_series(True), NEAR_0), on=BELOW_1, analytic=False, reason=ELLIPTIC)
special(Degrees("sindg"),   lambda y, x: F.cosdg(x) * pi(x) / 180,   **BY_SCIPY)
special(Degrees("cosdg"),   lambda y, x: -F.sindg(x) * pi(x) / 180,  **BY_SCIPY)
special(Degrees("tandg"),   lambda y, x: (1 + y * y) * pi(x) / 180,  **BY_SCIPY)
# scipy's cotangent loses digits near its pole
elementwise(lambda x: F.cosdg(x) / F.sindg(x),
                           (lambda y, x: -(1 + y * y) * pi(x) / 180, lambda y, x: -np.pi / 180 / F.sindg(x) ** 2), name="cotdg", on=AWAY_FROM_0, **BY_SCIPY)
# fmt: on


# scipy.special's functions with an order, its functions made of others, and the look-up of a handler for each ufunc.


def _bessel_slope(name: str, sign: float) -> Callable[..., Value]:
    """Return the slope of a Bessel function: half the sum or difference of the neighbouring orders."""
    return lambda y, v, x: (primitive_by_name(name)(v - 1, x) + sign * primitive_by_name(name)(v + 1, x)) / 2


def _lower_degree(name: str, n: Value, *rest: Value) -> Value:
    """Return a polynomial of one degree less, 0 for degree 0."""
    flat = is_zero(n)
    return np.where(flat, 0.0, primitive_by_name(name)(np.where(flat, 1, n) - 1, *rest))


def _expn_slope(y: Value, n: Value, x: Value) -> Value:
    first = is_zero(n)
    return np.where(first, -np.exp(-x) * (1 / x + 1 / (x * x)), -F.expn(np.where(first, 1, plain_value(n)) - 1, x))


def _hyp2f1_slope(y: Value, a: Value, b: Value, c: Value, x: Value) -> Value:
    # hyp2f1 has a pole at c = 0, -1, ... unless its series ends before.
    ends, last = -np.maximum(_nonpositive_integer(a), _nonpositive_integer(b)), -_nonpositive_integer(c)
    pole = np.isfinite(last) & (ends > last)
    return np.where(pole, np.nan, a * b / c) * F.hyp2f1(a + 1, b + 1, c + 1, x)


def _nonpositive_integer(a: Value) -> Value:
    """Return `a` where it is one of 0, -1, -2, ..., and -inf elsewhere."""
    a = plain_value(a)
    return np.where((a <= 0) & (a == np.floor(a)), a, -np.inf)


# fmt: off
#       function                           dy/d order  ...  dy/dx
special(Oscillating("jv", False),          None, _bessel_slope("jv", -1.0))
special(Oscillating("yv", True),           None, _bessel_slope("yv", -1.0))
special(Modified("iv"),                    None, _bessel_slope("iv", 1.0))
special("kv",                              None, lambda y, v, x: -_bessel_slope("kv", 1.0)(y, v, x))
special(Modified("ive"),                   None, lambda y, v, x: _bessel_slope("ive", 1.0)(y, v, x) - np.sign(x) * y)
special("kve",                             None, lambda y, v, x: y - _bessel_slope("kve", 1.0)(y, v, x))
special(LateFunction("expn", refuses=find_order_error), None, _expn_slope)
special("hyp0f1",                          None, lambda y, v, x: F.hyp0f1(v + 1, x) / v)
special(Confluent("hyp1f1"),               None, None, lambda y, a, b, x: a / b * F.hyp1f1(a + 1, b + 1, x))
special("hyp2f1",                          None, None, None, _hyp2f1_slope)
special(LateFunction("hyperu", refuses=find_hyperu_error), None, None, lambda y, a, b, x: -a * F.hyperu(a + 1, b + 1, x))
special(Polynomial("eval_jacobi"),         None, None, None, lambda y, n, a, b, x: (n + a + b + 1) / 2 * _lower_degree("eval_jacobi", n, a + 1, b + 1, x))
special(Polynomial("eval_legendre"),       None, lambda y, n, x: (n + 1) / 2 * _lower_degree("eval_jacobi", n, np.float64(1), np.float64(1), x))
special(Polynomial("eval_gegenbauer"),     None, None, lambda y, n, a, x: 2 * a * _lower_degree("eval_gegenbauer", n, a + 1, x))
special(Chebyshev("eval_chebyt"),          None, lambda y, n, x: n * _lower_degree("eval_chebyu", n, x))
special(Polynomial("eval_chebyu"),         None, lambda y, n, x: 2 * _lower_degree("eval_gegenbauer", n, np.float64(2), x))
special(Polynomial("eval_hermite", refuses=find_order_error), None, lambda y, n, x: 2 * n * _lower_degree("eval_hermite", n, x))
special(Polynomial("eval_hermitenorm", refuses=find_order_error), None, lambda y, n, x: n * _lower_degree("eval_hermitenorm", n, x))
special(Laguerre("eval_laguerre"),         None, lambda y, n, x: -_lower_degree("eval_genlaguerre", n, np.float64(1), x))
special(Laguerre("eval_genlaguerre"),      None, None, lambda y, n, a, x: -_lower_degree("eval_genlaguerre", n, a + 1, x))
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


COMPOSITES: dict[str, Callable[..., Any]] = {
    "huber": huber,
    "boxcox": lambda x, lmbda: _expm1_quotient(np.log(x), lmbda),
    "boxcox1p": lambda x, lmbda: _expm1_quotient(np.log1p(x), lmbda),
    "inv_boxcox": lambda y, lmbda: np.exp(_log1p_quotient(y, lmbda)),
    "inv_boxcox1p": lambda y, lmbda: np.expm1(_log1p_quotient(y, lmbda)),
    "binom": lambda n, k: 1 / ((n + 1) * F.beta(1 + n - k, 1 + k)),
    "poch": lambda z, m: F.gamma(z + m) * F.rgamma(z),
    "cosm1": lambda x: -2 * np.square(np.sin(x / 2)), "powm1": lambda x, y: np.expm1(y * np.log(x)),
    "exp10": lambda x: np.power(exact_integer(10, x), x), "radian": lambda d, m, s: (d + m / 60 + s / 3600) * (pi(d) / 180),
    "sici": lambda x: (F.si(x), F.ci(x)), "shichi": lambda x: (F.shi(x), F.chi(x)),
    "fresnel": lambda x: (F.fresnel_s(x), F.fresnel_c(x)),
    "log1p": np.log1p, "expm1": np.expm1, "exp2": np.exp2, "cbrt": np.cbrt, "round": np.rint,
    "eval_chebyc": lambda n, x: 2 * F.eval_chebyt(n, x / 2), "eval_chebys": lambda n, x: F.eval_chebyu(n, x / 2),
    "eval_sh_legendre": lambda n, x: F.eval_legendre(n, 2.0 * x - 1.0), "eval_sh_chebyt": lambda n, x: F.eval_chebyt(n, 2.0 * x - 1.0), "eval_sh_chebyu": lambda n, x: F.eval_chebyu(n, 2.0 * x - 1.0),
    "chdtr": lambda v, x: F.gammainc(v / 2, x / 2), "chdtrc": lambda v, x: F.gammaincc(v / 2, x / 2),
    "pdtr": lambda k, m: F.gammaincc(np.floor(k) + 1, m), "pdtrc": lambda k, m: F.gammainc(np.floor(k) + 1, m),
    "gdtr": lambda a, b, x: F.gammainc(b, a * x), "gdtrc": lambda a, b, x: F.gammaincc(b, a * x),
    "fdtr": lambda n, d, x: F.betainc(n / 2, d / 2, n * x / (d + n * x)),
    "fdtrc": lambda n, d, x: F.betainc(d / 2, n / 2, d / (d + n * x)),
    "gammasgn": lambda x: np.sign(F.rgamma(plain_value(x))),
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
    from flint import arb, ctx

    if a > 0 and (F.gammainc.fun(a, x) == 0 or F.gammaincc.fun(a, x) == 0):
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
#       function      dy/d order ...  dy/dx
special("gammainc",   lambda y, a, x: F.gammainc_order(a, x, n=1),   (lambda y, a, x: _gamma_density(a, x),   _gamma_kernel), **_GAMMA)
special("gammaincc",  lambda y, a, x: -F.gammainc_order(a, x, n=1),  (lambda y, a, x: -_gamma_density(a, x),  lambda y, a, x: -_gamma_kernel(y, a, x)), **_GAMMA)
special("betainc",    None, None, lambda y, a, b, x: _beta_density(a, b, x))
special("betaincc",   None, None, lambda y, a, b, x: -_beta_density(a, b, x))
special("stdtr",      None, lambda y, df, x: np.exp(-np.log(df) / 2 - F.betaln(df / 2, np.float64(0.5)) - (df + 1) / 2 * np.log1p(x * x / df)))
elementwise(order_derivative, lambda y, a, x, *, n=1: F.gammainc_order(a, x, n=n + 1),
                              (_order_derivative_by_x, nan_outside_domain(_order_derivative_by_x)), name="gammainc_order", **_GAMMA)
# fmt: on
