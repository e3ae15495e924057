"""Whole numbers at sizes that were not tried: the exact polynomial through those that were."""

import itertools
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

SPARE = 1  # points beside those that determine a polynomial, which it must go through as well


class NotPolynomial(Exception):
    """The figures of the sizes that were tried follow no polynomial of a degree that they determine."""


def at_size(tried: Sequence[int], found: Sequence[Any], n: int) -> Any:
    """Return what was found at some sizes as it is at size n; whole numbers are polynomials, all else must be equal.

    Shapes  what was found are whole numbers, or tuples of them and of other things, of one structure for all sizes.
    Error   none: a polynomial that goes through every point with one to spare, evaluated in whole numbers.
    Raises  NotPolynomial.
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

    Raises  NotPolynomial where that takes a point for each coefficient, or the value is no whole number from 0 on.
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
