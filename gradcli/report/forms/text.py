"""Reports as text for a terminal or a pipe, by rich; text in a report is never interpreted as markup."""

import dataclasses
import io
import re
from collections.abc import Iterator, Sequence
from textwrap import indent
from typing import Any, Literal

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from gradcli.classes import dataclass
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
    make_visible,
    plain_text,
    split_into_pieces,
)
from gradcli.report.forms import Page, can_encode_braille, make_encodable

_GAP = 2  # columns between the columns of a table
_SHORT = 26  # a narrower column of sentences is not read
_FEW = 3  # rows: a table of fewer can be shown on its side
_MANY = 16  # rows, of which one may have wrapped formulas
_STYLES: dict[Tone, str] = {
    "plain": "",
    "good": "green",
    "bad": "red",
    "unsure": "yellow",
    "dim": "dim",
    "strong": "bold",
}
_SERIES = ("cyan", "magenta", "yellow", "green", "blue", "red")  # among the eight colours that every terminal has


def render_text(report: Any, page: Page) -> str:
    """Return a report as text."""
    return blocks_as_text(report.blocks(), page)


def render_rich(report: Any) -> RenderableType:
    """Return a report as rich shows it, in colour and within the width of its console."""
    return _Blocks(report.blocks())


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Blocks that rich can show; lines that are longer than the console is wide are wrapped."""

    blocks: tuple[Block, ...]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[RenderableType]:
        page = Page(options.max_width, encoding=options.encoding)
        for block in _insert_empty_lines(self.blocks):
            yield "" if block is None else _render_block(block, page)


def blocks_as_text(blocks: Sequence[Block], page: Page) -> str:
    """Return blocks as text within the page's width."""
    written = io.StringIO()
    console = Console(
        file=written, width=page.width, force_terminal=page.color, color_system="standard" if page.color else None,
        no_color=not page.color, highlight=False, markup=False, emoji=False, legacy_windows=False,
        force_jupyter=False,  # in a notebook, rich would show the text instead of writing it
    )  # fmt: skip
    for block in _insert_empty_lines(blocks):
        if block is None:
            console.print()
        else:
            whole = isinstance(block, Code | Chart) or (isinstance(block, Paragraph) and not block.wraps)
            console.print(_render_block(block, page), soft_wrap=whole)
    return make_encodable("\n".join(line.rstrip() for line in written.getvalue().split("\n")), page.encoding)


def _insert_empty_lines(blocks: Sequence[Block]) -> Iterator[Block | None]:
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


def _render_block(block: Block, page: Page) -> RenderableType:
    if isinstance(block, Code):
        shown = make_visible(block.text)
        return Text(shown if block.language == "text" else indent(shown, "  "))
    if isinstance(block, Chart):
        return _draw_chart(block, page)
    if isinstance(block, Headline):
        grid = Grid.grid(padding=(0, 2, 0, 0))
        grid.add_row(Text(block.word, style="bold " + _STYLES[block.tone]), _style_text(block.sentence))
        return grid
    if isinstance(block, Heading):
        return Text(make_visible(plain_text(block.text)), style="bold")
    if isinstance(block, Paragraph):
        text = _style_text(block.text)
        if not block.wraps:  # which rich pads to the width, and cuts there
            return Text(" " * block.indent) + text
        return Padding(text, (0, 0, 0, block.indent))
    if isinstance(block, Table):
        return _render_table(block, page.width)
    return Text("")


def _draw_chart(block: Chart, page: Page) -> Text:
    """Return a chart in colours; its words are first spelled in the page's encoding, because that changes their width."""

    def spelled(text: str) -> str:
        return make_encodable(text, page.encoding)

    from gradcli.report.forms.terminal_chart import draw_lines

    series = tuple(dataclasses.replace(one, name=spelled(one.name)) for one in block.series)
    block = Chart(spelled(block.title), spelled(block.x), spelled(block.y), series, block.regions)
    lines = []
    for line in draw_lines(block, page.width - 2, can_encode_braille(page.encoding)):
        styles = (_SERIES[ink % len(_SERIES)] if isinstance(ink, int) else _STYLES[ink] for _, ink in line)
        lines.append(Text.assemble("  ", *zip((part for part, _ in line), styles, strict=True)))
    return Text("\n").join(lines)


