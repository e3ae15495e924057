"""How fast derivatives swell: sympy's formula, the same with common subexpressions, and gradcli's reverse program.

    python benchmarks/expression_swell.py [--rounds 5] [--json] [--plot FILE]

The iterated logistic map is l1 = x, l(k+1) = 4*lk*(1 - lk); depth n is ln, which applies the map n - 1 times. The product
is x1*...*xn, all n derivatives. Operations are counted exactly, times are medians of interleaved runs, in milliseconds from
nothing to the first value of the derivative; `--plot` writes an svg or png with matplotlib, the plot in the terminal needs
plotille, symengine is timed where it is installed.
"""

import argparse
import importlib.util
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import sympy
from sympy.core.cache import clear_cache

from gradcli.modes.mode import Question
from gradcli.request.point import Point
from gradcli.targets.derived import Gradient
from gradcli.targets.expression import Expression
from gradcli.targets.facts import Function
from gradcli.study.outline import operations_of_reverse

AGREE = 1e-6  # relative: rounding, which the map amplifies level by level, parts the forms by 3e-10 at depth 12
RAW, SHARED, REVERSE = "raw", "cse", "reverse"
COUNTED = {RAW: "sympy's diff", SHARED: "with common subexpressions", REVERSE: "gradcli's reverse program"}
MARKERS = {RAW: "r", SHARED: "c", REVERSE: "g"}


@dataclass(frozen=True, slots=True)
class Problem:
    """A family of functions by size: as a formula of symbols, and as the text of an expression."""

    name: str
    size: str
    sizes: Sequence[int]
    inputs: Callable[[int], list[str]]
    formula: Callable[[Sequence[Any]], Callable[[int], Any]]
    text: Callable[[int], str]

    def at(self, n: int) -> dict[str, Any]:
        """Return the point: 0.3 and on, in steps of 0.1."""
        return {name: np.float64(0.3 + 0.1 * k) for k, name in enumerate(self.inputs(n))}


def iterated(xs: Sequence[Any]) -> Callable[[int], Any]:
    def formula(n: int) -> Any:
        l = xs[0]
        for _ in range(n - 1):
            l = 4 * l * (1 - l)
        return l

    return formula


def statements(n: int) -> str:
    """Return the text of the map, a statement a level: "l1 = x; l2 = 4*l1*(1 - l1); 4*l2*(1 - l2)"."""
    levels = ["x", *(f"4*l{k}*(1 - l{k})" for k in range(1, n))]
    named = [f"l{k} = {level}; " for k, level in enumerate(levels[:-1], 1)]
    return "".join(named) + levels[-1]


def numbered(n: int) -> list[str]:
    return [f"x{k}" for k in range(1, n + 1)]


PROBLEMS = (
    Problem(
        "iterated logistic map", "depth", range(1, 13), inputs=lambda n: ["x"], formula=iterated, text=statements
    ),
    Problem(
        "product x1*...*xn", "n", (2, 3, 4, 6, 8, 10, 12, 14, 16, 18, 20), inputs=numbered,
        formula=lambda xs: lambda n: math.prod(xs[1:], start=xs[0]), text=lambda n: "*".join(numbered(n)),
    ),
)  # fmt: skip


def operations(f: Function, wrt: Sequence[str], at: Mapping[str, Any]) -> int:
    """Return the operations of the gradient by the reverse mode, forward and backward sweep together."""
    return operations_of_reverse(Question(f, Point(dict(at)), tuple(wrt))).total


def derivatives(problem: Problem, n: int, by: Any) -> tuple[list[Any], list[Any]]:
    """Return the symbols and the derivatives by each, of the symbolic package `by`."""
    xs = [by.Symbol(name) for name in problem.inputs(n)]
    y = problem.formula(xs)(n)
    return xs, [by.diff(y, x) for x in xs]


