"""Right digits against a reference of known error: never more than it tells."""

import numpy as np
import pytest

from gradcli.modes.mode import Question
from gradcli.report.common import ABSENT
from gradcli.request.point import Estimate, Point
from gradcli.study.mode_comparison import digits_against, right_digits
from gradcli.targets.expression import Expression
from tests.rows import for_rows

# fmt: off
DIGITS = [  # x,         reference, its bound     digits, lower bound
    (1.0 + 1e-5,         1.0,       1e-9,         5.0,    False),
    (1.0,                1.0,       1e-9,         9.0,    True),   # equal, and known to nine digits
    (1.0 + 1e-9,         1.0,       1e-9,         8.7,    True),   # may be twice as far off, or right
    (1.0,                1.0,       1e-30,        16.0,   False),  # a float64 has no more
    (1.0,                1.0,       0.0,          16.0,   False),
    (2.0,                1.0,       1e-9,         0.0,    False),
    (1.0,                1.0,       np.inf,       0.0,    True),
    (np.nan,             1.0,       1e-9,         0.0,    True),
    (0.0,                0.0,       1e-9,         9.0,    True),   # of a slope of zero digits are absolute
]
# fmt: on


@for_rows(("x", "reference", "bound", "digits", "lower"), DIGITS)
def test_digits_against(x: float, reference: float, bound: float, digits: float, lower: bool) -> None:
    found, at_least = digits_against(x, reference, bound)
    assert (float(found), bool(at_least)) == (pytest.approx(digits, abs=0.01), lower)


def estimate(value: float, bound: float, proved: bool = False) -> Estimate:
    return Estimate({"x": np.float64(value)}, {"x": np.float64(bound)}, proved=proved)


# fmt: off
OWN = [  # estimate, reference: digits, whether they are a lower bound
    ((1.0, 1e-14),        (1.0 + 1e-10, 1e-9),   14.0, True),    # the better one is not measured by the worse
    ((1.0, 1e-14),        (1.0 + 1e-6, 1e-9),    6.0,  False),   # unless the two contradict each other
    ((1.0 + 1e-10, 1e-9), (1.0, 1e-14),          10.0, False),
    ((1.0, 1e-6),         (1.0, 1e-9),           9.0,  True),
]
# fmt: on


@for_rows(("mode", "reference", "digits", "lower"), OWN)
def test_a_mode_is_no_worse_for_a_worse_reference(mode: tuple, reference: tuple, digits: float, lower: bool) -> None:
    q = Question(Expression("x", frozenset("x")), Point({"x": np.float64(1)}), ("x",))
    found = right_digits(q, estimate(*mode), estimate(*reference))
    assert found and found.worst == pytest.approx(digits, abs=0.05)
    assert (found.at_least or False) is lower


def test_a_reference_has_the_digits_of_its_bound() -> None:
    q = Question(Expression("x", frozenset("x")), Point({"x": np.float64(1)}), ("x",))
    guess, proof = estimate(1.0, 1e-9), estimate(1.0, 1e-30, proved=True)
    a, b = right_digits(q, guess, guess), right_digits(q, proof, proof)
    assert a and b and (a.worst, a.at_least, b.worst, b.at_least) == (9.0, True, 30.0, ABSENT)
