"""Exact polynomials of sizes, and figures that are none."""

from collections.abc import Callable
from typing import NamedTuple

import pytest

from gradcli.study.growth import NotPolynomial, at_size, polynomial_at
from tests.rows import for_rows

TRIED = (16, 28, 40, 52, 64)
# fmt: off
EXACT: list[Callable[[int], int]] = [
    lambda n: 7, lambda n: n, lambda n: 8 * n * n + 3 * n + 1, lambda n: n**3, lambda n: n * (n - 1) // 2,
    lambda n: n // 2, lambda n: (n + 3) // 4, lambda n: 0,  # alike by 12
]
OTHERS: list[Callable[[int], int]] = [
    lambda n: n**4, lambda n: 2 ** (n // 4), lambda n: min(n, 40), lambda n: n // 7, lambda n: n.bit_length(),
]
# fmt: on


@for_rows("n", [4, 76, 4096, 7 * 10**10, 10**18])
@for_rows("f", EXACT)
def test_polynomials_are_exact_at_any_size(f: Callable[[int], int], n: int) -> None:
    assert n % 12 == 4
    assert polynomial_at(TRIED, [f(m) for m in TRIED], n) == f(n)


@for_rows("f", OTHERS)
def test_what_takes_a_point_for_each_coefficient_is_no_polynomial(f: Callable[[int], int]) -> None:
    with pytest.raises(NotPolynomial):
        polynomial_at(TRIED, [f(m) for m in TRIED], 4096)


def test_a_count_is_no_negative_number() -> None:
    with pytest.raises(NotPolynomial):
        polynomial_at(TRIED, [100 - m for m in TRIED], 4096)


class Pair(NamedTuple):
    name: str
    shape: tuple[int, ...]


def test_structures_keep_their_form() -> None:
    found = at_size(TRIED, [(Pair("x", (n, 2 * n)), True, ()) for n in TRIED], 1000)
    assert found == (Pair("x", (1000, 2000)), True, ()) and type(found[0]) is Pair


@for_rows(
    "found",
    [["a", "a", "a", "a", "b"], [(1,), (1,), (1,), (1,), (1, 1)], [True, True, True, True, False], [1, 1, 1, 1, "1"]],
)
def test_what_differs_and_is_no_number_cannot_be_predicted(found: list) -> None:
    with pytest.raises(NotPolynomial):
        at_size(TRIED, found, 1000)
