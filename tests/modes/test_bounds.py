"""Bounds on rounding: they contain what rounding did, follow the conditioning, and excuse no wrong gradient."""

from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.interpreters.program import record
from gradcli.interpreters.shake import Shake, shaken
from gradcli.modes.bounds import has_kernels, rounding_of
from gradcli.modes.mode import Question
from gradcli.point import Point
from gradcli.source.expression import Expression


def logistic_map(x: Any) -> Any:
    for _ in range(30):
        x = 3.9 * x * (1 - x)
    return x


def slope_of_map(x: Any, factor: float = 1.0) -> Any:
    slope = factor
    for _ in range(30):
        slope, x = slope * 3.9 * (1 - 2 * x), 3.9 * x * (1 - x)
    return slope


CASES = [  # expression, point: tame, cancelling, saturated, summed, long
    ("sum(x*sin(x))", {"x": np.linspace(0.1, 2, 7)}),
    ("exp(x) - exp(1.0000001*x)", {"x": np.float64(0.7)}),
    ("sum(tanh(20*x)**2)", {"x": np.linspace(0.1, 2, 9)}),
    ("sum((x - mean(x))**2)*1e6 + sum(x)", {"x": 1e6 + np.arange(20.0)}),
    ("log(sum(exp(W@x)))", {"W": np.arange(12.0).reshape(3, 4) / 7, "x": np.arange(4.0)}),
]


class WithoutBalls(Question):
    affords_balls = False


def question(text: str, at: dict[str, Any], kind: type[Question] = Question) -> Question:
    return kind(Expression(text, frozenset(at)), Point(at), tuple(at))


@pytest.mark.parametrize("kind", [Question, WithoutBalls], ids=["balls", "shaken"])
@pytest.mark.parametrize(("text", "at"), CASES)
def test_the_bound_contains_what_rounding_did(text: str, at: dict[str, Any], kind: type[Question]) -> None:
    found = rounding_of(question(text, at, kind), kernels=True)
    bound, by_balls = found.errors, found.proved
    assert by_balls == (kind is Question and "exp(1.0000001*x)" not in text)  # there even balls are wide
    points = gradcli.check(text, at, modes="certified,reverse").points[0].modes
    for name in at:
        apart = np.abs(points["reverse"].values[name] - points["certified"].values[name])
        assert np.all(apart <= bound[name])


def test_shaken_bounds_are_not_far_from_those_of_balls() -> None:
    for text, at in CASES:
        balls, shaken_ = (
            rounding_of(question(text, at, kind), kernels=True).errors for kind in (Question, WithoutBalls)
        )
        for name in at:
            large = balls[name] > 1e-3 * np.max(balls[name])
            assert (
                np.median(np.asarray(shaken_[name] / balls[name])[large]) < 250
            )  # 16 of safety, times runs that move by up to 16


def test_where_balls_know_nothing_a_right_claim_passes_and_a_wrong_one_fails() -> None:
    assert gradcli.check(logistic_map, {"x": 0.3}, grad=slope_of_map)
    wrong = gradcli.check(logistic_map, {"x": 0.3}, grad=lambda x: slope_of_map(x, 1.01))
    assert wrong.verdict == "fail"


def test_a_shaken_run_moves_every_operation_by_a_rounding() -> None:
    program = record(lambda x: np.sum(np.sin(x) * x), [np.linspace(0.1, 2, 40_000)])
    _, inputs, tape = program
    again = shaken(program, Shake(0))
    assert len(again.lines) == len(tape.lines)
    assert again.lines[0] is not None
    for before, after in zip(tape.lines[len(inputs) :], again.lines[len(inputs) :], strict=True):
        relative = np.abs(after[3] / before[3] - 1)
        assert 0 < np.max(relative) < 1e-14


@pytest.mark.parametrize("n", [3, 4, 5, 6])
@pytest.mark.parametrize("nodes", [(0.1, 1.0), (-1.0, 1.0), (1.0, 9.0)], ids=str)
def test_where_a_matrix_is_factored_the_bound_is_that_of_lapack(n: int, nodes: tuple[float, float]) -> None:
    x = np.linspace(*nodes, n)
    whole = gradcli.check("det(V)", {"V": np.vander(x)}, grad="det(V)*inv(V).T", modes="certified,forward,reverse,fd")
    entries = gradcli.check(lambda x: np.linalg.det(np.vander(x)), {"x": x}, modes="certified,forward,reverse,fd")
    assert (whole.verdict, entries.verdict) == ("pass", "pass")
    assert gradcli.check("det(V)", {"V": np.vander(x)}, grad="1.0001*det(V)*inv(V).T").verdict == "fail"


def test_an_entry_that_cancels_widens_no_other() -> None:
    q = question("det(V)", {"V": np.vander(np.linspace(-1.0, 1.0, 5))}, WithoutBalls)
    found = rounding_of(q, kernels=True)
    bound, by_balls = found.errors, found.proved
    assert not by_balls and np.max(bound["V"]) < 1e-12 * np.max(np.abs(q.slopes["V"]))


@pytest.mark.parametrize(
    ("text", "kernels"),
    [
        ("x*y + exp(x)", False), ("sin(x)/y - x**3", False), ("log1p(x)*sqrt(y)", False), ("hypot(x, y)", False),
        ("tanh(x)*y", True), ("expm1(x) + y", True), ("x**y", True),
    ],
)  # fmt: skip
def test_without_kernels_one_bound_is_that_of_the_textbook_too(text: str, kernels: bool) -> None:
    q = Question(Expression(text), Point({"x": np.float64(0.7), "y": np.float64(1.3)}), ("x", "y"))
    assert has_kernels(q.lines) is kernels
    own, textbook = rounding_of(q, kernels=True).errors, rounding_of(q, kernels=False).errors
    assert kernels or own == textbook
