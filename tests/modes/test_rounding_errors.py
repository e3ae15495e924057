"""Rounding errors change between nearby points, and a mistake stays."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.modes.rounding import errors_change, loses_as_many_digits
from tests.rows import for_rows

EPS = 2.0**-7
X = np.random.default_rng(0).normal(size=40)


def narrow(x: Any) -> Any:
    """Return values rounded to 8 bits."""
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.round(mantissa * 256) / 256, exponent)


# fmt: off
ERRORS = [
    # an error at x                                          whether it changes
    (lambda x: narrow(np.sin(x)) - np.sin(x),                True),
    (lambda x: narrow(narrow(x + 8) - 8) - x,                True),
    (lambda x: 0.1 * np.cos(x),                              False),
    (lambda x: np.where(np.arange(len(x)) == 7, x, 0.0),     False),
    (lambda x: narrow(np.sin(x)) - 1.1 * np.sin(x),          False),
    (lambda x: np.full(len(x), np.nan),                      False),
    (lambda x: None,                                         None),
]
# fmt: on


@for_rows(("off", "expected"), ERRORS)
def test_whether_errors_change(off: Callable[[Any], Any], expected: bool | None) -> None:
    found = errors_change(lambda values: off(values["x"]), {"x": X, "n": 3}, ("x",), 0, EPS)
    assert found is expected


def test_points_are_numbers_of_the_format() -> None:
    seen: list[Any] = []

    def off(values: Any) -> Any:
        seen.append(values["x"])
        return np.zeros(2)

    errors_change(off, {"x": narrow(np.array([1.7, -0.3, 0.0]))}, ("x",), 0, EPS)
    assert all(np.array_equal(narrow(x), x) for x in seen)
    assert all(x[2] == 0 and x[0] != narrow(1.7) for x in seen)


@for_rows(
    ("error", "wide", "expected"),
    [
        (1e-2, 3e-16, True),
        (1e-2, 0.0, True),  # a sum of few terms may be exact in float64
        (1e-2, 1e-2, False),  # as large in float64: a mistake
        (1e-2, 1e-4, False),
        (0.5, 2e-16, False),  # more than rounding of one ulp makes of it
    ],
)
def test_a_loss_of_digits_is_much_smaller_in_a_wide_format(error: float, wide: float, expected: bool) -> None:
    assert loses_as_many_digits(error, wide, EPS, 2.0**-52) is expected
