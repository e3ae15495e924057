"""Kernels: the accurate float64 form of a partial is the partial, to the ulps that are claimed."""

from typing import Any

import mpmath
import numpy as np
import pytest

from gradcli.arithmetic.ball import Ball, bound_error, nearest_float64, precision, radius
from gradcli.arithmetic.recorded_program import vjp
from gradcli.rules.kinds import ConstantSlope, Partial
from gradcli.study.accuracy import worst_ulps
from gradcli.tracing.primitive import NEAR_0, NEAR_1, PRIMITIVES, REAL, Primitive
from tests.rows import for_rows

EPS = float(np.finfo(np.float64).eps)
CLAIMED = 8.0  # ulps, of a row that states no reason for more
EXCUSED = 1e9  # ulps, of a row that states one: seven digits are right
CANCELS = {"beta", "betaln"}  # made of digammas that are subtracted: far from one all digits may be gone
ROWS = [
    row for row in PRIMITIVES.values() if row.rules and all(isinstance(r, Partial | ConstantSlope) for r in row.rules)
]
KERNELS = [
    pytest.param(row, i, id=f"{row.name}-{i}")
    for row in ROWS
    for i, rule in enumerate(row.rules)
    if isinstance(rule, Partial) and rule.kernel is not None
]


@for_rows(("row", "i"), KERNELS)
def test_a_kernel_is_its_partial_evaluated_in_balls(row: Primitive, i: int) -> None:
    rng = np.random.default_rng(i)
    rule: Any = row.rules[i]
    for xs in zip(*(domain.sample(rng, 20) for domain in row.on), strict=True):
        with precision(256):
            balls = [Ball.lift(x) for x in xs]
            right = rule.partial(row(*balls), *balls)
        slope = rule.kernel(row.fun(*xs), *xs)
        assert bound_error(right, slope) <= (1e-12 * abs(slope) if row.reason else CLAIMED * np.spacing(abs(slope)))


@for_rows(("row", "i"), [case for case in KERNELS if case.values[0].rules[case.values[1]].holds is not REAL])
def test_a_kernel_is_its_partial_all_over_where_it_holds(row: Primitive, i: int) -> None:
    """At tiny, huge and saturated arguments inside of the interval, and just outside of it, where the partial is used."""
    rule: Any = row.rules[i]
    for x in map(np.float64, rule.holds.hard):
        with np.errstate(all="ignore"):  # as in a sweep
            slope = rule.kernel(row.fun(x), x)
        right = exactly(row, i, x)
        assert bound_error(right, slope) <= max(1e-12 * abs(slope), 1e-320)  # as of rows with a reason
        outside = x + 1 if rule.holds in (NEAR_0, NEAR_1) else x / 100
        if np.all(row.on[0].contains(outside)) and not np.all(rule.holds.contains(outside)):
            y = row.fun(outside)
            assert rule.kernel(y, outside) == rule.partial(y, outside)


def exactly(row: Primitive, i: int, x: np.float64) -> Any:
    """Return a partial in balls, by as many bits as it takes."""
    rule: Any = row.rules[i]
    for bits in (256, 1024, 4096, 16384):
        with precision(bits):
            ball = Ball.lift(x)
            right = rule.partial(row(ball), ball)
            if radius(right) <= max(1e-20 * abs(nearest_float64(right)), 1e-322):  # below it float64 has nothing
                return right
    raise AssertionError(f"{row.name} is not known at {x}")


@for_rows(("row", "i"), KERNELS)
def test_a_kernel_takes_arrays_as_it_takes_numbers(row: Primitive, i: int) -> None:
    rng = np.random.default_rng(i)
    rule: Any = row.rules[i]
    xs = [domain.sample(rng, 6) for domain in row.on]
    together = rule.kernel(row.fun(*xs), *xs)
    alone = [rule.kernel(row.fun(*each), *each) for each in zip(*xs, strict=True)]
    assert all(np.shape(slope) == () for slope in alone)
    np.testing.assert_allclose(together, alone, rtol=CLAIMED * EPS)  # numpy's loops over arrays differ by an ulp


