"""Activation functions of neural networks."""

from typing import Any

import numpy as np

from gradcli.frameworks.torch.aten.rows import aten, axis, refuse, register
from gradcli.rules import composites
from gradcli.rules.composites import relu, sigmoid, silu, softplus
from gradcli.rules.reductions import log_softmax, softmax
from gradcli.tracing.primitive import Value, named
from gradcli.tracing.shapes import shape, size

SELU = (1.6732632423543772848170429916717, 1.0507009873554804934193349852946)  # Klambauer et al. (2017), equation 14


def _exponential(x: Value, alpha: float, scale: float = 1, input_scale: float = 1) -> Value:
    """Return scale * x right of 0, and scale * alpha * expm1(input_scale * x) left of it."""
    left = np.expm1(input_scale * np.where(np.greater(x, 0), 0.0, x))
    return np.where(np.greater(x, 0), scale * x, scale * alpha * left)


# fmt: off
register({
    "relu": relu, "sigmoid": sigmoid, "silu": silu, "mish": lambda x: x * np.tanh(softplus(x)),
    "gelu": lambda x, *, approximate="none": composites.gelu(x, approximate),
    "hardtanh": lambda x, low=-1, high=1: np.clip(x, low, high), 
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6, 
    "log_sigmoid_forward": lambda x: (named("log_expit")(x), None), "log_sigmoid": named("log_expit"),
    "elu": lambda x, alpha=1, scale=1, input_scale=1: _exponential(x, alpha, scale, input_scale),
    "leaky_relu": lambda x, slope=0.01: np.where(np.greater(x, 0), x, slope * x),
    "softshrink": lambda x, lambd=0.5: relu(x - lambd) - relu(-x - lambd),
    "hardshrink": lambda x, lambd=0.5: np.where(np.greater(np.abs(x), lambd), x, 0.0),
})
# fmt: on


@aten("softplus")
def _softplus(x: Value, beta: float = 1, threshold: float = 20) -> Value:
    """Return log(1 + exp(beta x)) / beta, or x where beta x is above the threshold, as torch does."""
    z = beta * x
    return np.where(np.greater(z, threshold), x, softplus(z) / beta)


@aten()
def rrelu_with_noise(
    x: Value, noise: Value, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, generator: Any = None
) -> Value:
    """Return x right of 0, and x times the mean slope left of it. Raises NoRule in training, where slopes are drawn."""
    if training:
        raise refuse("rrelu in training", do="model.eval()")
    return np.where(np.greater(x, 0), x, (lower + upper) / 2 * x)


@aten("_softmax", "softmax")
def _softmax(x: Value, dim: int, half_to_float: Any = False) -> Value:
    """Return exp(x) / sum(exp(x)) along an axis."""
    return softmax(x, axis(dim, len(shape(x))) if shape(x) else None) if size(x) else x


@aten("_log_softmax", "log_softmax")
def _log_softmax(x: Value, dim: int, half_to_float: Any = False) -> Value:
    """Return log(softmax(x)) along an axis."""
    return log_softmax(x, axis(dim, len(shape(x))) if shape(x) else None) if size(x) else x
