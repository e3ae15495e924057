"""Layers: normalisation, embeddings, attention, dropout."""

from typing import Any

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.shapes import shape
from gradcli.core.tracer import exact, plain
from gradcli.frameworks.torch.aten.activations import safe_softmax
from gradcli.frameworks.torch.aten.rows import add, aten, refuse
from gradcli.primitives.linalg import T
from gradcli.primitives.shaping import GETITEM

EPS = float(np.finfo(np.float64).eps)


def _standardised(x: Value, over: tuple[int, ...], eps: float) -> tuple[Value, Value, Value]:
    """Return x less its mean over axes, over its spread; the mean, and 1 / spread."""
    centre = np.mean(x, axis=over, keepdims=True)
    spread = np.sqrt(np.mean(np.square(x - centre), axis=over, keepdims=True) + eps)
    return (x - centre) / spread, centre, 1 / spread


def _weighted(x: Value, weight: Value, bias: Value) -> Value:
    y = x if weight is None else x * weight
    return y if bias is None else y + bias


@aten()
def native_layer_norm(x: Value, normalized_shape: Any, weight: Value, bias: Value, eps: float) -> Any:
    """Return x standardised over its last axes, the means and 1 / spreads."""
    over = tuple(range(len(shape(x)) - len(normalized_shape), len(shape(x))))
    y, centre, rate = _standardised(x, over, eps)
    return _weighted(y, weight, bias), centre, rate


@aten()
def native_group_norm(x: Value, weight: Value, bias: Value, N: int, C: int, HxW: int, group: int, eps: float) -> Any:
    """Return images standardised over groups of channels, the means and 1 / spreads."""
    y, centre, rate = _standardised(np.reshape(x, (N, group, -1)), (2,), eps)
    y = np.reshape(y, shape(x))
    to = (C,) + (1,) * (len(shape(x)) - 2)
    weight, bias = (None if v is None else np.reshape(v, to) for v in (weight, bias))
    return _weighted(y, weight, bias), np.reshape(centre, (N, group)), np.reshape(rate, (N, group))


@aten("_fused_rms_norm")
def fused_rms_norm(x: Value, normalized_shape: Any, weight: Value, eps: float | None) -> Any:
    """Return x over its root mean square over the last axes, and 1 / root mean square."""
    over = tuple(range(len(shape(x)) - len(normalized_shape), len(shape(x))))
    size = np.sqrt(np.mean(np.square(x), axis=over, keepdims=True) + (EPS if eps is None else eps))
    return _weighted(x / size, weight, None), 1 / size


@aten()
def rms_norm(x: Value, normalized_shape: Any, weight: Value = None, eps: float | None = None) -> Value:
    """Return x over its root mean square over the last axes."""
    return fused_rms_norm(x, normalized_shape, weight, eps)[0]


def _batch_norm(
    x: Value, weight: Value, bias: Value, mean: Value, variance: Value, training: bool, momentum: float, eps: float
) -> Any:
    """Return images standardised by channel, over the batch or by running statistics; the means and 1 / spreads."""
    over = tuple(k for k in range(len(shape(x))) if k != 1)
    to = tuple(-1 if k == 1 else 1 for k in range(len(shape(x))))
    if training:
        y, centre, rate = _standardised(x, over, eps)
        saved = np.reshape(plain(centre), -1), np.reshape(plain(rate), -1)
    else:
        y = (x - np.reshape(mean, to)) / np.sqrt(np.reshape(variance, to) + eps)
        saved = np.zeros(0), np.zeros(0)
    weight, bias = (None if v is None else np.reshape(v, to) for v in (weight, bias))
    return _weighted(y, weight, bias), *saved


def _running(x: Value, mean: Value, variance: Value, momentum: float) -> tuple[Value, Value]:
    """Return running statistics after a batch; the variance of a batch counts with one entry less."""
    over = tuple(k for k in range(len(shape(x))) if k != 1)
    now, spread = np.mean(plain(x), axis=over), np.var(plain(x), axis=over, ddof=1)
    return (1 - momentum) * mean + momentum * now, (1 - momentum) * variance + momentum * spread


def _legitimate(x: Value, weight: Value, bias: Value, *rest: Any) -> Any:
    """Return batch normalisation with running statistics, or without any: then three settings follow."""
    return _batch_norm(x, weight, bias, *(rest if len(rest) == 5 else (None, None, *rest)))


