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
    plain_text,
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
        if all(isinstance(piece, Mathematics) for piece in split_into_pieces(block.text)):
            # which a screen reader may not say, and which may be wider than the page
            named += f' aria-label="{escape_markup(plain_text(block.text))}" tabindex="0"'
        return f"<h{block.level}{named}>{_write_cell(block.text, look)}</h{block.level}>"
    if isinstance(block, Headline):
        word = f"<strong{look(block.tone)}>{escape_markup(block.word)}</strong>"
        return f"<p>{word} {_write_cell(block.sentence, look)}</p>"
    if isinstance(block, Paragraph):
        formula = any(isinstance(piece, Mathematics) for piece in split_into_pieces(block.text))
        return f"<p{_scroll_attributes('group', 'formula') if formula else ''}>{_write_cell(block.text, look)}</p>"
    if isinstance(block, Chart):
        named = _scroll_attributes("img", f"{block.title}: {block.y} against {block.x}")
        return f"<pre{look('code')}{named}>{escape_markup(terminal_chart.draw_as_text(block, width, False))}</pre>"
    if isinstance(block, Code):
        inside = escape_markup(block.text)
        if block.language == "diff":  # an edit, what goes in red and what comes in green
            looks = {"-": look("bad"), "+": look("good")}
            lines = ((looks.get(line[:1]), line) for line in inside.split("\n"))
            inside = "\n".join(line if own is None else f"<span{own}>{line}</span>" for own, line in lines)
        return f"<pre{look('code')}{_scroll_attributes('group', 'code')}><code>{inside}</code></pre>"
    return _write_table(block, look) if isinstance(block, Table) else ""


def _write_table(table: Table, look: Look) -> str:
    title = f"<caption{look('caption')}>{escape_markup(table.title)}</caption>\n" if table.title else ""
    named = any(table.columns)  # else it is a list of names and what they are
    head = f"<thead>{_write_row(table, table.columns, look, ('th',))}</thead>\n" if named else ""
    kinds = ("td",) if named else ('th scope="row"', "td")
    rows = "\n".join(_write_row(table, row, look, kinds) for row in table.rows)
    body = f"<table{look('table')}>\n{title}{head}<tbody>\n{rows}\n</tbody>\n</table>"
    return f"<div{look('wide')}{_scroll_attributes('group', table.title or 'table')}>{body}</div>"


def _write_row(table: Table, row: Sequence[Cell], look: Look, kinds: Sequence[str]) -> str:
    """Return a row, its cells of these kinds, the last of which goes on; one that is empty is the head of nothing."""
    cells = ""
    for k, cell in enumerate(row):
        inside = _write_cell(cell, look)
        kind = kinds[min(k, len(kinds) - 1)] if inside else "td"
        side = look("number" if k in table.right else "cell")
        cells += f"<{kind}{side}>{inside}</{kind.partition(' ')[0]}>"
    return f"<tr>{cells}</tr>"


def _scroll_attributes(role: str, name: str) -> str:
    """Return what lets a keyboard scroll an element that is wider than the page, and a screen reader say where it is."""
    return f' role="{role}" aria-label="{escape_markup(name)}" tabindex="0"'


def _write_cell(cell: Cell, look: Look) -> str:
    return "".join(_write_piece(piece, look) for piece in split_into_pieces(cell))


def _write_piece(piece: Piece, look: Look) -> str:
    if isinstance(piece, Mathematics):
        return piece.mathml.replace("<math", f"<math{look('math')}", 1).replace(' class="bad"', look("bad"))
    if isinstance(piece, Link):
        return f'<a href="#{escape_markup(piece.to)}">{escape_markup(piece.text)}</a>'
    text = escape_markup(piece.text)
    return text if piece.tone == "plain" else f"<span{look(piece.tone)}>{text}</span>"
