"""Ties of comparisons and operations: where all pieces have one gradient there is no kink, and a wrong claim is wrong."""

import math

import numpy as np
import pytest

import gradcli
from gradcli.checks.probe import locate
from gradcli.modes.mode import Question
from gradcli.targets.target_request import TargetRequest
from tests.rows import for_rows


def huber(r):
    a = np.abs(r)
    return np.sum(np.where(a <= 1.0, r**2 / 2, a - 0.5))


def logsumexp(x):
    top = np.max(x)
    return top + np.log(np.sum(np.exp(x - top)))


def softmax(x):
    e = np.exp(x - np.max(x))
    return e / np.sum(e)


def by_branch(x):
    return x[0] * x[0] + 3 * x[1] if x[0] > 1 else 2 * x[0] - 1 + 3 * x[1]


SMOOTH = {
    "a quadratic that goes on as a line": (huber, lambda r: np.clip(r, -1, 1), [1.0, -1.0, 0.3]),
    "a maximum that cancels": (logsumexp, softmax, [0.0, 0.0, 0.0]),
    "a maximum that cancels, among many": (logsumexp, softmax, [0.0] * 12),
    "branches with one slope": (by_branch, lambda x: np.array([2.0, 3.0]), [1.0, 2.0]),
    "the absolute value of a square": (
        lambda x: np.sum(np.abs(x**2) + np.abs(x**3)), lambda x: 2 * x + 3 * x * np.abs(x), [0.0, 1.0]
    ),
    "two halves that make a line": (
        lambda x: np.sum(np.maximum(x, 0) - np.maximum(-x, 0)), lambda x: np.ones_like(x), [0.0, 1.0]
    ),
}  # fmt: skip


@for_rows("name", SMOOTH)
def test_a_tie_with_one_slope_is_no_kink(name):
    function, gradient, x = SMOOTH[name]
    report = gradcli.check(function, grad=gradient, at={"x" if function is not huber else "r": np.array(x)})
    assert report.verdict == "pass"
    assert not {"kink", "subgradient"} & {f.kind for f in report.points[0].findings}


@for_rows("name", SMOOTH)
def test_a_wrong_claim_at_such_a_tie_fails(name):
    function, gradient, x = SMOOTH[name]
    report = gradcli.check(
        function, grad=lambda *a, **k: 3 * gradient(*a, **k), at={"x" if function is not huber else "r": np.array(x)}
    )
    assert report.verdict == "fail"


def test_outputs_that_share_a_tie_are_told_apart():
    at = {"x": np.zeros(3)}
    report = gradcli.check(softmax, grad=lambda x: np.diag(softmax(x)) - np.outer(softmax(x), softmax(x)), at=at)
    assert report.verdict == "pass" and not any(f.kind == "kink" for f in report.points[0].findings)
    report = gradcli.check(lambda x: np.stack([np.abs(x[0]), -np.abs(x[0])]), grad=lambda x: np.zeros((2, 3)), at=at)
    assert any(f.kind == "kink" for f in report.points[0].findings)  # the two cancel in their sum


KINKS = ["abs(x)", "maximum(x, 0)", "abs(x) + x**2", "abs(sin(x))", "maximum(x, 1e-6*x)", "where(x > 0, x, 2*x)"]


@for_rows("text", KINKS)
def test_a_kink_stays_one(text):
    found = locate(TargetRequest(text, ("x=0",)))
    q = Question(found.f, found.points[0], found.wrt)
    assert q.kinks == q.ties != []
    assert not q.by_convention


def test_a_kink_along_a_diagonal_stays_one():
    found = locate(TargetRequest("maximum(x, y) + abs(x - y)*0 + maximum(x - y, y - x)*1e-5", ("x=1", "y=1")))
    assert Question(found.f, found.points[0], found.wrt).kinks


def test_a_pass_at_a_kink_says_so_everywhere(gradcli):
    ran = gradcli("check", "abs(x)", "x=0", "--grad", "0.3")
    assert ran.stdout.startswith("PASS (a subgradient at a kink)  abs(x): ")
    assert "(proved)" not in ran.stdout
    rows = {line.split()[0]: line.split("  ")[-1].strip() for line in ran.stdout.splitlines() if line.startswith("  ")}
    assert (rows["claim"], rows["certified"], rows["reverse"]) == ("a subgradient", "convention", "convention")
    document = gradcli("check", "abs(x)", "x=0", "--grad", "0.3", "--json").json
    assert document["headline"] == "PASS (a subgradient at a kink)"
    assert document["points"][0]["modes"]["certified"]["proved"] is False
    assert "headline" not in gradcli("check", "x**2", "x=1", "--grad", "2*x", "--json").json


def test_a_suite_says_so_too(gradcli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gradcli.toml").write_text('[[check]]\ntarget = "abs(x)"\nat = "x=0"\ngrad = "0.3"\n')
    ran = gradcli("check")
    assert ran.exit_status == 0 and "(a subgradient at a kink)" in ran.stdout
    assert gradcli("check", "--json").json["checks"][0]["document"]["headline"] == "PASS (a subgradient at a kink)"


def test_a_slope_that_is_infinite_is_no_jump():
    def root(x):
        return x[0] ** 2 + (np.sqrt(x[1]) if x[1] > 0 else 0.0)

    at = {"x": np.array([1.0, 0.0])}
    report = gradcli.check(root, grad=lambda x: np.array([2 * x[0], 0.0]), at=at)
    (said,) = [f.message for f in report.points[0].findings if f.severity == "inconclusive"]
    assert said == "f is continuous at x[1] = 0, but its slope grows without bound as the point is approached"
    report = gradcli.check(root, grad=lambda x: np.array([3 * x[0], 0.0]), at=at)
    assert report.verdict == "fail"
    report = gradcli.check(lambda x: x + 1.0 if x > 0 else x, grad=lambda x: 1.0, at={"x": 0.0})
    assert any(f.kind == "jump" for f in report.points[0].findings)


@pytest.mark.parametrize("log", [np.log, math.log])
def test_an_infinite_slope_of_a_kink_is_called_infinite(log):
    report = gradcli.check(lambda x: x * log(x) if x > 0 else 0.0, grad=lambda x: 0.0, at={"x": 0.0})
    said = next(f.message for f in report.points[0].findings if f.kind == "kink")
    assert said.endswith("the slope is 0 from the left and infinite from the right")
