"""Norms of vectors and matrices, and condition numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.errors import NoRule
from gradcli.rules.pairs import REAL
from gradcli.rules.reductions import NORM
from gradcli.rules.shaping import as_value
from gradcli.tracing import shapes
from gradcli.tracing.bind import handles
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import exact

_PAIR = (-2, -1)
_MATRIX: dict[Any, Callable[[Value], Value]] = {
    1: lambda a: np.max(np.sum(np.abs(a), axis=-2), axis=-1),
    -1: lambda a: np.min(np.sum(np.abs(a), axis=-2), axis=-1),
    np.inf: lambda a: np.max(np.sum(np.abs(a), axis=-1), axis=-1),
    -np.inf: lambda a: np.min(np.sum(np.abs(a), axis=-1), axis=-1),
    2: lambda a: np.linalg.svdvals(a)[..., 0],
    -2: lambda a: np.linalg.svdvals(a)[..., -1],
    "nuc": lambda a: np.sum(np.linalg.svdvals(a), axis=-1),
    "fro": lambda a: _length(a, _PAIR),
}


def _length(x: Value, axis: Any) -> Value:
    """Return the square root of the sum of squares over the axes."""
    if len(shape(x)) == len(axis):
        return NORM(x)
    return np.sqrt(np.sum(np.square(x), axis=axis))


def _of_vectors(x: Value, ord: Any) -> Value:
    """Return the norm over the last axis."""
    if ord is None or ord == 2:
        return _length(x, (-1,))
    magnitude = np.abs(x)
    if ord == 1:
        return np.sum(magnitude, axis=-1)
    if ord in (np.inf, -np.inf):
        return np.max(magnitude, axis=-1) if ord > 0 else np.min(magnitude, axis=-1)
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order {ord!r} for vectors")
    if ord == 0:
        return np.sum(np.not_equal(x, 0) * 1.0, axis=-1)
    return np.power(np.sum(np.power(magnitude, ord), axis=-1), exact(1, x) / ord)


def _of_matrices(a: Value, ord: Any) -> Value:
    """Return the norm over the last two axes."""
    known = _MATRIX.get("fro" if ord in (None, "f") else ord)
    if known is None:
        raise ValueError(f"Invalid norm order {ord!r} for matrices")
    return known(a)


def _last(x: Value, axis: tuple[int, ...]) -> Value:
    """Return `x` with the axes, counted from 0, moved to the end in their order."""
    ndim = len(shape(x))
    order = (*(k for k in range(ndim) if k not in axis), *axis)
    return x if order == tuple(range(ndim)) else np.transpose(x, order)


def _counted(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return axes counted from 0, in the order given."""
    many = (axis,) if isinstance(axis, int | np.integer) else tuple(axis)
    return tuple(shapes.axes(int(k), ndim)[0] for k in many)


def _kept(y: Value, x: Value, axis: tuple[int, ...], keepdims: bool) -> Value:
    return np.reshape(y, tuple(1 if k in axis else n for k, n in enumerate(shape(x)))) if keepdims else y


def norm(x: Value, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Value:
    """Return the norm of all entries, of vectors along one axis, or of matrices along two axes, as numpy does.

    Raises  ValueError for an order that is not defined, or for more than two axes.
    """
    x = as_value(x)
    ndim = len(shape(x))
    if axis is None and ord is None:
        return _kept(NORM(x), x, tuple(range(ndim)), keepdims)
    over = _counted(range(ndim) if axis is None else axis, ndim)
    if len(over) not in (1, 2):
        raise ValueError("Improper number of dimensions to norm.")
    last = _last(x, over)
    return _kept(_of_vectors(last, ord) if len(over) == 1 else _of_matrices(last, ord), x, over, keepdims)


@handles(np.linalg.norm)
def _norm(x: Value, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Value:
    return norm(REAL(as_value(x)), ord, axis, keepdims)  # numpy takes the modulus of complex numbers: not analytic


@handles(np.linalg.vector_norm)
def vector_norm(x: Value, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Value:
    """Return the vector norm over all the axes together."""
    x = REAL(as_value(x))
    ndim = len(shape(x))
    over = _counted(range(ndim) if axis is None else axis, ndim)
    rest = tuple(n for k, n in enumerate(shape(x)) if k not in over)
    return _kept(_of_vectors(np.reshape(_last(x, over), (*rest, -1)), ord), x, over, keepdims)


@handles(np.linalg.matrix_norm)
def matrix_norm(x: Value, *, keepdims: bool = False, ord: Any = "fro") -> Value:
    return _norm(x, ord, _PAIR, keepdims)


@handles(np.linalg.cond)
def cond(x: Value, p: Any = None) -> Value:
    """Return the condition number: a ratio of singular values, or the norm of `x` times the norm of its inverse.

    Raises  NoRule for p='nuc' of a matrix that is not square.
    """
    if p is None or p in (2, -2):
        s = np.linalg.svdvals(x)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    if p == "nuc" and shape(x)[-1] != shape(x)[-2]:
        raise NoRule("cond with p='nuc' is of square matrices", do="p=2")
    return norm(x, p, _PAIR) * norm(np.linalg.inv(x), p, _PAIR)
