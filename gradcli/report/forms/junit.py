"""Check reports as JUnit XML, with one test case for each point."""

import re
from xml.sax.saxutils import escape, quoteattr

from gradcli.report import numbers
from gradcli.report.blocks import Code, Paragraph, text_of, visible
from gradcli.report.check import CheckReport
from gradcli.report.forms import Page
from gradcli.report.point_report import PointReport
from gradcli.report.run import RunReport
from gradcli.report.suite import CheckRow, SuiteReport
from gradcli.request.target_text import is_python
from gradcli.words import Exit, Verdict

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_COUNTED = (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
_TAGS = {Verdict.FAIL: "failure", Verdict.INCONCLUSIVE: "error"}
_ROWS = 10  # of wrong entries, the worst first


def render(report: CheckReport | SuiteReport | RunReport, page: Page) -> str:
    """Return a test suite: a wrong gradient is a failure, no verdict an error; each of several checks is a test case."""
    if isinstance(report, RunReport):
        report = report.as_suite()
    if isinstance(report, SuiteReport):
        return _several(report)
    tags = [_tag_of(report, point) for point in report.points]
    cases = "".join(_case(report, point, k) for k, point in enumerate(report.points))
    head = f'name="gradcli" tests="{len(tags)}" failures="{tags.count("failure")}" errors="{tags.count("error")}"'
    return f'<?xml version="1.0" encoding="utf-8"?>\n<testsuites><testsuite {head}>\n{cases}</testsuite></testsuites>\n'


def _several(suite: SuiteReport) -> str:
    left = suite.not_reached or ()
    tags = [*map(_tag, suite.checks), *("skipped" for _ in left)]
    counted = "".join(f' {name}="{tags.count(tag)}"' for name, tag in _COUNTED)
    head = f'name="gradcli" tests="{len(tags)}"{counted} time="{suite.seconds:.6f}"'
    cases = "".join([*map(_of_suite, suite.checks), *map(_not_reached, left)])
    return f'<?xml version="1.0" encoding="utf-8"?>\n<testsuites><testsuite {head}>\n{cases}</testsuite></testsuites>\n'


def _not_reached(name: str) -> str:
    head = f'  <testcase classname="gradcli.check" name={_attribute(name)} time="0.000000"'
    return f'{head}>\n    <skipped message="not reached"/>\n  </testcase>\n'


def _tag(check: CheckRow) -> str:
    if check.known:
        return "skipped"
    return {"pass": "", "fail": "failure"}.get(check.verdict, "error")


def _of_suite(check: CheckRow) -> str:
    file = check.target.strip().rpartition(":")[0].rstrip(":") if is_python(check.target) else "gradcli.check"
    head = f'  <testcase classname={_attribute(file)} name={_attribute(check.id)} time="{check.seconds:.6f}"'
    properties = "" if check.error is not None else _properties(check)
    tag = _tag(check)
    if not tag:
        return f"{head}>{properties}</testcase>\n"
    detail = escape(_legal("\n".join(_lines(check))))
    return f"{head}>{properties}\n    <{tag} message={_attribute(check.said())}>{detail}</{tag}>\n  </testcase>\n"


def _properties(check: CheckRow) -> str:
    found = {"seed": str(check.document["seed"]), "replay": check.replay()}
    inside = "".join(f"<property name={quoteattr(key)} value={_attribute(text)}/>" for key, text in found.items())
    return f"<properties>{inside}</properties>"


def _lines(check: CheckRow) -> list[str]:
    wrong = [] if check.report is None else [line for point in check.report.points for line in _mismatches(point)]
    return [check.said(), *wrong, *(text_of(b.text) for b in check.blocks() if isinstance(b, Paragraph | Code))]


def _mismatches(point: PointReport) -> list[str]:
    return [
        f"{numbers.entry_name(m.input, m.index, m.output or (), point.outputs or ())}: "
        f"claimed {numbers.full(m.claimed)}, {point.reference} {numbers.full(m.reference)}"
        for m in point.mismatches[:_ROWS]
    ]


def _tag_of(report: CheckReport, point: PointReport) -> str:
    """Return the tag of a point; empty if it passed, and no mode that was named is missing."""
    return _TAGS.get(point.verdict, "error" if report.exit_status == Exit.UNUSABLE else "")


def _case(report: CheckReport, point: PointReport, number: int) -> str:
    name = f"{report.target.text} point {number + 1}"
    seconds = sum(float(mode.seconds or 0.0) for mode in point.modes.values())
    head = f'  <testcase classname="gradcli.check" name={_attribute(name)} time="{seconds:.6f}"'
    tag = _tag_of(report, point)
    if not tag:
        return head + "/>\n"
    lines = [text_of(block.text) for block in report.blocks() if isinstance(block, Paragraph | Code)]
    lines = [*_mismatches(point), *lines]
    detail = escape(_legal("\n".join([report.sentence(), *lines])))
    return f"{head}>\n    <{tag} message={_attribute(report.sentence())}>{detail}</{tag}>\n  </testcase>\n"


def _legal(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", visible(text))


def _attribute(text: str) -> str:
    return quoteattr(_legal(text), {"\n": "&#10;"})
