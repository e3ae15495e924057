"""Elementwise operations under lax's names, or numpy's where lax has none.

`FUNCTIONS` take inputs only, no parameters, and serve torch and JAX; `TABLE` holds the entries for JAX's equations.
`stop_gradient` is the identity here: it changes what a framework differentiates, not the function's value.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.errors import NotSupported
from gradcli.tracing.primitive import Value, primitive_by_name
from gradcli.tracing.tracer import Tracer, plain_value

AWAY_FROM_ZERO = 0  # lax.RoundingMethod
Entry = Callable[..., Any]


def by_framework_name(same: str, renamed: str) -> dict[str, Entry]:
    """Return functions by a framework's names: the `same` names, and `renamed` pairs `theirs=ours`."""
    pairs = [pair.split("=") for pair in renamed.split()]
    return {name: FUNCTIONS[name] for name in same.split()} | {theirs: FUNCTIONS[ours] for theirs, ours in pairs}


def ignore_params(function: Entry) -> Entry:
    """Return an entry that ignores the operation's parameters (accuracy, out_dtype, ...)."""
    return lambda *xs, **params: function(*xs)


def scipy_function(name: str) -> Entry:
    """Return a function of scipy.special, by its name among gradcli's primitives."""
    return lambda *xs: primitive_by_name(name)(*xs)


def holds_integers(x: Value) -> bool:
    """Whether a value holds integers."""
    return not isinstance(x, Tracer) and np.asarray(x).dtype.kind in "iu"


