"""Functions of one, two or three values, entry by entry."""

from typing import Any

import numpy as np

from gradcli.core.primitive import Value, named
from gradcli.core.shapes import shape
from gradcli.core.tracer import Tracer, plain
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
    "frac": lambda x: x - np.trunc(x), "round": lambda x, *, decimals=0: np.round(x, decimals),
    "mul": np.multiply, "add": lambda x, y, alpha=1: np.add(x, scaled(y, alpha)),
    "sub": lambda x, y, alpha=1: np.subtract(x, scaled(y, alpha)), "rsub": lambda x, y, alpha=1: np.subtract(y, scaled(x, alpha)),
    "atan2": np.arctan2, "hypot": np.hypot, "frexp": lambda x: _parts(x), "copysign": np.copysign,
    "heaviside": lambda x, at_0: np.heaviside(x, plain(at_0)),
    "maximum": np.maximum, "minimum": np.minimum, "fmax": np.fmax, "fmin": np.fmin, "nextafter": lambda x, y: _neighbour(x, y),
    "fmod": np.fmod, "remainder": np.remainder, "floor_divide": np.floor_divide,
    "logaddexp": np.logaddexp, "logaddexp2": np.logaddexp2, "ldexp": lambda x, n: x * np.exp2(n),
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor, "logical_not": np.logical_not,
    "bitwise_and": np.bitwise_and, "bitwise_or": np.bitwise_or, "bitwise_xor": np.bitwise_xor, "bitwise_not": np.invert,
    "bitwise_left_shift": np.left_shift, "bitwise_right_shift": np.right_shift, "gcd": np.gcd, "lcm": np.lcm,
    "isnan": np.isnan, "isinf": np.isinf, "isfinite": np.isfinite, "isposinf": np.isposinf, "isneginf": np.isneginf,
    "signbit": np.signbit, "equal": np.array_equal, "allclose": np.allclose, "isclose": np.isclose,
    "isin": lambda x, y, *, assume_unique=False, invert=False: np.isin(plain(x), plain(y), invert=invert),
    "where": _select, "masked_fill": lambda x, mask, value: _select(mask, value, x),
})
add({
    "erf": _special("erf"), "erfc": _special("erfc"), "erfinv": _special("erfinv"), "special_erfcx": _special("erfcx"),
    "special_ndtri": _special("ndtri"), "special_log_ndtr": _special("log_ndtr"), "special_entr": _special("entr"),
    "special_ndtr": _special("ndtr"),
    "lgamma": lambda x: _log_gamma(x), "digamma": _special("digamma"), "polygamma": lambda n, x: _polygamma(n, x),
    "mvlgamma": lambda x, p: _multivariate_log_gamma(x, p),
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


@aten("div", "divide", "true_divide")
def div(x: Value, y: Value, *, rounding_mode: str | None = None) -> Value:
    """Return x / y, rounded down or towards zero if that is asked for."""
    if rounding_mode == "floor":
        return np.floor_divide(x, y)
    return np.trunc(np.divide(x, y)) if rounding_mode == "trunc" else np.divide(x, y)


@aten("xlogy", "special_xlogy")
def xlogy(x: Value, y: Value) -> Value:
    """Return x log(y), 0 where x is 0."""
    return named("xlogy")(x, y)


@aten("special_xlog1py")
def xlog1py(x: Value, y: Value) -> Value:
    """Return x log(1 + y), 0 where x is 0."""
    return named("xlog1py")(x, y)


@aten()
def logit(x: Value, eps: float | None = None) -> Value:
    """Return log(x / (1 - x)), of x held between eps and 1 - eps."""
    return named("logit")(x if eps is None else np.clip(x, eps, 1 - eps))


@aten("clamp", "clip")
def clamp(x: Value, min: Value = None, max: Value = None) -> Value:
    """Return min(max(x, min), max)."""
    y = x if min is None else np.maximum(x, min)
    return y if max is None else np.minimum(y, max)


@aten()
def clamp_min(x: Value, min: Value) -> Value:
    """Return max(x, min)."""
    return np.maximum(x, min)


@aten()
def clamp_max(x: Value, max: Value) -> Value:
    """Return min(x, max)."""
    return np.minimum(x, max)


@aten()
def nan_to_num(x: Value, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Value:
    """Return x with what is not finite replaced."""
    largest = float(np.finfo(np.float64).max)
    y = np.where(np.isnan(x), 0.0 if nan is None else nan, x)
    y = np.where(np.isposinf(plain(x)), largest if posinf is None else posinf, y)
    return np.where(np.isneginf(plain(x)), -largest if neginf is None else neginf, y)


@aten()
def lerp(start: Value, end: Value, weight: Value) -> Value:
    """Return the value `weight` of the way from start to end."""
    return start + weight * (end - start)


@aten()
def addcmul(x: Value, a: Value, b: Value, *, value: float = 1) -> Value:
    """Return x + value * a * b."""
    return x + scaled(a * b, value)


@aten()
def addcdiv(x: Value, a: Value, b: Value, *, value: float = 1) -> Value:
    """Return x + value * a / b."""
    return x + scaled(a, value) / b


@aten()
def dist(x: Value, y: Value, p: float = 2) -> Value:
    """Return the norm of x - y."""
    return np.linalg.vector_norm(np.reshape(x - y, -1), ord=p)


@aten()
def fill(x: Value, value: Value) -> Value:
    """Return `value` in the shape of x."""
    if isinstance(value, Tracer):
        return np.broadcast_to(value, shape(x)) if shape(x) else value
    return np.full(shape(x), value, dtype=x.dtype if isinstance(x, np.ndarray) else np.float64)


@aten()
def zero(x: Value) -> Value:
    """Return zeros in the shape of x."""
    return np.zeros(shape(x))


@aten()
def copy(x: Value, src: Value) -> Value:
    """Return `src` in the shape of x."""
    return np.broadcast_to(src, shape(x)) if shape(src) != shape(x) else np.positive(src)
