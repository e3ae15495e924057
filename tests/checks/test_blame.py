"""Function values against a traced gradient: a wrong rule is told from a trace that is not the function."""

from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.checks.more_evidence import find_wrong_rule, hits_a_kink
from gradcli.modes.mode import Question
from gradcli.request.point import Point
from gradcli.rules.kinds import Partial
from gradcli.targets.expression import Expression
from tests.checks.test_check import checked, kinds
from tests.checks.test_planted import planted
from tests.rows import for_rows


def detached(x: Any) -> Any:
    """Return sum(x sin x), the first factor taken out of the trace."""
    plain = x
    while hasattr(plain, "primal"):
        plain = plain.primal
    return np.sum(np.sin(x) * plain)


X = np.linspace(0.3, 2, 4)


@pytest.mark.parametrize("modes", [None, "reverse,fd", "certified,fd"])
def test_a_value_detached_while_tracing_is_a_trace_that_differs(modes: str | None) -> None:
    for grad, verdict in ((None, "inconclusive"), (lambda x: np.cos(x) * x, "fail")):
        report = gradcli.check(detached, {"x": X}, grad=grad, modes=modes)
        assert report.verdict == verdict
        assert any("the trace differs from the function" in f.message for f in report.points[0].findings)


def test_without_differences_of_every_entry_a_direction_shows_it() -> None:
    report = gradcli.check(detached, {"x": X}, modes="certified,reverse")
    assert report.verdict == "inconclusive"
    assert any("the trace differs from the function" in f.message for f in report.points[0].findings)


@pytest.mark.parametrize("name", ["sin", "tanh", "exp"])
def test_a_wrong_rule_is_named(name: str) -> None:
    with planted(name, Partial(lambda y, x: 1.01 * np.cos(x))):
        report = checked(f"{name}(x)*x", "x=0.7", None)
        traced = checked(f"{name}(x)*x", "x=0.7", f"{name}(x) + 1.01*cos(x)*x")
    for found in (report, traced):
        assert found.verdict != "pass"
        says = " ".join(f.message for f in found.points[0].findings)
        assert "the rules disagree with" in says
        assert f"the rule of {name}" in says


def test_right_rules_are_not_blamed() -> None:
    text = "sum(tanh(W@x)**2) + log(det(W@W.T + eye(3))) + logsumexp(x)/sqrt(sum(x**2))"
    at = {"W": np.linspace(-1, 1, 9).reshape(3, 3) + np.eye(3), "x": np.array([0.3, -1.2, 0.7])}
    assert find_wrong_rule(Question(Expression(text, frozenset(at)), Point(at), tuple(at))) is None


def question(text: str, x: Any) -> Question:
    at = {"x": np.array(x, dtype=float)[()]}
    return Question(Expression(text, frozenset(at)), Point(at), ("x",))


# fmt: off
FLAT = [
    # expression                 x              on a kink
    ("sum(relu(x)**2)",          [1, 0, -1],    True),
    ("sum(relu(x)**2)",          [1, 1e-9, -1], False),
    ("sum(abs(x)*x)",            [1, 0, -1],    True),
    ("sum(abs(x)*x)",            [1, 2, -1],    False),
    ("abs(x)**3",                0,             True),
    ("(maximum(x, 1) - 1)**2",   1,             True),
    ("(maximum(x, 1) - 1)**2",   1.5,           False),
    ("clip(x, 0, 1)**2",         0,             True),
    ("clip(x, 0, 1)**2",         0.5,           False),
    ("x**2*sin(x)",              0,             False),
]
# fmt: on


@for_rows(("text", "x", "flat"), FLAT)
def test_a_kink_that_the_run_hits_is_seen_though_no_slope_flows(text: str, x: Any, flat: bool) -> None:
    q = question(text, x)
    assert hits_a_kink(q) is flat
    assert not q.kinks


def test_a_function_that_cannot_be_traced_is_on_no_kink_that_is_known() -> None:
    q = question("abs(x)**3", 0).without_trace("as if it were lost")
    assert hits_a_kink(q) is False


SLOPED = "sum(abs(x)*x)"  # smooth once: the slope 2 |x| has a kink where x = 0
AT = "x=[1, 0, -1]"


