"""Predict integers at other sizes by the exact polynomial through the values at tried sizes."""

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

SPARE = 1  # extra points, beyond those that determine a polynomial, that it must also go through


class NotPolynomial(Exception):
    """The values at the tried sizes follow no polynomial of a degree low enough to be tested."""


def at_size(tried: Sequence[int], found: Sequence[Any], n: int) -> Any:
    """Return the predicted structure at size n; its integers follow polynomials, and all other parts must be equal.

    Shapes  `found` holds one structure for each size in `tried`: nested tuples of integers and other values.
    Error   none in the arithmetic, which is exact; the polynomial is tested at one spare point.
    Raises  NotPolynomial if an integer follows no polynomial, or if other parts differ between sizes.
    """
    known: dict[tuple[int, ...], int] = {}

    def value(same: Sequence[Any]) -> Any:
        first = same[0]
        if type(first) is int and all(type(x) is int for x in same):
            key = tuple(same)
            if key not in known:
                known[key] = polynomial_at(tried, key, n)
            return known[key]
        if isinstance(first, tuple) and all(type(x) is type(first) and len(x) == len(first) for x in same):
            parts = [value(part) for part in zip(*same, strict=True)]
            return first._make(parts) if hasattr(first, "_make") else tuple(parts)
        if any(x is not first and x != first for x in same[1:]):
            raise NotPolynomial
        return first

    return value(found)


def polynomial_at(xs: Sequence[int], ys: Sequence[int], n: int) -> int:
    """Return the value at n of the polynomial of least degree through all points.

    Raises  NotPolynomial if no point is left to test it, or if the value is not a non-negative integer.
    Source  Newton's divided differences.
    """
    if all(y == ys[0] for y in ys):
        return ys[0]
    coefficients, column = [Fraction(ys[0])], [Fraction(y) for y in ys]
    for order in range(1, len(xs)):
        column = [(b - a) / (xs[k + order] - xs[k]) for k, (a, b) in enumerate(itertools.pairwise(column))]
        coefficients.append(column[0])
    while coefficients and not coefficients[-1]:
        coefficients.pop()
    if len(coefficients) + SPARE > len(xs):
        raise NotPolynomial
    value = Fraction(0)
    for x, c in reversed(list(zip(xs, coefficients, strict=False))):
        value = value * (n - x) + c
    if value.denominator != 1 or value < 0:
        raise NotPolynomial
    return int(value)
