"""How the cost of each mode grows with a size: the part of `compare-modes` that `--sizes` adds."""

from collections.abc import Callable
from dataclasses import dataclass

from gradcli.report import numbers
from gradcli.report.blocks import Block, Chart, Paragraph, Piece, Series, Table

CHECKPOINTED = "checkpointed"  # the reverse mode, recomputing instead of storing
MARKS = {
    "certified": "c", "symbolic": "s", "forward": "f", "reverse": "r", "complex-step": "i", "finite-difference": "d",
    CHECKPOINTED: "k", "f": "o",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cell:
    """What one mode took at one size. Units: evaluations of f, seconds, those in times of f, bytes at the peak."""

    evaluations: int
    seconds: float
    relative_time: float
    peak_bytes: int | None
    predicted: bool


@dataclass(frozen=True, slots=True)
class Row:
    """One size. Units: entries differentiated; seconds and bytes of one evaluation of f.

    `operations_ratio` is that of the reverse program to f's; it is predicted where nothing was run.
    """

    size: int
    entries: int
    f_seconds: float
    f_peak_bytes: int | None
    modes: dict[str, Cell]
    predicted: bool
    operations_ratio: float | None = None
    recomputing_time: float | None = None


@dataclass(frozen=True, slots=True)
class Exponents:
    """The powers of the size by which the last measured figures grow."""

    evaluations: float | None
    seconds: float | None
    peak_bytes: float | None


@dataclass(frozen=True, slots=True)
class Crossing:
    """The size at which one mode becomes faster than another; `predicted` where it lies beyond what was measured."""

    faster: str
    slower: str
    size: float
    predicted: bool


@dataclass(frozen=True, slots=True)
class Growth:
    """Cost against size."""

    name: str
    rows: tuple[Row, ...]
    exponents: dict[str, Exponents]
    crossings: tuple[Crossing, ...]
    messages: tuple[str, ...]

    def blocks(self) -> tuple[Block, ...]:
        """Return a table for evaluations, time and memory, and what they say."""
        tables = [
            self._table("evaluations of f", lambda c: c.evaluations, lambda e: e.evaluations, numbers.two),
            self._table("time, in evaluations of f", lambda c: c.relative_time, None, numbers.two),
            self._table("time", lambda c: c.seconds, lambda e: e.seconds, numbers.seconds),
            self._table("memory at the peak", lambda c: c.peak_bytes, lambda e: e.peak_bytes, numbers.octets),
        ]
        blocks: list[Block] = [table for table in tables if table.rows]
        if any(cell.predicted for row in self.rows for cell in row.modes.values()):
            blocks.append(Paragraph((Piece("~ predicted from the smaller sizes, and not run", "dim"),)))
        said = (*(_crossing(self.name, c) for c in self.crossings), *self.messages)
        return (*blocks, *map(Paragraph, said))

    def _table(
        self,
        title: str,
        pick: Callable[[Cell], float | None],
        power: Callable[[Exponents], float | None] | None,
        write: Callable[[float], str],
    ) -> Table:
        modes = list(dict.fromkeys(mode for row in self.rows for mode in row.modes))
        columns = (title, *(f"{self.name}={row.size:,}" for row in self.rows), *(["grows as"] if power else []))
        rows = []
        for mode in modes:
            found = [(row.modes[mode], pick(row.modes[mode])) if mode in row.modes else None for row in self.rows]
            if all(pair is None or pair[1] is None for pair in found):
                continue
            cells = [
                "" if p is None or p[1] is None else f"{'~' if p[0].predicted else ''}{write(p[1])}" for p in found
            ]
            grows = power(self.exponents[mode]) if power and mode in self.exponents else None
            rows.append((mode, *cells, *([_power(self.name, grows)] if power else [])))
        return Table(columns, tuple(rows), frozenset(range(1, len(columns))))

    def pictures(self) -> tuple[Chart, ...]:
        """Return time and memory against size."""
        picks: tuple[tuple[str, str, Callable[[Cell], float | None]], ...] = (
            ("time of a gradient", "seconds", lambda c: c.seconds),
            ("memory of a gradient", "bytes", lambda c: c.peak_bytes),
        )
        charts = (Chart(title, self.name, unit, self._series(pick)) for title, unit, pick in picks)
        return tuple(one for one in charts if any(series.points for series in one.series))

    def _series(self, pick: Callable[[Cell], float | None]) -> tuple[Series, ...]:
        modes = list(dict.fromkeys(mode for row in self.rows for mode in row.modes))
        found, guides = [], []
        for mode in modes:  # one without points keeps its place, and so the others keep their colours
            cells = [(float(row.size), row.modes[mode]) for row in self.rows if mode in row.modes]
            points = [(n, float(y), cell.predicted) for n, cell in cells if (y := pick(cell))]
            found.append(
                Series(mode, tuple((n, y) for n, y, predicted in points if not predicted), MARKS.get(mode, "*"))
            )
            first = next((k for k, (_, _, predicted) in enumerate(points) if predicted), None)
            if first is not None:
                rest = tuple((n, y) for n, y, _ in points[max(0, first - 1) :])
                guides.append(Series(f"{mode}, predicted", rest, guide=True))
        return (*found, *guides)


def _power(name: str, exponent: float | None) -> str:
    return "" if exponent is None else f"{name}^{abs(exponent) if abs(exponent) < 0.005 else exponent:.2f}"


def _crossing(name: str, c: Crossing) -> str:
    about = ", by prediction" if c.predicted else ""
    return f"From about {name}={numbers.two(c.size)} on {c.faster} is quicker than {c.slower}{about}."
