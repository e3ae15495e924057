"""What a check of a claimed gradient costs beside the function and its gradient, every entry compared.

    python benchmarks/claims.py [--rounds 15] [--json]

The function is `sum(tanh(x*w + b)**2)` with 10,002 parameters in all. Candidates are interleaved, medians count; torch's two
gradient checks run on the same function and gradient where torch is installed.
"""

import argparse
import importlib.util
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import gradcli

ENTRIES = 3334
SMALLEST = 1e-10  # relative: an error of one entry that must be seen


def chain(x: Any, w: Any, b: Any) -> Any:
    return np.sum(np.tanh(x * w + b) ** 2)


def by_hand(x: Any, w: Any, b: Any) -> Any:
    t = np.tanh(x * w + b)
    d = 2 * t * (1 - t * t)
    return d * w, d * x, d


def torch_checks(xs: list[Any]) -> dict[str, Callable[[], Any]]:
    """Return torch's every-entry check and its fast mode, of the same function with the same gradient as its backward."""
    if importlib.util.find_spec("torch") is None:
        return {}
    import torch

    class Chain(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, *xs: Any) -> Any:
            ctx.save_for_backward(*xs)
            return torch.tensor(chain(*(x.numpy() for x in xs)))

        @staticmethod
        def backward(ctx: Any, *bars: Any) -> Any:
            return tuple(bars[0] * torch.tensor(g) for g in by_hand(*(x.numpy() for x in ctx.saved_tensors)))

    tensors = tuple(torch.tensor(x, requires_grad=True) for x in xs)
    return {
        "torch gradcheck, fast": lambda: torch.autograd.gradcheck(Chain.apply, tensors, fast_mode=True),
        "torch gradcheck": lambda: torch.autograd.gradcheck(Chain.apply, tensors),
    }


def medians(candidates: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the median seconds of each candidate, rounds interleaved; what takes over a second runs once."""
    found: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, run in candidates.items():
            if found[name] and found[name][0] > 1.0:
                continue
            start = time.perf_counter()
            run()
            found[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in found.items()}


def smallest_seen(at: dict[str, Any]) -> float:
    """Return the smallest relative error of the middle entry, by powers of ten, that a check calls wrong."""
    k = int(np.argsort(np.abs(by_hand(**at)[1]))[ENTRIES // 2])
    for power in range(2, 16):

        def wrong(x: Any, w: Any, b: Any, power: int = power) -> Any:
            dx, dw, db = by_hand(x, w, b)
            dw = dw.copy()
            dw[k] *= 1 + 10.0**-power
            return dx, dw, db

        if gradcli.check(chain, at, grad=wrong).verdict != "fail":
            return float(10.0 ** (1 - power))
    return 0.0


def main() -> None:
    """Print milliseconds, what the check adds to f and its gradient, and the smallest error it sees."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    at = {name: rng.standard_normal(ENTRIES) for name in ("x", "w", "b")}
    if not gradcli.check(chain, at, grad=by_hand):
        raise SystemExit("the check of the right gradient does not pass")
    gradient = gradcli.grad(chain, wrt=("x", "w", "b"))
    found = medians(
        {
            "f": lambda: chain(**at),
            "gradient": lambda: gradient(**at),
            "check": lambda: gradcli.check(chain, at, grad=by_hand),
            **torch_checks(list(at.values())),
        },
        args.rounds,
    )
    added, seen = found["check"] - found["f"] - found["gradient"], smallest_seen(at)
    if args.json:
        print(json.dumps({**found, "check adds": added, "smallest error seen": seen}))
        return
    print(f"sum(tanh(x*w + b)**2), {3 * ENTRIES:,} parameters, a claimed gradient, every entry compared")
    for name, seconds in found.items():
        print(f"  {name:22} {1e3 * seconds:10.3f} ms")
    print(f"  {'check adds':22} {1e3 * added:10.3f} ms   (goal: at most 3)")
    print(f"  an error of one entry is seen from a relative {seen:.0e} on (goal {SMALLEST:.0e})")


if __name__ == "__main__":
    main()
