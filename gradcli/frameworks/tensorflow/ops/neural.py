"""Convolutions, pooling, normalisation, softmax and its losses."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.shapes import shape, size
from gradcli.frameworks.ops.convolution import Convolution, pooled
from gradcli.frameworks.ops.places import gathered, padded, windowed
from gradcli.frameworks.tensorflow.ops.shaping import sizes_of
from gradcli.primitives.reductions import log_softmax, softmax

Entry = Callable[..., Any]
Sizes = Sequence[int]


def _text(x: Any) -> str:
    return x.decode() if isinstance(x, bytes) else str(x)


def channels_first(data_format: Any) -> bool:
    """Whether the channel axis follows the batch axis."""
    return _text(data_format).startswith("NC")


def in_front(x: Value, data_format: Any) -> Value:
    """Return `x` with the channel axis moved directly after the batch axis."""
    return x if channels_first(data_format) else np.moveaxis(x, -1, 1)


def behind(x: Value, data_format: Any) -> Value:
    """Return `x`, whose channels follow the batch axis, in the layout `data_format`."""
    return x if channels_first(data_format) else np.moveaxis(x, 1, -1)


def spatial(numbers: Sequence[Any], data_format: Any) -> tuple[Any, ...]:
    """Return the numbers of the spatial axes from a list with one number for each axis."""
    return tuple(numbers[2:] if channels_first(data_format) else numbers[1:-1])


def ends(
    padding: Any, explicit: Sizes, sizes: Sizes, windows: Sizes, strides: Sizes, dilations: Sizes, data_format: Any
) -> list[tuple[int, int, int]]:
    """Return the padding of each spatial axis, as (before, after, between)."""
    if _text(padding) == "VALID":
        return [(0, 0, 0)] * len(sizes)
    if _text(padding) == "EXPLICIT":
        pairs = list(zip(explicit[::2], explicit[1::2], strict=True))
        return [(int(low), int(high), 0) for low, high in spatial(pairs, data_format)]
    found = []
    for n, w, s, d in zip(sizes, windows, strides, dilations, strict=True):
        total = max((-(-n // s) - 1) * s + (w - 1) * d + 1 - n, 0)
        found.append((total // 2, total - total // 2, 0))
    return found


def _default(rank: int, numbers: Any, data_format: Any) -> tuple[int, ...]:
    return spatial(numbers, data_format) if numbers else (1,) * rank


def _convolution(x: Sizes, w: Sizes, attrs: Any, groups: int) -> Convolution:
    """Return the convolution for shapes whose channels follow the batch axis."""
    form, rank = attrs.get("data_format", b"NHWC"), len(x) - 2
    strides, dilation = _default(rank, attrs["strides"], form), _default(rank, attrs.get("dilations"), form)
    around = ends(attrs["padding"], attrs.get("explicit_paddings") or (), x[2:], w[2:], strides, dilation, form)
    return Convolution(x, w, strides, around, dilation, groups)


def _kernel(w: Value) -> Value:
    """Return a kernel (window..., channels, features) as (features, channels, window...)."""
    rank = len(shape(w)) - 2
    return np.transpose(w, (rank + 1, rank, *range(rank)))


def _unkernel(w: Value) -> Value:
    rank = len(shape(w)) - 2
    return np.transpose(w, (*range(2, rank + 2), 1, 0))


def convolution(x: Value, w: Value, **attrs: Any) -> Value:
    """Return a convolution; it is grouped if the kernel has fewer channels than `x`.

    Shapes  x in the layout `data_format`; w (window..., channels / groups, features).
    """
    form = attrs.get("data_format", b"NHWC")
    turned, kernel = in_front(x, form), _kernel(w)
    run = _convolution(shape(turned), shape(kernel), attrs, shape(turned)[1] // shape(kernel)[1])
    return behind(run(turned, kernel), form)


def _turned(sizes: tuple[int, ...], data_format: Any) -> tuple[int, ...]:
    return sizes if channels_first(data_format) else (sizes[0], sizes[-1], *sizes[1:-1])


def to_input(sizes: Any, w: Value, ybar: Value, **attrs: Any) -> Value:
    """Return the cotangent of a convolution's input, which has the shape `sizes`."""
    form = attrs.get("data_format", b"NHWC")
    x, kernel = _turned(sizes_of(sizes), form), _kernel(w)
    run = _convolution(x, shape(kernel), attrs, x[1] // shape(kernel)[1])
    return behind(run.to_input(in_front(ybar, form), kernel), form)


def to_kernel(x: Value, sizes: Any, ybar: Value, **attrs: Any) -> Value:
    """Return the cotangent of a convolution's kernel, which has the shape `sizes`."""
    form, to = attrs.get("data_format", b"NHWC"), sizes_of(sizes)
    turned = in_front(x, form)
    run = _convolution(shape(turned), (to[-1], to[-2], *to[:-2]), attrs, shape(turned)[1] // to[-2])
    return _unkernel(run.to_kernel(in_front(ybar, form), turned))


def _apart(w: Value) -> Value:
    """Return a depthwise kernel as the kernel of a grouped convolution."""
    *window, channels, many = shape(w)
    return np.reshape(w, (*window, 1, channels * many))


def depthwise(x: Value, w: Value, **attrs: Any) -> Value:
    """Return a depthwise convolution: each channel has kernels of its own."""
    return convolution(x, _apart(w), **attrs)


def pooling(function: Any, filling: float) -> Entry:
    """Return an entry that reduces windows."""

    def pool(
        x: Value, *, ksize: Sizes, strides: Sizes, padding: Any, data_format: Any = b"NHWC", **attrs: Any
    ) -> Value:
        rank = len(shape(x))
        around = _around(x, ksize, strides, padding, attrs.get("explicit_paddings") or (), data_format)
        return pooled(function, x, ksize, strides, around, filling, (1,) * rank)

    return pool


def _around(x: Value, ksize: Sizes, strides: Sizes, padding: Any, explicit: Sizes, data_format: Any) -> list[Any]:
    if _text(padding) == "EXPLICIT":
        return [(int(low), int(high), 0) for low, high in zip(explicit[::2], explicit[1::2], strict=True)]
    return ends(padding, (), shape(x), ksize, strides, (1,) * len(ksize), data_format)


def average_pool(
    x: Value, *, ksize: Sizes, strides: Sizes, padding: Any, data_format: Any = b"NHWC", **attrs: Any
) -> Value:
    """Return the mean of each window over those entries that lie inside the array."""
    around, ones = _around(x, ksize, strides, padding, (), data_format), (1,) * len(shape(x))
    seen = windowed(padded(shape(x), around), ksize, strides, ones)
    axes = tuple(range(len(ones), 2 * len(ones)))
    return np.sum(gathered(x, seen, 0.0), axis=axes) / np.sum(seen != size(x), axis=axes)


def batch_norm(
    x: Value, scale: Value, offset: Value, mean: Value, variance: Value, *, epsilon: float = 1e-4, is_training: bool = True,
    data_format: Any = b"NHWC", exponential_avg_factor: float = 1.0, **attrs: Any,
) -> tuple[Value, ...]:  # fmt: skip
    """Return a batch normalised by channel, its mean and unbiased variance, and the values that its gradient uses."""
    turned = in_front(x, data_format)
    over = (0, *range(2, len(shape(x))))
    grown = (1, -1) + (1,) * (len(shape(x)) - 2)
    m, v = mean, variance
    if is_training:
        m, v = np.mean(turned, axis=over), np.var(turned, axis=over)
    centred = turned - np.reshape(m, grown)
    y = centred / np.sqrt(np.reshape(v, grown) + epsilon) * np.reshape(scale, grown) + np.reshape(offset, grown)
    seen_mean, seen_variance = m, v
    if is_training:
        count = size(x) // shape(turned)[1]
        seen_variance = v * (count / max(count - 1, 1))
        if exponential_avg_factor != 1.0:
            kept = 1.0 - exponential_avg_factor
            seen_mean = kept * mean + exponential_avg_factor * m
            seen_variance = kept * variance + exponential_avg_factor * seen_variance
    return behind(y, data_format), seen_mean, seen_variance, m, v, np.zeros(0)


def bias_add(x: Value, bias: Value, *, data_format: Any = b"NHWC", **attrs: Any) -> Value:
    """Return `x` with a number for each channel added."""
    if not channels_first(data_format):
        return x + bias
    return x + np.reshape(bias, (-1,) + (1,) * (len(shape(x)) - 2))


def bias_add_grad(ybar: Value, *, data_format: Any = b"NHWC", **attrs: Any) -> Value:
    """Return the cotangent of a bias."""
    turned = in_front(ybar, data_format)
    return np.sum(turned, axis=(0, *range(2, len(shape(ybar)))))


def cross_entropy(z: Value, labels: Value, **attrs: Any) -> tuple[Value, Value]:
    """Return the cross entropy of each row, and its gradient with respect to the logits."""
    return -np.sum(labels * log_softmax(z, -1), axis=-1), softmax(z, -1) - labels


def sparse_cross_entropy(z: Value, labels: Any, **attrs: Any) -> tuple[Value, Value]:
    """Return the cross entropy of each row with a class, and its gradient with respect to the logits."""
    classes = np.asarray(labels).astype(int)
    found = np.take_along_axis(log_softmax(z, -1), classes[..., None], -1)[..., 0]
    return -found, softmax(z, -1) - np.eye(shape(z)[-1])[classes]


TABLE: dict[str, Entry] = {
    "Conv2D": convolution, "Conv3D": convolution, "DepthwiseConv2dNative": depthwise,
    "Conv2DBackpropInput": to_input, "Conv3DBackpropInputV2": to_input, "Conv2DBackpropFilter": to_kernel,
    "Conv3DBackpropFilterV2": to_kernel,
    "MaxPool": pooling(np.max, -np.inf), "MaxPool3D": pooling(np.max, -np.inf), "AvgPool": average_pool,
    "AvgPool3D": average_pool, "BiasAdd": bias_add, "BiasAddV1": bias_add, "BiasAddGrad": bias_add_grad,
    "FusedBatchNormV3": batch_norm, "FusedBatchNormV2": lambda *xs, **attrs: batch_norm(*xs, **attrs)[:5],
    "FusedBatchNorm": lambda *xs, **attrs: batch_norm(*xs, **attrs)[:5],
    "Softmax": lambda x, **attrs: softmax(x, -1), "LogSoftmax": lambda x, **attrs: log_softmax(x, -1),
    "SoftmaxCrossEntropyWithLogits": cross_entropy, "SparseSoftmaxCrossEntropyWithLogits": sparse_cross_entropy,
}  # fmt: skip
