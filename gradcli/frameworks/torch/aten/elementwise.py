"""Functions of one, two or three values, entry by entry."""

from typing import Any

import numpy as np

from gradcli.core.primitive import Value, named
from gradcli.core.shapes import shape
from gradcli.core.tracer import plain
from gradcli.frameworks.torch.aten.rows import add, aten, scaled
from gradcli.primitives.elementwise import pi


def _special(name: str) -> Any:
    """Return the primitive of scipy.special's function of this name."""
    return named(name)


def _select(condition: Any, x: Value, y: Value) -> Value:
    return np.where(condition, x, y)


# fmt: off
add({
    "abs": np.abs, "neg": np.negative, "positive": np.positive, "square": np.square, "reciprocal": np.reciprocal,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinc": np.sinc,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "deg2rad": np.deg2rad, "rad2deg": np.rad2deg, "angle": lambda x: np.angle(x),
    "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "sign": np.sign, "sgn": np.sign,
    "round": lambda x, *, decimals=0: np.round(x, decimals),
    "mul": np.multiply, "add": lambda x, y, alpha=1: np.add(x, scaled(y, alpha)),
    "sub": lambda x, y, alpha=1: np.subtract(x, scaled(y, alpha)), 
    "atan2": np.arctan2, "hypot": np.hypot, "frexp": lambda x: _parts(x), "copysign": np.copysign,
    "maximum": np.maximum, "minimum": np.minimum, "fmax": np.fmax, "fmin": np.fmin, "nextafter": lambda x, y: _neighbour(x, y),
    "fmod": np.fmod, "remainder": np.remainder, "floor_divide": np.floor_divide,
    "logaddexp": np.logaddexp, "logaddexp2": np.logaddexp2, "ldexp": lambda x, n: x * np.exp2(n),
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor, "logical_not": np.logical_not,
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "bitwise_not": np.invert,
    "bitwise_left_shift": np.left_shift, "bitwise_right_shift": np.right_shift, "gcd": np.gcd, "lcm": np.lcm,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "isposinf": np.isposinf, "isneginf": np.isneginf,
    "signbit": np.signbit, "equal": np.array_equal, "allclose": np.allclose, "isclose": np.isclose,
    "where": _select, 
})
add({
    "erf": _special("erf"), "erfc": _special("erfc"), "erfinv": _special("erfinv"), "special_erfcx": _special("erfcx"),
    "special_ndtri": _special("ndtri"), "special_log_ndtr": _special("log_ndtr"), "special_entr": _special("entr"),
    "special_ndtr": _special("ndtr"),
    "lgamma": lambda x: _log_gamma(x), "digamma": _special("digamma"), "polygamma": lambda n, x: _polygamma(n, x),
    "i0": _special("i0"), "special_i0e": _special("i0e"), "special_i1": _special("i1"), "special_i1e": _special("i1e"),
    "special_bessel_j0": _special("j0"), "special_bessel_j1": _special("j1"),
    "special_bessel_y0": _special("y0"), "special_bessel_y1": _special("y1"),
    "special_modified_bessel_i0": _special("i0"), "special_modified_bessel_i1": _special("i1"),
    "special_modified_bessel_k0": _special("k0"), "special_modified_bessel_k1": _special("k1"),
    "special_scaled_modified_bessel_k0": _special("k0e"), "special_scaled_modified_bessel_k1": _special("k1e"),
    "special_spherical_bessel_j0": lambda x: np.sinc(x / pi(x)),
    "igamma": _special("gammainc"), "igammac": _special("gammaincc"),
    "special_hermite_polynomial_h": lambda x, n: _polynomial("hermite", x, n),
    "special_hermite_polynomial_he": lambda x, n: _polynomial("hermitenorm", x, n),
    "special_laguerre_polynomial_l": lambda x, n: _polynomial("laguerre", x, n),
    "special_legendre_polynomial_p": lambda x, n: _polynomial("legendre", x, n),
})
for chebyshev, x_of in (("chebyshev_polynomial", lambda x: x), ("shifted_chebyshev_polynomial", lambda x: 2 * x - 1)):
    add({
        f"special_{chebyshev}_t": lambda x, n, at=x_of: _polynomial("chebyt", at(x), n),
        f"special_{chebyshev}_u": lambda x, n, at=x_of: _polynomial("chebyu", at(x), n),
        f"special_{chebyshev}_v": lambda x, n, at=x_of: _polynomial("chebyu", at(x), n) - _lower("chebyu", at(x), n),
        f"special_{chebyshev}_w": lambda x, n, at=x_of: _polynomial("chebyu", at(x), n) + _lower("chebyu", at(x), n),
    })
# fmt: on


def _polynomial(name: str, x: Value, n: Any) -> Value:
    """Return a polynomial of the family of whole degree, 0 for a negative one."""
    degree = np.trunc(plain(n)).astype(int)
    return np.where(degree < 0, 0.0, named(f"eval_{name}")(np.maximum(degree, 0), x))


def _lower(name: str, x: Value, n: Any) -> Value:
    return _polynomial(name, x, np.subtract(n, 1))


def _parts(x: Value) -> Any:
    """Return the mantissas and the exponents."""
    return tuple(np.frexp(x))


def _log_gamma(x: Value) -> Value:
    """Return log(abs(gamma(x))); left of 0 by reflection, where the primitive is not declared."""
    left = np.less(plain(x), 0.5)
    if not np.any(left):
        return named("gammaln")(x)
    right = np.where(left, 1 - x, x)
    angle = np.where(left, x - np.floor(plain(x)), 0.5)
    mirrored = np.log(pi(x) / np.abs(np.sin(pi(x) * angle))) - named("gammaln")(right)
    return np.where(left, mirrored, named("gammaln")(right))


def _polygamma(n: int, x: Value) -> Value:
    return named("polygamma")(x, n=n) if n else named("digamma")(x)


def _multivariate_log_gamma(x: Value, p: int) -> Value:
    y: Value = p * (p - 1) / 4.0 * np.log(pi(x))
    for j in range(p):
        y = y + _log_gamma(x - j / 2.0)
    return y


def _neighbour(x: Value, y: Value) -> Value:
    """Return x moved by the least that float64 knows: the grid of floats is no function of x, and slope 1 is."""
    return x + (np.nextafter(plain(x), plain(y)) - plain(x))


@aten()
def pow(x: Value, p: Value) -> Value:
    """Return x to the power p."""
    return np.power(x, p)


@aten("div")
def div(x: Value, y: Value, *, rounding_mode: str | None = None) -> Value:
    """Return x / y, rounded down or towards zero if that is asked for."""
    if rounding_mode == "floor":
        return np.floor_divide(x, y)
    return np.trunc(np.divide(x, y)) if rounding_mode == "trunc" else np.divide(x, y)


@aten("xlogy")
def xlogy(x: Value, y: Value) -> Value:
    """Return x log(y), 0 where x is 0."""
    return named("xlogy")(x, y)


@aten("clamp")
def clamp(x: Value, min: Value = None, max: Value = None) -> Value:
    """Return min(max(x, min), max)."""
    y = x if min is None else np.maximum(x, min)
    return y if max is None else np.minimum(y, max)


@aten()
def copy(x: Value, src: Value) -> Value:
    """Return `src` in the shape of x."""
    return np.broadcast_to(src, shape(x)) if shape(src) != shape(x) else np.positive(src)
