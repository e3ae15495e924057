"""What the scripts share: one thread for each library, interleaved timing, and figures with their goals.

Imported first by each script, so that the threads are set before any library is loaded.
"""

import argparse
import gc
import importlib.util
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")

PEERS = (
    "autograd", "torch", "jax", "numdifftools", "scipy", "statsmodels", "casadi", "symengine", "sympy", "mpmath", "micrograd", "mygrad",
)  # fmt: skip
LONG = 0.5  # seconds: a candidate that takes longer is run three times only
Run = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure beside its goal, and the peers' figures of the same run in the same unit.

    `least` says that more is better.
    """

    topic: str
    work: str
    figure: float
    unit: str
    goal: float | None = None
    peers: Mapping[str, float] = field(default_factory=dict)
    least: bool = False

    @property
    def met(self) -> bool | None:
        """Whether the goal is reached; None where there is none."""
        if self.goal is None:
            return None
        return self.figure >= self.goal if self.least else self.figure <= self.goal


def there(name: str) -> bool:
    """Whether a peer is installed."""
    return importlib.util.find_spec(name) is not None


def times(candidates: Mapping[str, Run], rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each candidate in each round, candidates interleaved: A B A B; each is warmed up once."""
    took: dict[str, list[float]] = {name: [] for name in candidates}
    first: dict[str, float] = {}
    for name, run in candidates.items():
        start = time.perf_counter()
        run()
        first[name] = time.perf_counter() - start
    gc.collect()
    for k in range(rounds):
        for name, run in candidates.items():
            if first[name] > LONG and k > 2:
                continue
            start = time.perf_counter()
            run()
            took[name].append(time.perf_counter() - start)
    return took


def medians(took: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(seconds) for name, seconds in took.items()}


def ratios(took: Mapping[str, list[float]], to: str) -> dict[str, float]:
    """Return the medians of paired ratios to one candidate."""
    return {
        name: statistics.median(a / b for a, b in zip(seconds, took[to], strict=False))
        for name, seconds in took.items()
        if name != to
    }


def repeated(run: Run, count: int) -> Run:
    """Return a run that does the same so often that its time can be taken."""

    def again() -> None:
        for _ in range(count):
            run()

    return again


def environment() -> dict[str, str]:
    """Return what the figures were measured on."""
    import numpy as np

    found = {"python": platform.python_version(), "numpy": np.__version__, "machine": _processor()}
    found |= {name: metadata.version(name) for name in PEERS if there(name)}
    return {**found, "cores": str(os.cpu_count()), "load": f"{os.getloadavg()[0]:.1f}"}


def _processor() -> str:
    try:
        with Path("/proc/cpuinfo").open(encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def table(figures: Iterable[Figure]) -> str:
    """Return the figures as a table in Markdown; those that fall short are marked."""
    rows = ["| work | figure | goal | | peers |", "| --- | ---: | ---: | --- | --- |"]
    for f in figures:
        peers = ", ".join(f"{name} {_short(x)}" for name, x in f.peers.items())
        goal = "" if f.goal is None else f"{'>=' if f.least else '<='} {_short(f.goal)}"
        mark = {True: "met", False: "**short**", None: ""}[f.met]
        rows.append(f"| {f.work} | {_short(f.figure)} {f.unit} | {goal} | {mark} | {peers} |")
    return "\n".join(rows)


def _short(x: float) -> str:
    return f"{x:,.0f}" if abs(x) >= 100 else f"{x:.3g}"


def main(figures: Callable[[int], Iterable[Figure]], about: str | None, rounds: int = 15) -> None:
    """Print one topic's figures as a table, or as JSON."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    found = list(figures(args.rounds))
    if args.json:
        json.dump(
            {"environment": environment(), "figures": [asdict(f) | {"met": f.met} for f in found]}, sys.stdout, indent=2
        )
        print()
        return
    print(table(found))
    print("\n" + ", ".join(f"{name} {version}" for name, version in environment().items()))
