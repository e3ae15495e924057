"""Central differences: the error they state holds, and is small where it can be."""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest

from gradcli.modes.difference_steps import (
    SAFETY,
    FunctionNoise,
    Line,
    derivative,
    estimate_noise,
    quick_derivative,
    steepness_within_step,
)
from tests.rows import for_rows

EPS = float(np.finfo(np.float64).eps)

# fmt: off
#     function of numpy's or mpmath's functions m, and x       at             digits it must find, at least
CORPUS: list[tuple[str, Callable[[Any, Any], Any], float, int]] = [
    ("x",                  lambda m, x: x,                             3.0,           11),
    ("x tiny",             lambda m, x: x,                             1e-8,          8),
    ("x huge",             lambda m, x: x,                             1e12,          10),
    ("constant",           lambda m, x: x * 0 + 5,                     1.0,           0),
    ("square",             lambda m, x: x**2,                          3.0,           11),
    ("square at 0",        lambda m, x: x**2,                          0.0,           0),
    ("cube",               lambda m, x: x**3 - x,                      -2.0,          11),
    ("fifth power",        lambda m, x: x**5,                          1.7,           11),
    ("tenth power",        lambda m, x: x**10,                         0.9,           9),
    ("reciprocal",         lambda m, x: 1 / x,                         0.3,           9),
    ("reciprocal tiny",    lambda m, x: 1 / x,                         1e-6,          9),
    ("reciprocal huge",    lambda m, x: 1 / x,                         1e6,           0),
    ("sqrt",               lambda m, x: m.sqrt(x),                     2.0,           11),
    ("sqrt near 0",        lambda m, x: m.sqrt(x),                     1e-10,         8),
    ("sqrt nearer 0",      lambda m, x: m.sqrt(x),                     1e-14,         8),
    ("exp",                lambda m, x: m.exp(x),                      1.0,           11),
    ("exp(20 x)",          lambda m, x: m.exp(20 * x),                 1.0,           8),
    ("exp(-x**2)",         lambda m, x: m.exp(-x * x),                 0.7,           10),
    ("exp far down",       lambda m, x: m.exp(-x),                     40.0,          8),
    ("exp(-1/x)",          lambda m, x: m.exp(-1 / x),                 0.05,          5),
    ("log",                lambda m, x: m.log(x),                      2.5,           11),
    ("log near 0",         lambda m, x: m.log(x),                      1e-9,          8),
    ("log near 1",         lambda m, x: m.log(x),                      1 + 1e-9,      10),
    ("log1p",              lambda m, x: m.log1p(x),                    -0.999,        8),
    ("expm1",              lambda m, x: m.expm1(x),                    1e-9,          9),
    ("sin",                lambda m, x: m.sin(x),                      1.0,           11),
    ("sin(100 x)",         lambda m, x: m.sin(100 * x),                1.0,           8),
    ("sin(1e6 x)",         lambda m, x: m.sin(1e6 * x),                1.0,           0),
    ("sin(1e6 x) at 0.1",  lambda m, x: m.sin(1e6 * x),                0.1,           0),
    ("sin(1e9 x)",         lambda m, x: m.sin(1e9 * x),                1.0,           0),
    ("sin far out",        lambda m, x: m.sin(x),                      1e8,           4),
    ("cos at its top",     lambda m, x: m.cos(x),                      0.0,           0),
    ("tan near its pole",  lambda m, x: m.tan(x),                      1.57,          5),
    ("tanh",               lambda m, x: m.tanh(x),                     0.5,           10),
    ("tanh saturated",     lambda m, x: m.tanh(x),                     18.0,          0),
    ("sinh, cosh",         lambda m, x: m.sinh(x) / m.cosh(3 * x),     1.2,           9),
    ("1e8 + x**2 - 1e8",   lambda m, x: (1e8 + x**2) - 1e8,            1.0,           4),
    ("1e16 + x - 1e16",    lambda m, x: (1e16 + x) - 1e16,             1.0,           0),
    ("(x**2 - 1)/(x - 1)", lambda m, x: (x**2 - 1) / (x - 1),          1 + 1e-6,      0),
    ("1 - cos(x)",         lambda m, x: 1 - m.cos(x),                  1e-4,          5),
    ("sin(x)/x",           lambda m, x: m.sin(x) / x,                  1e-3,          5),
    ("steep logistic",     lambda m, x: 1 / (1 + m.exp(-200 * x)),     0.003,         6),
    ("narrow peak",        lambda m, x: 1 / (1 + (1000 * x) ** 2),     0.002,         5),
    ("x + narrow wave",    lambda m, x: x + 1e-5 * m.sin(1e5 * x),     0.7,           2),
    ("abs near its kink",  lambda m, x: abs(x),                        1e-3,          6),
    ("abs nearer",         lambda m, x: abs(x),                        1e-9,          6),
    ("abs beside 1",       lambda m, x: abs(x - 1),                    1 + 1e-5,      5),
    ("max near a tie",     lambda m, x: max(x, 2 * x - 1),             1 + 1e-4,      5),
    ("min near a tie",     lambda m, x: min(m.sin(x), 0.5),            0.52,          5),
    ("relu on the left",   lambda m, x: max(x, 0 * x),                 -1e-4,         0),
    ("relu on the right",  lambda m, x: max(x, 0 * x) ** 2,            1e-4,          5),
    ("cbrt of the 4th",    lambda m, x: (x * x) ** (2 / 3),            1e-2,          6),
    ("x**x",               lambda m, x: x**x,                          0.3,           9),
    ("x**2.5",             lambda m, x: x**2.5,                        1e-3,          6),
    ("nested",             lambda m, x: m.sin(m.exp(m.cos(3 * x))),    0.8,           9),
    ("large times small",  lambda m, x: 1e20 * x + 1e-20,              2e-5,          8),
    ("scaled input",       lambda m, x: m.sin(1e-6 * x),               1e6,           9),
    ("tiny input",         lambda m, x: m.sin(1e12 * x),               1e-12,         8),
    ("floor beside",       lambda m, x: m.floor(x) + x,                2.01,          6),
    ("rational",           lambda m, x: (x**3 + 2) / (x**2 + 1),       -1.3,          10),
]
# fmt: on
CASES = [pytest.param(*rest, id=name) for name, *rest in CORPUS]


