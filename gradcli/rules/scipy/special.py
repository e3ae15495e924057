"""Functions of scipy.special that are no ufuncs."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.errors import NoRule
from gradcli.rules import networks, reductions
from gradcli.rules.shaping import as_value
from gradcli.tracing.primitive import F, Value, primitive_by_name
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import is_differentiated, plain_value


def logsumexp(
    a: Value, axis: Any = None, b: Value | None = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    """Return log(sum(b exp(a))), and the sum's sign; weights of one sign go into the exponents as logarithms."""
    x = as_value(a)
    if b is None:
        y = reductions.logsumexp(x, axis, keepdims=keepdims)
        return (y, np.ones(np.shape(y))[()]) if return_sign else y
    weights = as_value(b)
    if np.all(plain_value(weights) > 0):
        return logsumexp(x + np.log(weights), axis, None, keepdims, return_sign)
    largest = np.max(plain_value(x) + np.zeros(shape(weights)), axis=axis, keepdims=True)
    total = np.sum(weights * np.exp(x - largest), axis=axis, keepdims=True)
    sign = np.sign(plain_value(total))
    if not return_sign and np.any(sign < 0):
        raise NoRule("logsumexp of a negative sum is nan", do="return_sign=True")
    y = np.log(np.abs(total)) + largest
    if not keepdims:
        y, sign = (np.squeeze(part, axis=axis) for part in (y, sign))
    return (y, sign) if return_sign else y


def polygamma(n: Any, x: Value) -> Value:
    """Return the n-th derivative of digamma; `n` is a whole number."""
    orders = np.unique(plain_value(n))
    if orders.size != 1 or orders[0] != np.floor(orders[0]) or orders[0] < 0:
        raise NoRule("polygamma has a derivative rule for one whole order", do="call it once for each order")
    x, order = as_value(x), int(orders[0])
    return F.digamma(x) if order == 0 else F.polygamma(x, n=order)


def lambertw(z: Value, k: int = 0, tol: float = 1e-8) -> Value:
    """Return the principal branch at positive numbers, where it is real."""
    z = as_value(z)
    if k != 0 or not np.all(plain_value(z) > 0):
        raise NoRule("lambertw has a derivative rule for positive numbers and k=0 only", do="move the point")
    return F.wrightomega(np.log(z)) + np.complex128(0)


def _spherical_bessel(bessel: str) -> Callable[..., Value]:
    """Return the spherical Bessel function of the first or second kind, for positive arguments, and its derivative."""

    def function(n: int, z: Value, derivative: bool = False) -> Value:
        z = as_value(z)
        if is_differentiated(n) or not np.all(plain_value(z) > 0):
            raise NoRule(
                "a spherical Bessel function has a rule for positive arguments and a plain order", do="move it"
            )
        y = np.sqrt(np.pi / (2 * z)) * primitive_by_name(bessel)(np.float64(n) + 0.5, z)
        if not derivative:
            return y
        return n / z * y - np.sqrt(np.pi / (2 * z)) * primitive_by_name(bessel)(np.float64(n) + 1.5, z)

    return function


_SPECIAL: dict[str, Callable[..., Any]] = {
    "logsumexp": logsumexp,
    "softmax": lambda x, axis=None: reductions.softmax(as_value(x), axis),
    "log_softmax": lambda x, axis=None: reductions.log_softmax(as_value(x), axis),
    "polygamma": polygamma,
    "multigammaln": lambda a, d: networks.multigammaln(as_value(a), int(d)),
    "lambertw": lambertw,
    "spherical_jn": _spherical_bessel("jv"),
    "spherical_yn": _spherical_bessel("yv"),
}

FUNCTIONS = {"special": _SPECIAL}
