"""Blocks as elements of HTML, with all text escaped: for pages, which have a style sheet, and for notebooks without one."""

from collections.abc import Callable, Sequence

from gradcli.report.blocks import (
    Block,
    Cell,
    Chart,
    Code,
    Heading,
    Headline,
    Link,
    Mathematics,
    Paragraph,
    Piece,
    Table,
    in_markup,
    pieces_of,
)
from gradcli.report.forms import terminal_chart

Look = Callable[[str], str]  # the attribute, with a space before it, that gives an element the look of this name


_BY_ELEMENT = ("table", "caption", "cell", "code", "math")  # looks that a style sheet finds by the name of the element


def classed(look: str) -> str:
    """Return the attribute that a style sheet refers to."""
    return "" if look in _BY_ELEMENT else f' class="{look}"'


def elements(blocks: Sequence[Block], look: Look = classed, width: int = 80) -> str:
    """Return blocks as elements, a line break between them; `width` is that of charts in characters."""
    return "\n".join(filter(None, (_element(block, look, width) for block in blocks)))


def _element(block: Block, look: Look, width: int) -> str:
    if isinstance(block, Heading):
        named = f' id="{in_markup(block.name)}"' if block.name else ""
        if _is_formula(block.text):  # which a screen reader may not say, and which may be wider than the page
            named += f' aria-label="{in_markup("".join(piece.text for piece in pieces_of(block.text)))}" tabindex="0"'
        return f"<h{block.level}{named}>{_cell(block.text, look)}</h{block.level}>"
    if isinstance(block, Headline):
        return f"<p><strong{look(block.tone)}>{in_markup(block.word)}</strong> {_cell(block.sentence, look)}</p>"
    if isinstance(block, Paragraph):
        formula = any(isinstance(piece, Mathematics) for piece in pieces_of(block.text))
        return f"<p{_scrolls('group', 'formula') if formula else ''}>{_cell(block.text, look)}</p>"
    if isinstance(block, Chart):
        named = _scrolls("img", f"{block.title}: {block.y} against {block.x}")
        return f"<pre{look('code')}{named}>{_lines(terminal_chart.text(block, width, False))}</pre>"
    if isinstance(block, Code):
        inside = _edit(block.text, look) if block.language == "diff" else _lines(block.text)
        return f"<pre{look('code')}{_scrolls('group', 'code')}><code>{inside}</code></pre>"
    return _table(block, look) if isinstance(block, Table) else ""


def _edit(text: str, look: Look) -> str:
    """Return an edit, what goes in red and what comes in green."""
    looks = {"-": look("bad"), "+": look("good")}
    lines = ((looks.get(line[:1]), _lines(line)) for line in text.split("\n"))
    return "\n".join(shown if own is None else f"<span{own}>{shown}</span>" for own, shown in lines)


def _is_formula(cell: Cell) -> bool:
    """Whether a cell has no words beside mathematics."""
    return all(isinstance(piece, Mathematics) for piece in pieces_of(cell))


def _table(table: Table, look: Look) -> str:
    title = f"<caption{look('caption')}>{in_markup(table.title)}</caption>\n" if table.title else ""
    names = "".join(_written("th", _side(table, k, look), in_markup(name)) for k, name in enumerate(table.columns))
    head = f"<thead><tr>{names}</tr></thead>\n" if any(table.columns) else ""
    rows = "\n".join(f"<tr>{_row(table, row, look)}</tr>" for row in table.rows)
    body = f"<table{look('table')}>\n{title}{head}<tbody>\n{rows}\n</tbody>\n</table>"
    return f"<div{look('wide')}{_scrolls('group', table.title or 'table')}>{body}</div>"


def _row(table: Table, row: tuple[Cell, ...], look: Look) -> str:
    named = not any(table.columns)  # a list of names and what they are
    return "".join(
        _written('th scope="row"' if named and k == 0 else "td", _side(table, k, look), _cell(cell, look))
        for k, cell in enumerate(row)
    )


def _written(kind: str, side: str, inside: str) -> str:
    """Return a cell; one that is empty is the head of nothing."""
    kind = kind if inside else "td"
    return f"<{kind}{side}>{inside}</{kind.partition(' ')[0]}>"


def _scrolls(role: str, name: str) -> str:
    """Return what lets a keyboard scroll an element that is wider than the page, and a screen reader say where it is."""
    return f' role="{role}" aria-label="{in_markup(name)}" tabindex="0"'


def _side(table: Table, k: int, look: Look) -> str:
    return look("number") if k in table.right else look("cell")


def _cell(cell: Cell, look: Look) -> str:
    return "".join(_piece(piece, look) for piece in pieces_of(cell))


def _piece(piece: Piece, look: Look) -> str:
    if isinstance(piece, Mathematics):
        return piece.mathml.replace("<math", f"<math{look('math')}", 1).replace(' class="bad"', look("bad"))
    if isinstance(piece, Link):
        return f'<a href="#{in_markup(piece.to)}">{in_markup(piece.text)}</a>'
    return in_markup(piece.text) if piece.tone == "plain" else f"<span{look(piece.tone)}>{in_markup(piece.text)}</span>"


def _lines(words: str) -> str:
    """Return text of several lines."""
    return "\n".join(map(in_markup, words.split("\n")))