def counts(problem: Problem, n: int) -> dict[str, int]:
    """Return the operations of the derivative in its three forms."""
    _, raw = derivatives(problem, n, sympy)
    named, shared = sympy.cse(raw)
    reverse = operations(Expression(problem.text(n)), problem.inputs(n), problem.at(n))
    return {
        RAW: sum(int(sympy.count_ops(d)) for d in raw),
        SHARED: sum(int(sympy.count_ops(d)) for d in [d for _, d in named] + shared),
        REVERSE: reverse,
    }


def candidates(problem: Problem, n: int) -> dict[str, Callable[[], Any]]:
    """Return what builds the function, derives its gradient and evaluates it once, by name."""
    at = problem.at(n)

    def by_sympy(cse: bool) -> Any:
        xs, found = derivatives(problem, n, sympy)
        return sympy.lambdify(xs, found, cse=cse)(*at.values())

    def by_symengine(cse: bool) -> Any:
        import symengine

        xs, found = derivatives(problem, n, symengine)
        return symengine.Lambdify(xs, found, cse=cse)(list(at.values()))

    def by_gradcli() -> Any:
        return Gradient(Expression(problem.text(n)), tuple(problem.inputs(n)), at)(at)

    return {
        "sympy": lambda: by_sympy(False),
        "sympy cse": lambda: by_sympy(True),
        **({"symengine cse": lambda: by_symengine(True)} if importlib.util.find_spec("symengine") else {}),
        "gradcli": by_gradcli,
    }


