"""Functions composed of primitives: some of numpy's, and the activations and losses of machine learning."""

from typing import Any

import numpy as np

from gradcli.rules.elementwise import ln, pi
from gradcli.rules.options import given, given_or, stored
from gradcli.rules.reductions import log_softmax
from gradcli.rules.shaping import as_value
from gradcli.tracing import shapes
from gradcli.tracing.bind import handles
from gradcli.tracing.primitive import Value, named
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import Tracer, exact, plain
from gradcli.tracing.unmoving import is_zero


@handles(np.clip)
def clip(
    a: Value, a_min: Value = None, a_max: Value = None, out: Any = None, *, min: Value = None, max: Value = None
) -> Value:
    """Return min(max(a, a_min), a_max)."""
    low, high = given_or(min, given_or(a_min, None)), given_or(max, given_or(a_max, None))
    y = np.positive(as_value(a)) if low is None else np.maximum(as_value(a), low)
    return stored(out, y if high is None else np.minimum(y, high))


@handles(np.sinc)
def sinc(x: Value) -> Value:
    """Return sin(pi x) / (pi x), 1 at 0."""
    t = pi(x) * x
    origin = is_zero(t)
    safe = np.where(origin, 1.0, t)
    q = t * t
    series = 1.0 - q / 6 * (1.0 - q / 20 * (1.0 - q / 42 * (1.0 - q / 72)))  # at 0, exact up to the ninth derivative
    return np.where(origin, series, np.sin(safe) / safe)


@handles(np.logaddexp2)
def logaddexp2(a: Value, b: Value) -> Value:
    ln2 = ln(2, a)
    return np.logaddexp(a * ln2, b * ln2) / ln2


@handles(np.round, np.around)
def round_(a: Value, decimals: int = 0, out: Any = None) -> Value:
    x, scale = as_value(a), 10.0 ** abs(decimals)
    y = np.rint(x) if not decimals else np.rint(x * scale) / scale if decimals > 0 else np.rint(x / scale) * scale
    return stored(out, y)


@handles(np.fix)
def fix(x: Value, out: Any = None) -> Value:
    return stored(out, np.trunc(as_value(x)))


def _held(x: Value, like: Value) -> Value:
    """Return an array as a value of the sweep of `like`, so that traced values can be written into it."""
    return like.hold(x) if isinstance(like, Tracer) and np.ndim(x) and np.asarray(x).dtype.kind in "fc" else x


def _filled(a: Value, number: float, dtype: Any, to: Any) -> Any:
    wanted = shape(a) if not given(to) else to
    return _held(np.full(wanted, number, dtype=getattr(a, "dtype", None) if not given(dtype) else dtype)[()], a)


@handles(np.zeros_like, np.empty_like)
def zeros_like(
    a: Value, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, **device: Any
) -> Any:
    return _filled(a, 0.0, dtype, shape)


@handles(np.ones_like)
def ones_like(
    a: Value, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None, **device: Any
) -> Any:
    return _filled(a, 1.0, dtype, shape)


@handles(np.full_like)
def full_like(
    a: Value,
    fill_value: Value,
    dtype: Any = None,
    order: str = "K",
    subok: bool = True,
    shape: Any = None,
    **device: Any,
) -> Any:
    if not isinstance(fill_value, Tracer):
        return _filled(a, fill_value, dtype, shape)
    wanted = shapes.shape(a) if not given(shape) else shape
    return np.positive(np.broadcast_to(fill_value, wanted)) if wanted != () else fill_value


@handles(np.copy)
def copy(a: Value, order: str = "K", subok: bool = False) -> Value:
    return np.positive(as_value(a))


@handles(getattr(np, "astype", None))
def astype(x: Value, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Value:
    return x.astype(dtype, copy=copy)


@handles(np.real_if_close)
def real_if_close(a: Value, tol: float = 100) -> Value:
    return as_value(a)


@handles(np.i0)
def i0(x: Value) -> Value:
    return named("i0")(as_value(x))


def relu(x: Value) -> Value:
    """Return max(x, 0), with slope 0 at 0."""
    return named("relu")(x)


def sigmoid(x: Value) -> Value:
    """Return 1 / (1 + exp(-x))."""
    return named("expit")(x)


def softplus(x: Value) -> Value:
    """Return log(1 + exp(x))."""
    return named("logaddexp")(x, np.float64(0))


def silu(x: Value) -> Value:
    """Return x * sigmoid(x)."""
    return x * sigmoid(x)


def gelu(x: Value, approximate: str = "none") -> Value:
    """Return x times the normal distribution function of x, exact (erf) or by the tanh formula.

    Raises  ValueError if `approximate` is neither 'none' nor 'tanh'.
    Source  Hendrycks and Gimpel (2016), arXiv 1606.08415.
    """
    if approximate == "tanh":
        return 0.5 * x * (1 + named("tanh")(np.sqrt(2 / pi(x)) * (x + 0.044715 * x**3)))
    if approximate != "none":
        raise ValueError("gelu takes approximate='none' or approximate='tanh'")
    return 0.5 * x * named("erfc")(-x / np.sqrt(exact(2, x)))


def mse(a: Value, b: Value) -> Value:
    """Return mean((a - b)**2)."""
    return np.mean(np.square(a - b))


def cross_entropy(z: Value, y: Value, axis: int = -1) -> Value:
    """Return the cross entropy of logits `z` with targets `y`, the mean over rows.

    The targets are one-hot rows, probabilities, or class indices.

    Shapes  `z` has the classes along `axis`; `y` has the shape of `z`, or for class indices that shape without `axis`.
    Raises  ValueError for class indices that are not integers from 0 to the number of classes - 1.
    """
    logp = log_softmax(z, axis)
    if len(shape(y)) == len(shape(z)) - 1:
        y = _one_hot(y, z, axis)
    rows = shapes.size(z) / shape(z)[axis]
    return -np.sum(y * logp) / rows


def _one_hot(y: Value, z: Value, axis: int) -> Any:
    classes = shape(z)[axis]
    labels = np.asarray(plain(y))
    if np.any(labels != np.floor(labels)) or np.any((labels < 0) | (labels >= classes)):
        raise ValueError(f"class indices are whole numbers from 0 to {classes - 1}, and no derivative by them exists")
    places = y if isinstance(y, Tracer) else labels
    return np.moveaxis((places[..., None] == np.arange(classes, dtype=float)) * 1.0, -1, axis)


def layer_norm(x: Value, w: Value = 1.0, b: Value = 0.0, eps: float = 1e-5) -> Value:
    """Return w * (x - mean) / sqrt(var + eps) + b over the last axis.

    Shapes  `w` and `b` broadcast with x.
    """
    centred = x - np.mean(x, axis=-1, keepdims=True)
    spread = np.mean(np.square(centred), axis=-1, keepdims=True)
    return w * centred / np.sqrt(spread + eps) + b
