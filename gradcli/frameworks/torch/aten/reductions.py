"""Reductions over axes (sums, products, extremes, norms), and running operations along an axis."""

from typing import Any

import numpy as np

from gradcli.frameworks.torch.aten.rows import along, aten, axes, axis
from gradcli.rules.reductions import logsumexp as _logsumexp
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape, size
from gradcli.tracing.tracer import plain


@aten("sum")
def sum_(x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    """Return the sum over axes."""
    return np.sum(x, axis=axes(dim, x), keepdims=keepdim)


@aten()
def mean(x: Value, dim: Any = None, keepdim: bool = False) -> Value:
    """Return the mean over axes."""
    return np.mean(x, axis=axes(dim, x), keepdims=keepdim)


@aten()
def prod(x: Value, dim: int | None = None, keepdim: bool = False) -> Value:
    """Return the product of all entries, or along an axis."""
    return np.prod(x, axis=axes(dim, x), keepdims=keepdim)


@aten()
def var(x: Value, dim: Any = None, unbiased: bool = True, keepdim: bool = False, *, correction: Any = None) -> Value:
    """Return the variance over axes; the divisor is the number of entries minus the correction, which is 1 if `unbiased`."""
    over = axes(dim, x)
    count = size(x) // max(1, int(np.prod([n for k, n in enumerate(shape(x)) if k not in over], dtype=int)))
    free = max(0.0, count - float(int(unbiased) if correction is None else correction))
    y = np.sum(np.square(x - np.mean(x, axis=over, keepdims=True)), axis=over, keepdims=keepdim)
    return y / np.float64(free)


@aten()
def amax(x: Value, dim: Any = (), keepdim: bool = False) -> Value:
    """Return the largest entries over axes."""
    return np.max(x, axis=axes(dim, x), keepdims=keepdim)


@aten()
def amin(x: Value, dim: Any = (), keepdim: bool = False) -> Value:
    """Return the smallest entries over axes."""
    return np.min(x, axis=axes(dim, x), keepdims=keepdim)


def _where(find: Any, x: Value, dim: int, keepdim: bool) -> Any:
    return find(plain(x), axis=axis(dim, len(shape(x))), keepdims=keepdim) if shape(x) else np.int64(0)


@aten("max")
def max_(x: Value, dim: Any = None, keepdim: bool = False) -> Any:
    """Return the maximum of all entries, or along an axis with its position, or of two tensors entry by entry."""
    if dim is None:
        return np.max(x)
    if not isinstance(dim, int):
        return np.maximum(x, dim)
    return amax(x, dim, keepdim), _where(np.argmax, x, dim, keepdim)


@aten("min")
def min_(x: Value, dim: Any = None, keepdim: bool = False) -> Any:
    """Return the minimum of all entries, or along an axis with its position, or of two tensors entry by entry."""
    if dim is None:
        return np.min(x)
    if not isinstance(dim, int):
        return np.minimum(x, dim)
    return amin(x, dim, keepdim), _where(np.argmin, x, dim, keepdim)


@aten()
def argmax(x: Value, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the position of the largest entry."""
    return np.argmax(x, axis=dim, keepdims=keepdim) if shape(x) else np.int64(0)


@aten()
def argmin(x: Value, dim: int | None = None, keepdim: bool = False) -> Any:
    """Return the position of the smallest entry."""
    return np.argmin(x, axis=dim, keepdims=keepdim) if shape(x) else np.int64(0)


@aten()
def logsumexp(x: Value, dim: Any, keepdim: bool = False) -> Value:
    """Return log(sum(exp(x))) over axes."""
    over = axes(dim, x)
    top = plain(x)
    if np.all(np.isfinite(top)):
        return _logsumexp(x, over, keepdim)
    top = np.max(top, axis=over, keepdims=True)
    spread = np.sum(np.exp(x - np.where(np.isfinite(top), top, 0.0)), axis=over, keepdims=keepdim)
    return np.log(spread) + np.reshape(np.where(np.isfinite(top), top, 0.0), shape(spread))


@aten()
def linalg_vector_norm(x: Value, ord: Any = 2, dim: Any = None, keepdim: bool = False) -> Value:
    """Return the vector norm of the entries over all these axes together."""
    if not shape(x):
        return np.abs(x) if ord else np.not_equal(x, 0) * 1.0
    return np.linalg.vector_norm(x, ord=float(ord), axis=axes(dim, x), keepdims=keepdim)


@aten("any")
def any_(x: Value, dim: Any = None, keepdim: bool = False) -> Any:
    """Return whether any entry is not 0."""
    return np.any(x, axis=axes(dim, x), keepdims=keepdim)


@aten("all")
def all_(x: Value, dim: Any = None, keepdim: bool = False) -> Any:
    """Return whether no entry is 0."""
    return np.all(x, axis=axes(dim, x), keepdims=keepdim)


@aten()
def nonzero(x: Value) -> Any:
    """Return the positions of the entries that are not 0, one in each row."""
    return np.argwhere(x) if shape(x) else np.zeros((int(np.not_equal(x, 0)), 0), dtype=np.int64)


# Running operations.


@aten()
@along
def cumsum(x: Value, dim: int) -> Value:
    """Return running sums."""
    return np.cumsum(x, axis=dim)


@aten()
@along
def cumprod(x: Value, dim: int) -> Value:
    """Return running products."""
    return np.cumprod(x, axis=dim)


@aten()
@along
def logcumsumexp(x: Value, dim: int) -> Value:
    """Return the logarithms of running sums of exponentials."""
    return np.logaddexp.accumulate(x, axis=dim)


def _record(x: Value, k: int, better: Any) -> tuple[Value, Any]:
    """Return the best entry so far along an axis, and its last position."""
    rows = np.moveaxis(plain(x), k, 0)
    at = np.zeros(rows.shape, dtype=np.int64)
    for n in range(1, len(rows)):
        held = np.take_along_axis(rows, at[n - 1 : n], 0)[0]
        at[n] = np.where(better(rows[n], held) | np.isnan(rows[n]), n, at[n - 1])
    at = np.moveaxis(at, 0, k)
    return np.take_along_axis(x, at, k), at


@aten()
@along
def cummax(x: Value, dim: int) -> tuple[Value, Any]:
    """Return the largest entry so far, and its position."""
    _, at = _record(x, dim, np.greater_equal)
    return np.maximum.accumulate(x, axis=dim), at


@aten()
@along
def cummin(x: Value, dim: int) -> tuple[Value, Any]:
    """Return the smallest entry so far, and its position."""
    _, at = _record(x, dim, np.less_equal)
    return np.minimum.accumulate(x, axis=dim), at
