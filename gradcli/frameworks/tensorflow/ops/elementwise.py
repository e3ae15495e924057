"""Operations that work entry by entry, with numpy's rules of broadcasting.

`StopGradient` and the like are the identity: they change what TensorFlow differentiates, not the function.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.core.primitive import Value, named
from gradcli.core.shapes import shape
from gradcli.core.tracer import Tracer, plain
from gradcli.errors import NotSupported

Entry = Callable[..., Any]
SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


def plainly(function: Entry) -> Entry:
    """Return an entry that takes no notice of the attributes (types, ...)."""
    return lambda *xs, **attrs: function(*xs)


def plain_entries(functions: dict[str, Any]) -> dict[str, Entry]:
    """Return entries that are functions of their inputs alone."""
    return {name: plainly(function) for name, function in functions.items()}


def special(name: str) -> Entry:
    """Return an entry that is a function of scipy.special, by its name among gradcli's primitives."""
    return lambda *xs, **attrs: named(name)(*xs)


def whole(x: Value) -> bool:
    """Whether a value is of integers."""
    return not isinstance(x, Tracer) and np.asarray(x).dtype.kind in "iu"


def truncated(x: Value, y: Value) -> Value:
    """Return x / y rounded towards 0."""
    return (x - np.fmod(x, y)) // y if whole(x) else np.trunc(x / y)


def divide(x: Value, y: Value) -> Value:
    """Return x / y; of integers, rounded towards 0."""
    return truncated(x, y) if whole(x) else np.divide(x, y)


def unless_0(function: Entry) -> Entry:
    """Return f(x, y) with 0 where the operand y is 0, and y kept from 0 there."""

    def guarded(x: Value, y: Value) -> Value:
        none = np.equal(y, 0)
        return np.where(none, 0.0, function(x, np.where(none, 1.0, y)))

    return guarded


def nothing_of(function: Entry) -> Entry:
    """Return f(x, y) with 0 where x is 0, also where y makes that infinite or no number."""

    def guarded(x: Value, y: Value) -> Value:
        edge = np.equal(plain(x), 0) & ~np.isfinite(function(plain(x), plain(y)))
        return function(x, np.where(edge, 1.0, y) if np.any(edge) else y)

    return guarded


def elu(x: Value) -> Value:
    """Return x, or exp(x) - 1 below 0."""
    above = np.greater_equal(x, 0)
    return np.where(above, x, np.expm1(np.where(above, 0.0, x)))


def selu(x: Value) -> Value:
    """Return the scaled exponential linear unit."""
    above = np.greater_equal(x, 0)
    return SELU_SCALE * np.where(above, x, SELU_ALPHA * np.expm1(np.where(above, 0.0, x)))


def leaky_relu(x: Value, *, alpha: float = 0.2, **attrs: Any) -> Value:
    """Return x, or alpha x below 0."""
    return np.where(np.greater(x, 0), x, alpha * x)


def cast(x: Value, *, DstT: Any, **attrs: Any) -> Value:
    """Return a value as another type; real numbers stay float64, plain ones rounded as their type would round them."""
    dtype = np.dtype(DstT.as_numpy_dtype)
    if isinstance(x, Tracer):
        if dtype.kind in "iu":
            return plain(np.trunc(x)).astype(dtype)
        if dtype.kind == "b":
            return np.not_equal(x, 0)
        return np.add(x, 0j) if dtype.kind == "c" else x
    y = np.asarray(x).astype(dtype)
    return y if dtype.kind in "iubc" else y.astype(np.float64)


def select(condition: Any, x: Value, y: Value, **attrs: Any) -> Value:
    """Return x where the condition holds and y elsewhere; a vector chooses among whole rows."""
    grown = np.shape(condition) + (1,) * (len(shape(x)) - np.ndim(condition))
    return np.where(np.reshape(condition, grown) if np.shape(condition) else condition, x, y)


def polygamma(m: Value, x: Value, **attrs: Any) -> Value:
    """Return the m-th derivative of digamma. Raises NotSupported for orders that differ, or are no plain whole number."""
    orders = np.unique(np.asarray(plain(m)))
    if isinstance(m, Tracer) or orders.size != 1 or orders[0] != np.floor(orders[0]) or orders[0] < 0:
        raise NotSupported("polygamma of orders that are not one plain whole number is not replayed", do="one order")
    n = int(orders[0])
    return named("digamma")(x) if n == 0 else named("polygamma")(x, n=n)


def power(x: Value, y: Value) -> Value:
    """Return x**y; one exponent for all entries is a fact of the program."""
    if not isinstance(y, Tracer) and np.ndim(y) and np.size(y) and np.all(y == np.ravel(y)[0]):
        same = np.broadcast_shapes(shape(x), np.shape(y)) == shape(x)
        y = np.ravel(y)[0] if same else y
    return np.power(x, y)


def sigmoid_grad(y: Value, ybar: Value) -> Value:
    """Return the cotangent through a sigmoid whose value is y."""
    return ybar * y * (1 - y)


