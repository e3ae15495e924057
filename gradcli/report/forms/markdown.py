"""Reports in GitHub's Markdown; all text in them is escaped."""

import re
from collections.abc import Sequence
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
    Verbatim,
    make_one_line,
    make_visible,
    split_into_pieces,
)
from gradcli.report.forms import Page, can_encode_braille, terminal_chart

_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+!|~$&@]|^\s*-|-(?=-)|(?<=-)-)")
_NUMBER = re.compile(r"^(\d+)\.(?=\s|$)")  # which would begin a list


def render_markdown(report: Any, page: Page) -> str:
    """Return the report as Markdown."""
    blocks = report.headed_blocks() if hasattr(report, "headed_blocks") else report.blocks()
    return "\n\n".join(filter(None, (_write_block(block, page) for block in blocks))) + "\n"


def _write_block(block: Block, page: Page) -> str:
    if isinstance(block, Headline):
        return f"**{escape_markdown(block.word)}** {_write_line(block.sentence)}"
    if isinstance(block, Heading):
        return f"{'#' * block.level} {_write_line(block.text)}"
    if isinstance(block, Paragraph):
        return _write_line(block.text)
    if isinstance(block, Chart):
        return _write_block(
            Code(terminal_chart.draw_as_text(block, page.width, can_encode_braille(page.encoding)), "text"), page
        )
    if isinstance(block, Code):
        longest = max((len(run) for run in re.findall(r"`+", block.text)), default=0)
        fence = "`" * max(3, longest + 1)
        return f"{fence}{block.language}\n{make_visible(block.text)}\n{fence}"
    if isinstance(block, Table):
        return _write_table(block)
    return ""


def _write_table(table: Table) -> str:
    head = "| " + " | ".join(escape_markdown(column) for column in table.columns) + " |"
    rule = "| " + " | ".join("---:" if k in table.right else "---" for k in range(len(table.columns))) + " |"
    rows = [_write_row(row, len(table.columns)) for row in table.rows]
    title = f"{_write_line(table.title)}\n\n" if table.title else ""
    return title + "\n".join([head, rule, *rows])


def _write_row(row: Sequence[Cell], columns: int) -> str:
    cells = [_write_line(cell, in_table=True) for cell in row] + [""] * (columns - len(row))
    return "| " + " | ".join(cells) + " |"


def _write_line(cell: Cell, in_table: bool = False) -> str:
    line = "".join(_write_piece(piece, in_table) for piece in split_into_pieces(cell)).strip()
    return _NUMBER.sub(r"\1\\.", line)


def _write_piece(piece: Piece, in_table: bool) -> str:
    """Return text escaped, code in a code span, and a formula in dollar signs; a bar would end the cell of a table."""
    if isinstance(piece, Mathematics):
        latex = piece.latex.replace("|", r"\vert ")
        return f"${latex}$"
    if isinstance(piece, Verbatim) and not (in_table and "|" in piece.text):
        return _code_span(piece.text)
    return escape_markdown(piece.text)


def _code_span(text: str) -> str:
    """Return text between more backticks than it has in a row; none if it is blank."""
    inside = make_one_line(text).strip()
    ticks = "`" * (max((len(run) for run in re.findall(r"`+", inside)), default=0) + 1)
    apart = " " if inside.startswith("`") or inside.endswith("`") else ""
    return f"{ticks}{apart}{inside}{apart}{ticks}" if inside else ""


def escape_markdown(text: str) -> str:
    """Return text escaped for Markdown, on one line."""
    return _SPECIAL.sub(r"\\\1", make_one_line(text))
