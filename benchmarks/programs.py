"""What `gradcli run` costs a program while it runs: minimisations with gradients of ten microseconds and of a millisecond.

    python benchmarks/programs.py [--rounds 15] [--json]

The same work with and without watching, interleaved, in one process; ratios are medians of paired rounds. Gradients are written as
functions with arguments, as methods, and as closures. What is checked after a program is not measured here.
"""

import common  # first: it sets the threads

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from common import Figure
from scipy.optimize import minimize

from gradcli.project.capture.session import Session, RecordingRequest

TOPIC = "programs"
SIZES = {"10 us": (800, 1), "1 ms": (2_000, 40)}  # entries of the input, and times that the work is repeated
CALLS = {"10 us": 20_000, "1 ms": 1_000}  # of the gradient in a round


class Waves:
    """A sum of waves, and its gradient."""

    def __init__(self, size: int, repeated: int) -> None:
        self.t = np.linspace(0.0, 1.0, size)
        self.repeated = repeated

    def value(self, x: Any) -> float:
        for _ in range(self.repeated):
            y = np.sum(np.cos(x - self.t))
        return -float(y)

    def gradient(self, x: Any) -> Any:
        for _ in range(self.repeated):
            g = np.sin(x - self.t)
        return g


def value(x: Any, t: Any, repeated: int) -> float:
    for _ in range(repeated):
        y = np.sum(np.cos(x - t))
    return -float(y)


def gradient(x: Any, t: Any, repeated: int) -> Any:
    for _ in range(repeated):
        g = np.sin(x - t)
    return g


def works(kind: str) -> dict[str, Callable[[], Any]]:
    """Return the same minimisation with its gradient written in three ways; each begins anew until it made enough calls."""
    size, repeated = SIZES[kind]
    waves, t = Waves(size, repeated), np.linspace(0.0, 1.0, size)

    def enough(fit: Callable[[Any], Any]) -> Callable[[], None]:
        def work() -> None:
            rng, done = np.random.default_rng(0), 0
            while done < CALLS[kind]:
                done += fit(rng.normal(size=size)).njev

        return work

    return {
        "function": enough(lambda x: minimize(value, x, (t, repeated), "CG", gradient)),
        "method": enough(lambda x: minimize(waves.value, x, method="CG", jac=waves.gradient)),
        "closure": enough(
            lambda x: minimize(lambda x: value(x, t, repeated), x, method="CG", jac=lambda x: gradient(x, t, repeated))
        ),
    }


def watched(work: Callable[[], Any]) -> None:
    session = Session(RecordingRequest())
    session.begin()
    try:
        work()
    finally:
        session.end()


def figures(rounds: int) -> Iterator[Figure]:
    for kind, goal in (("10 us", 1.3), ("1 ms", 1.05)):
        for name, work in works(kind).items():
            took = common.times({"plain": work, "watched": lambda work=work: watched(work)}, rounds)
            ratio = 1 / common.ratios(took, "watched")["plain"]
            yield Figure(TOPIC, f"gradients of {kind}, watched over plain, {name}", ratio, "of plain", goal)


if __name__ == "__main__":
    common.main(figures, __doc__)
