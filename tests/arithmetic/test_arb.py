"""Integer powers of balls contain the exact power, and are as narrow as its products."""

from fractions import Fraction

from flint import arb

from gradcli.arithmetic.arb import integer_power
from gradcli.arithmetic.ball import precision
from tests.rows import for_rows


@for_rows("n", [0, 1, 2, 3, 5, 8, 21, -1, -2, -7])
@for_rows("x", [1.25, -0.3, 7.0])
def test_a_power_contains_the_exact_one(x: float, n: int) -> None:
    exact = Fraction(x) ** n
    with precision(53):
        found = integer_power(arb(x), n=n)
    with precision(2000):
        right = arb(exact.numerator) / arb(exact.denominator)
        assert found.contains(right) and float(found.rad()) <= 64 * 2.0**-53 * abs(float(right))


def test_a_ball_around_zero_has_powers() -> None:
    found = integer_power(arb(0, 0.5), n=2)
    assert found.contains(arb(0)) and found.contains(arb("0.25")) and found.is_finite()


@for_rows("n", [0, 1, 2, 3])
def test_a_truth_counts_as_a_number(n: int) -> None:
    assert isinstance(integer_power(True, n=n), arb) and integer_power(True, n=n) == 1
