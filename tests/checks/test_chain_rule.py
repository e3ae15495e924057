"""Mistakes in the chain rule around a function: another parameter, no incoming gradient, a squared first derivative."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcli
from tests.checks.planting import diagnosis_of, named
from tests.rows import for_rows

X = np.array([0.4, -0.7, 1.3])
DATA = np.array([0.2, 1.1, 0.7])
Fixture = Callable[..., Any]


def of_scales(theta: Any) -> Any:
    plain = np.array([x.__float__() for x in theta])  # only called: no line of it is there to be blamed
    return np.sum(np.log(1 + np.exp(plain) * DATA))


def d_of_scales(theta: Any) -> Any:
    return np.exp(theta) * DATA / (1 + np.exp(theta) * DATA)


@for_rows(
    ("makes", "says"),
    [
        (lambda g: g / np.exp(X), "the factor exp(theta) is missing: the claim is the derivative by exp(theta)"),
        (lambda g: g * np.exp(X), "a factor exp(theta) too many"),
        (lambda g: g * X, "a factor theta too many: the claim is the derivative by log(theta)"),
        (lambda g: g / X, "the factor theta is missing"),
    ],
)
def test_the_derivative_by_another_parameter_is_named(makes: Any, says: str) -> None:
    found = named(of_scales, {"theta": X}, lambda theta: makes(d_of_scales(theta)), d_of_scales)
    assert (found.kind, says in found.message) == ("factor", True), found


@pytest.mark.parametrize(
    ("penalty", "says"),
    [
        (lambda x: 0.3 * x, "a term is missing: 0.3 times theta, the gradient of a quadratic penalty"),
        (
            lambda x: 0.3 * np.sign(x),
            "a term is missing: 0.3 times the sign of theta, the gradient of an absolute penalty",
        ),
    ],
)
def test_a_lost_regulariser_is_named(penalty: Any, says: str) -> None:
    half = 2 if "quadratic" in says else 1
    f = lambda theta: of_scales(theta) + sum(p.__float__() for p in penalty(theta) * theta) / half
    found = named(f, {"theta": X}, d_of_scales, lambda theta: d_of_scales(theta) + penalty(theta))
    assert (found.kind, found.message) == ("term", says), found


def test_an_ignored_incoming_gradient_is_named() -> None:
    report = gradcli.check(lambda x: np.sin(x) * x, {"x": X}, vjp=lambda x, w: np.cos(x) * x + np.sin(x))
    found = diagnosis_of(report)
    assert found is not None and (found.kind, "incoming gradient is ignored" in found.message) == ("left-out", True)


@pytest.mark.parametrize("claim", [lambda x: np.outer(3 * x**2, 3 * x**2), lambda x: np.diag((3 * x**2) ** 2)])
def test_the_square_of_the_first_derivative_is_no_second_derivative(claim: Any) -> None:
    found = diagnosis_of(gradcli.check(lambda x: np.sum(x**3), {"x": X}, hess=claim))
    assert found is not None and found.kind == "squared" and "not the second derivative" in found.message