@for_rows("grad", [None, "2*abs(x)"])
@for_rows("seed", [0, 1, 2])
def test_a_right_gradient_at_a_flat_kink_is_not_called_wrong(grad: str | None, seed: int) -> None:
    report = checked(SLOPED, AT, grad, seed=seed)
    assert report.verdict != "fail"
    assert "trace" not in kinds(report)
    says = [f.message for f in report.points[0].findings if f.kind == "contradiction"]
    assert all(said.endswith("a kink or a branch may lie closer than the steps of the differences") for said in says)


@for_rows("grad", ["2*abs(x) + [0, 0, 1]", "2*x", "abs(x)", "2*abs(x)*(1 + 1e-6)"])
def test_a_wrong_claim_beside_a_flat_kink_is_wrong(grad: str) -> None:
    report = checked(SLOPED, AT, grad)
    assert (report.verdict, report.exit_status) == ("fail", 1)


@pytest.mark.parametrize("grad", ["2*abs(x) + [0,1,0]", "2*abs(x) + [0,0,1e-3]"])
def test_a_wrong_claim_at_a_flat_kink_is_wrong(grad: str) -> None:
    report = checked(SLOPED, AT, grad, ("certified", "reverse", "finite-difference"))
    assert (report.verdict, report.points[0].entries.wrong) == ("fail", 1)


# fmt: off
SMOOTH = [
    # expression                       point            gradient
    ("relu(x)**2",                     "x=0",           "2*relu(x)"),
    ("relu(x)**2 + x",                 "x=0",           "2*relu(x) + 1"),
    ("sum(relu(x)**3)",                "x=[1, 0, -1]",  "3*relu(x)**2"),
    ("abs(x)**3",                      "x=0",           "3*x*abs(x)"),
    (SLOPED,               AT,              "2*abs(x)"),
    ("sum(relu(x)**2)",    AT,              "2*relu(x)"),
    ("sum(clip(x,0,1)**2)", "x=[0.5, 0, -1]", "2*clip(x,0,1)"),
]
# fmt: on


@for_rows("modes", [("certified", "reverse", "finite-difference")])
@for_rows(("text", "at", "grad"), SMOOTH)
def test_where_only_higher_derivatives_jump_the_gradient_passes(
    text: str, at: str, grad: str, modes: tuple[str, ...]
) -> None:
    for claim in (None, grad):
        assert checked(text, at, claim, modes).verdict == "pass"


@pytest.mark.parametrize("text", ["relu(x)", "relu(x)**2", "x*relu(x)"])
def test_a_rule_is_not_blamed_at_its_kink(text: str) -> None:
    assert find_wrong_rule(question(text, 0)) is None


@for_rows("text", ["abs(x)", "abs(x)*x", "maximum(x, 0)**2", "minimum(x, 0)*x"])
def test_a_rule_that_takes_the_mean_is_not_blamed_at_its_kink(text: str) -> None:
    assert find_wrong_rule(question(text, 0)) is None


@for_rows("hess", [None, lambda x: 2.0, lambda x: 4.0, lambda x: 5.0], parts=2)
@for_rows("modes", ["certified,reverse,fd", "reverse,fd", None])
def test_a_jump_of_the_second_derivative_is_no_wrong_hessian(hess: Any, modes: str | None) -> None:
    report = gradcli.check("relu(x)**2 + x**2", {"x": 0.0}, order=2, hess=hess, modes=modes)
    assert report.verdict == "inconclusive"
    assert "the rule of" not in " ".join(f.message for f in report.points[0].findings)


def test_a_value_that_differs_while_tracing_ends_the_trace_where_f_has_no_values_near() -> None:
    def only_here(x: Any) -> Any:
        if type(x) is not np.ndarray:
            return np.sum(np.sin(x))
        if not np.array_equal(x, X):
            raise ValueError("only here")
        return np.sum(np.sin(x)) + 1e-3

    report = gradcli.check(only_here, {"x": X}, grad=np.cos, modes="forward,reverse")
    assert report.verdict == "inconclusive"
    assert any("the trace differs from the function" in f.message for f in report.points[0].findings)
