"""Backward operations, which functions that differentiate inside themselves are recorded with.

Most are pulled from the row of the forward operation, so that they have derivatives in turn.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.shapes import shape
from gradcli.core.tracer import plain
from gradcli.frameworks.torch.aten.rows import TABLE, Row, add, at_axis, aten, axis, refuse
from gradcli.frameworks.torch.aten.windows import adaptive_average, max_pool
from gradcli.interpreters.program import vjp
from gradcli.primitives.shaping import SCATTER


def pulled(f: Callable[..., Value], xs: Sequence[Value], ybar: Value) -> list[Value]:
    """Return the cotangents of the arguments of f."""
    return vjp(f, xs)[1](ybar)


def _of(name: str, keep: int | None = None) -> Row:
    """Return the backward row of an operation of one differentiated argument, the first, and `keep` settings."""

    def backward(ybar: Value, x: Value, *settings: Any, **options: Any) -> Value:
        return pulled(lambda x: TABLE[name](x, *settings[:keep], **options), [x], ybar)[0]

    return backward


SAME = (
    "gelu silu mish softplus hardtanh hardswish hardsigmoid softshrink hardshrink logit glu "
    "mse_loss smooth_l1_loss huber_loss soft_margin_loss binary_cross_entropy multi_margin_loss avg_pool2d avg_pool3d "
    "reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d replication_pad2d replication_pad3d"
)  # operations whose backward takes the cotangent, and then what the operation takes


def _scattered(ybar: Value, sizes: Sequence[int], index: Any) -> Value:
    return SCATTER(ybar, index=index, into=tuple(sizes))


def _elu(ybar: Value, alpha: float, scale: float, input_scale: float, is_result: bool, x: Value) -> Value:
    if is_result:
        return ybar * np.where(np.greater(x, 0), scale, (x + scale * alpha) * input_scale)
    return _of("elu")(ybar, x, alpha, scale, input_scale)


def _selected(ybar: Value, sizes: Sequence[int], dim: int, index: int) -> Value:
    return _scattered(ybar, sizes, at_axis(axis(dim, len(sizes)), int(index)))


def _sliced(ybar: Value, sizes: Sequence[int], dim: int, start: int, end: int, step: int) -> Value:
    return _scattered(ybar, sizes, at_axis(axis(dim, len(sizes)), slice(start, end, step)))


def _moved(name: str) -> Row:
    """Return the backward row of an operation that moves entries, given the sizes of its argument."""
    return lambda ybar, sizes, *settings: pulled(lambda x: TABLE[name](x, *settings), [np.zeros(tuple(sizes))], ybar)[0]


def _resized(name: str) -> Row:
    return lambda ybar, to, sizes, *settings: _moved(name)(ybar, sizes, to, *settings)


def _prelu(ybar: Value, x: Value, weight: Value) -> tuple[Value, ...]:
    """Return the cotangents of x, and of the weight as if each entry had its own."""
    return tuple(pulled(TABLE["_prelu_kernel"], [x, weight + np.zeros(shape(x))], ybar))


def _adaptive(n: int) -> Row:
    return lambda ybar, x: pulled(lambda x: adaptive_average(n, x, shape(ybar)[-n:]), [x], ybar)[0]


def _largest(n: int) -> Row:
    """Return the backward row of a pool; which entries were the largest is found again."""
    return lambda ybar, x, *settings: pulled(lambda x: max_pool(n, x, *settings[:-1])[0], [x], ybar)[0]


def _softmax(ybar: Value, y: Value, dim: int, input_dtype: Any = None) -> Value:
    over = axis(dim, len(shape(y))) if shape(y) else None
    return y * (ybar - np.sum(ybar * y, axis=over, keepdims=True))


def _log_softmax(ybar: Value, y: Value, dim: int, input_dtype: Any = None) -> Value:
    over = axis(dim, len(shape(y))) if shape(y) else None
    return ybar - np.exp(y) * np.sum(ybar, axis=over, keepdims=True)


# fmt: off
add({f"{name}_backward": _of(name) for name in SAME.split()})
add({
    "tanh_backward": lambda ybar, y: ybar * (1 - y * y), "sigmoid_backward": lambda ybar, y: ybar * (y * (1 - y)),
    "threshold_backward": lambda ybar, x, threshold: np.where(np.greater(x, threshold), ybar, 0.0),
    "leaky_relu_backward": lambda ybar, x, slope, is_result: np.where(np.greater(x, 0), ybar, slope * ybar),
    "log_sigmoid_backward": _of("log_sigmoid", 0), "elu_backward": _elu,
    "native_dropout_backward": lambda ybar, mask, scale: ybar * mask * scale,
    "_prelu_kernel_backward": _prelu,
    "_softmax_backward_data": _softmax, "_log_softmax_backward_data": _log_softmax,
    "select_backward": _selected, "slice_backward": _sliced, "diagonal_backward": _moved("diagonal"),
    "unfold_backward": _moved("unfold"),
})
for n in (2, 3):
    add({f"_adaptive_avg_pool{n}d_backward": _adaptive(n), f"max_pool{n}d_with_indices_backward": _largest(n)})
for way in ("nearest1d", "nearest2d", "nearest3d", "linear1d", "bilinear2d", "trilinear3d", "bicubic2d"):
    add({f"upsample_{way}_backward": _resized(f"upsample_{way}")})
# fmt: on


@aten("nll_loss_backward", "nll_loss2d_backward")
def nll_loss_backward(
    ybar: Value, x: Value, target: Any, weight: Value, reduction: int, ignore_index: int, total_weight: Value
) -> Value:
    """Return the cotangent of the logarithms of probabilities."""
    return pulled(lambda x: TABLE["nll_loss"](x, target, weight, reduction, ignore_index), [x], ybar)[0]


def _masked(bars: Sequence[Value], mask: Sequence[bool]) -> tuple[Value, ...]:
    return tuple(bar if wanted else None for bar, wanted in zip(bars, mask, strict=True))


def _with_weights(
    f: Callable[[Value, Value, Value], Value],
    ybar: Value,
    x: Value,
    weight: Value,
    features: tuple[int, ...],
    mask: Any,
) -> tuple[Value, ...]:
    """Return the cotangents of x, a weight and a bias of f, which may be absent."""
    w = np.ones(features) if weight is None else weight
    return _masked(pulled(f, [x, w, np.zeros(features)], ybar), mask)


@aten()
def native_layer_norm_backward(
    ybar: Value, x: Value, normalized_shape: Any, mean: Value, rstd: Value, weight: Value, bias: Value, output_mask: Any
) -> Any:
    """Return the cotangents of x, the weight and the bias. The small number under the root is found from the spread."""
    to = tuple(normalized_shape)
    over = tuple(range(len(shape(x)) - len(to), len(shape(x))))

    def f(x: Value, w: Value, b: Value) -> Value:
        return _renormalised(x, over, mean, rstd) * w + b

    return _with_weights(f, ybar, x, weight, to, output_mask)


def _renormalised(x: Value, over: tuple[int, ...], mean: Value, rstd: Value) -> Value:
    """Return x standardised over axes; eps is what 1 / rstd^2 has more than the variance."""
    values, rate = plain(x), plain(rstd)
    eps = np.mean(1 / np.square(rate) - np.var(values, axis=over, keepdims=True))
    centred = x - np.mean(x, axis=over, keepdims=True)
    return centred / np.sqrt(np.mean(np.square(centred), axis=over, keepdims=True) + eps)


@aten()
def native_group_norm_backward(
    ybar: Value, x: Value, mean: Value, rstd: Value, weight: Value, *sizes_and_mask: Any
) -> Any:
    """Return the cotangents of x, the weight and the bias."""
    N, C, _, group, output_mask = sizes_and_mask
    to = (C,) + (1,) * (len(shape(x)) - 2)

    def f(x: Value, w: Value, b: Value) -> Value:
        y = _renormalised(np.reshape(x, (N, group, -1)), (2,), mean, np.reshape(rstd, (N, group, 1)))
        return np.reshape(y, shape(x)) * np.reshape(w, to) + np.reshape(b, to)

    return _with_weights(f, ybar, x, weight, (C,), output_mask)


@aten()
def native_batch_norm_backward(
    ybar: Value, x: Value, weight: Value, running_mean: Value, running_var: Value, *saved_and_options: Any
) -> Any:
    """Return the cotangents of x, the weight and the bias."""
    _, _, train, eps, output_mask = saved_and_options

    def f(x: Value, w: Value, b: Value) -> Value:
        return TABLE["native_batch_norm"](x, w, b, running_mean, running_var, train, 0.0, eps)[0]

    return _with_weights(f, ybar, x, weight, (shape(x)[1],), output_mask)


@aten()
def convolution_backward(
    ybar: Value, x: Value, weight: Value, bias_sizes: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int, output_mask: Any,
) -> Any:  # fmt: skip
    """Return the cotangents of the images, the kernels and the bias."""
    settings = (stride, padding, dilation, transposed, output_padding, groups)
    xbar, wbar = pulled(lambda x, w: TABLE["convolution"](x, w, None, *settings), [x, weight], ybar)
    bbar = np.sum(ybar, axis=tuple(k for k in range(len(shape(ybar))) if k != 1))
    return _masked((xbar, wbar, bbar), output_mask)


@aten()
def embedding_dense_backward(
    ybar: Value, indices: Any, num_weights: int, padding_idx: int, scale_grad_by_freq: bool
) -> Value:
    """Return the cotangent of the weights; torch leaves that of `padding_idx` at zero."""
    if scale_grad_by_freq:
        raise refuse("an embedding scaled by frequency")
    kept = np.where(np.equal(indices, padding_idx)[..., None], 0.0, ybar)
    return SCATTER(kept, index=(indices,), into=(int(num_weights), shape(ybar)[-1]))


@aten("_cdist_backward")
def cdist_backward(ybar: Value, a: Value, b: Value, p: float, distances: Value) -> Value:
    """Return the cotangent of the first rows."""
    return pulled(lambda a: TABLE["_cdist_forward"](a, b, p), [a], ybar)[0]


@aten("_pdist_backward")
def pdist_backward(ybar: Value, a: Value, p: float, distances: Value) -> Value:
    """Return the cotangent of the rows."""
    return pulled(lambda a: TABLE["_pdist_forward"](a, p), [a], ybar)[0]


@aten("_weight_norm_interface_backward")
def weight_norm_backward(ybar: Value, v: Value, g: Value, norms: Value, dim: int) -> tuple[Value, ...]:
    """Return the cotangents of the directions and the lengths."""
    return tuple(pulled(lambda v, g: TABLE["_weight_norm_interface"](v, g, dim)[0], [v, g], ybar))
