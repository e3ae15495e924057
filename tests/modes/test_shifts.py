"""A softmax that is written by hand, at saturated values: a textbook's gradient is right, and a wrong one is not."""

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
