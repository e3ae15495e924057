"""Solvers at loose tolerances, traced or not: a right gradient passes, to what the solver allows; a wrong one fails."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, optimize
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

import gradcli
from gradcli.checks.probe import locate_function
from gradcli.report.check import CheckReport
from tests.corpus import solved
from tests.rows import for_rows

CASES = [pytest.param(f, at, id=f.__name__) for f, at in solved.POINTS.items()]


def checked(f: Callable[..., Any], at: float, factor: float = 1.0, **options: Any) -> CheckReport:
    right = getattr(solved, f"{f.__name__}_gradient")
    return gradcli.check(f, {"a": at}, grad=lambda a: factor * right(a), **options)


@pytest.mark.slow
@pytest.mark.parametrize(("f", "at"), CASES)
def test_a_right_gradient_passes(f: Callable[..., Any], at: float) -> None:
    report = checked(f, at)
    assert report.verdict == "pass", report
    assert report.points[0].value == f(at), "the value is that with the user's own tolerances"


@pytest.mark.slow
@pytest.mark.parametrize(("f", "at"), CASES)
def test_a_gradient_two_percent_off_fails(f: Callable[..., Any], at: float) -> None:
    report = checked(f, at, 1.02)
    assert report.verdict == "fail", report
    [wrong] = report.points[0].mismatches
    bound = np.ravel(report.points[0].modes[str(report.points[0].reference)].bound["a"])[0]  # type: ignore[index]
    assert bound < abs(wrong.difference), "what is printed as right is nearer than the claim"


def test_the_sentence_names_the_solver_and_its_tolerances() -> None:
    assert checked(solved.decay, 0.7).sentence().endswith("as exact as solve_ivp at rtol=0.001, atol=1e-6 allows")
    assert checked(solved.bracketed, 0.7).sentence().endswith("as exact as brentq at xtol=1e-6 allows")


def test_a_solver_at_its_floor_is_left_and_not_named() -> None:
    def f(a: Any) -> Any:
        a = float(a)
        return brentq(lambda t: t**3 + a * t - 1, 0, 1, xtol=1e-300, rtol=9e-16)

    report = gradcli.check(f, {"a": 0.7}, grad=solved.bracketed_gradient)
    assert report.verdict == "pass"
    assert "exact as" not in report.sentence()


def loose(a: Any) -> Any:
    a = float(a)
    return solve_ivp(lambda t, y: a * y * (1 - y), (0, 5), [0.1], rtol=2e-3).y[0, -1]


def loose_gradient(a: Any) -> Any:
    e = 9 * np.exp(-5 * a)
    return 5 * e / (1 + e) ** 2


def test_a_limit_above_one_percent_passes_only_with_a_tolerance() -> None:
    report = gradcli.check(loose, {"a": 1.0}, grad=loose_gradient)
    assert report.verdict == "inconclusive"
    assert "1 entry is known only to " in report.sentence()
    assert report.sentence().endswith("as exact as solve_ivp at rtol=0.002, atol=1e-6 allows")
    assert gradcli.check(loose, {"a": 1.0}, grad=loose_gradient, rtol=0.1).verdict == "pass"
    assert gradcli.check(loose, {"a": 1.0}, grad=lambda a: -loose_gradient(a)).verdict == "fail"


def test_a_limit_above_ten_percent_stays_open_with_a_tolerance() -> None:
    def f(a: Any) -> Any:
        a = float(a)
        return solve_ivp(lambda t, y: [y[1], -a * y[0]], (0, 20), [1.0, 0.0], rtol=1e-2).y[0, -1]

    def gradient(a: Any) -> Any:
        return -20 * np.sin(20 * np.sqrt(a)) / (2 * np.sqrt(a))

    report = gradcli.check(f, {"a": 1.3}, grad=gradient, rtol=0.5)
    assert report.verdict == "inconclusive"
    assert "known only to" in report.sentence()


def test_a_solver_is_found_under_any_name_of_a_module(tmp_path: Path) -> None:
    source = "from scipy.optimize import brentq as find\n" + inspect.getsource(solved.bracketed).replace(
        "brentq", "find"
    )
    (tmp_path / "renamed.py").write_text(source)
    made = gradcli.check(f"{tmp_path / 'renamed.py'}:bracketed", {"a": 0.7}, grad=solved.bracketed_gradient)
    assert made.verdict == "pass"
    assert "brentq at xtol=1e-6" in made.sentence()


def test_the_user_finds_scipy_as_it_was() -> None:
    def now() -> tuple[Any, ...]:
        return getattr(solved, "solve_ivp"), integrate.solve_ivp, optimize.brentq  # noqa: B009

    before = now()
    checked(solved.decay, 0.7)
    assert now() == before
    assert not hasattr(integrate.solve_ivp, "__wrapped__")


@for_rows(
    ("call", "words"),
    [
        (lambda: integrate.quad(np.cos, 0, 1)[0], "quad at epsabs=1.49e-8, epsrel=1.49e-8"),
        (lambda: optimize.minimize(np.sum, [0.0], method="L-BFGS-B", bounds=[(0, 1)]).fun,
         "minimize at ftol=2.22e-9, gtol=1e-5"),
        (lambda: optimize.minimize(lambda x: x @ x, [1.0], tol=1e-3).fun, "minimize at tol=0.001"),
        (lambda: optimize.minimize(lambda x: x @ x, [1.0], options={"gtol": 1e-3}).fun, "minimize at gtol=0.001"),
        (lambda: optimize.root_scalar(np.cos, bracket=(1, 2)).root, "root_scalar at xtol=2e-12"),
        (lambda: optimize.root(np.cos, [1.0]).x[0], "root at xtol=1.49e-8"),
        (lambda: integrate.solve_ivp(lambda t, y: -y, (0, 1), [1.0, 2.0], atol=np.array([1e-5, 1e-7])).y[0, -1],
         "solve_ivp at rtol=0.001, atol=1e-5"),
    ],
)  # fmt: skip
def test_a_call_is_noted_with_the_tolerances_that_it_has(call: Callable[[], float], words: str) -> None:
    located = locate_function(lambda a: a * float(call()), "f", [{"a": 1.0}])
    assert located.f.solvers == (words,)  # type: ignore[attr-defined]
