"""The certified gradient of an MLP with 268,800 parameters, every entry enclosed, in float64 evaluations of the function.

    python benchmarks/certified.py [--rounds 15] [--json]

The figure is the mode's own time, its witness included: the directional difference of the untouched function in balls.
Memory is that of the tape of a million-element chain, counted in arrays of its size.
"""

import common  # first: it sets the threads

import multiprocessing
import resource
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
    yield from large(rounds)
    yield from memory()


def large(rounds: int) -> Iterator[Figure]:
    """Yield the time and the memory of an MLP with 2.7 million parameters, in a process of its own."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        evaluations, gigabytes = pool.apply(of_layers, (rounds,))
    yield Figure(TOPIC, "certified gradient of an MLP, 2,661,898 parameters", evaluations, "f", 1500)
    yield Figure(TOPIC, "the same, memory of the process", gigabytes, "GB", 4)


def of_layers(rounds: int) -> tuple[float, float]:
    """Return the evaluations of f that the certified mode takes, and the memory of this process in GB."""
    rng = np.random.default_rng(0)
    layers = [(784, 2048), (2048, 512), (512, 10)]
    at = {f"W{k}": rng.standard_normal(pair) / np.sqrt(pair[0]) for k, pair in enumerate(layers)}
    at |= {f"b{k}": np.zeros(pair[1]) for k, pair in enumerate(layers)}
    X, Y = rng.standard_normal((64, 784)), np.eye(10)[rng.integers(0, 10, 64)]

    def f(**p: Any) -> Any:
        h = X
        for k in range(3):
            h = (np.tanh(h) if k else h) @ p[f"W{k}"] + p[f"b{k}"]
        return -np.sum(Y * (h - np.log(np.sum(np.exp(h), axis=1, keepdims=True)))) / len(X)

    seconds = common.medians(common.times({"f": lambda: f(**at)}, rounds))["f"]
    report = gradcli.check(f, at, modes="certified,reverse")
    assert report.verdict == "pass", report.sentence()
    return float(report.points[0].modes["certified"].seconds) / seconds, resource.getrusage(
        resource.RUSAGE_SELF
    ).ru_maxrss / 2**20


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
