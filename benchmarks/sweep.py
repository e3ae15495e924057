"""How quickly f is evaluated at all steps along all entries: batched by gradcli, by scipy's differences, by a plain loop.

    python benchmarks/sweep.py [--rounds 15] [--json]

Sixty steps for each of n entries, forward differences: 60 n + 1 evaluations of f. gradcli runs the recorded program on many
points at once, in bounded memory; `scipy` is a loop of scipy.optimize.approx_fprime over the steps; `loop` a loop that
moves one entry and calls f; `by hand` the same batch written in numpy for this very function, all entries of one step at a
time. Ratios are medians of those of interleaved runs.
"""

import common  # first: it sets the threads

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from common import Figure
from scipy.optimize import approx_fprime

from gradcli.modes.mode import Question
from gradcli.request.point import Point
from gradcli.targets.expression import Expression
from gradcli.study.rays import Rays, entry_rays

GOALS = {10: 100, 100: 25, 1_000: 5}
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

    def first() -> Any:
        fresh = Rays(q)
        assert not fresh.by_calls
        return fresh.values(rays, STEPS)

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
        "first": first,
        "scipy": lambda: [approx_fprime(x, one, h * scale, c) for h in STEPS],
        "loop": loop,
        "by hand": by_hand,
    }


def figures(rounds: int) -> Iterator[Figure]:
    warnings.simplefilter("ignore")
    for text in FUNCTIONS:
        for n, goal in GOALS.items():
            runs = candidates(text, n)
            assert np.allclose(runs["gradcli"](), runs["loop"](), rtol=1e-9), "the batch computes something else"
            quick = {name: common.repeated(run, 1000 // n) for name, run in runs.items()} if n < 1000 else runs
            beside = common.ratios(common.times(quick, max(3, rounds // 3)), "gradcli")
            work = f"60 steps x {n:,} inputs of {text.partition(' + (1')[0]}: times faster than scipy's loop"
            scipy = beside.pop("scipy")
            beside["first"] = scipy / beside["first"]
            yield Figure("sweeps", work, scipy, "times", goal, beside, least=True)


if __name__ == "__main__":
    common.main(figures, __doc__)
