"""Parts of the partials of special functions: densities, series where a formula cancels, and scipy, imported late."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.errors import GradcliError, NotSupported
from gradcli.rules.elementwise import pi
from gradcli.tracing.primitive import Value, named
from gradcli.tracing.tracer import arithmetic, plain
from gradcli.tracing.unmoving import is_zero

_INFINITE = 1e9  # 1F1 is infinite from here on, unless its parameters are as large
_TINY = 1e-7  # below it one term of the series is enough
Refusal = Callable[..., GradcliError | None]
FACTORIALS = [float(np.prod(np.arange(1.0, n + 1))) for n in range(24)]


class Late:
    """A function of scipy.special, or one of its several results, imported when it is first called.

    `refuses` returns an error for arguments at which scipy's value is wrong, and the call raises this error.
    """

    __slots__ = ("__name__", "function", "refuses", "result")

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


class Polynomial(Late):
    """A family of polynomials: integer degrees use scipy's recurrences, other degrees its series.

    scipy's series returns 0 for arguments that are too large for it; the result here is nan.
    """

    __slots__ = ()

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

    __slots__ = ()

    def __call__(self, n: Value, *xs: Value) -> Value:
        (x,) = xs
        y = super().__call__(n, x)
        far = (np.asarray(n) != np.floor(n)) & (np.asarray(x) > 1)
        return np.where(far, np.cosh(n * np.arccosh(np.where(far, x, 1.0))), y)[()] if np.any(far) else y


class Confluent(Late):
    """Kummer's function 1F1. For huge arguments scipy never returns; the result is infinite unless the series ends.

    For parameters so large that the function may be finite there, the result is nan.
    """

    __slots__ = ()

    def __call__(self, a: Value, b: Value, x: Value) -> Value:
        ends = (np.asarray(a) <= 0) & (np.asarray(a) == np.floor(a))
        far = ~ends & (np.asarray(x) > _INFINITE)
        y = super().__call__(a, b, np.where(far, _INFINITE, x)[()])
        return np.where(far & np.isfinite(y), np.nan, y)[()] if np.any(far) else y


class Laguerre(Polynomial):
    """Laguerre polynomials, generalized by a parameter; by 1F1 where scipy is wrong: other than integer degrees, large x."""

    __slots__ = ()

    def __call__(self, n: Value, *xs: Value) -> Value:
        y = super().__call__(n, *xs)
        *parameter, x = xs
        far = (np.asarray(n) != np.floor(n)) & (np.asarray(x) > 100)
        if not np.any(far):
            return y
        import scipy.special

        a = np.asarray(parameter[0] if parameter else 0.0)
        return np.where(far, scipy.special.binom(n + a, n) * named("hyp1f1").fun(-n, a + 1, x), y)[()]


class Modified(Late):
    """The modified Bessel function of the first kind; by (x/2)^v / gamma(v + 1) for tiny arguments, where scipy gives 0.

    For a negative integer order, it equals the function of the positive order.
    """

    __slots__ = ()

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


class Degrees(Late):
    """A function of an angle in degrees; full turns are removed first, because scipy gives 0 for large angles."""

    __slots__ = ()

    def __call__(self, x: Value) -> Value:
        return super().__call__(np.fmod(x, 360.0))


def cotangent_of_degrees(x: Value) -> Value:
    """Return the cotangent; scipy's loses digits near its pole."""
    return named("cosdg")(x) / named("sindg")(x)


class Oscillating(Late):
    """A Bessel function of the first or (`second`) second kind; from 1e10 on, where scipy loses digits, by DLMF 10.17.3.

    The order is the first argument, or `order`. Two terms of the series are enough: for |order| < 30, the third is smaller
    than the rounding error.
    """

    __slots__ = ("order", "second")

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


def counted(name: str) -> Refusal:
    """Return a check that refuses orders other than 0, 1, 2, ..., for which scipy has no values or wrong ones."""

    def refuse(n: Value, *xs: Value) -> NotSupported | None:
        orders = np.ravel(plain(n)).astype(float)
        other = orders[(orders != np.floor(orders)) | (orders < 0)]
        if not other.size or np.isnan(other[0]):
            return None
        return NotSupported(
            f"{name} of the order {other[0]:g}: scipy has values for 0, 1, 2, ... alone", do="take a whole order"
        )

    return refuse


def inaccurate_hyperu(a: Value, b: Value, x: Value) -> NotSupported | None:
    """Return an error for parameters at which all digits of scipy's hyperu may be wrong, else None.

    These are integers b below 1, and integers b above 1 where a is close to an integer and terms of the series cancel.
    """
    a, b = np.broadcast_arrays(plain(a), plain(b))
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
    t = _past_pole(x, left)
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
    waves = (np.pi / np.sin(np.pi * _past_pole(x, left))) ** 2
    return np.where(left, waves - y, y)[()]


