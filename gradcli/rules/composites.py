"""Functions composed of primitives: some of numpy's, and the activations and losses of machine learning."""

import operator
from typing import Any

import numpy as np

from gradcli.errors import NoRule
from gradcli.rules.elementwise import INTEGER_POWER, ln, pi
from gradcli.rules.kinds import bilinear, is_given, value_or_default, write_result
from gradcli.rules.reductions import log_softmax
from gradcli.rules.shaping import GETITEM, as_value, is_traced
from gradcli.rules.sorting import record_order, searchsorted
from gradcli.tracing import shapes
from gradcli.tracing.primitive import F, Primitive, Value, handle, handles
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import Tracer, exact_integer, is_zero, plain_value


@handles(np.polyval)
def polyval(p: Value, x: Value) -> Value:
    """Return the polynomial's value by Horner's scheme.

    Shapes  `p` is a vector; the result has the shape of x.
    """
    p, x = as_value(p), as_value(x)
    y: Value = np.zeros(shape(x))[()]
    for k in range(shape(p)[0]):
        y = y * x + p[k]
    return y


@handles(np.vander)
def vander(x: Value, N: int | None = None, increasing: bool = False) -> Value:
    x = as_value(x)
    if len(shape(x)) != 1:
        raise ValueError("x must be a one-dimensional array or sequence.")
    count = shape(x)[0] if N is None else N
    columns = [INTEGER_POWER(x, n=n) if n else np.ones(shape(x)) for n in range(count)]
    return np.stack(columns if increasing else columns[::-1], axis=1) if columns else np.ones((shape(x)[0], 0))


def _pad_to_equal_length(a: Value, b: Value) -> tuple[Value, Value]:
    a, b = np.atleast_1d(as_value(a)), np.atleast_1d(as_value(b))
    count = max(shape(a)[0], shape(b)[0])
    first, second = (np.concatenate([np.zeros(count - shape(x)[0]), x]) if shape(x)[0] < count else x for x in (a, b))
    return first, second


@handles(np.clip)
def clip(
    a: Value, a_min: Value = None, a_max: Value = None, out: Any = None, *, min: Value = None, max: Value = None
) -> Value:
    """Return min(max(a, a_min), a_max)."""
    low, high = value_or_default(min, a_min), value_or_default(max, a_max)
    y = np.maximum(as_value(a), low) if is_given(low) else np.positive(as_value(a))
    return write_result(out, np.minimum(y, high) if is_given(high) else y)


@handles(np.sinc)
def sinc(x: Value) -> Value:
    """Return sin(pi x) / (pi x), 1 at 0."""
    t = pi(x) * x
    origin = is_zero(t)
    safe = np.where(origin, 1.0, t)
    q = t * t
    series = 1.0 - q / 6 * (1.0 - q / 20 * (1.0 - q / 42 * (1.0 - q / 72)))  # at 0, exact up to the ninth derivative
    return np.where(origin, series, np.sin(safe) / safe)


@handles(np.logaddexp2)
def logaddexp2(a: Value, b: Value) -> Value:
    ln2 = ln(2, a)
    return np.logaddexp(a * ln2, b * ln2) / ln2


@handles(np.round, np.around)
def round_(a: Value, decimals: int = 0, out: Any = None) -> Value:
    x, scale = as_value(a), 10.0 ** abs(decimals)
    y = np.rint(x) if not decimals else np.rint(x * scale) / scale if decimals > 0 else np.rint(x / scale) * scale
    return write_result(out, y)


def _filled_array(a: Value, number: float, dtype: Any, to: Any) -> Any:
    """Return an array as a value of the sweep of `a`, so that traced values can be written into it."""
    x = np.full(value_or_default(to, shape(a)), number, value_or_default(dtype, getattr(a, "dtype", None)))[()]
    return a.hold(x) if isinstance(a, Tracer) and np.ndim(x) and np.asarray(x).dtype.kind in "fc" else x


@handles(np.full_like)
def full_like(
    a: Value, fill_value: Value, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None,
    **device: Any,
) -> Any:  # fmt: skip
    if not isinstance(fill_value, Tracer):
        return _filled_array(a, fill_value, dtype, shape)
    wanted = value_or_default(shape, shapes.shape(a))
    return np.positive(np.broadcast_to(fill_value, wanted)) if wanted != () else fill_value


handles(getattr(np, "astype", None))(lambda x, dtype, /, *, copy=True, device=None: x.astype(dtype, copy=copy))


def relu(x: Value) -> Value:
    """Return max(x, 0), with slope 0 at 0."""
    return F.relu(x)


