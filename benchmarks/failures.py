"""Failures: how much longer a FAIL takes than a PASS, when its verdict is printed, and what it still says.

    python benchmarks/failures.py [--functions NAME,..] [--slips 2] [--gradcli "gradcli"] [--show]

Each function of `trust/` is checked as the command line does, with its right gradient and with slips of its code, each command in a
process of its own. `ratio` is the processor time of the FAIL, all its processes included, over that of the PASS; `verdict` is
the time until the first line of the report, over the time of the whole PASS. Times hold within one run.
"""

import argparse
import inspect
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

TRUST = Path(__file__).parent / "trust"
sys.path.insert(0, str(TRUST))

from cases import Case
from run import all_cases

LIMIT = 240  # seconds, after which a command counts as one without an end
CAUSE, EDIT = re.compile(r"Likely mistake|is wrong, as the repair"), re.compile(r"Repair:|Right:")


@dataclass(frozen=True)
class Ran:
    """What one command did: its status, processor time, time to the first line and to the end, in seconds."""

    status: int | None
    processor: float
    first: float
    whole: float
    text: str


def run(command: list[str], folder: str) -> Ran:
    """Run a command, and end it if it has no end."""
    start = time.perf_counter()
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=errors, start_new_session=True)
        killer = subprocess.Popen(["sleep", str(LIMIT)])
        first, text = None, b""
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        while True:
            piece = process.stdout.read()
            if piece:
                first = first or time.perf_counter() - start
                text += piece
            elif piece == b"":
                break
            if killer.poll() is not None:
                os.killpg(process.pid, 9)
                break
            time.sleep(0.002)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = 0
        killer.kill()
        killer.wait()
    whole = time.perf_counter() - start
    code = os.waitstatus_to_exitcode(status)
    return Ran(None if code == -9 else code, used.ru_utime + used.ru_stime, first or whole, whole, text.decode())


def measured(case: Case, slips: int, gradcli: list[str]) -> list[tuple[str, Ran, Ran]]:
    """Return the slips of a function that fail, each with its run and that of the right gradient."""
    function = inspect.unwrap(case.gradient)
    module, whole = Path(inspect.getsourcefile(function) or "").read_text(), inspect.getsource(function)
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "point.npz", **case.at)

        def check(text: str, name: str) -> Ran:
            (Path(folder) / f"{name}.py").write_text(text)
            target = [f"{name}.py:{case.f.__name__}", "--grad", case.gradient.__name__, "--at", "@point.npz"]
            return run([*gradcli, "check", *target, "--wrt", ",".join(case.at)], folder)

        right = check(module, "right")
        found = []
        for k, slip in enumerate(case.slips[:slips]):
            ran = check(module.replace(whole, whole.replace(slip.old, slip.new)), f"slipped{k}")
            if ran.status in (1, None):
                found.append((slip.kind, ran, right))
    return found


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", default="")
    parser.add_argument("--slips", type=int, default=2, help="of each function")
    parser.add_argument("--gradcli", default=f"{sys.executable} -m gradcli")
    parser.add_argument("--show", action="store_true", help="every failure")
    args = parser.parse_args()
    chosen = set(filter(None, args.functions.split(",")))
    cases = [case for case in all_cases() if not chosen or case.name in chosen]
    os.environ.setdefault("PYTHONPATH", str(TRUST))
    ratios, firsts, named, edited, endless = [], [], 0, 0, 0
    for case in cases:
        for kind, ran, right in measured(case, args.slips, shlex.split(args.gradcli)):
            endless += ran.status is None
            ratios.append(ran.processor / right.processor)
            firsts.append(ran.first / right.whole)
            named += bool(CAUSE.search(ran.text))
            edited += bool(EDIT.search(ran.text))
            if args.show:
                marks = ("named " if CAUSE.search(ran.text) else "") + ("edited" if EDIT.search(ran.text) else "")
                print(
                    f"{ratios[-1]:5.1f}  {right.processor:5.2f} s  {firsts[-1]:5.2f}  {case.name:34} {kind:16} {marks}",
                    flush=True,
                )
    count = max(len(ratios), 1)
    print(
        f"{len(ratios)} failures: processor time over that of the PASS, median {statistics.median(ratios):.2f}, largest {max(ratios):.1f}"
    )
    print(
        f"time to the verdict over that of the PASS: median {statistics.median(firsts):.2f}, largest {max(firsts):.2f}"
    )
    print(f"{named / count:.0%} named, {edited / count:.0%} with an edit or a closed form, {endless} without an end")


if __name__ == "__main__":
    main()