def _render_table(table: Table, width: int) -> RenderableType:
    """Return a table as a grid, as several with part of its columns each, on its side, or as an entry after another.

    The first of these is taken in which no name of a column is wrapped, and no number or formula is broken.
    """
    room = width - 2  # the indent
    parts = [(part, _fitting_widths(part, room)) for part in (table, *_split_columns(table, room))]
    if parts[0][1] is not None:
        shown: RenderableType = _make_grid(table, parts[0][1])
    elif len(parts) > 1 and all(widths for _, widths in parts[1:]):
        shown = Group(*[line for part, widths in parts[1:] if widths for line in ("", _make_grid(part, widths))][1:])
    else:
        shown = _list_entries(table, room)
    return Padding(shown, (0, 0, 0, 2))


def _fitting_widths(table: Table, room: int) -> list[int] | None:
    """Return widths of columns that fit beside one another; None if they do not.

    Of many rows, a few may have formulas that are wider than their column, and are wrapped.
    """
    wanted, widths = [], []
    for k, (name, cells) in enumerate(zip(table.columns, _words_of_columns(table), strict=True)):
        least = sorted(_least_width(cell, room) for cell in cells)
        rare = 0 if k in table.right else len(cells) // _MANY
        wanted.append(max([len(name), *map(len, cells)]))
        widths.append(max([len(name), *least[: len(least) - rare]]))
    left = room - _GAP * (len(widths) - 1) - sum(widths)
    for k in sorted(range(len(widths)), key=lambda k: wanted[k] - widths[k]):  # what lacks little gets all of it
        more = max(0, min(left, wanted[k] - widths[k]))
        widths[k] += more
        left -= more
    return widths if left >= 0 else None


def _words_of_columns(table: Table) -> list[list[str]]:
    """Return the words of each column; those of rows of fewer cells stand below the table."""
    full = [row for row in table.rows if len(row) == len(table.columns)]
    return [[plain_text(row[k]) for row in full] for k in range(len(table.columns))]


def _split_columns(table: Table, room: int) -> list[Table]:
    """Return tables with part of the columns each, none where one column has no room; the table on its side if these are many."""
    count = len(table.columns)
    lead = max(1, min(table.right, default=1))
    words = _words_of_columns(table)
    widths = [max([len(name), *map(len, cells)]) + _GAP for name, cells in zip(table.columns, words, strict=True)]
    if any(w > _SHORT + _GAP for w in widths) or sum(widths[:lead]) + max(widths[lead:], default=0) > room + _GAP:
        long_names = 0 not in table.right and all(len(cell) <= _SHORT for cells in words for cell in cells)
        return [_turn_table(table)] if long_names and len(table.rows) < _FEW <= count else []
    groups: list[list[int]] = [[]]
    for k in range(lead, count):
        if groups[-1] and sum(widths[:lead]) + sum(widths[j] for j in groups[-1]) + widths[k] > room + _GAP:
            groups.append([])
        groups[-1].append(k)
    parts = []
    for group in groups:
        kept = [*range(lead), *group]
        shown = table.rows if group is groups[-1] else [row for row in table.rows if len(row) == count]
        rows = [[row[k] for k in kept] if len(row) == count else row for row in shown]
        right = [place for place, k in enumerate(kept) if k in table.right]
        title = table.title if group is groups[0] else ""
        parts.append(Table([table.columns[k] for k in kept], rows, right, title))
    return parts


def _turn_table(table: Table) -> Table:
    """Return a table whose rows are the columns of another; rows of fewer cells stay below."""
    full = [row for row in table.rows if len(row) == len(table.columns)]
    rows = [(name, *(row[k + 1] for row in full)) for k, name in enumerate(table.columns[1:])]
    below = [row for row in table.rows if row not in full]
    return Table([table.columns[0], *(plain_text(row[0]) for row in full)], [*rows, *below], title=table.title)


def _make_grid(table: Table, widths: list[int]) -> RenderableType:
    grid = Grid(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), show_header=any(table.columns), header_style="dim")
    for k, (column, width) in enumerate(zip(table.columns, widths, strict=True)):
        justify: Literal["left", "right"] = "right" if k in table.right else "left"
        grid.add_column(Text(make_visible(column)), justify=justify, width=width, no_wrap=True)
    for row in table.rows:
        if len(row) == len(widths):
            grid.add_row(*(_fold_text(_style_text(cell), width) for cell, width in zip(row, widths, strict=True)))
    below = [Text("  ").join(map(_style_text, row)) for row in table.rows if len(row) < len(widths)]
    title = [Text(make_visible(table.title), style="dim")] if table.title else []
    return Group(*title, grid, *below)


