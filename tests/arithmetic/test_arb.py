"""Integer powers of balls contain the exact power, and are as narrow as its products; roots of matrices are proved."""

from fractions import Fraction

import numpy as np
import pytest
from flint import arb, arb_mat

from gradcli.arithmetic.ball import integer_power, matrix_root, precision
from gradcli.errors import Undecided
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


def ball_matrix(a: np.ndarray) -> arb_mat:
    return arb_mat([[arb(float(x)) for x in row] for row in a])


@for_rows("n", [1, 2, 3, 5])
def test_the_root_of_a_block_triangular_matrix_is_proved_by_its_blocks(n: int) -> None:
    rng = np.random.default_rng(n)
    p, r = (b @ b.T + np.eye(n) + 0.3 * b for b in rng.normal(size=(2, n, n)))
    zero = np.zeros((n, n))
    for corner, below in ((p, zero), (r, zero), (r, np.full((n, n), 1e-3))):
        a = ball_matrix(np.block([[p, rng.normal(size=(n, n))], [below, corner]]))
        found = matrix_root(a)
        square, radii = found * found, [float(x.rad()) for x in found.entries()]
        assert all(x.contains(y) for x, y in zip(square.entries(), a.entries(), strict=True))
        assert max(radii) < 1e-10
        assert all(found[i, j].is_zero() for i in range(n, 2 * n) for j in range(n)) == (below is zero)


def test_a_block_triangular_matrix_of_roots_that_cancel_is_undecided() -> None:
    with pytest.raises(Undecided):
        matrix_root(ball_matrix(np.array([[0.0, 1.0], [0.0, 0.0]])))