def sigmoid(x: Value) -> Value:
    """Return 1 / (1 + exp(-x))."""
    return F.expit(x)


def softplus(x: Value) -> Value:
    """Return log(1 + exp(x))."""
    return F.logaddexp(x, np.float64(0))


def silu(x: Value) -> Value:
    """Return x * sigmoid(x)."""
    return x * sigmoid(x)


def gelu(x: Value, approximate: str = "none") -> Value:
    """Return x times the normal distribution function of x, exact (erf) or by the tanh formula.

    Raises  ValueError if `approximate` is neither 'none' nor 'tanh'.
    Source  Hendrycks and Gimpel (2016), arXiv 1606.08415.
    """
    if approximate == "tanh":
        return 0.5 * x * (1 + F.tanh(np.sqrt(2 / pi(x)) * (x + 0.044715 * x**3)))
    if approximate != "none":
        raise ValueError("gelu takes approximate='none' or approximate='tanh'")
    return 0.5 * x * F.erfc(-x / np.sqrt(exact_integer(2, x)))


def mse(a: Value, b: Value) -> Value:
    """Return mean((a - b)**2)."""
    return np.mean(np.square(a - b))


def cross_entropy(z: Value, y: Value, axis: int = -1) -> Value:
    """Return the cross entropy of logits `z` with targets `y`, the mean over rows.

    The targets are one-hot rows, probabilities, or class indices.

    Shapes  `z` has the classes along `axis`; `y` has the shape of `z`, or for class indices that shape without `axis`.
    Raises  ValueError for class indices that are not integers from 0 to the number of classes - 1.
    """
    logp = log_softmax(z, axis)
    classes = shape(z)[axis]
    if len(shape(y)) == len(shape(z)) - 1:
        labels = np.asarray(plain_value(y))
        if np.any(labels != np.floor(labels)) or np.any((labels < 0) | (labels >= classes)):
            whole = f"class indices are whole numbers from 0 to {classes - 1}"
            raise ValueError(f"{whole}, and no derivative by them exists")
        places = y if isinstance(y, Tracer) else labels
        y = np.moveaxis((places[..., None] == np.arange(classes, dtype=float)) * 1.0, -1, axis)
    return -np.sum(y * logp) / (shapes.size(z) / classes)


def layer_norm(x: Value, w: Value = 1.0, b: Value = 0.0, eps: float = 1e-5) -> Value:
    """Return w * (x - mean) / sqrt(var + eps) + b over the last axis.

    Shapes  `w` and `b` broadcast with x.
    """
    centred = x - np.mean(x, axis=-1, keepdims=True)
    spread = np.mean(np.square(centred), axis=-1, keepdims=True)
    return w * centred / np.sqrt(spread + eps) + b


# Finite differences, numerical integration, interpolation, convolution, and cross products.


def index_along(axis: int, *index: Any) -> tuple[Any, ...]:
    """Return an index with a full slice for every axis before `axis`, followed by `index`."""
    return (slice(None),) * axis + index


@handles(np.diff)
def diff(a: Value, n: int = 1, axis: int = -1, prepend: Value = None, append: Value = None) -> Value:
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    y = as_value(a)
    k = shapes.normalise_axis(axis, len(shape(y)))
    if n == 0:
        return y
    if is_given(prepend) or is_given(append):
        one = tuple(1 if j == k else n for j, n in enumerate(shape(y)))
        parts = [as_value(x) for x in (prepend, y, append) if is_given(x)]
        y = np.concatenate([x if shape(x) else np.broadcast_to(x, one) for x in parts], axis=k)
    for _ in range(n):
        y = y[index_along(k, slice(1, None))] - y[index_along(k, slice(None, -1))]
    return y


@handles(np.ediff1d)
def ediff1d(ary: Value, to_end: Value = None, to_begin: Value = None) -> Value:
    row = np.reshape(as_value(ary), -1)
    begin, end = ([] if x is None else [np.reshape(as_value(x), -1)] for x in (to_begin, to_end))
    return np.concatenate([*begin, row[1:] - row[:-1], *end])


