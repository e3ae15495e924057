"""Losses: what a network's outputs are measured by. A reduction is 0 for none, 1 for the mean and 2 for the sum."""

from typing import Any

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.shapes import shape
from gradcli.core.tracer import plain
from gradcli.frameworks.torch.aten.rows import add, aten, reduced
from gradcli.primitives.composites import relu, softplus
from gradcli.primitives.shaping import GETITEM

MEAN, SUM = 1, 2
LEAST = -100.0  # torch's binary cross entropy takes no logarithm for smaller than that


def _picked(x: Value, target: Any, weight: Value, reduction: int, ignore_index: int) -> tuple[Value, Value]:
    """Return the negative entries of x that the classes name, weighted, and the sum of the weights.

    Shapes  x is (batch, class, *places) or (class,); target is x without its axis of classes.
    """
    target = np.asarray(target)
    counted = target != ignore_index
    classes = np.where(counted, target, 0)
    if len(shape(x)) == 1:
        entries = GETITEM(x, index=int(classes))
    else:
        rest = np.indices(target.shape)
        entries = GETITEM(x, index=(rest[0], classes, *rest[1:]))
    weights = counted * 1.0 if weight is None else np.where(counted, weight[classes], 0.0)
    losses = np.where(counted, -entries * weights, 0.0)
    total = np.sum(weights)
    if reduction == MEAN:
        return np.sum(losses) / total, total
    return (np.sum(losses), total) if reduction == SUM else (losses, None)


def _nll(x: Value, target: Any, weight: Value = None, reduction: int = MEAN, ignore_index: int = -100) -> Any:
    return _picked(x, target, weight, reduction, ignore_index)


# fmt: off
add({
    "nll_loss_forward": _nll, "nll_loss2d_forward": _nll,
    "nll_loss": lambda *args: _nll(*args)[0], "nll_loss2d": lambda *args: _nll(*args)[0],
    "mse_loss": lambda x, y, reduction=MEAN: reduced(np.square(x - y), reduction),
    "l1_loss": lambda x, y, reduction=MEAN: reduced(np.abs(x - y), reduction),
    "soft_margin_loss": lambda x, y, reduction=MEAN: reduced(softplus(-y * x), reduction),
})
# fmt: on


@aten()
def smooth_l1_loss(x: Value, y: Value, reduction: int = MEAN, beta: float = 1.0) -> Value:
    """Return the square of the difference, halved and over beta, near 0, and its straight continuation."""
    size = np.abs(x - y)
    if beta == 0:
        return reduced(size, reduction)
    return reduced(np.where(np.less(size, beta), np.square(x - y) / (2 * beta), size - beta / 2), reduction)


@aten()
def huber_loss(x: Value, y: Value, reduction: int = MEAN, delta: float = 1.0) -> Value:
    """Return half the square of the difference near 0, and its straight continuation."""
    size = np.abs(x - y)
    near = np.square(x - y) / 2
    return reduced(np.where(np.less_equal(size, delta), near, delta * (size - delta / 2)), reduction)


@aten()
def binary_cross_entropy(x: Value, y: Value, weight: Value = None, reduction: int = MEAN) -> Value:
    """Return the cross entropy of probabilities, their logarithms held above -100."""
    losses = -(y * _logarithm(x, 0.0, np.log) + (1 - y) * _logarithm(-x, -1.0, np.log1p))
    return reduced(losses if weight is None else losses * weight, reduction)


def _logarithm(x: Value, zero: float, log: Any) -> Value:
    """Return log(x), -100 where it is smaller, without a step through infinity."""
    inside = np.greater(plain(x), zero)
    with np.errstate(divide="ignore"):
        far = inside & (log(np.where(inside, plain(x), 1.0 + zero)) >= LEAST)
    return np.where(far, log(np.where(far, x, 1.0 + zero)), LEAST)


@aten()
def binary_cross_entropy_with_logits(
    x: Value, y: Value, weight: Value = None, pos_weight: Value = None, reduction: int = MEAN
) -> Value:
    """Return the cross entropy of logits, what is positive weighted by itself."""
    losses = (1 - y) * x + (softplus(-x) if pos_weight is None else ((pos_weight - 1) * y + 1) * softplus(-x))
    return reduced(losses if weight is None else losses * weight, reduction)


