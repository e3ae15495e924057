"""Failures: how much longer a FAIL takes than a PASS, when its verdict is printed, and what it still says.

    python benchmarks/failures.py [--functions NAME,..] [--slips 2] [--programs 500] [--framework torch] [--show] [--json]

Each function of `trust/` (or random programs, or custom backward passes of a framework) is checked by the command line, with
its right gradient and with wrong ones. `ratio` is the processor time of the FAIL, all its processes included, over that of the PASS; `verdict` is
the time until the first line of the report, over the time of the whole PASS. Times hold within one run.
"""

import argparse
import inspect
import json
import os
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from common import Figure

ROOT = Path(__file__).resolve().parents[1]
TRUST = ROOT / "benchmarks" / "trust"
sys.path.insert(0, str(TRUST))

from run import all_cases

LIMIT = 240  # seconds, after which a command is ended
LONG = 30  # seconds of processor time, after which a command counts as one without an answer
CAUSE, EDIT = re.compile(r"Likely mistake|is wrong, as the repair"), re.compile(r"Repair:|Right:")


@dataclass(frozen=True)
class Group:
    """A right version of a module and wrong ones, each with its kind; the words after the file's name; and what else is saved."""

    name: str
    versions: list[tuple[str, str]]
    words: list[str]
    save: Callable[[Path], None]


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


def trust(chosen: set[str], slips: int) -> Iterator[Group]:
    """Yield each function of `trust/` with its right gradient, and with slips of the gradient's code."""
    for case in all_cases():
        if chosen and case.name not in chosen:
            continue
        function = inspect.unwrap(case.gradient)
        module, whole = Path(inspect.getsourcefile(function) or "").read_text(), inspect.getsource(function)
        made = [("", module)] + [
            (s.kind, module.replace(whole, whole.replace(s.old, s.new))) for s in case.slips[:slips]
        ]

        def save(folder: Path, at: dict[str, Any] = case.at) -> None:
            np.savez(folder / "point.npz", **at)

        words = [
            f":{case.f.__name__}",
            "--grad",
            case.gradient.__name__,
            "--at",
            "@point.npz",
            "--wrt",
            ",".join(case.at),
        ]
        yield Group(case.name, made, words, save)


def programs(count: int) -> Iterator[Group]:
    """Yield random programs, each with its right gradient and a wrong one."""
    from generated_programs import program

    for seed in range(count):
        made = program(seed)
        if made is not None:
            texts = [("", made.text.replace(".wrong\n", ".right\n")), ("planted", made.text)]
            yield Group(f"program {seed}", texts, [":loss", "--grad", "wrong", made.point], lambda folder: None)


def corpus(framework: str, slips: int) -> Iterator[Group]:
    """Yield the custom backward passes of a framework's corpus, right and wrong."""
    from frameworks_corpus import tools

    head = f"import sys\nsys.path[:0] = [{str(ROOT / 'benchmarks')!r}, {str(ROOT)!r}]\nfrom frameworks_corpus import tools\n"
    for number, case in enumerate(tools(framework)[0]):
        body = f"case = tools({framework!r})[0][{number}]\n"
        at = "POINT = {'xs': tuple(case.inputs.values())}\n"
        if framework == "jax":
            head_ = head + "from tests.frameworks.corpus.programs import jax_program as made\n"
            at = "POINT = dict(case.inputs)\n"
        else:
            head_ = head + "made = lambda custom: custom\n"
        texts = [("", f"{head_}{body}{at}f = made(case.right)\n")]
        for k, says in list(enumerate(case.wrong))[:slips]:
            texts.append((says, f"{head_}{body}{at}f = made(list(case.wrong.values())[{k}])\n"))
        expect = ["--expect", ",".join(case.expect)] if case.expect else []
        yield Group(case.name, texts, [":f", "--at", "POINT", "--framework", framework, *expect], lambda folder: None)


def measured(group: Group, gradcli: list[str]) -> list[tuple[str, Ran, Ran]]:
    """Return the wrong versions of a group that fail or have no end, each with its run and that of the right one."""
    with tempfile.TemporaryDirectory() as folder:
        group.save(Path(folder))
        runs = []
        for k, (kind, text) in enumerate(group.versions):
            (Path(folder) / f"version{k}.py").write_text(text)
            words = [f"version{k}.py{group.words[0]}", *group.words[1:]]
            runs.append((kind, run([*gradcli, "check", *words], folder)))
    return [(kind, ran, runs[0][1]) for kind, ran in runs[1:] if ran.status in (1, None)]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", default="", help="of trust/, by name; all unless given")
    parser.add_argument("--slips", type=int, default=2, help="wrong versions of each")
    parser.add_argument("--programs", type=int, default=0, help="so many random programs instead")
    parser.add_argument("--framework", choices=("torch", "jax"), help="the corpus of a framework instead")
    parser.add_argument("--gradcli", default=f"{sys.executable} -m gradcli")
    parser.add_argument("--show", action="store_true", help="every failure")
    parser.add_argument("--json", action="store_true", help="the figures for run_all.py")
    parser.add_argument("--rounds", help="taken from run_all.py: a command runs once")
    args = parser.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(TRUST), os.environ.get("PYTHONPATH"))))
    if args.programs:
        groups = programs(args.programs)
    elif args.framework:
        groups = corpus(args.framework, args.slips)
    else:
        groups = trust({name.strip() for name in args.functions.split(",") if name.strip()}, args.slips)
    ratios, firsts, named, edited, endless, late = [], [], 0, 0, 0, 0
    for group in groups:
        for kind, ran, right in measured(group, shlex.split(args.gradcli)):
            endless += ran.status is None or ran.processor > LONG
            late += "reached its time limit" in ran.text
            ratios.append(ran.processor / right.processor)
            firsts.append(ran.first / right.whole)
            named += bool(CAUSE.search(ran.text))
            edited += bool(EDIT.search(ran.text))
            if args.show:
                marks = ("named " if CAUSE.search(ran.text) else "") + ("edited" if EDIT.search(ran.text) else "")
                times = f"{ratios[-1]:5.1f}  {right.processor:5.2f} s  {firsts[-1]:5.2f}"
                print(f"{times}  {group.name:34} {kind[:40]:40} {marks}", flush=True)
    if not ratios:
        raise SystemExit("nothing failed")
    median, largest = statistics.median(ratios), max(ratios)
    if args.json:
        work = f"a FAIL over the PASS of the same function, {len(ratios)} slips"
        peers = {
            "largest": largest,
            "named, %": 100 * named / len(ratios),
            "with an edit, %": 100 * edited / len(ratios),
        }
        figure = Figure("failures", work, median, "of its processor time", 3, peers)
        print(json.dumps({"figures": [asdict(figure)]}))
        return
    print(f"{len(ratios)} failures: processor time over that of the PASS, median {median:.2f}, largest {largest:.1f}")
    print(
        f"time to the verdict over that of the PASS: median {statistics.median(firsts):.2f}, largest {max(firsts):.2f}"
    )
    print(f"{named / len(ratios):.0%} named, {edited / len(ratios):.0%} with an edit or a closed form")
    print(
        f"{endless} without an answer in {LONG} s of processor time; the time limit of the search was reached {late} times"
    )


if __name__ == "__main__":
    main()
