"""What scalar primitives and their partials are, by mpmath: in their domain, outside of it and at its edges.

The slopes are one-sided difference quotients of the values with a step of 1e-40 and less, which no rule has touched.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import mpmath
import numpy as np

mp: Any = mpmath.mp
Reference = Callable[..., Any]
DIGITS = (90, 200, 800)  # one after the other, until two of them agree
STEPS = (1e-30, 1e-38)  # of an argument, or of 1 where that is less: floats and their singular points are further apart
STEADY = 1e-9  # relative: of quotients with different steps, or with different numbers of digits
SMALLEST, LARGEST = mp.mpf(2) ** -1075, mp.mpf(2) ** 1024


class NoReference(Exception):
    """mpmath does not say."""


class Unresolved(Exception):
    """A difference is lost in rounding: it takes more digits."""


@dataclass(frozen=True)
class Truth:
    """A value and the one-sided slopes in one argument: None where there is none, as beyond the domain's edge.

    A `complex` function has real parts here that some libraries return.
    """

    value: Any
    left: Any
    right: Any
    complex: bool = False

    @property
    def smooth(self) -> bool:
        """Whether both slopes are known and equal."""
        return self.left is not None and self.right is not None and close(self.left, self.right, 1e-12)


def close(a: Any, b: Any, relative: float) -> bool:
    """Whether two numbers of mpmath are equal up to a relative difference."""
    return bool(abs(a - b) <= relative * max(abs(a), abs(b)))


def _newton(f: Reference, slope: Reference, start: Any) -> Any:
    """Return the root of an increasing or decreasing function by Newton's method."""
    y = mp.mpf(start)
    for _ in range(60):
        step = f(y) / slope(y)
        y = y - step
        if abs(step) <= abs(y) * mp.mpf(10) ** (3 - mp.dps):
            return y
    raise NoReference


def _erfc_inverse(x: Any) -> Any:
    """Return the inverse of erfc, from its logarithm: both ends are alike."""
    import scipy.special

    if not 0 < x < 2:
        return None
    if x > 1:
        return -_erfc_inverse(2 - x)
    start = scipy.special.erfcinv(max(float(x), 1e-300))
    log_slope = lambda y: -2 / mp.sqrt(mp.pi) * mp.exp(-y * y) / mp.erfc(y)
    return _newton(lambda y: mp.log(mp.erfc(y) / x), log_slope, start) if x != 1 else mp.mpf(0)


def _erf_inverse(x: Any) -> Any:
    if abs(x) > 0.5:
        return _erfc_inverse(1 - x)
    return _newton(lambda y: mp.erf(y) - x, lambda y: 2 / mp.sqrt(mp.pi) * mp.exp(-y * y), x) if x else mp.mpf(0)


def _omega(x: Any) -> Any:
    """Return the solution of w + log(w) = x."""
    start = mp.exp(x) if x < -2 else mp.mpf(1) if x < 3 else x - mp.log(x)
    for _ in range(80):
        step = start * (start + mp.log(start) - x) / (start + 1)
        start = start - step if start > step else start / 2
        if abs(step) <= abs(start) * mp.mpf(10) ** (3 - mp.dps):
            return start
    raise NoReference


def _log(x: Any) -> Any:
    return mp.log(x) if x else -mp.inf


def _where(inside: Any, value: Callable[[], Any]) -> Any:
    return value() if inside else None


def _beta(a: Any, b: Any) -> Any:
    return mp.gammaprod([a, b], [a + b])


def _xlog(x: Any, log: Any) -> Any:
    return mp.mpf(0) if x == 0 else x * log


def _degrees(f: Reference) -> Reference:
    return lambda x: f(mp.fmod(x, 720) / 180)


def _whole(n: Any, f: Callable[[int], Any]) -> Any:
    return f(int(n)) if n == int(n) else None


def _gamma_share(a: Any, x: Any) -> Any:
    """Return the regularised lower incomplete gamma function (DLMF 8.5.1), which is a step for a = 0."""
    if a == 0:
        return mp.mpf(1) if x > 0 else None
    return mp.power(x, a) * mp.hyp1f1(a, a + 1, -x) * mp.rgamma(a + 1) if x else mp.mpf(0)


def _student_share(df: Any, x: Any) -> Any:
    tail = mp.betainc(df / 2, mp.mpf(1) / 2, 0, df / (df + x * x), regularized=True) / 2
    return tail if x < 0 else 1 - tail


def _beta_share(a: Any, b: Any, x: Any) -> Any:
    """Return the incomplete beta function, which is a step for a = 0 or b = 0."""
    if a == 0 or b == 0:
        return mp.mpf(int(a == 0)) if a != b and 0 < x < 1 else None
    return mp.betainc(a, b, 0, x, regularized=True)