@for_rows("row", [pytest.param(row, id=row.name) for row in ROWS if row.reason is None])
def test_slopes_are_right_to_the_claimed_ulps_over_the_whole_domain(row: Primitive) -> None:
    assert worst_ulps(row) <= CLAIMED, f"{row.name} needs a domain, a kernel beside its partial, or a reason="


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=row.name, marks=[pytest.mark.slow] if row.name == "betainc_order" else [])
        for row in ROWS
        if row.reason and row.name not in CANCELS
    ],
)
def test_a_reason_excuses_digits_but_no_wrong_slope(row: Primitive) -> None:
    assert worst_ulps(row) <= EXCUSED, (
        f"the slope of {row.name} is wrong somewhere in its domain: it needs a kernel there"
    )


def test_the_reason_that_gamma_states_is_true_near_a_root_of_digamma() -> None:
    row, x = PRIMITIVES["gamma"], np.float64(-1.5734984731623905)
    with precision(256):
        ball = Ball.lift(x)
        right: Any = row.rules[0].slope(row(ball), [ball], {})
    slope = vjp(row, [x])[1](np.float64(1))[0]
    assert row.reason is not None
    assert bound_error(right, slope) > CLAIMED * np.spacing(abs(slope))


def reference(name: str, x: float, *others: float) -> float:
    """Return a slope by mpmath at 60 digits, written without cancellation."""
    m: Any = mpmath
    with m.workdps(60):
        t = m.mpf(x)
        slopes = {
            "tanh": lambda: m.sech(t) ** 2,
            "expit": lambda: m.exp(-t) / (1 + m.exp(-t)) ** 2,
            "erf": lambda: 2 / m.sqrt(m.pi) * m.exp(-t * t),
            "erfc": lambda: -2 / m.sqrt(m.pi) * m.exp(-t * t),
            "log_expit": lambda: m.exp(-t) / (1 + m.exp(-t)),
            "logaddexp": lambda: 1 / (1 + m.exp(others[0] - t)),
            "arctan": lambda: 1 / (1 + t * t),
            "arcsin": lambda: 1 / m.sqrt((1 - t) * (1 + t)),
            "arctanh": lambda: 1 / ((1 - t) * (1 + t)),
            "arccosh": lambda: 1 / m.sqrt((t - 1) * (t + 1)),
        }
        return float(slopes[name]())


SATURATED = [
    ("tanh", (25.0,)), ("tanh", (-25.0,)), ("tanh", (300.0,)), ("expit", (40.0,)), ("expit", (-700.0,)),
    ("expit", (500.0,)), ("erf", (6.0,)), ("erf", (26.0,)), ("erfc", (-6.0,)), ("log_expit", (700.0,)),
    ("logaddexp", (-700.0, 3.0)), ("logaddexp", (800.0, 3.0)), ("logaddexp", (1e8 + 0.1, 1e8)), ("arctan", (1e200,)),
    ("arctan", (1e154,)), ("arcsin", (1 - 2.0**-53,)), ("arctanh", (2.0**-53 - 1,)), ("arccosh", (1 + 2.0**-52,)),
]  # fmt: skip


@for_rows(("name", "xs"), SATURATED)
def test_a_slope_survives_saturation(name: str, xs: tuple[float, ...]) -> None:
    right = reference(name, *xs)
    with np.errstate(under="ignore"):
        found = vjp(PRIMITIVES[name], [np.float64(x) for x in xs])[1](np.float64(1))[0]
    assert abs(found - right) <= CLAIMED * np.spacing(abs(right))


def test_the_slope_of_tanh_at_25_is_not_zero() -> None:
    assert 1 - np.tanh(25.0) ** 2 == 0.0  # what the textbook formula gives
    assert vjp(np.tanh, [np.float64(25)])[1](np.float64(1))[0] == pytest.approx(
        7.71499939e-22, rel=1e-9
    )  # digits shown
