"""Shapes of values: asking for them, fitting to them, and undoing a broadcast."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Value = Any  # an np.float64, an ndarray, or a Tracer


def shape(x: Value) -> tuple[int, ...]:
    """Return the shape of any value; `()` for numbers."""
    found = getattr(x, "shape", None)
    return np.shape(x) if found is None else found


def size(x: Value) -> int:
    """Return the number of entries of any value."""
    return math.prod(shape(x))


def spread_like(x: Value, like: Value) -> Value:
    """Return `x` broadcast to the shape of `like`."""
    wanted = shape(like)
    return x if shape(x) == wanted else np.broadcast_to(x, wanted)


def unbroadcast(ybar: Value, x: Value) -> Value:
    """Return the cotangent of `x` when `x` was broadcast to the shape of `ybar`: sums over the axes that grew.

    Shapes  ybar has the broadcast shape; the result has the shape of x.
    """
    if type(ybar) is np.float64:  # a scalar can only come from scalars; the fast path of scalar programs
        return ybar
    have, want = shape(ybar), shape(x)
    if have == want:
        return ybar
    if len(have) > len(want):
        ybar = np.sum(ybar, axis=tuple(range(len(have) - len(want))))
    grew = tuple(k for k, n in enumerate(want) if n == 1 and shape(ybar)[k] != 1)
    if grew:
        ybar = np.sum(ybar, axis=grew, keepdims=True)
    return ybar if shape(ybar) == want else np.broadcast_to(ybar, want)


def axes(axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Return `axis` as a sorted tuple of axes counted from 0; `None` is all of them.

    Raises  np.exceptions.AxisError, as numpy does.
    """
    if axis is None:
        return tuple(range(ndim))
    many = (axis,) if isinstance(axis, int | np.integer) else tuple(axis)
    return tuple(sorted(_axis(int(a), ndim) for a in many))


def _axis(axis: int, ndim: int) -> int:
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(axis, ndim)
    return axis % ndim


def with_kept(x: Value, over: tuple[int, ...], like: Value) -> Value:
    """Return a reduced `x` with the reduced axes `over` of `like` put back, of length 1."""
    return np.reshape(x, tuple(1 if k in over else n for k, n in enumerate(shape(like))))


def end_to_end(xs: Iterable[Value]) -> Value:
    """Return the entries of several values in one row."""
    return np.concatenate([np.reshape(x, (-1,)) for x in xs])


def split_like(row: Value, like: Sequence[Value]) -> list[Value]:
    """Return the entries in one row as values of the shapes of `like`."""
    ends = np.cumsum([size(x) for x in like])
    return [np.reshape(row[end - size(x) : end], shape(x))[()] for x, end in zip(like, ends, strict=True)]


def zeros_like(x: Value) -> Any:
    """Return plain zeros in the shape of `x`: a scalar for a scalar."""
    return np.float64(0) if shape(x) == () else np.zeros(shape(x))


def is_plain(x: Value) -> bool:
    """Whether `x` is an ordinary float64 value, which kernels may take."""
    return type(x) in _PLAIN


def is_number(x: Value) -> bool:
    """Whether `x` is numbers of numpy's or Python's own, which another arithmetic must lift."""
    return type(x) in _NUMBERS


class Forgotten:
    """What is left of an array whose entries no rule will read: its shape."""

    __slots__ = ("shape",)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


_PLAIN = {float, np.float64, np.ndarray, Forgotten}
_NUMBERS = _PLAIN | {int, np.int64}
