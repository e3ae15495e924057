"""Graphs for Mermaid, as GitHub and many wikis draw them."""

from typing import Any

from gradcli.report.blocks import make_visible
from gradcli.report.forms import Page


def render(report: Any, page: Page) -> str:
    """Return the report's graph as a Mermaid flowchart."""
    graph = report.graph()
    nodes = [f'  n{name}["{_escape_mermaid(label)}"]' for name, label in graph.nodes]
    edges = [f'  n{a} -->|"{_escape_mermaid(label)}"| n{b}' for a, b, label in graph.edges]
    return "\n".join(["flowchart LR", *nodes, *edges]) + "\n"


def _escape_mermaid(text: str) -> str:
    """Return text with special characters as Mermaid entities, so that nothing in it is syntax or HTML."""
    safe = "".join(c if c.isalnum() or c in " .,=+-_\n" else f"#{ord(c)};" for c in make_visible(text))
    return safe.replace("\n", "<br/>")
