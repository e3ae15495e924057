"""How quickly f is evaluated at all steps along all entries: batched by gradcli, by scipy's differences, by a plain loop.

    python benchmarks/sweep.py [--rounds 5] [--json]

Sixty steps for each of n entries, forward differences: 60 n + 1 evaluations of f. gradcli runs the recorded program on many
points at once, in bounded memory; `scipy` is a loop of scipy.optimize.approx_fprime over the steps; `loop` a loop that
moves one entry and calls f; `by hand` the same batch written in numpy for this very function, all entries of one step at a
time. Ratios are medians of those of interleaved runs.
"""

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import approx_fprime

from gradcli.modes.mode import Question
from gradcli.point import Point
from gradcli.source.expression import Expression
from gradcli.study.rays import Rays, entry_rays

STEPS = 10.0 ** (-np.arange(60) / 3)
FUNCTIONS = {
    "sum(x**2 * c)": (lambda x, c: np.sum(x**2 * c), lambda x, c: np.sum(x**2 * c, axis=-1)),
    "sum(100*(x[1:] - x[:-1]**2)**2 + (1 - x[:-1])**2) + 0*sum(c)": (
        lambda x, c: np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2),
        lambda x, c: np.sum(100 * (x[..., 1:] - x[..., :-1] ** 2) ** 2 + (1 - x[..., :-1]) ** 2, axis=-1),
    ),
    "sum(tanh(x*c)**2)": (lambda x, c: np.sum(np.tanh(x * c) ** 2), lambda x, c: np.sum(np.tanh(x * c) ** 2, axis=-1)),
}


def candidates(text: str, n: int) -> dict[str, Callable[[], Any]]:
    """Return what evaluates all steps of all entries, by name."""
    rng = np.random.default_rng(0)
    x, c = rng.uniform(0.5, 1.5, n), rng.uniform(0.5, 1.5, n)
    one, many = FUNCTIONS[text]
    q = Question(Expression(text), Point({"x": x, "c": c}), ("x",))
    rays = entry_rays(q)
    scale = np.array([ray.scale for ray in rays])
    batched = Rays(q)
    _ = q.recording, q.bars, batched.by_calls

    def loop() -> Any:
        found = np.empty((n, len(STEPS)))
        for i in range(n):
            for k, h in enumerate(STEPS):
                moved = x.copy()
                moved[i] += h * scale[i]
                found[i, k] = one(moved, c)
        return found

    def by_hand() -> Any:
        return np.stack([many(x + np.diag(h * scale), c) for h in STEPS], axis=1)

    return {
        "gradcli": lambda: batched.values(rays, STEPS),
        "scipy": lambda: [approx_fprime(x, one, h * scale, c) for h in STEPS],
        "loop": loop,
        "by hand": by_hand,
    }


def measured(text: str, n: int, rounds: int) -> dict[str, Any]:
    """Return the median seconds of each candidate, and gradcli's speed in units of the others'."""
    runs = candidates(text, n)
    mine, theirs = runs["gradcli"](), runs["loop"]()
    assert np.allclose(mine, theirs, rtol=1e-9), "the batch computes something else"
    took: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            took[name].append(time.perf_counter() - start)
    ratios = {
        name: statistics.median(t / own for t, own in zip(times, took["gradcli"], strict=True))
        for name, times in took.items()
        if name != "gradcli"
    }
    return {"function": text, "n": n, "seconds": {k: statistics.median(v) for k, v in took.items()}, "ratios": ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = []
    if not options.json:
        print(f"{'function':52} {'n':>6} {'gradcli, ms':>12} {'scipy/g':>8} {'loop/g':>8} {'by hand/g':>10}")
    for text in FUNCTIONS:
        for n in (10, 100, 1000):
            row = measured(text, n, options.rounds if n < 1000 else max(1, options.rounds // 2))
            found.append(row)
            if not options.json:
                r = row["ratios"]
                own = 1e3 * row["seconds"]["gradcli"]
                print(f"{text[:52]:52} {n:6,} {own:12.2f} {r['scipy']:8.1f} {r['loop']:8.1f} {r['by hand']:10.2f}")
    if options.json:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
