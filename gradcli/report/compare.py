"""The report of `compare-modes`: every mode side by side."""

from dataclasses import dataclass

import numpy as np

from gradcli.report import numbers
from gradcli.report.blocks import Block, Cell, Paragraph, Piece, Table, Tone
from gradcli.report.common import Finding, Target
from gradcli.report.encode import ABSENT, Absent, Given, Values
from gradcli.report.tidy import entries

_UNITS = (
    "digits: right in the worst and the median entry; calls, ops: evaluations of f and scalar operations; "
    "time/f: in evaluations of f"
)


@dataclass(frozen=True, slots=True)
class RightDigits:
    """How many digits agree with the reference: in the worst and in the median entry."""

    worst: float
    median: float


@dataclass(frozen=True, slots=True)
class ModeRow:
    """What one mode answered and what it cost. Units: seconds, evaluations and operations of f, bytes."""

    status: str
    gradient: dict[str, Values] | Absent = ABSENT
    jacobian: dict[str, Values] | Absent = ABSENT
    right_digits: RightDigits | Absent = ABSENT
    bound: dict[str, Values] | Absent = ABSENT
    proved: bool | Absent = ABSENT
    bound_held: bool | Absent = ABSENT
    evaluations: int | Absent = ABSENT
    operations: int | Absent | None = ABSENT
    seconds: float | Absent = ABSENT
    relative_time: float | Absent = ABSENT
    peak_bytes: int | Absent | None = ABSENT
    message: str | Absent = ABSENT
    hint: str | Absent | None = ABSENT

    @property
    def values(self) -> dict[str, Values]:
        """The gradient or Jacobian, by input."""
        return self.gradient or self.jacobian or {}


@dataclass(frozen=True, slots=True)
class SchemeSummary:
    """One difference scheme along one direction: what was observed and what theory predicts. h in units of the inputs' size."""

    scheme: str
    order: float | None
    best_h: float
    relative_error: float
    digits: float
    predicted_h: float | None
    predicted_error: float | None


