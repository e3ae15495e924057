"""Cost of a scalar operation in a reverse sweep, forward and back together, against autograd and torch where installed.

    python benchmarks/per_operation.py [--operations 1000] [--rounds 30] [--json]

The chain is y = y*a + b, one multiplication and one addition a step. Candidates are interleaved; the figure is the best round.
"""

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import numpy as np


def chain(steps: int) -> Callable[[Any], Any]:
    """Return a function of `2*steps` scalar operations in a row."""

    def f(x: Any) -> Any:
        y = x
        for _ in range(steps):
            y = y * 0.9999 + 0.001
        return y

    return f


def candidates(f: Callable[[Any], Any]) -> dict[str, Callable[[], Any]]:
    """Return what computes the derivative of f at 0.5, by name; peers that are not installed are left out."""
    from gradcli.interpreters.tape import vjp

    found: dict[str, Callable[[], Any]] = {
        "plain f, no derivative": lambda: f(np.float64(0.5)),
        "gradcli": lambda: vjp(f, [np.float64(0.5)])[1](np.float64(1)),
    }
    try:
        import autograd

        derivative = autograd.grad(f)
        found["autograd"] = lambda: derivative(0.5)
    except ImportError:
        pass
    try:
        import torch

        def by_torch() -> Any:
            x = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
            f(x).backward()
            return x.grad

        torch.set_num_threads(1)
        found["torch"] = by_torch
    except ImportError:
        pass
    return found


def main() -> None:
    """Print microseconds per operation, and the ratio to each peer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--operations", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    runs = candidates(chain(args.operations // 2))
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(args.rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            best[name] = min(best[name], time.perf_counter() - start)
    micros = {name: seconds / args.operations * 1e6 for name, seconds in best.items()}
    if args.json:
        print(json.dumps(micros, indent=2))
        return
    for name, cost in micros.items():
        print(f"{name:24} {cost:8.3f} us an operation   gradcli is {micros['gradcli'] / cost:.3f} of it")


if __name__ == "__main__":
    main()
