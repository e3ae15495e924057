"""The report of `explain`: what kinds of findings and diagnoses mean, and what to do about them.

What it says of a kind is in `explanations/KIND.md`, which the site has, too.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from gradcli.classes import dataclass
from gradcli.report.blocks import Block, Code, Headline, Paragraph, Piece, Table
from gradcli.words import ALLOWED, DiagnosisKind, ExplainedGroup, Kind

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
