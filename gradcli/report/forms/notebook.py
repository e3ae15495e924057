"""Reports in the forms of a notebook: text, HTML, Markdown and, of derivations, LaTeX, by their media types.

The HTML has no script, no style sheet and no class. Its styles stand in the elements, and nothing is lost without them. Colours
are mixed with the colour of the text around, which the notebook's theme chooses, so that they can be read on any background.
Pictures are SVG, whose looks are attributes.
"""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from gradcli.classes import dataclass
from gradcli.report.blocks import (
    Block,
    Cell,
    Chart,
    Code,
    Graph,
    HeatMap,
    Mathematics,
    Paragraph,
    Piece,
    Table,
    escape_markup,
    plain_text,
    split_into_pieces,
)
from gradcli.report.check import CheckReport
from gradcli.report.derive import BREAK, DeriveReport, Lecture, align_equations
from gradcli.report.drawing import chart
from gradcli.report.drawing.graph import draw_graph
from gradcli.report.forms import Page, render_as_text
from gradcli.report.forms.elements import write_elements
from gradcli.report.trace import TraceReport

MOST_BYTES = 50_000  # of the HTML, so that notebooks stay small
_MOST_DRAWN = 30_000  # bytes of all pictures
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
    "beside": "display:inline-block;vertical-align:bottom;margin-right:2em",
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
class _Drawn:
    """A picture as HTML, and the block that has the same in text, if there is one."""

    html: str
    block: Block | None = None


Shown = Block | _Drawn


def render_notebook(report: Any, page: Page) -> dict[str, str]:
    """Return the report by media types: `text/plain`, `text/html`, `text/markdown`, and `text/latex` of a derivation."""
    shown, html = _cut_to_limit(_blocks_with_pictures(report))
    blocks = [block.block if isinstance(block, _Drawn) else block for block in shown]
    text = SimpleNamespace(blocks=lambda: [block for block in blocks if block is not None])
    forms = {
        "text/plain": render_as_text("text", text, Page(_WIDTH)).rstrip("\n"),
        "text/html": html,
        "text/markdown": render_as_text("markdown", text, Page(_WIDTH)),
    }
    derivation = report.derivation if isinstance(report, Lecture) else report
    if isinstance(derivation, DeriveReport) and derivation.results:
        formulas = (result.formula.latex.split(BREAK) for result in derivation.results)
        forms["text/latex"] = "\n".join(f"$$\n{align_equations(lines)}\n$$" for lines in formulas)
    return forms


def _style_attribute(look: str) -> str:
    style = _STYLES.get(look)
    return "" if style is None else f' style="{style}"'


def _write_html(blocks: Sequence[Shown]) -> str:
    shown = (
        block.html if isinstance(block, _Drawn) else write_elements((block,), _style_attribute, _WIDTH)
        for block in blocks
    )
    return "<div>\n{}\n</div>".format("\n".join(filter(None, shown)))


def _blocks_with_pictures(report: Any) -> tuple[Shown, ...]:
    """Return the blocks of a report with its pictures: the graph of a trace, charts, and wrong gradients beside the right ones.

    What is too large together is left out, and said; a chart is then drawn in characters.
    """
    found: list[tuple[str, Block | None]] = [
        (_write_picture(block, report) if isinstance(block, Chart | Graph) else "", block) for block in report.blocks()
    ]
    if isinstance(report, CheckReport):
        opening = len(report.opening())
        found[opening:opening] = [(_write_picture(block, report), None) for block in report.wrong_gradients()]
    left, shown = _MOST_DRAWN, list[Shown]()
    said = _Drawn("<p>Pictures are left out here. report.page() shows them.</p>")
    for html, block in found:
        left -= len(html.encode())
        if html and left >= 0:
            shown.append(_Drawn(html, block))
        else:
            shown += [said] * (bool(html) and not isinstance(block, Chart) and said not in shown)
            shown += [] if block is None else [block]
    return tuple(shown)


