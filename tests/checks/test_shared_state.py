"""A claim that reads what the function kept is called right after the function; one that changes of its own is not believed."""

from typing import Any

import numpy as np
import pytest

import gradcli

X = np.array([[1.0, -0.5], [0.3, 2.0], [-1.2, 0.7]])
Y = np.array([1.0, 0.0, 1.0])
AT = {"w": np.array([0.2, -0.4])}


class Logistic:
    """A model that keeps its probabilities for the gradient, as scipy's users write it."""

    def loss(self, w: Any) -> Any:
        self.p = 1 / (1 + np.exp(-X @ w))
        return -np.sum(Y * np.log(self.p) + (1 - Y) * np.log(1 - self.p))

    def grad(self, w: Any) -> Any:
        return X.T @ (self.p - Y)

    def wrong(self, w: Any) -> Any:
        return X.T @ (self.p - Y) / 3


def kinds(report: Any) -> dict[str, str]:
    return {f.kind: f.severity for f in report.points[0].findings}


def test_a_right_gradient_that_reads_what_the_loss_kept_passes_and_it_is_said() -> None:
    model = Logistic()
    report = gradcli.check(model.loss, at=AT, grad=model.grad)
    assert report.verdict == "pass"
    assert kinds(report)["depends-on-earlier-calls"] == "warning"
    assert "not-deterministic" not in kinds(report)


def test_a_wrong_one_is_wrong_and_not_called_random() -> None:
    model = Logistic()
    report = gradcli.check(model.loss, at=AT, grad=model.wrong)
    assert (report.verdict, report.points[0].diagnosis.kind) == ("fail", "factor")
    assert "not-deterministic" not in kinds(report)


def test_a_jacobian_too() -> None:
    kept = {}

    def f(x: Any) -> Any:
        kept["e"] = np.exp(x)
        return kept["e"] * x[0]

    def jac(x: Any) -> Any:
        found = np.diag(kept["e"] * x[0])
        found[:, 0] += kept["e"]
        return found

    assert gradcli.check(f, at={"x": np.array([0.5, -0.2])}, jac=jac).verdict == "pass"


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_a_claim_that_changes_of_its_own_is_not_believed(scale: float) -> None:
    calls = [0]

    def grad(w: Any) -> Any:
        calls[0] += 1
        return 2 * w + scale * calls[0]

    report = gradcli.check(lambda w: np.sum(w**2), at=AT, grad=grad)
    assert report.verdict == "fail"
    assert "depends-on-earlier-calls" not in kinds(report)


def test_a_gradient_of_its_arguments_alone_is_not_said_to_read_anything() -> None:
    report = gradcli.check(lambda w: np.sum(w**2), at=AT, grad=lambda w: 3 * w)
    assert report.verdict == "fail"
    assert "depends-on-earlier-calls" not in kinds(report)


def test_differences_are_not_taken_of_values_that_change_from_call_to_call() -> None:
    memory, calls = [0.0], [0]

    def reads_what_was_left(x: Any) -> float:
        """Return a value that what another call left is added to; two calls at one point agree."""
        left = memory[0]
        if x[0] != 0.5:
            memory[0] = float(x[0] ** 2)
        calls[0] += 1
        return sum(np.sin(x).tolist()) + left

    report = gradcli.check(reads_what_was_left, np.linspace(0.5, 1.0, 300), grad=np.cos)
    assert report.verdict == "inconclusive"
    assert kinds(report)["not-deterministic"] == "inconclusive"
    assert report.points[0].modes["finite-difference"].status == "not run"
    assert calls[0] < 2 * 300  # differences take more than ten for each entry
    [row] = [line.split() for line in str(report).splitlines() if line.startswith("  claim ")]
    assert row[:3] == ["claim", "not", "compared"]


@pytest.mark.parametrize("calls", [2, 7])
def test_a_function_that_fails_when_it_is_called_again_says_so(calls: int) -> None:
    left = iter(range(calls))

    def f(x: np.ndarray) -> float:
        if next(left, None) is None:
            raise ValueError("used up")
        return sum(float(v) ** 2 for v in x)

    report = gradcli.check(f, np.array([1.0, 2.0]), grad=lambda x: 2 * x)
    (found,) = report.points[0].findings
    assert (report.verdict, found.kind) == ("inconclusive", "depends-on-earlier-calls")
    assert "a later call fails: " in found.message and found.message.endswith("f raised ValueError: used up")
