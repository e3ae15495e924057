"""Reports in the forms of a notebook: text, HTML, Markdown and, of derivations, LaTeX, by their media types.

The HTML has no script, no style sheet and no class. Its styles stand in the elements, and nothing is lost without them. Colours
are mixed with the colour of the text around, which the notebook's theme chooses, so that they can be read on any background.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gradcli.report.blocks import Block, Cell, Code, Mathematics, Paragraph, Piece, Table, pieces_of, text_of
from gradcli.report.derive import DeriveReport, Lecture
from gradcli.report.equations import BREAK, aligned
from gradcli.report.forms import Page, rendered
from gradcli.report.forms.elements import elements

MOST_BYTES = 50_000  # of the HTML, so that notebooks stay small
_WIDTH = 100  # columns of the text
_STYLES = {
    "good": "color:color-mix(in srgb,currentColor 40%,#2da44e)",
    "bad": "color:color-mix(in srgb,currentColor 40%,#e5534b)",
    "unsure": "color:color-mix(in srgb,currentColor 40%,#bf8700)",
    "dim": "opacity:.75",
    "strong": "font-weight:bold",
    "wide": "overflow-x:auto",
    "table": "border-collapse:collapse",
    "caption": "text-align:left",
    "cell": "text-align:left",
    "number": "text-align:right",
    "code": "overflow-x:auto",
    "math": "display:inline math",
}


@dataclass(frozen=True, slots=True)
class _Limit:
    """How much of a report is shown: rows of each table, characters of each text, and whether formulas are set as such."""

    rows: int
    characters: int = MOST_BYTES
    formulas: bool = True


_LIMITS = (
    *(_Limit(rows) for rows in (1000, 700, 500, 350, 250, 180, 120, 80, 50, 30, 20)),
    *(_Limit(rows, 2000, False) for rows in (80, 30, 20)), *(_Limit(rows, 300, False) for rows in (20, 10, 5)),
)  # fmt: skip
_MOST_BLOCKS = 20  # of a report whose texts are cut, and that is still too large


@dataclass(frozen=True, slots=True)
class _Blocks:
    """The part of a report that is shown."""

    shown: tuple[Block, ...]

    def blocks(self) -> tuple[Block, ...]:
        """Return the blocks."""
        return self.shown


def render(report: Any, page: Page) -> dict[str, str]:
    """Return the report by media types: `text/plain`, `text/html`, `text/markdown`, and `text/latex` of a derivation."""
    shown, html = _within(report.blocks())
    forms = {
        "text/plain": rendered("text", _Blocks(shown), Page(_WIDTH)).rstrip("\n"),
        "text/html": html,
        "text/markdown": rendered("markdown", _Blocks(shown), Page(_WIDTH)),
    }
    derivation = report.derivation if isinstance(report, Lecture) else report
    if isinstance(derivation, DeriveReport) and derivation.results:
        forms["text/latex"] = "\n".join(_equation(result) for result in derivation.results)
    return forms


def _styled(look: str) -> str:
    style = _STYLES.get(look)
    return "" if style is None else f' style="{style}"'


def _html(blocks: Sequence[Block]) -> str:
    return f"<div>\n{elements(blocks, _styled, _WIDTH)}\n</div>"


def _within(blocks: tuple[Block, ...]) -> tuple[tuple[Block, ...], str]:
    """Return the blocks of a report whose HTML is small enough, and the HTML: all, or those that the first limit leaves."""
    shown, html = blocks, ""
    for limit in _LIMITS:
        shown = tuple(part for block in blocks for part in _limited(block, limit))
        html = _html(shown)
        if len(html.encode()) < MOST_BYTES:
            return shown, html
    said = Paragraph(f"The rest of this report is left out. {_HOW}", 0)
    shown = (*shown[:_MOST_BLOCKS], said)
    return shown, _html(shown)


_HOW = "print(report) shows all of it, report.page() as a page."


def _limited(block: Block, limit: _Limit) -> Iterator[Block]:
    if isinstance(block, Table):
        rows = tuple(tuple(_cell(cell, limit) for cell in row) for row in block.rows[: limit.rows])
        yield Table(block.columns, rows, block.right, block.title)
        if len(rows) < len(block.rows):
            yield Paragraph(f"{len(rows):,} of {len(block.rows):,} rows are shown here. {_HOW}", 0)
    elif isinstance(block, Paragraph):
        yield replace(block, text=_cell(block.text, limit))
    elif isinstance(block, Code) and len(block.text) > limit.characters:
        yield Code(_cut(block.text, limit), block.language)
        yield Paragraph(f"The end of this text is left out here. {_HOW}", 0)
    else:
        yield block


def _cell(cell: Cell, limit: _Limit) -> Cell:
    """Return a cell whose text is short enough; with formulas as text, if these are not set as such."""
    pieces = pieces_of(cell)
    formulas = limit.formulas and any(isinstance(piece, Mathematics) for piece in pieces)
    if formulas or (len(text_of(cell)) <= limit.characters and not any(isinstance(p, Mathematics) for p in pieces)):
        return cell
    left, kept = limit.characters, []
    for piece in pieces:
        if left > 0:
            kept.append(Piece(_cut(piece.text, _Limit(0, left)), piece.tone))
        left -= len(piece.text)
    return tuple(kept)


def _cut(text: str, limit: _Limit) -> str:
    return text if len(text) <= limit.characters else text[: limit.characters] + " …"


def _equation(result: Any) -> str:
    """Return the closed form of one derivative as a displayed equation."""
    return f"$$\n{aligned(result.formula.latex.split(BREAK))}\n$$"
