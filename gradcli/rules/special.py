"""scipy.special's functions as primitives; scipy is imported when the first of them is called."""

import numpy as np

from gradcli.rules import complex_values
from gradcli.rules.elementwise import pi
from gradcli.rules.kinds import elementwise
from gradcli.rules.special_parts import (
    Degrees,
    Late,
    Oscillating,
    cotangent_of_degrees,
    dawsn_far,
    digamma,
    elliptic_series,
    erfcx_far,
    exprel_kernel,
    exprel_partial,
    finite,
    gauss,
    half_turns,
    log_quotient,
    log_ratio,
    mills_kernel,
    minus_gauss,
    normal,
    normal_kernel,
    polygamma,
    psi_difference,
    quotient_at_0,
    scaled_bessel_far,
)
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
)
from gradcli.tracing.primitive import Value, named

expit, log_expit = Late("expit"), Late("log_expit")
GAMMA_ROOT = (
    "near a root of digamma the relative error is that of scipy's digamma, which grows with its condition number"
)
TRIGAMMA = "scipy's zeta function, and the reflection formula for x < 0, lose some digits"
SCIPY = "the partial is made of scipy's own function, which loses some digits"
MAGNIFIED = "the exponential magnifies the rounding of the function's value"
DIFFERENCE = "two digammas are subtracted"
FAR = "scipy's Bessel functions lose digits as x grows, six of them at 1e10"
LOSS = 1e-11  # relative error of scipy's values at complex numbers near the real axis
TURNS = "near a root the rounding of pi / 2 shows"


def psi(x: Value) -> Value:
    """Return the digamma function."""
    return named("digamma")(x)


def bessel(name: str, order: int, x: Value) -> Value:
    """Return a Bessel function of an integer order."""
    return named(name)(np.float64(order), x)


def i0e_slope(y: Value, x: Value) -> Value:
    return named("i1e")(x) - np.sign(x) * y


def i1e_slope(y: Value, x: Value) -> Value:
    return (named("i0e")(x) + bessel("ive", 2, x)) / 2 - np.sign(x) * y


def k0e_slope(y: Value, x: Value) -> Value:
    return y - named("k1e")(x)


def k1e_slope(y: Value, x: Value) -> Value:
    return y - named("k0e")(x) - y / x


def ellipk_slope(y: Value, m: Value) -> Value:
    return (named("ellipe")(m) / (1 - m) - y) / (2 * m)


def ellipkm1_slope(y: Value, p: Value) -> Value:
    return (y - named("ellipe")(1 - p) / p) / (2 * (1 - p))


def ellipe_slope(y: Value, m: Value) -> Value:
    return (y - named("ellipk")(m)) / (2 * m)


# fmt: off
elementwise(Late("erf"),      (lambda y, x: 2 / np.sqrt(pi(x)) * np.exp(-x * x),   gauss),       complex_loss=LOSS)
elementwise(Late("erfc"),     (lambda y, x: -2 / np.sqrt(pi(x)) * np.exp(-x * x),  minus_gauss), complex_loss=LOSS)
elementwise(Late("erfcx"),    (lambda y, x: 2 * x * y - 2 / np.sqrt(pi(x)),        erfcx_far, ABOVE_12), complex_loss=LOSS, reason=SCIPY)
elementwise(Late("erfi"),      lambda y, x: 2 / np.sqrt(pi(x)) * np.exp(x * x),    complex_loss=LOSS, reason=MAGNIFIED)
elementwise(Late("erfinv"),    lambda y, x: np.sqrt(pi(x)) / 2 * np.exp(y * y),    on=INSIDE_1, analytic=False, reason=MAGNIFIED)
elementwise(Late("erfcinv"),   lambda y, x: -np.sqrt(pi(x)) / 2 * np.exp(y * y),   on=UNIT, analytic=False, reason=MAGNIFIED)
elementwise(Late("dawsn"),    (lambda y, x: 1 - 2 * x * y,           dawsn_far, BEYOND_12), analytic=False, reason=SCIPY)
elementwise(Late("ndtr"),     (lambda y, x: normal(x),               normal_kernel), complex_loss=LOSS)
elementwise(Late("log_ndtr"), (lambda y, x: normal(x) / np.exp(y),   mills_kernel), analytic=False)
elementwise(Late("ndtri"),     lambda y, x: 1 / normal(y),           on=UNIT, analytic=False, reason=MAGNIFIED)
elementwise(expit,            (lambda y, x: y * (1 - y),     lambda y, x: expit(x) * expit(-x)), on_complex=complex_values.expit)
elementwise(Late("logit"),     lambda y, x: 1 / (x * (1 - x)),        on=UNIT, on_complex=complex_values.logit)
elementwise(log_expit,         lambda y, x: named("expit")(-x), on_complex=complex_values.log_expit)
elementwise(Late("entr"),      lambda y, x: -np.log(x) - 1,           on=POSITIVE, analytic=False)
elementwise(Late("xlogy"),     lambda y, a, b: np.log(b),   lambda y, a, b: a / b,       on=(REAL, POSITIVE), complex_loss=LOSS)
elementwise(Late("xlog1py"),   lambda y, a, b: np.log1p(b), lambda y, a, b: a / (1 + b), on=(REAL, ABOVE_MINUS_1), complex_loss=LOSS)
elementwise(Late("rel_entr"), (lambda y, a, b: np.log(a / b) + 1,     lambda y, a, b: log_ratio(a, b) + 1),
                               (lambda y, a, b: -a / b,               finite(lambda y, a, b: -a / b)), on=(POSITIVE, POSITIVE), analytic=False, reason="log(a / b) + 1 cancels near b = e a")
