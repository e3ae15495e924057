"""Error against step size, as compare-modes tells it: observed orders and best steps against theory."""

from collections.abc import Callable
from typing import Any

import pytest

# fmt: off
SMOOTH = [
    ("sin(x*y) + exp(-x**2)", "x=0.5", "y=1.2"),
    ("exp(x)", "x=1"),
    ("sum(tanh(W@x)**2)", "W=[[0.3, -0.2], [0.5, 0.7]]", "x=[0.4, 0.9]"),
    ("log(x) + 1/x", "x=1.5"),
]
# fmt: on


@pytest.fixture(name="sweep", params=SMOOTH, ids=[argv[0] for argv in SMOOTH])
def _sweep(request: pytest.FixtureRequest, gradcli: Callable[..., Any]) -> dict[str, Any]:
    return schemes(gradcli, *request.param)


def schemes(gradcli: Callable[..., Any], *argv: str) -> dict[str, Any]:
    document = gradcli("compare-modes", *argv, "--modes", "fwd,rev,cert", "--steps", "--json").json
    return {scheme["scheme"]: scheme for scheme in document["sweep"]}


def test_forward_differences_have_order_one(sweep: dict[str, Any]) -> None:
    assert sweep["forward"]["order"] == pytest.approx(1, abs=0.2)  # the second derivative along v is small in the first


def test_forward_differences_are_best_near_1e_8(sweep: dict[str, Any]) -> None:
    assert 3e-10 < sweep["forward"]["best_h"] < 3e-7
    assert 6 < sweep["forward"]["digits"] < 12


def test_central_differences_have_order_two(sweep: dict[str, Any]) -> None:
    assert sweep["central"]["order"] == pytest.approx(2, abs=0.2)


def test_central_differences_are_best_near_1e_5(sweep: dict[str, Any]) -> None:
    assert 3e-7 < sweep["central"]["best_h"] < 1e-3
    assert sweep["central"]["digits"] > sweep["forward"]["digits"]


def test_the_complex_step_reaches_sixteen_digits(sweep: dict[str, Any]) -> None:
    assert sweep["complex"]["digits"] > 15
    assert 1 / 10 < sweep["complex"]["predicted_h"] / sweep["complex"]["best_h"] < 10  # the largest that is good


@pytest.mark.parametrize("scheme", ["forward", "central"])
def test_theory_predicts_what_is_observed(sweep: dict[str, Any], scheme: str) -> None:
    found = sweep[scheme]
    assert 1 / 10 < found["predicted_h"] / found["best_h"] < 10
    assert 1 / 3 < found["predicted_error"] / found["relative_error"] < 100


def test_differences_of_a_straight_line_have_no_order(gradcli: Callable[..., Any]) -> None:
    found = schemes(gradcli, "3*x", "x=2")
    assert found["forward"]["order"] is None and found["forward"]["predicted_h"] is None


def test_a_function_that_is_not_analytic_has_no_complex_step(gradcli: Callable[..., Any]) -> None:
    assert list(schemes(gradcli, "abs(x)*x", "x=2")) == ["forward", "central", "5-point"]


@pytest.mark.parametrize("argv", [("abs(x)", "x=0"), ("log(x)", "x=0"), ("2**3",)])
def test_where_there_is_no_slope_there_is_no_sweep(gradcli: Callable[..., Any], argv: tuple) -> None:
    assert schemes(gradcli, *argv) == {}


@pytest.mark.parametrize("argv", [("sin(x*y)", "x=0.5", "y=1.2"), ("x/y", "x=1", "y=2"), ("sum(x)/x[0]", "x=[1,2]")])
def test_the_direction_does_not_cancel_the_slope(gradcli: Callable[..., Any], argv: tuple) -> None:
    assert schemes(gradcli, *argv)["central"]["digits"] > 8


def test_the_text_names_the_best_scheme(gradcli: Callable[..., Any]) -> None:
    text = gradcli("compare-modes", *SMOOTH[0], "--modes", "fwd,rev", "--steps").stdout
    assert "error against step size" in text and "Complex is best" in text
