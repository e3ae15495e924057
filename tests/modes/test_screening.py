"""A few projections see every wrong entry of a long gradient, bisection finds it, and right gradients pass."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gradcli.modes.screening import ScreeningResult, screen
from tests.rows import for_rows

Problem = tuple[Any, Callable[[Any], float], Any]
BASE, EACH = 60, 10  # calls: 60 (k log2(n) + 10)


def quadratic(n: int) -> Problem:
    rng = np.random.default_rng(n)
    d, x = rng.uniform(0.5, 2, n), rng.normal(size=n)
    return x, lambda x: float(np.sum(d * x * x) / 2), d * x


def chain(n: int) -> Problem:
    rng = np.random.default_rng(n)
    x, c = rng.normal(size=n), rng.normal(size=n)
    inner = lambda x: np.tanh(x) + 0.3 * np.roll(x, 1)
    slope = c * (1 - np.tanh(inner(x)) ** 2)
    gradient = slope * (1 - np.tanh(x) ** 2) + 0.3 * np.roll(slope, -1)
    return x, lambda x: float(np.sum(c * np.tanh(inner(x)))), gradient


def logsumexp(n: int) -> Problem:
    x = 2 * np.random.default_rng(n).normal(size=n)
    weights = np.exp(x - np.max(x))
    return x, lambda x: float(np.max(x) + np.log(np.sum(np.exp(x - np.max(x))))), weights / np.sum(weights)


def screened(
    x: Any, f: Callable[[Any], float], claim: Any, seed: int = 0, claim_error: Any = 0.0, **options: Any
) -> ScreeningResult:
    return screen(
        lambda d: f(x + d), claim, np.where(x == 0, 1.0, np.abs(x)), seed=seed, claim_error=claim_error, **options
    )


def indices(s: ScreeningResult) -> list[int]:
    return sorted(suspect.index for suspect in s.wrong)


def cheap(s: ScreeningResult, k: int) -> bool:
    return s.calls <= BASE * (k * np.log2(len(s.detectable)) + EACH)


PROBLEMS = pytest.mark.parametrize("problem", [quadratic, chain, logsumexp])
SIZES = pytest.mark.parametrize("n", [10, 1_000, 30_000])


@PROBLEMS
@SIZES
def test_a_right_claim_agrees(problem: Any, n: int) -> None:
    x, f, g = problem(n)
    s = screened(x, f, g)
    assert s.agrees is True and s.complete and not s.wrong and not s.suspected
    assert cheap(s, 0) or n > 1_000  # the bounds of 30,000 entries need wide and many steps
    assert s.calls <= 1_000
    assert np.median(s.detectable / np.abs(g)) < 1e-3


@PROBLEMS
@SIZES
@pytest.mark.parametrize("error", [1e-2, 1e-4, 1e-6])
def test_one_wrong_entry_is_found_and_measured(problem: Any, n: int, error: float) -> None:
    x, f, g = problem(n)
    for k in np.random.default_rng(n).integers(n, size=3 if n < 30_000 else 1):
        claim = g.copy()
        claim[k] *= 1 + error
        s = screened(x, f, claim)
        if s.agrees is False:
            assert indices(s) in ([k], []) and (s.wrong or any(k in group for group in s.suspected))
            assert all(abs(w.measured - g[k]) <= w.bound + 1e-12 * abs(g[k]) for w in s.wrong)
        else:
            assert s.detectable[k] > error * abs(g[k])  # it says so
            assert n > 1_000
        assert cheap(s, 1)


def test_a_flipped_sign_of_the_smallest_entry_is_found() -> None:
    for n in (10, 1_000):
        x, _, _ = quadratic(n)
        d = 10 ** np.random.default_rng(1).uniform(-4, 0, n) / x**2
        d[0], d[n // 2] = 1 / x[0] ** 2, 1e-8 / x[n // 2] ** 2
        claim = d * x
        claim[n // 2] *= -1
        s = screened(x, lambda x, d=d: float(np.sum(d * x * x) / 2), claim)
        assert indices(s) == [n // 2] and s.complete and cheap(s, 1)


def test_no_more_wrong_entries_are_found_than_the_limit() -> None:
    x, f, g = logsumexp(300)
    s = screened(x, f, 2 * g)
    assert s.agrees is False and 0 < len(s.wrong) <= 20 and not s.complete


@pytest.mark.slow
@PROBLEMS
@SIZES
def test_many_wrong_entries_do_not_cost_a_search_for_each(problem: Any, n: int) -> None:
    x, f, g = problem(n)
    zeroed = g.copy()
    block = np.arange(n // 2, n // 2 + n // 5)
    zeroed[block] = 0
    for claim, wrong in ((2 * g, np.arange(n)), (zeroed, block)):
        s = screened(x, f, claim)
        assert s.agrees is False and 0 < len(s.wrong) <= 20 and cheap(s, 20)
        assert set(indices(s)) <= set(wrong.tolist())
        assert n == 10 or (not s.complete and sum(map(len, s.suspected)) > 0.8 * len(wrong))
        assert n > 10 or indices(s) == wrong.tolist()


@PROBLEMS
def test_several_wrong_entries_are_all_found(problem: Any) -> None:
    x, f, g = problem(1_000)
    ks = np.random.default_rng(3).choice(1_000, 8, replace=False)
    claim = g.copy()
    claim[ks] *= 1.5
    s = screened(x, f, claim)
    assert indices(s) == sorted(ks.tolist()) and s.complete and cheap(s, 8)


@pytest.mark.slow
@PROBLEMS
@pytest.mark.parametrize("n", [10, 1_000, 20_000])
def test_noise_hides_what_it_says_it_hides(problem: Any, n: int) -> None:
    x, f, g = problem(n)
    rng = np.random.default_rng(1)
    functions = [lambda x: f(x) + 1e-8 * rng.normal(), lambda x: float(np.float32(f(np.float32(x).astype(float))))]
    for rough in functions:
        s = screened(x, rough, g)
        assert s.agrees is not False
        k = int(np.argmax(np.abs(g * x)))
        claim = g.copy()
        claim[k] += 3 * s.detectable[k]
        assert not np.isfinite(s.detectable[k]) or indices(screened(x, rough, claim)) == [k]


def test_noise_above_everything_decides_nothing() -> None:
    x, f, g = quadratic(1_000)
    rng = np.random.default_rng(1)
    s = screened(x, lambda x: f(x) + rng.normal(), g)
    assert s.agrees is None and np.median(s.detectable) > np.median(np.abs(g))


def random_function(seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    n, m = int(rng.choice([3, 10, 50, 300])), int(rng.integers(2, 30))
    x = rng.normal(size=n) * 10 ** (rng.uniform(-3, 3, n) * (seed % 2))
    inner, w, b = rng.normal(size=(m, n)) / np.abs(x) / np.sqrt(n), rng.normal(size=m), rng.normal(size=m)
    outer, slope = [
        (np.tanh, lambda t: 1 - np.tanh(t) ** 2),
        (np.sin, np.cos),
        (np.abs, np.sign),
        (lambda t: np.exp(t / 2), lambda t: np.exp(t / 2) / 2),
        (lambda t: np.sin(40 * t), lambda t: 40 * np.cos(40 * t)),
        (lambda t: np.sqrt(1e-6 + t * t), lambda t: t / np.sqrt(1e-6 + t * t)),
    ][seed % 6]
    added = 10 ** rng.uniform(-3, 6) * rng.integers(0, 2)
    return x, lambda x: float(w @ outer(inner @ x + b) + added), inner.T @ (w * slope(inner @ x + b))


@pytest.mark.parametrize("seeds", [range(k, k + 50) for k in range(0, 200, 50)])
def test_right_claims_of_random_functions_raise_no_alarm(seeds: range) -> None:
    assert [seed for seed in seeds if screened(*random_function(seed), seed=seed).agrees is False] == []


def test_the_budget_is_never_exceeded_and_the_seed_decides() -> None:
    x, f, g = chain(300)
    claim = g.copy()
    claim[[7, 70, 170]] *= 1.1
    calls = [0]

    def counted(x: Any) -> float:
        calls[0] += 1
        return f(x)

    for budget in (0, 5, 20, 40, 80, 120, 200, 10_000):
        calls[0] = 0
        s = screened(x, counted, claim, budget=budget)
        assert s.calls == calls[0] <= budget
        assert s.complete == (budget == 10_000) and set(indices(s)) <= {7, 70, 170}
        assert s.agrees is not True
    one, two = (screened(x, f, claim, seed=4) for _ in range(2))
    assert one.wrong == two.wrong and one.calls == two.calls and np.array_equal(one.detectable, two.detectable)


def test_allowed_errors_and_entries_without_a_claim() -> None:
    x, f, g = quadratic(100)
    rounded = g.astype(np.float32).astype(float)
    assert screened(x, f, rounded).agrees is False
    assert screened(x, f, rounded, claim_error=1e-7 * np.abs(g)).agrees is True
    claim = g.copy()
    claim[3] = np.nan
    s = screened(x, f, claim)
    assert (
        s.agrees is True
        and not s.complete
        and np.isinf(s.detectable[3])
        and np.all(np.isfinite(np.delete(s.detectable, 3)))
    )


def complex_case(seed: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    x, c = rng.uniform(0.5, 1.5, 1000), rng.uniform(0.5, 1.5, 1000)
    return lambda step: np.sum(np.sin(c * (x + step) ** 2)), 2 * c * x * np.cos(c * x * x), x


@for_rows("seed", range(5))
def test_complex_steps_confirm_a_right_claim_by_two_dozen_calls(seed: int) -> None:
    f, claim, x = complex_case(seed)
    found = screen(f, claim, x, seed=seed, complex_phi=f, phi_at_zero=float(f(0.0)))
    assert (found.agrees, found.calls <= 24, found.complete) == (True, True, True)
    assert np.median(found.detectable / np.abs(claim)) < 1e-8


@for_rows("seed", range(5))
def test_complex_steps_find_one_entry_wrong_by_1e_8(seed: int) -> None:
    f, claim, x = complex_case(seed)
    wrong = claim * (1 + 1e-8 * (np.arange(1000) == seed))
    found = screen(f, wrong, x, seed=seed, complex_phi=f, phi_at_zero=float(f(0.0)))
    assert found.agrees is False
    assert [suspect.index for suspect in found.wrong] == [seed]
    assert abs(found.wrong[0].measured / claim[seed] - 1) < 1e-11


@for_rows("seed", range(6))
def test_complex_steps_find_one_entry_among_many_that_is_wrong_by_less_than_their_rounding(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, c = rng.uniform(0.5, 1.5, (2, 40_000))
    claim, k = 2 * c * x * np.cos(c * x * x), int(rng.integers(40_000))
    f = lambda step: np.sum(np.sin(c * (x + step) ** 2))
    ask = {"seed": seed, "complex_phi": f, "phi_at_zero": float(f(0.0)), "claim_error": 1e-12 * np.abs(claim)}
    assert screen(f, claim, x, **ask).agrees is True  # although some slopes nearly vanish, and have few right digits
    claim[k] *= 1 + 1e-8
    found = screen(f, claim, x, **ask)
    assert (found.agrees, [suspect.index for suspect in found.wrong]) == (False, [k])


@for_rows("seed", range(8))
def test_a_right_claim_that_is_inexact_in_every_entry_is_not_flagged_by_one_of_them(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, d = rng.uniform(0.5, 1.5, (2, 6_000))
    b = 1e6 * d
    a, claim = b + d, 2 * (b + d) * x - 2 * b * x  # six digits cancel
    f = lambda step: np.sum(a * (x + step) ** 2) - np.sum(b * (x + step) ** 2)
    ask = {"seed": seed, "complex_phi": f, "phi_at_zero": float(f(0.0)), "claim_error": 1e-12 * np.abs(claim)}
    assert screen(f, claim, x, **ask).agrees is not False


def test_a_function_that_is_not_analytic_is_judged_by_real_differences() -> None:
    x = np.linspace(0.5, 1, 50)

    def f(step: Any) -> Any:
        return np.sum(np.abs(x + step) ** 3)

    found = screen(f, 3 * x**2, x, seed=0, complex_phi=f, phi_at_zero=float(f(0.0)))
    assert found.agrees is True
    assert found.calls > 12
    zero = screen(f, np.zeros(50), x, seed=0, complex_phi=f, phi_at_zero=float(f(0.0)))
    assert zero.agrees is False


def test_complex_steps_stay_within_the_budget() -> None:
    f, claim, x = complex_case(0)
    wrong = claim * (1 + 1e-6 * (np.arange(1000) % 50 == 0))
    for budget in (200, 400, 800):
        found = screen(f, wrong, x, seed=0, complex_phi=f, phi_at_zero=float(f(0.0)), budget=budget)
        assert found.calls <= budget
        assert found.agrees is not True or budget < 300
