"""Check reports as JUnit XML, with one test case for each point, or for each of several checks.

It keeps to what Jenkins reads, which is less than others do: times have three decimals. Seed and command of a check are
properties of its test case, as pytest writes them.
"""

import re
from collections.abc import Mapping
from xml.sax.saxutils import escape, quoteattr

from gradcli.report import numbers
from gradcli.report.blocks import Code, Paragraph, make_visible, plain_text
from gradcli.report.check import CheckReport, quote_command
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
        return _suite_document(report)
    tags = [_tag_of_point(report, point) for point in report.points]
    cases = "".join(_case_of_point(report, point, k) for k, point in enumerate(report.points))
    head = f'name="gradcli" tests="{len(tags)}" failures="{tags.count("failure")}" errors="{tags.count("error")}"'
    return f'<?xml version="1.0" encoding="utf-8"?>\n<testsuites><testsuite {head}>\n{cases}</testsuite></testsuites>\n'


def _suite_document(suite: SuiteReport) -> str:
    left, stale = suite.not_reached or (), suite.out_of_date()
    tags = [*map(_tag_of_check, suite.checks), *("skipped" for _ in left), *("error" for _ in stale)]
    counted = "".join(f' {name}="{tags.count(tag)}"' for name, tag in _COUNTED)
    head = f'name="gradcli" tests="{len(tags)}"{counted} time="{suite.seconds:.3f}"'
    renewal = quote_command(suite.renewal or ())
    cases = "".join(
        [
            *map(_case_of_check, suite.checks),
            *map(_case_not_reached, left),
            *(_case_out_of_date(*entry, renewal) for entry in stale),
        ]
    )
    return f'<?xml version="1.0" encoding="utf-8"?>\n<testsuites><testsuite {head}>\n{cases}</testsuite></testsuites>\n'


def _case_not_reached(name: str) -> str:
    head = f'  <testcase classname="gradcli.check" name={_quote_attribute(name)} time="0.000"'
    return f'{head}>\n    <skipped message="not reached"/>\n  </testcase>\n'


def _case_out_of_date(name: str, why: str, renewal: str) -> str:
    """Return the case of an entry of the baseline that is out of date, which the job fails by."""
    head = f'  <testcase classname="gradcli.baseline" name={_quote_attribute(name)} time="0.000"'
    detail = escape(_replace_illegal(f"{name}: {why}\nWrite the baseline anew:\n{renewal}"))
    return f"{head}>\n    <error message={_quote_attribute(f'{name}: {why}')}>{detail}</error>\n  </testcase>\n"


def _tag_of_check(check: CheckRow) -> str:
    if check.known:
        return "skipped"
    return {"pass": "", "fail": "failure"}.get(check.verdict, "error")


def _case_of_check(check: CheckRow) -> str:
    file = check.target.strip().rpartition(":")[0].rstrip(":") if is_python(check.target) else "gradcli.check"
    head = (
        f'  <testcase classname={_quote_attribute(file)} name={_quote_attribute(check.id)} time="{check.seconds:.3f}"'
    )
    tag, lines = _tag_of_check(check), []
    if tag:
        detail = escape(_replace_illegal("\n".join(_lines_of_failure(check))))
        lines.append(f"<{tag} message={_quote_attribute(check.said())}>{detail}</{tag}>")
    if check.error is None:
        lines.insert(0, _write_properties({"seed": str(check.document["seed"]), "replay": check.replay()}))
    return f"{head}>\n" + "".join(f"    {line}\n" for line in lines) + "  </testcase>\n"


def _write_properties(values: Mapping[str, str]) -> str:
    listed = "".join(
        f"<property name={_quote_attribute(name)} value={_quote_attribute(x)}/>" for name, x in values.items() if x
    )
    return f"<properties>{listed}</properties>"


def _lines_of_failure(check: CheckRow) -> list[str]:
    wrong = [] if check.report is None else [line for point in check.report.points for line in _mismatch_lines(point)]
    return [check.said(), *wrong, *(plain_text(b.text) for b in check.blocks() if isinstance(b, Paragraph | Code))]


def _mismatch_lines(point: PointReport) -> list[str]:
    return [
        f"{numbers.entry_name(m.input, m.index, m.output or (), point.outputs or ())}: "
        f"claimed {numbers.all_digits(m.claimed)}, {point.reference} {numbers.all_digits(m.reference)}"
        for m in point.mismatches[:_ROWS]
    ]


def _tag_of_point(report: CheckReport, point: PointReport) -> str:
    """Return the tag of a point; empty if it passed, and no mode that was named is missing."""
    return _TAGS.get(point.verdict, "error" if report.exit_status == Exit.UNUSABLE else "")


def _case_of_point(report: CheckReport, point: PointReport, number: int) -> str:
    name = f"{report.target.text} point {number + 1}"
    seconds = sum(float(mode.seconds or 0.0) for mode in point.modes.values())
    head = f'  <testcase classname="gradcli.check" name={_quote_attribute(name)} time="{seconds:.3f}"'
    tag = _tag_of_point(report, point)
    if not tag:
        return head + "/>\n"
    lines = [plain_text(block.text) for block in report.blocks() if isinstance(block, Paragraph | Code)]
    lines = [*_mismatch_lines(point), *lines]
    detail = escape(_replace_illegal("\n".join([report.sentence(), *lines])))
    return f"{head}>\n    <{tag} message={_quote_attribute(report.sentence())}>{detail}</{tag}>\n  </testcase>\n"


def _replace_illegal(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", make_visible(text))


def _quote_attribute(text: str) -> str:
    return quoteattr(_replace_illegal(text), {"\n": "&#10;"})
