"""Reports in GitHub's Markdown; all text in them is escaped."""

import re
from typing import Any

from gradcli.report.blocks import (
    Block,
    Cell,
    Chart,
    Code,
    Heading,
    Headline,
    Mathematics,
    Paragraph,
    Piece,
    Table,
    pieces_of,
    visible,
)
from gradcli.report.forms import Page, chart, writes_braille

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~$&@]|^\s*-|-(?=-)|(?<=-)-)")


def render(report: Any, page: Page) -> str:
    """Return the report as Markdown."""
    return "\n\n".join(filter(None, (_block(block, page) for block in report.blocks()))) + "\n"


def _block(block: Block, page: Page) -> str:
    if isinstance(block, Headline):
        return f"**{block.word}** {escaped(block.sentence)}"
    if isinstance(block, Heading):
        return f"{'#' * block.level} {escaped(block.text)}"
    if isinstance(block, Paragraph):
        return "".join(map(_piece, pieces_of(block.text)))
    if isinstance(block, Chart):
        return _block(Code(chart.text(block, page.width, writes_braille(page.encoding)), "text"), page)
    if isinstance(block, Code):
        longest = max((len(run) for run in re.findall(r"`+", block.text)), default=0)
        fence = "`" * max(3, longest + 1)
        return f"{fence}{block.language}\n{visible(block.text)}\n{fence}"
    if isinstance(block, Table):
        return _table(block)
    return ""


def _table(table: Table) -> str:
    head = "| " + " | ".join(escaped(column) for column in table.columns) + " |"
    rule = "| " + " | ".join("---:" if k in table.right else "---" for k in range(len(table.columns))) + " |"
    rows = [_row(row, len(table.columns)) for row in table.rows]
    title = f"{escaped(table.title)}\n\n" if table.title else ""
    return title + "\n".join([head, rule, *rows])


def _row(row: tuple[Cell, ...], columns: int) -> str:
    cells = ["".join(map(_piece, pieces_of(cell))) for cell in row] + [""] * (columns - len(row))
    return "| " + " | ".join(cells) + " |"


def _piece(piece: Piece) -> str:
    """Return text escaped, and a formula in dollar signs; a bar would end the cell of a table."""
    if not isinstance(piece, Mathematics):
        return escaped(piece.text)
    latex = piece.latex.replace("|", r"\vert ")
    return f"${latex}$"


def escaped(text: str) -> str:
    """Return text escaped for Markdown, on one line."""
    return _SPECIAL.sub(r"\\\1", visible(text).replace("\n", " ").replace("\t", " "))
