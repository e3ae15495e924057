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
    escape_markup,
    split_into_pieces,
)
from gradcli.report.forms import terminal_chart

Look = Callable[[str], str]  # the attribute, with a space before it, that gives an element the look of this name


_BY_ELEMENT = ("table", "caption", "cell", "code", "math")  # looks that a style sheet finds by the name of the element


def class_attribute(look: str) -> str:
    """Return the attribute that a style sheet refers to."""
    return "" if look in _BY_ELEMENT else f' class="{look}"'


def write_elements(blocks: Sequence[Block], look: Look = class_attribute, width: int = 80) -> str:
    """Return blocks as elements, a line break between them; `width` is that of charts in characters."""
    return "\n".join(filter(None, (_write_element(block, look, width) for block in blocks)))


def _write_element(block: Block, look: Look, width: int) -> str:
    if isinstance(block, Heading):
        named = f' id="{escape_markup(block.name)}"' if block.name else ""
        if _is_formula(block.text):  # which a screen reader may not say, and which may be wider than the page
            named += f' aria-label="{escape_markup("".join(piece.text for piece in split_into_pieces(block.text)))}" tabindex="0"'
        return f"<h{block.level}{named}>{_write_cell(block.text, look)}</h{block.level}>"
    if isinstance(block, Headline):
        return (
            f"<p><strong{look(block.tone)}>{escape_markup(block.word)}</strong> {_write_cell(block.sentence, look)}</p>"
        )
    if isinstance(block, Paragraph):
        formula = any(isinstance(piece, Mathematics) for piece in split_into_pieces(block.text))
        return f"<p{_scroll_attributes('group', 'formula') if formula else ''}>{_write_cell(block.text, look)}</p>"
    if isinstance(block, Chart):
        named = _scroll_attributes("img", f"{block.title}: {block.y} against {block.x}")
        return f"<pre{look('code')}{named}>{_escape_lines(terminal_chart.draw_as_text(block, width, False))}</pre>"
    if isinstance(block, Code):
        inside = _write_edit(block.text, look) if block.language == "diff" else _escape_lines(block.text)
        return f"<pre{look('code')}{_scroll_attributes('group', 'code')}><code>{inside}</code></pre>"
    return _write_table(block, look) if isinstance(block, Table) else ""


def _write_edit(text: str, look: Look) -> str:
    """Return an edit, what goes in red and what comes in green."""
    looks = {"-": look("bad"), "+": look("good")}
    lines = ((looks.get(line[:1]), _escape_lines(line)) for line in text.split("\n"))
    return "\n".join(shown if own is None else f"<span{own}>{shown}</span>" for own, shown in lines)


def _is_formula(cell: Cell) -> bool:
    """Whether a cell has no words beside mathematics."""
    return all(isinstance(piece, Mathematics) for piece in split_into_pieces(cell))


def _write_table(table: Table, look: Look) -> str:
    title = f"<caption{look('caption')}>{escape_markup(table.title)}</caption>\n" if table.title else ""
    names = "".join(
        _write_table_cell("th", _alignment_attribute(table, k, look), escape_markup(name))
        for k, name in enumerate(table.columns)
    )
    head = f"<thead><tr>{names}</tr></thead>\n" if any(table.columns) else ""
    rows = "\n".join(f"<tr>{_write_row(table, row, look)}</tr>" for row in table.rows)
    body = f"<table{look('table')}>\n{title}{head}<tbody>\n{rows}\n</tbody>\n</table>"
    return f"<div{look('wide')}{_scroll_attributes('group', table.title or 'table')}>{body}</div>"


def _write_row(table: Table, row: tuple[Cell, ...], look: Look) -> str:
    named = not any(table.columns)  # a list of names and what they are
    return "".join(
        _write_table_cell(
            'th scope="row"' if named and k == 0 else "td",
            _alignment_attribute(table, k, look),
            _write_cell(cell, look),
        )
        for k, cell in enumerate(row)
    )


def _write_table_cell(kind: str, side: str, inside: str) -> str:
    """Return a cell; one that is empty is the head of nothing."""
    kind = kind if inside else "td"
    return f"<{kind}{side}>{inside}</{kind.partition(' ')[0]}>"


def _scroll_attributes(role: str, name: str) -> str:
    """Return what lets a keyboard scroll an element that is wider than the page, and a screen reader say where it is."""
    return f' role="{role}" aria-label="{escape_markup(name)}" tabindex="0"'


def _alignment_attribute(table: Table, k: int, look: Look) -> str:
    return look("number") if k in table.right else look("cell")


def _write_cell(cell: Cell, look: Look) -> str:
    return "".join(_write_piece(piece, look) for piece in split_into_pieces(cell))


def _write_piece(piece: Piece, look: Look) -> str:
    if isinstance(piece, Mathematics):
        return piece.mathml.replace("<math", f"<math{look('math')}", 1).replace(' class="bad"', look("bad"))
    if isinstance(piece, Link):
        return f'<a href="#{escape_markup(piece.to)}">{escape_markup(piece.text)}</a>'
    return (
        escape_markup(piece.text)
        if piece.tone == "plain"
        else f"<span{look(piece.tone)}>{escape_markup(piece.text)}</span>"
    )


def _escape_lines(words: str) -> str:
    """Return text of several lines."""
    return "\n".join(map(escape_markup, words.split("\n")))
