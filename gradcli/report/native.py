"""What a check found of a function that is written in a framework: its other ways to differentiate, and its parts."""

from dataclasses import dataclass

from gradcli.report import numbers
from gradcli.report.blocks import Block, Cell, Paragraph, Piece, Table, Tone
from gradcli.report.encode import ABSENT, Absent

_TONES: dict[str, Tone] = {"agrees": "good", "wrong": "bad", "differs": "unsure"}


@dataclass(frozen=True, slots=True)
class Aspect:
    """One more way in which the framework differentiates, and how far it is from what is right, relative to it."""

    name: str
    status: str
    difference: float | Absent = ABSENT
    allowed: float | Absent = ABSENT
    message: str | Absent = ABSENT


@dataclass(frozen=True, slots=True)
class Part:
    """A custom gradient that was met on the way, checked alone at the values it really saw."""

    name: str
    verdict: str
    detects: float | Absent = ABSENT
    message: str | Absent = ABSENT
    file: str | Absent = ABSENT
    line: int | Absent = ABSENT
    source: str | Absent = ABSENT


@dataclass(frozen=True, slots=True)
class NativeReport:
    """The framework, where and in which format it ran, its other ways to differentiate, and the parts."""

    framework: str
    version: str
    device: str
    dtype: str
    aspects: tuple[Aspect, ...] = ()
    parts: tuple[Part, ...] = ()

    def blocks(self) -> list[Block]:
        """Return what people read of it."""
        where = f"{self.framework} {self.version}, {self.dtype} on {self.device}"
        blocks: list[Block] = [Paragraph(where)]
        rows = [(aspect.name, _said(aspect)) for aspect in self.aspects]
        blocks += [Table(("also", ""), tuple(rows))] if rows else []
        return blocks + [block for part in self.parts for block in _part_blocks(part)]


def _said(aspect: Aspect) -> Cell:
    tone = _TONES.get(aspect.status, "dim")
    size = (
        f" ({numbers.power(aspect.difference)})" if isinstance(aspect.difference, float) and aspect.difference else ""
    )
    more = f": {aspect.message}" if aspect.message else ""
    return Piece(f"{aspect.status}{size}{more}", tone)


def _part_blocks(part: Part) -> list[Block]:
    tone: Tone = {"pass": "good", "fail": "bad"}.get(part.verdict, "unsure")  # type: ignore[assignment]
    word = {"pass": "right", "fail": "wrong"}.get(part.verdict, "not told")
    better = f" to better than {numbers.power(part.detects)}" if part.verdict == "pass" and part.detects else ""
    said = f": {part.message}" if part.message else ""
    blocks: list[Block] = [
        Paragraph((Piece(f"{part.name} ", "strong"), Piece("alone is "), Piece(word, tone), Piece(f"{better}{said}")))
    ]
    if part.verdict != "pass" and part.source and part.file:
        blocks.append(Paragraph(Piece(f"{part.file}:{part.line}    {part.source}", "dim"), 4))
    return blocks