def _jacobi(n: Any, a: Any, b: Any, x: Any) -> Any:
    """Return a Jacobi function, about x = 1: mpmath's own is complex for some degrees that are not whole."""
    if a < 0 and a == int(a):
        return mp.jacobi(n, a, b, x)
    return mp.binomial(n + a, n) * mp.hyp2f1(-n, n + a + b + 1, a + 1, (1 - x) / 2)


def _power(x: Any, p: Any) -> Any:
    if x == 0:
        return mp.mpf(1) if p == 0 else mp.mpf(0) if p > 0 else mp.inf
    return mp.power(x, p)


def _root_of_sum(a: Any, b: Any) -> Any:
    return mp.sqrt(a * a + b * b)


def _remainder(a: Any, b: Any) -> Any:
    return None if b == 0 else a - b * mp.floor(a / b)


def _fmod(a: Any, b: Any) -> Any:
    if b == 0:
        return None
    q = a / b
    return a - b * (mp.floor(q) if q >= 0 else mp.ceil(q))


# fmt: off
REFERENCES: dict[str, Reference] = {
    "positive": lambda x: x, "real": lambda x: x, "negative": lambda x: -x, "add": lambda a, b: a + b, "subtract": lambda a, b: a - b,
    "multiply": lambda a, b: a * b, "divide": lambda a, b: a / b, "square": lambda x: x * x, "reciprocal": lambda x: 1 / x,
    "sqrt": lambda x: mp.sqrt(x), "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)), "exp": lambda x: mp.exp(x), "exp2": lambda x: mp.power(2, x),
    "expm1": lambda x: mp.expm1(x), "log": lambda x: mp.log(x), "log2": lambda x: mp.log(x) / mp.log(2), "log10": lambda x: mp.log(x) / mp.log(10),
    "log1p": lambda x: mp.log1p(x), "sin": lambda x: mp.sin(x), "cos": lambda x: mp.cos(x), "tan": lambda x: mp.tan(x),
    "arcsin": lambda x: mp.asin(x), "arccos": lambda x: mp.acos(x), "arctan": lambda x: mp.atan(x), "sinh": lambda x: mp.sinh(x),
    "cosh": lambda x: mp.cosh(x), "tanh": lambda x: mp.tanh(x), "arcsinh": lambda x: mp.asinh(x), "arccosh": lambda x: mp.acosh(x),
    "arctanh": lambda x: mp.atanh(x), "absolute": lambda x: abs(x), "maximum": lambda a, b: max(a, b), "minimum": lambda a, b: min(a, b),
    "power": _power, "integer_power": lambda x, *, n: _power(x, mp.mpf(n)), "arctan2": lambda a, b: mp.atan2(a, b), "hypot": _root_of_sum,
    "logaddexp": lambda a, b: max(a, b) + mp.log1p(mp.exp(-abs(a - b))), "remainder": _remainder, "fmod": _fmod, "relu": lambda x: max(x, mp.mpf(0)),
    "erf": lambda x: mp.erf(x), "erfc": lambda x: mp.erfc(x), "erfcx": lambda x: mp.exp(x * x) * mp.erfc(x), "erfi": lambda x: mp.erfi(x),
    "erfinv": _erf_inverse, "erfcinv": _erfc_inverse, "dawsn": lambda x: mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x),
    "ndtr": lambda x: mp.erfc(-x / mp.sqrt(2)) / 2,
    "log_ndtr": lambda x: mp.log(mp.erfc(-x / mp.sqrt(2)) / 2) if x < 0 else mp.log1p(-mp.erfc(x / mp.sqrt(2)) / 2),
    "ndtri": lambda x: _where(0 < x < 1, lambda: -mp.sqrt(2) * _erfc_inverse(2 * x)),
    "expit": lambda x: 1 / (1 + mp.exp(-x)), "logit": lambda x: mp.log(x / (1 - x)),
    "log_expit": lambda x: -mp.log1p(mp.exp(-x)) if x > 0 else x - mp.log1p(mp.exp(x)),
    "entr": lambda x: _where(x >= 0, lambda: -_xlog(x, _log(x))), "xlogy": lambda a, b: _xlog(a, _log(b)), "xlog1py": lambda a, b: _xlog(a, _log(1 + b)),
    "rel_entr": lambda a, b: _where(a >= 0 and b > 0, lambda: _xlog(a, _log(a / b))),
    "kl_div": lambda a, b: _where(a >= 0 and b > 0, lambda: _xlog(a, _log(a / b)) - a + b),
    "pseudo_huber": lambda d, r: _where(d >= 0, lambda: d * r * r / (d + mp.sqrt(d * d + r * r)) if d or r else mp.mpf(0)),
    "exprel": lambda x: mp.expm1(x) / x if x else mp.mpf(1), "gamma": lambda x: mp.gamma(x), "rgamma": lambda x: mp.rgamma(x),
    "gammaln": lambda x: mp.re(mp.loggamma(x)), "loggamma": lambda x: _where(x > 0, lambda: mp.loggamma(x)), "digamma": lambda x: mp.digamma(x),
    "polygamma": lambda x, *, n: mp.polygamma(n, x), "beta": _beta, "betaln": lambda a, b: _log(abs(_beta(a, b))),
    "j0": lambda x: mp.besselj(0, x), "j1": lambda x: mp.besselj(1, x), "y0": lambda x: mp.bessely(0, x), "y1": lambda x: mp.bessely(1, x),
    "i0": lambda x: mp.besseli(0, x), "i1": lambda x: mp.besseli(1, x), "k0": lambda x: mp.besselk(0, x), "k1": lambda x: mp.besselk(1, x),
    "i0e": lambda x: mp.exp(-abs(x)) * mp.besseli(0, x), "i1e": lambda x: mp.exp(-abs(x)) * mp.besseli(1, x),
    "k0e": lambda x: mp.exp(x) * mp.besselk(0, x), "k1e": lambda x: mp.exp(x) * mp.besselk(1, x),
    "jv": lambda v, x: mp.besselj(v, x), "yv": lambda v, x: mp.bessely(v, x), "iv": lambda v, x: mp.besseli(v, x), "kv": lambda v, x: mp.besselk(v, x),
    "ive": lambda v, x: mp.exp(-abs(x)) * mp.besseli(v, x), "kve": lambda v, x: mp.exp(x) * mp.besselk(v, x),
    "exp1": lambda x: mp.e1(x), "expi": lambda x: mp.ei(x), "expn": lambda n, x: mp.expint(n, x),
    "si": lambda x: mp.si(x), "ci": lambda x: mp.ci(x), "shi": lambda x: mp.shi(x), "chi": lambda x: mp.chi(x),
    "fresnel_s": lambda x: mp.fresnels(x), "fresnel_c": lambda x: mp.fresnelc(x), "spence": lambda x: mp.polylog(2, 1 - x), "wrightomega": _omega,
    "ellipk": lambda m: mp.ellipk(m), "ellipkm1": lambda p: mp.ellipk(1 - p), "ellipe": lambda m: mp.ellipe(m),
    "sindg": _degrees(lambda t: mp.sinpi(t)), "cosdg": _degrees(lambda t: mp.cospi(t)),
    "tandg": _degrees(lambda t: mp.sinpi(t) / mp.cospi(t)), "cotdg": _degrees(lambda t: mp.cospi(t) / mp.sinpi(t)),
    "gammainc": _gamma_share,
    "gammaincc": lambda a, x: mp.mpf(0) if a == 0 < x else mp.gammainc(a, x, mp.inf, regularized=True),
    "stdtr": _student_share,
    "betainc": _beta_share, "betaincc": lambda a, b, x: _beta_share(b, a, 1 - x),
    "hyp0f1": lambda v, x: mp.hyp0f1(v, x), "hyp1f1": lambda a, b, x: mp.hyp1f1(a, b, x), "hyp2f1": lambda a, b, c, x: mp.hyp2f1(a, b, c, x),
    "hyperu": lambda a, b, x: mp.hyperu(a, b, x),
    "eval_jacobi": _jacobi, "eval_legendre": lambda n, x: mp.legendre(n, x),
    "eval_gegenbauer": lambda n, a, x: mp.gegenbauer(n, a, x), "eval_chebyt": lambda n, x: mp.chebyt(n, x), "eval_chebyu": lambda n, x: mp.chebyu(n, x),
    "eval_hermite": lambda n, x: _whole(n, lambda k: mp.hermite(k, x)),
    "eval_hermitenorm": lambda n, x: _whole(n, lambda k: mp.hermite(k, x / mp.sqrt(2)) / mp.power(2, mp.mpf(k) / 2)),
    "eval_laguerre": lambda n, x: mp.laguerre(n, 0, x), "eval_genlaguerre": lambda n, a, x: mp.laguerre(n, a, x),
}
# fmt: on
_UNABLE = (OverflowError, NotImplementedError, TypeError, AttributeError, RecursionError, mpmath.libmp.NoConvergence)
# slopes by a formula (DLMF 10.6, 10.29), where quotients would cost a search, or a limit in the order, each
SLOPES: dict[str, Reference] = {
    "erfinv": lambda y, x: mp.sqrt(mp.pi) / 2 * mp.exp(y * y), "erfcinv": lambda y, x: -mp.sqrt(mp.pi) / 2 * mp.exp(y * y),
    "ndtri": lambda y, x: mp.sqrt(2 * mp.pi) * mp.exp(y * y / 2), "wrightomega": lambda y, x: y / (1 + y),
    "y0": lambda y, x: -mp.bessely(1, x), "y1": lambda y, x: mp.bessely(0, x) - y / x,
    "yv": lambda y, v, x: mp.bessely(v - 1, x) - v / x * y, "kv": lambda y, v, x: -mp.besselk(v - 1, x) - v / x * y,
    "k0": lambda y, x: -mp.besselk(1, x), "k1": lambda y, x: -mp.besselk(0, x) - y / x,
    "k0e": lambda y, x: y - mp.exp(x) * mp.besselk(1, x), "k1e": lambda y, x: y - mp.exp(x) * mp.besselk(0, x) - y / x,
    "kve": lambda y, v, x: y - mp.exp(x) * mp.besselk(v - 1, x) - v / x * y,
}  # fmt: skip
_SHORT = (40, 70, 200)  # digits, where no quotient loses half of them


