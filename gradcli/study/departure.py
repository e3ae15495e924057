"""Where a wrong claim departs from the right gradient: the node, and the line of code with the mistake."""

import ast
import linecache
from dataclasses import replace

from gradcli.reports.absent import Absent
from gradcli.reports.check import CheckReport
from gradcli.reports.common import SourceLine
from gradcli.reports.native import NativeReport, Part
from gradcli.reports.trace import TraceReport
from gradcli.words import Verdict


def departing(trace: TraceReport, report: CheckReport, number: int) -> TraceReport:
    """Return the walkthrough of a point with the line of code that makes its claim depart.

    Where a custom gradient of a framework is wrong, the claim departs at what enters it.
    """
    if isinstance(trace.departs, Absent):
        return trace
    for part in _wrong_parts(report):
        node = _enters(trace, part)
        if node is not None and isinstance(part.file, str) and isinstance(part.line, int):
            return replace(trace, departs=node, mistake=SourceLine(part.file, part.line, str(part.source or "")))
    said = report.points[number].diagnosis
    if said is None or said.file is None or said.line is None:
        return trace
    return replace(trace, mistake=SourceLine(said.file, said.line, said.source or ""))


def _wrong_parts(report: CheckReport) -> list[Part]:
    found = report.native.parts if isinstance(report.native, NativeReport) else ()
    return [part for part in found if part.verdict == Verdict.FAIL]


def _enters(trace: TraceReport, part: Part) -> str | None:
    """Return the name of the last node that a custom gradient reads; None if its forward function was not recorded."""
    lines = _class_around(part)
    inside = {node.name for node in trace.nodes if node.file == part.file and node.line in lines}
    read = {name for node in trace.nodes if node.name in inside for name in node.partials} - inside
    return next((node.name for node in reversed(trace.nodes) if node.name in read), None)


def _class_around(part: Part) -> range:
    """Return the lines of the innermost class that holds the backward function of a part; none where there is no class."""
    if not isinstance(part.file, str) or not isinstance(part.line, int):
        return range(0)
    try:
        tree = ast.parse("".join(linecache.getlines(part.file)))
    except (SyntaxError, ValueError):
        return range(0)
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    ranges = [range(node.lineno, (node.end_lineno or node.lineno) + 1) for node in classes]
    return min((lines for lines in ranges if part.line in lines), key=len, default=range(0))
