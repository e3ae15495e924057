"""Reports for a terminal or a pipe, by rich; nothing in a text is ever taken for markup."""

import io
import itertools
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from gradcli.errors import GradcliError
from gradcli.render import Page, encodable
from gradcli.report.blocks import Block, Cell, Code, Graph, Paragraph, Piece, Table, Tone, Verdict, pieces_of, text_of
from gradcli.report.escape import visible

_STYLES: dict[Tone, str] = {
    "plain": "",
    "good": "green",
    "bad": "red",
    "unsure": "yellow",
    "dim": "dim",
    "strong": "bold",
}


def render(report: Any, page: Page) -> str:
    """Return a report's blocks as text."""
    return blocks_as_text(report.blocks(), page)


def blocks_as_text(blocks: tuple[Block, ...], page: Page) -> str:
    """Return blocks as text within the page's width."""
    written = io.StringIO()
    console = Console(
        file=written, width=page.width, force_terminal=page.color, color_system="standard" if page.color else None,
        no_color=not page.color, highlight=False, markup=False, emoji=False, legacy_windows=False,
    )  # fmt: skip
    shown = [block for block in blocks if not isinstance(block, Graph)]
    for before, block in itertools.pairwise([None, *shown]):
        if before is not None and _apart(before, block):
            console.print()
        if block is not None:
            _show(console, block)
    return _tidy(written.getvalue(), page)


def _apart(before: Block, block: Block | None) -> bool:
    kinds = (type(before), type(block))
    return kinds[0] is not kinds[1] or Table in kinds


def _show(console: Console, block: Block) -> None:
    if isinstance(block, Code):
        console.print(Text("  " * (block.language != "text") + visible(block.text)), soft_wrap=True)
        return
    console.print(_renderable(block, console.width))


def _renderable(block: Block, width: int) -> RenderableType:
    if isinstance(block, Verdict):
        grid = Grid.grid(padding=(0, 2, 0, 0))
        grid.add_row(Text(block.word, style="bold " + _STYLES[block.tone]), Text(visible(block.sentence)))
        return grid
    if isinstance(block, Paragraph):
        return Padding(_text(block.text), (0, 0, 0, block.indent))
    if isinstance(block, Table):
        return _grid(block, width)
    return Text("")


def _grid(table: Table, width: int) -> RenderableType:
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=any(table.columns), header_style="dim")
    widths = len(table.columns)
    fits = sum(_longest(table, k) + 2 for k in range(widths)) <= width
    for k, column in enumerate(table.columns):
        whole = fits and (k == 0 or k in table.right)
        grid.add_column(
            Text(visible(column)),
            justify="right" if k in table.right else "left",
            overflow="fold",
            no_wrap=k == 0,
            min_width=_longest(table, k) if whole else None,
        )
    spanning = [row for row in table.rows if len(row) < widths]
    for row in table.rows:
        if len(row) == widths:
            grid.add_row(*(_text(cell) for cell in row))
    below = [
        Padding(Text.assemble(_text(row[0]), "  ", *(_text(cell) for cell in row[1:])), (0, 0, 0, 0))
        for row in spanning
    ]
    title = [Text(table.title, style="dim")] if table.title else []
    return Padding(Group(*title, grid, *below), (0, 0, 0, 2))


def _longest(table: Table, k: int) -> int:
    """Return the width that keeps a column's cells, and each word of its name, on one line."""
    words = max((len(word) for word in table.columns[k].split()), default=0)
    cells = max((len(text_of(row[k])) for row in table.rows if len(row) == len(table.columns)), default=0)
    return max(words, cells)


def _text(cell: Cell) -> Text:
    return Text.assemble(*((visible(piece.text), _STYLES[piece.tone]) for piece in pieces_of(cell)))


def error_as_text(error: GradcliError, page: Page) -> str:
    """Return an error: what happened, the place with a caret, what to do."""
    written = io.StringIO()
    console = Console(
        file=written,
        width=10_000,
        force_terminal=page.color,
        color_system="standard" if page.color else None,
        no_color=not page.color,
        highlight=False,
        markup=False,
        emoji=False,
    )
    console.print(_text((Piece("error: ", "bad"), Piece(error.what))))
    if error.where is not None:
        line, carets = error.where.caret()
        console.print(Text("  " + visible(line.replace("\t", " "))))
        console.print(Text("  " + carets, style=_STYLES["bad"] if page.color else ""))
    if error.do:
        console.print(Text("  " + visible(error.do)))
    return _tidy(written.getvalue(), page)


def _tidy(text: str, page: Page) -> str:
    """Return text without trailing blanks, in characters the page can show."""
    return encodable("\n".join(line.rstrip() for line in text.split("\n")), page.encoding)