def right(f: Any, x: float) -> float:
    """Return the derivative at 200 digits, by steps no kink of the corpus is near enough to notice."""
    with mpmath.workdps(200):
        h = mpmath.mpf(10) ** -80
        t = mpmath.mpf(x)
        return float((f(mpmath, t + h) - f(mpmath, t - h)) / (2 * h))


@for_rows(("f", "x", "digits"), CASES)
def test_the_bound_holds(f: Any, x: float, digits: int) -> None:
    with np.errstate(all="ignore"):
        found = derivative(Line(lambda t: f(np, np.float64(x + t)), x), 1.0)
    assert abs(found.value - right(f, x)) <= found.bound


@for_rows(("f", "x", "digits"), [case for case in CASES if case.values[-1]])
def test_the_bound_says_something(f: Any, x: float, digits: int) -> None:
    with np.errstate(all="ignore"):
        found = derivative(Line(lambda t: f(np, np.float64(x + t)), x), 1.0)
    assert found.bound <= 10.0**-digits * abs(right(f, x))


def test_each_entry_of_the_output_takes_its_own_step() -> None:
    scales = np.array([1.0, 1e3, 1e5])
    found = derivative(Line(lambda t: np.sin(scales * (0.3 + t)), 0.3), 1.0)
    assert found.h.shape == found.bound.shape == (3,)
    assert found.h[0] > found.h[2]
    assert np.all(np.abs(found.value - scales * np.cos(scales * 0.3)) <= found.bound)


def test_outside_the_domain_nothing_is_claimed() -> None:
    with np.errstate(all="ignore"):
        found = derivative(Line(lambda t: np.log(np.float64(-1 + t)), -1.0), 1.0)
    assert np.isnan(found.value)
    assert found.bound == np.inf


@pytest.mark.parametrize("kink", [lambda t: abs(t), lambda t: max(t, 0.0), lambda t: np.sqrt(abs(t))])
def test_at_a_kink_some_value_between_the_one_sided_slopes_is_given(kink: Any) -> None:
    found = derivative(Line(lambda t: np.float64(kink(t)), 0.0), 1.0)
    assert -1 <= found.value <= 1


