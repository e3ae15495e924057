"""Elementwise functions of one, two or three values."""

from typing import Any

import numpy as np

from gradcli.frameworks.ops.elementwise import by_framework_name
from gradcli.frameworks.torch.aten.rows import aten, register, scaled
from gradcli.rules.elementwise import pi
from gradcli.tracing.primitive import Value, named
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import plain

# fmt: off
register(by_framework_name(
    same="abs neg square reciprocal exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan atan2 sinc "
    "sinh cosh tanh asinh acosh atanh deg2rad rad2deg angle floor ceil trunc sign mul hypot copysign fmax fmin remainder "
    "floor_divide logaddexp logaddexp2 eq ne lt le gt ge logical_and logical_or logical_xor logical_not gcd lcm signbit where "
    "erf erfc digamma igamma igammac xlogy matmul dot outer",
    renamed="sgn=sign maximum=max minimum=min fmod=rem bitwise_and=and bitwise_or=or bitwise_xor=xor bitwise_not=not "
    "bitwise_left_shift=shift_left bitwise_right_shift=shift_right_arithmetic isnan=is_nan isinf=is_inf isfinite=is_finite "
    "isposinf=is_posinf isneginf=is_neginf erfinv=erf_inv special_erfcx=erfcx special_ndtri=ndtri special_log_ndtr=log_ndtr "
    "special_entr=entr special_ndtr=ndtr i0=bessel_i0 special_i0e=bessel_i0e special_i1=bessel_i1 special_i1e=bessel_i1e "
    "special_bessel_j0=bessel_j0 special_bessel_j1=bessel_j1 special_bessel_y0=bessel_y0 special_bessel_y1=bessel_y1 "
    "special_modified_bessel_i0=bessel_i0 special_modified_bessel_i1=bessel_i1 "
    "special_modified_bessel_k0=bessel_k0 special_modified_bessel_k1=bessel_k1 "
    "special_scaled_modified_bessel_k0=bessel_k0e special_scaled_modified_bessel_k1=bessel_k1e positive=identity "
    "special_xlog1py=xlog1py "
    "mm=matmul bmm=matmul mv=matmul vdot=matmul",
))
register({
    "round": lambda x, *, decimals=0: np.round(x, decimals), "frac": lambda x: x - np.trunc(x),
    "lerp": lambda start, end, weight: start + weight * (end - start),
    "add": lambda x, y, alpha=1: np.add(x, scaled(y, alpha)), "sub": lambda x, y, alpha=1: np.subtract(x, scaled(y, alpha)),
    "frexp": lambda x: _frexp(x), "nextafter": lambda x, y: _neighbour(x, y), "ldexp": lambda x, n: x * np.exp2(n),
    "_is_all_true": np.all, "_is_any_true": np.any, "isclose": np.isclose,
    "lgamma": lambda x: _log_gamma(x), "polygamma": lambda n, x: _polygamma(n, x),
    "special_spherical_bessel_j0": lambda x: np.sinc(x / pi(x)),
    "special_hermite_polynomial_h": lambda x, n: _polynomial("hermite", x, n),
    "special_hermite_polynomial_he": lambda x, n: _polynomial("hermitenorm", x, n),
    "special_laguerre_polynomial_l": lambda x, n: _polynomial("laguerre", x, n),
    "special_legendre_polynomial_p": lambda x, n: _polynomial("legendre", x, n),
})
for chebyshev, x_of in (("chebyshev_polynomial", lambda x: x), ("shifted_chebyshev_polynomial", lambda x: 2 * x - 1)):
    register({
        f"special_{chebyshev}_t": lambda x, n, at=x_of: _polynomial("chebyt", at(x), n),
        f"special_{chebyshev}_u": lambda x, n, at=x_of: _polynomial("chebyu", at(x), n),
        f"special_{chebyshev}_v": lambda x, n, at=x_of: _polynomial("chebyu", at(x), n) - _one_degree_lower("chebyu", at(x), n),
        f"special_{chebyshev}_w": lambda x, n, at=x_of: _polynomial("chebyu", at(x), n) + _one_degree_lower("chebyu", at(x), n),
    })
# fmt: on


def _polynomial(name: str, x: Value, n: Any) -> Value:
    """Return the polynomial of a family (`name`) of integer degree n; 0 for a negative degree."""
    degree = np.trunc(plain(n)).astype(int)
    return np.where(degree < 0, 0.0, named(f"eval_{name}")(np.maximum(degree, 0), x))


def _one_degree_lower(name: str, x: Value, n: Any) -> Value:
    return _polynomial(name, x, np.subtract(n, 1))


def _frexp(x: Value) -> Any:
    """Return the mantissas and the exponents."""
    return tuple(np.frexp(x))


def _log_gamma(x: Value) -> Value:
    """Return log(abs(gamma(x))), by reflection left of 1/2, because the primitive is not declared left of 0."""
    left = np.less(plain(x), 0.5)
    if not np.any(left):
        return named("gammaln")(x)
    reflected = np.where(left, 1 - x, x)
    fraction = np.where(left, x - np.floor(plain(x)), 0.5)
    by_reflection = np.log(pi(x) / np.abs(np.sin(pi(x) * fraction))) - named("gammaln")(reflected)
    return np.where(left, by_reflection, named("gammaln")(reflected))


def _polygamma(n: int, x: Value) -> Value:
    return named("polygamma")(x, n=n) if n else named("digamma")(x)


def _neighbour(x: Value, y: Value) -> Value:
    """Return the next float64 after x towards y, as x plus a constant, so that its derivative with respect to x is 1."""
    return x + (np.nextafter(plain(x), plain(y)) - plain(x))


@aten()
def pow(x: Value, p: Value) -> Value:
    """Return x to the power p."""
    return np.power(x, p)


@aten("div")
def div(x: Value, y: Value, *, rounding_mode: str | None = None) -> Value:
    """Return x / y, rounded down or towards zero if `rounding_mode` says so."""
    if rounding_mode == "floor":
        return np.floor_divide(x, y)
    return np.trunc(np.divide(x, y)) if rounding_mode == "trunc" else np.divide(x, y)


@aten("clamp")
def clamp(x: Value, min: Value = None, max: Value = None) -> Value:
    """Return min(max(x, min), max)."""
    y = x if min is None else np.maximum(x, min)
    return y if max is None else np.minimum(y, max)


@aten()
def copy(x: Value, src: Value) -> Value:
    """Return `src` in the shape of x."""
    if shape(src) != shape(x):
        return np.broadcast_to(src, shape(x))
    return np.positive(src) if src.dtype != np.bool_ else np.array(src)
