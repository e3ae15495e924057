"""Shapes of values: reading them, fitting values to them, and the transpose of a broadcast."""

import contextlib
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache
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


def broadcast_like(x: Value, like: Value) -> Value:
    """Return `x` broadcast to the shape of `like`."""
    wanted = shape(like)
    return x if shape(x) == wanted else np.broadcast_to(x, wanted)


def unbroadcast(ybar: Value, x: Value) -> Value:
    """Return the cotangent of `x` when `x` was broadcast to the shape of `ybar`: the sum over the broadcast axes.

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


def normalise_axes(axis: int | Sequence[int] | None, ndim: int) -> tuple[int, ...]:
    """Return `axis` as a sorted tuple of axes counted from 0; `None` means all of them.

    Raises  np.exceptions.AxisError if an axis is out of range.
    """
    if axis is None:
        return tuple(range(ndim))
    if isinstance(axis, int | np.integer):
        return (_count_from_0(int(axis), ndim),)
    return tuple(sorted(_count_from_0(int(k), ndim) for k in axis))


def _count_from_0(axis: int, ndim: int) -> int:
    if not -ndim <= axis < ndim:
        raise np.exceptions.AxisError(axis, ndim)
    return axis % ndim


def normalise_axis(axis: Any, ndim: int) -> int:
    """Return one axis counted from 0.

    Raises  np.exceptions.AxisError if it is out of range.
    """
    return normalise_axes(axis, ndim)[0]


def restore_reduced_axes(x: Value, over: tuple[int, ...], like: Value) -> Value:
    """Return a reduced value `x` with the reduced axes put back.

    Shapes  `like` has the shape before the reduction; the result has that shape, with length 1 along the axes `over`.
    """
    return np.reshape(x, tuple(1 if k in over else n for k, n in enumerate(shape(like))))


def concatenate_entries(xs: Iterable[Value]) -> Value:
    """Return the entries of several values as one vector."""
    return np.concatenate([np.reshape(x, (-1,)) for x in xs])


def split_like(row: Value, like: Sequence[Value]) -> list[Value]:
    """Return the parts of a vector as values of the shapes of `like`; the inverse of `concatenate_entries`."""
    ends = np.cumsum([size(x) for x in like])
    return [np.reshape(row[end - size(x) : end], shape(x))[()] for x, end in zip(like, ends, strict=True)]


def zeros_like(x: Value) -> Any:
    """Return plain zeros in the shape of `x`: a scalar for a scalar."""
    return np.float64(0) if shape(x) == () else np.zeros(shape(x))


def is_plain(x: Value) -> bool:
    """Return whether `x` is an ordinary float64 value, on which kernels may run."""
    return type(x) in _PLAIN


def redefines_arithmetic(x: Any) -> bool:
    """Whether a value is an np.matrix or a masked array; numpy.ma, which loads slowly, is loaded for no other value."""
    return isinstance(x, np.ndarray) and type(x) is not np.ndarray and isinstance(x, np.matrix | np.ma.MaskedArray)


def is_number(x: Value) -> bool:
    """Return whether `x` is a plain number or array, which another arithmetic must lift."""
    return type(x) in _NUMBERS


class Forgotten:
    """A placeholder for an array whose entries no rule will read; it keeps the shape only."""

    __slots__ = ("shape",)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.shape = shape


_PLAIN = {float, np.float64, np.ndarray, Forgotten}
_NUMBERS = _PLAIN | {int, np.int64}


# Large arrays in blocks that fit into the processor's cache: what is computed entry by entry then makes no large arrays.

BLOCK = 2**14  # entries


def iterate_blocks(count: int) -> Iterator[slice]:
    """Yield the parts of `count` entries, one block at a time; at least one part, which may be empty."""
    for first in range(0, max(count, 1), BLOCK):
        yield slice(first, first + BLOCK)


def entries_of_part(x: Any, part: slice) -> Any:
    """Return a part of the entries of an array, in C order; a number as it is."""
    if not np.ndim(x):
        return x
    return np.reshape(x, -1)[part] if x.flags.c_contiguous else x.flat[part]


def map_in_blocks(function: Callable[..., Any], dtype: Any, *arrays: Any) -> Any:
    """Return function(*arrays), which is computed entry by entry; large arrays are taken in blocks.

    Shapes  arrays have one shape, or are numbers; else, or if they are small, the function is called once.
    """
    shape = np.shape(arrays[0])
    count = int(np.prod(shape))
    if count <= BLOCK or any(np.ndim(x) and np.shape(x) != shape for x in arrays):
        return function(*arrays)
    made = np.empty(count, dtype)
    for part in iterate_blocks(count):
        made[part] = function(*(entries_of_part(x, part) for x in arrays))
    return made.reshape(shape)


def shared_zeros(shape: tuple[int, ...], dtype: Any) -> Any:
    """Return zeros of one byte each, as bool or int8, which are not to be written to; large ones share their memory."""
    count = math.prod(shape)
    return np.zeros(shape, dtype) if count <= BLOCK else _zero_bytes(count).view(dtype).reshape(shape)


@lru_cache(maxsize=4)
def _zero_bytes(count: int) -> Any:
    made = np.zeros(count, np.int8)
    made.flags.writeable = False
    return made


# Sizes of arrays that may hold inf and nan, in as few passes as possible.


def all_finite(x: Any) -> bool:
    """Whether a number or every entry of an array is finite."""
    return bool(np.isfinite(x).all())


def largest_magnitude(x: Any) -> float:
    """Return the largest absolute value, or 0 if there are no entries; inf or nan if an entry is."""
    x = np.asarray(x, dtype=float)
    return max(float(x.max()), -float(x.min())) if x.size else 0.0


def largest_finite(x: Any) -> float:
    """Return the largest absolute value of the finite entries, or 0 if there are none."""
    size = largest_magnitude(x)
    return size if math.isfinite(size) else float(np.max(np.abs(x), initial=0.0, where=np.isfinite(x)))


# A setting of glibc that lets large arrays reuse memory pages that the process already has.

_LARGEST = 31 * 2**20  # bytes; glibc raises its limit to at most 32 MiB


@cache
def reuse_pages() -> None:
    """Make glibc serve arrays of up to 32 MiB from its heap; other C libraries are not affected.

    By default, glibc gives every array over 128 KiB fresh pages, which the system maps and clears each time. That can cost
    several times the arithmetic. Freeing one large block raises the limit for the rest of the process. The block is never
    written to, so that it takes no memory.
    """
    with contextlib.suppress(MemoryError):  # a memory limit may forbid the block; then the default stays
        np.empty(_LARGEST // 8)
