"""Suites of 1,000 checks: milliseconds a check on one worker, and how much faster two workers are.

The checks are ten expressions with other numbers, expressions of which no two have one form, and functions and methods in Python with
their gradients: the figure is that of the slowest suite.

    python benchmarks/suites.py [--json]

All modes run by default. The rates are taken from the moment the workers are ready; the whole command includes the start of
Python, of the workers and of sympy.
"""

import common  # first: it sets the threads

import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from common import Figure

from gradcli.project.suite.config import read_suite
from gradcli.project.suite.job import job_of_check
from gradcli.project.suite.executors import Pool

TOPIC = "suites"
CHECKS = 1_000
MOSTLY = 0.97  # of the checks pass; a few expressions that are drawn lose digits, and are inconclusive
FORMS = (
    "sin({a}*x) + exp(-{b}*x**2)", "tanh({a}*x)*y", "log(1 + exp({a}*x)) - y*x", "sqrt(x**2 + {b})*y", "x*y/(1 + {a}*x**2)",
    "u = {a}*x; v = u + y; v**2", "exp(-{b}*x)*cos(y)", "x**3 - {a}*x*y + y**2", "arctan(x*y) + {a}*x", "logaddexp({a}*x, y)",
)  # fmt: skip


UNARY = ("sin({})", "exp(-{})", "tanh({})", "log(1 + {}**2)", "sqrt(1 + {}**2)", "arctan({})", "cos({})", "{}**3")
BINARY = ("{} + {}", "{}*{}", "{} - {}", "{}/(2 + {}**2)")
MODELS = """
import numpy as np

def decay(rate):
    def f(x, y):
        return np.exp(-rate*x)*y
    return f

def decay_grad(rate):
    def g(x, y):
        e = np.exp(-rate*x)
        return -rate*e*y, e
    return g

class Well:
    def __init__(self, depth):
        self.depth = depth

    def energy(self, x, y):
        total = 0.0
        for v in (x, y):
            total += self.depth*(v*v - 1)**2
        return total

    def slope(self, x, y):
        return tuple(4*self.depth*v*(v*v - 1) for v in (x, y))

def loss(x, y):
    r = np.array([x - y, x*y])
    return np.sum(r**2)

def loss_grad(x, y):
    return {"x": 2*(x - y) + 2*x*y*y, "y": -2*(x - y) + 2*x*x*y}

"""


def forms(draw: random.Random, k: int) -> tuple[str, str]:
    """Return one of ten expressions with other numbers, and a point."""
    a, b, x, y = (round(draw.uniform(0.5, 2.0), 3) for _ in range(4))
    text = FORMS[k % len(FORMS)].format(a=a, b=b)
    return f"target = {json.dumps(text)}", f"x={x}, y={y}" if "y" in text else f"x={x}"


def distinct(draw: random.Random, k: int) -> tuple[str, str]:
    """Return an expression in x and y, of which no other has the form, and a point."""

    def nested(depth: int) -> str:
        if not depth:
            return draw.choice(("x", "y", str(round(draw.uniform(0.3, 2), 3))))
        if draw.random() < 0.5:
            return draw.choice(UNARY).format(nested(depth - 1))
        return "(" + draw.choice(BINARY).format(nested(depth - 1), nested(depth - 1)) + ")"

    text = f"x*y + {nested(3)}"
    return f"target = {json.dumps(text)}", f"x={draw.uniform(0.5, 2):.3f}, y={draw.uniform(0.5, 2):.3f}"


def python(draw: random.Random, k: int) -> tuple[str, str]:
    """Return a function of models.py and its gradient, and a point."""
    pairs = ((f"f{k}", f"g{k}"), (f"w{k}.energy", f"w{k}.slope"), ("loss", "loss_grad"))
    f, grad = pairs[k % 3]
    target = f'target = "models.py:{f}"\ngrad = "{grad}"'
    return target, f"x={draw.uniform(0.5, 2):.3f}, y={draw.uniform(0.5, 2):.3f}"


def written(folder: Path, kind: Callable[[random.Random, int], tuple[str, str]], count: int) -> Path:
    draw = random.Random(0)
    checks = []
    for k in range(count):
        target, at = kind(draw, k)
        checks.append(f"[[check]]\nid = {json.dumps(f'e{k}')}\n{target}\nat = {json.dumps(at)}\n")
    made = [f"f{k}, g{k}, w{k} = decay({k / 1000}), decay_grad({k / 1000}), Well({1 + k / 1000})" for k in range(count)]
    (folder / "models.py").write_text(MODELS + "\n".join(made))
    (folder / "gradcli.toml").write_text("".join(checks))
    return folder / "gradcli.toml"


def ready(path: Path, workers: int) -> float:
    """Return the seconds that workers take for all checks, from the moment they are ready."""
    suite = read_suite(path)
    with Pool(workers) as pool:
        pool.wait_until_ready()
        start = time.perf_counter()
        passed = sum(
            answer.document.get("verdict") == "pass"
            for _, answer in pool.run(job_of_check(suite, c) for c in suite.checks)
        )
        seconds = time.perf_counter() - start
    assert passed >= MOSTLY * len(suite.checks), passed
    return seconds


def whole(folder: Path, workers: int) -> float:
    """Return the seconds of the whole command."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "gradcli", "check", "-q", "-n", str(workers)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - start


def figures(rounds: int) -> Iterator[Figure]:
    del rounds  # a thousand checks are an average already
    with tempfile.TemporaryDirectory() as name:
        folder, each = Path(name), {}
        for kind in (python, distinct, forms):
            each[kind.__name__] = 1e3 * ready(written(folder, kind, CHECKS), 1) / CHECKS
        yield Figure(TOPIC, "one of 1,000 checks, one worker", max(each.values()), "ms", 8, each)
        one, two = each["forms"] * CHECKS / 1e3, ready(folder / "gradcli.toml", 2)
        yield Figure(TOPIC, "two workers over one, once ready", one / two, "times", 1.8, least=True)
        one, two = whole(folder, 1), whole(folder, 2)
        yield Figure(TOPIC, "two workers over one, the whole command", one / two, "times", 1.5, least=True)
        small = {}
        for count in (10, 100, 1_000):
            small[f"{count:,} checks, ms each"] = 1e3 * ready(written(folder, forms, count), 1) / count
        yield Figure(
            TOPIC,
            "growth of a suite",
            small["1,000 checks, ms each"] / small["100 checks, ms each"],
            "times",
            None,
            small,
        )


if __name__ == "__main__":
    common.main(figures, __doc__)