def medians(runs: Mapping[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """Return the median seconds of each, rounds interleaved; sympy begins each run with an empty cache.

    Raises  SystemExit where the derivatives differ.
    """
    found: dict[str, list[float]] = {name: [] for name in runs}
    values = {}
    for _ in range(rounds):
        for name, run in runs.items():
            clear_cache()
            start = time.perf_counter()
            values[name] = run()
            found[name].append(time.perf_counter() - start)
    for name, value in values.items():
        if not np.allclose(value, values["gradcli"], rtol=AGREE, atol=0):
            raise SystemExit(f"the derivatives of {name} and gradcli differ: {value}, {values['gradcli']}")
    return {name: statistics.median(times) for name, times in found.items()}


def measured(problem: Problem, rounds: int) -> list[dict[str, Any]]:
    """Return a row for each size."""
    medians(candidates(problem, problem.sizes[1]), 2)  # the first run of all imports and builds tables
    rows = []
    for n in problem.sizes:
        row = {problem.size: n, "operations": counts(problem, n), "seconds": medians(candidates(problem, n), rounds)}
        print(f"{problem.name}, {problem.size} {n}", file=sys.stderr)
        rows.append(row)
    return rows


def notes() -> list[str]:
    """Return how the figures are to be read, and whether the published ones come out."""
    logistic = PROBLEMS[0]
    deepest = counts(logistic, 12)
    spelled = str(logistic.formula([sympy.Symbol("x")])(12))
    alone = operations(Expression(spelled), ["x"], logistic.at(12))
    published = {RAW: 195_072, SHARED: 283}
    same = "both come out" if published == {k: deepest[k] for k in published} else "here they differ"
    return [
        f"raw: sympy.count_ops(sympy.diff(f, x)), f built by the recurrence and not simplified (sympy {sympy.__version__}); summed over the inputs",
        "cse: the same counter over the definitions and the results of sympy.cse(derivatives), default options",
        "reverse: primitives run by the gradient, the value of f and the multiplication by the cotangent 1 included; raw and cse have no value of f",
        f"published for depth 12: 195,072 raw, 283 cse; here {deepest[RAW]:,} and {deepest[SHARED]:,}: {same}, with l1 = x, so that the map is applied 11 times",
        f"gradcli reads a statement a level; of depth 12 as one formula, {len(spelled):,} characters, its reverse program has {alone:,} operations",
        "time: the function built, differentiated and evaluated once at a point; imports left out, sympy's cache emptied before each run",
    ]


def table(problem: Problem, rows: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """Yield the lines of a Markdown table."""
    timed = list(rows[0]["seconds"])
    yield f"{problem.name}: operations, then milliseconds"
    yield ""
    yield f"| {problem.size} | {RAW} | {SHARED} | {REVERSE} | " + " | ".join(f"{name}, ms" for name in timed) + " |"
    yield "| " + " | ".join(["---:"] * (4 + len(timed))) + " |"
    for row in rows:
        ops = [f"{row['operations'][kind]:,}" for kind in COUNTED]
        times = [f"{1e3 * row['seconds'][name]:,.{1 if row['seconds'][name] >= 0.01 else 2}f}" for name in timed]
        yield f"| {row[problem.size]} | " + " | ".join(ops + times) + " |"


def drawn(problem: Problem, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the operations by size as a plot for the terminal; zeros have no place on a logarithmic axis."""
    import plotille

    largest, step = rows[-1][problem.size], 2 if rows[-1][problem.size] <= 12 else 4
    decades, ticks = math.ceil(math.log10(max(row["operations"][RAW] for row in rows))), largest // step + 1
    figure = plotille.Figure()
    figure.width, figure.height = 10 * ticks, 3 * decades
    figure.with_colors = sys.stdout.isatty()
    figure.x_label, figure.y_label = problem.size, "operations"
    figure.x_ticks_fkt = lambda low, high: f"{low:.0f}"
    figure.y_ticks_fkt = lambda low, high: f"{10 ** round(low):,}" if abs(low - round(low)) < 0.01 else ""
    figure.set_x_limits(min_=0, max_=ticks * step)
    figure.set_y_limits(min_=0, max_=decades)
    for kind, colour in zip(COUNTED, ("red", "yellow", "green"), strict=True):
        seen = [(row[problem.size], row["operations"][kind]) for row in rows if row["operations"][kind]]
        figure.plot(*zip(*((n, math.log10(ops)) for n, ops in seen), strict=True), lc=colour, marker=MARKERS[kind])
    legend = "   ".join(f"{MARKERS[kind]} {said}" for kind, said in COUNTED.items())
    return f"{figure.show()}\n{legend}"


def plotted(found: Mapping[str, Sequence[Mapping[str, Any]]], to: Path) -> None:
    """Write operations and times by size to a file, a row of panels for each."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(2, len(PROBLEMS), figsize=(10, 8), layout="constrained")
    for k, problem in enumerate(PROBLEMS):
        rows = found[problem.name]
        for panel, what, unit in ((panels[0, k], "operations", 1.0), (panels[1, k], "seconds", 1e3)):
            for name in rows[0][what]:
                seen = [(row[problem.size], unit * row[what][name]) for row in rows if row[what][name]]
                panel.semilogy(*zip(*seen, strict=True), marker="o", markersize=3, label=COUNTED.get(name, name))
            panel.set(title=problem.name, xlabel=problem.size, ylabel=what if unit == 1 else "ms to the first gradient")
            panel.xaxis.get_major_locator().set_params(integer=True)
            panel.grid(alpha=0.3)
            panel.legend()
    figure.savefig(to)


def main() -> None:
    """Print a table and a plot for each problem, then how to read them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="write an svg or png")
    args = parser.parse_args()
    found = {problem.name: measured(problem, args.rounds) for problem in PROBLEMS}
    if args.plot:
        plotted(found, args.plot)
    if args.json:
        print(json.dumps({**found, "notes": notes()}, indent=2))
        return
    for problem in PROBLEMS:
        print(*table(problem, found[problem.name]), "", sep="\n")
        if importlib.util.find_spec("plotille"):
            print(drawn(problem, found[problem.name]), "", sep="\n")
    print(*(f"- {note}" for note in notes()), sep="\n")


if __name__ == "__main__":
    main()
