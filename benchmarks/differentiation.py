"""Accuracy and price of one derivative: 20 smooth functions at 5 points each, against 60 digits.

    python benchmarks/differentiation.py [--rounds 15] [--json]

`certified` is rounded from an enclosure of its own; the others are approximate. A derivative is right where it is the float
nearest to the truth, which mpmath computes by its own differentiation at 60 digits.
"""

import common  # first: it sets the threads

from collections.abc import Callable, Iterator
from typing import Any

import mpmath
import numpy as np
from common import Figure

from gradcli.modes.mode import Question
from gradcli.modes.registry import MODES
from gradcli.request.point import Point
from gradcli.targets.expression import Expression

TOPIC = "one derivative"
TEXTS = (
    "sin(x)", "exp(-x**2)", "log(1 + x**2)", "x*tanh(x)", "sqrt(1 + x)", "1/(1 + exp(-x))", "x**3 - 2*x", "arctan(x)*x", "cos(x)/x",
    "exp(sin(x))", "log(x)*x", "sinh(x)", "x**0.3", "sin(x)**2 + cos(x)", "exp(x)/x", "sqrt(x)*sin(x)", "arcsinh(x)", "1/(1 + 25*x**2)",
    "x/(1 + x**2)", "log(1 + exp(x))",
)  # fmt: skip
POINTS = (0.37, 0.81, 1.3, 2.7, 4.9)


def as_function(text: str, module: Any) -> Callable[[Any], Any]:
    """Return a text of this file as a function of a module's numbers."""
    names = {"sin", "cos", "exp", "log", "tanh", "sqrt", "arctan", "sinh", "arcsinh"}
    other = {"arctan": "atan", "arcsinh": "asinh"} if module is mpmath else {}
    space = {name: getattr(module, other.get(name, name)) for name in names}
    return eval(f"lambda x: {text}", space)  # type: ignore[no-any-return]  # the texts above, no one else's


def truth(text: str, x: float) -> float:
    with mpmath.workdps(60):
        return float(mpmath.diff(as_function(text, mpmath), mpmath.mpf(x)))


def certified(text: str) -> Callable[[float], float]:
    f, mode = Expression(text), MODES["certified"]
    return lambda x: float(mode.gradient(Question(f, Point({"x": np.float64(x)}), ("x",))).value["x"])


def methods() -> dict[str, Callable[[str], Callable[[float], float]]]:
    """Return how each package differentiates: from a text to a function of the point."""
    found: dict[str, Callable[[str], Callable[[float], float]]] = {"gradcli certified": certified}

    def by_scipy(text: str) -> Callable[[float], float]:
        from scipy.differentiate import derivative

        f = as_function(text, np)
        return lambda x: float(derivative(f, x).df)

    def by_numdifftools(text: str) -> Callable[[float], float]:
        import numdifftools

        g = numdifftools.Derivative(as_function(text, np))
        return lambda x: float(g(x))

    def by_statsmodels(text: str) -> Callable[[float], float]:
        from statsmodels.tools.numdiff import approx_fprime

        f = as_function(text, np)
        return lambda x: float(approx_fprime(np.array([x]), lambda v: f(v[0]), centered=True).item())

    def by_mpmath(text: str) -> Callable[[float], float]:
        f = as_function(text, mpmath)
        return lambda x: float(mpmath.diff(f, x))

    found["scipy"] = by_scipy
    if common.there("numdifftools"):
        found["numdifftools"] = by_numdifftools
    if common.there("statsmodels"):
        found["statsmodels"] = by_statsmodels
    found["mpmath, 15 digits"] = by_mpmath
    return found


def figures(rounds: int) -> Iterator[Figure]:
    made = {name: {text: method(text) for text in TEXTS} for name, method in methods().items()}
    exact = {(text, x): truth(text, x) for text in TEXTS for x in POINTS}
    worst, right = {}, {}
    for name, derivatives in made.items():
        errors = [abs(derivatives[text](x) - y) / abs(y) for (text, x), y in exact.items()]
        worst[name], right[name] = max(errors), sum(error == 0 for error in errors)

    def all_of(name: str) -> Callable[[], Any]:
        return lambda: [made[name][text](x) for text in TEXTS for x in POINTS]

    us = {
        name: 1e6 * seconds / len(exact)
        for name, seconds in common.medians(
            common.times({name: all_of(name) for name in made}, max(3, rounds // 3))
        ).items()
    }
    own = "gradcli certified"
    yield Figure(TOPIC, "derivative of a smooth scalar function, certified", us.pop(own), "us", 60, us)
    yield Figure(TOPIC, f"correctly rounded, of {len(exact)}", right.pop(own), "", len(exact), right, least=True)
    yield Figure(TOPIC, "largest relative error", worst.pop(own), "", 2e-16, worst)


if __name__ == "__main__":
    common.main(figures, __doc__)
