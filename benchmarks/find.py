"""How many hand-written gradients of released packages `gradcli find` finds, and how many that it finds are none.

    python benchmarks/find.py FOLDER [--packages sklearn,statsmodels,entmax] [--quiet]

FOLDER is the one that the packages were installed into (`pip install --no-deps --target FOLDER scikit-learn==1.9.1
statsmodels==0.15.0 entmax==1.3`); no code of theirs is run. The lists in `benchmarks/find/` were made by hand. It prints the
time, what is found, recall and precision, and what is missed and what should not be found.
"""

import argparse
import os
import time
from pathlib import Path

from gradcli.project.discovery.reader import find_gradients

LISTS = Path(__file__).resolve().parent / "find"


def by_hand(package: str) -> set[str]:
    lines = (LISTS / f"{package}.txt").read_text(encoding="utf-8").splitlines()
    return {line for line in lines if line and not line.startswith("#")}


def measured(package: str, quiet: bool) -> None:
    started = time.perf_counter()
    findings = find_gradients([package])
    seconds = time.perf_counter() - started
    found = {f"{gradient.file}:{gradient.name}" for gradient in findings.gradients if "/test" not in gradient.file}
    wanted = by_hand(package)
    right = len(found & wanted)
    print(
        f"{package}: {seconds:.1f} s, {len(found)} found, {len(wanted)} by hand, recall {right / len(wanted):.3f}, "
        f"precision {right / max(1, len(found)):.3f}, {len(findings.unreadable)} unreadable"
    )
    if not quiet:
        for name in sorted(wanted - found):
            print(f"  missed  {name}")
        for name in sorted(found - wanted):
            print(f"  extra   {name}")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("folder")
    options.add_argument("--packages", default="sklearn,statsmodels,entmax")
    options.add_argument("--quiet", action="store_true")
    given = options.parse_args()
    os.chdir(given.folder)
    for package in given.packages.split(","):
        measured(package, given.quiet)


if __name__ == "__main__":
    main()
