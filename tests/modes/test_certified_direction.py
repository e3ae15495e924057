"""A random direction certified: f in balls block by block, where there are too many entries for a ball each."""

from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.modes import certified
from gradcli.modes.certified import certified_difference
from gradcli.modes.mode import Question
from gradcli.request.point import Point
from gradcli.targets.expression import Expression
from gradcli.tracing.shapes import BLOCK
from gradcli.words import Kind

N = BLOCK + 300


def f(x: Any, c: Any) -> Any:
    return np.sum(np.exp(-c * x) * np.sqrt(1.0 + x * x))


def f_grad(x: Any, c: Any) -> Any:
    root, e = np.sqrt(1.0 + x * x), np.exp(-c * x)
    return e * (x / root - c * root)


def point() -> dict[str, Any]:
    rng = np.random.default_rng(2)
    return {"x": rng.uniform(0.5, 1.5, N), "c": rng.uniform(0.5, 1.5, N)}


def test_the_slope_is_that_of_the_function() -> None:
    at = point()
    q = Question(Expression("sum(exp(-c*x)*sqrt(1 + x*x))"), Point(at), ("x",))
    v = np.random.default_rng(3).uniform(0.5, 1.0, N)
    terms = f_grad(**at) * v
    found = certified_difference(q, [v], float(np.sum(np.abs(terms))))
    assert found is not None and found.calls == 2
    assert abs(found.value - np.sum(terms)) <= 1e-13 * np.sum(np.abs(terms))
    assert found.bound <= 1e-17 * np.sum(np.abs(terms))


@pytest.mark.parametrize("text", ["sum(cumsum(x))", "x*x", "sum(x[1:]*x[:-1])"])
def test_there_is_none_where_the_function_does_not_run_in_blocks(text: str) -> None:
    x = point()["x"]
    assert certified_difference(Question(Expression(text), Point({"x": x}), ("x",)), [x], 1.0) is None


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(certified, "MOST_ENTRIES", 1_000)


@pytest.mark.usefixtures("few")
def test_a_claim_with_too_many_entries_for_balls_has_a_certified_direction() -> None:
    report = gradcli.check(f, point(), grad=f_grad, modes="certified,reverse")
    found = report.points[0]
    (said,) = [finding.message for finding in found.findings if finding.kind == Kind.DIRECTION]
    assert report.passed and said.startswith("f in balls of 128 bits confirms one random direction to ")
    assert found.modes["certified"].status == "not run" and "ball arithmetic is used for at most 1,000" in str(
        found.modes["certified"].message
    )


@pytest.mark.usefixtures("few")
def test_an_entry_that_is_wrong_is_found_beside_it() -> None:
    def wrong(x: Any, c: Any) -> Any:
        g = f_grad(x, c)
        g[7] *= 1 + 1e-8
        return g

    report = gradcli.check(f, point(), grad=wrong, modes="certified,reverse")
    assert report.verdict == "fail" and [m.index for m in report.points[0].mismatches] == [(7,)]


@pytest.mark.usefixtures("few")
def test_slopes_that_all_vanish_have_no_direction_to_certify() -> None:
    report = gradcli.check(lambda x: np.sum(x * x), np.zeros(N), grad=lambda x: 2 * x, modes="certified,reverse")
    assert report.verdict == "pass" and Kind.WEAK in [finding.kind for finding in report.points[0].findings]


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_balls_that_are_wider_than_float64s_difference_confirm_nothing_more() -> None:
    def logistic(x: Any) -> Any:
        for _ in range(60):
            x = 3.6 * x * (1 - x)
        return np.sum(x)

    report = gradcli.check(logistic, np.full(N, 0.3) + np.linspace(0, 1e-3, N), modes="certified,reverse")
    assert not any("in balls" in finding.message for finding in report.points[0].findings)
