"""The incomplete gamma and beta functions and Student's t, by their arguments and by their orders.

The derivatives by an order have no closed form; they are functions of their own: `gammainc_order(a, x, n=1)` is the
derivative of gammainc by a. By x, the derivatives are those of the densities by the order.
"""

from collections.abc import Callable
from math import comb
from typing import Any

import numpy as np

from gradcli.core.domain import BELOW_10000, UNIT, UP_TO_10000
from gradcli.core.primitive import Value, named
from gradcli.primitives.incomplete_series import betainc_ball, gammainc_ball, in_floats, stdtr_ball
from gradcli.primitives.kinds import elementwise
from gradcli.primitives.special_parts import FACTORIALS, Late

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


def _beta_log(n: int, m: int, a: Value, b: Value, x: Value) -> Value:
    """Return the derivative of the density's logarithm, of order n by a and m by b; n + m > 0."""
    both = _psi(a + b, n + m - 1)
    if n and m:
        return both
    own, order = (np.log(x), a) if n else (np.log1p(-x), b)
    return both - _psi(order, n + m - 1) + (own if n + m == 1 else 0.0)


def _beta_by_x(y: Value, a: Value, b: Value, x: Value, *, n: int = 1, m: int = 0) -> Value:
    """Return the derivative of the density, of order n by a and m by b."""
    if n == m == 0:
        return _beta_density(a, b, x)
    p, q = (n - 1, m) if n else (n, m - 1)
    terms = [
        comb(p, i) * comb(q, j) * _beta_log(n - p + i, m - q + j, a, b, x) * _beta_by_x(y, a, b, x, n=p - i, m=q - j)
        for i in range(p + 1)
        for j in range(q + 1)
    ]
    return sum(terms[1:], terms[0])


def _power_of_log(u: Value, k: int) -> Value:
    """Return the k-th derivative of log(u), k > 0."""
    return (-1) ** (k - 1) * FACTORIALS[k - 1] / u**k


def _t_log(k: int, df: Value, square: Value) -> Value:
    """Return the k-th derivative by df of the density's logarithm, k > 0."""
    gammas = (_psi((df + 1) / 2, k - 1) - _psi(df / 2, k - 1)) / 2**k
    before = np.log1p(square / df) if k == 1 else _power_of_log(df + square, k - 1) - _power_of_log(df, k - 1)
    own = _power_of_log(df, k)
    return gammas - own / 2 - ((df + 1) * (_power_of_log(df + square, k) - own) + k * before) / 2


def _t_by_x(y: Value, df: Value, x: Value, *, n: int = 1) -> Value:
    return _of_exponential(_t_density(df, x), n, lambda k: _t_log(k, df, x * x))


def _gamma_order(a: Value, x: Value, n: int = 1) -> Value:
    return named("gammainc_order")(a, x, n=n)


def _beta_order(a: Value, b: Value, x: Value, n: int, m: int) -> Value:
    return named("betainc_order")(a, b, x, n=n, m=m)


def _t_order(df: Value, x: Value, n: int = 1) -> Value:
    return named("stdtr_order")(df, x, n=n)


def _known(partial: Callable[..., Value]) -> tuple[Callable[..., Value], Callable[..., Value]]:
    """Return a partial, and a kernel that is nan where the function has no value, outside of its domain."""

    def kernel(y: Value, *xs: Value, **params: int) -> Value:
        return np.where(np.isfinite(y), partial(y, *xs, **params), np.nan)[()]

    return partial, kernel


_GAMMA: dict[str, Any] = {"on": (UP_TO_10000, UP_TO_10000), "analytic": False, "reason": MAGNIFIED}
_BETA: dict[str, Any] = {"on": (UP_TO_10000, UP_TO_10000, UNIT), "analytic": False, "reason": MAGNIFIED}
_STUDENT: dict[str, Any] = {"on": (UP_TO_10000, BELOW_10000), "analytic": False, "reason": MAGNIFIED}

# fmt: off
#           function                              dy/d order ...  dy/dx
elementwise(Late("gammainc"),                     lambda y, a, x: _gamma_order(a, x),
                                                  (lambda y, a, x: _gamma_density(a, x), _gamma_kernel), **_GAMMA)
elementwise(Late("gammaincc"),                    lambda y, a, x: -_gamma_order(a, x),
                                                  (lambda y, a, x: -_gamma_density(a, x),
                                                   lambda y, a, x: -_gamma_kernel(y, a, x)), **_GAMMA)
elementwise(Late("betainc"),                      lambda y, a, b, x: _beta_order(a, b, x, 1, 0),
                                                  lambda y, a, b, x: _beta_order(a, b, x, 0, 1),
                                                  lambda y, a, b, x: _beta_density(a, b, x), **_BETA)
elementwise(Late("betaincc"),                     lambda y, a, b, x: -_beta_order(a, b, x, 1, 0),
                                                  lambda y, a, b, x: -_beta_order(a, b, x, 0, 1),
                                                  lambda y, a, b, x: -_beta_density(a, b, x), **_BETA)
elementwise(Late("stdtr"),                        lambda y, df, x: _t_order(df, x),
                                                  lambda y, df, x: _t_density(df, x), **_STUDENT)
elementwise(in_floats(gammainc_ball, "gammainc", "gammaincc"), lambda y, a, x, *, n=1: _gamma_order(a, x, n + 1),
                                                  _known(_gamma_by_x), name="gammainc_order", **_GAMMA)
elementwise(in_floats(betainc_ball, "betainc", "betaincc"), lambda y, a, b, x, *, n=1, m=0: _beta_order(a, b, x, n + 1, m),
                                                  lambda y, a, b, x, *, n=1, m=0: _beta_order(a, b, x, n, m + 1),
                                                  _known(_beta_by_x), name="betainc_order", **_BETA)
elementwise(in_floats(stdtr_ball, "stdtr"),       lambda y, df, x, *, n=1: _t_order(df, x, n + 1),
                                                  _known(_t_by_x), name="stdtr_order", **_STUDENT)
# fmt: on
