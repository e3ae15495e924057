"""Functions that torch, JAX and scipy have and numpy lacks, made of primitives."""

from typing import Any

import numpy as np

from gradcli.rules.elementwise import pi
from gradcli.rules.reductions import logsumexp
from gradcli.tracing.primitive import Value, named
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import exact, plain


def rsqrt(x: Value) -> Value:
    """Return 1 / sqrt(x)."""
    return 1 / np.sqrt(x)


def frac(x: Value) -> Value:
    """Return x without its whole part, with the sign of x."""
    return x - np.trunc(x)


def lerp(a: Value, b: Value, weight: Value) -> Value:
    """Return a + weight * (b - a)."""
    return a + weight * (b - a)


def masked_fill(x: Value, mask: Value, value: Value) -> Value:
    """Return x with `value` where the mask is not 0."""
    return np.where(np.not_equal(mask, 0), value, x)


def dist(a: Value, b: Value, p: Any = 2) -> Value:
    """Return the p-norm of all entries of a - b."""
    return np.linalg.norm(np.ravel(a - b), p)


def logcumsumexp(x: Value, axis: int = -1) -> Value:
    """Return the logarithms of the cumulative sums of exp(x) along an axis, without overflow."""
    return np.logaddexp.accumulate(x, axis) if shape(x) else np.positive(x)


def cummax(x: Value, axis: int = -1) -> Value:
    """Return the largest entry so far along an axis."""
    return np.maximum.accumulate(x, axis) if shape(x) else np.positive(x)


def cummin(x: Value, axis: int = -1) -> Value:
    """Return the smallest entry so far along an axis."""
    return np.minimum.accumulate(x, axis) if shape(x) else np.positive(x)


def polygamma(n: Any, x: Value) -> Value:
    """Return the n-th derivative of digamma, n a whole number.

    Raises  ValueError for other orders.
    """
    order = float(plain(n))
    if order < 0 or not order.is_integer():
        raise ValueError(f"the order {order:g} is not one of 0, 1, 2, ...")
    return named("polygamma")(x, n=int(order)) if order else named("digamma")(x)


def multigammaln(a: Value, d: int) -> Value:
    """Return the logarithm of the multivariate gamma function of dimension d."""
    if d < 1:
        raise ValueError(f"the dimension {d} is not one of 1, 2, 3, ...")
    parts = [named("gammaln")(a - exact(k, a) / 2) for k in range(d)]
    return sum(parts[1:], parts[0]) + exact(d * (d - 1), a) / 4 * np.log(pi(a))


def logmeanexp(x: Value, axis: Any = None, keepdims: bool = False) -> Value:
    """Return log(mean(exp(x))) along the axes, without overflow."""
    count = np.size(plain(x)) if axis is None else np.prod([shape(x)[k] for k in np.atleast_1d(axis)])
    return logsumexp(x, axis, keepdims) - np.log(exact(int(count), x))
