"""Functions that call solvers are traced, by the rule for solutions; right gradients pass, and wrong ones fail."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad, solve_ivp
from scipy.optimize import brentq, curve_fit, minimize, newton

import gradcli
from gradcli.errors import NotSupported
from gradcli.report.check import CheckReport
from gradcli.targets import solutions
from tests.corpus import solvers

MODES = "certified,forward,reverse,complex-step,finite-difference"
CASES = [pytest.param(f, at, id=f.__name__) for f, at in solvers.POINTS.items()]


def checked(f: Callable[..., Any], at: Any, factor: float | None = None, **options: Any) -> CheckReport:
    right = getattr(solvers, f"{f.__name__}_gradient")

    def claim(*args: Any) -> Any:
        y = right(*args)
        return tuple(factor * part for part in y) if isinstance(y, tuple) else factor * y

    return gradcli.check(f, at, grad=right if factor is None else claim, modes=MODES, **options)


@pytest.mark.slow
@pytest.mark.parametrize(("f", "at"), CASES)
def test_a_right_gradient_passes_by_the_rule_and_by_values(f: Callable[..., Any], at: Any) -> None:
    report = checked(f, at)
    point = report.points[0]
    assert report.verdict == "pass", report.sentence()
    for mode in ("forward", "reverse", "finite-difference"):
        assert (point.modes[mode].status, point.modes[mode].verdict) == ("ok", "agree"), (mode, point.modes[mode])
    assert "untraced" not in [found.kind for found in point.findings]
    certified = point.modes["certified"]
    assert certified.status == "unsupported"
    assert "is not available in ball arithmetic" in str(certified.message)
    assert any(name in str(certified.message) for name in ("scipy.", "np.roots")), "the message names the solver"


@pytest.mark.slow
@pytest.mark.parametrize(("f", "at"), CASES)
def test_a_wrong_gradient_fails(f: Callable[..., Any], at: Any) -> None:
    report = checked(f, at, 1.05, no_diagnose=True)
    assert report.verdict == "fail", report.sentence()


def test_a_wrong_sign_fails_and_is_named() -> None:
    report = checked(solvers.integral, solvers.POINTS[solvers.integral], -1.0)
    assert report.verdict == "fail" and report.points[0].diagnosis.kind == "sign"  # type: ignore[union-attr]


@pytest.mark.slow
def test_a_result_says_how_far_it_can_be_trusted() -> None:
    """The default tolerance of solve_ivp leaves three digits; a gradient that is off in the fourth cannot be refuted."""
    sharp = checked(solvers.initial_value_problem, solvers.POINTS[solvers.initial_value_problem])
    coarse = checked(solvers.decay_at_default_tolerance, {"k": 0.7})
    assert sharp.points[0].detects.relative < 1e-6 < coarse.points[0].detects.relative < 0.02  # type: ignore[union-attr]


def refusal(f: Callable[..., Any], at: Any) -> str:
    [found] = [x for x in gradcli.check(f, at, modes=MODES).points[0].findings if x.kind == "untraced"]
    return f"{found.message} {found.hint}"


def with_events(k: Any) -> Any:
    return solve_ivp(lambda t, y: -k * y, (0, 2), [1.0], events=lambda t, y: y[0] - 0.5).t_events[0][0]


def not_finished(k: Any) -> Any:
    return minimize(lambda x: (x[0] - k) ** 4 + np.sin(3 * x[0]), [3.0], options={"maxiter": 1}).x[0]


def not_converged(k: Any) -> Any:
    return solve_ivp(lambda t, y: -k * y + np.sin(9 * t), (0, 20), [1.0], rtol=0.5, atol=0.5).y[0, -1]


def not_isolated(k: Any) -> Any:
    return minimize(lambda x: (x[0] + x[1] - k) ** 2, [0.0, 0.0]).x[0]


def constrained(k: Any) -> Any:
    return minimize(lambda x: (x[0] - k) ** 2, [0.0], constraints={"type": "ineq", "fun": lambda x: x[0]}).x[0]


def covariance(k: Any) -> Any:
    t = np.arange(4.0)
    return curve_fit(lambda t, a: a * t, t, k * t**2)[1][0, 0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("f", "words"),
    [
        (with_events, "with events= has no derivative rule"),
        (not_finished, "scipy.optimize.minimize has not converged"),
        (not_converged, "scipy.integrate.solve_ivp has not converged"),
        (not_isolated, "has a solution that is not isolated"),
        (constrained, "with constraints= has no derivative rule"),
        (covariance, "the covariance that scipy.optimize.curve_fit returns is not traced"),
    ],
)
def test_what_has_no_rule_is_refused_by_name(f: Callable[..., Any], words: str) -> None:
    assert words in refusal(f, {"k": 0.7})


def test_a_loss_of_least_squares_is_refused_before_anything_is_solved() -> None:
    with pytest.raises(NotSupported, match="least_squares with loss= has no derivative rule"):
        solutions.FUNCTIONS["optimize"]["least_squares"](lambda x: x, [0.0], loss="huber")


def test_arguments_are_taken_by_position_and_by_name_as_scipy_takes_them() -> None:
    by_position = gradcli.grad(lambda k: brentq(lambda x, c: x**3 - c, 0.0, 3.0, (k,)))
    by_name = gradcli.grad(lambda k: newton(func=lambda x: x**3 - k, x0=1.0))
    right = pytest.approx(0.7 ** (-2 / 3) / 3, rel=1e-9)
    assert (by_position(0.7), by_name(0.7)) == (right, right)


@pytest.mark.slow
def test_second_derivatives_are_refused() -> None:
    report = gradcli.check(lambda a: quad(lambda t: np.exp(-a * t), 0, 1)[0], {"a": 1.3}, order=2, modes=MODES)
    assert "scipy.integrate.quad has a rule for first derivatives only" in report.sentence()