elementwise(Late("kl_div"),   (lambda y, a, b: np.log(a / b),         lambda y, a, b: log_ratio(a, b)),
                              (lambda y, a, b: 1 - a / b,             finite(lambda y, a, b: (b - a) / b)), on=(POSITIVE, POSITIVE), analytic=False)
elementwise(Late("pseudo_huber"), lambda y, d, r: d * np.square(y / (d * d)) / np.sqrt(1 + np.square(r / d)),
                              (lambda y, d, r: r / np.sqrt(1 + np.square(r / d)), finite(lambda y, d, r: d * (r / np.hypot(d, r)))),
                               on=(POSITIVE, REAL), analytic=False, reason=SCIPY)
elementwise(Late("exprel"),   (exprel_partial,               exprel_kernel), analytic=False, reason=SCIPY)
elementwise(Late("gamma"),     lambda y, x: y * psi(x),               on=NOT_POLE, analytic=False, reason=GAMMA_ROOT)
elementwise(Late("rgamma"),    lambda y, x: -y * psi(x),              on=NOT_POLE, analytic=False, reason=GAMMA_ROOT)
elementwise(Late("gammaln"),   lambda y, x: psi(x),                   on=POSITIVE, reason=GAMMA_ROOT, on_complex=complex_values.gammaln)
elementwise(Late("loggamma"),  lambda y, x: psi(x),                   on=POSITIVE, reason=GAMMA_ROOT, complex_loss=LOSS)
elementwise(digamma,           lambda y, x: named("polygamma")(x, n=1), on=NOT_POLE, name="digamma", complex_loss=LOSS, reason=TRIGAMMA)
elementwise(polygamma,         lambda y, x, *, n: named("polygamma")(x, n=n + 1), on=POSITIVE, analytic=False, reason=TRIGAMMA)
elementwise(Late("beta"),     (lambda y, a, b: y * (psi(a) - psi(a + b)), lambda y, a, b: y * psi_difference(a, b)),
                              (lambda y, a, b: y * (psi(b) - psi(a + b)), lambda y, a, b: y * psi_difference(b, a)), on=(POSITIVE, POSITIVE), analytic=False, reason=DIFFERENCE)
elementwise(Late("betaln"),   (lambda y, a, b: psi(a) - psi(a + b),       finite(lambda y, a, b: psi_difference(a, b))),
                              (lambda y, a, b: psi(b) - psi(a + b),       finite(lambda y, a, b: psi_difference(b, a))), on=(POSITIVE, POSITIVE), analytic=False, reason=DIFFERENCE)
