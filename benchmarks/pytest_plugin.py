"""What pytest-gradcli costs a session of pytest that checks no gradient: with it, over `-p no:gradcli`.

    python benchmarks/pytest_plugin.py [--rounds 15] [--json]

Sessions are interleaved, and figures are medians of paired differences and ratios. Each is a process of its own, so that
its start is included; it collects one file without tests. Plugins that many have beside it are left out of both.
"""

import common  # first: it sets the threads

import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from common import Figure

TOPIC = "pytest"
OTHERS = ("no:cacheprovider", "no:hypothesispytest", "no:xdist")
COMMAND = [sys.executable, "-m", "pytest", "-q", "test_empty.py", *(word for name in OTHERS for word in ("-p", name))]
NO_TESTS = 5  # pytest's exit status where there are none


def session(folder: Path, *more: str) -> None:
    done = subprocess.run([*COMMAND, *more], cwd=folder, capture_output=True, text=True)
    if done.returncode != NO_TESTS:
        raise RuntimeError(done.stdout + done.stderr)


def figures(rounds: int) -> Iterator[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "test_empty.py").write_text("")
        runs = {"with": lambda: session(folder), "without": lambda: session(folder, "-p", "no:gradcli")}
        took = common.times(runs, rounds)
    cost = statistics.median(a - b for a, b in zip(took["with"], took["without"], strict=True))
    alone = 1e3 * common.medians(took)["without"]
    yield Figure(TOPIC, "pytest-gradcli in a session without a check", 1e3 * cost, "ms", 30, {"pytest alone": alone})
    ratio = 1 / common.ratios(took, "with")["without"]
    yield Figure(TOPIC, "the same session with it over without it", ratio, "times")


if __name__ == "__main__":
    common.main(figures, __doc__)
