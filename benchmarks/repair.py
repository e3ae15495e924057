"""Repairs: of the slips planted in the gradients of `trust/`, how many get the right patch, and how long that takes.

    python benchmarks/repair.py [--functions NAME,..] [--slips N] [--jobs 2] [--show]

Each slip is written into a copy of the module that holds the function, and checked as the command line does. A patch is right
if the patched gradient equals the right one, to 1e-9, at the point and at five near it, at five where all inputs are drawn
anew, and at two other sizes that f accepts; the search knows none of these points. Times are those of the whole check,
processes included; they hold within one run. `--slips` tries the first N slips of each function.
"""

import argparse
import contextlib
import inspect
import itertools
import re
import statistics
import sys
import tempfile
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

TRUST = Path(__file__).parent / "trust"
sys.path.insert(0, str(TRUST))

from cases import At, Case, Slip
from run import all_cases

from gradcli.derivation.right_answer import right_answer
from gradcli.repair.full_check import full_check
from gradcli.request.options import Options
from gradcli.modes.redraw import redraw_inputs, resize_inputs
from gradcli.targets.target_request import TargetRequest
from gradcli.checks.build import build_request

NEAR = 1e-9  # relative to the largest entry


@dataclass(frozen=True)
class Result:
    """What became of one slip."""

    name: str
    kind: str
    outcome: str  # repaired, WRONG, right here only, no patch, passed
    seconds: float
    says: str


def attempted(name: str, slips: int) -> list[Result]:
    """Repair the first slips of one function."""
    (case,) = (case for case in all_cases() if case.name == name)
    return [_attempt(case, slip) for slip in case.slips[:slips]]


def _attempt(case: Case, slip: Slip) -> Result:
    function = inspect.unwrap(case.gradient)
    module = Path(inspect.getsourcefile(function) or "").read_text()
    whole = inspect.getsource(function)
    slipped = module.replace(whole, whole.replace(slip.old, slip.new))
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        path = Path(folder) / f"slipped_{case.name}.py"
        path.write_text(slipped)
        np.savez(Path(folder) / "point.npz", **case.at)
        names = f"{path}:{case.f.__name__}", f"{path}:{case.gradient.__name__}"
        options = Options(grad=names[1], wrt=",".join(case.at))
        ask = TargetRequest(names[0], (f"@{folder}/point.npz",), options)
        start = time.perf_counter()
        report = full_check(build_request(ask), ask, right_answer)
        seconds = time.perf_counter() - start
        if report.verdict != "fail":
            return Result(case.name, slip.kind, "passed", 0.0, str(report.verdict))
        diagnosis = next((p.diagnosis for p in report.points if p.diagnosis is not None), None)
        if diagnosis is None:  # the time limit was reached
            return Result(case.name, slip.kind, "no patch", seconds, "no cause is shown")
        if not diagnosis.patch:
            here = getattr(diagnosis, "right_here_only", None)
            if isinstance(here, tuple):
                says = "; ".join(f"{e.before} -> {e.after}" for e in here)
                return Result(case.name, slip.kind, "right here only", seconds, says)
            return Result(case.name, slip.kind, "no patch", seconds, str(diagnosis.no_patch))
        edits = diagnosis.edits if isinstance(diagnosis.edits, tuple) else ()
        says = "; ".join(f"{e.before} -> {e.after}" for e in edits)
        good = _agrees(case, _applied(diagnosis.patch, slipped))
        return Result(case.name, slip.kind, "repaired" if good else "WRONG", seconds, says)


def _applied(patch: str, text: str) -> str:
    """Return the text after a unified diff of one file."""
    lines, out, at = text.splitlines(), [], 0
    parts = re.split(r"^@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@.*$\n?", patch, flags=re.M)[1:]
    for start, body in zip(parts[::2], parts[1::2], strict=True):
        first = int(start) - 1
        out += lines[at:first]
        at = first
        for line in body.splitlines():
            if line.startswith(("+", " ")):
                out.append(line[1:])
            at += line.startswith(("-", " "))
    return "\n".join(out + lines[at:]) + "\n"


