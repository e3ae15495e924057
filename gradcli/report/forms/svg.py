"""A report's pictures as one SVG file: the graph of a computation, or what matplotlib draws."""

from typing import Any

from gradcli.report.forms import Page
from gradcli.report.forms.figure import draw_picture_file
from gradcli.report.trace import TraceReport

_STYLE = """
text { font: 12px ui-monospace, monospace; fill: #1f2328; text-anchor: middle; }
rect { fill: #fff; stroke: #8c959f; rx: 5px; }
path { fill: none; stroke: #8c959f; stroke-width: 1.5; }
.n { font-weight: 700; } .edges text { text-anchor: end; paint-order: stroke; stroke: #fff; stroke-width: 4px; }
.down text { text-anchor: middle; } .edges path { marker-end: url(#arrow); } marker path { fill: #8c959f; stroke: none; }
.given { opacity: .65; } .given rect { stroke-dasharray: 2 2; }
.v { fill: #0a5bb5; }
.a { fill: #116329; } .c { fill: #b3261e; font-weight: 700; } .bad rect { stroke: #b3261e; stroke-width: 2; }
.many rect { stroke-dasharray: 6 3; }
"""


def render(report: Any, page: Page) -> str:
    """Return the graph of a computation, or the report's pictures, one below another, as SVG."""
    if isinstance(report, TraceReport):
        from gradcli.report.drawing.graph import draw_graph

        return f"{draw_graph(report, style=_STYLE, down=page.down).svg}\n"
    return draw_picture_file(report.pictures(), "svg", page.size, page.dpi).decode()
