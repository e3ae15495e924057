"""A softmax, a sigmoid and a tanh written by hand, at saturated values: a textbook's gradient is right, a wrong one is not."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradcli

SPELLINGS: dict[str, Callable[[Any], Any]] = {
    "keepdims": lambda s: s - s.max(axis=1, keepdims=True),
    "a new axis": lambda s: s - s.max(axis=1)[:, None],
    "a shape": lambda s: s - np.amax(s, -1).reshape(-1, 1),
    "turned": lambda s: (s.T - s.max(axis=1)).T,
    "a copy": lambda s: s.copy() - s.max(axis=1, keepdims=True),
    "rows": lambda s: np.stack([row - row.max() for row in s]),
}
QUICK: dict[str, Any] = {"modes": "certified,reverse", "diagnose": None, "no_diagnose": True}


def probabilities(shifted: Any) -> Any:
    e = np.exp(shifted)
    return e / e.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("scale", [4.0, 15.0, 60.0])
def test_the_textbooks_gradient_is_never_wrong(spelling: str, scale: float) -> None:
    shifted = SPELLINGS[spelling]
    rng = np.random.default_rng([int(scale), 1])
    z, w = rng.normal(size=(6, 5)) * scale, rng.normal(size=(6, 5))

    def gradient(z: Any) -> Any:
        a = probabilities(shifted(z))
        return a * (w - (w * a).sum(axis=1, keepdims=True))

    f = lambda z: (probabilities(shifted(z)) * w).sum()
    assert gradcli.check(f, {"z": z}, grad=gradient, **QUICK).verdict != "fail"
    assert gradcli.check(f, {"z": z}, grad=lambda z: 1.001 * gradient(z), **QUICK).verdict == "fail"


def test_a_largest_entry_that_matters_is_no_shift() -> None:
    x = np.array([[0.3, 1.2, -0.5], [0.1, -0.2, 2.0]])
    f = lambda x: np.sum((x - x.max(axis=1, keepdims=True)) ** 2)
    wrong = lambda x: 2 * (x - x.max(axis=1, keepdims=True))
    assert gradcli.check(f, {"x": x}, grad=wrong, **QUICK).verdict == "fail"


SIGMOIDS: dict[str, Callable[[Any], Any]] = {
    "by its negative": lambda x: 1 / (1 + np.exp(-x)),
    "turned round": lambda x: 1.0 / (np.exp(-x) + 1.0),
    "a quotient of exponentials": lambda x: np.exp(x) / (1 + np.exp(x)),
    "a power": lambda x: (1 + np.exp(-x)) ** -1,
    "a reciprocal": lambda x: np.reciprocal(1 + np.exp(-x)),
    "by sign": lambda x: np.where(x >= 0, 1 / (1 + np.exp(-np.abs(x))), np.exp(-np.abs(x)) / (1 + np.exp(-np.abs(x)))),
}


@pytest.mark.parametrize("spelling", SIGMOIDS)
@pytest.mark.parametrize("scale", [1.0, 8.0, 40.0])
def test_the_slope_of_a_sigmoid_by_its_value_is_never_wrong(spelling: str, scale: float) -> None:
    sigmoid = SIGMOIDS[spelling]
    rng = np.random.default_rng([int(scale), 2])
    x, w, t = rng.normal(size=(5, 4)) * scale, rng.normal(size=(5, 4)), rng.integers(0, 2, (5, 4))

    def slope(x: Any) -> Any:
        y = sigmoid(x)
        return w * y * (1 - y)

    def entropy(x: Any) -> Any:
        return -(t * np.log(sigmoid(x)) + (1 - t) * np.log(1 - sigmoid(x))).sum()

    value = lambda x: (sigmoid(x) * w).sum()
    assert gradcli.check(value, {"x": x}, grad=slope, **QUICK).verdict != "fail"
    assert gradcli.check(value, {"x": x}, grad=lambda x: 1.001 * slope(x), **QUICK).verdict == "fail"
    if np.all(np.abs(x) < 30):
        assert gradcli.check(entropy, {"x": x}, grad=lambda x: sigmoid(x) - t, **QUICK).verdict != "fail"


def test_a_tanh_of_exponentials_has_the_slope_of_its_value() -> None:
    x = np.array([0.3, -2.0, 9.0])
    tanh = lambda x: (np.exp(x) - np.exp(-x)) / (np.exp(x) + np.exp(-x))
    f = lambda x: tanh(x).sum()
    assert gradcli.check(f, {"x": x}, grad=lambda x: 1 - tanh(x) ** 2, **QUICK).verdict == "pass"
    assert gradcli.check(f, {"x": x}, grad=lambda x: 1 - tanh(x), **QUICK).verdict == "fail"


def test_one_sigmoid_far_out_passes_within_what_its_value_knows() -> None:
    f = lambda x: 1 / (1 + np.exp(-x))
    report = gradcli.check(f, {"x": 20.0}, grad=lambda x: f(x) * (1 - f(x)))
    assert report.verdict == "pass" and report.points[0].modes["reverse"].bound["x"] < 1e-22
