"""scipy.special's functions in ball arithmetic."""

from collections.abc import Callable
from typing import Any

from flint import acb, arb

from gradcli.errors import Undecided
from gradcli.primitives.incomplete_series import gammainc_ball


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
