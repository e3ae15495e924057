"""The reports of `explain`, `modes` and `ops`: what gradcli says of itself.

What it says of a kind is in `explanations/KIND.md`, which the site has, too.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from gradcli.classes import dataclass
from gradcli.report.blocks import Block, Code, Headline, Paragraph, Piece, Table
from gradcli.report.encode import Status
from gradcli.words import ALLOWED, DiagnosisKind, ExplainedGroup, Kind, RuleKind

GROUPS: dict[ExplainedGroup, str] = {  # in the order in which they are shown
    "prevents a pass": "Findings that prevent a pass",
    "informs": "Findings that inform",
    "mistake": "Mistakes that a diagnosis names",
}


@dataclass(frozen=True, slots=True)
class Example:
    """A command that shows the kind.

    command  The command, as it is typed in a shell.
    prints   Lines that it prints; others are left out.
    file     The content of `f.py` in the current folder, which the command reads; null where it reads no file.
    needs    The framework that has to be installed, null where there is none.
    """

    command: str
    prints: tuple[str, ...]
    file: str | None = None
    needs: str | None = None


@dataclass(frozen=True, slots=True)
class Explanation:
    """What one kind of finding or diagnosis means.

    kind     The name of the kind.
    group    Whether it is a finding that prevents a pass, a finding that informs, or a mistake that a diagnosis names.
    summary  What it is about, in one line.
    meaning  What it means, in a few sentences.
    do       What to do about it, with the options that help.
    example  A command that shows it; null where no short command does.
    """

    kind: str
    group: ExplainedGroup
    summary: str
    meaning: str
    do: str
    example: Example | None = None

    @property
    def page(self) -> str:
        """The address of the page that says this."""
        return f"{SITE}/gradcli/report/explanations/{self.kind}.md"

    def blocks(self) -> list[Block]:
        """Return the whole explanation, with its example."""
        blocks: list[Block] = [
            Headline(self.kind, "strong", self.summary),
            Paragraph(f"{WHAT[self.group]} {self.meaning}"),
            Paragraph((Piece("What to do: ", "strong"), Piece(self.do))),
        ]
        if self.group == "prevents a pass" and self.kind in ALLOWED:
            blocks.append(Paragraph(f"Accept it: --allow {self.kind}"))
        if self.example is not None:
            head = "Example:"
            if self.example.file is not None:
                blocks += [Paragraph("Example, with this file f.py:"), Code(self.example.file.rstrip(), "python")]
                head = "The command, and what it prints:"
            blocks += [Paragraph(head), Code("\n".join((f"$ {self.example.command}", *self.example.prints)))]
        return blocks


@dataclass(frozen=True, slots=True)
class ExplainReport:
    """What kinds mean: one that was asked for, which can be both a finding and a mistake, or all.

    kinds   The explanations, in the order in which they are shown.
    schema  The name of this schema, with its number.
    """

    kinds: tuple[Explanation, ...]
    schema: str = "gradcli.explain/1"

    def blocks(self) -> tuple[Block, ...]:
        """Return a table for each group, or the whole explanation where there is one kind."""
        if len({row.kind for row in self.kinds}) == 1:
            return tuple(block for row in self.kinds for block in row.blocks())
        rows = {group: tuple((r.kind, r.summary) for r in self.kinds if r.group == group) for group in GROUPS}
        tables = (Table(("kind", "what it is"), rows[group], title=title) for group, title in GROUPS.items())
        return (*tables, Paragraph("gradcli explain KIND says more about each.", 0))

    def brief(self) -> tuple[str, ...]:
        """Return what one kind means, and what to do; of all kinds, a line each."""
        if len({row.kind for row in self.kinds}) > 1:
            return tuple(f"{row.kind}: {row.summary}" for row in self.kinds)
        lines = ((f"{row.kind}: {row.summary}", row.meaning, f"What to do: {row.do}") for row in self.kinds)
        return tuple(" ".join(line.split()) for three in lines for line in three)

    def records(self) -> tuple[tuple[str, ...], list[tuple[object, ...]]]:
        """Return the kinds as rows."""
        return ("kind", "group", "summary"), [(row.kind, row.group, row.summary) for row in self.kinds]


WHAT: dict[ExplainedGroup, str] = {
    "prevents a pass": "A finding that prevents a pass.",
    "informs": "A finding that informs: it does not prevent a pass.",
    "mistake": "A diagnosis: it explains why a claim is wrong.",
}


FOLDER = Path(__file__).parent / "explanations"
SITE = "https://github.com/gradcli/gradcli/blob/main"  # where pages are read
PART = re.compile(
    r"\*\*(?P<summary>.+?)\.\*\* (?P<what>.+?)\n\n(?P<meaning>.+?)\n\n\*\*What to do\.\*\* (?P<do>[^\n]+)\n\n"
    r"(?:\*\*Example\*\*(?: \(needs (?P<needs>\w+)\))?(?:, with this file)?:\n\n"
    r"(?:```python\n# f\.py\n(?P<file>.*?)```\n\n)?"
    r"```text\n\$ (?P<command>[^\n]+)\n(?P<prints>.*?)```\n\n)?",
    re.DOTALL,
)


def read_explanations() -> tuple[Explanation, ...]:
    """Return the explanations of all kinds, group by group, each in the order of its Enum."""
    kinds = dict.fromkeys((*Kind, *DiagnosisKind))
    return tuple(sorted((row for kind in kinds for row in _read(kind)), key=lambda row: [*GROUPS].index(row.group)))


def _read(kind: str) -> Iterator[Explanation]:
    """Yield what the file of a kind says of it: as a finding, as a mistake, or both."""
    groups = {said: group for group, said in WHAT.items()}
    for part in PART.finditer((FOLDER / f"{kind}.md").read_text(encoding="utf-8")):
        example = part["command"] and Example(
            part["command"], tuple(part["prints"].splitlines()), part["file"], part["needs"]
        )
        summary, meaning, do = (part[name].replace("`", "") for name in ("summary", "meaning", "do"))
        yield Explanation(kind, groups[part["what"]], summary[0].lower() + summary[1:], meaning, do, example or None)


# The reports of `modes` and `ops`.


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
        from gradcli.report import numbers  # with numpy, which an explanation does not need

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
