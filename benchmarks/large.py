"""Claims of many entries, each compared: time and memory over the value and gradient by hand, what is seen, and how all of it grows.

    python benchmarks/large.py [--rounds 15] [--json]

Functions are those of `spellings.py`, each written in another way: the figure is that of the slowest. The unit is one
evaluation of the function and of its gradient, as the user's code has them. Ratios are medians of paired rounds. Memory is
counted in float64 arrays of the size of all inputs, which are not counted themselves. Growth is the slope of log(time)
over log(n).
"""

import common  # first: it sets the threads

import time
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from common import Figure
from spellings import WAYS, Claimed, arguments

import gradcli
from gradcli.modes.screening import screen
from gradcli.study.rays import Rays, entry_rays
from gradcli.modes.mode import Question
from gradcli.request.point import Point
from gradcli.targets.expression import Expression

TOPIC = "large"
MILLISECONDS, GRADIENTS = 1.5, 15  # the goals for 10,002 entries, over one gradient, and for 100,002
TRIES = 100
GROWTH = (100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000)
HALF_DECADES = (
    10,
    30,
    100,
    300,
    1_000,
    3_000,
    10_000,
    30_000,
    100_000,
    300_000,
    1_000_000,
    10_000_000,
)  # of the claim check


def check(case: Claimed, **more: Any) -> Any:
    return gradcli.check(case.f, case.at, grad=case.gradient, **more)


def claims(rounds: int) -> Iterator[Figure]:
    for n in (10_002, 100_002):
        over, ratios = {}, {}
        for way in WAYS:
            case = way(n)
            report = check(case)
            assert report.verdict == "pass", report
            runs = {"check": lambda case=case: check(case), "hand": common.repeated(case.by_hand, 10)}
            took = common.times(runs, rounds)
            ms = {name: 1e3 * seconds for name, seconds in common.medians(took).items()}
            over[case.name] = ms["check"] - ms["hand"] / 10
            ratios[case.name] = 10 * common.ratios(took, "hand")["check"]
        if n == 10_002:
            yield Figure(
                TOPIC,
                f"claimed gradient, {n:,} entries, over one value and gradient",
                max(over.values()),
                "ms",
                MILLISECONDS,
                over,
            )
        else:
            work = f"claimed gradient, {n:,} entries"
            yield Figure(TOPIC, work, max(ratios.values()), "value and gradient", GRADIENTS, ratios)


def seen() -> Iterator[Figure]:
    """Yield how often one entry among 100,000 that is wrong is found by function values alone, the right claim passing."""
    n = 100_000
    for kind, error in (("complex numbers", 1e-8), ("real numbers alone", 1e-5)):
        caught = 0
        tries = TRIES if error == 1e-8 else TRIES // 10
        for seed in range(tries):
            rng = np.random.default_rng(seed)
            x, c = rng.uniform(0.5, 1.5, (2, n))
            claim, k = 2 * c * x * np.cos(c * x * x), int(rng.integers(n))
            f: Callable[[Any], Any] = lambda step, x=x, c=c: np.sum(np.sin(c * (x + step) ** 2))
            ask: dict[str, Any] = {"seed": seed, "phi_at_zero": float(f(0.0)), "claim_error": 1e-12 * np.abs(claim)}
            ask |= {"complex_phi": f} if error == 1e-8 else {}
            assert screen(f, claim, x, **ask).agrees, "a right claim is flagged"
            claim[k] *= 1 + error
            caught += screen(f, claim, x, **ask).agrees is not True
        work = f"one entry of 100,000 wrong by {error:.0e}, by function values, {kind}: caught"
        yield Figure(TOPIC, work, 100 * caught / tries, "%", 99, least=True)


def ten_million() -> Iterator[Figure]:
    n = 10_000_000
    slowest, most, peers = 0.0, 0.0, {}
    for way in WAYS:
        check(way(1_000))
        case = way(n)
        case.by_hand()
        start = time.perf_counter()
        case.by_hand()
        hand = time.perf_counter() - start
        start = time.perf_counter()
        report = check(case)
        peers[case.name] = (time.perf_counter() - start) / hand
        tracemalloc.start()
        check(case)
        arrays = tracemalloc.get_traced_memory()[1] / 8 / n
        tracemalloc.stop()
        peers[f"{case.name}, arrays"], peers[f"{case.name}, {report.verdict}"] = arrays, 1
        slowest, most = max(slowest, peers[case.name]), max(most, arrays)
    yield Figure(TOPIC, "claimed gradient, 10,000,000 entries", slowest, "value and gradient", 20, peers)
    yield Figure(TOPIC, "the same, memory at the peak", most, "arrays", 10)
    case = arguments(n)
    case.by_hand()
    start = time.perf_counter()
    case.by_hand()
    hand = time.perf_counter() - start
    start = time.perf_counter()
    check(case, modes="certified,reverse")
    yield Figure(
        TOPIC, "the same, one direction certified", (time.perf_counter() - start) / hand, "value and gradient", 500
    )


def slope(runs: dict[int, Callable[[], Any]]) -> tuple[float, dict[str, float]]:
    """Return the slope of log(time) over log(n) from n = 100,000 on, and the milliseconds of each size."""
    took = {}
    for n, run in runs.items():
        run()
        repeats = []
        for _ in range(3):
            start = time.perf_counter()
            run()
            repeats.append(time.perf_counter() - start)
        took[n] = sorted(repeats)[1]
    last = [n for n in took if n >= 100_000]
    found = np.polyfit(np.log(last), np.log([took[n] for n in last]), 1)[0]
    return float(found), {f"n = {n:,}, ms": 1e3 * seconds for n, seconds in took.items()}


def growth() -> Iterator[Figure]:
    cases = {n: arguments(3 * (n // 3) or 3) for n in {*GROWTH, *HALF_DECADES}}
    runs: dict[str, dict[int, Callable[[], Any]]] = {
        "claim check": {n: lambda n=n: check(cases[n]) for n in HALF_DECADES},
        "tape": {n: lambda case=cases[n]: gradcli.grad(case.f, wrt=tuple(case.at))(**case.at) for n in GROWTH},
        "sweep of 60 steps along 10 entries": {n: swept(n) for n in GROWTH},
    }
    for name, by_size in runs.items():
        found, each = slope(by_size)
        yield Figure(TOPIC, f"growth of the {name}", found, "power of n", None, each)


def swept(n: int) -> Callable[[], Any]:
    rng = np.random.default_rng(0)
    x, c = rng.uniform(0.5, 1.5, (2, n))
    q = Question(Expression("sum(tanh(x*c)**2)"), Point({"x": x, "c": c}), ("x",))
    rays, ts = entry_rays(q)[:10], 10.0 ** (-np.arange(60) / 3)
    return lambda: Rays(q).values(rays, ts)


def figures(rounds: int) -> Iterator[Figure]:
    yield from claims(rounds)
    yield from seen()
    yield from growth()
    yield from ten_million()


if __name__ == "__main__":
    common.main(figures, __doc__)
