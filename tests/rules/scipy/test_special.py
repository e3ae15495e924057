"""Functions of scipy.special that are no ufuncs."""

import mpmath
import numpy as np

from gradcli.arithmetic.ball import Ball, precision
from gradcli.rules.scipy.special import FUNCTIONS


def test_the_constant_of_multigammaln_has_all_digits_that_are_asked_for() -> None:
    with mpmath.workdps(60), precision(256):
        y = FUNCTIONS["special"]["multigammaln"](Ball.lift(np.float64(3.75)), 3)
        right = 1.5 * mpmath.log(mpmath.pi) + sum(mpmath.loggamma(3.75 - k / 2) for k in range(3))
        assert abs(mpmath.mpf(y.value.mid().str(50, radius=False)) - right) < 1e-40