elementwise(Oscillating("j0", False, 0),        lambda y, x: -named("j1")(x),          analytic=False, reason=FAR)
elementwise(Oscillating("j1", False, 1),        lambda y, x: (named("j0")(x) - bessel("jv", 2, x)) / 2, analytic=False, reason=FAR)
elementwise(Oscillating("y0", True, 0),        lambda y, x: -named("y1")(x),          on=POSITIVE, analytic=False, reason=FAR)
elementwise(Oscillating("y1", True, 1),        lambda y, x: named("y0")(x) - y / x,   on=POSITIVE, analytic=False, reason=FAR)
elementwise(Late("i0"),        lambda y, x: named("i1")(x),           analytic=False, reason=SCIPY)
elementwise(Late("i1"),        lambda y, x: (named("i0")(x) + bessel("iv", 2, x)) / 2, analytic=False, reason=SCIPY)
elementwise(Late("i0e"),      (i0e_slope, scaled_bessel_far(0, -1.0), BEYOND_30), on=AWAY_FROM_0, analytic=False, reason=SCIPY)
elementwise(Late("i1e"),      (i1e_slope, scaled_bessel_far(1, -1.0), BEYOND_30), on=AWAY_FROM_0, analytic=False, reason=SCIPY)
elementwise(Late("k0"),        lambda y, x: -named("k1")(x),          on=POSITIVE, analytic=False, reason=SCIPY)
elementwise(Late("k1"),        lambda y, x: -named("k0")(x) - y / x,  on=POSITIVE, analytic=False, reason=SCIPY)
elementwise(Late("k0e"),      (k0e_slope, scaled_bessel_far(0, 1.0), ABOVE_30), on=POSITIVE, analytic=False, reason=SCIPY)
elementwise(Late("k1e"),      (k1e_slope, scaled_bessel_far(1, 1.0), ABOVE_30), on=POSITIVE, analytic=False, reason=SCIPY)
elementwise(Late("exp1"),      lambda y, x: -np.exp(-x) / x,          on=POSITIVE, complex_loss=LOSS)
elementwise(Late("expi"),      lambda y, x: np.exp(x) / x,            on=AWAY_FROM_0, analytic=False)
elementwise(Late("sici", 0),   lambda y, x: quotient_at_0(np.sin, x), name="si", analytic=False)
elementwise(Late("sici", 1),   lambda y, x: np.cos(x) / x,            name="ci", on=POSITIVE, analytic=False)
elementwise(Late("shichi", 0), lambda y, x: quotient_at_0(np.sinh, x), name="shi", analytic=False)
elementwise(Late("shichi", 1), lambda y, x: np.cosh(x) / x,           name="chi", on=POSITIVE, analytic=False)
elementwise(Late("fresnel", 0), (lambda y, x: np.sin(pi(x) / 2 * x * x), lambda y, x: np.sin(np.pi / 2 * half_turns(x))), name="fresnel_s", analytic=False, reason=TURNS)
elementwise(Late("fresnel", 1), (lambda y, x: np.cos(pi(x) / 2 * x * x), lambda y, x: np.cos(np.pi / 2 * half_turns(x))), name="fresnel_c", analytic=False, reason=TURNS)
elementwise(Late("spence"),   (lambda y, x: np.log(x) / (1 - x),      lambda y, x: -log_quotient(x)), on=POSITIVE, complex_loss=LOSS)
elementwise(Late("wrightomega"), lambda y, x: y / (1 + y),            complex_loss=LOSS, reason=SCIPY)
elementwise(Late("ellipk"),   (ellipk_slope, elliptic_series(False), NEAR_0), on=BELOW_1, analytic=False, reason="two elliptic integrals are subtracted")
elementwise(Late("ellipkm1"), (ellipkm1_slope, elliptic_series(False, complement=True), NEAR_1), on=POSITIVE, analytic=False, reason="two elliptic integrals are subtracted")
elementwise(Late("ellipe"),   (ellipe_slope, elliptic_series(True), NEAR_0), on=BELOW_1, analytic=False, reason="two elliptic integrals are subtracted")
elementwise(Degrees("sindg"),     lambda y, x: named("cosdg")(x) * pi(x) / 180, analytic=False, reason=SCIPY)
elementwise(Degrees("cosdg"),     lambda y, x: -named("sindg")(x) * pi(x) / 180, analytic=False, reason=SCIPY)
elementwise(Degrees("tandg"),     lambda y, x: (1 + y * y) * pi(x) / 180, analytic=False, reason=SCIPY)
elementwise(cotangent_of_degrees,     (lambda y, x: -(1 + y * y) * pi(x) / 180, lambda y, x: -np.pi / 180 / named("sindg")(x) ** 2), name="cotdg", on=AWAY_FROM_0, analytic=False, reason=SCIPY)
# fmt: on