def _past_pole(x: Value, left: Value) -> Value:
    """Return the exact difference of x < 0 and the nearest integer; one half elsewhere."""
    return np.where(left, x - np.rint(x), 0.5)


def _split_square(x: Value, factor: float) -> Value:
    """Return exp(-factor x*x), 0 at infinity; the square is split so that exp does not magnify its rounding error."""
    far = np.where(np.isfinite(x), x, 0.0)
    head = np.asarray(far, dtype=np.float32).astype(np.float64)
    head = np.where(np.isfinite(head), head, far)
    y = np.exp(-factor * head * head) * np.exp(-factor * (far - head) * (far + head))
    return np.where(np.isinf(x), 0.0, np.where(np.isnan(x), np.nan, y))


def gauss(y: Value, x: Value) -> Value:
    """Return exp(-x*x) 2/sqrt(pi)."""
    return (2.0 / np.sqrt(np.pi) * _split_square(x, 1.0))[()]


def minus_gauss(y: Value, x: Value) -> Value:
    """Return the slope of erfc."""
    return -gauss(y, x)


def normal(x: Value) -> Value:
    """Return the density of the normal distribution."""
    return np.exp(-x * x / 2) / np.sqrt(2 * pi(x))


def normal_kernel(y: Value, x: Value) -> Value:
    """Return the density of the normal distribution."""
    return (_split_square(x, 0.5) / np.sqrt(2 * np.pi))[()]


def mills_kernel(y: Value, x: Value) -> Value:
    """Return density over distribution function of the normal distribution, without underflow."""
    right, left = np.maximum(x, 0.0), np.minimum(x, 0.0)
    far = np.sqrt(2 / np.pi) / named("erfcx")(-left / np.sqrt(2.0))
    return np.where(x > 0, normal_kernel(y, right) / named("ndtr")(right), far)[()]


def tail(x: Value, terms: int, sign: float) -> Value:
    """Return the sum of sign^k (2k+1)!! / (2 x^2)^k from k = 0, a factor in the asymptotic series of erfcx and dawsn."""
    q = sign * (0.5 / x) / x
    y, term = np.ones_like(x), np.ones_like(x)
    for k in range(1, terms):
        term = term * (2 * k + 1) * q
        y = y + term
    return y


def erfcx_far(y: Value, x: Value) -> Value:
    """Return 2 x y - 2/sqrt(pi) for x > 12 by its asymptotic series."""
    return -tail(x, 18, -1.0) / np.sqrt(np.pi) / x / x


def dawsn_far(y: Value, x: Value) -> Value:
    """Return 1 - 2 x y for |x| > 12 by its asymptotic series."""
    return -tail(x, 18, 1.0) * (0.5 / x) / x


def exprel_partial(y: Value, x: Value) -> Value:
    """Return (exp(x) - y) / x; float64 uses the series near 0, balls use it at 0 only, where seven derivatives are exact."""
    if arithmetic(x) is None:
        return exprel_kernel(y, x)
    origin = is_zero(x)
    near = sum((k + 1) / FACTORIALS[k + 2] * x**k for k in range(8))
    return np.where(origin, near, (np.exp(x) - y) / np.where(origin, 1.0, x))


def exprel_kernel(y: Value, x: Value) -> Value:
    """Return ((x - 1) exp(x) + 1) / x^2, by its series near 0."""
    near = np.abs(plain(x)) < 1.0
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


def finite(slope: Callable[..., Value]) -> Callable[..., Value]:
    """Return a slope that is nan where the function is not finite, as scipy's functions are outside their domains."""
    return lambda y, *xs: np.where(np.isfinite(y), slope(y, *xs), np.nan)[()]


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
    polygamma = named("polygamma")
    series = 2 * sum(polygamma(middle, n=n) * step * (step / 2) ** (n - 1) / (2 * FACTORIALS[n]) for n in (1, 3, 5))
    psi = named("digamma")
    return np.where(near, -series, psi(a) - psi(a + np.where(near, 1.0, b)))[()]


def scaled_bessel_far(order: int, sign: float) -> Callable[[Value, Value], Value]:
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


def half_turns(x: Value) -> Value:
    """Return x^2 modulo 4 in float64, corrected for the rounding error of the square."""
    whole = np.abs(x) >= 2.0**53  # such floats are even, their squares multiples of 4
    safe = np.where(whole, 0.0, x)
    high = (safe * 134217729.0) - (safe * 134217729.0 - safe)
    low = safe - high
    square = safe * safe
    error = ((high * high - square) + 2 * high * low) + low * low
    return np.fmod(np.fmod(square, 4.0) + error, 4.0)
