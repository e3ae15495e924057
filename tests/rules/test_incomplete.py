"""Derivatives of the incomplete gamma function by its order, compared with mpmath."""

from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic.ball import Ball, precision
from gradcli.rules.special import gammainc_ball
from gradcli.tracing.primitive import PRIMITIVES
from tests.rows import for_rows
from tests.rules.references import mp


def gamma(n: int, a: Any, x: Any) -> Any:
    return -mp.diff(lambda t: mp.gammainc(t, x, mp.inf, regularized=True), a, n)


# fmt: off
#    row               reference  orders            arguments: ordinary, tiny, large, and close to the edges
ROWS = [
    ("gammainc_order", gamma,   {"n": 1},          [(1.2, 0.4), (1e-3, 1e-6), (0.05, 3.0), (300.0, 301.0), (5.0, 80.0), (40.0, 0.5)]),
    ("gammainc_order", gamma,   {"n": 2},          [(1.2, 0.4), (0.3, 7.0), (30.0, 20.0)]),
]  # fmt: skip
# fmt: on
CASES = [(name, f, orders, at) for name, f, orders, points in ROWS for at in points]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "reference", "orders", "at"), CASES)
def test_a_derivative_by_an_order_is_mpmaths_and_in_its_ball(name: str, reference: Any, orders: Any, at: Any) -> None:
    with mp.workdps(150):
        right = reference(*orders.values(), *map(mp.mpf, at))
        assert abs(PRIMITIVES[name](*map(np.float64, at), **orders) / right - 1) < 2**-52
        with precision(256):
            ball = PRIMITIVES[name](*map(Ball.lift, at), **orders).value
        assert abs(mp.mpf(ball.mid().str(40, radius=False)) / right - 1) < 1e-25


@for_rows("at", [(-1.0, 0.5), (0.0, 0.5), (2.0, -1.0), (2e6, 2e6), (np.nan, 1.0)])
def test_outside_of_the_domain_there_is_no_number(at: Any) -> None:
    assert np.isnan(PRIMITIVES["gammainc_order"](*map(np.float64, at)))


def test_outside_of_the_domain_there_is_no_slope_either() -> None:
    row, xs = PRIMITIVES["gammainc_order"], (np.float64(-0.5), np.float64(0.3))
    with np.errstate(all="ignore"):
        assert all(np.isnan(rule.slope(row(*xs), xs, {})) for rule in row.rules)  # type: ignore[attr-defined]


@for_rows("at", [(2.0, 2000.0), (700.0, 1e-3), (2e6, 3.0), (2.0, np.inf)])
def test_what_is_too_small_for_a_float_is_zero(at: Any) -> None:
    assert PRIMITIVES["gammainc_order"](*map(np.float64, at)) == 0


@for_rows(("a", "x"), [(20000.0, 20001.0), (3000.0, 2800.0), (10.0, 11.0), (50.0, 200.0)])
def test_the_density_of_a_large_order_keeps_its_digits(a: float, x: float) -> None:
    with mp.workdps(40):
        right = mp.exp((a - 1) * mp.log(x) - x - mp.loggamma(a))
        rule = PRIMITIVES["gammainc"].rules[1]
        assert abs(rule.slope(np.float64(0), (np.float64(a), np.float64(x)), {}) / right - 1) < 1e-13  # type: ignore[attr-defined]


def test_a_wide_ball_holds_the_derivatives_of_all_its_points() -> None:
    from flint import arb

    wide = gammainc_ball(arb(1.2, 1e-3), arb(0.4), n=1)
    assert all(wide.contains(gammainc_ball(arb(a), arb(0.4), n=1)) for a in (1.1995, 1.2, 1.2005))
