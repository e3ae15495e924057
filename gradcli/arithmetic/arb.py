"""Primitives in ball arithmetic: functions of python-flint's `arb`, by the primitive's name.

A comparison of balls that overlap raises Undecided, unless they are equal and exact; flint itself returns False.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from flint import acb, arb

from gradcli.arithmetic.arb_matrices import MATRICES
from gradcli.errors import Undecided
from gradcli.rules.special import gammainc_ball


def less(a: arb, b: arb) -> bool:
    """Return whether a < b.

    Raises  Undecided if the balls overlap.
    """
    if a < b:
        return True
    if a >= b:
        return False
    raise undecided(a, b)


def equal(a: arb | bool, b: arb | bool) -> bool:
    """Return whether a == b; either may be the truth of another comparison.

    Raises  Undecided if the balls overlap and are not exact.
    """
    if isinstance(a, bool):
        a = arb(a)
    if isinstance(b, bool):
        b = arb(b)
    if a == b:
        return True
    if not a.overlaps(b):
        return False
    raise undecided(a, b)


def undecided(a: arb, b: arb) -> Undecided:
    """Return the error for two balls that overlap, so that a comparison cannot be decided."""
    return Undecided(
        f"{float(a.mid()):.6g} and {float(b.mid()):.6g} are too close to compare",
        do="the function may have a kink here",
    )


def sign(x: arb) -> arb:
    """Return -1, 0 or 1; raise Undecided if the ball contains 0 and is not exact."""
    return arb(0) if equal(x, arb(0)) else arb(-1) if less(x, arb(0)) else arb(1)


def heaviside(x: arb, middle: arb) -> arb:
    """Return 0, `middle` or 1; raise Undecided if the ball contains 0 and is not exact."""
    return middle if equal(x, arb(0)) else arb(0) if less(x, arb(0)) else arb(1)


def maximum(a: arb, b: arb) -> arb:
    """Return the larger of two balls; if they overlap, a ball that contains the maximum."""
    return a if a > b else b if b > a else a.max(b)


def _step(name: str) -> Callable[[arb], arb]:
    def step(x: arb) -> arb:
        y = getattr(x, name)()
        if y.is_exact():
            return y
        raise undecided(x, y)

    return step


def trunc(x: arb) -> arb:
    return _step("ceil")(x) if less(x, arb(0)) else _step("floor")(x)


def rint(x: arb) -> arb:
    """Round to nearest, halves to even."""
    low = _step("floor")(x)
    rest = x - low - arb("0.5")
    up = int(float(low)) % 2 == 1 if equal(rest, arb(0)) else less(arb(0), rest)
    return low + 1 if up else low


def power(x: arb, p: arb) -> arb:
    if p.is_exact() and p.is_integer() and abs(p) <= 10**6:
        return integer_power(x, n=int(float(p)))
    if x.is_zero() and p > 0:
        return arb(0)
    return x**p


def integer_power(x: arb, *, n: int) -> arb:
    """Return x**n by squaring; flint's power is nan for a ball around zero."""
    if isinstance(x, bool):
        x = arb(x)
    if n < 0:
        return 1 / integer_power(x, n=-n)
    y = None
    while n > 1:
        if n & 1:
            y = x if y is None else y * x
        n, x = n >> 1, x * x
    if not n:
        return arb(1)
    return x if y is None else y * x


def cbrt(x: arb) -> arb:
    """Return the real cube root; negative for negative x."""
    return arb(0) if x.is_zero() else -((-x).root(3)) if x < 0 else x.root(3)


def logaddexp(a: arb, b: arb) -> arb:
    top, low = (b, a) if b > a else (a, b)
    return top + (low - top).exp().log1p()


# scipy.special's functions in ball arithmetic.


def gammaln(x: arb) -> arb:
    return x.lgamma() if x > 0 else abs(x.gamma()).log()


def polygamma(x: arb, *, n: int) -> arb:
    return acb(x).polygamma(n).real


def expit(x: arb) -> arb:
    """Return 1 / (1 + exp(-x)), by the exponential that does not overflow."""
    if x > 0:
        return 1 / (1 + (-x).exp())
    e = x.exp()
    return e / (1 + e)


