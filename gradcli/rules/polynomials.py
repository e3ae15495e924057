"""Polynomials given by their coefficients, the highest power first."""

from typing import Any

import numpy as np

from gradcli.errors import NoRule
from gradcli.rules.calculus import convolve
from gradcli.rules.elementwise import INTEGER_POWER
from gradcli.rules.shaping import as_value
from gradcli.tracing.bind import handles
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import plain


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


def _aligned(a: Value, b: Value) -> tuple[Value, Value]:
    a, b = np.atleast_1d(as_value(a)), np.atleast_1d(as_value(b))
    count = max(shape(a)[0], shape(b)[0])
    first, second = (np.concatenate([np.zeros(count - shape(x)[0]), x]) if shape(x)[0] < count else x for x in (a, b))
    return first, second


@handles(np.polyadd)
def polyadd(a1: Value, a2: Value) -> Value:
    a, b = _aligned(a1, a2)
    return a + b


@handles(np.polysub)
def polysub(a1: Value, a2: Value) -> Value:
    a, b = _aligned(a1, a2)
    return a - b


@handles(np.polymul)
def polymul(a1: Value, a2: Value) -> Value:
    return convolve(_trimmed(a1), _trimmed(a2))


def _trimmed(p: Value) -> Value:
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
    constants = (
        [0.0] * m if k is None else np.broadcast_to(as_value(k), (m,)) if not shape(as_value(k)) else as_value(k)
    )
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
    while len(r) > 1 and np.allclose(plain(r[0]), 0, rtol=1e-14):
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
