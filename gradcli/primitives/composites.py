"""Functions with a body made of primitives: numpy's own, and the activations and losses of machine learning."""

from typing import Any

import numpy as np

from gradcli.core import shapes
from gradcli.core.bind import handles
from gradcli.core.primitive import Value, named
from gradcli.core.shapes import shape
from gradcli.core.tracer import Tracer, exact, plain
from gradcli.primitives.elementwise import ln, pi
from gradcli.primitives.reductions import log_softmax


@handles(np.clip)
def clip(a: Value, a_min: Value = None, a_max: Value = None, *, min: Value = None, max: Value = None) -> Value:
    """Return min(max(a, a_min), a_max)."""
    low, high = a_min if min is None else min, a_max if max is None else max
    y = a if low is None else np.maximum(a, low)
    return y if high is None else np.minimum(y, high)


@handles(np.sinc)
def sinc(x: Value) -> Value:
    """Return sin(pi x) / (pi x), 1 at 0."""
    t = pi(x) * x
    origin = np.equal(plain(t), 0)
    safe = np.where(origin, 1.0, t)
    q = t * t
    series = 1.0 - q / 6 * (
        1.0 - q / 20 * (1.0 - q / 42 * (1.0 - q / 72))
    )  # exact in value, and to the ninth derivative
    return np.where(origin, series, np.sin(safe) / safe)


@handles(np.logaddexp2)
def logaddexp2(a: Value, b: Value) -> Value:
    ln2 = ln(2, a)
    return np.logaddexp(a * ln2, b * ln2) / ln2


@handles(np.diff)
def diff(a: Value, n: int = 1, axis: int = -1) -> Value:
    k = shapes.axes(axis, len(shape(a)))[0]
    for _ in range(n):
        lead = (slice(None),) * k
        a = a[(*lead, slice(1, None))] - a[(*lead, slice(None, -1))]
    return a


@handles(np.round, np.around)
def round_(a: Value, decimals: int = 0) -> Value:
    scale = 10.0**decimals
    return np.rint(a * scale) / scale


@handles(np.argmax)
def argmax(a: Value, axis: Any = None) -> Any:
    return np.argmax(plain(a), axis=axis)


@handles(np.argmin)
def argmin(a: Value, axis: Any = None) -> Any:
    return np.argmin(plain(a), axis=axis)


@handles(np.any)
def any_(a: Value, axis: Any = None) -> Any:
    return np.any(np.not_equal(a, 0), axis=axis)


@handles(np.all)
def all_(a: Value, axis: Any = None) -> Any:
    return np.all(np.not_equal(a, 0), axis=axis)


def _held(x: Value, like: Value) -> Value:
    """Return an array as a value of the sweep of `like`, so that traced values can be written into it."""
    return like.hold(x) if isinstance(like, Tracer) and shape(x) else x


@handles(np.zeros_like, np.empty_like)
def zeros_like(a: Value, dtype: Any = None) -> Any:
    return _held(shapes.zeros_like(a), a)


@handles(np.ones_like)
def ones_like(a: Value, dtype: Any = None) -> Any:
    return _held(shapes.zeros_like(a) + 1.0, a)


@handles(np.full_like)
def full_like(a: Value, fill_value: Value, dtype: Any = None) -> Any:
    return np.broadcast_to(fill_value, shape(a)) if shape(a) else fill_value


@handles(np.shape)
def shape_(a: Value) -> tuple[int, ...]:
    return shape(a)


@handles(np.ndim)
def ndim(a: Value) -> int:
    return len(shape(a))


@handles(np.size)
def size(a: Value, axis: int | None = None) -> int:
    return shapes.size(a) if axis is None else shape(a)[axis]


@handles(np.copy)
def copy(a: Value) -> Value:
    return np.positive(a)


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
    """Return the cross entropy of logits `z` with `y` (one-hot, probabilities or class indices), the mean over rows."""
    logp = log_softmax(z, axis)
    if len(shape(y)) == len(shape(z)) - 1:
        y = _one_hot(y, z, axis)
    rows = shapes.size(z) / shape(z)[axis]
    return -np.sum(y * logp) / rows


def _one_hot(y: Value, z: Value, axis: int) -> Any:
    classes = shape(z)[axis]
    labels = np.asarray(plain(y))
    if np.any(labels != np.floor(labels)) or np.any((labels < 0) | (labels >= classes)):
        raise ValueError(f"class indices are whole numbers from 0 to {classes - 1}, not differentiated: --wrt z")
    return np.moveaxis(np.eye(classes)[labels.astype(int)], -1, axis)


def layer_norm(x: Value, w: Value = 1.0, b: Value = 0.0, eps: float = 1e-5) -> Value:
    """Return w * (x - mean) / sqrt(var + eps) + b over the last axis."""
    centred = x - np.mean(x, axis=-1, keepdims=True)
    spread = np.mean(np.square(centred), axis=-1, keepdims=True)
    return w * centred / np.sqrt(spread + eps) + b
