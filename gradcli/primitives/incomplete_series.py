"""Derivatives of the incomplete gamma and beta functions, and of Student's t, by their orders: power series of balls.

An order is a power series in h, and so is the value; its coefficients are the derivatives. The sums are positive series,
cut where a geometric series bounds the rest, coefficient by coefficient. A float is the middle of a ball that is narrower
than the float's rounding error.

Source  DLMF 8.7.1 for the gamma function, DLMF 8.17.8 for the beta function.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from gradcli.core.primitive import Value

_LARGEST = 1e6  # of orders and arguments
_MOST_TERMS = 20_000  # of a series; enough for orders and arguments below 10,000
_FLOAT_BITS = (128, 256, 1024, 4096, 32768)  # precisions that are tried for a float
_NARROW = 2.0**-54
_SMALLEST = 1e-310  # half-widths of balls that are as good as exact


def _sizes(series: Any, length: int) -> Any:
    """Return the series of the sizes of the coefficients."""
    return _series([abs(series[k]) for k in range(length)], length)


@cache
def _series_type() -> Any:
    from flint import arb_series

    return arb_series


def _series(coefficients: list[Any], length: int) -> Any:
    return _series_type()(coefficients, length)


def _summed(ratio: Callable[[int], Any], largest: Callable[[int], Any], length: int) -> Any:
    """Return 1 + r(0) + r(0) r(1) + ..., as a power series with balls that contain the rest of the sum.

    `ratio(n)` is the series r(n), and `largest(n)` one whose coefficients are at least as large as those of r(n), r(n+1), ...
    """
    from flint import arb, ctx

    term = total = _series([1], length)
    for n in range(_MOST_TERMS):
        term = term * ratio(n)
        total = total + term
        if n % 8 == 7 and abs(term[0]) < total[0] * arb(2) ** -ctx.prec:
            bound = largest(n)
            if bound[0] < 0.9:
                rest = _sizes(term, length) * bound / (1 - bound)
                return total + _series([arb(0, rest[k].upper()) for k in range(length)], length)
    return _series([arb.nan()] * length, length)


def _gamma_lower(a: Any, x: Any, length: int) -> Any:
    """Return the regularised lower incomplete gamma function of the series `a`."""
    head = (a * x.log() - x - (a + 1).lgamma()).exp()
    return head * _summed(lambda n: x / (a + (n + 1)), lambda n: x / _mirrored(a + (n + 1), length), length)


def _mirrored(linear: Any, length: int) -> Any:
    """Return c - |d| h of a series c + d h: one over it has the sizes of the coefficients of 1 / (c + d h)."""
    return _series([linear[0], -abs(linear[1])] if length > 1 else [linear[0]], length)


def _beta_lower(a: Any, b: Any, x: Any, y: Any, length: int) -> Any:
    """Return the regularised incomplete beta function of the series a, b, x and y = 1 - x; the sum is of powers of x."""
    less_one = b - 1

    def largest(n: int) -> Any:
        return _sizes(x, length) * (1 + _sizes(less_one, length) / _mirrored(a + (n + 1), length))

    head = (a * x.log() + b * y.log() + (a + b).lgamma() - (a + 1).lgamma() - b.lgamma()).exp()
    return head * _summed(lambda n: x * (1 + less_one / (a + (n + 1))), largest, length)


def _beta_share(a: Any, b: Any, x: Any, y: Any, length: int) -> Any:
    """Return the regularised incomplete beta function, by the smaller one of x and 1 - x."""
    return 1 - _beta_lower(b, a, y, x, length) if x[0] > 0.5 else _beta_lower(a, b, x, y, length)


def _derivative(series: Any, n: int) -> Any:
    from flint import arb

    return series[n] * arb(n).fac() if n > 1 else series[n]


def _within_reach(*xs: Any) -> bool:
    return all(bool(x > 0) and bool(x < _LARGEST) for x in xs)


def gammainc_ball(a: Any, x: Any, *, n: int = 1) -> Any:
    """Return the n-th derivative by a of the regularised lower incomplete gamma function, in balls."""
    from flint import arb

    if not _within_reach(a, x):
        return arb.nan()
    return _derivative(_gamma_lower(_series([a, 1], n + 1), x, n + 1), n)


def betainc_ball(a: Any, b: Any, x: Any, *, n: int = 1, m: int = 0) -> Any:
    """Return the derivative of order n by a and m by b of the regularised incomplete beta function, in balls.

    A mixed derivative is combined from the series in n + m + 1 directions of the plane of a and b.
    """
    from flint import arb, arb_mat

    if not (_within_reach(a, b, x) and x < 1):
        return arb.nan()
    order = n + m
    length = order + 1
    xs = _series([x], length), _series([1 - x], length)

    def along(u: int, v: int) -> Any:
        return _beta_share(_series([a, u], length), _series([b, v], length), *xs, length)[order]

    if n == 0 or m == 0:
        return along(int(m == 0), int(n == 0)) * arb(order).fac()
    powers = arb_mat([[v**k for k in range(length)] for v in range(length)])
    found = powers.solve(arb_mat([[along(1, v)] for v in range(length)]))
    return found[m, 0] * arb(n).fac() * arb(m).fac()


def stdtr_ball(df: Any, x: Any, *, n: int = 1) -> Any:
    """Return the n-th derivative by df of the distribution function of Student's t, in balls."""
    from flint import arb

    if x.is_zero() and df > 0:
        return arb(0)
    if not _within_reach(df, abs(x)):
        return arb.nan()
    length = n + 1
    orders, square = _series([df, 1], length), x * x
    inner, outer = orders / (orders + square), square / (orders + square)
    tail = _derivative(_beta_share(orders / 2, _series([arb(1) / 2], length), inner, outer, length), n) / 2
    return -tail if x > 0 else tail


def in_floats(ball: Callable[..., Any], name: str, complement: str | None = None) -> Callable[..., Value]:
    """Return the function of float64 arrays whose entries are the middles of narrow balls; nan where there are none.

    Where the function or its complement, by their names in scipy, is too small for a float, so is the derivative. The
    complement of a distribution function without one is that of the opposite argument.
    """

    def vanishes(xs: list[float]) -> bool:
        import scipy.special

        own = getattr(scipy.special, name)(*xs)
        rest = (
            getattr(scipy.special, complement)(*xs) if complement else getattr(scipy.special, name)(*xs[:-1], -xs[-1])
        )
        return bool(all(x > 0 for x in xs[:-1]) and (own == 0 or rest == 0))

    def entry(xs: list[float], params: dict[str, int]) -> float:
        from flint import arb, ctx

        if vanishes(xs):
            return 0.0

        before = ctx.prec
        try:
            for bits in _FLOAT_BITS:
                ctx.prec = bits
                y = ball(*map(arb, xs), **params)
                if y.is_nan() or y.rad() <= max(abs(y.mid()) * _NARROW, _SMALLEST):
                    break
            return float(y.mid()) if y.is_finite() else np.nan
        finally:
            ctx.prec = before

    def function(*xs: Value, **params: int) -> Value:
        if any(map(np.iscomplexobj, xs)):
            raise TypeError(f"the derivative of {name} by its order is one of real numbers")
        rows = np.broadcast_arrays(*xs)
        found = [entry(list(map(float, row)), params) for row in zip(*(part.flat for part in rows), strict=True)]
        return np.reshape(np.array(found, dtype=np.float64), rows[0].shape)[()]

    function.__name__ = name
    return function
