"""Layers: batch statistics, embeddings, dropout, attention, and weight normalisation."""

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from gradcli.arithmetic.recorded_program import vjp
from gradcli.frameworks.ops.indexing import Convolution, gather_flat, padded_positions, window_positions
from gradcli.frameworks.torch.aten.rows import TABLE, Row, at_axis, aten, axis, missing_rule, register
from gradcli.rules.linalg import T
from gradcli.rules.reductions import softmax
from gradcli.rules.shaping import GETITEM
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape, size
from gradcli.tracing.tracer import exact_integer, plain_value


def pull_back(f: Callable[..., Value], xs: Sequence[Value], ybar: Value) -> list[Value]:
    """Return the cotangents of the arguments of f."""
    return vjp(f, xs)[1](ybar)


def _backward_row(name: str, keep: int | None = None) -> Row:
    """Return the backward row of an operation that is differentiated with respect to its first argument, with `keep` settings.

    It is the vjp of the operation's own row, so that it can be differentiated again.
    """

    def backward(ybar: Value, x: Value, *settings: Any, **options: Any) -> Value:
        return pull_back(lambda x: TABLE[name](x, *settings[:keep], **options), [x], ybar)[0]

    return backward


SAME = (
    "softshrink hardshrink multi_margin_loss hardsigmoid avg_pool2d avg_pool3d "
    "replication_pad1d replication_pad2d replication_pad3d"
)  # operations whose backward takes the cotangent, then the operation's own arguments


def _backward_of_resizing(name: str) -> Row:
    """Return the backward row of an operation that moves entries, given the sizes of its argument."""
    return lambda ybar, to, sizes, *settings: pull_back(
        lambda x: TABLE[name](x, to, *settings), [np.zeros(tuple(sizes))], ybar
    )[0]


# Normalisation by means and variances.


def _normalise(x: Value, over: tuple[int, ...], eps: float) -> tuple[Value, Value, Value]:
    """Return x with mean 0 and variance 1 over some axes, the means, and what is divided by; axes are kept."""
    mean = np.mean(x, axis=over, keepdims=True)
    scale = 1 / np.sqrt(np.mean(np.square(x - mean), axis=over, keepdims=True) + eps)
    return x * scale - mean * scale, mean, scale  # as torch rounds it: one entry alone is 0 but for rounding


def _scale_and_shift(y: Value, weight: Value, bias: Value, to: tuple[int, ...]) -> Value:
    """Return y times the weights plus the bias, both of the shape `to`, where there are any."""
    y = y if weight is None else y * np.reshape(weight, to)
    return y if bias is None else y + np.reshape(bias, to)


@aten()
def native_layer_norm(
    x: Value, normalized_shape: Any, weight: Value, bias: Value, eps: float
) -> tuple[Value, Value, Value]:
    """Return each row normalised over the last axes, its mean, and 1 over its standard deviation."""
    last = tuple(int(n) for n in normalized_shape)
    y, mean, scale = _normalise(x, tuple(range(-len(last), 0)), eps)
    return _scale_and_shift(y, weight, bias, last), mean, scale


