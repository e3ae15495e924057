"""The frameworks as modes: what they answer, what they cannot, and that they are witnesses of their own."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gradcli as api
from gradcli.errors import NotSupported
from gradcli.modes.recording import Budget, Effort, NotRun
from gradcli.modes.registry import FRAMEWORKS, MODES
from gradcli.tracing.primitive import PRIMITIVES
from tests.frameworks.asking import asked

# fmt: off
CASES = {
    "a layer":    ("sum(tanh(W@x))",                     {"W": np.linspace(-1, 1, 12).reshape(3, 4), "x": np.arange(1.0, 5)}),
    "a loss":     ("-sum(y*log(softmax(z)))",            {"z": np.array([1.0, -2.0, 0.5]), "y": np.array([0.2, 0.3, 0.5])}),
    "a vector":   ("W@x**2",                             {"W": np.linspace(-1, 1, 12).reshape(3, 4), "x": np.arange(1.0, 5)}),
    "scalars":    ("sqrt(x**2 + y**2)/(1 + x*y)",        {"x": np.float64(0.3), "y": np.float64(1.7)}),
    "branches":   ("sum(relu(x)) + max(x) + abs(x[0])",  {"x": np.array([0.5, -1.5, 2.0])}),
    "determinant": ("log(det(A@A.T + eye(3)))",          {"A": np.linspace(-1, 2, 9).reshape(3, 3) ** 2}),
    "indices":    ("sum(x[::-1]*x[0:3]) + x[1]**3",      {"x": np.array([0.5, -1.5, 2.0])}),
}
# fmt: on


@pytest.fixture(name="mode", params=FRAMEWORKS)
def _mode(request: pytest.FixtureRequest) -> str:
    if not FRAMEWORKS[request.param].available().yes:
        pytest.skip(f"{request.param} is not installed")
    return str(request.param)


@pytest.mark.parametrize("case", CASES)
def test_a_framework_agrees_with_the_certified_gradient(mode: str, case: str) -> None:
    text, at = CASES[case]
    report = api.check(text, at, modes=f"certified,fd,{mode}")
    result = report.points[0].modes[mode]
    if mode == "mlx" and case == "determinant":
        assert (result.status, result.message) == ("unsupported", "mlx has no det")
        return
    assert (report.verdict, result.status, result.verdict) == ("pass", "ok", "agree")
    assert result.rests_on == ("tracing", mode)
    assert report.environment[mode]
    for name, x in at.items():
        assert np.shape(result.values[name]) == np.shape(report.points[0].value) + np.shape(x)


def test_a_framework_and_function_values_confirm_each_other(mode: str) -> None:
    assert api.check("sum(x**3)", {"x": np.arange(1.0, 4)}, modes=f"{mode},fd").verdict == "pass"


def test_a_framework_and_gradclis_rules_share_the_trace(mode: str) -> None:
    report = api.check("sum(x**3)", {"x": np.arange(1.0, 4)}, modes=f"{mode},reverse")
    assert report.verdict == "inconclusive"
    assert [f.kind for f in report.points[0].findings] == ["no-second-witness"]


def test_compare_modes_shows_a_framework(gradcli: Callable[..., Any], mode: str) -> None:
    ran = gradcli("compare-modes", "sum(tanh(W@x))", "--shapes", "W:3,4; x:4", "--modes", f"cert,{mode}", "--json")
    row = ran.json["modes"][mode]
    assert (ran.exit_status, row["status"], row["bound_held"]) == (0, "ok", True)
    assert row["right_digits"]["worst"] > 13
    assert row["seconds"] > 0


def test_a_wrong_rule_is_contradicted(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(PRIMITIVES, "tanh", PRIMITIVES["tanh"])
    rules = PRIMITIVES["tanh"].rules
    object.__setattr__(PRIMITIVES["tanh"], "rules", PRIMITIVES["sin"].rules)
    try:
        report = api.check("tanh(x)", {"x": 0.7}, modes=f"reverse,{mode}")
    finally:
        object.__setattr__(PRIMITIVES["tanh"], "rules", rules)
    assert report.verdict == "inconclusive"
    assert [f.kind for f in report.points[0].findings] == ["disagreement"]


def test_a_wrong_claim_is_found(mode: str) -> None:
    report = api.check("sum(tanh(x))", {"x": np.arange(1.0, 4)}, grad="x=1-tanh(x)", modes=f"{mode},fd")
    assert report.verdict == "fail"


def test_what_a_framework_does_not_have_is_named(mode: str) -> None:
    result = api.check("kv(1.5, x)", {"x": 0.7}, modes=f"{mode},reverse,fd").points[0].modes[mode]
    assert (result.status, result.message) == ("unsupported", f"{mode} has no kv")


def test_what_does_not_reach_the_result_is_not_asked_for(mode: str) -> None:
    def f(x: Any) -> Any:
        import scipy.special

        scipy.special.kv(1.5, x)
        return x * x

    assert MODES[mode].gradient(asked(f, [np.float64(0.7)])).value == {"x0": 1.4}


def test_a_constant_has_no_slope(mode: str) -> None:
    found = MODES[mode].gradient(asked(lambda x: np.sum(np.floor(x)), [np.array([0.5, 1.5])]))
    assert np.array_equal(found.value["x0"], [0.0, 0.0])


def test_a_primitive_of_the_users_own_runs_through_its_body(mode: str) -> None:
    swish = api.primitive(lambda x: x / (1 + np.exp(-x)), lambda y, x: 1e9 * x)
    found = MODES[mode].gradient(asked(lambda x: np.sum(swish(x)), [np.array([0.5, 1.5])]))
    x = np.array([0.5, 1.5])
    s = 1 / (1 + np.exp(-x))
    assert np.all(np.abs(found.value["x0"] - (s + x * s * (1 - s))) <= 1e-6)


def test_a_primitive_without_a_body_is_named(mode: str) -> None:
    mystery = replace(PRIMITIVES["exp"], name="mystery")
    with pytest.raises(NotSupported, match=f"{mode} has no mystery"):
        MODES[mode].gradient(asked(lambda x: mystery(x), [np.float64(0.5)]))


def test_a_hessian_is_the_gradients_gradient(mode: str) -> None:
    report = api.check("sum(tanh(x)**2)", {"x": np.array([0.3, -0.8])}, order=2, modes=f"{mode},fd")
    assert report.verdict == "pass"
    assert report.points[0].modes[mode].verdict == "agree"


def test_a_jacobian_that_would_take_too_long_is_not_run(mode: str) -> None:
    q = replace(asked(lambda x: np.tanh(x), [np.ones(2000)]), budget=Budget(Effort.DEFAULT))
    with pytest.raises(NotRun, match="operations of "):
        MODES[mode].gradient(q)


def test_bounds_say_what_float64_can_know(mode: str) -> None:
    q = asked(lambda x: np.sum(np.tanh(x) * x), [np.linspace(0.1, 2, 9)])
    bound = MODES[mode].gradient(q).bound["x0"]
    assert np.all((bound > 0) & (bound < 1e-12 * np.abs(q.slopes["x0"])))


def test_what_mlx_computes_in_float32_has_a_bound_to_match() -> None:
    if not FRAMEWORKS["mlx"].available().yes:
        pytest.skip("mlx is not installed")
    q = asked(lambda x: np.sum(np.sin(x)), [np.linspace(0.1, 1, 9)])
    found = MODES["mlx"].gradient(q)
    assert np.all(found.bound["x0"] < 1e-4)
    assert np.max(np.abs(found.value["x0"] - np.cos(q.xs[0])) / found.bound["x0"]) < 1
    with pytest.raises(NotSupported, match="mlx computes exp in float32, which these values are outside of"):
        MODES["mlx"].gradient(asked(lambda x: np.log(np.exp(-x)), [np.float64(200.0)]))


def test_jax_is_left_in_float32() -> None:
    jax = pytest.importorskip("jax", reason="jax is not installed")
    before = jax.config.jax_enable_x64
    assert MODES["jax"].gradient(asked(np.sin, [np.float64(0.3)])).value["x0"] == np.cos(0.3)
    assert jax.config.jax_enable_x64 is before
    assert jax.numpy.ones(1).dtype == ("float64" if before else "float32")


def test_tensorflow_says_nothing_of_the_machine(capfd: pytest.CaptureFixture[str]) -> None:
    if not FRAMEWORKS["tensorflow"].available().yes:
        pytest.skip("tensorflow is not installed")
    MODES["tensorflow"].gradient(asked(np.sin, [np.float64(0.3)]))
    assert capfd.readouterr() == ("", "")
