"""The reports of `modes` and `ops`."""

from gradcli.classes import dataclass
from gradcli.report import numbers
from gradcli.report.blocks import Block, Paragraph, Piece, Table
from gradcli.report.encode import Status
from gradcli.words import RuleKind


@dataclass(frozen=True, slots=True)
class ModeEntry:
    """One mode: whether it is available here, with which version, and how to install it if not.

    name       The name of the mode.
    available  Whether the mode can run here.
    version    The package that the mode needs, with its version; null where it is not installed.
    rests_on   What an answer of the mode depends on.
    what       How the mode computes a gradient, in words.
    hint       How to install what is missing; null where nothing is.
    """

    name: str
    available: bool
    version: str | None
    rests_on: tuple[str, ...]
    what: str
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class ModesReport:
    """Which modes and devices are available here.

    modes        The modes, in the order in which they are shown.
    devices      The devices that a computation can run on here.
    environment  The versions of what the result depends on, by name, and the number of threads.
    schema       The name of this schema, with its number.
    exit_status  The exit status of this command.
    """

    modes: tuple[ModeEntry, ...]
    devices: tuple[str, ...]
    environment: dict[str, str | int]
    schema: str = "gradcli.modes/1"
    exit_status: Status = 0

    def blocks(self) -> tuple[Block, ...]:
        """Return the table of modes."""
        rows = []
        for mode in self.modes:
            state = Piece("yes", "good") if mode.available else Piece("no", "unsure")
            how = mode.what if mode.available else mode.hint or ""
            rows.append((mode.name, state, mode.version or "", ", ".join(mode.rests_on), how))
        table = Table(("mode", "here", "with", "rests on", "how"), rows)
        return (table, Paragraph(f"devices: {', '.join(self.devices)}"))

    def records(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return the modes as rows."""
        return ("mode", "available", "version", "rests_on"), [
            (m.name, m.available, m.version, " ".join(m.rests_on)) for m in self.modes
        ]


@dataclass(frozen=True, slots=True)
class Operation:
    """One primitive: where it is smooth, its kinks, its partials as formulas, and their worst error in ulps.

    name       The name of the primitive.
    kind       How its derivative is formed.
    domain     Where it is smooth, by operand; empty where it is not elementwise.
    partials   The partial derivative with respect to each operand as a formula, or its kind where it is not elementwise.
    kinks      Where it is not smooth, in words; null where it is smooth all over its domain.
    ulps       The worst error of its partials in float64, in units in the last place; null where it was not measured.
    reason     Why the partials may be less exact than others; null where they are not.
    checked    Always null: what a check uses is verified by that check.
    unchecked  Always null.
    """

    name: str
    kind: RuleKind
    domain: tuple[str, ...]
    partials: tuple[str, ...]
    kinks: str | None
    ulps: float | None
    reason: str | None
    checked: str | None = None
    unchecked: str | None = None


@dataclass(frozen=True, slots=True)
class OpsReport:
    """The primitives: where each is smooth, its derivative, and how exact that is.

    operations   The primitives, each with its rule.
    functions    The names that an expression can call; empty where one primitive was asked for.
    environment  The versions of what the result depends on, by name, and the number of threads.
    exit_status  The exit status of this command.
    schema       The name of this schema, with its number.
    """

    operations: tuple[Operation, ...]
    functions: tuple[str, ...]
    environment: dict[str, str | int]
    exit_status: Status = 0
    schema: str = "gradcli.ops/1"

    def blocks(self) -> tuple[Block, ...]:
        """Return the table of primitives, and what is stated about single ones."""
        rows = []
        notes: list[Block] = []
        for op in self.operations:
            ulps = numbers.write_if_known(op.ulps, numbers.two_digits)
            rows.append((op.name, ", ".join(dict.fromkeys(op.domain)), "; ".join(op.partials), ulps))
            notes += [Paragraph(f"{op.name}: kink where {op.kinks}")] if op.kinks else []
            notes += [Paragraph(f"{op.name}: accuracy: {op.reason}")] if op.reason else []
        notes += [Paragraph("functions: " + " ".join(self.functions))] if self.functions else []
        return (Table(("primitive", "smooth where", "derivative", "ulps"), rows, {3}), *notes)

    def records(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return the primitives as rows."""
        columns = ("primitive", "kind", "domain", "partials", "kinks", "ulps", "reason")
        return columns, [
            (o.name, o.kind, "; ".join(o.domain), "; ".join(o.partials), o.kinks, o.ulps, o.reason)
            for o in self.operations
        ]
