"""Finite differences, numerical integration, interpolation, convolution, and cross products."""

from typing import Any

import numpy as np

from gradcli.errors import NoRule
from gradcli.rules.elementwise import pi
from gradcli.rules.kinds import bilinear
from gradcli.rules.moving import is_traced
from gradcli.rules.options import given
from gradcli.rules.shaping import GETITEM, as_value
from gradcli.rules.sorting import searchsorted, settle
from gradcli.tracing import shapes
from gradcli.tracing.bind import handles
from gradcli.tracing.primitive import Primitive, Value, named
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import plain


def along(axis: int, *index: Any) -> tuple[Any, ...]:
    """Return an index with a full slice for every axis before `axis`, followed by `index`."""
    return (slice(None),) * axis + index


@handles(np.diff)
def diff(a: Value, n: int = 1, axis: int = -1, prepend: Value = None, append: Value = None) -> Value:
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    y = as_value(a)
    k = shapes.axes(axis, len(shape(y)))[0]
    if n == 0:
        return y
    ends = [_end(x, y, k) for x in (prepend, append)]
    if any(end is not None for end in ends):
        y = np.concatenate([part for part in (ends[0], y, ends[1]) if part is not None], axis=k)
    for _ in range(n):
        y = y[along(k, slice(1, None))] - y[along(k, slice(None, -1))]
    return y


def _end(x: Value, a: Value, axis: int) -> Value:
    if not given(x):
        return None
    x = as_value(x)
    return x if shape(x) else np.broadcast_to(x, tuple(1 if k == axis else n for k, n in enumerate(shape(a))))


@handles(np.ediff1d)
def ediff1d(ary: Value, to_end: Value = None, to_begin: Value = None) -> Value:
    row = np.reshape(as_value(ary), -1)
    ends = [None if x is None else np.reshape(as_value(x), -1) for x in (to_begin, to_end)]
    parts = [ends[0], row[1:] - row[:-1], ends[1]]
    return np.concatenate([part for part in parts if part is not None])


