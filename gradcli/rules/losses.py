"""Losses as torch.nn.functional has them: of a value and its target, by default the mean over all entries.

`reduction` is 'mean', 'sum', or 'none' for the loss of each entry.
"""

from typing import Any

import numpy as np

from gradcli.rules.composites import relu, softplus
from gradcli.rules.elementwise import ln, pi
from gradcli.rules.layers import cosine_similarity, one_hot, pairwise_distance
from gradcli.tracing.primitive import Value, named
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import plain


def _reduced(loss: Value, reduction: str) -> Value:
    if reduction == "mean":
        return np.mean(loss)
    if reduction == "sum":
        return np.sum(loss)
    if reduction != "none":
        raise ValueError(f"reduction is 'mean', 'sum' or 'none', not {reduction!r}")
    return loss


# Of values.


def mse_loss(x: Value, y: Value, reduction: str = "mean") -> Value:
    """Return the mean of (x - y)**2."""
    return _reduced(np.square(x - y), reduction)


def l1_loss(x: Value, y: Value, reduction: str = "mean") -> Value:
    """Return the mean of |x - y|."""
    return _reduced(np.abs(x - y), reduction)


def smooth_l1_loss(x: Value, y: Value, reduction: str = "mean", beta: Value = 1.0) -> Value:
    """Return the mean of d**2 / (2 beta) where d = |x - y| is below beta, and of d - beta / 2 elsewhere."""
    d = x - y
    near = np.less(np.abs(d), beta)
    quadratic = np.square(d) / (2 * np.where(np.equal(beta, 0), 1.0, beta))
    return _reduced(np.where(near, quadratic, np.abs(d) - beta / 2), reduction)


def huber_loss(x: Value, y: Value, reduction: str = "mean", delta: Value = 1.0) -> Value:
    """Return the mean of d**2 / 2 where d = |x - y| is at most delta, and of delta * (d - delta / 2) elsewhere."""
    d = x - y
    near = np.less_equal(np.abs(d), delta)
    return _reduced(np.where(near, np.square(d) / 2, delta * (np.abs(d) - delta / 2)), reduction)


def poisson_nll_loss(x: Value, y: Value, log_input: bool = True, eps: Value = 1e-8, reduction: str = "mean") -> Value:
    """Return the mean of exp(x) - y * x, or of x - y * log(x + eps) where x is not a logarithm (log_input=False)."""
    return _reduced(np.exp(x) - y * x if log_input else x - y * np.log(x + eps), reduction)


def gaussian_nll_loss(
    x: Value, y: Value, var: Value, full: bool = False, eps: Value = 1e-6, reduction: str = "mean"
) -> Value:
    """Return the mean of (log(var) + (x - y)**2 / var) / 2, with var at least eps; `full` adds log(2 pi) / 2."""
    spread = np.maximum(var, eps)
    loss = (np.log(spread) + np.square(x - y) / spread) / 2
    return _reduced(loss + (ln(2, x) + np.log(pi(x))) / 2 if full else loss, reduction)


# Of probabilities and logits.


def binary_cross_entropy(p: Value, y: Value, reduction: str = "mean") -> Value:
    """Return the mean of -y * log(p) - (1 - y) * log(1 - p), for probabilities p."""
    return _reduced(-(named("xlogy")(y, p) + named("xlog1py")(1.0 - y, -p)), reduction)


def binary_cross_entropy_with_logits(z: Value, y: Value, reduction: str = "mean", pos_weight: Value = 1.0) -> Value:
    """Return the mean of -pos_weight * y * log(s) - (1 - y) * log(1 - s), s the sigmoid of the logits z."""
    return _reduced((1.0 - y) * z + (1.0 + (pos_weight - 1.0) * y) * softplus(-z), reduction)


def kl_div_loss(logp: Value, y: Value, reduction: str = "mean", log_target: bool = False) -> Value:
    """Return the mean of y * (log(y) - logp), for log-probabilities; reduction='batchmean' divides the sum by the rows."""
    loss = np.exp(y) * (y - logp) if log_target else named("xlogy")(y, y) - y * logp
    if reduction == "batchmean":
        return np.sum(loss) / (shape(loss)[0] if shape(loss) else 1)
    return _reduced(loss, reduction)


def nll_loss(logp: Value, y: Value, reduction: str = "mean") -> Value:
    """Return minus the mean of the log-probabilities at class indices `y`, which may also be one-hot rows.

    Shapes  `logp` has the classes along the last axis; `y` has its shape, or that shape without the last axis.
    Raises  ValueError for class indices that are not integers from 0 to the number of classes - 1.
    """
    if len(shape(y)) == len(shape(logp)) - 1:
        y = one_hot(plain(y), shape(logp)[-1])
    return _reduced(-np.sum(y * logp, axis=-1), reduction)


def sigmoid_focal_loss(z: Value, y: Value, alpha: Value = 0.25, gamma: Value = 2.0, reduction: str = "none") -> Value:
    """Return cross entropies of logits, weighted by (1 - p)**gamma for the probability p of the target, as in torchvision."""
    signed = (2.0 * y - 1.0) * z
    weight = alpha * y + (1.0 - alpha) * (1.0 - y)
    return _reduced(weight * np.exp(-gamma * softplus(signed)) * softplus(-signed), reduction)


# With margins; targets are 1 or -1.


def hinge_loss(s: Value, y: Value, reduction: str = "mean") -> Value:
    """Return the mean of max(0, 1 - y * s)."""
    return _reduced(relu(1.0 - y * s), reduction)


def squared_hinge_loss(s: Value, y: Value, reduction: str = "mean") -> Value:
    """Return the mean of max(0, 1 - y * s)**2."""
    return _reduced(np.square(relu(1.0 - y * s)), reduction)


def hinge_embedding_loss(x: Value, y: Value, margin: Value = 1.0, reduction: str = "mean") -> Value:
    """Return the mean of x where y is 1, and of max(0, margin - x) where it is -1."""
    return _reduced(np.where(np.greater(y, 0), x, relu(margin - x)), reduction)


def soft_margin_loss(x: Value, y: Value, reduction: str = "mean") -> Value:
    """Return the mean of log(1 + exp(-y * x))."""
    return _reduced(softplus(-y * x), reduction)


def margin_ranking_loss(a: Value, b: Value, y: Value, margin: Value = 0.0, reduction: str = "mean") -> Value:
    """Return the mean of max(0, -y * (a - b) + margin)."""
    return _reduced(relu(-y * (a - b) + margin), reduction)


def cosine_embedding_loss(a: Value, b: Value, y: Value, margin: Value = 0.0, reduction: str = "mean") -> Value:
    """Return the mean of 1 - cos(a, b) where y is 1, and of max(0, cos(a, b) - margin) where it is -1."""
    cosine = cosine_similarity(a, b)
    return _reduced(np.where(np.greater(y, 0), 1.0 - cosine, relu(cosine - margin)), reduction)


def triplet_margin_loss(
    anchor: Value, positive: Value, negative: Value, margin: Value = 1.0, p: Any = 2, reduction: str = "mean"
) -> Value:
    """Return the mean of max(0, d(anchor, positive) - d(anchor, negative) + margin), d the p-norm over the last axis."""
    near, far = pairwise_distance(anchor, positive, p), pairwise_distance(anchor, negative, p)
    return _reduced(relu(near - far + margin), reduction)
