"""Start-up: `gradcli --version` against `import typer`, `gradcli check` against the bare imports it rests on; throughput.

    python benchmarks/startup.py [--rounds 15] [--json]

The commands are interleaved, and ratios are medians of paired runs. Throughput is that of 1,000 small expressions through
one `gradcli check -`, start-up included. gradcli's bytecode is there, as pip leaves it, also where sources are run.
"""

import common  # first: it sets the threads

import compileall
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from common import Figure

import gradcli

TOPIC = "start-up"
GRADCLI = str(Path(sys.executable).with_name("gradcli"))
CHECK = [GRADCLI, "check", "sin(x*y)", "--at", "x=1, y=2"]
BARE = [sys.executable, "-c", "import numpy, sympy, typer, rich.table, flint"]
EXPRESSIONS = 1_000
WITHOUT = "certified,reverse,forward,finite-difference,complex-step"


def ran(command: list[str], given: str | None = None) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, input=given)


def throughput(*more: str) -> float:
    """Return the checks a second of many expressions, each at a point of its own."""
    kinds = ("sin(x*{k}) + x**2", "exp(-x)*{k}", "log(1 + x**2)*{k}", "x*tanh({k}*x)", "sqrt(x + {k})")
    asked = (
        {"target": kinds[k % len(kinds)].format(k=k + 1), "at": {"x": 0.5 + k / EXPRESSIONS}}
        for k in range(EXPRESSIONS)
    )
    lines = "".join(json.dumps(one) + "\n" for one in asked)
    start = time.perf_counter()
    ran([GRADCLI, "check", "-", "--json", *more], lines)
    return EXPRESSIONS / (time.perf_counter() - start)


def figures(rounds: int) -> Iterator[Figure]:
    compileall.compile_dir(Path(gradcli.__file__).parent, quiet=1)
    version = {
        "gradcli": lambda: ran([GRADCLI, "--version"]),
        "typer": lambda: ran([sys.executable, "-c", "import typer"]),
    }
    check = {"gradcli": lambda: ran(CHECK), "bare": lambda: ran(BARE)}
    helps = {
        "gradcli": lambda: ran([GRADCLI, "check", "--help"]),
        "typer": lambda: ran([sys.executable, "-c", "import typer"]),
    }
    for work, runs, peer, goal in (
        ("gradcli --version over import typer", version, "typer", 1.5),
        ("gradcli check over the bare imports", check, "bare", 1.3),
        ("gradcli check --help over import typer", helps, "typer", None),
    ):
        took = common.times(runs, rounds)
        ratio = 1 / common.ratios(took, "gradcli")[peer]
        yield Figure(TOPIC, work, ratio, f"({1e3 * common.medians(took)['gradcli']:.0f} ms)", goal)
    yield Figure(
        "throughput", "checks a second, without symbolic", throughput("--modes", WITHOUT), "1/s", 200, least=True
    )
    yield Figure("throughput", "checks a second, at the defaults", throughput(), "1/s", None, least=True)


if __name__ == "__main__":
    common.main(figures, __doc__)