@aten()
def native_group_norm(
    x: Value, weight: Value, bias: Value, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Value, Value, Value]:
    """Return each group of channels normalised, its mean, and 1 over its standard deviation.

    Shapes  x (N, C, *places), with HxW places; weight and bias (C,); means (N, group).
    """
    y, mean, scale = _normalise(np.reshape(x, (N, group, C // group * HxW)), (2,), eps)
    y = _scale_and_shift(np.reshape(y, shape(x)), weight, bias, (C, *(1,) * (len(shape(x)) - 2)))
    return y, mean[..., 0], scale[..., 0]


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
    weight: Value, indices: Any, offsets: Any, scale_grad_by_freq: bool = False, mode: int = 0, sparse: bool = False,
    per_sample_weights: Value = None, include_last_offset: bool = False, padding_idx: int = -1,
) -> Any:  # fmt: skip
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
        raise missing_rule("dropout in training", do="model.eval(), or check without the dropout")
    return x, np.ones(shape(x), dtype=bool)


@aten("_safe_softmax")
def safe_softmax(x: Value, dim: int = -1, dtype: Any = None) -> Value:
    """Return softmax(x) along an axis, and zeros where all of x is -inf. Its decomposition would have a kink at -inf."""
    if not shape(x) or not size(x):
        return softmax(x) if size(x) else x
    over = axis(dim, len(shape(x)))
    masked = np.all(np.isneginf(plain_value(x)), axis=over, keepdims=True)
    return np.where(masked, 0.0, softmax(np.where(masked, 0.0, x), over))


def _attention(
    q: Value, k: Value, v: Value, mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None,
    enable_gqa: bool = False,
) -> tuple[Value, Value, Value]:  # fmt: skip
    """Return softmax(q k^T / sqrt(d) + mask) v, the softmax weights, and the scores before the softmax."""
    if dropout_p:
        raise missing_rule("attention with dropout", do="model.eval()")
    if enable_gqa:
        k, v = (np.repeat(x, shape(q)[-3] // shape(x)[-3], axis=-3) for x in (k, v))
    scores = np.matmul(q, T(k))
    scores = scores / np.sqrt(exact_integer(shape(q)[-1], q)) if scale is None else scores * scale
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
    x = plain_value(scores)
    top = np.max(x, axis=-1, keepdims=True)
    top = np.where(np.isfinite(top), top, 0.0)
    with np.errstate(divide="ignore"):
        return y, np.log(np.sum(np.exp(x - top), axis=-1)) + top[..., 0]


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


@aten("_weight_norm_interface")
def weight_norm(v: Value, g: Value, dim: int = 0) -> Any:
    """Return v rescaled to have the norm g over all axes but `dim`, and the norms of v."""
    over = tuple(k for k in range(len(shape(v))) if k != dim % len(shape(v)))
    size = np.sqrt(np.sum(np.square(v), axis=over, keepdims=True))
    return v * (g / size), plain_value(size)


# Convolutions, pooling, and the resizing of images.

Sizes = tuple[int, ...]


def size_per_axis(sizes: Any, n: int) -> Sizes:
    """Return one size for each of n axes, from one for all or one for each."""
    many = (sizes,) if isinstance(sizes, int) else tuple(int(k) for k in sizes)
    return many * n if len(many) == 1 else many


@aten("convolution", "_convolution", "convolution_overrideable")
def convolution(
    x: Value, weight: Value, bias: Value, stride: Any, padding: Any, dilation: Any, transposed: bool, output_padding: Any,
    groups: int, *options: Any,
) -> Value:  # fmt: skip
    """Return the convolution of images with kernels, or its transpose.

    Shapes  x is (batch, channel, *sizes); weight is (feature, channel / groups, *kernel), and of the transpose
            (channel, feature / groups, *kernel).
    """
    batch, _, *sizes = shape(x)
    n, kernel = len(sizes), shape(weight)[2:]
    stride, padding, dilation, extra = (size_per_axis(x, n) for x in (stride, padding, dilation, output_padding))
    if transposed:
        to = [
            (m - 1) * s - 2 * p + d * (k - 1) + 1 + e
            for m, k, s, p, d, e in zip(sizes, kernel, stride, padding, dilation, extra, strict=True)
        ]
        image = (batch, groups * shape(weight)[1], *to)
        ends = [(p, p - e, 0) for p, e in zip(padding, extra, strict=True)]
        y = Convolution(image, shape(weight), stride, ends, dilation, groups).to_input(x, weight)
    else:
        ends = [(p, p, 0) for p in padding]
        y = Convolution(shape(x), shape(weight), stride, ends, dilation, groups)(x, weight)
    return y if bias is None else y + np.reshape(bias, (-1, *(1,) * n))


# Pooling.


def _count_windows(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil: bool) -> int:
    """Return the number of windows along an axis; in ceil mode, a last one that begins in the padding is dropped."""
    free = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (free + (stride - 1 if ceil else 0)) // stride + 1
    return count - 1 if ceil and (count - 1) * stride >= size + padding else count


def _pool_positions(x: Value, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil: bool) -> Any:
    """Return the positions in x that each window of a pool covers; the position after the last is outside the image.

    Shapes  (..., *counts, entries of a window)
    """
    n, lead = len(kernel), len(shape(x)) - len(kernel)
    ends = [(0, 0, 0)] * lead
    for extent, k, s, p, d in zip(shape(x)[lead:], kernel, stride, padding, dilation, strict=True):
        count = _count_windows(extent, k, s, p, d, ceil)
        ends.append((p, (count - 1) * s + d * (k - 1) + 1 - extent - p, 0))
    ones = (1,) * lead
    seen = window_positions(padded_positions(shape(x), ends), (*ones, *kernel), (*ones, *stride), (*ones, *dilation))
    return seen.reshape((*seen.shape[: lead + n], math.prod(kernel)))


def max_pool(
    n: int, x: Value, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> tuple[Value, Any]:
    """Return the largest entry of each window, and its flat position in the image.

    Shapes  x (..., *sizes) with n sizes; both results (..., *counts), the numbers of windows.
    """
    kernel, padding, dilation = size_per_axis(kernel, n), size_per_axis(padding, n), size_per_axis(dilation, n)
    places = _pool_positions(x, kernel, size_per_axis(stride, n) if stride else kernel, padding, dilation, ceil_mode)
    seen = gather_flat(x, places, -np.inf)
    at = np.take_along_axis(places, np.argmax(plain_value(seen), axis=-1)[..., None], -1)[..., 0]
    return np.max(seen, axis=-1), at % math.prod(shape(x)[-n:])


def _average_pool(
    n: int, x: Value, kernel: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False,
    count_include_pad: bool = True, divisor_override: int | None = None,
) -> Value:  # fmt: skip
    """Return the mean of each window."""
    kernel, padding = size_per_axis(kernel, n), size_per_axis(padding, n)
    stride = size_per_axis(stride, n) if stride else kernel
    seen = _pool_positions(x, kernel, stride, padding, (1,) * n, ceil_mode)
    total, counts = np.sum(gather_flat(x, seen), axis=-1), seen.shape[-n - 1 : -1]
    if divisor_override is not None:
        return total / divisor_override
    divisor: Any = 1.0
    for k in range(n):
        first = np.arange(counts[k]) * stride[k] - padding[k]
        size = shape(x)[k - n]
        low, high = (-padding[k], size + padding[k]) if count_include_pad else (0, size)
        inside = np.minimum(first + kernel[k], high) - np.maximum(first, low)
        divisor = divisor * inside.reshape([-1 if j == k else 1 for j in range(n)])
    return total / divisor


def _pooling_regions(size: int, count: int) -> list[slice]:
    """Return the slices of an axis that adaptive pooling reduces; they may overlap."""
    return [slice(k * size // count, -(-(k + 1) * size // count)) for k in range(count)]


def adaptive_average(n: int, x: Value, output_size: Any) -> Value:
    """Return the means over `output_size` regions of each axis.

    Shapes  x (..., *sizes) with n sizes; the result (..., *output_size).
    """
    y = x
    for k, count in enumerate(size_per_axis(output_size, n)):
        axis = len(shape(x)) - n + k
        chosen = np.zeros((shape(x)[axis], count))
        for j, region in enumerate(_pooling_regions(shape(x)[axis], count)):
            chosen[region, j] = 1.0
        y = np.moveaxis(np.matmul(np.moveaxis(y, axis, -1), chosen) / np.sum(chosen, axis=0), -1, axis)
    return y


def _adaptive_max(n: int, x: Value, output_size: Any) -> tuple[Value, Any]:
    """Return the largest entries in `output_size` regions of each axis, and their flat positions in the image."""
    sizes, counts = shape(x)[-n:], size_per_axis(output_size, n)
    numbers: Value = np.arange(math.prod(sizes)).reshape(sizes)
    values, places = [], []
    for regions in product(*(_pooling_regions(extent, count) for extent, count in zip(sizes, counts, strict=True))):
        part = GETITEM(x, index=(..., *regions))
        row = np.reshape(part, (*shape(part)[:-n], -1))
        values.append(np.max(row, axis=-1))
        places.append(numbers[tuple(regions)].ravel()[np.argmax(plain_value(row), axis=-1)])
    to = (*shape(x)[:-n], *counts)
    return np.reshape(np.stack(values, axis=-1), to), np.reshape(np.stack(places, axis=-1), to)


for n in (2, 3):
    register({
        f"max_pool{n}d_with_indices": lambda x, *args, n=n, **kw: max_pool(n, x, *args, **kw),
        f"avg_pool{n}d": lambda x, *args, n=n, **kw: _average_pool(n, x, *args, **kw),
        f"_adaptive_avg_pool{n}d": lambda x, to, n=n: adaptive_average(n, x, to),
        f"adaptive_max_pool{n}d": lambda x, to, n=n: _adaptive_max(n, x, to),
    })  # fmt: skip


# Resizing.


def _resize_nearest(n: int, x: Value, output_size: Any, scales: Sequence[Any], shift: float) -> Value:
    """Resize images; each new pixel is a copy of the nearest old one."""
    for k, count in enumerate(output_size):
        axis = len(shape(x)) - n + k
        size = shape(x)[axis]
        scale = 1 / scales[k] if k < len(scales) and scales[k] else size / count
        at = np.minimum(np.floor((np.arange(count) + shift) * np.float32(scale)).astype(int), size - 1)
        x = GETITEM(x, index=at_axis(axis, at))
    return x


def _pixel_positions(size: int, count: int, align_corners: bool, scale: float | None) -> Any:
    """Return where the pixels of the new axis lie on the old one."""
    if align_corners:
        return np.arange(count) * ((size - 1) / (count - 1) if count > 1 else 0.0)
    return (np.arange(count) + 0.5) * (1 / scale if scale else size / count) - 0.5


def _resize_linear(n: int, x: Value, output_size: Any, align_corners: bool, *scales: Any) -> Value:
    """Resize images by linear interpolation between neighbours, axis by axis."""
    for k, count in enumerate(output_size):
        axis = len(shape(x)) - n + k
        size = shape(x)[axis]
        place = np.maximum(_pixel_positions(size, count, align_corners, scales[k] if k < len(scales) else None), 0.0)
        low = np.minimum(place.astype(int), size - 1)
        t = (place - low).reshape((-1,) + (1,) * (n - 1 - k))
        high = np.minimum(low + 1, size - 1)
        x = (1 - t) * GETITEM(x, index=at_axis(axis, low)) + t * GETITEM(x, index=at_axis(axis, high))
    return x


KEYS = -0.75  # the slope parameter of cubic interpolation (Keys 1981) that torch uses


def _cubic_weights(t: Any) -> list[Any]:
    def near(d: Any) -> Any:
        return ((KEYS + 2) * d - (KEYS + 3)) * d * d + 1

    def far(d: Any) -> Any:
        return ((KEYS * d - 5 * KEYS) * d + 8 * KEYS) * d - 4 * KEYS

    return [far(t + 1), near(t), near(1 - t), far(2 - t)]


@aten()
def upsample_bicubic2d(x: Value, output_size: Any, align_corners: bool, *scales: Any) -> Value:
    """Resize images by cubic interpolation, axis by axis.

    Source  Keys (1981), Cubic convolution interpolation for digital image processing.
    """
    for k, count in enumerate(output_size):
        axis = len(shape(x)) - 2 + k
        size = shape(x)[axis]
        place = _pixel_positions(size, count, align_corners, scales[k] if k < len(scales) else None)
        low = np.floor(place).astype(int)
        weights = _cubic_weights((place - low).reshape((-1,) + (1,) * (1 - k)))
        taps = [GETITEM(x, index=at_axis(axis, np.clip(low + j - 1, 0, size - 1))) for j in range(4)]
        x = sum(w * tap for w, tap in zip(weights, taps, strict=True))
    return x


for n, name in ((1, "linear1d"), (2, "bilinear2d"), (3, "trilinear3d")):
    register({
        f"upsample_nearest{n}d": lambda x, to, *scales, n=n: _resize_nearest(n, x, to, scales, 0.0),
        f"_upsample_nearest_exact{n}d": lambda x, to, *scales, n=n: _resize_nearest(n, x, to, scales, 0.5),
        f"upsample_{name}": lambda x, to, align_corners, *scales, n=n: _resize_linear(n, x, to, align_corners, *scales),
    })  # fmt: skip


def _adaptive_pool_backward(n: int) -> Row:
    return lambda ybar, x: pull_back(lambda x: adaptive_average(n, x, shape(ybar)[-n:]), [x], ybar)[0]


def _max_pool_backward(n: int) -> Row:
    """Return the backward row of max pooling, which finds the largest entries again."""
    return lambda ybar, x, *settings: pull_back(lambda x: max_pool(n, x, *settings[:-1])[0], [x], ybar)[0]


# fmt: off
register(
    {f"{name}_backward": _backward_row(name) for name in SAME.split()}
    | {"log_sigmoid_backward": _backward_row("log_sigmoid", 0)}
)
for axes in (2, 3):
    register({f"_adaptive_avg_pool{axes}d_backward": _adaptive_pool_backward(axes),
        f"max_pool{axes}d_with_indices_backward": _max_pool_backward(axes)})
for way in ("nearest1d", "nearest2d", "nearest3d", "linear1d", "bilinear2d", "trilinear3d", "bicubic2d"):
    register({f"upsample_{way}_backward": _backward_of_resizing(f"upsample_{way}")})
# fmt: on


@aten()
def convolution_backward(
    ybar: Value, x: Value, weight: Value, bias_sizes: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int, output_mask: Any,
) -> Any:  # fmt: skip
    """Return the cotangents of the images, the kernels and the bias."""
    settings = (stride, padding, dilation, transposed, output_padding, groups)
    xbar, wbar = pull_back(lambda x, w: TABLE["convolution"](x, w, None, *settings), [x, weight], ybar)
    bbar = np.sum(ybar, axis=tuple(k for k in range(len(shape(ybar))) if k != 1))
    return tuple(bar if wanted else None for bar, wanted in zip((xbar, wbar, bbar), output_mask, strict=True))


@aten("_cdist_backward")
def cdist_backward(ybar: Value, a: Value, b: Value, p: float, distances: Value) -> Value:
    """Return the cotangent of `a`."""
    return pull_back(lambda a: TABLE["_cdist_forward"](a, b, p), [a], ybar)[0]


@aten("_pdist_backward")
def pdist_backward(ybar: Value, a: Value, p: float, distances: Value) -> Value:
    """Return the cotangent of `a`."""
    return pull_back(lambda a: TABLE["_pdist_forward"](a, p), [a], ybar)[0]


@aten("_weight_norm_interface_backward")
def weight_norm_backward(ybar: Value, v: Value, g: Value, norms: Value, dim: int) -> tuple[Value, ...]:
    """Return the cotangents of the directions and the lengths."""
    return tuple(pull_back(lambda v, g: TABLE["_weight_norm_interface"](v, g, dim)[0], [v, g], ybar))