@handles(np.gradient)
def gradient(f: Value, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Return slopes by finite differences: of second order inside, and of order `edge_order` at the ends.

    Shapes  each slope has the shape of f; one array for a single axis, else a tuple with one array for each axis.
    Raises  TypeError for a wrong number of spacings; ValueError for too few entries, or if edge_order is above 2.
    """
    f = as_value(f)
    over = (
        tuple(range(len(shape(f))))
        if axis is None
        else tuple(shapes.axes(k, len(shape(f)))[0] for k in np.atleast_1d(axis))
    )
    spacings = [as_value(h) for h in varargs] or [1.0]
    spacings = spacings * len(over) if len(spacings) == 1 and not shape(spacings[0]) else spacings
    if len(spacings) != len(over):
        raise TypeError("invalid number of arguments")
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    found = tuple(_slope(f, h, k, edge_order) for h, k in zip(spacings, over, strict=True))
    return found[0] if len(over) == 1 else found


def _slope(f: Value, h: Value, axis: int, edge_order: int) -> Value:
    n = shape(f)[axis]
    if n < edge_order + 1:
        raise ValueError("Shape of array too small to calculate a numerical gradient")
    if shape(h) and shape(h)[0] != n:
        raise ValueError("when 1d, distances must match the length of the corresponding dimension")
    rows = np.moveaxis(f, axis, 0)
    lift = (slice(None),) + (None,) * (len(shape(f)) - 1)
    steps = (h[1:] - h[:-1])[lift] if shape(h) else h
    left, right = (steps[:-1], steps[1:]) if shape(h) else (h, h)
    uniform = not shape(h) or bool(np.all(plain(steps) == plain(steps)[:1]))
    if uniform:
        step = steps[0] if shape(h) else h
        inner = (rows[2:] - rows[:-2]) / (2.0 * step)
    else:
        a, b, c = -right / (left * (left + right)), (right - left) / (left * right), left / (right * (left + right))
        inner = a * rows[:-2] + b * rows[1:-1] + c * rows[2:]
    first, last = (steps[0], steps[-1]) if shape(h) else (h, h)
    if edge_order == 1:
        start, end = (rows[1] - rows[0]) / first, (rows[-1] - rows[-2]) / last
    else:
        second, before = (steps[1], steps[-2]) if shape(h) else (h, h)
        start = _edge(rows[0], rows[1], rows[2], first, second)
        end = -_edge(rows[-1], rows[-2], rows[-3], last, before)
    return np.moveaxis(np.concatenate([start[None], inner, end[None]]), 0, axis)


def _edge(f0: Value, f1: Value, f2: Value, h: Value, k: Value) -> Value:
    """Return the slope at the first of three values, from the parabola through them."""
    return -(2.0 * h + k) / (h * (h + k)) * f0 + (h + k) / (h * k) * f1 - h / (k * (h + k)) * f2


@handles(np.trapezoid)
def trapezoid(y: Value, x: Value = None, dx: Value = 1.0, axis: int = -1) -> Value:
    y = as_value(y)
    k = shapes.axes(axis, len(shape(y)))[0]
    steps: Value = dx
    if x is not None:
        x = as_value(x)
        steps = x[1:] - x[:-1] if len(shape(x)) == 1 else diff(x, axis=axis)
        steps = np.reshape(steps, (-1,) + (1,) * (len(shape(y)) - 1 - k)) if len(shape(x)) == 1 else steps
    return np.sum(steps * (y[along(k, slice(1, None))] + y[along(k, slice(None, -1))]) / 2.0, axis=k)


@handles(np.unwrap)
def unwrap(p: Value, discont: Any = None, axis: int = -1, *, period: Any = None) -> Value:
    """Return the phase plus constant whole periods that remove its jumps; a jump of half a period is a tie.

    Raises  NoRule if the period or the discontinuity is traced.
    """
    if is_traced(period) or is_traced(discont):
        raise NoRule("the period or the discontinuity of unwrap is a traced value", do="pass plain numbers")
    p = as_value(p)
    k = shapes.axes(axis, len(shape(p)))[0]
    steps = np.diff(plain(p), axis=k)
    whole = 2 * np.pi if period is None else period
    limit = max(whole / 2 if discont is None else discont, whole / 2)
    turns = np.rint((np.diff(np.unwrap(plain(p), discont, axis, period=whole), axis=k) - steps) / whole)
    exact = 2 * pi(p) if period is None else period
    moved = diff(p, axis=k)
    rest = moved + turns * exact
    settle(np.where(turns != 0, rest, 0.0), exact / 2)
    settle(-exact / 2, np.where(turns != 0, rest, 0.0))
    settle(np.abs(np.where(turns == 0, moved, 0.0)), limit if limit > whole / 2 else exact / 2)
    none = np.zeros(tuple(1 if axis == k else n for axis, n in enumerate(shape(p))))
    return p + np.concatenate([none, np.cumsum(turns, axis=k)], axis=k) * exact


@handles(np.interp)
def interp(x: Value, xp: Value, fp: Value, left: Value = None, right: Value = None, period: Any = None) -> Value:
    """Return the piecewise linear interpolation at `x`; a value of `x` on a knot is recorded as a tie.

    Raises  NoRule if `xp` does not increase; ValueError if the period is 0.
    """
    x, xp, fp = as_value(x), as_value(xp), as_value(fp)
    if period is not None:
        x, xp, fp = _periodic(x, xp, fp, period)
        left = right = None
    if np.any(np.diff(plain(xp)) <= 0):
        raise NoRule("interp between places that do not increase has no meaning", do="sort xp, and fp with it")
    row, count = np.reshape(x, -1), shape(xp)[0]
    at = searchsorted(xp, row, "right")
    j = np.clip(at - 1, 0, max(count - 2, 0))
    inside = (at > 0) & (at < count)
    low, high = GETITEM(fp, index=j), GETITEM(fp, index=np.minimum(j + 1, count - 1))
    start, stop = GETITEM(xp, index=j), GETITEM(xp, index=np.minimum(j + 1, count - 1))
    width = np.where(inside, stop - start, 1.0)
    y = low + (high - low) / width * (row - start)
    y = np.where(inside, y, np.where(at == 0, fp[0] if left is None else left, fp[-1] if right is None else right))
    if right is not None and np.any(plain(row) == plain(xp)[-1]):
        y = np.where(plain(row) == plain(xp)[-1], fp[-1], y)
    if np.any(np.isnan(plain(row))):
        y = np.where(np.isnan(plain(row)), row, y)
    return np.reshape(y, shape(x))


def _periodic(x: Value, xp: Value, fp: Value, period: Any) -> tuple[Value, Value, Value]:
    if period == 0:
        raise ValueError("period must be a non-zero value")
    length = abs(period)
    x, xp = x % length, xp % length
    order = np.argsort(xp)
    xp, fp = xp[order], fp[order]
    return x, np.concatenate([xp[-1:] - length, xp, xp[:1] + length]), np.concatenate([fp[-1:], fp, fp[:1]])


# Convolution.


def _convolve(a: Value, v: Value) -> Value:
    return np.convolve(a, v)


def _first(ybar: Value, a: Value, v: Value) -> Value:
    n, m = shape(a)[0], shape(v)[0]
    return GETITEM(CONVOLVE(ybar, np.flip(v)), index=slice(m - 1, m - 1 + n))


def _second(ybar: Value, a: Value, v: Value) -> Value:
    return _first(ybar, v, a)


CONVOLVE: Primitive = bilinear(_convolve, _first, _second, name="convolve")


@handles(np.convolve)
def convolve(a: Value, v: Value, mode: str = "full") -> Value:
    a, v = (np.atleast_1d(as_value(x)) for x in (a, v))
    return _part(a, v, mode, _extent(np.convolve, shape(a)[0], shape(v)[0], mode))


@handles(np.correlate)
def correlate(a: Value, v: Value, mode: str = "valid") -> Value:
    a, v = as_value(a), named("real")(as_value(v))  # numpy conjugates v: not analytic, so no complex step
    return _part(a, np.flip(v), mode, _extent(np.correlate, shape(a)[0], shape(v)[0], mode))


def _part(a: Value, v: Value, mode: str, extent: slice) -> Value:
    if len(shape(a)) != 1 or len(shape(v)) != 1:
        raise ValueError("object too deep for desired array")
    return GETITEM(CONVOLVE(a, v), index=extent)


def _extent(function: Any, n: int, m: int, mode: str) -> slice:
    """Return the slice of the full convolution that a mode keeps."""
    if not n or not m:
        raise ValueError("first argument cannot be empty" if not n else "second argument cannot be empty")
    short, count = min(n, m), len(function(np.ones(n), np.ones(m), mode))
    lead = (short - 1) // 2 if function is np.convolve or n >= m else short // 2
    start = {"full": 0, "valid": short - 1, "same": lead}[mode]
    return slice(start, start + count)


@handles(np.cross, np.linalg.cross)
def cross(a: Value, b: Value, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Value:
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = np.moveaxis(as_value(a), axisa, -1), np.moveaxis(as_value(b), axisb, -1)
    if shape(a)[-1] != 3 or shape(b)[-1] != 3:
        flat_cross = "a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]"
        raise NoRule("cross of vectors without 3 entries has no derivative rule", do=flat_cross)
    one, two = [1, 2, 0], [2, 0, 1]
    y = a[..., one] * b[..., two] - a[..., two] * b[..., one]
    return np.moveaxis(y, -1, axisc)