def _write_picture(block: Block | HeatMap, report: Any) -> str:
    """Return a picture with its title, or an element of text that stands between pictures."""
    if isinstance(block, Graph):
        trace = report.walkthrough if isinstance(report, Lecture) else report
        if not isinstance(trace, TraceReport):
            return ""
        return f"<p>{_GRAPH}</p>\n{_write_scrollable('graph', draw_graph(trace).svg)}"
    if isinstance(block, HeatMap):
        title = f"<p><strong>{escape_markup(block.title)}</strong></p>"
        return f"<div{_style_attribute('beside')}>{title}\n{inline_looks(chart.draw_heat_map(block))}</div>"
    if not isinstance(block, Chart):
        return write_elements((block,), _style_attribute, _WIDTH)
    drawn = chart.draw_chart(block)
    if not drawn:
        return ""
    samples = chart.Looks.of(block).samples(block)
    legend = " &#160; ".join(f"{inline_looks(sample)} {escape_markup(name)}" for _, _, sample, name in samples)
    return f"<p><strong>{escape_markup(block.title)}</strong></p>\n<p>{legend}</p>\n{_write_scrollable('chart', drawn)}"


def _write_scrollable(name: str, svg: str) -> str:
    return f'<div{_style_attribute("wide")} role="group" aria-label="{name}" tabindex="0">{inline_looks(svg)}</div>'


# Pictures without a style sheet. Words have the colour of the text around; lines can be seen on light and on dark.

_LINES = ("#0072b2", "#d55e00", "#009e73", "#b0508a", "#a0703f", "currentColor", "#7a7a00")
_GREY, _RED = "#888888", "#d1443b"
_DASHED = {"stroke-dasharray": "6 3"}
_OUTLINED = {"fill": "none", "stroke": _GREY, "stroke-width": "1"}
_ATTRIBUTES: dict[str, dict[str, str]] = {  # of elements by class, by tag, or by tag within a class, the last ones decide
    "svg": {"font-family": "monospace", "font-size": "12", "text-anchor": "middle", "fill": "currentColor"},
    "left": {"text-anchor": "end"}, "right": {"text-anchor": "start"},
    **{f"k{k}": {"color": color} for k, color in enumerate(_LINES)},
    "y1": {"stroke-dasharray": "7 3"}, "y2": {"stroke-dasharray": "2 3"}, "y3": {"stroke-dasharray": "9 3 2 3"},
    "line": {"fill": "none", "stroke": "currentColor", "stroke-width": "1.6"},
    "path guide": {"stroke": _GREY, "stroke-dasharray": "5 4"},
    "grid": {**_OUTLINED, "stroke-width": "0.3"}, "bar": {"fill": _LINES[0]},
    **{f"h{letter}": {"fill": color} for letter, color in chart.COLORS_OF_CELLS.items()},
    "hx": {"fill": chart.COLORS_OF_CELLS["x"], "stroke": "#6e7781"},
    "halo": {"fill": "none", "stroke": "#ffffff", "stroke-width": "3.5"},
    "ring": {"fill": "none", "stroke": "#000000", "stroke-width": "1.5"},
    "path edges": _OUTLINED, "text edges": {"text-anchor": "end", "dy": "-6"}, "path given": _DASHED,
    "rect node": _OUTLINED, "rect given": _OUTLINED | _DASHED, "rect many": _DASHED,
    "rect bad": {"stroke": _RED, "stroke-width": "2"}, "n": {"font-weight": "bold"}, "c": {"font-weight": "bold"},
}  # fmt: skip
_DROPPED = ("class", "id", "data-edge", "href")  # attributes that only a style sheet or a script needs


