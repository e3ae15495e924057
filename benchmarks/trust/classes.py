"""Trust by generated classes: functions with kinks, caches, symmetry and fine structure, and claims whose truth is known.

    python benchmarks/trust/classes.py [--classes kinks,memo,symmetry,fine] [--cases N] [--jobs 2] [--seed S]
        [--families] [--list] [--json] [--markdown]

What is true comes from exact formulas and mpmath, never from gradcli. Three counts should be 0: right claims with status
1, wrong claims that pass although their error is beyond what the pass says it sees, and subgradients that pass without
a word of the kink.
"""

import argparse
import dataclasses
import importlib
import json
import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
sys.path.insert(0, str(Path(__file__).resolve().parent))

import table
from generated import Answer, asked

CLASSES = {
    "kinks":    ("kinks at mixed scales", "generated_kinks"),
    "memo":     ("memo",                  "generated_memo"),
    "symmetry": ("symmetric kinks",       "generated_symmetry"),
    "fine":     ("fine structure",        "generated_fine"),
}  # fmt: skip
MOST_JOBS = 2
TOGETHER = 20  # cases that a process takes at a time

Rows = list[tuple[str, ...]]


def answers(name: str, numbers: Sequence[int], seed: int) -> list[Answer]:
    """Return what gradcli says of every claim of these cases of a class."""
    module = importlib.import_module(CLASSES[name][1])
    return [answer for number in numbers for answer in asked(module.generated(number, seed))]


def all_answers(names: Sequence[str], cases: int | None, jobs: int, seed: int) -> dict[str, list[Answer]]:
    """Return the answers by class; without a number of cases, those of each class."""
    works = []
    for name in names:
        count = cases or importlib.import_module(CLASSES[name][1]).COUNT
        works += [(name, range(k, min(k + TOGETHER, count)), seed) for k in range(0, count, TOGETHER)]
    found: dict[str, list[Answer]] = {name: [] for name in names}
    for (name, _, _), some in zip(works, _mapped(works, jobs), strict=True):
        found[name] += some
    return found


def _mapped(works: list[tuple[str, range, int]], jobs: int) -> Iterator[list[Answer]]:
    if jobs == 1:
        yield from (answers(*work) for work in works)
        return
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from pool.map(answers, *zip(*works, strict=True))


def named(name: str, answer: Answer) -> bool:
    """Whether an answer says why the claim was not passed: by a diagnosis, or by a finding of the class."""
    if answer.verdict == "pass":
        return False
    reasons = importlib.import_module(CLASSES[name][1]).NAMES
    return bool(answer.diagnosis) or bool(reasons & {*answer.findings})


HEAD = (
    "", "functions", "right claims", "**status 1**", "pass", "inconclusive", "status 2", "**silent**", "wrong claims",
    "status 1", "**passed**", "within its limit", "inconclusive", "status 2", "named",
)  # fmt: skip


def row(title: str, name: str, found: Sequence[Answer]) -> tuple[str, ...]:
    """Return the counts of some answers."""
    right = [a for a in found if a.truth in ("right", "subgradient")]
    wrong = [a for a in found if a.truth == "wrong"]
    count = lambda answers, holds: str(sum(map(holds, answers)))
    verdict: Callable[[str], Callable[[Answer], bool]] = lambda word: lambda a: a.verdict == word
    return (
        title, str(len({a.function for a in found})), str(len(right)), count(right, lambda a: a.status == 1),
        count(right, verdict("pass")), count(right, verdict("inconclusive")), count(right, verdict("error")),
        count(right, lambda a: a.silent), str(len(wrong)), count(wrong, lambda a: a.status == 1),
        count(wrong, lambda a: a.missed), count(wrong, lambda a: a.verdict == "pass" and not a.missed),
        count(wrong, verdict("inconclusive")), count(wrong, verdict("error")), count(wrong, lambda a: named(name, a)),
    )  # fmt: skip


def rows(found: dict[str, list[Answer]], families: bool = False) -> Rows:
    """Return a row a class, or a row a family."""
    made: Rows = [HEAD]
    for name, some in found.items():
        title = CLASSES[name][0]
        made.append(row(title, name, some))
        for family in dict.fromkeys(a.family for a in some) if families else ():
            made.append(row(f"{title}: {family}", name, [a for a in some if a.family == family]))
    return made


def listed(found: dict[str, list[Answer]]) -> Iterator[str]:
    """Yield the answers that should not be."""
    for name, some in found.items():
        for a in some:
            false = a.truth in ("right", "subgradient") and a.status == 1
            word = (
                "false alarm"
                if false
                else "passed"
                if a.missed
                else "silent"
                if a.silent
                else "error" * (a.status == 2)
            )
            if word:
                limit = "" if a.detects is None else f", sees {a.detects:.0e}"
                yield f"{word}: {name}: {a.family}: {a.function}: {a.says} (off by {a.error:.1e}{limit}): {a.message}"


def shown(found: dict[str, list[Answer]], args: argparse.Namespace) -> None:
    """Print the answers as the options ask."""
    if args.json:
        for name, some in found.items():
            for a in some:
                print(
                    json.dumps(
                        {"class": CLASSES[name][0], **dataclasses.asdict(a), "missed": a.missed, "silent": a.silent}
                    )
                )
        return
    made = rows(found, args.families)
    print(table.markdown(made) if args.markdown else table.text(made))
    if args.list:
        print("", *listed(found), sep="\n")


def jobs(text: str) -> int:
    """Return a number of processes. Raises ArgumentTypeError beyond two."""
    if text not in map(str, range(1, MOST_JOBS + 1)):
        raise argparse.ArgumentTypeError(f"one process or {MOST_JOBS}")
    return int(text)


def parser(about: str | None) -> argparse.ArgumentParser:
    """Return the options that scripts of generated classes share."""
    found = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    found.add_argument("--jobs", type=jobs, default=MOST_JOBS, help="processes, 1 or 2")
    found.add_argument("--seed", type=int, default=0)
    found.add_argument("--families", action="store_true", help="also a row for each family")
    found.add_argument("--list", action="store_true", help="also the answers that should not be")
    found.add_argument("--json", action="store_true", help="every answer as a line of JSON")
    found.add_argument("--markdown", action="store_true", help="tables as markdown")
    return found


def main() -> None:
    """Print the table of the classes."""
    options = parser(__doc__)
    options.add_argument("--classes", default=",".join(CLASSES), help="some of them")
    options.add_argument("--cases", type=int, help="functions of each class; what each class has unless given")
    args = options.parse_args()
    names = args.classes.split(",")
    if not set(names) <= set(CLASSES):
        options.error(f"--classes does not know {', '.join(sorted(set(names) - set(CLASSES)))}")
    shown(all_answers(names, args.cases, args.jobs, args.seed), args)


if __name__ == "__main__":
    main()