@dataclass(frozen=True, slots=True)
class CompareReport:
    """All modes at one point, and error against step size."""

    target: Target
    at: dict[str, Given]
    drawn: tuple[str, ...]
    seed: int
    value: Values
    f_seconds: float
    reference: str | None
    modes: dict[str, ModeRow]
    sweep: tuple[SchemeSummary, ...]
    findings: tuple[Finding, ...]
    exit_status: int
    environment: dict[str, str]
    verdict: str | Absent = ABSENT
    schema: str = "gradcli.compare-modes/1"
    line: int | Absent = ABSENT

    def blocks(self) -> tuple[Block, ...]:
        """Return the value, the gradients, the costs, and what the steps say."""
        place = ", ".join(
            f"{name} = {numbers.value(x)}{' (drawn)' if name in self.drawn else ''}" for name, x in self.at.items()
        )
        blocks: list[Block] = [Paragraph(f"f = {self.target.text} = {numbers.value(self.value)}", 0)]
        blocks += [Paragraph(f"at {place}", 0)] if place else []
        blocks += [self._gradients(), self._costs(), Paragraph((Piece(_UNITS, "dim"),))]
        if self.sweep:
            blocks += [self._steps(), Paragraph(_steps_in_words(self.sweep))]
        for f in self.findings:
            blocks.append(Paragraph((Piece(f"{f.kind}: ", "unsure"), Piece(f.message))))
        return tuple(blocks)

    def _gradients(self) -> Table:
        reference = self.modes[self.reference].values if self.reference else {}
        entries = [(name, at) for name, g in reference.items() for at in np.ndindex(np.shape(g))][:2]
        total = sum(int(np.size(g)) for g in reference.values())
        vector = np.ndim(self.value) > 0
        columns = ["mode", *(("J" if vector else "df/d") + numbers.entry_name(name, at) for name, at in entries)]
        if total > len(entries):
            columns.append(f"... {total} entries")
        rows: list[tuple[Cell, ...]] = []
        for mode, row in self.modes.items():
            if row.status == "ok":
                cells = [_entry(row.values, reference, name, at) for name, at in entries]
                rows.append((mode, *cells, *([""] if total > len(entries) else [])))
        return Table(tuple(columns), tuple(rows))

    def _costs(self) -> Table:
        columns = ("mode", "digits", "median", "bound", "held", "calls", "ops", "time/f")
        rows: list[tuple[Cell, ...]] = []
        for mode, row in self.modes.items():
            if row.status != "ok":
                rows.append((mode, Piece(row.status if not row.message else f"{row.status}: {row.message}", "dim")))
                continue
            rows.append((mode, *_digit_cells(row), *_bound_cells(row), *_cost_cells(row)))
        return Table(columns, tuple(rows), frozenset({1, 2, 3, 5, 6, 7}))

    def _steps(self) -> Table:
        columns = ("scheme", "order", "best h", "error", "digits", "predicted h", "error")
        rows = tuple(_step_row(s) for s in self.sweep)
        return Table(
            columns,
            rows,
            frozenset(range(1, 7)),
            title="error against step size, along one direction in proportion to the inputs",
        )

    def records(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return every entry of every mode as a row."""
        rows: list[tuple[object, ...]] = []
        for mode, row in self.modes.items():
            for name, x in row.values.items():
                rows += [
                    (mode, name, index, g, b)
                    for (index, g), (_, b) in zip(entries(x), entries((row.bound or {})[name]), strict=True)
                ]
        return ("mode", "input", "index", "value", "bound"), rows


def _step_row(s: SchemeSummary) -> tuple[Cell, ...]:
    order = "-" if s.order is None else f"{s.order:.2f}"
    observed = (numbers.short(s.best_h, 2), numbers.short(s.relative_error, 2), f"{s.digits:.1f}")
    return (
        s.scheme,
        order,
        *observed,
        *("-" if x is None else numbers.short(x, 2) for x in (s.predicted_h, s.predicted_error)),
    )


def _entry(values: dict[str, Values], reference: dict[str, Values], name: str, at: tuple[int, ...]) -> Cell:
    if name not in values:
        return Piece("not claimed", "dim")
    return numbers.compared(float(np.asarray(values[name])[at]), float(np.asarray(reference[name])[at]))


def _digit_cells(row: ModeRow) -> tuple[Cell, Cell]:
    if not isinstance(row.right_digits, RightDigits):
        return "", ""
    return f"{row.right_digits.worst:.1f}", f"{row.right_digits.median:.1f}"


def _bound_cells(row: ModeRow) -> tuple[Cell, Cell]:
    largest = max((float(np.max(b, initial=0.0)) for b in (row.bound or {}).values()), default=0.0)
    held: tuple[str, Tone] = ("proved", "good") if row.proved else ("yes", "good") if row.bound_held else ("NO", "bad")
    return numbers.power(largest), Piece(*held)


def _cost_cells(row: ModeRow) -> tuple[Cell, Cell, Cell]:
    operations = "" if row.operations is None or isinstance(row.operations, Absent) else numbers.two(row.operations)
    return numbers.two(row.evaluations or 0), operations, numbers.two(row.relative_time or 0.0)


def _steps_in_words(sweep: tuple[SchemeSummary, ...]) -> str:
    best = max(sweep, key=lambda s: s.digits)
    forward = next((s for s in sweep if s.scheme == "forward"), None)
    reached = f"{best.digits:.1f} digits at h = {numbers.short(best.best_h, 2)}"
    text = f"{best.scheme.capitalize()} is best: {reached} of the inputs' size."
    if forward is not None:
        text += (
            " Left of the best step rounding wins: the error grows as 1/h, because f(x+h) and f(x-h) agree "
            "in all but the last digits."
        )
    return text