def root_2() -> arb:
    return arb(2).sqrt()


def ndtr(x: arb) -> arb:
    return (-x / root_2()).erfc() / 2


def log_ndtr(x: arb) -> arb:
    return (-((x / root_2()).erfc() / 2)).log1p() if x > 0 else ndtr(x).log()


def log_beta(a: arb, b: arb) -> arb:
    return gammaln(a) + gammaln(b) - gammaln(a + b)


def times_log(x: arb, log: arb) -> arb:
    """Return x log, 0 for x = 0."""
    return arb(0) if x.is_zero() else x * log


def expi(x: arb) -> arb:
    return -(-x).expint(1) if x < 0 else x.ei()


def exprel(x: arb) -> arb:
    return arb(1) if x.is_zero() else x.expm1() / x


def shape_of_huber(d: arb, r: arb) -> arb:
    """Return d^2 (sqrt(1 + (r/d)^2) - 1) without cancellation."""
    return r * r / (1 + (1 + (r / d) * (r / d)).sqrt()) if d > 0 else arb.nan()


def relative_entropy(x: arb, y: arb) -> arb:
    """Return x log(x / y); nan unless x >= 0 and y > 0."""
    return times_log(x, (x / y).log()) if x >= 0 and y > 0 else arb.nan()


def elliptic(name: str) -> Callable[[arb], arb]:
    """Return an elliptic integral, which is real for m < 1, and nan elsewhere."""
    return lambda m: getattr(acb(m), name)().real if m < 1 else arb.nan()


def scaled_i(v: arb, x: arb) -> arb:
    """Return exp(-|x|) I_v(x)."""
    return x.bessel_i(v) * (-abs(x)).exp()


def gamma_share(a: arb, x: arb) -> arb:
    """Return the regularised lower incomplete gamma function; for large orders by a sum, where flint's takes long or is wide."""
    return gammainc_ball(a, x, n=0) if _is_large(a, x) else x.gamma_lower(a, regularized=1)


def gamma_tail(a: arb, x: arb) -> arb:
    """Return the regularised upper incomplete gamma function."""
    return 1 - gammainc_ball(a, x, n=0) if _is_large(a, x) else x.gamma_upper(a, regularized=1)


def _is_large(a: arb, x: arb) -> bool:
    return bool(a > 200) and bool(x < 2 * a)


def student_cdf(df: arb, x: arb) -> arb:
    """Return the distribution function of Student's t: half an incomplete beta function, taken on the side without cancellation."""
    if x == 0:
        return arb(1) / 2
    square = x * x
    half = arb(1) / 2
    tail = (df / (df + square)).beta_lower(df / 2, half, regularized=1) / 2
    if x < 0:
        return tail
    if x > 0:
        return 1 - tail
    raise Undecided("the sign of the argument of stdtr is not known in balls", do="take another point")


def hyp2f1(a: arb, b: arb, c: arb, x: arb) -> arb:
    if not x < 1:
        raise Undecided("hyp2f1 is not known in balls from 1 on", do="take x < 1")
    return x.hypgeom_2f1(a, b, c)


