"""Large arrays: an MLP with 269,000 parameters and a chain of a million elements, in units of hand-written numpy.

    python benchmarks/large.py [--rounds 10] [--certified] [--json]

Hand-written means the gradient an engineer writes, with the accurate tanh slope that gradcli uses; the naive slope's time is
shown beside it. Candidates are interleaved and the best round counts; ratios hold within one run.
"""

import argparse
import itertools
import json
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

import gradcli
from gradcli.interpreters.tape import held_bytes, record
from gradcli.source.call import Call

SIZES = (784, 256, 256, 10)
BATCH = 64


def sech2(a: Any) -> Any:
    """Return the slope of tanh, accurate also where tanh is nearly one."""
    e = np.exp(-2.0 * np.abs(a))
    return 4.0 * e / (1.0 + e) ** 2


def mlp(params: dict[str, Any], x: Any, y: Any) -> Any:
    """Return the mean softmax cross-entropy of a batch; two hidden layers of tanh."""
    h = np.tanh(x @ params["W1"] + params["b1"])
    h = np.tanh(h @ params["W2"] + params["b2"])
    z = h @ params["W3"] + params["b3"]
    shifted = z - np.max(z, axis=1, keepdims=True)
    logp = shifted - np.log(np.sum(np.exp(shifted), axis=1, keepdims=True))
    return -np.sum(y * logp) / len(x)


def by_hand(params: dict[str, Any], x: Any, y: Any, slope: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """Return the gradient by the formulas of a textbook."""
    a1 = x @ params["W1"] + params["b1"]
    h1 = np.tanh(a1)
    a2 = h1 @ params["W2"] + params["b2"]
    h2 = np.tanh(a2)
    z = h2 @ params["W3"] + params["b3"]
    e = np.exp(z - np.max(z, axis=1, keepdims=True))
    d3 = (e / np.sum(e, axis=1, keepdims=True) - y) / len(x)
    d2 = d3 @ params["W3"].T * slope(h2, a2)
    d1 = d2 @ params["W2"].T * slope(h1, a1)
    return {
        "W1": x.T @ d1, "b1": d1.sum(0), "W2": h1.T @ d2, "b2": d2.sum(0), "W3": h2.T @ d3, "b3": d3.sum(0),
    }  # fmt: skip


def accurate(params: dict[str, Any], x: Any, y: Any) -> dict[str, Any]:
    return by_hand(params, x, y, lambda h, a: sech2(a))


def naive(params: dict[str, Any], x: Any, y: Any) -> dict[str, Any]:
    return by_hand(params, x, y, lambda h, a: 1 - h * h)


def drawn() -> tuple[dict[str, Any], Any, Any]:
    """Return parameters, a batch, and its labels one-hot."""
    rng = np.random.default_rng(0)
    params = {}
    for k, (m, n) in enumerate(itertools.pairwise(SIZES), 1):
        params[f"W{k}"] = rng.standard_normal((m, n)) / np.sqrt(m)
        params[f"b{k}"] = np.zeros(n)
    return params, rng.standard_normal((BATCH, SIZES[0])), np.eye(SIZES[-1])[rng.integers(0, SIZES[-1], BATCH)]


def chain(x: Any, w: Any, b: Any) -> Any:
    return np.sum(np.tanh(x * w + b) ** 2)


def best(candidates: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the best time of each candidate, rounds interleaved."""
    found = dict.fromkeys(candidates, np.inf)
    for _ in range(rounds):
        for name, run in candidates.items():
            start = time.perf_counter()
            run()
            found[name] = min(found[name], time.perf_counter() - start)
    return found


def measure_mlp(rounds: int) -> dict[str, float]:
    """Return times of the MLP: f, the hand-written gradients, reverse, and a check of the claimed gradient."""
    params, x, y = drawn()
    gradient = gradcli.grad(mlp)
    found = best(
        {
            "f": lambda: mlp(params, x, y),
            "by hand": lambda: accurate(params, x, y),
            "by hand, naive slope": lambda: naive(params, x, y),
            "reverse": lambda: gradient(params, x, y),
        },
        rounds,
    )
    at = {"params": params, "x": x, "y": y}
    report = gradcli.check(mlp, at, grad=accurate, wrt="params")
    if not report:
        raise SystemExit(f"the check does not pass: {report.sentence()}")
    found |= best({"check": lambda: gradcli.check(mlp, at, grad=accurate, wrt="params")}, max(3, rounds // 3))
    return found


def measure_certified() -> float:
    """Return the time of one certified gradient of all parameters."""
    params, x, y = drawn()
    start = time.perf_counter()
    report = gradcli.check(mlp, {"params": params, "x": x, "y": y}, wrt="params", modes="certified", mode_timeout=600)
    result = report.points[0].modes["certified"]
    if result.status != "ok":
        raise SystemExit(f"certified: {result.status}: {result.message}")
    print(f"  the whole check took {time.perf_counter() - start:.2f} s")
    return float(result.seconds)


def measure_chain(rounds: int) -> dict[str, float]:
    """Return times of f and of its gradient, and the bytes the tape holds."""
    rng = np.random.default_rng(0)
    x, w, b = (rng.standard_normal(1_000_000) for _ in range(3))
    gradient = gradcli.grad(chain, wrt=("x", "w", "b"))
    found = best({"f": lambda: chain(x, w, b), "gradient": lambda: gradient(x, w, b)}, rounds)
    call = Call(chain, (x, w, b), {}, ("x", "w", "b"))
    found["tape bytes"] = held_bytes(record(call, call.xs)[2])
    tracemalloc.start()
    gradient(x, w, b)
    found["peak bytes"] = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return found


def main() -> None:
    """Print seconds and ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--certified", action="store_true", help="also the certified gradient, which takes seconds")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    mlp_times, chain_times = measure_mlp(args.rounds), measure_chain(args.rounds)
    certified = measure_certified() if args.certified else None
    if args.json:
        print(json.dumps({"mlp": mlp_times, "chain": chain_times, "certified": certified}))
        return
    print("MLP 784-256-256-10, batch 64, 268,800 parameters")
    for name, seconds in mlp_times.items():
        print(f"  {name:22} {1e3 * seconds:8.2f} ms   {seconds / mlp_times['by hand']:6.2f} of by hand")
    if certified is not None:
        print(f"  {'certified':22} {1e3 * certified:8.2f} ms   {certified / mlp_times['f']:6.0f} evaluations of f")
    print("chain of 1,000,000 elements, sum(tanh(x*w + b)**2)")
    print(f"  gradient / f {chain_times['gradient'] / chain_times['f']:.2f}, f {1e3 * chain_times['f']:.1f} ms")
    print(
        f"  memory: {chain_times['tape bytes'] / 8e6:.0f} arrays on the tape, {chain_times['peak bytes'] / 8e6:.1f} at the peak"
    )


if __name__ == "__main__":
    main()
