"""Functions at complex numbers near the real axis, which numpy and scipy compute for real numbers only."""

from typing import Any

import numpy as np

from gradcli.tracing.primitive import Value


def expit(x: Value) -> Value:
    """Return 1 / (1 + exp(-x)), without overflow."""
    e = np.exp(np.where(np.real(x) >= 0, -x, x))
    return np.where(np.real(x) >= 0, 1.0, e) / (1.0 + e)


def log1p(z: Value) -> Any:
    """Return log(1 + z), with full accuracy for small z; numpy's log1p has it for real numbers only."""
    re, im = np.real(z), np.imag(z)
    return 0.5 * np.log1p(re * (2 + re) + im * im) + np.arctan2(im, 1 + re) * 1j


def logaddexp(a: Value, b: Value) -> Value:
    """Return log(exp(a) + exp(b)), without overflow."""
    first = np.real(a) >= np.real(b)
    larger: Any = np.where(first, a, b)
    other: Any = np.where(first, b, a)
    return larger + log1p(np.exp(other - larger))


def log_expit(x: Value) -> Value:
    """Return log(expit(x))."""
    return -logaddexp(0.0 * x, -x)


def logit(x: Value) -> Value:
    """Return log(x / (1 - x)) between 0 and 1."""
    return np.log(x) - log1p(-x)


def gammaln(x: Value) -> Value:
    """Return the logarithm of the gamma function at numbers with a positive real part.

    Raises  TypeError for other numbers, where the complex function has its branch cut.
    """
    from scipy.special import loggamma

    if np.any(np.real(x) <= 0):
        raise TypeError("gammaln takes complex numbers right of 0 alone")
    return loggamma(x)
