"""Mistakes in the chain rule around a function: another parameter, an incoming gradient, a first for a second derivative."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gradcli.core.shapes import shape
from gradcli.diagnosis.wrong import Wrong
from gradcli.errors import GradcliError
from gradcli.interpreters.program import value_and_pulled
from gradcli.reports.point_report import Diagnosis
from gradcli.source.derived import STEP, Weighted, gradient_in
from gradcli.source.function import of
from gradcli.words import DiagnosisKind

_FEWEST = 2  # entries, as one number is a multiple of anything
_SCALES: tuple[tuple[Callable[[Any], Any], str], ...] = (
    (lambda x: np.exp(-x), "the factor exp({0}) is missing: the claim is the derivative by exp({0})"),
    (np.exp, "a factor exp({0}) too many: {0} is taken for the logarithm of a parameter"),
    (lambda x: x, "a factor {0} too many: the claim is the derivative by log({0})"),
    (lambda x: 1 / x, "the factor {0} is missing: {0} is taken for the logarithm of a parameter"),
    (lambda x: 1 / (x * (1 - x)), "a factor 1/({0}*(1 - {0})) too many"),
    (lambda x: np.log(10.0) * 10.0**x, "a factor ln(10)*10**{0} too many: {0} is taken for a decimal logarithm"),
)


def by_parameter(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if the claim is the derivative by another parameter of the same quantity, such as its logarithm."""
    values = wrong.q.point.values
    if wrong.count < _FEWEST or shape(wrong.q.value) != ():
        return None
    for scale, says in _SCALES:
        with np.errstate(all="ignore"):
            made = {name: wrong.right[name] * scale(np.asarray(values[name], dtype=float)) for name in wrong.names}
        masked = {name: np.where(wrong.masks[name], made[name], wrong.right[name]) for name in wrong.names}
        if all(np.all(np.isfinite(g)) for g in masked.values()) and wrong.explained(masked):
            return wrong.says(DiagnosisKind.FACTOR, says.format(" and ".join(wrong.names)) + wrong.where())
    return None


def without_incoming(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if a product w J was claimed as if every weight w were 1: the incoming gradient is ignored."""
    f = wrong.q.f
    if not isinstance(f, Weighted) or np.all(np.asarray(f.w) == 1):
        return None
    wrong.budget.spend(1)
    plain = replace(wrong.q, f=Weighted(f.f, np.ones_like(f.w), f.text))
    try:
        _, bars = value_and_pulled(of(plain.f, wrong.q.point.values, wrong.q.wrt), list(wrong.q.xs), np.ones_like)
    except (GradcliError, ValueError, TypeError, ArithmeticError):
        return None
    made = {name: bar for name, bar in zip(wrong.q.wrt, bars, strict=True) if name in wrong.claimed}
    if not wrong.explained(made):
        return None
    return wrong.says(DiagnosisKind.LEFT_OUT, "the incoming gradient is ignored: the claim is right where that is 1")


def squared_first(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if the square of the first derivative was claimed for the second."""
    gradient = gradient_in(wrong.q.f)
    if gradient is None or len(wrong.names) != 1 or STEP in wrong.names:
        return None
    name, g = wrong.names[0], np.asarray(gradient(wrong.q.point.values))
    for square, says in (
        (np.outer(g, g), "the outer product of the gradient with itself"),
        (np.diag(g * g), "the square"),
        (g * g, "the square"),
    ):
        if square.size == np.size(wrong.claimed[name]) and wrong.explained(
            {name: square.reshape(shape(wrong.claimed[name]))}
        ):
            return wrong.says(
                DiagnosisKind.SQUARED, f"the claim is {says} of the first derivative, not the second derivative"
            )
    return None
