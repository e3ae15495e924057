"""Backward operations, which occur in recordings of functions that differentiate inside themselves.

Most are the vjp of the forward operation's row, so that they can be differentiated again.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.arithmetic.program import vjp
from gradcli.frameworks.torch.aten.networks import adaptive_average, max_pool
from gradcli.frameworks.torch.aten.rows import TABLE, Row, aten, register
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape


def pulled(f: Callable[..., Value], xs: Sequence[Value], ybar: Value) -> list[Value]:
    """Return the cotangents of the arguments of f."""
    return vjp(f, xs)[1](ybar)


def _of(name: str, keep: int | None = None) -> Row:
    """Return the backward row of an operation that is differentiated with respect to its first argument, with `keep` settings."""

    def backward(ybar: Value, x: Value, *settings: Any, **options: Any) -> Value:
        return pulled(lambda x: TABLE[name](x, *settings[:keep], **options), [x], ybar)[0]

    return backward


SAME = (
    "softshrink hardshrink multi_margin_loss hardsigmoid avg_pool2d avg_pool3d "
    "replication_pad1d replication_pad2d replication_pad3d"
)  # operations whose backward takes the cotangent, then the operation's own arguments


def _moved(name: str) -> Row:
    """Return the backward row of an operation that moves entries, given the sizes of its argument."""
    return lambda ybar, sizes, *settings: pulled(lambda x: TABLE[name](x, *settings), [np.zeros(tuple(sizes))], ybar)[0]


def _resized(name: str) -> Row:
    return lambda ybar, to, sizes, *settings: _moved(name)(ybar, sizes, to, *settings)


def _adaptive(n: int) -> Row:
    return lambda ybar, x: pulled(lambda x: adaptive_average(n, x, shape(ybar)[-n:]), [x], ybar)[0]


def _largest(n: int) -> Row:
    """Return the backward row of max pooling, which finds the largest entries again."""
    return lambda ybar, x, *settings: pulled(lambda x: max_pool(n, x, *settings[:-1])[0], [x], ybar)[0]


# fmt: off
register({f"{name}_backward": _of(name) for name in SAME.split()} | {"log_sigmoid_backward": _of("log_sigmoid", 0)})
for n in (2, 3):
    register({f"_adaptive_avg_pool{n}d_backward": _adaptive(n), f"max_pool{n}d_with_indices_backward": _largest(n)})
for way in ("nearest1d", "nearest2d", "nearest3d", "linear1d", "bilinear2d", "trilinear3d", "bicubic2d"):
    register({f"upsample_{way}_backward": _resized(f"upsample_{way}")})
# fmt: on


def _masked(bars: Sequence[Value], mask: Sequence[bool]) -> tuple[Value, ...]:
    return tuple(bar if wanted else None for bar, wanted in zip(bars, mask, strict=True))


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


@aten("_cdist_backward")
def cdist_backward(ybar: Value, a: Value, b: Value, p: float, distances: Value) -> Value:
    """Return the cotangent of `a`."""
    return pulled(lambda a: TABLE["_cdist_forward"](a, b, p), [a], ybar)[0]


@aten("_pdist_backward")
def pdist_backward(ybar: Value, a: Value, p: float, distances: Value) -> Value:
    """Return the cotangent of `a`."""
    return pulled(lambda a: TABLE["_pdist_forward"](a, p), [a], ybar)[0]


@aten("_weight_norm_interface_backward")
def weight_norm_backward(ybar: Value, v: Value, g: Value, norms: Value, dim: int) -> tuple[Value, ...]:
    """Return the cotangents of the directions and the lengths."""
    return tuple(pulled(lambda v, g: TABLE["_weight_norm_interface"](v, g, dim)[0], [v, g], ybar))
