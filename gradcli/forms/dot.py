"""Graphs for Graphviz."""

from typing import Any

from gradcli.forms import Page
from gradcli.reports.escape import visible


def render(report: Any, page: Page) -> str:
    """Return the report's graph in the DOT language."""
    graph = report.graph()
    nodes = [f"  n{name} [label={_quoted(label)}];" for name, label in graph.nodes]
    edges = [f"  n{a} -> n{b} [label={_quoted(label)}];" for a, b, label in graph.edges]
    return "\n".join(["digraph trace {", "  rankdir=LR;", "  node [shape=box];", *nodes, *edges, "}"]) + "\n"


def _quoted(text: str) -> str:
    escaped = visible(text).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
