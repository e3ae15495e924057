"""The incomplete gamma functions, by argument and order, and the incomplete beta function and Student's t, by argument.

The derivative of gammainc by its order has no closed form; it is a function of its own, `gammainc_order(a, x, n=1)`. By x,
its derivative is that of the density by the order.
"""

from collections.abc import Callable
from math import comb
from typing import Any

import numpy as np

from gradcli.rules.kinds import elementwise
from gradcli.rules.special import Late, order_derivative, ordered
from gradcli.tracing.domain import UP_TO_10000
from gradcli.tracing.primitive import Value, named

MAGNIFIED = "the density is the exponential of a large number"


def _gamma_density(a: Value, x: Value) -> Value:
    return np.exp((a - 1) * np.log(x) - x - named("gammaln")(a))


def _gamma_kernel(y: Value, a: Value, x: Value) -> Value:
    """Return the density; from a = 10 on by Stirling's series, where the exponent has no large terms that cancel.

    Source  DLMF 5.11.1.
    """
    large = (a >= 10) & (x > 0)
    order, ratio = np.where(large, a, 10.0), np.where(large, (x - a) / np.where(large, a, 1.0), 0.0)
    terms = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360)
    rest = sum(c * order ** -(2.0 * k + 1) for k, c in enumerate(terms))
    logs = order * (np.log1p(ratio) - ratio) - rest
    own = np.sqrt(order / (2 * np.pi)) * np.exp(logs) / np.where(large, x, 1.0)
    return np.where(large, own, _gamma_density(np.where(large, 1.0, a), x))[()]


def _beta_density(a: Value, b: Value, x: Value) -> Value:
    return np.exp((a - 1) * np.log(x) + (b - 1) * np.log1p(-x) - named("betaln")(a, b))


def _t_density(df: Value, x: Value) -> Value:
    logs = -np.log(df) / 2 - named("betaln")(df / 2, np.float64(0.5)) - (df + 1) / 2 * np.log1p(x * x / df)
    return np.exp(logs)


def _psi(x: Value, k: int = 0) -> Value:
    """Return the k-th derivative of the digamma function."""
    return named("polygamma")(x, n=k) if k else named("digamma")(x)


def _of_exponential(y: Value, n: int, of_log: Callable[[int], Value]) -> Value:
    """Return the n-th derivative of y, where `of_log(k)` is the k-th derivative of log(y)."""
    found = [y]
    for m in range(n):
        found.append(sum(comb(m, k) * of_log(k + 1) * found[m - k] for k in range(m + 1)))
    return found[n]


def _gamma_by_x(y: Value, a: Value, x: Value, *, n: int = 1) -> Value:
    logs = lambda k: np.log(x) - _psi(a) if k == 1 else -_psi(a, k - 1)
    return _of_exponential(_gamma_density(a, x), n, logs)


def _gamma_order(a: Value, x: Value, n: int = 1) -> Value:
    return named("gammainc_order")(a, x, n=n)


def _known(partial: Callable[..., Value]) -> tuple[Callable[..., Value], Callable[..., Value]]:
    """Return a partial, and a kernel that is nan where the function has no value, outside of its domain."""

    def kernel(y: Value, *xs: Value, **params: int) -> Value:
        return np.where(np.isfinite(y), partial(y, *xs, **params), np.nan)[()]

    return partial, kernel


_GAMMA: dict[str, Any] = {"on": (UP_TO_10000, UP_TO_10000), "analytic": False, "reason": MAGNIFIED}

# fmt: off
#           function                              dy/d order ...  dy/dx
elementwise(Late("gammainc"),                     lambda y, a, x: _gamma_order(a, x),
                                                  (lambda y, a, x: _gamma_density(a, x), _gamma_kernel), **_GAMMA)
elementwise(Late("gammaincc"),                    lambda y, a, x: -_gamma_order(a, x),
                                                  (lambda y, a, x: -_gamma_density(a, x),
                                                   lambda y, a, x: -_gamma_kernel(y, a, x)), **_GAMMA)
ordered("betainc", None, None, lambda y, a, b, x: _beta_density(a, b, x))
ordered("betaincc", None, None, lambda y, a, b, x: -_beta_density(a, b, x))
ordered("stdtr", None, lambda y, df, x: _t_density(df, x))
elementwise(order_derivative, lambda y, a, x, *, n=1: _gamma_order(a, x, n + 1),
                                                  _known(_gamma_by_x), name="gammainc_order", **_GAMMA)
# fmt: on
