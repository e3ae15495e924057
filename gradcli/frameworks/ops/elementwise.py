"""Primitives that work entry by entry. `stop_gradient` is the identity: it changes what JAX differentiates, not the function."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.core.primitive import Value, named
from gradcli.core.tracer import Tracer, plain
from gradcli.errors import NotSupported

AWAY_FROM_ZERO = 0  # lax.RoundingMethod
Entry = Callable[..., Any]


def plainly(function: Entry) -> Entry:
    """Return an entry that takes no notice of the equation's params (accuracy, out_dtype, ...)."""
    return lambda *xs, **params: function(*xs)


def plain_entries(functions: dict[str, Any]) -> dict[str, Entry]:
    """Return entries that are functions of their inputs alone."""
    return {name: plainly(function) for name, function in functions.items()}


def special(name: str) -> Entry:
    """Return an entry that is a function of scipy.special, by its name among gradcli's primitives."""
    return lambda *xs, **params: named(name)(*xs)


def whole(x: Value) -> bool:
    """Whether a value is of integers."""
    return not isinstance(x, Tracer) and np.asarray(x).dtype.kind in "iu"


def divide(x: Value, y: Value) -> Value:
    """Return x / y; of integers, rounded towards 0."""
    if not whole(x):
        return np.divide(x, y)
    safe = np.where(np.equal(y, 0), 1, y)
    return np.where(np.equal(y, 0), -1, (x - np.fmod(x, safe)) // safe).astype(np.asarray(x).dtype)


def select_n(which: Any, *cases: Value, **params: Any) -> Value:
    """Return, entry by entry, the case that `which` numbers (False is 0)."""
    y = cases[0]
    for k, case in enumerate(cases[1:], 1):
        y = np.where(np.equal(which, k), case, y)
    return y


def clamp(low: Value, x: Value, high: Value, **params: Any) -> Value:
    """Return min(max(x, low), high)."""
    return np.minimum(np.maximum(x, low), high)


def integer_pow(x: Value, *, y: int, **params: Any) -> Value:
    """Return x**y for a whole number y."""
    return np.power(x, y) if y >= 0 or isinstance(x, Tracer) else np.power(x, float(y))


def round_(x: Value, *, rounding_method: Any, **params: Any) -> Value:
    """Return the nearest whole number; a half goes away from 0, or to the even one."""
    if int(rounding_method) != AWAY_FROM_ZERO:
        return np.rint(x)
    below = np.trunc(x)
    return below + np.where(np.abs(x - below) >= 0.5, np.sign(x), 0.0)


def convert_element_type(x: Value, *, new_dtype: Any, **params: Any) -> Value:
    """Return a value as another type; real numbers stay as they are, in float64, so that differences of them can be taken."""
    dtype = np.dtype(new_dtype)
    if isinstance(x, Tracer):
        if dtype.kind in "iu":
            return plain(np.trunc(x)).astype(dtype)
        if dtype.kind == "b":
            return np.not_equal(x, 0)
        return np.add(x, 0j) if dtype.kind == "c" else x
    return np.asarray(x).astype(dtype if dtype.kind in "iubc" else np.float64)


def bitcast_convert_type(x: Value, *, new_dtype: Any, **params: Any) -> Any:
    """Return the bits of a value as another type; those of a traced one are plain, and that its sign was seen is recorded.

    Raises  NotSupported where the two types differ in size.
    """
    dtype = np.dtype(new_dtype)
    if isinstance(x, Tracer):
        np.less(x, 0)
    bits = np.asarray(plain(x))
    if bits.dtype.itemsize != dtype.itemsize:
        raise NotSupported(f"bitcast_convert_type from {bits.dtype} to {dtype} is not replayed", do="leave it out")
    y = bits.view(dtype)
    return y if dtype.kind in "iub" else y.astype(np.float64)


def polygamma(m: Value, x: Value, **params: Any) -> Value:
    """Return the m-th derivative of digamma. Raises NotSupported for orders that differ, or are no plain whole number."""
    orders = np.unique(np.asarray(plain(m)))
    if isinstance(m, Tracer) or orders.size != 1 or orders[0] != np.floor(orders[0]) or orders[0] < 0:
        raise NotSupported("polygamma of orders that are not one plain whole number is not replayed", do="one order")
    n = int(orders[0])
    return named("digamma")(x) if n == 0 else named("polygamma")(x, n=n)


# fmt: off
TABLE: dict[str, Entry] = {
    **plain_entries({
        "neg": np.negative, "add": np.add, "add_any": np.add, "sub": np.subtract, "mul": np.multiply, "div": divide,
        "rem": np.fmod, "pow": np.power, "square": np.square, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
        "cbrt": np.cbrt, "abs": np.abs, "sign": np.sign, "floor": np.floor, "ceil": np.ceil, "max": np.maximum, "min": np.minimum,
        "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log1p": np.log1p,
        "sin": np.sin, "cos": np.cos, "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
        "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
        "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
        "lt_to": np.less, "le_to": np.less_equal, "eq_to": np.equal,
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert, "is_finite": np.isfinite,
        "real": np.real, "imag": np.imag, "conj": np.conjugate, "complex": lambda re, im: re + 1j * im,
        "copy": lambda x: x, "copy_p": lambda x: x, "stop_gradient": lambda x: x, "reduce_precision": lambda x: x,
        "name": lambda x: x, "device_put": lambda *xs: xs, "optimization_barrier": lambda *xs: xs, "pvary": lambda *xs: xs,
        "sharding_constraint": lambda x: x, "layout_constraint": lambda x: x, "reshard": lambda x: x,
    }),
    "logistic": special("expit"), "erf": special("erf"), "erfc": special("erfc"), "erf_inv": special("erfinv"),
    "lgamma": special("gammaln"), "digamma": special("digamma"), "polygamma": polygamma,
    "igamma": special("gammainc"), "igammac": special("gammaincc"), "regularized_incomplete_beta": special("betainc"),
    "bessel_i0e": special("i0e"), "bessel_i1e": special("i1e"),
    "select_n": select_n, "clamp": clamp, "integer_pow": integer_pow, "round": round_,
    "convert_element_type": convert_element_type, "bitcast_convert_type": bitcast_convert_type,
}
# fmt: on