# fmt: off
IDENTITIES = (
    "Identity", "StopGradient", "PreventGradient", "CheckNumerics", "CheckNumericsV2", "Snapshot", "EnsureShape",
    "PlaceholderWithDefault", "ReadVariableOp",
)
TABLE: dict[str, Entry] = {
    **{name: plainly(lambda x: x) for name in IDENTITIES},
    "IdentityN": lambda *xs, **attrs: xs,
    **plain_entries({
        "Neg": np.negative, "Add": np.add, "AddV2": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": divide,
        "RealDiv": np.divide,
        "TruncateDiv": truncated, "FloorDiv": np.floor_divide, "FloorMod": np.remainder, "Mod": np.fmod, "TruncateMod": np.fmod,
        "DivNoNan": unless_0(np.divide), "MulNoNan": lambda x, y: nothing_of(np.multiply)(y, x), "Xdivy": nothing_of(np.divide),
        "Xlogy": nothing_of(special("xlogy")), "Xlog1py": nothing_of(special("xlog1py")), "Pow": power, "Square": np.square,
        "SquaredDifference": lambda x, y: np.square(x - y), "Sqrt": np.sqrt, "Rsqrt": lambda x: 1 / np.sqrt(x),
        "Reciprocal": np.reciprocal, "Inv": np.reciprocal, "Abs": np.abs, "Sign": np.sign, "Floor": np.floor, "Ceil": np.ceil,
        "Round": np.rint, "Rint": np.rint, "Maximum": np.maximum, "Minimum": np.minimum,
        "Exp": np.exp, "Expm1": np.expm1, "Log": np.log, "Log1p": np.log1p,
        "Sin": np.sin, "Cos": np.cos, "Tan": np.tan, "Asin": np.arcsin, "Acos": np.arccos, "Atan": np.arctan,
        "Atan2": np.arctan2,
        "Sinh": np.sinh, "Cosh": np.cosh, "Tanh": np.tanh, "Asinh": np.arcsinh, "Acosh": np.arccosh, "Atanh": np.arctanh,
        "Equal": np.equal, "NotEqual": np.not_equal, "Less": np.less, "LessEqual": np.less_equal, "Greater": np.greater,
        "GreaterEqual": np.greater_equal, "LogicalAnd": np.logical_and, "LogicalOr": np.logical_or, "LogicalNot": np.logical_not,
        "IsNan": np.isnan, "IsInf": np.isinf, "IsFinite": np.isfinite, "SelectV2": np.where,
        "ClipByValue": lambda x, low, high: np.minimum(np.maximum(x, low), high),
        "Complex": lambda re, im: re + 1j * im, "Real": np.real, "Imag": np.imag, "Conj": np.conjugate, "ComplexAbs": np.abs,
        "Angle": np.angle,
        "Elu": elu, "Selu": selu, "Softsign": lambda x: x / (1 + np.abs(x)), "Softplus": lambda x: np.logaddexp(x, 0.0),
        "Relu6": lambda x: np.minimum(named("relu")(x), 6.0),
        "BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor, "Invert": np.invert,
        # cotangents, which a gradient taken inside the function leaves in its graph
        "SigmoidGrad": sigmoid_grad, "TanhGrad": lambda y, ybar: ybar * (1 - np.square(y)),
        "SqrtGrad": lambda y, ybar: 0.5 * ybar / y,
        "RsqrtGrad": lambda y, ybar: -0.5 * ybar * y**3, "ReciprocalGrad": lambda y, ybar: -ybar * np.square(y),
        "InvGrad": lambda y, ybar: -ybar * np.square(y), "ReluGrad": lambda ybar, x: np.where(np.greater(x, 0), ybar, 0.0),
        "SoftplusGrad": lambda ybar, x: ybar * named("expit")(x), "SoftsignGrad": lambda ybar, x: ybar / np.square(1 + np.abs(x)),
        "EluGrad": lambda ybar, y: np.where(np.less(y, 0), ybar * (y + 1), ybar),
        "SeluGrad": lambda ybar, y: np.where(np.less(y, 0), ybar * (y + SELU_SCALE * SELU_ALPHA), ybar * SELU_SCALE),
        "Relu6Grad": lambda ybar, x: np.where(np.greater(x, 0) & np.less(x, 6), ybar, 0.0),
    }),
    "LeakyRelu": leaky_relu, "Cast": cast, "Select": select, "Polygamma": polygamma,
    "LeakyReluGrad": lambda ybar, x, *, alpha=0.2, **attrs: np.where(np.greater(x, 0), ybar, alpha * ybar),
    **{name: special(own) for name, own in {
        "Relu": "relu", "Sigmoid": "expit", "Erf": "erf", "Erfc": "erfc", "Erfinv": "erfinv", "Ndtri": "ndtri",
        "Lgamma": "gammaln",
        "Digamma": "digamma", "Igamma": "gammainc", "Igammac": "gammaincc", "Betainc": "betainc", "Dawsn": "dawsn",
        "Expint": "expi",
        "FresnelSin": "fresnel_s", "FresnelCos": "fresnel_c", "Spence": "spence",
        "BesselI0": "i0", "BesselI0e": "i0e", "BesselI1": "i1", "BesselI1e": "i1e", "BesselJ0": "j0", "BesselJ1": "j1",
        "BesselY0": "y0", "BesselY1": "y1", "BesselK0": "k0", "BesselK0e": "k0e", "BesselK1": "k1", "BesselK1e": "k1e",
    }.items()},
}
# fmt: on