# fmt: off
SPECIAL: dict[str, Callable[..., Any]] = {
    "erf": arb.erf, "erfc": arb.erfc, "erfi": arb.erfi, "erfinv": arb.erfinv, "erfcinv": arb.erfcinv,
    "erfcx": lambda x: (x * x).exp() * x.erfc(), "dawsn": lambda x: arb.pi().sqrt() / 2 * (-x * x).exp() * x.erfi(),
    "ndtr": ndtr, "log_ndtr": log_ndtr, "ndtri": lambda x: -root_2() * (2 * x).erfcinv(),
    "expit": expit, "logit": lambda x: (x / (1 - x)).log(), "exprel": exprel,
    "entr": lambda x: -times_log(x, x.log()), "xlogy": lambda a, b: times_log(a, b.log()), "xlog1py": lambda a, b: times_log(a, b.log1p()),
    "rel_entr": relative_entropy, "kl_div": lambda a, b: relative_entropy(a, b) - a + b,
    "pseudo_huber": shape_of_huber,
    "gamma": arb.gamma, "rgamma": arb.rgamma, "gammaln": gammaln, "loggamma": arb.lgamma, "digamma": arb.digamma, "polygamma": polygamma,
    "beta": lambda a, b: a.gamma() * b.gamma() * (a + b).rgamma(), "betaln": log_beta,
    "j0": lambda x: x.bessel_j(0), "j1": lambda x: x.bessel_j(1), "y0": lambda x: x.bessel_y(0), "y1": lambda x: x.bessel_y(1),
    "i0": lambda x: x.bessel_i(0), "i1": lambda x: x.bessel_i(1), "i0e": lambda x: scaled_i(arb(0), x), "i1e": lambda x: scaled_i(arb(1), x),
    "k0": lambda x: x.bessel_k(0), "k1": lambda x: x.bessel_k(1),
    "k0e": lambda x: x.bessel_k(0, scaled=True), "k1e": lambda x: x.bessel_k(1, scaled=True),
    "jv": lambda v, x: x.bessel_j(v), "yv": lambda v, x: x.bessel_y(v), "iv": lambda v, x: x.bessel_i(v), "kv": lambda v, x: x.bessel_k(v),
    "ive": scaled_i, "kve": lambda v, x: x.bessel_k(v, scaled=True),
    "exp1": lambda x: x.expint(1), "expi": expi, "expn": lambda n, x: x.expint(n),
    "si": arb.si, "ci": arb.ci, "shi": arb.shi, "chi": arb.chi, "fresnel_s": arb.fresnel_s, "fresnel_c": arb.fresnel_c,
    "spence": lambda x: (1 - x).polylog(2), "wrightomega": lambda x: x.exp().lambertw(),
    "ellipk": elliptic("elliptic_k"), "ellipe": elliptic("elliptic_e"), "ellipkm1": lambda p: elliptic("elliptic_k")(1 - p),
    "sindg": lambda x: (x / 180).sin_pi(), "cosdg": lambda x: (x / 180).cos_pi(), "tandg": lambda x: (x / 180).tan_pi(), "cotdg": lambda x: (x / 180).cot_pi(),
    "gammainc": gamma_share, "gammaincc": gamma_tail,
    "stdtr": student_cdf, "gammainc_order": gammainc_ball,
    "betainc": lambda a, b, x: x.beta_lower(a, b, regularized=1), "betaincc": lambda a, b, x: (1 - x).beta_lower(b, a, regularized=1),
    "hyp0f1": lambda v, x: x.hypgeom_0f1(v), "hyp1f1": lambda a, b, x: x.hypgeom_1f1(a, b), "hyp2f1": hyp2f1, "hyperu": lambda a, b, x: x.hypgeom_u(a, b),
    "eval_jacobi": lambda n, a, b, x: x.jacobi_p(n, a, b), "eval_legendre": lambda n, x: x.legendre_p(n),
    "eval_gegenbauer": lambda n, a, x: x.gegenbauer_c(n, a), "eval_chebyt": lambda n, x: x.chebyshev_t(n), "eval_chebyu": lambda n, x: x.chebyshev_u(n),
    "eval_hermite": lambda n, x: x.hermite_h(n), "eval_hermitenorm": lambda n, x: (x / root_2()).hermite_h(n) / arb(2) ** (n / 2),
    "eval_laguerre": lambda n, x: x.laguerre_l(n), "eval_genlaguerre": lambda n, a, x: x.laguerre_l(n, a),
}
# fmt: on


