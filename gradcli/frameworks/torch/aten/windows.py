"""Convolutions, pooling, and the resizing of images."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from gradcli.frameworks.ops.convolution import Convolution
from gradcli.frameworks.ops.places import gathered, padded, windowed
from gradcli.frameworks.torch.aten.rows import at_axis, aten, register
from gradcli.rules.shaping import GETITEM
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import plain

Sizes = tuple[int, ...]


def each(sizes: Any, n: int) -> Sizes:
    """Return one size for each of n axes, from one for all or one for each."""
    many = (sizes,) if isinstance(sizes, int) else tuple(int(k) for k in sizes)
    return many * n if len(many) == 1 else many


@aten("convolution", "_convolution", "convolution_overrideable")
def convolution(
    x: Value,
    weight: Value,
    bias: Value,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
    *options: Any,
) -> Value:
    """Return the convolution of images with kernels, or its transpose.

    Shapes  x is (batch, channel, *sizes); weight is (feature, channel / groups, *kernel), and of the transpose
            (channel, feature / groups, *kernel).
    """
    batch, _, *sizes = shape(x)
    n, kernel = len(sizes), shape(weight)[2:]
    stride, padding, dilation, extra = (each(given, n) for given in (stride, padding, dilation, output_padding))
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


def _pooled(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil: bool) -> int:
    """Return the number of windows along an axis; in ceil mode, a last one that begins in the padding is dropped."""
    free = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (free + (stride - 1 if ceil else 0)) // stride + 1
    return count - 1 if ceil and (count - 1) * stride >= size + padding else count


def _seen(x: Value, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil: bool) -> Any:
    """Return the positions in x that each window of a pool covers; the position after the last is outside the image.

    Shapes  (..., *counts, entries of a window)
    """
    n, lead = len(kernel), len(shape(x)) - len(kernel)
    ends = [(0, 0, 0)] * lead
    for size, k, s, p, d in zip(shape(x)[lead:], kernel, stride, padding, dilation, strict=True):
        count = _pooled(size, k, s, p, d, ceil)
        ends.append((p, (count - 1) * s + d * (k - 1) + 1 - size - p, 0))
    ones = (1,) * lead
    seen = windowed(padded(shape(x), ends), (*ones, *kernel), (*ones, *stride), (*ones, *dilation))
    return seen.reshape((*seen.shape[: lead + n], math.prod(kernel)))


def max_pool(
    n: int, x: Value, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> tuple[Value, Any]:
    """Return the largest entry of each window, and its flat position in the image.

    Shapes  x (..., *sizes) with n sizes; both results (..., *counts), the numbers of windows.
    """
    kernel, padding, dilation = each(kernel, n), each(padding, n), each(dilation, n)
    places = _seen(x, kernel, each(stride, n) if stride else kernel, padding, dilation, ceil_mode)
    seen = gathered(x, places, -np.inf)
    at = np.take_along_axis(places, np.argmax(plain(seen), axis=-1)[..., None], -1)[..., 0]
    return np.max(seen, axis=-1), at % math.prod(shape(x)[-n:])


def _average_pool(
    n: int,
    x: Value,
    kernel: Any,
    stride: Any = (),
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Value:
    """Return the mean of each window."""
    kernel, padding = each(kernel, n), each(padding, n)
    stride = each(stride, n) if stride else kernel
    seen = _seen(x, kernel, stride, padding, (1,) * n, ceil_mode)
    total, counts = np.sum(gathered(x, seen), axis=-1), seen.shape[-n - 1 : -1]
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


def _regions(size: int, count: int) -> list[slice]:
    """Return the slices of an axis that adaptive pooling reduces; they may overlap."""
    return [slice(k * size // count, -(-(k + 1) * size // count)) for k in range(count)]


def adaptive_average(n: int, x: Value, output_size: Any) -> Value:
    """Return the means over `output_size` regions of each axis.

    Shapes  x (..., *sizes) with n sizes; the result (..., *output_size).
    """
    y = x
    for k, count in enumerate(each(output_size, n)):
        axis = len(shape(x)) - n + k
        chosen = np.zeros((shape(x)[axis], count))
        for j, region in enumerate(_regions(shape(x)[axis], count)):
            chosen[region, j] = 1.0
        y = np.moveaxis(np.matmul(np.moveaxis(y, axis, -1), chosen) / np.sum(chosen, axis=0), -1, axis)
    return y


def _adaptive_max(n: int, x: Value, output_size: Any) -> tuple[Value, Any]:
    """Return the largest entries in `output_size` regions of each axis, and their flat positions in the image."""
    sizes, counts = shape(x)[-n:], each(output_size, n)
    numbers: Value = np.arange(math.prod(sizes)).reshape(sizes)
    values, places = [], []
    for regions in product(*(_regions(size, count) for size, count in zip(sizes, counts, strict=True))):
        part = GETITEM(x, index=(..., *regions))
        row = np.reshape(part, (*shape(part)[:-n], -1))
        values.append(np.max(row, axis=-1))
        places.append(numbers[tuple(regions)].ravel()[np.argmax(plain(row), axis=-1)])
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


def _nearest(n: int, x: Value, output_size: Any, scales: Sequence[Any], shift: float) -> Value:
    """Resize images; each new pixel is a copy of the nearest old one."""
    for k, count in enumerate(output_size):
        axis = len(shape(x)) - n + k
        size = shape(x)[axis]
        scale = 1 / scales[k] if k < len(scales) and scales[k] else size / count
        at = np.minimum(np.floor((np.arange(count) + shift) * np.float32(scale)).astype(int), size - 1)
        x = GETITEM(x, index=at_axis(axis, at))
    return x


def _places(size: int, count: int, align_corners: bool, scale: float | None) -> Any:
    """Return where the pixels of the new axis lie on the old one."""
    if align_corners:
        return np.arange(count) * ((size - 1) / (count - 1) if count > 1 else 0.0)
    return (np.arange(count) + 0.5) * (1 / scale if scale else size / count) - 0.5


def _linear(n: int, x: Value, output_size: Any, align_corners: bool, *scales: Any) -> Value:
    """Resize images by linear interpolation between neighbours, axis by axis."""
    for k, count in enumerate(output_size):
        axis = len(shape(x)) - n + k
        size = shape(x)[axis]
        place = np.maximum(_places(size, count, align_corners, scales[k] if k < len(scales) else None), 0.0)
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
        place = _places(size, count, align_corners, scales[k] if k < len(scales) else None)
        low = np.floor(place).astype(int)
        weights = _cubic_weights((place - low).reshape((-1,) + (1,) * (1 - k)))
        taps = [GETITEM(x, index=at_axis(axis, np.clip(low + j - 1, 0, size - 1))) for j in range(4)]
        x = sum(w * tap for w, tap in zip(weights, taps, strict=True))
    return x


for n, name in ((1, "linear1d"), (2, "bilinear2d"), (3, "trilinear3d")):
    register({
        f"upsample_nearest{n}d": lambda x, to, *scales, n=n: _nearest(n, x, to, scales, 0.0),
        f"_upsample_nearest_exact{n}d": lambda x, to, *scales, n=n: _nearest(n, x, to, scales, 0.5),
        f"upsample_{name}": lambda x, to, align_corners, *scales, n=n: _linear(n, x, to, align_corners, *scales),
    })  # fmt: skip
