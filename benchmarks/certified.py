"""The certified gradient of an MLP with 268,800 parameters, every entry enclosed, in float64 evaluations of the function.

    python benchmarks/certified.py [--rounds 15] [--json]

The figure is the mode's own time, its witness included: the directional difference of the untouched function in balls.
Memory is that of the tape of a million-element chain, counted in arrays of its size.
"""

import common  # first: it sets the threads

import tracemalloc
from collections.abc import Iterator
from typing import Any

import numpy as np
from common import Figure
from losses import LOSSES, chain, mlp_inputs

import gradcli

TOPIC = "certified and memory"


def figures(rounds: int) -> Iterator[Figure]:
    loss = next(loss for loss in LOSSES if loss.beat)
    at = mlp_inputs(64)

    def f(W1: Any, b1: Any, W2: Any, b2: Any, W3: Any, b3: Any, X: Any, Y: Any) -> Any:
        return loss.f(np, W1, b1, W2, b2, W3, b3, X, Y)

    seconds = common.medians(common.times({"f": lambda: f(**at)}, rounds))["f"]
    report = gradcli.check(f, at, wrt=list(loss.wrt), modes="certified")
    result = report.points[0].modes["certified"]
    assert result.status == "ok", result.message
    yield Figure(TOPIC, "certified gradient of an MLP, 268,800 parameters", float(result.seconds) / seconds, "f", 1500)
    yield from memory()


def memory() -> Iterator[Figure]:
    n = 1_000_000
    x, w, b = (np.random.default_rng(k).standard_normal(n) for k in range(3))
    own = gradcli.grad(lambda x, w, b: chain(np, x, w, b), wrt=("x", "w", "b"))
    gradient = gradcli.compile(own, x, w, b)
    gradient(x, w, b)
    tracemalloc.start()
    gradient(x, w, b)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    yield Figure(TOPIC, "arrays at the peak, gradient of sum(tanh(x*w + b)**2)", peak / 8 / n, "arrays", 7)


if __name__ == "__main__":
    common.main(figures, __doc__)
