"""Cost of one operation in a gradient, forward and back together: scalars, arrays of 8 and of 10,000; and deep programs.

    python benchmarks/per_operation.py [--rounds 15] [--json]

The chain is y = y*x + b, one multiplication of values that both move and one addition a step. By hand is the loop that an
engineer writes, forward and back, with the values kept that the way back needs. `gradcli` is the compiled gradient, `gradcli,
tape` the one that is traced at each call, `gradcli, first` a gradient that is asked for once, with the trace test. A deep
program is a chain of 100,000 operations from the Python function to its first gradient.
"""

import common  # first: it sets the threads

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from common import Figure, Run


B = 0.001
X = 0.9999
OPERATIONS = 1000
DEEP = 100_000


def chain(operations: int) -> Callable[[Any], Any]:
    """Return a function of so many operations in a row."""

    def f(x: Any) -> Any:
        y = x
        for _ in range(operations // 2):
            y = y * x + B
        return y

    return f


def by_hand(operations: int) -> Callable[[Any], Any]:
    def gradient(x: Any) -> Any:
        ys = [x]
        for _ in range(operations // 2):
            ys.append(ys[-1] * x + B)
        bar, total = np.ones_like(x), np.zeros_like(x)
        for y in reversed(ys[:-1]):
            total = total + bar * y
            bar = bar * x
        return total + bar

    return gradient


def candidates(operations: int, x: Any) -> dict[str, Run]:
    """Return what computes the derivative of the chain at `x`, a number or an array, by name."""
    import gradcli

    f = chain(operations)
    hand = by_hand(operations)
    scalar = f if np.ndim(x) == 0 else lambda x: np.sum(f(x))
    own = gradcli.grad(scalar, verify=False)
    found: dict[str, Run] = {
        "gradcli, tape": lambda: own(x),
        "gradcli, first": lambda: gradcli.grad(partial(scalar))(x),
        "by hand": lambda: hand(x),
    }
    if operations <= OPERATIONS:
        compiled = gradcli.compile(own, x)
        found["gradcli"] = lambda: compiled(x)
    if common.there("autograd"):
        import autograd

        elementwise = autograd.elementwise_grad(f)
        found["autograd"] = lambda: elementwise(x)
    if common.there("torch"):
        import torch

        torch.set_num_threads(1)

        def by_torch() -> Any:
            t = torch.tensor(x, dtype=torch.float64, requires_grad=True)
            return torch.autograd.grad(f(t).sum(), t)

        found["torch"] = by_torch
    if common.there("micrograd") and np.ndim(x) == 0 and operations <= OPERATIONS // 2:  # its sweep recurses
        from micrograd.engine import Value

        def by_micrograd() -> Any:
            v = Value(float(x))
            f(v).backward()
            return v.grad

        found["micrograd"] = by_micrograd
    if common.there("mygrad"):
        import mygrad

        def by_mygrad() -> Any:
            t = mygrad.tensor(x, dtype=np.float64)
            f(t).sum().backward()
            return t.grad

        found["mygrad"] = by_mygrad
    return found


def per_operation(operations: int, x: Any, rounds: int) -> tuple[dict[str, float], dict[str, float]]:
    """Return microseconds an operation, and the ratios of gradcli to each other candidate."""
    took = common.times(candidates(operations, x), rounds)
    micros = {name: 1e6 * seconds / operations for name, seconds in common.medians(took).items()}
    return micros, {name: 1 / ratio for name, ratio in common.ratios(took, "gradcli").items()}


def figures(rounds: int) -> Iterator[Figure]:
    topic = "per operation"
    micros, beside = per_operation(OPERATIONS, np.float64(X), rounds)
    small, _ = per_operation(OPERATIONS // 4, np.float64(X), rounds)
    own = micros.pop("gradcli")
    if "micrograd" in small:
        micros["micrograd"] = small["micrograd"]
    yield Figure(topic, "a scalar operation, 1,000 in a row", own, "us", 0.8, micros)
    for peer, goal in (("autograd", 0.03), ("torch", 0.1)):
        if peer in beside:
            yield Figure(topic, f"the same beside {peer}", beside[peer], f"of {peer}", goal)
    micros, _ = per_operation(OPERATIONS, np.full(8, X), rounds)
    yield Figure(topic, "the same on arrays of 8", micros.pop("gradcli"), "us", 2.2, micros)
    micros, beside = per_operation(OPERATIONS, np.full(10_000, X), rounds)
    micros.pop("gradcli")
    others = {name: us / micros["by hand"] for name, us in micros.items() if name != "by hand"}
    yield Figure(topic, "the same on arrays of 10,000", beside["by hand"], "of by hand", 1.1, others)
    yield from deep(max(3, rounds // 5))


def deep(rounds: int) -> Iterator[Figure]:
    runs = candidates(DEEP, np.float64(X))
    runs.pop("by hand")
    runs["gradcli"], with_test = runs.pop("gradcli, tape"), runs.pop("gradcli, first")
    runs["gradcli, with the trace test"] = with_test
    runs.pop("mygrad", None)  # its sweep recurses
    if common.there("casadi"):
        import casadi

        f = chain(DEEP)

        def by_casadi() -> Any:
            x = casadi.SX.sym("x")
            return casadi.Function("g", [x], [casadi.gradient(f(x), x)])(X)

        runs["casadi"] = by_casadi
    seconds = common.medians(common.times(runs, rounds))
    yield Figure(
        "deep programs", "100,000 operations in a row, on the tape", seconds.pop("gradcli"), "s", 0.25, seconds
    )


if __name__ == "__main__":
    common.main(figures, __doc__)
