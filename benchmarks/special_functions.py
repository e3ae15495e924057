"""The primitives of scipy.special at random arguments, inside and outside of their domains, against mpmath.

    python benchmarks/special_functions.py [--places 20000] [--modes reverse,certified] [--functions NAME,..] [--jobs 2] [--json]

Arguments are ordinary, from 0 to 1, huge and tiny (1e-300 to 1e300), whole, half a whole, and floats beside whole numbers, of
either sign; orders are whole, negative, half a whole, and any. The truth is mpmath's: difference quotients of its values with
steps of 1e-30 and 1e-38, with 90 digits and more until two numbers of digits agree. A slope is

    right    within 1e-6 of the truth and 8 times what the truth moves by on the way to the neighbouring floats; at an edge of
             the domain and at a kink, also between the one-sided slopes; inf and 0 where the truth is beyond float64;
    refused  nan, inf where the truth is finite, or an error;
    wrong    anything else, so also a number where the function has no derivative.

Values are judged alike. mpmath says nothing within 2 seconds of some places; they are counted as unknown. (Needs the test
packages.)
"""

import argparse
import json
import signal
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import common
import numpy as np

from gradcli.tracing.primitive import PRIMITIVES
from gradcli.errors import GradcliError
from gradcli.arithmetic.dual import jvp
from gradcli.arithmetic.recorded_program import vjp
from gradcli.modes.mode import Question
from gradcli.modes.registry import MODES
from gradcli.request.point import Point
from gradcli.rules.special import LateFunction
from tests.rules.judging import Judgement, Place, as_function_has_it, judged, places
from tests.rules.references import REFERENCES, NoReference

PATIENCE = 2.0  # seconds for mpmath at one place
ORDERS_OF_DERIVATIVES = {"polygamma": ({"n": 1}, {"n": 2}, {"n": 3})}
SHOWN = 10  # of the wrong ones


class TooLong(Exception):
    """mpmath takes longer than its patience."""


@dataclass
class Tally:
    """What was found of one primitive: how often what, by mode, and the wrong ones."""

    name: str
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    unknown: int = 0
    wrong: list[str] = field(default_factory=list)


@dataclass
class Alone:
    """A primitive as a function of one input, for the modes."""

    place: Place
    kind: str = "primitive"
    inputs: tuple[str, ...] = ("x",)
    outputs: tuple[str, ...] = ()
    seconds: float | None = None

    @property
    def text(self) -> str:
        return self.place.row.name

    def __call__(self, values: Any) -> Any:
        return self.place.function(values["x"])

    def survey(self, values: Any) -> tuple[Any, list[Any]]:
        return self(values), []


def names() -> list[str]:
    """Return the primitives that are functions of scipy.special; numpy's own are left out."""
    return [
        n for n, row in PRIMITIVES.items() if n in REFERENCES and (isinstance(row.fun, LateFunction) or n in OWN_CODE)
    ]


OWN_CODE = {"digamma", "polygamma"}  # around scipy's functions


def slope_of(mode: str, place: Place) -> float:
    """Return a slope, nan where it is refused."""
    x = np.float64(place.xs[place.i])
    try:
        if mode == "value":
            return float(place.function(x))
        if mode == "reverse":
            return float(vjp(place.function, [x])[1](np.float64(1))[0])
        if mode == "forward":
            return float(jvp(place.function, [x], [np.float64(1)])[1])
        found = MODES[mode].gradient(Question(Alone(place), Point({"x": x}), ("x",)))
        return float(found.value["x"])
    except GradcliError:
        return float("nan")


def measured(task: tuple[str, int, Sequence[str]]) -> Tally:
    """Return what was found of one primitive."""
    name, count, modes = task
    row, tally = PRIMITIVES[name], Tally(name)
    signal.signal(signal.SIGALRM, _too_long)
    families = ORDERS_OF_DERIVATIVES.get(name, ({},))
    with np.errstate(all="ignore"):
        for k, place in enumerate(p for params in families for p in places(row, params, -(-count // len(families)))):
            if k < count:
                try:
                    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
                    found = list(_judged_in(place, modes))
                except (NoReference, TooLong):
                    tally.unknown += 1
                    continue
                finally:
                    signal.setitimer(signal.ITIMER_REAL, 0)
                for mode, judgement, says in found:
                    tally.counts.setdefault(mode, Counter())[judgement.value] += 1
                    if judgement is Judgement.WRONG:
                        tally.wrong.append(f"{mode}: {says}")
    return tally


def _judged_in(place: Place, modes: Sequence[str]) -> Iterator[tuple[str, Judgement, str]]:
    found = {mode: slope_of(mode, place) for mode in ("value", *modes)}
    if np.all(np.isnan(list(found.values()))):
        yield from ((mode, Judgement.REFUSED, "") for mode in found)
        return
    right = as_function_has_it(place, found["value"])
    for mode, number in found.items():
        judgement = judged(number, place, right, of_value=mode == "value")
        truth = right.value if mode == "value" else right.right if right.left is None else right.left
        at = ", ".join(f"{x!r}" for x in place.xs)
        params = "".join(f", {k}={v}" for k, v in place.params.items())
        says = "none" if truth is None else f"{float(truth):.10g}"
        yield (
            mode,
            judgement,
            f"{place.row.name}({at}{params}) by argument {place.i}: {number:.10g}, the truth is {says}",
        )


def _too_long(*_: Any) -> None:
    raise TooLong


def table(tallies: Sequence[Tally], modes: Sequence[str]) -> str:
    """Return the counts as a table in Markdown."""
    columns = ["value", *modes]
    rows = ["| primitive | " + " | ".join(f"{mode}: right | refused | wrong" for mode in columns) + " | unknown |"]
    rows.append("| --- |" + " ---: |" * (3 * len(columns) + 1))
    total = Tally(
        "**all**", {mode: sum((t.counts.get(mode, Counter()) for t in tallies), Counter()) for mode in columns}
    )
    total.unknown = sum(t.unknown for t in tallies)
    for tally in (*tallies, total):
        cells = [str(tally.counts.get(mode, Counter())[j.value]) for mode in columns for j in Judgement]
        rows.append(f"| {tally.name} | {' | '.join(cells)} | {tally.unknown} |")
    return "\n".join(rows)


def main() -> None:
    """Print the table and the wrong ones; wrong slopes are status 1."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--places", type=int, default=20_000)
    parser.add_argument("--modes", default="reverse,certified")
    parser.add_argument("--functions", default="")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    chosen = [n for n in args.functions.split(",") if n] or names()
    modes = args.modes.split(",")
    count = -(-args.places // len(chosen))
    with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn")) as pool:
        tallies = []
        for tally in pool.map(measured, [(name, count, modes) for name in chosen]):
            print(f"{tally.name}: {len(tally.wrong)} wrong, {tally.unknown} unknown", file=sys.stderr, flush=True)
            tallies.append(tally)
    if args.json:
        document = [{"primitive": t.name, "counts": t.counts, "unknown": t.unknown, "wrong": t.wrong} for t in tallies]
        json.dump({"environment": common.environment(), "primitives": document}, sys.stdout, indent=2)
        print()
    else:
        print(table(tallies, modes))
        for tally in tallies:
            for line in tally.wrong[:SHOWN]:
                print(f"wrong, {line}")
        print("\n" + ", ".join(f"{name} {version}" for name, version in common.environment().items()))
    sys.exit(int(any(not line.startswith("value") for tally in tallies for line in tally.wrong)))


if __name__ == "__main__":
    main()