@handles(np.gradient)
def gradient(f: Value, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    """Return slopes by finite differences: of second order inside, and of order `edge_order` at the ends.

    Shapes  each slope has the shape of f; one array for a single axis, else a tuple with one array for each axis.
    Raises  TypeError for a wrong number of spacings; ValueError for too few entries, or if edge_order is above 2.
    """
    f = as_value(f)
    axes = range(len(shape(f))) if axis is None else np.atleast_1d(axis)
    over = [shapes.normalise_axis(k, len(shape(f))) for k in axes]
    spacings = [as_value(h) for h in varargs] or [1.0]
    spacings = spacings * len(over) if len(spacings) == 1 and not shape(spacings[0]) else spacings
    if len(spacings) != len(over):
        raise TypeError("invalid number of arguments")
    if edge_order > 2:
        raise ValueError("'edge_order' greater than 2 not supported")
    found = tuple(_gradient_along(f, h, k, edge_order) for h, k in zip(spacings, over, strict=True))
    return found[0] if len(over) == 1 else found


def _gradient_along(f: Value, h: Value, axis: int, edge_order: int) -> Value:
    n = shape(f)[axis]
    if n < edge_order + 1:
        raise ValueError("Shape of array too small to calculate a numerical gradient")
    if shape(h) and shape(h)[0] != n:
        raise ValueError("when 1d, distances must match the length of the corresponding dimension")
    rows = np.moveaxis(f, axis, 0)
    lift = (slice(None),) + (None,) * (len(shape(f)) - 1)
    steps = (h[1:] - h[:-1])[lift] if shape(h) else h
    left, right = (steps[:-1], steps[1:]) if shape(h) else (h, h)
    if not shape(h) or np.all(plain_value(steps) == plain_value(steps)[:1]):
        inner = (rows[2:] - rows[:-2]) / (2.0 * (steps[0] if shape(h) else h))
    else:
        a, b, c = -right / (left * (left + right)), (right - left) / (left * right), left / (right * (left + right))
        inner = a * rows[:-2] + b * rows[1:-1] + c * rows[2:]
    first, last = (steps[0], steps[-1]) if shape(h) else (h, h)
    if edge_order == 1:
        start, end = (rows[1] - rows[0]) / first, (rows[-1] - rows[-2]) / last
    else:
        second, before = (steps[1], steps[-2]) if shape(h) else (h, h)
        start = _edge_slope(rows[0], rows[1], rows[2], first, second)
        end = -_edge_slope(rows[-1], rows[-2], rows[-3], last, before)
    return np.moveaxis(np.concatenate([start[None], inner, end[None]]), 0, axis)


def _edge_slope(f0: Value, f1: Value, f2: Value, h: Value, k: Value) -> Value:
    """Return the slope at the first of three values, from the parabola through them."""
    return -(2.0 * h + k) / (h * (h + k)) * f0 + (h + k) / (h * k) * f1 - h / (k * (h + k)) * f2


@handles(np.trapezoid)
def trapezoid(y: Value, x: Value = None, dx: Value = 1.0, axis: int = -1) -> Value:
    y = as_value(y)
    k = shapes.normalise_axis(axis, len(shape(y)))
    steps: Value = dx
    if x is not None:
        x, column = as_value(x), (-1,) + (1,) * (len(shape(y)) - 1 - k)
        steps = np.reshape(x[1:] - x[:-1], column) if len(shape(x)) == 1 else diff(x, axis=axis)
    return np.sum(steps * (y[index_along(k, slice(1, None))] + y[index_along(k, slice(None, -1))]) / 2.0, axis=k)


@handles(np.unwrap)
def unwrap(p: Value, discont: Any = None, axis: int = -1, *, period: Any = None) -> Value:
    """Return the phase plus constant whole periods that remove its jumps; a jump of half a period is a tie.

    Raises  NoRule if the period or the discontinuity is traced.
    """
    if is_traced(period) or is_traced(discont):
        raise NoRule("the period or the discontinuity of unwrap is a traced value", do="pass plain numbers")
    p = as_value(p)
    k = shapes.normalise_axis(axis, len(shape(p)))
    steps = np.diff(plain_value(p), axis=k)
    whole = 2 * np.pi if period is None else period
    limit = max(whole / 2 if discont is None else discont, whole / 2)
    turns = np.rint((np.diff(np.unwrap(plain_value(p), discont, axis, period=whole), axis=k) - steps) / whole)
    exact = 2 * pi(p) if period is None else period
    moved = diff(p, axis=k)
    rest = moved + turns * exact
    record_order(np.where(turns != 0, rest, 0.0), exact / 2)
    record_order(-exact / 2, np.where(turns != 0, rest, 0.0))
    record_order(np.abs(np.where(turns == 0, moved, 0.0)), limit if limit > whole / 2 else exact / 2)
    none = np.zeros(tuple(1 if axis == k else n for axis, n in enumerate(shape(p))))
    return p + np.concatenate([none, np.cumsum(turns, axis=k)], axis=k) * exact


@handles(np.interp)
def interp(x: Value, xp: Value, fp: Value, left: Value = None, right: Value = None, period: Any = None) -> Value:
    """Return the piecewise linear interpolation at `x`; a value of `x` on a knot is recorded as a tie.

    Raises  NoRule if `xp` does not increase; ValueError if the period is 0.
    """
    x, xp, fp = as_value(x), as_value(xp), as_value(fp)
    if period is not None:
        if period == 0:
            raise ValueError("period must be a non-zero value")
        length = abs(period)
        x, xp = x % length, xp % length
        order = np.argsort(xp)
        xp, fp = xp[order], fp[order]
        xp = np.concatenate([xp[-1:] - length, xp, xp[:1] + length])
        fp = np.concatenate([fp[-1:], fp, fp[:1]])
        left = right = None
    if np.any(np.diff(plain_value(xp)) <= 0):
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
    if right is not None and np.any(plain_value(row) == plain_value(xp)[-1]):
        y = np.where(plain_value(row) == plain_value(xp)[-1], fp[-1], y)
    if np.any(np.isnan(plain_value(row))):
        y = np.where(np.isnan(plain_value(row)), row, y)
    return np.reshape(y, shape(x))


# Convolution.


def _convolve_transpose(ybar: Value, a: Value, v: Value) -> Value:
    n, m = shape(a)[0], shape(v)[0]
    return GETITEM(CONVOLVE(ybar, np.flip(v)), index=slice(m - 1, m - 1 + n))


CONVOLVE: Primitive = bilinear(np.convolve, _convolve_transpose, lambda ybar, a, v: _convolve_transpose(ybar, v, a))


@handles(np.convolve)
def convolve(a: Value, v: Value, mode: str = "full") -> Value:
    a, v = (np.atleast_1d(as_value(x)) for x in (a, v))
    return _part_of_convolution(np.convolve, a, v, mode)


@handles(np.correlate)
def correlate(a: Value, v: Value, mode: str = "valid") -> Value:
    a, v = as_value(a), F.real(as_value(v))  # numpy conjugates v: not analytic, so no complex step
    return _part_of_convolution(np.correlate, a, np.flip(v), mode)


def _part_of_convolution(function: Any, a: Value, v: Value, mode: str) -> Value:
    """Return the part of the full convolution that a mode of `function` keeps."""
    n, m = shape(a)[0], shape(v)[0]
    if not n or not m:
        raise ValueError("first argument cannot be empty" if not n else "second argument cannot be empty")
    short, count = min(n, m), len(function(np.ones(n), np.ones(m), mode))
    lead = (short - 1) // 2 if function is np.convolve or n >= m else short // 2
    start = {"full": 0, "valid": short - 1, "same": lead}[mode]
    if len(shape(a)) != 1 or len(shape(v)) != 1:
        raise ValueError("object too deep for desired array")
    return GETITEM(CONVOLVE(a, v), index=slice(start, start + count))


@handles(np.cross)
def cross(a: Value, b: Value, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Value:
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = np.moveaxis(as_value(a), axisa, -1), np.moveaxis(as_value(b), axisb, -1)
    if shape(a)[-1] != 3 or shape(b)[-1] != 3:
        flat_cross = "a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]"
        raise NoRule("cross of vectors without 3 entries has no derivative rule", do=flat_cross)
    return np.moveaxis(_cross_along_last_axis(a, b), -1, axisc)


@handles(np.linalg.cross)
def cross_along_axis(x1: Value, x2: Value, *, axis: int = -1) -> Value:
    """Return the vector product of vectors of three entries along an axis."""
    a, b = (np.moveaxis(as_value(x), axis, -1) for x in (x1, x2))
    if shape(a)[-1] != 3 or shape(b)[-1] != 3:
        raise ValueError(f"cross needs vectors of 3 entries, not shapes {shape(x1)} and {shape(x2)}")
    return np.moveaxis(_cross_along_last_axis(a, b), -1, axis)


def _cross_along_last_axis(a: Value, b: Value) -> Value:
    later, last = [1, 2, 0], [2, 0, 1]
    return a[..., later] * b[..., last] - a[..., last] * b[..., later]


# Polynomials given by their coefficients, the highest power first.


def _trim_leading_zeros(p: Value) -> Value:
    """Return coefficients without leading zeros, as numpy drops them."""
    p = np.atleast_1d(as_value(p))
    nonzero = np.flatnonzero(np.not_equal(p, 0)) if shape(p)[0] > 1 else np.zeros(1, dtype=int)
    return p[int(nonzero[0]) :] if nonzero.size else p[-1:]


@handles(np.polyder)
def polyder(p: Value, m: int = 1) -> Value:
    if m < 0:
        raise ValueError("Order of derivative must be positive (see polyint)")
    y = as_value(p)
    for _ in range(int(m)):
        y = y[:-1] * np.arange(shape(y)[0] - 1, 0, -1).astype(float)
    return y


@handles(np.polyint)
def polyint(p: Value, m: int = 1, k: Any = None) -> Value:
    y = as_value(p)
    constants = as_value(0.0 if k is None else k)
    constants = constants if shape(constants) else np.broadcast_to(constants, (m,))
    for n in range(int(m)):
        integrated = y / np.arange(shape(y)[0], 0, -1).astype(float)
        y = np.concatenate([integrated, np.reshape(as_value(constants[n]), (1,))])
    return y


@handles(np.polydiv)
def polydiv(u: Value, v: Value) -> tuple[Value, Value]:
    """Return quotient and remainder by long division; leading zeros of the remainder are dropped as in numpy."""
    u, v = np.atleast_1d(as_value(u)) + 0.0, np.atleast_1d(as_value(v)) + 0.0
    m, n = shape(u)[0] - 1, shape(v)[0] - 1
    scale = 1.0 / v[0]
    quotient = []
    r = [u[k] for k in range(m + 1)]
    for k in range(m - n + 1):
        d = scale * r[k]
        quotient.append(d)
        for j in range(n + 1):
            r[k + j] = r[k + j] - d * v[j]
    while len(r) > 1 and np.allclose(plain_value(r[0]), 0, rtol=1e-14):
        r.pop(0)
    return (np.stack(quotient) if quotient else np.zeros(1)), np.stack(r)


@handles(np.poly)
def poly(seq_of_zeros: Value) -> Value:
    """Return the coefficients of the polynomial with the given roots.

    Raises  NoRule for a matrix.
    """
    roots = np.atleast_1d(as_value(seq_of_zeros))
    if len(shape(roots)) != 1:
        raise NoRule("poly of a matrix has no derivative rule", do="pass the roots: np.poly(np.linalg.eigvalsh(a))")
    y: Value = np.ones(1)
    for k in range(shape(roots)[0]):
        y = convolve(y, np.stack([np.float64(1), -roots[k]]))
    return y


@handles(np.polyfit)
def polyfit(
    x: Value, y: Value, deg: Any, rcond: Any = None, full: bool = False, w: Value = None, cov: Any = False
) -> Value:
    """Return the coefficients of the least-squares fit; columns are scaled to unit length, as in numpy.

    Raises  NoRule with `full`, `cov` or several degrees.
    """
    if full or cov or np.ndim(deg):
        raise NoRule("polyfit with full=, cov= or several degrees has no derivative rule", do="np.linalg.lstsq")
    x, y = as_value(x) + 0.0, as_value(y) + 0.0
    left = vander(x, int(deg) + 1)
    if w is not None:
        w = as_value(w) + 0.0
        left, y = left * w[:, None], y * (w[:, None] if len(shape(y)) == 2 else w)
    scale = np.sqrt(np.sum(left * left, axis=0))
    small = shape(x)[0] * np.finfo(np.float64).eps if rcond is None else rcond
    c = np.linalg.lstsq(left / scale, y, small)[0]
    return np.swapaxes(np.swapaxes(c, 0, -1) / scale, 0, -1)


handle({
    np.polyadd: lambda a1, a2: operator.add(*_pad_to_equal_length(a1, a2)),
    np.polysub: lambda a1, a2: operator.sub(*_pad_to_equal_length(a1, a2)),
    np.zeros_like: lambda a, dtype=None, order="K", subok=True, shape=None, **device: _filled_array(a, 0.0, dtype, shape),
    np.empty_like: lambda prototype, dtype=None, order="K", subok=True, shape=None, **device:
        _filled_array(prototype, 0.0, dtype, shape),
    np.ones_like: lambda a, dtype=None, order="K", subok=True, shape=None, **device: _filled_array(a, 1.0, dtype, shape),
    np.fix: lambda x, out=None: write_result(out, np.trunc(as_value(x))),
    np.copy: lambda a, order="K", subok=False: np.positive(as_value(a)),
    np.real_if_close: lambda a, tol=100: as_value(a),
    np.i0: lambda x: F.i0(as_value(x)),
    np.polymul: lambda a1, a2: convolve(_trim_leading_zeros(a1), _trim_leading_zeros(a2)),
})  # fmt: skip
