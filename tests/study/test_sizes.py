"""Counts at sizes that nothing could run: exact polynomials, and programs that are carried line by line."""

from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcli.errors import NotSupported
from gradcli.study.accounting import NotPolynomial, Programs, SizePolynomial, polynomial_at
from tests.rows import for_rows

TRIED = (16, 28, 40, 52)
NAMES = ("b", "n", "d", "L")
LARGE = {"b": 32, "n": 512, "d": 12 * 10**9, "L": 12}
# fmt: off
EXACT: list[Callable[[int], int]] = [
    lambda n: 7, lambda n: n, lambda n: 8 * n * n + 3 * n + 1, lambda n: n * (n - 1) // 2,
    lambda n: n // 2, lambda n: (n + 3) // 4, lambda n: 0,  # alike by 12
]
OTHERS: list[Callable[[int], int]] = [lambda n: n**3, lambda n: 2 ** (n // 4), lambda n: min(n, 40), lambda n: n // 7]
LENGTHS: list[Callable[..., int]] = [
    lambda b, n, d, L: b * n * d, lambda b, n, d, L: 4 * d, lambda b, n, d, L: d // 12, lambda b, n, d, L: (n - 1) * d,
    lambda b, n, d, L: n * n * b, lambda b, n, d, L: n + d + b, lambda b, n, d, L: 3,
]
COUNTS: list[Callable[..., int]] = [
    lambda b, n, d, L: L * (12 * b * n * d**2 + 4 * b * n**2 * d) + 2 * b * d - 1,
    lambda b, n, d, L: d**2 * L**2 + b * n * (n - 1) // 2, lambda b, n, d, L: 5,
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


class Line(NamedTuple):
    name: str
    shape: tuple[int, ...]


def program(sizes: Mapping[str, int]) -> tuple[Line, ...]:
    """A program with L groups of lines, whose width is divided by 12."""
    if sizes["d"] % 12:
        raise ValueError("12 heads do not divide the width")
    return tuple(Line(f"line {k}", (length(**sizes), 1)) for _ in range(sizes["L"]) for k, length in enumerate(LENGTHS))


def work(made: tuple[Line, ...]) -> int:
    return sum(line.shape[0] for line in made)


def test_a_program_is_carried_line_by_line() -> None:
    recorded: list[Mapping[str, int]] = []

    def record(sizes: Mapping[str, int]) -> Any:
        recorded.append(sizes)
        return program(sizes)

    assert Programs(record, NAMES, len, work).at(LARGE) == program(LARGE)
    assert max(sizes["d"] for sizes in recorded) < 10**6


@for_rows("odd", [lambda n: min(n, 5000), lambda n: 2**n, lambda n: n // 7, lambda n: 7 if n > 4000 else n])
def test_lengths_that_follow_no_polynomial_are_refused(odd: Callable[[int], int]) -> None:
    programs = Programs(lambda sizes: (Line("x", (odd(sizes["n"]),)),), ("n",), len, work)
    with pytest.raises(NotPolynomial):
        programs.at({"n": 10**6})


def test_a_program_that_is_too_long_is_refused_at_once() -> None:
    asked: list[Mapping[str, int]] = []

    def record(sizes: Mapping[str, int]) -> Any:
        asked.append(sizes)
        raise NotSupported("too long")

    with pytest.raises(NotSupported):
        Programs(record, ("n",), len, work).at({"n": 10**6})
    assert len(asked) == 1


def test_counts_become_formulas() -> None:
    programs = Programs(program, NAMES, len, work)
    found = programs.polynomials(lambda sizes: [count(**sizes) for count in COUNTS if program(sizes)], LARGE)
    assert [formula.at(LARGE) for formula in found] == [count(**LARGE) for count in COUNTS]
    assert str(found[0]) == "4 b n^2 d L + 12 b n d^2 L + 2 b d - 1" and str(found[2]) == "5"
    assert str(found[1]) == "d^2 L^2 + 1/2 b n^2 - 1/2 b n"


def test_counts_that_follow_no_polynomial_have_no_formula() -> None:
    programs = Programs(lambda sizes: (1,), ("n",), len, work)
    with pytest.raises(NotPolynomial):
        programs.polynomials(lambda sizes: [2 ** sizes["n"]], {"n": 1000})


TERMS = st.dictionaries(
    st.tuples(st.integers(0, 3), st.integers(0, 3)), st.fractions(-9, 9, max_denominator=4), max_size=5
)


@given(TERMS)
def test_a_formula_that_is_written_is_read_back(terms: dict[tuple[int, int], Fraction]) -> None:
    formula = SizePolynomial(("L", "d"), terms)
    read = SizePolynomial.read(str(formula), ("L", "d"))
    assert {p: c for p, c in read.terms.items() if c} == {p: c for p, c in terms.items() if c}
    assert str(read) == str(formula)
