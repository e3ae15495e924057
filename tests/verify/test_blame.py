"""Function values against a traced gradient: a wrong rule is told from a trace that is not the function."""

from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.modes.mode import Question
from gradcli.point import Point
from gradcli.primitives.kinds import Partial
from gradcli.source.expression import Expression
from gradcli.verify.blame import wrong_rule
from tests.verify.test_check import checked
from tests.verify.test_planted import planted


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
    assert wrong_rule(Question(Expression(text, frozenset(at)), Point(at), tuple(at))) is None
