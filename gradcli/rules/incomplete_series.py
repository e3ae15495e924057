"""Derivatives of the incomplete gamma function by its order: power series of balls.

An order is a power series in h, and so is the value; its coefficients are the derivatives. The sum is a positive series,
cut where a geometric series bounds the rest, coefficient by coefficient. A float is the middle of a ball that is narrower
than the float's rounding error.

Source  DLMF 8.7.1.
"""

from typing import Any

import numpy as np

from gradcli.tracing.primitive import Value

_LARGEST = 1e6  # of orders and arguments
_MOST_TERMS = 20_000  # of a series; enough for orders and arguments below 10,000
_FLOAT_BITS = (128, 256, 1024, 4096, 32768)  # precisions that are tried for a float
_NARROW = 2.0**-54
_SMALLEST = 1e-310  # half-widths of balls that are as good as exact


def gammainc_ball(a: Any, x: Any, *, n: int = 1) -> Any:
    """Return the n-th derivative by a of the regularised lower incomplete gamma function, in balls."""
    from flint import arb

    if not (0 < a < _LARGEST and 0 < x < _LARGEST):
        return arb.nan()
    value = _gamma_lower(a, x, n + 1)
    return value[n] * arb(n).fac()


def _gamma_lower(a: Any, x: Any, length: int) -> Any:
    """Return the regularised lower incomplete gamma function of the orders a + h, as a power series in h."""
    from flint import arb, arb_series, ctx

    order = arb_series([a, 1], length)
    term = total = arb_series([1], length)
    for n in range(1, _MOST_TERMS):
        term = term * x / (order + n)
        total = total + term
        if n % 8 == 0 and abs(term[0]) < total[0] * arb(2) ** -ctx.prec:
            ratio = x / arb_series([a + n, -1], length)  # its coefficients have the sizes of those of x / (a + n + h)
            if ratio[0] < 0.9:
                rest = arb_series([abs(term[k]) for k in range(length)], length) * ratio / (1 - ratio)
                total = total + arb_series([arb(0, rest[k].upper()) for k in range(length)], length)
                return (order * x.log() - x - (order + 1).lgamma()).exp() * total
    return arb_series([arb.nan()] * length, length)


def order_derivative(a: Value, x: Value, *, n: int = 1) -> Value:
    """Return the n-th derivative by a of the regularised lower incomplete gamma function, in float64; nan where there is none.

    Each entry is the middle of a narrow ball. Where the function or its complement is too small for a float, so is the
    derivative.
    """
    if np.iscomplexobj(a) or np.iscomplexobj(x):
        raise TypeError("the derivative of gammainc by its order is one of real numbers")
    rows = np.broadcast_arrays(a, x)
    entries = [_in_float(float(order), float(at), n) for order, at in zip(*(part.flat for part in rows), strict=True)]
    return np.reshape(np.array(entries, dtype=np.float64), rows[0].shape)[()]


def _in_float(a: float, x: float, n: int) -> float:
    import scipy.special
    from flint import arb, ctx

    if a > 0 and (scipy.special.gammainc(a, x) == 0 or scipy.special.gammaincc(a, x) == 0):
        return 0.0
    before = ctx.prec
    try:
        for bits in _FLOAT_BITS:
            ctx.prec = bits
            y = gammainc_ball(arb(a), arb(x), n=n)
            if y.is_nan() or y.rad() <= max(abs(y.mid()) * _NARROW, _SMALLEST):
                break
        return float(y.mid()) if y.is_finite() else np.nan
    finally:
        ctx.prec = before
