"""The default tests: their processor time, that of all their processes included, and how long they take.

    python benchmarks/default_tests.py [--json]

It needs the test packages. Once is enough: a round takes minutes.
"""

import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import common
from common import Figure

ROOT = Path(__file__).resolve().parents[1]


def figures(rounds: int) -> Iterator[Figure]:
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "pytest", "-q"], cwd=ROOT, stdout=subprocess.DEVNULL, check=True)
    took, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    yield Figure("tests", "the default tests", took, "s", 180, {"processor time, s": used.ru_utime + used.ru_stime})


if __name__ == "__main__":
    common.main(figures, __doc__)
