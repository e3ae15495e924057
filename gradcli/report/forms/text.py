"""Reports as text for a terminal or a pipe, by rich; text in a report is never interpreted as markup."""

import dataclasses
import io
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import indent
from typing import Any

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from gradcli.report.blocks import (
    Block,
    Cell,
    Chart,
    Code,
    Graph,
    Heading,
    Headline,
    Paragraph,
    Table,
    Tone,
    pieces_of,
    text_of,
    visible,
)
from gradcli.report.forms import Page, chart, encodable, writes_braille

_SHORT = 26  # wider table columns hold text, which is wrapped
_STYLES: dict[Tone, str] = {
    "plain": "",
    "good": "green",
    "bad": "red",
    "unsure": "yellow",
    "dim": "dim",
    "strong": "bold",
}
_SERIES = ("cyan", "magenta", "yellow", "green", "blue", "red")  # among the eight colours that every terminal has


def render(report: Any, page: Page) -> str:
    """Return a report as text."""
    return blocks_as_text(report.blocks(), page)


def renderable(report: Any) -> RenderableType:
    """Return a report as rich shows it, in colour and within the width of its console."""
    return _Blocks(report.blocks())


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Blocks that rich can show; lines that are longer than the console is wide are wrapped."""

    blocks: tuple[Block, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        page = Page(options.max_width, encoding=options.encoding)
        for block in _spaced(self.blocks):
            yield "" if block is None else _renderable(block, page)


def blocks_as_text(blocks: tuple[Block, ...], page: Page) -> str:
    """Return blocks as text within the page's width."""
    written = io.StringIO()
    console = Console(
        file=written, width=page.width, force_terminal=page.color, color_system="standard" if page.color else None,
        no_color=not page.color, highlight=False, markup=False, emoji=False, legacy_windows=False,
        force_jupyter=False,  # in a notebook, rich would show the text instead of writing it
    )  # fmt: skip
    for block in _spaced(blocks):
        if block is None:
            console.print()
        else:
            whole = isinstance(block, Code | Chart) or (isinstance(block, Paragraph) and not block.wraps)
            console.print(_renderable(block, page), soft_wrap=whole)
    return _tidy(written.getvalue(), page)


def _spaced(blocks: tuple[Block, ...]) -> Iterator[Block | None]:
    """Yield the blocks that are shown as text, and None where an empty line is."""
    before: Block | None = None
    for block in blocks:
        if isinstance(block, Graph):
            continue
        if before is not None and are_separate(before, block):
            yield None
        yield block
        before = block


def are_separate(before: Block, block: Block) -> bool:
    """Whether an empty line is between two blocks."""
    return type(before) is not type(block) or isinstance(before, Table | Chart)


def _renderable(block: Block, page: Page) -> RenderableType:
    if isinstance(block, Code):
        shown = visible(block.text)
        return Text(shown if block.language == "text" else indent(shown, "  "))
    if isinstance(block, Chart):
        return _chart(block, page)
    if isinstance(block, Headline):
        grid = Grid.grid(padding=(0, 2, 0, 0))
        grid.add_row(Text(block.word, style="bold " + _STYLES[block.tone]), _text(block.sentence))
        return grid
    if isinstance(block, Heading):
        return Text(visible(text_of(block.text)), style="bold")
    if isinstance(block, Paragraph):
        text = _text(block.text)
        if not block.wraps:  # which rich pads to the width, and cuts there
            return Text(" " * block.indent) + text
        return Padding(text, (0, 0, 0, block.indent))
    if isinstance(block, Table):
        parts = [_grid(part, page.width) for part in _in_parts(block, page.width)]
        return Group(*[line for part in parts for line in ("", part)][1:])
    return Text("")


def _chart(block: Chart, page: Page) -> Text:
    """Return a chart in colours; its words are first spelled in the page's encoding, because that changes their width."""

    def spelled(text: str) -> str:
        return encodable(text, page.encoding)

    series = tuple(dataclasses.replace(one, name=spelled(one.name)) for one in block.series)
    block = Chart(spelled(block.title), spelled(block.x), spelled(block.y), series, block.regions)
    shown = chart.lines(block, page.width - 2, writes_braille(page.encoding))
    return Text("\n").join(
        Text.assemble(
            "  ", *((part, _SERIES[ink % len(_SERIES)] if isinstance(ink, int) else _STYLES[ink]) for part, ink in line)
        )
        for line in shown
    )


def _in_parts(table: Table, width: int) -> list[Table]:
    """Return a table, or several with part of its columns each, if its short columns do not fit beside each other."""
    count = len(table.columns)
    width -= 2  # the indent
    widths = [_longest(table, k) + 2 for k in range(count)]
    widths[0] = max(widths[0], len(table.columns[0]) + 2)  # the name of the first column is not wrapped
    lead = max(1, min(table.right, default=1))
    if (
        sum(widths) <= width
        or any(w > _SHORT for w in widths[lead:])
        or sum(widths[:lead]) + max(widths[lead:], default=0) > width
    ):
        return [table]
    groups: list[list[int]] = [[]]
    for k in range(lead, count):
        if groups[-1] and sum(widths[:lead]) + sum(widths[j] for j in groups[-1]) + widths[k] > width:
            groups.append([])
        groups[-1].append(k)
    parts = []
    for number, group in enumerate(groups):
        kept = [*range(lead), *group]
        rows = tuple(
            tuple(row[k] for k in kept) if len(row) == count else row
            for row in table.rows
            if len(row) == count or number == len(groups) - 1
        )
        right = frozenset(kept.index(k) for k in kept if k in table.right)
        title = table.title if number == 0 else ""
        parts.append(Table(tuple(table.columns[k] for k in kept), rows, right, title))
    return parts


def _grid(table: Table, width: int) -> RenderableType:
    grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=any(table.columns), header_style="dim")
    widths = len(table.columns)
    fits = sum(_longest(table, k) + 2 for k in range(widths)) <= width
    roomy = sum(max(_longest(table, k), len(table.columns[k])) + 2 for k in range(widths)) <= width - 2
    for k, column in enumerate(table.columns):
        whole = fits and (k == 0 or k in table.right)
        grid.add_column(
            Text(visible(column)),
            justify="right" if k in table.right else "left",
            overflow="fold",
            no_wrap=k == 0,
            min_width=_longest(table, k) if whole and roomy else None,
            width=_longest(table, k) if whole and not roomy else None,  # names are wrapped, numbers are not
        )
    spanning = [row for row in table.rows if len(row) < widths]
    for row in table.rows:
        if len(row) == widths:
            grid.add_row(*(_text(cell) for cell in row))
    below = [
        Padding(Text.assemble(_text(row[0]), "  ", *(_text(cell) for cell in row[1:])), (0, 0, 0, 0))
        for row in spanning
    ]
    title = [Text(visible(table.title), style="dim")] if table.title else []
    return Padding(Group(*title, grid, *below), (0, 0, 0, 2))


def _longest(table: Table, k: int) -> int:
    """Return the width at which no cell of a column, and no word of its name, is wrapped."""
    words = max((len(word) for word in table.columns[k].split()), default=0)
    cells = max((len(text_of(row[k])) for row in table.rows if len(row) == len(table.columns)), default=0)
    return max(words, cells)


def _text(cell: Cell) -> Text:
    return Text.assemble(*((visible(piece.text), _STYLES[piece.tone]) for piece in pieces_of(cell)))


def _tidy(text: str, page: Page) -> str:
    """Return text without trailing blanks, in characters that the page can show."""
    return encodable("\n".join(line.rstrip() for line in text.split("\n")), page.encoding)
