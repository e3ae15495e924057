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
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from common import Figure

import gradcli

TOPIC = "start-up"
GRADCLI = str(Path(sys.executable).with_name("gradcli"))
CHECK = [GRADCLI, "check", "sin(x*y)", "--at", "x=1, y=2"]
BARE = [sys.executable, "-c", "import numpy, sympy, typer, rich.table, flint"]
BARE_NUMPY = [sys.executable, "-c", "import numpy, sympy, typer, rich.table, flint, inspect, ast, json"]
MODEL = """
import numpy as np
def f(x): return np.sum(np.sin(x)**2)
def f_grad(x): return 2*np.sin(x)*np.cos(x)
"""
EXPRESSIONS = 1_000
WITHOUT = "certified,reverse,forward,finite-difference,complex-step"


def ran(command: list[str], given: str | None = None, status: int = 0) -> None:
    done = subprocess.run(command, capture_output=True, text=True, input=given)
    assert done.returncode == status, done.stderr


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
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "model.py").write_text(MODEL)
        target = f"{name}/model.py:f"
        own = {
            "gradcli": lambda: ran([GRADCLI, "check", target, "--grad", "f_grad", "--at", "x=[1, 2, 3]"]),
            "bare": lambda: ran(BARE_NUMPY),
        }
        took = common.times(own, rounds)
        ratio = 1 / common.ratios(took, "gradcli")["bare"]
        work = "gradcli check file.py:f over the bare imports"
        yield Figure(TOPIC, work, ratio, f"({1e3 * common.medians(took)['gradcli']:.0f} ms)", 1.2)
    missing = common.times({"missing": lambda: ran([GRADCLI, "check", "nosuch.py:f", "--at", "x=1"], status=2)}, rounds)
    yield Figure(TOPIC, "the error for a file that is not there", 1e3 * common.medians(missing)["missing"], "ms", 100)
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
