"""How the cost of each mode grows with a size: the part of `compare-modes` that `--sizes` adds."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from gradcli.report import numbers
from gradcli.report.blocks import Block, Chart, Paragraph, Piece, Series, Table
from gradcli.report.encode import TEXT_ONLY
from gradcli.words import Derivative

CHECKPOINTED = "checkpointed"  # the reverse mode, recomputing instead of storing
MARKS = {
    "certified": "c", "symbolic": "s", "forward": "f", "reverse": "r", "complex-step": "i", "finite-difference": "d",
    CHECKPOINTED: "k", "f": "o",
}  # fmt: skip
HELD = {  # what a mode holds beside the inputs and the Jacobian
    "reverse": "tape", "forward": "values, tangents", "complex-step": "complex values", "finite-difference": "values",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cell:
    """What one mode takes at one size. Units: evaluations of f, sweeps, operations, bytes, seconds, times of f.

    Counts are those of the program: `sweeps` back for each output or forward for each entry, `held_bytes` beside the inputs
    and the Jacobian. Times and `peak_bytes` are measured; of a mode that was not run, which is `predicted`, times are
    estimates, as are the fields that `estimated` names, and `peak_bytes` is what is held with the Jacobian.

    evaluations    The number of evaluations of f; null where it is not known.
    sweeps         The number of sweeps back or forward; null for modes without sweeps.
    operations     The number of scalar operations; null where they cannot be counted.
    held_bytes     What the mode holds beside the inputs and the Jacobian, in bytes; null where it is not known.
    seconds        The time of one gradient, in seconds; null where nothing is known of it.
    relative_time  The same time in evaluations of f; null where nothing is known of it.
    peak_bytes     The memory held at the peak, in bytes; null where nothing is known of it.
    predicted      Whether the mode was not run at this size, so that its times are estimates.
    estimated      The names of the other fields that are estimates.
    """

    evaluations: int | None
    sweeps: int | None = None
    operations: int | None = None
    held_bytes: int | None = None
    seconds: float | None = None
    relative_time: float | None = None
    peak_bytes: int | None = None
    predicted: bool = False
    estimated: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """One size. Units: entries differentiated and of the result; bytes; operations and seconds of one evaluation of f.

    `predicted` where it was not run and its counts come from smaller sizes; without either, nothing is known of it.
    `operations_ratio` is that of f with one reverse sweep to f.

    size              The value of the size.
    run               Whether anything was run at this size.
    predicted         Whether the counts come from smaller sizes.
    entries           The number of entries with respect to which derivatives are taken; null where it is not known.
    outputs           The number of entries of the result; null where it is not known.
    input_bytes       The memory of the inputs, in bytes; null where it is not known.
    jacobian_bytes    The memory of the derivative, in bytes; null where it is not known.
    f_operations      The number of operations of one evaluation of f; null where it is not known.
    f_seconds         The time of one evaluation of f, in seconds; null where it is not known.
    f_peak_bytes      The memory held at the peak of one evaluation of f, in bytes; null where it is not known.
    modes             What each mode takes at this size, by its name.
    operations_ratio  The operations of f with one reverse sweep, divided by those of f; null where not counted.
    recomputing_time  The time of a gradient that recomputes instead of storing, in evaluations of f; null where not
                      known.
    formula           The number of operations of the derivative as a formula; null where there is none.
    formula_shared    The same with common subexpressions named.
    formula_program   The number of operations of one reverse sweep over the program, where there is a formula too.
    """

    size: int
    run: bool
    predicted: bool = False
    entries: int | None = None
    outputs: int | None = None
    input_bytes: int | None = None
    jacobian_bytes: int | None = None
    f_operations: int | None = None
    f_seconds: float | None = None
    f_peak_bytes: int | None = None
    modes: dict[str, Cell] = field(default_factory=dict)
    operations_ratio: float | None = None
    recomputing_time: float | None = None
    formula: int | None = None
    formula_shared: int | None = None
    formula_program: int | None = None


@dataclass(frozen=True, slots=True)
class Exponents:
    """The powers of the size by which the figures of the largest sizes grow: counts of all sizes, measurements of those run.

    evaluations  The power of the evaluations of f; null where there are too few sizes.
    sweeps       The power of the sweeps; null where there are none.
    operations   The power of the operations; null where they were not counted.
    held_bytes   The power of the bytes held beside inputs and Jacobian; null where they are not known.
    seconds      The power of the measured time; null where too few sizes were run.
    peak_bytes   The power of the measured memory; null where too few sizes were run.
    """

    evaluations: float | None
    sweeps: float | None
    operations: float | None
    held_bytes: float | None
    seconds: float | None
    peak_bytes: float | None


@dataclass(frozen=True, slots=True)
class Crossing:
    """The size at which one mode becomes faster than another; `predicted` where it lies beyond what was measured.

    faster     The mode that is faster for larger sizes.
    slower     The mode that it overtakes.
    size       The size from which on it is faster.
    predicted  Whether this size lies beyond what was measured.
    """

    faster: str
    slower: str
    size: float
    predicted: bool


@dataclass(frozen=True, slots=True)
class Growth:
    """Cost against size.

    name       The name of the size that was varied.
    rows       What was found at each size, the smallest first.
    exponents  The powers of the size by which costs grow, by mode.
    crossings  The sizes at which one mode becomes faster than another.
    messages   What is to be known of the figures, as sentences.
    """

    name: str
    rows: tuple[Row, ...]
    exponents: dict[str, Exponents]
    crossings: tuple[Crossing, ...]
    messages: tuple[str, ...]
    derivative: Derivative = field(default="Jacobian", metadata={TEXT_ONLY: True})

    def blocks(self) -> tuple[Block, ...]:
        """Return tables of counts, of bytes and of times, and what they say."""
        several = any(row.outputs not in (None, 1) for row in self.rows)
        tables = [
            self._table(f"evaluations of {primal(self.derivative)}", "evaluations", numbers.count),
            *([self._table("sweeps", "sweeps", numbers.count)] if several else []),
            self._table("operations", "operations", numbers.count),
            self._swell(),
            self._bytes(),
            self._table(
                f"time, in evaluations of {primal(self.derivative)}", "relative_time", numbers.about, grows=False
            ),
            self._table("time", "seconds", numbers.seconds),
            self._table("memory at the peak", "peak_bytes", numbers.octets, measured=True),
        ]
        blocks: list[Block] = [table for table in tables if table.rows]
        if any(cell.predicted for row in self.rows for cell in row.modes.values()):
            says = "~ estimated from the sizes that were run; what was not run is otherwise counted on the program"
            blocks.append(Paragraph((Piece(says, "dim"),)))
        said = (*(_crossing(self.name, c) for c in self.crossings), *self.messages)
        return (*blocks, *map(Paragraph, said))

    def _swell(self) -> Table:
        """Return the operations of the derivative as a formula, with shared parts named, and as a program."""
        kinds = {
            "formula": "formula", "common subexpressions named": "formula_shared", "program": "formula_program",
        }  # fmt: skip
        rows: list[tuple[str, ...]] = []
        if any(row.formula is not None for row in self.rows):
            for name, field_name in kinds.items():
                values = [getattr(row, field_name) for row in self.rows]
                rows.append((name, *("" if x is None else numbers.count(x) for x in values)))
        sizes = (f"{self.name}={row.size:,}" for row in self.rows)
        columns = ("operations of the derivative", *sizes)
        return Table(columns, tuple(rows), frozenset(range(1, len(columns))))

    @property
    def _modes(self) -> list[str]:
        return list(dict.fromkeys(mode for row in self.rows for mode in row.modes))

    def _columns(self, title: str, rows: Sequence[Row], grows: bool = False) -> tuple[str, ...]:
        return (title, *(f"{self.name}={row.size:,}" for row in rows), *(["grows as"] if grows else []))

    def _table(
        self, title: str, pick: str, write: Callable[[float], str], grows: bool = True, measured: bool = False
    ) -> Table:
        """Return one figure of every mode at every size, or at those of which it is `measured` alone."""
        sizes = [row for row in self.rows if row.run or not measured]
        rows = []
        for mode in self._modes:
            found = [row.modes.get(mode) for row in sizes]
            cells = [_figure(None if cell and measured and cell.predicted else cell, pick, write) for cell in found]
            if any(cells):
                power = getattr(self.exponents[mode], pick, None) if grows and mode in self.exponents else None
                rows.append((mode, *cells, *([_power(self.name, power)] if grows else [])))
        columns = self._columns(title, sizes, grows)
        return Table(columns, tuple(rows), frozenset(range(1, len(columns))))

    def _bytes(self) -> Table:
        """Return what is held at every size, counted: inputs, Jacobian, and what each mode holds beside them."""
        several = any(row.outputs not in (None, 1) for row in self.rows)
        picks: list[tuple[str, Callable[[Row], int | None]]] = [
            ("inputs", lambda row: row.input_bytes),
            (self.derivative if several else "gradient", lambda row: row.jacobian_bytes),
        ]
        picks += [(f"{mode}: {HELD[mode]}", _held(mode)) for mode in self._modes if mode in HELD]
        rows = []
        for name, pick in picks:
            cells = [pick(row) for row in self.rows]
            if any(x is not None for x in cells):
                rows.append((name, *("" if x is None else numbers.count(x) for x in cells)))
        columns = self._columns("bytes", self.rows)
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


def primal(derivative: Derivative) -> str:
    """Return what is differentiated, as people call it: a Hessian is that of the gradient."""
    return "the gradient" if derivative == "Hessian" else "f"


def _held(mode: str) -> Callable[[Row], int | None]:
    return lambda row: row.modes[mode].held_bytes if mode in row.modes else None


def _figure(cell: Cell | None, pick: str, write: Callable[[float], str]) -> str:
    figure = None if cell is None else getattr(cell, pick)
    if cell is None or figure is None:
        return ""
    if pick not in cell.estimated:
        return write(figure)
    return f"~{numbers.about(figure) if write is numbers.count else write(figure)}"


def _power(name: str, exponent: float | None) -> str:
    return "" if exponent is None else f"{name}^{abs(exponent) if abs(exponent) < 0.005 else exponent:.2f}"


def _crossing(name: str, c: Crossing) -> str:
    about = ", by estimate" if c.predicted else ""
    return f"From about {name}={numbers.two(c.size)} on {c.faster} is quicker than {c.slower}{about}."