def _functional(
    x: Value, weight: Value, bias: Value, mean: Value, variance: Value, training: bool, momentum: float, eps: float
) -> Any:
    after = _running(x, mean, variance, momentum) if training else (mean, variance)
    return *_batch_norm(x, weight, bias, mean, variance, training, momentum, eps), *after


def _with_settings(training: bool | None, more: int) -> Any:
    """Return batch normalisation, in training or not where that is given by its name, with `more` empty results."""

    def row(x: Value, weight: Value, bias: Value, mean: Value, variance: Value, *settings: Any) -> Any:
        training_, momentum, eps = settings if training is None else (training, *settings)
        return *_batch_norm(x, weight, bias, mean, variance, training_, momentum, eps), *(None,) * more

    return row


add({
    "native_batch_norm": _batch_norm,
    "cudnn_batch_norm": _with_settings(None, 1),
    "_native_batch_norm_legit": _legitimate,
    "_native_batch_norm_legit_functional": _functional,
    "_native_batch_norm_legit_no_training": _with_settings(False, 0),
    "_batch_norm_with_update": _with_settings(True, 1),
    "_batch_norm_no_update": _with_settings(False, 1),
})  # fmt: skip


@aten()
def batch_norm_update_stats(x: Value, mean: Value, variance: Value, momentum: float) -> Any:
    """Return the means and variances of a batch."""
    over = tuple(k for k in range(len(shape(x))) if k != 1)
    return np.mean(x, axis=over), np.var(x, axis=over)


@aten()
def embedding(
    weight: Value, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Value:
    """Return rows of weights; that of `padding_idx` is one like the others, though torch never moves it."""
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
    """Return sums (mode 0), means (1) or largest entries (2) of rows of weights, one for each bag of them."""
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


def _attention(
    q: Value, k: Value, v: Value, mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Value, Value, Value]:  # fmt: skip
    """Return softmax(q k^T / sqrt(d) + mask) v, the weights, and the logarithms of what they were divided by."""
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
    weights = safe_softmax(scores, -1)
    return np.matmul(weights, v), weights, scores


@aten()
def _scaled_dot_product_attention_math(
    q: Value, k: Value, v: Value, attn_mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False,
    dropout_mask: Any = None, *, scale: float | None = None, enable_gqa: bool = False,
) -> Any:  # fmt: skip
    """Return attention, and its weights."""
    return _attention(q, k, v, attn_mask, dropout_p, is_causal, scale, enable_gqa)[:2]


@aten()
def _scaled_dot_product_flash_attention_for_cpu(
    q: Value, k: Value, v: Value, dropout_p: float = 0.0, is_causal: bool = False,
    *, attn_mask: Any = None, scale: float | None = None,
) -> Any:  # fmt: skip
    """Return attention, and the logarithms of what its weights were divided by."""
    y, _, scores = _attention(q, k, v, attn_mask, dropout_p, is_causal, scale)
    return y, plain(_log_total(scores))


@aten()
def _scaled_dot_product_efficient_attention(
    q: Value, k: Value, v: Value, attn_bias: Any, compute_log_sumexp: bool, dropout_p: float = 0.0, is_causal: bool = False,
    *, scale: float | None = None,
) -> Any:  # fmt: skip
    """Return attention; the rest says how it was computed."""
    return _attention(q, k, v, attn_bias, dropout_p, is_causal, scale)[0], None, None, None


@aten()
def _scaled_dot_product_flash_attention(
    q: Value, k: Value, v: Value, dropout_p: float = 0.0, is_causal: bool = False, return_debug_mask: bool = False,
    *, scale: float | None = None,
) -> Any:  # fmt: skip
    """Return attention; the rest says how it was computed."""
    return _attention(q, k, v, None, dropout_p, is_causal, scale)[0], *(None,) * 8


def _log_total(scores: Value) -> Value:
    x = plain(scores)
    top = np.max(x, axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return np.log(np.sum(np.exp(x - top), axis=-1)) + top[..., 0]


@aten("_weight_norm_interface")
def weight_norm(v: Value, g: Value, dim: int = 0) -> Any:
    """Return v with its length, apart from one axis, replaced by g; and the lengths."""
    over = tuple(k for k in range(len(shape(v))) if k != dim % len(shape(v)))
    size = np.sqrt(np.sum(np.square(v), axis=over, keepdims=True))
    return v * (g / size), plain(size)