def _list_entries(table: Table, room: int) -> RenderableType:
    """Return a table as an entry after another: what the entry is on a line, and below it each cell after its name.

    Where an entry has one cell, it stands beside what the entry is if there is room.
    """
    lead = 1 + next((k for k, name in enumerate(table.columns) if name), 0)  # columns without a name number the entries
    names, alone = table.columns[lead:], len(table.columns) == lead + 1
    first = [max(map(len, cells), default=0) for cells in _words_of_columns(table)[:lead]]
    label = sum(first) + _GAP * (lead - 1) if alone else 4 + max(map(len, names), default=0)
    head = Text("  ").join(
        Text(f"{make_visible(name):<{width}}") for name, width in zip(table.columns, first, strict=False)
    )
    titles = (Text(make_visible(table.title)), head + Text(f"  {make_visible(names[0])}") if alone else head)
    found: list[RenderableType] = [Text(line.plain.rstrip(), style="dim") for line in titles if line.plain.strip()]
    for row in table.rows:
        if len(row) < len(table.columns):
            found.append(Text("  ").join(map(_style_text, row)))
            continue
        start = Text("")
        for what, width in zip(map(_style_text, row), first, strict=False):
            start = _hang_text(Text("  ").join([start, Text("")]) if len(start) else start, what, room)
            start.pad_right(width - len(what))
        if not alone:
            found.append(start)
        for name, cell in zip(names, row[lead:], strict=True):
            start = start if alone else Text(f"    {make_visible(name)}", style="dim")
            start.pad_right(label - len(start) + _GAP)
            words = plain_text(cell)
            if words and _least_width(words, room) > room - len(start):
                found += [start] if start.plain.strip() else []
                start = Text(" " * (4 if alone else 6))
            found += [_hang_text(start, _style_text(cell), room)] if words or alone else []
    return Group(*found)


def _hang_text(start: Text, text: Text, room: int) -> Text:
    """Return text after its start, further lines below the first."""
    return start + Text("\n" + " " * len(start)).join(_fold_text(text, max(1, room - len(start))).split("\n"))


# Cells on several lines: words are wrapped; a number or a formula is broken only where it is longer than a line.

_WORDS = re.compile(r"[^\W\d_]{2,}[,;:]? [^\W\d_]{2,}")  # two words: a sentence, no formula


def _fold_text(text: Text, width: int) -> Text:
    """Return text in lines of this width."""
    lines = []
    for line in text.split("\n"):
        begin = end = 0
        for first, last in _unbroken_pieces(line.plain, width):
            while last - begin > width:
                at = first if first > begin else begin + width
                lines.append(line[begin : min(at, max(end, begin + width))])
                begin = at
            end = last
        lines.append(line[begin:])
    for line in lines:
        line.rstrip()
    return Text("\n").join(lines)


def _least_width(words: str, width: int) -> int:
    """Return the width at which nothing is broken that fits into the width of a whole line."""
    sentence = _WORDS.search(words) is not None
    pieces = [piece for line in words.split("\n") for piece in _unbroken_pieces(line, width)]
    longest = max((last - first for first, last in pieces), default=0)
    return min(width, max(longest, min(_SHORT, len(words)) if sentence else 0))


def _unbroken_pieces(line: str, width: int) -> Iterator[tuple[int, int]]:
    """Yield where the parts of a line are that are not broken: between three spaces or semicolons, or words.

    Words are the parts of sentences, and of what is wider than the width; what is in brackets is one while it fits.
    """
    for part in re.finditer(r"\S+(?:(?<!;) {1,2}\S+)*", line):
        if part.end() - part.start() <= width and not _WORDS.search(part.group()):
            yield part.span()
            continue
        start = part.start()
        for word in _split_outside_brackets(part.group()):
            for piece in [word] if len(word) <= width else word.split(" "):
                yield start, start + len(piece)
                start += len(piece) + 1


def _split_outside_brackets(words: str) -> list[str]:
    """Return the words between the spaces that are in no brackets."""
    found, depth = [""], 0
    for letter in words:
        depth += (letter in "([{") - (letter in ")]}")
        if letter == " " and depth <= 0:
            found.append("")
        else:
            found[-1] += letter
    return found


def _style_text(cell: Cell) -> Text:
    return Text.assemble(*((make_visible(piece.text), _STYLES[piece.tone]) for piece in split_into_pieces(cell)))