def _agrees(case: Case, text: str) -> bool:
    scope: dict[str, Any] = {"__name__": "patched"}
    exec(compile(text, "patched", "exec"), scope)
    patched = scope[case.gradient.__name__]
    return all(_agrees_at(case, patched, at) for at in (*_near(case), *_redrawn(case), *_of_other_sizes(case)))


def _agrees_at(case: Case, patched: Callable[..., Any], at: At) -> bool:
    right = case.by_name(case.gradient(**at))
    try:
        made = case.by_name(patched(**at))
    except Exception:  # where the right gradient raises nothing
        return False
    return all(
        np.shape(made[name]) == np.shape(g)
        and np.allclose(made[name], g, rtol=NEAR, atol=NEAR * np.max(np.abs(g), initial=0.0))
        for name, g in right.items()
    )


def _near(case: Case) -> Iterator[At]:
    rng = np.random.default_rng(17)
    for number in range(6):
        yield {n: x if number == 0 else x * (1 + 0.05 * rng.uniform(-1, 1, np.shape(x))) for n, x in case.at.items()}


def _redrawn(case: Case) -> Iterator[At]:
    """Yield up to five points with all inputs drawn anew at which f and the right gradient are finite."""
    rng = np.random.default_rng(18)
    drawn = (redraw_inputs(case.at, [], rng) for _ in range(30))
    yield from itertools.islice((at for at in drawn if _accepts(case, at)), 5)


def _of_other_sizes(case: Case) -> Iterator[At]:
    """Yield points of up to two other sizes at which f and the right gradient are finite."""
    sized = (at for ways in resize_inputs(case.at, [], np.random.default_rng(19)) for at in ways if _accepts(case, at))
    yield from itertools.islice(sized, 2)


def _accepts(case: Case, at: At) -> bool:
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            values = case.f(**at), *case.by_name(case.gradient(**at)).values()
    except Exception:  # a size, or values, for which f is not made
        return False
    return all(np.all(np.isfinite(x)) for x in values)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=textwrap.dedent(__doc__ or ""))
    parser.add_argument("--functions", default="")
    parser.add_argument("--slips", type=int, default=1000, help="the first slips of each function alone")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="every slip, with its patch or why there is none")
    args = parser.parse_args()
    wanted = set(filter(None, args.functions.split(",")))
    names = [case.name for case in all_cases() if not wanted or case.name in wanted]
    results: list[Result] = []
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        for r in itertools.chain.from_iterable(pool.map(attempted, names, itertools.repeat(args.slips))):
            results.append(r)
            if args.show or r.outcome == "WRONG":
                print(f"{r.outcome:15} {r.seconds:5.1f} s  {r.name:32} {r.kind:16} {r.says[:150]}", flush=True)
    kinds = sorted({r.kind for r in results})
    for kind in kinds:
        own = [r for r in results if r.kind == kind and r.outcome != "passed"]
        print(f"{kind:24} {sum(r.outcome == 'repaired' for r in own):4} of {len(own)}")
    failed = [r for r in results if r.outcome != "passed"]
    counts = {
        word: sum(r.outcome == word for r in results)
        for word in ("repaired", "WRONG", "right here only", "no patch", "passed")
    }
    share = counts["repaired"] / max(len(failed), 1)
    median = statistics.median([r.seconds for r in failed] or [0.0])
    shown = counts["repaired"] + counts["WRONG"]
    print(f"{shown} repairs are shown, {counts['WRONG']} of them wrong at a redrawn point or another size (goal 0)")
    print(
        f"{counts}; repaired {share:.0%} of {len(failed)}; median {median:.2f} s, largest {max([r.seconds for r in failed] or [0.0]):.1f} s"
    )


if __name__ == "__main__":
    main()
