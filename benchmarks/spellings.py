"""The functions that the benchmarks check, each written in several ways: arguments, closures, methods, dicts, loops.

What is measured must hold however a function is written; a figure of one spelling alone says little.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Claimed:
    """A function, its gradient as an engineer writes it, and its point."""

    name: str
    f: Callable[..., Any]
    gradient: Callable[..., Any]
    at: dict[str, Any]
    wrt: tuple[str, ...] | None = None

    def by_hand(self) -> Any:
        """Return the value and the gradient as the user's code computes them."""
        return self.f(**self.at), self.gradient(**self.at)


def arguments(n: int) -> Claimed:
    """Return a chain of three arrays, passed one by one."""
    rng = np.random.default_rng(0)

    def f(x: Any, w: Any, b: Any) -> Any:
        return np.sum(np.tanh(x * w + b) ** 2)

    def gradient(x: Any, w: Any, b: Any) -> Any:
        a = x * w + b
        d = 2 * np.tanh(a) / np.cosh(a) ** 2
        return d * w, d * x, d

    return Claimed("arguments", f, gradient, {name: rng.standard_normal(n // 3) for name in "xwb"})


def closure(n: int) -> Claimed:
    """Return a logistic loss of weights, one a sample, whose data are captured."""
    rng = np.random.default_rng(1)
    x, y = rng.standard_normal(n), rng.choice([-1.0, 1.0], n)

    def loss(w: Any) -> Any:
        margins = y * (w * x)
        return np.mean(np.logaddexp(0.0, -margins))

    def gradient(w: Any) -> Any:
        return -y * x / (1 + np.exp(y * (w * x))) / len(x)

    return Claimed("closure", loss, gradient, {"w": rng.standard_normal(n)})


class Spring:
    """The energy of beads on springs, with its data as attributes, and parameters in a dict."""

    def __init__(self, n: int) -> None:
        rng = np.random.default_rng(2)
        self.k, self.rest = rng.uniform(0.5, 2.0, n - 1), rng.uniform(0.5, 1.0, n - 1)

    def energy(self, p: dict[str, Any]) -> Any:
        total = 0.0
        for name in ("x", "y"):
            stretch = p[name][1:] - p[name][:-1] - self.rest
            total = total + 0.5 * np.sum(self.k * stretch**2)
        return total + np.sum(np.sin(p["x"]) * p["y"])

    def gradient(self, p: dict[str, Any]) -> Any:
        found = {}
        for name, other in (("x", np.cos(p["x"]) * p["y"]), ("y", np.sin(p["x"]))):
            force = self.k * (p[name][1:] - p[name][:-1] - self.rest)
            found[name] = other.copy()
            found[name][1:] += force
            found[name][:-1] -= force
        return {"p": found}


def method(n: int) -> Claimed:
    rng = np.random.default_rng(3)
    spring = Spring(n // 2)
    return Claimed(
        "method, dict", spring.energy, spring.gradient, {"p": {k: rng.standard_normal(n // 2) for k in "xy"}}
    )


WAYS = (arguments, closure, method)
