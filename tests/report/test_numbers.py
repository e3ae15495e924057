"""Numbers as people read them: enough digits, no more, and bounds never rounded down."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gradcli.report import numbers
from gradcli.report.blocks import plain_text
from tests.rows import for_rows

FINITE = st.floats(allow_nan=False, allow_infinity=False)
ORDINARY = st.floats(1e-280, 1e280)


@given(FINITE)
def test_full_round_trips(x: float) -> None:
    assert float(numbers.all_digits(x)) == x


@for_rows(("x", "shown"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf"), (-0.0, "-0.0")])
def test_full_spells_what_is_not_finite(x: float, shown: str) -> None:
    assert numbers.all_digits(x) == shown


@pytest.mark.parametrize("digits", [3, 7])
def test_a_slope_of_minus_zero_is_written_as_zero(digits: int) -> None:
    assert numbers.few_digits(-0.0, digits) == "0"
    assert numbers.write_differing_pair(-0.0, 2.0) == ("0", "2")
    assert numbers.write_ratio(-0.0) == "0"
    assert plain_text(numbers.mark_agreeing_digits(-0.0, 2.0)) == "0.0"
    assert numbers.write_value([-0.0, 1.0]) == "[-0, 1]"  # of an input, it may be another one


TWO = [
    (0, "0"),
    (0.42, "0.42"),
    (0.4237, "0.42"),
    (7, "7"),
    (42.4, "42"),
    (99.6, "100"),
    (130, "130"),
    (1949, "1,900"),
    (1951, "2,000"),
    (12_345_678, "12,000,000"),
    (math.inf, "inf"),
    (math.nan, "nan"),
]


@for_rows(("x", "shown"), TWO)
def test_two_digits(x: float, shown: str) -> None:
    assert numbers.two_digits(x) == shown


POWER = [
    (0, "0"),
    (1, "1e+00"),
    (3e-13, "3e-13"),
    (3.01e-13, "4e-13"),
    (9.5e-13, "1e-12"),
    (2500, "3e+03"),
    (math.inf, "inf"),
    (math.nan, "nan"),
]


@for_rows(("x", "shown"), POWER)
def test_power_has_one_digit(x: float, shown: str) -> None:
    assert numbers.write_bound(x) == shown


@given(ORDINARY)
def test_power_rounds_up_and_not_far(x: float) -> None:
    shown = float(numbers.write_bound(x))
    assert x * (1 - 1e-8) <= shown <= 2 * x * (1 + 1e-8)


@pytest.mark.parametrize("x", [5e-301, 5e-310, 1e-320])
def test_power_rounds_up_among_the_smallest_floats(x: float) -> None:
    assert float(numbers.write_bound(x)) >= x


WITHIN = [
    (0.211601954820209, 2e-11, "0.21160195482 ±2e-11"),
    (-4.0, 6e-13, "-4 ±6e-13"),
    (0.0, 1e-9, "0 ±1e-09"),
    (3.0, 10.0, "3 ±1e+01"),
    (1.5, math.inf, "1.5 ±inf"),
    (math.nan, 1e-3, "nan ±1e-03"),
]


@for_rows(("x", "bound", "shown"), WITHIN)
def test_within_shows_the_bound(x: float, bound: float, shown: str) -> None:
    assert numbers.write_with_bound(x, bound) == shown


@given(st.floats(1e-100, 1e100), st.floats(1e-14, 10))
def test_within_loses_less_than_the_bound(x: float, relative: float) -> None:
    shown = float(numbers.write_with_bound(x, relative * x).split(" ")[0])
    assert abs(shown - x) <= 0.51 * relative * x


@given(ORDINARY, ORDINARY)
def test_apart_shows_that_different_numbers_differ(x: float, y: float) -> None:
    mine, right = numbers.write_differing_pair(x, y)
    assert (mine == right) == (x == y)


def test_apart_shows_at_least_seven_digits() -> None:
    assert numbers.write_differing_pair(0.82533561491, 0.41266780745) == ("0.8253356", "0.4126678")
    assert numbers.write_differing_pair(1.0, 1.0 + 1e-12)[1] == "1.000000000001"


RATIO = [
    (2.0, "2"),
    (-1.0, "-1"),
    (1.0, "1"),
    (1.0005, "1+5e-04"),
    (0.9995, "1-5e-04"),
    (1 + 2e-13, "1+2e-13"),
    (1.01, "1.01"),
    (0.5, "0.5"),
    (math.inf, "inf"),
    (math.nan, "nan"),
]


@for_rows(("x", "shown"), RATIO)
def test_ratio_near_one_is_its_distance(x: float, shown: str) -> None:
    assert numbers.write_ratio(x) == shown


DIGITS = [
    (1.0, 1.0, 16.0),
    (0.0, 0.0, 16.0),
    (1 + 1e-5, 1.0, 5.0),
    (-1 - 1e-5, -1.0, 5.0),
    (1e-7, 0.0, 7.0),
    (0.0, 3.0, 0.0),
    (2.0, 1.0, 0.0),
    (30.0, 1.0, 0.0),
    (math.nan, 1.0, 0.0),
    (1.0, math.nan, 0.0),
    (math.inf, 1.0, 0.0),
    (1.0, math.inf, 0.0),
]


@for_rows(("x", "reference", "digits"), DIGITS)
def test_right_digits(x: float, reference: float, digits: float) -> None:
    assert float(numbers.count_right_digits(x, reference)) == pytest.approx(digits, abs=1e-4)


def test_no_right_digits_is_plain_zero() -> None:
    assert not np.signbit(numbers.count_right_digits(2.0, 1.0))


def test_right_digits_are_entrywise() -> None:
    found = numbers.count_right_digits([1.0, 0.0, np.nan], [1.0, 1.0, 1.0])
    assert found.tolist() == [16.0, 0.0, 0.0]


VALUES = [
    (0.1, "0.1"),
    ([1.0, 2.5], "[1, 2.5]"),
    ([], "[]"),
    ([1.0, 2.0, 3.0, 4.0, 5.0], "[1, 2, 3, 4, ... 5 entries]"),
    ([[1.0, 2.0]], "1x2 [1, 2]"),
]


@for_rows(("x", "shown"), VALUES)
def test_values_are_listed_briefly(x: object, shown: str) -> None:
    assert numbers.write_value(x) == shown


@given(FINITE, FINITE)
def test_compared_shows_every_digit(x: float, reference: float) -> None:
    assert plain_text(numbers.mark_agreeing_digits(x, reference)) == numbers.all_digits(x + 0.0)


def test_compared_marks_where_digits_part() -> None:
    bright, dim = numbers.mark_agreeing_digits(0.125, 0.126)
    assert (bright.text, dim.text) == ("0.12", "5")


NAMES = [(("x", ()), "x"), (("W", (3, 2)), "W[3,2]"), (("x", (1,), (0,)), "f[0]/x[1]"), (("x", (), (2, 1)), "f[2,1]/x")]


@for_rows(("entry", "shown"), NAMES)
def test_entries_are_named(entry: tuple, shown: str) -> None:
    assert numbers.entry_name(*entry) == shown
