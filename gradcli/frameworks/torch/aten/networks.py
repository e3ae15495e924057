"""Layers: batch statistics, embeddings, dropout, attention, and weight normalisation."""

from typing import Any

import numpy as np

from gradcli.frameworks.torch.aten.rows import aten, axis, refuse
from gradcli.rules.linalg import T
from gradcli.rules.reductions import softmax
from gradcli.rules.shaping import GETITEM
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape, size
from gradcli.tracing.tracer import exact, plain


@aten()
def batch_norm_update_stats(x: Value, mean: Value, variance: Value, momentum: float) -> Any:
    """Return the means and variances of a batch."""
    over = tuple(k for k in range(len(shape(x))) if k != 1)
    return np.mean(x, axis=over), np.var(x, axis=over)


@aten()
def embedding(
    weight: Value, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Value:
    """Return rows of weights; the row `padding_idx` is treated like the others, though torch gives it no gradient."""
    return weight[indices]


@aten("_embedding_bag", "_embedding_bag_forward_only")
def embedding_bag(
    weight: Value,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Value = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> Any:
    """Return the sums (mode 0), means (1) or largest entries (2) of rows of weights in bags.

    Shapes  weight (rows, features); indices (n,); offsets (bags,); the first result (bags, features).
    """
    starts = [int(n) for n in offsets]
    ends = [*starts[1:], len(indices)]
    bags = [np.arange(a, b) for a, b in zip(starts, ends, strict=True)][: len(starts) - int(include_last_offset)]
    join = (np.sum, np.mean, np.max)[mode]
    rows = []
    for bag in bags:
        kept = bag[indices[bag] != padding_idx] if padding_idx >= 0 else bag
        entries = GETITEM(weight, index=indices[kept])
        if per_sample_weights is not None:
            entries = entries * per_sample_weights[kept][:, None]
        rows.append(join(entries, axis=0) if len(kept) else np.zeros(shape(weight)[1]))
    return np.stack(rows) if rows else np.zeros((0, shape(weight)[1])), None, None, None


@aten()
def native_dropout(x: Value, p: float, train: bool | None) -> Any:
    """Return x and a mask of ones. Raises NoRule in training, where the mask is drawn."""
    if train is not False and p:
        raise refuse("dropout in training", do="model.eval(), or check without the dropout")
    return x, np.ones(shape(x), dtype=bool)


@aten("_safe_softmax")
def safe_softmax(x: Value, dim: int = -1, dtype: Any = None) -> Value:
    """Return softmax(x) along an axis, and zeros where all of x is -inf. Its decomposition would have a kink at -inf."""
    if not shape(x) or not size(x):
        return softmax(x) if size(x) else x
    over = axis(dim, len(shape(x)))
    masked = np.all(np.isneginf(plain(x)), axis=over, keepdims=True)
    return np.where(masked, 0.0, softmax(np.where(masked, 0.0, x), over))


def _attention(
    q: Value, k: Value, v: Value, mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Value, Value, Value]:  # fmt: skip
    """Return softmax(q k^T / sqrt(d) + mask) v, the softmax weights, and the scores before the softmax."""
    if dropout_p:
        raise refuse("attention with dropout", do="model.eval()")
    if enable_gqa:
        k, v = (np.repeat(x, shape(q)[-3] // shape(x)[-3], axis=-3) for x in (k, v))
    scores = np.matmul(q, T(k))
    scores = scores / np.sqrt(exact(shape(q)[-1], q)) if scale is None else scores * scale
    if is_causal:
        mask = np.tri(shape(q)[-2], shape(k)[-2], dtype=bool)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == np.bool_ else scores + mask
    weights = safe_softmax(scores)
    return np.matmul(weights, v), weights, scores


@aten()
def _scaled_dot_product_attention_math(
    q: Value, k: Value, v: Value, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    dropout_mask: Any = None, *, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """Return attention, and its softmax weights."""
    return _attention(q, k, v, attn_mask, dropout_p, is_causal, scale, enable_gqa)[:2]


@aten()
def _scaled_dot_product_flash_attention_for_cpu(
    q: Value, k: Value, v: Value, dropout_p: float = 0.0, is_causal: bool = False,
    *, attn_mask: Any = None, scale: float | None = None,
) -> Any:  # fmt: skip
    """Return attention, and the logsumexp of its scores."""
    y, _, scores = _attention(q, k, v, attn_mask, dropout_p, is_causal, scale)
    return y, plain(_log_total(scores))


@aten()
def _scaled_dot_product_efficient_attention(
    q: Value, k: Value, v: Value, attn_bias: Any, compute_log_sumexp: bool, dropout_p: float = 0.0, is_causal: bool = False,
    *, scale: float | None = None,
) -> Any:  # fmt: skip
    """Return attention; None stands for outputs that describe how torch computed it."""
    return _attention(q, k, v, attn_bias, dropout_p, is_causal, scale)[0], None, None, None


@aten()
def _scaled_dot_product_flash_attention(
    q: Value, k: Value, v: Value, dropout_p: float = 0.0, is_causal: bool = False, return_debug_mask: bool = False,
    *, scale: float | None = None,
) -> Any:  # fmt: skip
    """Return attention; None stands for outputs that describe how torch computed it."""
    return _attention(q, k, v, None, dropout_p, is_causal, scale)[0], *(None,) * 8


def _log_total(scores: Value) -> Value:
    x = plain(scores)
    top = np.max(x, axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.sum(np.exp(x - top), axis=-1)) + top[..., 0]


@aten("_weight_norm_interface")
def weight_norm(v: Value, g: Value, dim: int = 0) -> Any:
    """Return v rescaled to have the norm g over all axes but `dim`, and the norms of v."""
    over = tuple(k for k in range(len(shape(v))) if k != dim % len(shape(v)))
    size = np.sqrt(np.sum(np.square(v), axis=over, keepdims=True))
    return v * (g / size), plain(size)
