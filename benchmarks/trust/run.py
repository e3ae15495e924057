"""Trust: right gradients that checkers reject, wrong ones that they accept, and mistakes that gradcli names.

    python benchmarks/trust/run.py [--functions NAME,..] [--kinds KIND,..] [--peers gradcli,torch,..] [--jobs 2]
        [--modes MODES] [--unnamed] [--json] [--markdown]

Every function has a hand-written gradient, which is checked as it is and with mistakes planted in it. Checkers run at their
defaults, on one machine and one thread; those that are not installed are left out. Times hold within one run.
"""

import argparse
import functools
import importlib
import json
import multiprocessing
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import table
from cases import Case
from mistakes import Planted, planted
from peers import TITLES, ask, installed


def all_cases() -> list[Case]:
    """Return the cases of every module `functions_*` beside this one."""
    modules = sorted(path.stem for path in Path(__file__).parent.glob("functions_*.py"))
    return [case for name in modules for case in importlib.import_module(name).CASES]


def mistakes_of(case: Case, kinds: frozenset[str]) -> list[Planted]:
    """Return the mistakes of these kinds, or all; say which slips have no effect."""
    found = list(planted(case))
    for one in found:
        if one.size == "none":
            print(f"{case.name}: the slip {one.says} ({one.kind}) changes nothing here", file=sys.stderr)
    return [one for one in found if one.size != "none" and (not kinds or one.kinds & kinds)]


def measured(name: str, checkers: Sequence[str], kinds: frozenset[str], modes: str | None) -> list[table.Result]:
    """Ask every checker about every claim of one function."""
    (case,) = (case for case in all_cases() if case.name == name)
    found, start = [], time.perf_counter()
    for checker in checkers:  # what is imported and compiled once is not counted
        ask(checker, case, case.gradient, modes)
    claims = [(None, case.gradient), *((one, one.claim) for one in mistakes_of(case, kinds))]
    for one, claim in claims:
        found += [table.result(checker, name, one, ask(checker, case, claim, modes)) for checker in checkers]
    if sys.stderr.isatty():
        print(f"{name}: {len(claims)} claims, {time.perf_counter() - start:.0f} s", file=sys.stderr)
    return found


def all_measured(names: Sequence[str], jobs: int, *more: Any) -> list[table.Result]:
    """Ask about every function, in as many processes as there are jobs."""
    measure = functools.partial(_measured, more)
    if jobs == 1:
        return [r for name in names for r in measure(name)]
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        return [r for found in pool.map(measure, names) for r in found]


def _measured(more: tuple[Any, ...], name: str) -> list[table.Result]:
    return measured(name, *more)


def options() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    listed = lambda text: [word for word in text.split(",") if word]
    parser.add_argument("--functions", type=listed, default=[], help="names of functions; all unless given")
    parser.add_argument("--kinds", type=listed, default=[], help="kinds of mistakes; all unless given")
    parser.add_argument("--peers", type=listed, default=list(TITLES), help=f"of {', '.join(TITLES)}")
    parser.add_argument("--modes", help="of gradcli's check; without symbolic it takes a fraction of the time")
    parser.add_argument("--jobs", type=int, default=1, help="processes, a function each; times are for one")
    parser.add_argument("--json", action="store_true", help="every result as a line of JSON")
    parser.add_argument("--markdown", action="store_true", help="tables as markdown")
    parser.add_argument("--unnamed", action="store_true", help="also the mistakes that gradcli did not name")
    args = parser.parse_args()
    unknown = set(args.peers) - set(TITLES)
    if unknown:
        parser.error(f"--peers does not know {', '.join(sorted(unknown))}")
    return args


def main() -> None:
    """Print the tables."""
    args = options()
    names = [case.name for case in all_cases() if not args.functions or case.name in args.functions]
    if not names:
        raise SystemExit("no function has one of these names")
    checkers = [name for name in args.peers if installed(name)]
    results = all_measured(names, args.jobs, checkers, frozenset(args.kinds), args.modes)
    if args.json:
        print("\n".join(json.dumps(r.as_json()) for r in results))
        return
    shown = table.markdown if args.markdown else table.text
    print(shown(table.checkers(results, len(names))))
    left_out = [TITLES[name] for name in args.peers if name not in checkers]
    if left_out:
        print(f"\nnot installed, left out: {', '.join(left_out)}")
    print("", *table.alarms(results), *table.accepted(results), sep="\n")
    if "gradcli" in checkers:
        print("", shown(table.kinds(results)), sep="\n")
    if args.unnamed:
        print("", shown(table.unnamed(results)), sep="\n")


if __name__ == "__main__":
    main()
