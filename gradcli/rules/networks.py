"""Activations and layers of neural networks, as torch.nn.functional has them; what torch calls `dim` is `axis` here.

Each is made of primitives, so that its kinks are theirs. At a kink the slope is the one that the branch at that point has.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.rules.composites import relu, sigmoid, softplus
from gradcli.rules.elementwise import ln, pi
from gradcli.rules.reductions import logsumexp, reduce_loss, softmax
from gradcli.tracing import shapes
from gradcli.tracing.primitive import F, Value
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import exact_integer, plain_value

# Losses as torch.nn.functional has them: of a value and its target, by default the mean over all entries.
#
# `reduction` is 'mean', 'sum', or 'none' for the loss of each entry.


def smooth_l1_loss(x: Value, y: Value, reduction: str = "mean", beta: Value = 1.0) -> Value:
    """Return the mean of d**2 / (2 beta) where d = |x - y| is below beta, and of d - beta / 2 elsewhere."""
    d = x - y
    near = np.less(np.abs(d), beta)
    quadratic = np.square(d) / (2 * np.where(np.equal(beta, 0), 1.0, beta))
    return reduce_loss(np.where(near, quadratic, np.abs(d) - beta / 2), reduction)


def huber_loss(x: Value, y: Value, reduction: str = "mean", delta: Value = 1.0) -> Value:
    """Return the mean of d**2 / 2 where d = |x - y| is at most delta, and of delta * (d - delta / 2) elsewhere."""
    d = x - y
    near = np.less_equal(np.abs(d), delta)
    return reduce_loss(np.where(near, np.square(d) / 2, delta * (np.abs(d) - delta / 2)), reduction)


def poisson_nll_loss(x: Value, y: Value, log_input: bool = True, eps: Value = 1e-8, reduction: str = "mean") -> Value:
    """Return the mean of exp(x) - y * x, or of x - y * log(x + eps) where x is not a logarithm (log_input=False)."""
    return reduce_loss(np.exp(x) - y * x if log_input else x - y * np.log(x + eps), reduction)


def gaussian_nll_loss(
    x: Value, y: Value, var: Value, full: bool = False, eps: Value = 1e-6, reduction: str = "mean"
) -> Value:
    """Return the mean of (log(var) + (x - y)**2 / var) / 2, with var at least eps; `full` adds log(2 pi) / 2."""
    spread = np.maximum(var, eps)
    loss = (np.log(spread) + np.square(x - y) / spread) / 2
    return reduce_loss(loss + (ln(2, x) + np.log(pi(x))) / 2 if full else loss, reduction)


def binary_cross_entropy_with_logits(z: Value, y: Value, reduction: str = "mean", pos_weight: Value = 1.0) -> Value:
    """Return the mean of -pos_weight * y * log(s) - (1 - y) * log(1 - s), s the sigmoid of the logits z."""
    return reduce_loss((1.0 - y) * z + (1.0 + (pos_weight - 1.0) * y) * softplus(-z), reduction)


def kl_div_loss(logp: Value, y: Value, reduction: str = "mean", log_target: bool = False) -> Value:
    """Return the mean of y * (log(y) - logp), for log-probabilities; reduction='batchmean' divides the sum by the rows."""
    loss = np.exp(y) * (y - logp) if log_target else F.xlogy(y, y) - y * logp
    if reduction == "batchmean":
        return np.sum(loss) / (shape(loss)[0] if shape(loss) else 1)
    return reduce_loss(loss, reduction)


SELU_SCALE, SELU_ALPHA = 1.0507009873554804934193349852946, 1.6732632423543772848170429916717
EPSILON = float(np.finfo(np.float64).eps)
_MASKED = -1e300  # a score whose exponential is 0, and which is finite, so that balls compute with it


# Activations, entry by entry.


def elu(x: Value, alpha: Value = 1.0) -> Value:
    """Return x for x > 0, else alpha * (exp(x) - 1)."""
    positive = np.greater(x, 0)
    return np.where(positive, x, alpha * np.expm1(np.where(positive, 0.0, x)))


def celu(x: Value, alpha: Value = 1.0) -> Value:
    """Return x for x > 0, else alpha * (exp(x / alpha) - 1)."""
    positive = np.greater(x, 0)
    return np.where(positive, x, alpha * np.expm1(np.where(positive, 0.0, x) / alpha))


def leaky_relu(x: Value, negative_slope: Value = 0.01) -> Value:
    """Return x for x > 0, else negative_slope * x."""
    return np.where(np.greater(x, 0), x, negative_slope * x)


def prelu(x: Value, weight: Value) -> Value:
    """Return x for x > 0, else weight * x; a vector of weights belongs to axis 1, the channels."""
    several = len(shape(weight)) == 1 and len(shape(x)) > 2 and shapes.size(weight) > 1
    return leaky_relu(x, _align_with_channels(weight, x) if several else weight)


def relu6(x: Value) -> Value:
    """Return min(relu(x), 6)."""
    return np.minimum(relu(x), 6.0)


# Activations of a whole axis.


def softmin(x: Value, axis: Any = None) -> Value:
    """Return softmax(-x) along the axes (by default all of them)."""
    return softmax(-x, axis)


def glu(x: Value, axis: int = -1) -> Value:
    """Return a * sigmoid(b) for the first half a and the second half b of an axis.

    Raises  ValueError if the axis has an odd length.
    """
    k = shapes.normalise_axis(axis, len(shape(x)))
    n = shape(x)[k]
    if n % 2:
        raise ValueError(f"the axis has the odd length {n}")
    lead = (slice(None),) * k
    return x[(*lead, slice(0, n // 2))] * sigmoid(x[(*lead, slice(n // 2, n))])


# Normalisations.


def _normalise(x: Value, over: tuple[int, ...], eps: Value) -> Value:
    centred = x - np.mean(x, axis=over, keepdims=True)
    return centred / np.sqrt(np.mean(np.square(centred), axis=over, keepdims=True) + eps)


def _align_with_channels(w: Value, x: Value) -> Value:
    """Return a weight of each channel so that it broadcasts with `x`, whose axis 1 holds the channels."""
    return np.reshape(w, (-1, *(1,) * (len(shape(x)) - 2))) if len(shape(w)) == 1 else w


def _require_channels(x: Value, least: int) -> tuple[int, ...]:
    have = shape(x)
    if len(have) < least:
        axes = "(rows, channels, places...)" if least > 2 else "(rows, channels) or (rows, channels, places...)"
        raise ValueError(f"its axes are {axes}")
    return have


def batch_norm(x: Value, w: Value = 1.0, b: Value = 0.0, eps: Value = 1e-5) -> Value:
    """Return w * (x - mean) / sqrt(var + eps) + b with mean and variance of each channel (axis 1) over the batch, as in training.

    Raises  ValueError for fewer than two axes.
    """
    have = _require_channels(x, 2)
    over = tuple(k for k in range(len(have)) if k != 1)
    return _align_with_channels(w, x) * _normalise(x, over, eps) + _align_with_channels(b, x)


def instance_norm(x: Value, w: Value = 1.0, b: Value = 0.0, eps: Value = 1e-5) -> Value:
    """Return w * (x - mean) / sqrt(var + eps) + b with mean and variance of each row's channel over its places.

    Raises  ValueError for fewer than three axes.
    """
    have = _require_channels(x, 3)
    return _align_with_channels(w, x) * _normalise(x, tuple(range(2, len(have))), eps) + _align_with_channels(b, x)


def group_norm(x: Value, num_groups: int, w: Value = 1.0, b: Value = 0.0, eps: Value = 1e-5) -> Value:
    """Return w * (x - mean) / sqrt(var + eps) + b with mean and variance over groups of channels (axis 1) of each row.

    Raises  ValueError for fewer than two axes, and for channels that do not divide into the groups.
    """
    have = _require_channels(x, 2)
    if num_groups < 1 or have[1] % num_groups:
        raise ValueError(f"group_norm cannot divide {have[1]} channels into {num_groups} groups")
    grouped = np.reshape(x, (have[0], num_groups, -1))
    return _align_with_channels(w, x) * np.reshape(_normalise(grouped, (2,), eps), have) + _align_with_channels(b, x)


def normalize(x: Value, p: Any = 2, axis: Any = -1, eps: Value = 1e-12) -> Value:
    """Return x divided by its p-norm along an axis, or by eps where the norm is smaller."""
    return x / np.maximum(_p_norm(x, p, axis, True), eps)


def _p_norm(x: Value, p: Any, axis: Any, keepdims: bool = False) -> Value:
    if p == 2:
        return np.sqrt(np.sum(np.square(x), axis=axis, keepdims=keepdims))
    return np.linalg.norm(x, p, axis=axis, keepdims=keepdims)


# Similarity and distance.


def cosine_similarity(a: Value, b: Value, axis: Any = -1, eps: Value = 1e-8) -> Value:
    """Return the cosine of the angle between vectors along an axis; norms below eps count as eps."""
    sizes = np.maximum(_p_norm(a, 2, axis), eps) * np.maximum(_p_norm(b, 2, axis), eps)
    return np.sum(a * b, axis=axis) / sizes


def pairwise_distance(a: Value, b: Value, p: Any = 2, eps: Value = 1e-6, keepdims: bool = False) -> Value:
    """Return the p-norm of a - b + eps along the last axis."""
    return _p_norm(a - b + eps, p, -1, keepdims)


# Layers.


def linear(x: Value, w: Value, b: Value = 0.0) -> Value:
    """Return x @ w.T + b; `w` has a row for each output."""
    return np.matmul(x, np.swapaxes(w, -1, -2) if len(shape(w)) > 1 else w) + b


def one_hot(k: Any, num_classes: int) -> Any:
    """Return a row for each class index in `k`: 1 at the index, 0 elsewhere.

    Raises  ValueError for class indices that are not integers from 0 to the number of classes - 1.
    """
    labels = np.asarray(plain_value(k), dtype=float)
    if np.any(labels != np.floor(labels)) or np.any((labels < 0) | (labels >= num_classes)):
        raise ValueError(f"classes are whole numbers from 0 to {num_classes - 1}")
    return (labels[..., None] == np.arange(num_classes)).astype(float)


def embedding(indices: Any, w: Value) -> Value:
    """Return the rows of `w` at whole numbers `indices`.

    Raises  ValueError for other numbers.
    """
    rows = np.asarray(plain_value(indices), dtype=float)
    if np.any(rows != np.floor(rows)):
        raise ValueError("the rows to take are whole numbers")
    return np.take(w, rows.astype(int), axis=0)


def scaled_dot_product_attention(
    q: Value, k: Value, v: Value, attn_mask: Value = None, is_causal: bool = False, scale: Value = None
) -> Value:
    """Return softmax(q @ k.T * scale + attn_mask) @ v over the last axis; `scale` is 1 / sqrt(d) for rows of d entries.

    With `is_causal`, a row of q sees the rows of k and v up to its own.

    Shapes  q is (..., n, d), k is (..., m, d), v is (..., m, c); the result is (..., n, c).
    """
    scores = np.matmul(q, np.swapaxes(k, -1, -2))
    scores = scores / np.sqrt(exact_integer(shape(q)[-1], q)) if scale is None else scores * scale
    if attn_mask is not None:
        scores = scores + attn_mask
    if is_causal:
        rows, columns = shape(scores)[-2:]
        scores = np.where(np.tri(rows, columns) > 0, scores, _MASKED)
    return np.matmul(softmax(scores, -1), v)


# Losses with targets that are classes.


def nll_loss(logp: Value, y: Value, reduction: str = "mean") -> Value:
    """Return minus the mean of the log-probabilities at class indices `y`, which may also be one-hot rows.

    Shapes  `logp` has the classes along the last axis; `y` has its shape, or that shape without the last axis.
    Raises  ValueError for class indices that are not integers from 0 to the number of classes - 1.
    """
    if len(shape(y)) == len(shape(logp)) - 1:
        y = one_hot(plain_value(y), shape(logp)[-1])
    return reduce_loss(-np.sum(y * logp, axis=-1), reduction)


def sigmoid_focal_loss(z: Value, y: Value, alpha: Value = 0.25, gamma: Value = 2.0, reduction: str = "none") -> Value:
    """Return cross entropies of logits, weighted by (1 - p)**gamma for the probability p of the target, as in torchvision."""
    signed = (2.0 * y - 1.0) * z
    weight = alpha * y + (1.0 - alpha) * (1.0 - y)
    return reduce_loss(weight * np.exp(-gamma * softplus(signed)) * softplus(-signed), reduction)


# Losses with margins; targets are 1 or -1.


def margin_ranking_loss(a: Value, b: Value, y: Value, margin: Value = 0.0, reduction: str = "mean") -> Value:
    """Return the mean of max(0, -y * (a - b) + margin)."""
    return reduce_loss(relu(-y * (a - b) + margin), reduction)


def cosine_embedding_loss(a: Value, b: Value, y: Value, margin: Value = 0.0, reduction: str = "mean") -> Value:
    """Return the mean of 1 - cos(a, b) where y is 1, and of max(0, cos(a, b) - margin) where it is -1."""
    cosine = cosine_similarity(a, b)
    return reduce_loss(np.where(np.greater(y, 0), 1.0 - cosine, relu(cosine - margin)), reduction)


def triplet_margin_loss(
    anchor: Value, positive: Value, negative: Value, margin: Value = 1.0, p: Any = 2, reduction: str = "mean"
) -> Value:
    """Return the mean of max(0, d(anchor, positive) - d(anchor, negative) + margin), d the p-norm over the last axis."""
    near, far = pairwise_distance(anchor, positive, p), pairwise_distance(anchor, negative, p)
    return reduce_loss(relu(near - far + margin), reduction)


# Functions that torch, JAX and scipy have and numpy lacks, made of primitives.


def logcumsumexp(x: Value, axis: int = -1) -> Value:
    """Return the logarithms of the cumulative sums of exp(x) along an axis, without overflow."""
    return np.logaddexp.accumulate(x, axis) if shape(x) else np.positive(x)


def cummax(x: Value, axis: int = -1) -> Value:
    """Return the largest entry so far along an axis."""
    return np.maximum.accumulate(x, axis) if shape(x) else np.positive(x)


def cummin(x: Value, axis: int = -1) -> Value:
    """Return the smallest entry so far along an axis."""
    return np.minimum.accumulate(x, axis) if shape(x) else np.positive(x)


def polygamma(n: Any, x: Value) -> Value:
    """Return the n-th derivative of digamma, n a whole number.

    Raises  ValueError for other orders.
    """
    order = float(plain_value(n))
    if order < 0 or not order.is_integer():
        raise ValueError(f"the order {order:g} is not one of 0, 1, 2, ...")
    return F.polygamma(x, n=int(order)) if order else F.digamma(x)


def multigammaln(a: Value, d: int) -> Value:
    """Return the logarithm of the multivariate gamma function of dimension d."""
    if d < 1:
        raise ValueError(f"the dimension {d} is not one of 1, 2, 3, ...")
    parts = [F.gammaln(a - exact_integer(k, a) / 2) for k in range(d)]
    return sum(parts[1:], parts[0]) + exact_integer(d * (d - 1), a) / 4 * np.log(pi(a))


def logmeanexp(x: Value, axis: Any = None, keepdims: bool = False) -> Value:
    """Return log(mean(exp(x))) along the axes, without overflow."""
    count = np.size(plain_value(x)) if axis is None else np.prod([shape(x)[k] for k in np.atleast_1d(axis)])
    return logsumexp(x, axis, keepdims) - np.log(exact_integer(int(count), x))


# Functions of one formula; targets of losses with margins are 1 or -1.


def _define(formulas: dict[str, tuple[str, Callable[..., Value]]]) -> None:
    """Make each formula a function of this module; the text says what it returns."""
    for name, (returns, function) in formulas.items():
        function.__name__ = function.__qualname__ = name
        function.__doc__ = f"Return {returns}."
        globals()[name] = function


# fmt: off
_define({
    # activations, entry by entry
    "selu":        ("1.0507... * elu(x, 1.6732...), which keeps mean 0 and variance 1",
                    lambda x: SELU_SCALE * elu(x, SELU_ALPHA)),
    "mish":        ("x * tanh(softplus(x))",           lambda x: x * np.tanh(softplus(x))),
    "softsign":    ("x / (1 + |x|)",                   lambda x: x / (1 + np.abs(x))),
    "hardtanh":    ("min(max(x, min_val), max_val)",
                    lambda x, min_val=-1.0, max_val=1.0: np.minimum(np.maximum(x, min_val), max_val)),
    "hardsigmoid": ("relu6(x + 3) / 6",                lambda x: relu6(x + 3) / 6),
    "hardswish":   ("x * hardsigmoid(x)",              lambda x: x * (relu6(x + 3) / 6)),
    "tanhshrink":  ("x - tanh(x)",                     lambda x: x - np.tanh(x)),
    "softshrink":  ("x moved by lambd towards 0, and 0 between -lambd and lambd",
                    lambda x, lambd=0.5:
                        np.where(np.greater(x, lambd), x - lambd, np.where(np.less(x, -lambd), x + lambd, 0.0 * x))),
    "hardshrink":  ("x where |x| > lambd, else 0",     lambda x, lambd=0.5: np.where(np.greater(np.abs(x), lambd), x, 0.0 * x)),
    "threshold":   ("x where x > threshold, else value",
                    lambda x, threshold, value: np.where(np.greater(x, threshold), x, value)),
    "squareplus":  ("(x + sqrt(x**2 + b)) / 2",        lambda x, b=4.0: (x + np.sqrt(np.square(x) + b)) / 2),
    # normalisations
    "rms_norm":    ("w * x / sqrt(mean(x**2) + eps) over the last axis",
                    lambda x, w=1.0, eps=EPSILON: w * x / np.sqrt(np.mean(np.square(x), axis=-1, keepdims=True) + eps)),
    "standardize": ("(x - mean) / sqrt(var + eps) along an axis, as jax.nn has it",
                    lambda x, axis=-1, eps=1e-5: _normalise(x, shapes.normalise_axes(axis, len(shape(x))), eps)),
    # losses; where there is a margin, targets are 1 or -1
    "mse_loss":    ("the mean of (x - y)**2",          lambda x, y, reduction="mean": reduce_loss(np.square(x - y), reduction)),
    "l1_loss":     ("the mean of |x - y|",             lambda x, y, reduction="mean": reduce_loss(np.abs(x - y), reduction)),
    "binary_cross_entropy": ("the mean of -y * log(p) - (1 - y) * log(1 - p), for probabilities p",
                    lambda p, y, reduction="mean": reduce_loss(-(F.xlogy(y, p) + F.xlog1py(1.0 - y, -p)), reduction)),
    "hinge_loss":  ("the mean of max(0, 1 - y * s)",   lambda s, y, reduction="mean": reduce_loss(relu(1.0 - y * s), reduction)),
    "squared_hinge_loss": ("the mean of max(0, 1 - y * s)**2",
                    lambda s, y, reduction="mean": reduce_loss(np.square(relu(1.0 - y * s)), reduction)),
    "hinge_embedding_loss": ("the mean of x where y is 1, and of max(0, margin - x) where it is -1",
                    lambda x, y, margin=1.0, reduction="mean":
                        reduce_loss(np.where(np.greater(y, 0), x, relu(margin - x)), reduction)),
    "soft_margin_loss": ("the mean of log(1 + exp(-y * x))",
                    lambda x, y, reduction="mean": reduce_loss(softplus(-y * x), reduction)),
    # what torch, JAX and scipy have and numpy lacks
    "rsqrt":       ("1 / sqrt(x)",                     lambda x: 1 / np.sqrt(x)),
    "frac":        ("x without its whole part, with the sign of x", lambda x: x - np.trunc(x)),
    "lerp":        ("a + weight * (b - a)",            lambda a, b, weight: a + weight * (b - a)),
    "masked_fill": ("x with `value` where the mask is not 0", lambda x, mask, value: np.where(np.not_equal(mask, 0), value, x)),
    "dist":        ("the p-norm of all entries of a - b", lambda a, b, p=2: np.linalg.norm(np.ravel(a - b), p)),
})
# fmt: on