def inline_looks(svg: str) -> str:
    """Return a picture with its looks as attributes, without classes, names and parts that are drawn by their names.

    >>> inline_looks('<svg xmlns="http://www.w3.org/2000/svg"><g class="k1"><path class="line" d="M0 8h28"/></g></svg>')[-83:]
    '<path d="M0 8h28" fill="none" stroke="currentColor" stroke-width="1.6" /></g></svg>'
    """
    root = ET.fromstring(svg)
    for around in [*root.iter()]:
        classes = around.get("class", "").split()
        around.tag = around.tag.rpartition("}")[2]
        marks = ""
        for part in [*around]:
            tag = part.tag.rpartition("}")[2]
            own = part.get("class", "").split()
            looks = (*own, *(f"{tag} {look}" for look in (*classes, *own)))
            for look in looks:
                for name, value in _ATTRIBUTES.get(look, {}).items():
                    part.set(name, value)
            if tag == "use":
                path = chart.MARKS[int(part.get("href", "").removeprefix("#m"))]
                if start := re.match(r"M(-?\d+) ?(-?\d+)(.*)", path):
                    x, y = (float(part.get(axis, "0")) + int(start[k]) for k, axis in enumerate("xy", 1))
                    marks += f"M{x:g} {y:g}{start[3]}"
            if tag in ("use", "defs"):
                around.remove(part)
            elif tag == "path" and "edges" in classes:  # which has its head at its end
                steps = [
                    [*map(float, step.split())][-2:] for step in re.split("[lc]", part.get("d", "").removeprefix("M"))
                ]
                x, y = (sum(step[k] for step in steps) for k in (0, 1))
                ET.SubElement(around, "path", {"d": f"M{x:g} {y:g}l-8-4v8z", "fill": _GREY})
        if marks:
            ET.SubElement(around, "path", {"d": marks, "fill": "currentColor", "stroke": "none"})
    for part in root.iter():
        for name in _DROPPED:
            part.attrib.pop(name, None)
    root.attrib |= _ATTRIBUTES["svg"] | {"xmlns": "http://www.w3.org/2000/svg"}
    return ET.tostring(root, encoding="unicode")


def _cut_to_limit(blocks: tuple[Shown, ...]) -> tuple[tuple[Shown, ...], str]:
    """Return the blocks of a report whose HTML is small enough, and the HTML: all, or those that the first limit leaves."""
    shown, html = blocks, ""
    for limit in _LIMITS:
        shown = tuple(part for block in blocks for part in _limit_block(block, limit))
        html = _write_html(shown)
        if len(html.encode()) < MOST_BYTES:
            return shown, html
    said = Paragraph(f"The rest of this report is left out. {_HOW}", 0)
    shown = (*shown[:_MOST_BLOCKS], said)
    return shown, _write_html(shown)


_GRAPH = "Above each box is its value, below it its adjoint; at the edges are the local partials that are numbers."
_HOW = "print(report) shows all of it, report.page() as a page."


def _limit_block(block: Shown, limit: _Limit) -> Iterator[Shown]:
    if isinstance(block, _Drawn):
        if limit.formulas:
            yield block
        elif block.block is not None:
            yield block.block
    elif isinstance(block, Table):
        rows = [[_limit_cell(cell, limit) for cell in row] for row in block.rows[: limit.rows]]
        yield Table(block.columns, rows, block.right, block.title)
        if len(rows) < len(block.rows):
            yield Paragraph(f"{len(rows):,} of {len(block.rows):,} rows are shown here. {_HOW}", 0)
    elif isinstance(block, Paragraph):
        yield replace(block, text=_limit_cell(block.text, limit))
    elif isinstance(block, Code) and len(block.text) > limit.characters:
        yield Code(_cut_text(block.text, limit.characters), block.language)
        yield Paragraph(f"The end of this text is left out here. {_HOW}", 0)
    else:
        yield block


def _limit_cell(cell: Cell, limit: _Limit) -> Cell:
    """Return a cell whose text is short enough; with formulas as text, if these are not set as such."""
    pieces = split_into_pieces(cell)
    formulas = limit.formulas and any(isinstance(piece, Mathematics) for piece in pieces)
    if formulas or (len(plain_text(cell)) <= limit.characters and not any(isinstance(p, Mathematics) for p in pieces)):
        return cell
    left, kept = limit.characters, []
    for piece in pieces:
        if left > 0:
            kept.append(Piece(_cut_text(piece.text, left), piece.tone))
        left -= len(piece.text)
    return tuple(kept)


def _cut_text(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most] + " …"
