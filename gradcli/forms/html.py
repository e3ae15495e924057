"""Reports as one HTML page: no script, no request to anywhere, formulas in MathML, and all text in it escaped."""

from html import escape
from typing import Any

from gradcli.forms import Page, chart
from gradcli.forms.accents import in_mathml
from gradcli.reports.blocks import (
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
)
from gradcli.reports.escape import visible

_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { margin: 0 auto; padding: 1.5rem 1rem 4rem; max-width: 62rem; }
.wide { overflow-x: auto; margin: 1rem 0; }
table { border-collapse: collapse; }
caption { text-align: left; font-weight: 600; padding: .25rem 0; }
th, td { text-align: left; vertical-align: baseline; padding: .2rem .9rem .2rem 0; }
tbody tr { border-top: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
th { font-weight: 600; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
math { font-size: 1.1em; }
math[display="block"] { display: inline math; }
pre { overflow-x: auto; padding: .75rem 1rem; border-radius: .4rem;
      background: color-mix(in srgb, currentColor 8%, transparent); }
.good { color: light-dark(#116329, #7ee787); }
.bad { color: light-dark(#b3261e, #ffa198); }
.unsure { color: light-dark(#7a4f01, #e3b341); }
.dim { opacity: .75; }
.strong { font-weight: 600; }
"""
_HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8"/>
<meta name="viewport" content="width=device-width, initial-scale=1"/>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'"/>
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
"""


def render(report: Any, page: Page) -> str:
    """Return the report as an HTML page, whose title is what was looked at."""
    target = getattr(report, "target", None)
    title = "gradcli" if target is None else target.text.strip()
    blocks = report.blocks()
    first = [] if any(isinstance(b, Heading) and b.level == 1 for b in blocks) else [Heading(title, 1)]
    body = "\n".join(filter(None, (_block(block, page) for block in (*first, *blocks))))
    return f"{_HEAD.format(title=_text(title), style=_STYLE)}{body}\n</main>\n</body>\n</html>\n"


def _block(block: Block, page: Page) -> str:
    if isinstance(block, Heading):
        return f"<h{block.level}>{_text(block.text)}</h{block.level}>"
    if isinstance(block, Headline):
        return f'<p><strong class="{block.tone}">{_text(block.word)}</strong> {_text(block.sentence)}</p>'
    if isinstance(block, Paragraph):
        return f"<p>{_cell(block.text)}</p>"
    if isinstance(block, Chart):
        return f"<pre>{_lines(chart.text(block, page.width, False))}</pre>"
    if isinstance(block, Code):
        return f"<pre><code>{_lines(block.text)}</code></pre>"
    return _table(block) if isinstance(block, Table) else ""


def _table(table: Table) -> str:
    title = f"<caption>{_text(table.title)}</caption>\n" if table.title else ""
    names = "".join(f"<th{_side(table, k)}>{_text(name)}</th>" for k, name in enumerate(table.columns))
    head = f"<thead><tr>{names}</tr></thead>\n" if any(table.columns) else ""
    rows = "\n".join(f"<tr>{_row(table, row)}</tr>" for row in table.rows)
    return f'<div class="wide" tabindex="0"><table>\n{title}{head}<tbody>\n{rows}\n</tbody>\n</table></div>'


def _row(table: Table, row: tuple[Cell, ...]) -> str:
    named = not any(table.columns)  # a list of names and what they are
    cells = []
    for k, cell in enumerate(row):
        kind = 'th scope="row"' if named and k == 0 else "td"
        cells.append(f"<{kind}{_side(table, k)}>{_cell(cell)}</{kind.partition(' ')[0]}>")
    return "".join(cells)


def _side(table: Table, k: int) -> str:
    return ' class="number"' if k in table.right else ""


def _cell(cell: Cell) -> str:
    return "".join(map(_piece, pieces_of(cell)))


def _piece(piece: Piece) -> str:
    if isinstance(piece, Mathematics):
        return in_mathml(piece.mathml)
    return _text(piece.text) if piece.tone == "plain" else f'<span class="{piece.tone}">{_text(piece.text)}</span>'


def _text(text: str) -> str:
    return escape(visible(text))


def _lines(text: str) -> str:
    """Return text of several lines."""
    return "\n".join(map(_text, text.split("\n")))
