"""Functions that write into an array; every array that shares its memory sees the change."""

from typing import Any

import numpy as np

from gradcli.rules.moving import flat, positions
from gradcli.rules.options import truth
from gradcli.rules.shaping import GETITEM, as_value
from gradcli.tracing import shapes
from gradcli.tracing.bind import handles
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape
from gradcli.tracing.storage import write
from gradcli.tracing.tracer import frozen


def write_flat(a: Value, at: Any, v: Value) -> None:
    """Write values at flat positions of `a`, one for each position."""
    write(a, np.unravel_index(at, shape(a)) if shape(a) else (), v)


def _repeated(v: Value, count: int) -> Value:
    """Return `count` entries of `v`, starting again from the first if there are fewer."""
    v = as_value(v)
    if not shape(v):
        return v
    return GETITEM(flat(v), index=np.arange(count) % shapes.size(v))


@handles(np.copyto)
def copyto(dst: Value, src: Value, casting: str = "same_kind", where: Any = True) -> None:
    if where is True:
        write(dst, ..., src)
        return
    mask = np.broadcast_to(truth(where), shape(dst))
    write(dst, mask, np.broadcast_to(as_value(src), shape(dst))[mask])


@handles(np.put)
def put(a: Value, ind: Any, v: Value, mode: str = "raise") -> None:
    at = np.ravel(np.take(np.arange(shapes.size(a)), frozen(ind), mode=mode))  # type: ignore[call-overload]
    write_flat(a, at, _repeated(v, at.size))


@handles(np.place)
def place(arr: Value, mask: Any, vals: Value) -> None:
    at = np.flatnonzero(np.broadcast_to(truth(mask), shape(arr)))
    if at.size:
        write_flat(arr, at, _repeated(vals, at.size))


@handles(np.putmask)
def putmask(a: Value, mask: Any, values: Value) -> None:
    at = np.flatnonzero(np.broadcast_to(truth(mask), shape(a)))
    v = as_value(values)
    write_flat(a, at, GETITEM(flat(v), index=at % shapes.size(v)))


@handles(np.put_along_axis)
def put_along_axis(arr: Value, indices: Any, values: Value, axis: int | None = -1) -> None:
    indices = frozen(np.asarray(indices))
    at = np.take_along_axis(positions(arr), indices, axis)
    write_flat(arr, at, values)


@handles(np.fill_diagonal)
def fill_diagonal(a: Value, val: Value, wrap: bool = False) -> None:
    mask = np.zeros(shape(a), dtype=bool)
    np.fill_diagonal(mask, True, wrap)
    at = np.flatnonzero(mask)
    write_flat(a, at, _repeated(np.reshape(as_value(val), -1), at.size))
