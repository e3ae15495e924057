"""A suite of 1,000 expressions: milliseconds a check on one worker, and how much faster two workers are.

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
from collections.abc import Iterator
from pathlib import Path

from common import Figure

from gradcli.suite.config import read_suite
from gradcli.suite.job import job_of
from gradcli.suite.pool import Pool

TOPIC = "suites"
CHECKS = 1_000
FORMS = (
    "sin({a}*x) + exp(-{b}*x**2)", "tanh({a}*x)*y", "log(1 + exp({a}*x)) - y*x", "sqrt(x**2 + {b})*y", "x*y/(1 + {a}*x**2)",
    "u = {a}*x; v = u + y; v**2", "exp(-{b}*x)*cos(y)", "x**3 - {a}*x*y + y**2", "arctan(x*y) + {a}*x", "logaddexp({a}*x, y)",
)  # fmt: skip


def written(folder: Path, count: int) -> Path:
    draw = random.Random(0)
    checks = []
    for k in range(count):
        a, b, x, y = (round(draw.uniform(0.5, 2.0), 3) for _ in range(4))
        text = FORMS[k % len(FORMS)].format(a=a, b=b)
        at = f"x={x}, y={y}" if "y" in text else f"x={x}"
        checks.append(f"[[check]]\nid = {json.dumps(f'e{k}')}\ntarget = {json.dumps(text)}\nat = {json.dumps(at)}\n")
    (folder / "gradcli.toml").write_text("".join(checks))
    return folder / "gradcli.toml"


def ready(path: Path, workers: int) -> float:
    """Return the seconds that workers take for all checks, from the moment they are ready."""
    suite = read_suite(path)
    with Pool(workers) as pool:
        pool.wait_until_ready()
        start = time.perf_counter()
        passed = sum(
            answer.document["verdict"] == "pass" for _, answer in pool.run(job_of(suite, c) for c in suite.checks)
        )
        seconds = time.perf_counter() - start
    assert passed == len(suite.checks)
    return seconds


def whole(folder: Path, workers: int) -> float:
    """Return the seconds of the whole command."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "gradcli", "check", "--no-cache", "-q", "-n", str(workers)]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return time.perf_counter() - start


def figures(rounds: int) -> Iterator[Figure]:
    del rounds  # a thousand checks are an average already
    with tempfile.TemporaryDirectory() as name:
        path = written(Path(name), CHECKS)
        one, two = ready(path, 1), ready(path, 2)
        yield Figure(TOPIC, "one of 1,000 checks, one worker", 1e3 * one / CHECKS, "ms", 10)
        yield Figure(TOPIC, "two workers over one, once ready", one / two, "times", 1.8, least=True)
        one, two = whole(Path(name), 1), whole(Path(name), 2)
        yield Figure(TOPIC, "two workers over one, the whole command", one / two, "times", 1.5, least=True)


if __name__ == "__main__":
    common.main(figures, __doc__)