@aten()
def multi_margin_loss(
    x: Value, target: Any, p: float = 1, margin: float = 1, weight: Value = None, reduction: int = MEAN
) -> Value:
    """Return by how much the other classes come within the margin of the right one."""
    x = x if shape(x) else np.reshape(x, (1,))
    rows, labels = np.reshape(x, (-1, shape(x)[-1])), np.reshape(target, -1)
    count, classes = shape(rows)
    right = GETITEM(rows, index=(np.arange(count), labels))
    over = np.power(relu(margin - right[:, None] + rows), p)
    over = over if weight is None else over * weight[labels][:, None]
    losses = np.sum(np.where(np.arange(classes) == labels[:, None], 0.0, over), axis=-1) / classes
    return reduced(np.reshape(losses, np.shape(target)) if len(shape(x)) > 1 else losses[0], reduction)


@aten()
def multilabel_margin_loss_forward(x: Value, target: Any, reduction: int = MEAN) -> tuple[Value, Any]:
    """Return by how much the wrong classes come within 1 of the right ones, which stand before the first -1."""
    x = x if shape(x) else np.reshape(x, (1,))
    rows, labels = np.reshape(x, (-1, shape(x)[-1])), np.reshape(target, (-1, shape(x)[-1]))
    valid = np.cumprod(labels >= 0, axis=-1).astype(bool)
    is_right = np.zeros(labels.shape, dtype=bool)
    row, place = np.nonzero(valid)
    is_right[row, labels[row, place]] = True
    right = GETITEM(rows, index=(np.arange(len(labels))[:, None], np.where(valid, labels, 0)))
    over = relu(1 - right[:, :, None] + rows[:, None, :])
    losses = np.sum(np.where(valid[:, :, None] & ~is_right[:, None, :], over, 0.0), axis=(1, 2)) / shape(x)[-1]
    return reduced(losses if len(shape(x)) > 1 else losses[0], reduction), np.reshape(is_right * 1.0, np.shape(target))


@aten("_ctc_loss")
def ctc_loss(
    x: Value, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, zero_infinity: bool = False
) -> tuple[Value, None]:
    """Return the negative log-likelihood of label sequences, blanks and repetitions summed out.

    Shapes  x is (time, batch, class), logarithms of probabilities; targets (batch, length) or in one row.
    Source  Graves et al. (2006), Connectionist temporal classification, section 4.1.
    """
    lengths = [int(n) for n in np.ravel(target_lengths)]
    starts = np.cumsum([0, *lengths])
    losses = []
    for b, (time, length) in enumerate(zip(np.ravel(input_lengths), lengths, strict=True)):
        labels = targets[b, :length] if np.ndim(targets) == 2 else targets[starts[b] : starts[b] + length]
        loss = _sequence(x[: int(time), b], np.asarray(labels), blank)
        losses.append(np.where(np.isinf(plain(loss)), 0.0, loss) if zero_infinity else loss)
    return np.stack(losses), None


def _sequence(x: Value, labels: Any, blank: int) -> Any:
    """Return the negative log-likelihood of one sequence, by sums over ever longer prefixes."""
    spread = np.full(2 * len(labels) + 1, blank)
    spread[1::2] = labels
    n = len(spread)
    skips = np.zeros(n, dtype=bool)
    skips[2:] = (spread[2:] != blank) & (spread[2:] != spread[:-2])
    reached: list[Value] = [x[0, int(spread[k])] if k < 2 else None for k in range(n)]
    for t in range(1, shape(x)[0]):
        before = reached
        reached = []
        for k in range(n):
            ways = [
                before[j] for j in (k, k - 1, k - 2) if j >= 0 and (j != k - 2 or skips[k]) and before[j] is not None
            ]
            total: Value = ways[0] if ways else None
            for way in ways[1:]:
                total = np.logaddexp(total, way)
            reached.append(None if total is None else total + x[t, int(spread[k])])
    ends = [y for y in reached[-2:] if y is not None] if n > 1 else reached[-1:]
    if not ends:
        return np.float64(np.inf)
    return -ends[0] if len(ends) == 1 else -np.logaddexp(ends[0], ends[1])
