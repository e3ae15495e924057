"""The reports of `modes` and `ops`."""

from dataclasses import dataclass

from gradcli.report import numbers
from gradcli.report.blocks import Block, Cell, Paragraph, Piece, Table


@dataclass(frozen=True, slots=True)
class ModeEntry:
    """One mode: whether it is available here, with which version, and how to install it if not."""

    name: str
    available: bool
    version: str | None
    rests_on: tuple[str, ...]
    what: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class ModesReport:
    """Which modes and devices are available here."""

    modes: tuple[ModeEntry, ...]
    devices: tuple[str, ...]
    environment: dict[str, str | int]
    schema: str = "gradcli.modes/1"
    exit_status: int = 0

    def blocks(self) -> tuple[Block, ...]:
        """Return the table of modes."""
        rows: list[tuple[Cell, ...]] = []
        for mode in self.modes:
            state = Piece("yes", "good") if mode.available else Piece("no", "unsure")
            rows.append(
                (
                    mode.name,
                    state,
                    mode.version or "",
                    ", ".join(mode.rests_on),
                    mode.what if mode.available else mode.hint or "",
                )
            )
        return (
            Table(("mode", "here", "with", "rests on", "how"), tuple(rows)),
            Paragraph(f"devices: {', '.join(self.devices)}"),
        )

    def records(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return the modes as rows."""
        return ("mode", "available", "version", "rests_on"), [
            (m.name, m.available, m.version, " ".join(m.rests_on)) for m in self.modes
        ]


@dataclass(frozen=True, slots=True)
class Operation:
    """One primitive: where it is smooth, its kinks, its partials as formulas, and their worst error in ulps.

    `checked` is `ok`, what is wrong, or null; `unchecked` says why a check that was asked for came to nothing.
    """

    name: str
    kind: str
    domain: tuple[str, ...]
    partials: tuple[str, ...]
    kinks: str | None
    ulps: float | None
    reason: str | None
    checked: str | None = None
    unchecked: str | None = None


@dataclass(frozen=True, slots=True)
class OpsReport:
    """The primitives, and with `--check` whether each holds up in isolation."""

    operations: tuple[Operation, ...]
    functions: tuple[str, ...]
    environment: dict[str, str | int]
    exit_status: int = 0
    schema: str = "gradcli.ops/1"

    def blocks(self) -> tuple[Block, ...]:
        """Return the table of primitives, and what is stated about single ones."""
        checked = any(op.checked or op.unchecked for op in self.operations)
        columns = ("primitive", "smooth where", "derivative", "ulps", *(["check"] if checked else []))
        rows: list[tuple[Cell, ...]] = []
        for op in self.operations:
            ulps = "" if op.ulps is None else numbers.two(op.ulps)
            state = [_state(op)] if checked else []
            rows.append((op.name, ", ".join(dict.fromkeys(op.domain)), "; ".join(op.partials), ulps, *state))
        notes: list[Block] = [Paragraph(f"{op.name}: {text}", 2) for op in self.operations for text in _notes(op)]
        return (
            Table(columns, tuple(rows), frozenset({3})),
            *notes,
            *([Paragraph(_count(self.operations))] if checked else []),
            *([Paragraph("functions: " + " ".join(self.functions))] if self.functions else []),
        )

    def records(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return the primitives as rows."""
        return ("primitive", "kind", "domain", "partials", "kinks", "ulps", "reason", "checked", "unchecked"), [
            (
                o.name,
                o.kind,
                "; ".join(o.domain),
                "; ".join(o.partials),
                o.kinks,
                o.ulps,
                o.reason,
                o.checked,
                o.unchecked,
            )
            for o in self.operations
        ]


def _state(op: Operation) -> Piece:
    if op.unchecked:
        return Piece("not checked", "unsure")
    return Piece(op.checked or "", "good" if op.checked == "ok" else "bad")


def _count(operations: tuple[Operation, ...]) -> str:
    right = sum(op.checked == "ok" for op in operations)
    unchecked = sum(op.unchecked is not None for op in operations)
    return f"{right} verified, {len(operations) - right - unchecked} wrong, {unchecked} not checked"


def _notes(op: Operation) -> list[str]:
    return [
        text
        for text in (
            f"kink where {op.kinks}" if op.kinks else "",
            f"accuracy: {op.reason}" if op.reason else "",
            f"not checked: {op.unchecked}" if op.unchecked else "",
        )
        if text
    ]