def divide(x: Value, y: Value) -> Value:
    """Return x / y; integer quotients are rounded towards 0."""
    if not holds_integers(x):
        return np.divide(x, y)
    safe = np.where(np.equal(y, 0), 1, y)
    return np.where(np.equal(y, 0), -1, (x - np.fmod(x, safe)) // safe).astype(np.asarray(x).dtype)


def select_n(which: Any, *cases: Value, **params: Any) -> Value:
    """Return, entry by entry, the case with the number `which` (False is 0, True is 1)."""
    y = cases[0]
    for k, case in enumerate(cases[1:], 1):
        y = np.where(np.equal(which, k), case, y)
    return y


def integer_pow(x: Value, *, y: int, **params: Any) -> Value:
    """Return x**y for an integer y."""
    return np.power(x, y) if y >= 0 or isinstance(x, Tracer) else np.power(x, float(y))


def round_(x: Value, *, rounding_method: Any, **params: Any) -> Value:
    """Return the nearest integer; halves round away from 0 or to even, by `rounding_method`."""
    if int(rounding_method) != AWAY_FROM_ZERO:
        return np.rint(x)
    below = np.trunc(x)
    return below + np.where(np.abs(x - below) >= 0.5, np.sign(x), 0.0)


def convert_type(x: Value, dtype: Any) -> Value:
    """Return a value as another type; real numbers stay float64, so that finite differences of them are accurate."""
    dtype = np.dtype(dtype)
    if isinstance(x, Tracer):
        if dtype.kind in "iu":
            return plain_value(np.trunc(x)).astype(dtype)
        if dtype.kind == "b":
            return np.not_equal(x, 0)
        return np.add(x, 0j) if dtype.kind == "c" else x
    return np.asarray(x).astype(dtype if dtype.kind in "iubc" else np.float64)


def bitcast_convert_type(x: Value, *, new_dtype: Any, **params: Any) -> Any:
    """Return the bits of a value as another type; a traced value becomes plain, and a test of its sign is recorded.

    Raises  NotSupported if the two types differ in size.
    """
    dtype = np.dtype(new_dtype)
    if isinstance(x, Tracer):
        np.less(x, 0)
    bits = np.asarray(plain_value(x))
    if bits.dtype.itemsize != dtype.itemsize:
        raise NotSupported(f"bitcast_convert_type from {bits.dtype} to {dtype} is not replayed", do="leave it out")
    y = bits.view(dtype)
    return y if dtype.kind in "iub" else y.astype(np.float64)


def polygamma(m: Value, x: Value) -> Value:
    """Return the m-th derivative of digamma. Raises NotSupported unless m is one untraced integer, 0 or more."""
    orders = np.unique(np.asarray(plain_value(m)))
    if isinstance(m, Tracer) or orders.size != 1 or orders[0] != np.floor(orders[0]) or orders[0] < 0:
        raise NotSupported("polygamma of orders that are not one plain whole number is not replayed", do="one order")
    n = int(orders[0])
    return primitive_by_name("digamma")(x) if n == 0 else primitive_by_name("polygamma")(x, n=n)


# fmt: off
FUNCTIONS: dict[str, Entry] = {
    "neg": np.negative, "add": np.add, "sub": np.subtract, "mul": np.multiply,
    "floor_divide": np.floor_divide, "rem": np.fmod, "remainder": np.remainder, "pow": np.power, "square": np.square,
    "reciprocal": np.reciprocal, "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x), "cbrt": np.cbrt, "hypot": np.hypot, "abs": np.abs, "sign": np.sign,
    "copysign": np.copysign, "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc,
    "max": np.maximum, "min": np.minimum, "fmax": np.fmax, "fmin": np.fmin,
    "exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log2": np.log2, "log10": np.log10, "log1p": np.log1p,
    "logaddexp": np.logaddexp, "logaddexp2": np.logaddexp2,
    "sin": np.sin, "cos": np.cos, "tan": np.tan, "sinc": np.sinc, "deg2rad": np.deg2rad, "rad2deg": np.rad2deg,
    "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "atan2": np.arctan2,
    "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "not": np.invert,
    "shift_left": np.left_shift, "shift_right_arithmetic": np.right_shift, "gcd": np.gcd, "lcm": np.lcm,
    "logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor, "logical_not": np.logical_not,
    "is_nan": np.isnan, "is_inf": np.isinf, "is_finite": np.isfinite, "is_posinf": np.isposinf, "is_neginf": np.isneginf,
    "signbit": np.signbit, "where": np.where, "clamp": lambda low, x, high: np.minimum(np.maximum(x, low), high),
    "real": np.real, "imag": np.imag, "conj": np.conjugate, "angle": np.angle, "complex": lambda re, im: re + 1j * im,
    "identity": lambda x: x, "polygamma": polygamma,
    "matmul": np.matmul, "dot": np.matmul, "outer": np.outer,
}
FUNCTIONS |= {ours: scipy_function(name) for ours, name in {
    "logistic": "expit", "erf": "erf", "erfc": "erfc", "erf_inv": "erfinv", "erfcx": "erfcx",
    "ndtr": "ndtr", "ndtri": "ndtri", "log_ndtr": "log_ndtr", "entr": "entr", "xlogy": "xlogy", "xlog1py": "xlog1py",
    "lgamma": "gammaln", "digamma": "digamma", "igamma": "gammainc", "igammac": "gammaincc",
    "regularized_incomplete_beta": "betainc",
    "bessel_i0": "i0", "bessel_i0e": "i0e", "bessel_i1": "i1", "bessel_i1e": "i1e", "bessel_j0": "j0", "bessel_j1": "j1",
    "bessel_y0": "y0", "bessel_y1": "y1", "bessel_k0": "k0", "bessel_k0e": "k0e", "bessel_k1": "k1", "bessel_k1e": "k1e",
}.items()}
_WITHOUT_PARAMS = by_framework_name(
    same="neg add sub mul rem pow square sqrt rsqrt cbrt abs sign floor ceil max min exp exp2 expm1 log log1p sin cos tan asin "
    "acos atan atan2 sinh cosh tanh asinh acosh atanh eq ne lt le gt ge and or xor not is_finite real imag conj complex clamp "
    "logistic erf erfc erf_inv lgamma digamma polygamma igamma igammac regularized_incomplete_beta bessel_i0e bessel_i1e",
    renamed="add_any=add lt_to=lt le_to=le eq_to=eq copy=identity copy_p=identity stop_gradient=identity "
    "reduce_precision=identity name=identity sharding_constraint=identity layout_constraint=identity reshard=identity",
)
TABLE: dict[str, Entry] = {
    **{name: ignore_params(function) for name, function in _WITHOUT_PARAMS.items()},
    "div": ignore_params(divide), "device_put": lambda *xs, **params: xs,
    "optimization_barrier": lambda *xs, **params: xs, "pvary": lambda *xs, **params: xs,
    "select_n": select_n, "integer_pow": integer_pow, "round": round_, "bitcast_convert_type": bitcast_convert_type,
    "convert_element_type": lambda x, *, new_dtype, **params: convert_type(x, new_dtype),
}
# fmt: on


# Reductions, running (cumulative) operations, argmax and argmin, and sorting.


def reduction_entry(function: Entry) -> Entry:
    """Return a table entry that reduces over `axes`."""
    return lambda x, *, axes, **params: function(x, axis=tuple(axes))


def running_entry(function: Entry) -> Entry:
    """Return an entry that accumulates along `axis`, from its end if `reverse`."""

    def run(x: Value, *, axis: int, reverse: bool = False, **params: Any) -> Value:
        x = np.flip(x, axis) if reverse else x
        y = function(x, axis=axis)
        return np.flip(y, axis) if reverse else y

    return run


def position_entry(function: Entry) -> Entry:
    """Return an entry that finds a position along one axis, such as that of the maximum."""
    return lambda x, *, axes, index_dtype, **params: np.asarray(function(x, axis=axes[0])).astype(index_dtype)


def sort(*operands: Value, dimension: int, num_keys: int, **params: Any) -> tuple[Value, ...]:
    """Sort all operands by the first `num_keys` of them; the first is the primary key, and the sort is stable."""
    order: Any = None
    for key in reversed(operands[:num_keys]):
        seen = key if order is None else np.take_along_axis(key, order, dimension)
        step = np.argsort(seen, axis=dimension, kind="stable")
        order = step if order is None else np.take_along_axis(order, step, dimension)
    return tuple(np.take_along_axis(x, order, dimension) for x in operands)


def top_k(x: Value, *, k: int, axis: int = -1, **params: Any) -> tuple[Value, Any]:
    """Return the k largest entries along an axis, from the largest, and their positions."""
    order = np.take(np.argsort(-x, axis=axis, kind="stable"), np.arange(k), axis=axis)
    return np.take_along_axis(x, order, axis), order


REDUCTIONS: dict[str, Entry] = {
    "reduce_sum": reduction_entry(np.sum), "reduce_prod": reduction_entry(np.prod), "reduce_max": reduction_entry(np.max),
    "reduce_min": reduction_entry(np.min), "reduce_xor": reduction_entry(np.bitwise_xor.reduce),
    "reduce_and": reduction_entry(np.all), "reduce_or": reduction_entry(np.any),
    "argmax": position_entry(np.argmax), "argmin": position_entry(np.argmin),
    "cumsum": running_entry(np.cumsum), "cumprod": running_entry(np.cumprod),
    "cummax": running_entry(np.maximum.accumulate), "cummin": running_entry(np.minimum.accumulate),
    "cumlogsumexp": running_entry(np.logaddexp.accumulate),
    "sort": sort, "top_k": top_k,
}  # fmt: skip
