"""What slides over images: convolutions, pools, patches, and images of other sizes."""

import math
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.shapes import shape
from gradcli.core.tracer import plain
from gradcli.frameworks.torch.aten.rows import add, at_axis, aten
from gradcli.frameworks.torch.aten.shaping import padded
from gradcli.primitives.shaping import GETITEM, PUT, SCATTER

Sizes = tuple[int, ...]


def each(sizes: Any, n: int) -> Sizes:
    """Return one size for each of n axes, from one for all or one for each."""
    many = (sizes,) if isinstance(sizes, int) else tuple(int(k) for k in sizes)
    return many * n if len(many) == 1 else many


def windows(x: Value, kernel: Sizes, stride: Sizes, dilation: Sizes, counts: Sizes) -> Value:
    """Return the windows over the last axes of x.

    Shapes  the last n axes become n axes of `counts` windows and then n axes of `kernel` entries.
    """
    n = len(kernel)
    at = []
    for k in range(n):
        places = np.arange(counts[k])[:, None] * stride[k] + np.arange(kernel[k]) * dilation[k]
        at.append(places.reshape([m if j % n == k else 1 for j, m in enumerate(counts + kernel)]))
    return GETITEM(x, index=(..., *at))


def _convolved(x: Value, w: Value, stride: Sizes, dilation: Sizes, groups: int) -> Value:
    """Return the convolution of images, with nothing around them, with kernels (group, channel, feature, *sizes)."""
    n, batch = len(stride), shape(x)[0]
    channels, features, kernel = shape(w)[1], shape(w)[2], shape(w)[3:]
    counts = tuple(
        (m - d * (k - 1) - 1) // s + 1 for m, k, s, d in zip(shape(x)[2:], kernel, stride, dilation, strict=True)
    )
    seen = np.reshape(windows(x, kernel, stride, dilation, counts), (batch, groups, channels, *counts, *kernel))
    rows = np.transpose(seen, (0, 1, *range(3, 3 + n), 2, *range(3 + n, 3 + 2 * n)))
    inside = channels * math.prod(kernel)
    rows = np.reshape(rows, (batch, groups, math.prod(counts), inside))
    columns = np.reshape(np.moveaxis(w, 2, -1), (groups, inside, features))
    return np.reshape(np.swapaxes(np.matmul(rows, columns), -1, -2), (batch, groups * features, *counts))


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
    n = len(shape(x)) - 2
    kernel = shape(weight)[2:]
    stride, padding, dilation = each(stride, n), each(padding, n), each(dilation, n)
    around = [(0, 0), (0, 0), *((p, p) for p in padding)]
    if transposed:
        x = _apart(x, stride)
        outside = zip(kernel, dilation, padding, each(output_padding, n), strict=True)
        around = [(0, 0), (0, 0), *((d * (k - 1) - p, d * (k - 1) - p + extra) for k, d, p, extra in outside)]
        w = np.reshape(weight, (groups, shape(weight)[0] // groups, *shape(weight)[1:]))
        w = np.flip(w, axis=tuple(range(3, 3 + n)))
        stride = (1,) * n
    else:
        w = np.swapaxes(np.reshape(weight, (groups, shape(weight)[0] // groups, *shape(weight)[1:])), 1, 2)
    y = _convolved(padded(x, around), w, stride, dilation, groups)
    return y if bias is None else y + np.reshape(bias, (-1, *(1,) * n))


def _apart(x: Value, stride: Sizes) -> Value:
    """Return images with zeros between their entries, stride - 1 of them."""
    if all(s == 1 for s in stride):
        return x
    into = (*shape(x)[:2], *((m - 1) * s + 1 for m, s in zip(shape(x)[2:], stride, strict=True)))
    return SCATTER(x, index=(..., *(slice(None, None, s) for s in stride)), into=into)


# Pools.


def _pooled(size: int, kernel: int, stride: int, padding: int, dilation: int, ceil: bool) -> int:
    """Return how many windows there are; one that would begin beyond the image and what is left of it is none."""
    free = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (free + (stride - 1 if ceil else 0)) // stride + 1
    return count - 1 if ceil and (count - 1) * stride >= size + padding else count


def _pool(
    x: Value, kernel: Sizes, stride: Sizes, padding: Sizes, dilation: Sizes, ceil: bool, value: float
) -> tuple[Value, Sizes]:
    """Return the windows of a pool, and how many there are; outside the image is `value`."""
    n = len(kernel)
    sizes = shape(x)[-n:]
    counts = tuple(_pooled(*given, ceil) for given in zip(sizes, kernel, stride, padding, dilation, strict=True))
    needed = [(c - 1) * s + d * (k - 1) + 1 for c, s, d, k in zip(counts, stride, dilation, kernel, strict=True)]
    around = [(p, max(0, m - size - p)) for p, m, size in zip(padding, needed, sizes, strict=True)]
    wide = padded(x, [(0, 0)] * (len(shape(x)) - n) + around, value)
    return windows(wide, kernel, stride, dilation, counts), counts


def max_pool(
    n: int, x: Value, kernel: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> tuple[Value, Any]:
    """Return the largest entry of each window, and its number in the image."""
    kernel, padding, dilation = each(kernel, n), each(padding, n), each(dilation, n)
    stride = each(stride, n) if stride else kernel
    below = float(np.min(plain(x), initial=0.0)) - 1.0  # lower than any entry, and finite
    seen, counts = _pool(x, kernel, stride, padding, dilation, ceil_mode, below)
    over = tuple(range(-n, 0))
    row = np.reshape(seen, (*shape(seen)[:-n], -1))
    best = np.unravel_index(np.argmax(plain(row), axis=-1), kernel)
    at: Any = 0
    for k in range(n):
        first = np.arange(counts[k]).reshape([-1 if j == k else 1 for j in range(n)]) * stride[k] - padding[k]
        at = at * shape(x)[k - n] + first + best[k] * dilation[k]
    return np.max(seen, axis=over), at


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
    seen, counts = _pool(x, kernel, stride, padding, (1,) * n, ceil_mode, 0.0)
    total = np.sum(seen, axis=tuple(range(-n, 0)))
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
    """Return where the parts of an axis begin and end that adaptive pools go over; they may overlap."""
    return [slice(k * size // count, -(-(k + 1) * size // count)) for k in range(count)]


def adaptive_average(n: int, x: Value, output_size: Any) -> Value:
    """Return means over as many parts of each axis as are asked for."""
    y = x
    for k, count in enumerate(each(output_size, n)):
        axis = len(shape(x)) - n + k
        chosen = np.zeros((shape(x)[axis], count))
        for j, region in enumerate(_regions(shape(x)[axis], count)):
            chosen[region, j] = 1.0
        y = np.moveaxis(np.matmul(np.moveaxis(y, axis, -1), chosen) / np.sum(chosen, axis=0), -1, axis)
    return y


def _adaptive_max(n: int, x: Value, output_size: Any) -> tuple[Value, Any]:
    """Return the largest entries of as many parts of each axis as are asked for, and their numbers in the image."""
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


for n in (1, 2, 3):
    add({
        f"max_pool{n}d_with_indices": lambda x, *args, n=n, **kw: max_pool(n, x, *args, **kw),
        f"max_pool{n}d": lambda x, *args, n=n, **kw: max_pool(n, x, *args, **kw)[0],
        f"avg_pool{n}d": lambda x, *args, n=n, **kw: _average_pool(n, x, *args, **kw),
        f"adaptive_avg_pool{n}d": lambda x, to, n=n: adaptive_average(n, x, to),
        f"adaptive_max_pool{n}d": lambda x, to, n=n: _adaptive_max(n, x, to),
    })  # fmt: skip


@aten("max_unpool2d")
def max_unpool2d(x: Value, indices: Any, output_size: Any) -> Value:
    """Return images with the entries of x at the places they were found, and zeros elsewhere."""
    return _unpooled(x, indices, tuple(output_size))


@aten("max_unpool3d")
def max_unpool3d(x: Value, indices: Any, output_size: Any, stride: Any = None, padding: Any = None) -> Value:
    """Return volumes with the entries of x at the places they were found, and zeros elsewhere."""
    return _unpooled(x, indices, tuple(output_size))


def _unpooled(x: Value, indices: Any, sizes: Sizes) -> Value:
    lead = shape(x)[: -len(sizes)]
    into = (math.prod(lead), math.prod(sizes))
    at = np.reshape(indices, (into[0], -1))
    rows = np.zeros(into)
    y = PUT(rows, np.reshape(x, at.shape), index=(np.arange(into[0])[:, None], at))
    return np.reshape(y, (*lead, *sizes))


for n in (2, 3):
    add({f"_adaptive_avg_pool{n}d": lambda x, to, n=n: adaptive_average(n, x, to)})


# Patches.


@aten()
def im2col(x: Value, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Value:
    """Return the windows of images as columns."""
    kernel, stride, dilation, around = (each(sizes, 2) for sizes in (kernel_size, stride, dilation, padding))
    wide = padded(x, [(0, 0)] * (len(shape(x)) - 2) + [(p, p) for p in around])
    counts = tuple(
        (m - d * (k - 1) - 1) // s + 1 for m, k, s, d in zip(shape(wide)[-2:], kernel, stride, dilation, strict=True)
    )
    seen = windows(wide, kernel, stride, dilation, counts)
    moved = np.moveaxis(seen, (-2, -1), (-4, -3))
    lead = shape(x)[:-3]
    return np.reshape(moved, (*lead, shape(x)[-3] * math.prod(kernel), math.prod(counts)))


@aten()
def col2im(x: Value, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Value:
    """Return images made of windows that are added where they overlap."""
    sizes, kernel, dilation, around, stride = (
        each(s, 2) for s in (output_size, kernel_size, dilation, padding, stride)
    )
    wide = tuple(m + 2 * p for m, p in zip(sizes, around, strict=True))
    counts = tuple((m - d * (k - 1) - 1) // s + 1 for m, k, s, d in zip(wide, kernel, stride, dilation, strict=True))
    lead = (*shape(x)[:-2], shape(x)[-2] // math.prod(kernel))
    parts = np.moveaxis(np.reshape(x, (*lead, *kernel, *counts)), (-2, -1), (-4, -3))
    numbers = windows(np.arange(math.prod(wide)).reshape(wide), kernel, stride, dilation, counts)
    flat = np.reshape(parts, (*lead, -1))
    y = SCATTER(flat, index=(..., numbers.ravel()), into=(*lead, math.prod(wide)))
    inside = tuple(slice(p, p + m) for p, m in zip(around, sizes, strict=True))
    return GETITEM(np.reshape(y, (*lead, *wide)), index=(..., *inside))


# Other sizes.


def _nearest(n: int, x: Value, output_size: Any, scales: Sequence[Any], shift: float) -> Value:
    """Return images of other sizes; each pixel is the nearest one."""
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
    """Return images of other sizes; each pixel lies on the line between its neighbours, axis by axis."""
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
    """Return images of other sizes; each pixel lies on cubic curves through its neighbours, axis by axis."""
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
    add({
        f"upsample_nearest{n}d": lambda x, to, *scales, n=n: _nearest(n, x, to, scales, 0.0),
        f"_upsample_nearest_exact{n}d": lambda x, to, *scales, n=n: _nearest(n, x, to, scales, 0.5),
        f"upsample_{name}": lambda x, to, align_corners, *scales, n=n: _linear(n, x, to, align_corners, *scales),
    })  # fmt: skip
