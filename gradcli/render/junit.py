"""Check reports as JUnit XML, one test case a point."""

import re
from xml.sax.saxutils import escape, quoteattr

from gradcli.render import Page
from gradcli.report import numbers
from gradcli.report.blocks import Code, Paragraph, text_of
from gradcli.report.check import CheckReport
from gradcli.report.check_blocks import MAX_ROWS
from gradcli.report.escape import visible
from gradcli.report.point_report import PointReport
from gradcli.words import Verdict

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TAGS = {Verdict.FAIL: "failure", Verdict.INCONCLUSIVE: "error"}


def render(report: CheckReport, page: Page) -> str:
    """Return a test suite: a wrong gradient is a failure, no verdict is an error."""
    counts = {verdict: sum(p.verdict == verdict for p in report.points) for verdict in _TAGS}
    cases = "".join(_case(report, point, k) for k, point in enumerate(report.points))
    wrong, open_ = counts[Verdict.FAIL], counts[Verdict.INCONCLUSIVE]
    head = f'name="gradcli" tests="{len(report.points)}" failures="{wrong}" errors="{open_}"'
    return f'<?xml version="1.0" encoding="utf-8"?>\n<testsuites><testsuite {head}>\n{cases}</testsuite></testsuites>\n'


def _case(report: CheckReport, point: PointReport, number: int) -> str:
    name = f"{report.target.text} point {number + 1}"
    seconds = sum(float(mode.seconds or 0.0) for mode in point.modes.values())
    head = f'  <testcase classname="gradcli.check" name={_attribute(name)} time="{seconds:.6f}"'
    if point.verdict == Verdict.PASS:
        return head + "/>\n"
    tag = _TAGS[point.verdict]
    lines = [text_of(block.text) for block in report.blocks() if isinstance(block, Paragraph | Code)]
    wrong = [
        f"{numbers.entry_name(m.input, m.index, m.output or (), point.outputs or ())}: "
        f"claimed {numbers.full(m.claimed)}, {point.reference} {numbers.full(m.reference)}"
        for m in point.mismatches[:MAX_ROWS]
    ]
    lines = [*wrong, *lines]
    detail = escape(_legal("\n".join([report.sentence(), *lines])))
    return f"{head}>\n    <{tag} message={_attribute(report.sentence())}>{detail}</{tag}>\n  </testcase>\n"


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", visible(text))


def _attribute(text: str) -> str:
    return quoteattr(_legal(text), {"\n": "&#10;"})
