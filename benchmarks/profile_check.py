"""Where the milliseconds of a check go: one expression at the defaults, and one Python function with its gradient.

    python benchmarks/profile_check.py [--rounds 200]

Each stage is timed without the stages inside it; medians of many checks in one process. sympy runs in a process beside, and what it
takes longer than the other modes is waited for.
"""

import argparse
import functools
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

import gradcli
from gradcli import api
from gradcli.modes import certified, finite_difference, mode, recording
from gradcli.modes import registry
from gradcli.checks import check as checking
from gradcli.checks import more_evidence

STAGES: dict[str, tuple[Any, ...]] = {  # where each stage is looked up
    "read the target and the point, call f": ((api, "expression_at"), (api, "function_at")),
    "prepare the request, call the claim": ((api, "request_for"),),
    "record the function": ((recording.Recording, "_traced"),),
    "reverse sweep": ((recording.Recording, "bars"), (registry.Reverse, "gradient")),
    "bound the rounding": ((mode.Question, "_rounding"), (mode.Question, "rounding_of_textbook")),
    "trace test": ((mode.Question, "trace_test"),),
    "certified": ((certified.Certified, "gradient"),),
    "forward": ((registry.Forward, "gradient"),),
    "complex step": ((finite_difference.ComplexStep, "gradient"),),
    "finite differences": ((finite_difference.FiniteDifference, "gradient"),),
    "waiting for sympy, which runs beside": ((checking, "run"),),
    "findings about the point": ((checking, "place_findings"),),
    "compare the entries": ((checking, "compare_all"), (checking, "add_claim")),
    "more evidence": ((more_evidence, "directional"), (more_evidence, "claim_again")),
    "verdict": ((checking, "decide"),),
    "report": ((checking, "report_of"),),
}


class Clock:
    """The seconds of each stage, without those of the stages that it calls."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.inside: list[str] = ["the rest"]
        self.since = time.perf_counter()

    def switch(self) -> None:
        now = time.perf_counter()
        self.seconds[self.inside[-1]] += now - self.since
        self.since = now

    def timed(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run(*args: Any, **kwargs: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():  # sympy's stage waits for another process
                return function(*args, **kwargs)
            self.switch()
            self.inside.append(stage)
            try:
                return function(*args, **kwargs)
            finally:
                self.switch()
                self.inside.pop()

        return run

    def watch(self) -> None:
        for stage, places in STAGES.items():
            for owner, name in places:
                own = vars(owner)[name]
                if isinstance(own, functools.cached_property):
                    own.func = self.timed(stage, own.func)
                else:
                    setattr(owner, name, self.timed(stage, own))


class Model:
    def __init__(self, data: Any) -> None:
        self.data = data

    def loss(self, w: Any) -> Any:
        return np.mean(np.log1p(np.exp(-self.data @ w)))

    def gradient(self, w: Any) -> Any:
        return -self.data.T @ (1 / (1 + np.exp(self.data @ w))) / len(self.data)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=200)
    rounds = parser.parse_args().rounds
    model = Model(np.random.default_rng(0).standard_normal((20, 5)))
    checks: dict[str, Callable[[], Any]] = {
        "exp(-x**2)*sin(x*y)": lambda: gradcli.check("exp(-x**2)*sin(x*y)", {"x": 0.7, "y": 1.3}),
        "a method with its gradient, 5 entries": lambda: gradcli.check(model.loss, np.ones(5), grad=model.gradient),
    }
    clock = Clock()
    clock.watch()
    columns = {}
    for name, check in checks.items():
        taken: dict[str, list[float]] = defaultdict(list)
        for k in range(rounds + 10):
            clock.seconds.clear()
            clock.since = time.perf_counter()
            check()
            clock.switch()
            if k >= 10:
                for stage in (*STAGES, "the rest"):
                    taken[stage].append(clock.seconds.get(stage, 0.0))
        columns[name] = {stage: 1e3 * statistics.median(seconds) for stage, seconds in taken.items()}
    print(f"| milliseconds | {' | '.join(f'`{name}`' for name in columns)} |")
    print(f"| --- | {' | '.join('---:' for _ in columns)} |")
    for stage in (*STAGES, "the rest"):
        print(f"| {stage} | {' | '.join(f'{column[stage]:.2f}' for column in columns.values())} |")
    print(f"| all | {' | '.join(f'{sum(column.values()):.2f}' for column in columns.values())} |")


if __name__ == "__main__":
    main()
