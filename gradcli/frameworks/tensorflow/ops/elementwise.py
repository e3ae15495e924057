"""Elementwise operations, with numpy's broadcasting.

`StopGradient` and the like are the identity here: they change what TensorFlow differentiates, not the function's value.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.core.primitive import Value, named
from gradcli.core.shapes import shape
from gradcli.core.tracer import Tracer, plain
from gradcli.frameworks.ops.elementwise import (
    FUNCTIONS,
    by_framework_name,
    camel,
    converted,
    holds_integers,
    ignoring_params,
    plain_entries,
    truncated,
)

Entry = Callable[..., Any]
SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717


def divide(x: Value, y: Value) -> Value:
    """Return x / y; integer quotients are rounded towards 0."""
    return truncated(x, y) if holds_integers(x) else np.divide(x, y)


def unless_0(function: Entry) -> Entry:
    """Return a version of f(x, y) that gives 0 where y is 0, and never evaluates f there."""

    def guarded(x: Value, y: Value) -> Value:
        none = np.equal(y, 0)
        return np.where(none, 0.0, function(x, np.where(none, 1.0, y)))

    return guarded


def nothing_of(function: Entry) -> Entry:
    """Return a version of f(x, y) that gives 0 where x is 0, even if y makes f infinite or nan."""

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
    """Return a value as another type; real numbers stay float64, and untraced ones are first rounded to the type."""
    dtype = DstT.as_numpy_dtype
    return converted(x if isinstance(x, Tracer) else np.asarray(x).astype(dtype), dtype)


def select(condition: Any, x: Value, y: Value, **attrs: Any) -> Value:
    """Return x where the condition holds and y elsewhere; a condition that is a vector selects whole rows."""
    grown = np.shape(condition) + (1,) * (len(shape(x)) - np.ndim(condition))
    return np.where(np.reshape(condition, grown) if np.shape(condition) else condition, x, y)


def power(x: Value, y: Value) -> Value:
    """Return x**y; an array of equal exponents is passed as one number, so that the rule for constants applies."""
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
    **{name: ignoring_params(lambda x: x) for name in IDENTITIES},
    "IdentityN": lambda *xs, **attrs: xs,
    **plain_entries(by_framework_name(
        same="neg add sub mul truncate_div square squared_difference sqrt rsqrt reciprocal abs sign floor ceil rint exp expm1 "
        "log log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh logical_and logical_or logical_not "
        "is_nan is_inf is_finite complex real imag conj angle softplus softsign relu erf erfc ndtri lgamma digamma polygamma "
        "igamma igammac dawsn spence bessel_i0 bessel_i0e bessel_i1 bessel_i1e bessel_j0 bessel_j1 bessel_y0 bessel_y1 "
        "bessel_k0 bessel_k0e bessel_k1 bessel_k1e",
        renamed="AddV2=add RealDiv=div FloorDiv=floor_divide FloorMod=remainder Mod=rem TruncateMod=rem Inv=reciprocal "
        "Round=rint Maximum=max Minimum=min Equal=eq NotEqual=ne Less=lt LessEqual=le Greater=gt GreaterEqual=ge SelectV2=where "
        "ComplexAbs=abs BitwiseAnd=and BitwiseOr=or BitwiseXor=xor Invert=not Sigmoid=logistic Erfinv=erf_inv "
        "Betainc=regularized_incomplete_beta Expint=expi FresnelSin=fresnel_s FresnelCos=fresnel_c",
        spelled=camel,
    ) | {
        "Div": divide, "DivNoNan": unless_0(np.divide), "MulNoNan": lambda x, y: nothing_of(np.multiply)(y, x),
        "Xdivy": nothing_of(np.divide), "Xlogy": nothing_of(FUNCTIONS["xlogy"]), "Xlog1py": nothing_of(FUNCTIONS["xlog1py"]),
        "Pow": power, "ClipByValue": lambda x, low, high: np.minimum(np.maximum(x, low), high), "Elu": elu, "Selu": selu,
        "Relu6": lambda x: np.minimum(named("relu")(x), 6.0),
        # backward operations, which are in the graph if the function computes a gradient itself
        "SigmoidGrad": sigmoid_grad, "TanhGrad": lambda y, ybar: ybar * (1 - np.square(y)),
        "SqrtGrad": lambda y, ybar: 0.5 * ybar / y,
        "RsqrtGrad": lambda y, ybar: -0.5 * ybar * y**3, "ReciprocalGrad": lambda y, ybar: -ybar * np.square(y),
        "InvGrad": lambda y, ybar: -ybar * np.square(y), "ReluGrad": lambda ybar, x: np.where(np.greater(x, 0), ybar, 0.0),
        "SoftplusGrad": lambda ybar, x: ybar * named("expit")(x), "SoftsignGrad": lambda ybar, x: ybar / np.square(1 + np.abs(x)),
        "EluGrad": lambda ybar, y: np.where(np.less(y, 0), ybar * (y + 1), ybar),
        "SeluGrad": lambda ybar, y: np.where(np.less(y, 0), ybar * (y + SELU_SCALE * SELU_ALPHA), ybar * SELU_SCALE),
        "Relu6Grad": lambda ybar, x: np.where(np.greater(x, 0) & np.less(x, 6), ybar, 0.0),
    }),
    "LeakyRelu": leaky_relu, "Cast": cast, "Select": select,
    "LeakyReluGrad": lambda ybar, x, *, alpha=0.2, **attrs: np.where(np.greater(x, 0), ybar, alpha * ybar),
}
# fmt: on