def _evaluated(f: Reference, xs: Sequence[Any], params: dict[str, Any]) -> Any:
    """Return a value; None at a pole or where there is none. Raises NoReference."""
    try:
        y = f(*xs, **params)
    except ZeroDivisionError:
        return None
    except ValueError as error:
        if "pole" in str(error):
            return None
        raise NoReference from None
    except _UNABLE:
        raise NoReference from None
    return None if y is None or not mp.isfinite(y) else mp.mpc(y)


def _imaginary(y: Any) -> bool:
    return bool(abs(mp.im(y)) > mp.mpf(10) ** (-mp.dps // 2) * abs(y))


def _slope(f: Reference, xs: Sequence[Any], i: int, y: Any, side: int, params: dict[str, Any], last: bool) -> Any:
    """Return a one-sided slope, None where there is none: quotients of both steps must agree."""
    scale = min(abs(xs[i]), 1 / abs(xs[i])) if xs[i] else mp.mpf(1)  # sin(x**2) turns faster as x grows
    found = []
    for step in STEPS:
        h = side * step * scale
        near = _evaluated(f, [x + h if k == i else x for k, x in enumerate(xs)], params)
        if near is None or (not _imaginary(y) and _imaginary(near)):
            return None
        found.append((mp.re(near) - mp.re(y)) / h)
    apart = abs(found[0] - found[1])
    size = max(abs(q) for q in found)
    noise = abs(y) * mp.mpf(10) ** (8 - mp.dps) / (STEPS[1] * scale)
    if size <= 1e6 * noise:
        if noise > SMALLEST:
            raise Unresolved
        return mp.mpf(0)
    if abs(found[1]) <= 1e-3 * abs(found[0]):  # a slope of 0 has quotients that fall with the step
        return mp.mpf(0)
    if apart <= STEADY * size:
        return found[1]
    if not last:  # an infinite slope, or digits lost on the way
        raise Unresolved
    return None


def truth(name: str, i: int, xs: Sequence[float], **params: Any) -> Truth:
    """Return what a primitive and its partial by argument `i` are at a point. Raises NoReference."""
    before = None
    sizes = [abs(float(np.log10(abs(float(x))))) for x in xs if x]
    more = 2 * int(max(sizes, default=0))
    rounds = [digits + more for digits in (_SHORT if name in SLOPES else DIGITS)]
    for digits in rounds:
        with mp.workdps(digits):
            found = _attempt(name, i, [mp.mpf(float(x)) for x in xs], params, digits == rounds[-1])
        if found is not None and (found.value is None or (before is not None and _same(before, found))):
            return found
        if (
            found is not None and digits == rounds[-1] and not (found.left and found.right)
        ):  # none, or zero to all digits
            return found
        before = found
    raise NoReference


def _attempt(name: str, i: int, xs: Sequence[Any], params: dict[str, Any], last: bool) -> Truth | None:
    """Return the truth by the digits that mpmath has now, None where these do not tell. Raises NoReference."""
    f = REFERENCES[name]
    y = _evaluated(f, xs, params)
    if y is None:
        return Truth(None, None, None)
    if name in SLOPES:
        slope = _evaluated(SLOPES[name], (y, *xs), {})
        left = right = None if slope is None else mp.re(slope)
    else:
        try:
            left, right = (_slope(f, xs, i, y, side, params, last) for side in (-1, 1))
        except Unresolved:
            return None
    return Truth(mp.re(y), left, right, _imaginary(y))


def _same(a: Truth, b: Truth) -> bool:
    return a.complex == b.complex and all(
        _alike(x, y) for x, y in ((a.value, b.value), (a.left, b.left), (a.right, b.right))
    )


def _alike(a: Any, b: Any) -> bool:
    if a is None or b is None:
        return a is b
    return max(abs(a), abs(b)) < SMALLEST or (min(abs(a), abs(b)) > LARGEST and a * b > 0) or close(a, b, 1e-14)