def test_calls_are_counted() -> None:
    calls: list[float] = []
    found = derivative(Line(lambda t: (calls.append(t), np.float64(t))[1], 1e-3), 1.0)
    assert found.calls == len(calls)


@for_rows(
    ("phi", "slope"),
    [
        (lambda t: np.sin(1.3 + t), np.cos(1.3)),
        (lambda t: np.exp(-t) + 3, -1.0),
        (lambda t: np.tanh(0.4 + t) ** 2, 2 * np.tanh(0.4) / np.cosh(0.4) ** 2),
        (lambda t: 1 / (2 + t), -0.25),
    ],
)
def test_an_expected_slope_spares_two_calls_if_it_is_right(phi: Callable[[float], Any], slope: float) -> None:
    found = quick_derivative(phi, EPS, expected=slope)
    assert found.calls == 4
    assert abs(found.value - slope) <= found.bound < 1e-10
    wrong = quick_derivative(phi, EPS, expected=slope * (1 + 1e-9))
    assert wrong.calls == 6
    assert abs(wrong.value - slope) <= wrong.bound < 1e-9 * abs(slope)


def test_an_expected_slope_is_not_confirmed_across_a_kink() -> None:
    assert quick_derivative(lambda t: abs(t - 5e-4), EPS, expected=-1.0).calls == 6


def added(sigma: float, seed: int) -> Callable[[float], Any]:
    rng = np.random.default_rng(seed)
    return lambda t: np.exp(t) + sigma * rng.normal()


@pytest.mark.parametrize("sigma", [1e-12, 1e-6, 1e-3])
def test_added_noise_is_measured(sigma: float) -> None:
    found = np.array([estimate_noise(added(sigma, seed), 1.0) for seed in range(60)])
    # the mean of 5, 4 or 3 correlated squares: one estimate is within a factor 8 nearly always, their median within 1.5
    assert np.all((found > sigma / 8) & (found < 4 * sigma))
    assert sigma / 1.5 < np.median(found) < 1.5 * sigma


def test_noise_is_never_below_the_rounding_of_the_value() -> None:
    assert estimate_noise(lambda t: 1e8, 1.0) == 1e8 * EPS
    assert estimate_noise(lambda t: 0.0, 1.0) == 0.0


@pytest.mark.parametrize("sigma", [1e-10, 1e-5])
def test_the_bound_holds_under_added_noise(sigma: float) -> None:
    found = [derivative(Line(added(sigma, seed), 0.0), 1.0) for seed in range(40)]
    assert all(abs(each.value - 1.0) <= each.bound for each in found)
    assert np.median([each.bound for each in found]) < 1e4 * sigma  # three sigma at h = 1e-3, times the safety factor


@pytest.mark.parametrize("added", [0.0, 1.0], ids=["allowed", "present"])
def test_the_bound_holds_beside_kinks_that_noise_hides_from_small_steps(added: float) -> None:
    rng = np.random.default_rng(0)
    a, b, c = rng.normal(size=(3, 300))
    d, sigma = 10.0 ** rng.uniform(-14, -0.5, 300), 10.0 ** rng.uniform(-14, -3, 300)
    line = Line(lambda t: a * t + b * np.abs(t - d) + c * np.sin(t) + added * sigma * rng.normal(size=300))
    found = derivative(line, noise=FunctionNoise(sigma, sigma, None if added else 0.0))
    assert np.all(np.abs(found.value - (a - b + c)) <= found.bound)


def test_the_bound_of_a_smooth_function_with_allowed_noise_is_that_of_noise() -> None:
    found = derivative(Line(lambda t: np.exp(np.float64(t))), noise=FunctionNoise(1e-6, 1e-6, 0.0))
    assert abs(found.value - 1) <= found.bound <= 2 * SAFETY * found.rounding


@for_rows("edges", [{}, {"low": 0.0}, {"high": 0.0}])
def test_a_steepness_within_a_step_has_the_curvature_also_at_an_edge(edges: dict[str, float]) -> None:
    line = Line(lambda t: np.asarray(3 * t + t * t), **edges)
    found = derivative(line, typical=1.0)
    assert float(steepness_within_step(line, found)) == pytest.approx(3 + float(found.h), rel=1e-6)
