"""Loss functions. `reduction` is 0 for none, 1 for the mean and 2 for the sum."""

from typing import Any

import numpy as np

from gradcli.frameworks.torch.aten.rows import aten, reduced
from gradcli.rules.composites import relu
from gradcli.rules.shaping import GETITEM
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import plain

MEAN = 1


@aten()
def multi_margin_loss(
    x: Value, target: Any, p: float = 1, margin: float = 1, weight: Value = None, reduction: int = MEAN
) -> Value:
    """Return how far the scores of the other classes come within the margin of the right class.

    Shapes  x (batch, class) or (class,); target (batch,) or (), the right classes; weight (class,).
    """
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
    """Return how far wrong classes come within 1 of the right ones (those before the first -1), and a mask of the latter."""
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
    """Return the negative log-likelihood of label sequences, summed over alignments with blanks and repetitions.

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
    """Return the negative log-likelihood of one sequence, by the forward algorithm over prefixes of the labels."""
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