# fmt: off
ENTRIES: dict[str, Callable[..., Any]] = {
    "positive": lambda x: +x, "negative": lambda x: -x,
    "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b, "divide": lambda a, b: a / b,
    "power": power, "integer_power": integer_power, "square": lambda x: x * x, "reciprocal": lambda x: 1 / x,
    "sqrt": arb.sqrt, "cbrt": cbrt, "absolute": abs, "hypot": lambda a, b: (a * a + b * b).sqrt(),
    "exp": arb.exp, "exp2": lambda x: arb(2) ** x, "expm1": arb.expm1, "log": arb.log, "log1p": arb.log1p,
    "log2": lambda x: x.log() / arb.const_log2(), "log10": lambda x: x.log() / arb.const_log10(), "logaddexp": logaddexp,
    "sin": arb.sin, "cos": arb.cos, "tan": arb.tan, "arcsin": arb.asin, "arccos": arb.acos, "arctan": arb.atan,
    "arctan2": lambda a, b: arb.atan2(a, b), "sinh": arb.sinh, "cosh": arb.cosh, "tanh": arb.tanh,
    "arcsinh": arb.asinh, "arccosh": arb.acosh, "arctanh": arb.atanh,
    "maximum": maximum, "minimum": lambda a, b: -maximum(-a, -b), "relu": lambda x: maximum(x, arb(0)),
    "remainder": lambda a, b: a - b * _step("floor")(a / b), "floor_divide": lambda a, b: _step("floor")(a / b),
    "fmod": lambda a, b: a - b * trunc(a / b), "logical_xor": lambda a, b: bool(a) != bool(b),
    "sign": sign, "heaviside": heaviside, "floor": _step("floor"), "ceil": _step("ceil"), "trunc": trunc, "rint": rint,
    "log_expit": lambda x: -logaddexp(arb(0), -x), **SPECIAL,
    "less": less, "greater": lambda a, b: less(b, a), "equal": equal, "not_equal": lambda a, b: not equal(a, b),
    "less_equal": lambda a, b: not less(b, a), "greater_equal": lambda a, b: not less(a, b),
    "isfinite": lambda x: bool(x.is_finite()), "isnan": lambda x: bool(x.is_nan()), "isinf": lambda x: not x.is_finite() and not x.is_nan(),
    "real": lambda x: x, "signbit": lambda x: less(x, arb(0)), "logical_not": lambda x: not x,
    "logical_and": lambda a, b: bool(a) and bool(b), "logical_or": lambda a, b: bool(a) or bool(b),
}
# fmt: on


def along(axis: tuple[int, ...], x: Any, function: Callable[[list[Any]], Any]) -> Any:
    """Return `function` of the entries along `axis`, an object array over the other axes."""
    kept = [k for k in range(x.ndim) if k not in axis]
    rows = np.transpose(x, (*kept, *axis)).reshape(*(x.shape[k] for k in kept), -1)
    if not kept:
        return function(rows.tolist())
    y = np.empty(rows.shape[:-1], dtype=object)
    for at in np.ndindex(*rows.shape[:-1]):
        y[at] = function(rows[at].tolist())
    return y


def _top(entries: list[Any]) -> Any:
    top = entries[0]
    for entry in entries[1:]:
        top = maximum(top, entry)
    return top


def peaks(x: Any, *, axis: tuple[int, ...]) -> Any:
    """Return 1 at the largest entries along the axes and 0 elsewhere; exact entries that are equal share the 1.

    Raises  Undecided if the largest entry overlaps with another one and they are not exact.
    """
    order = [k for k in range(x.ndim) if k not in axis] + list(axis)
    moved = np.transpose(x, order)
    flat = moved.reshape(*moved.shape[: x.ndim - len(axis)], -1)
    shares = np.empty(flat.shape, dtype=object)
    for at in np.ndindex(*flat.shape[:-1]):
        shares[at] = _shares(flat[at].tolist())
    return np.transpose(shares.reshape(moved.shape), np.argsort(order))


def _shares(entries: list[Any]) -> list[Any]:
    best = max(range(len(entries)), key=lambda k: float(entries[k].mid()))
    tied = [k for k, entry in enumerate(entries) if k == best or not less(entry, entries[best])]
    return [arb(1) / len(tied) if k in tied else arb(0) for k in range(len(entries))]


def logsumexp(x: Any, *, axis: tuple[int, ...]) -> Any:
    def one(entries: list[Any]) -> Any:
        shift = max(entries, key=lambda e: float(e.mid())).mid()
        return sum(((entry - shift).exp() for entry in entries), arb(0)).log() + shift

    return along(axis, x, one)


# fmt: off
WHOLE: dict[str, Callable[..., Any]] = {
    "max": lambda x, *, axis: along(axis, x, _top),
    "peaks": peaks,
    "norm": lambda x: sum((e * e for e in np.reshape(x, -1).tolist()), arb(0)).sqrt(),
    "logsumexp": logsumexp,
    **MATRICES,
}
# fmt: on
