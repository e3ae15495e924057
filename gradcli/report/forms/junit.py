"""Check reports as JUnit XML, with one test case for each point, or for each of several checks.

It keeps to what Jenkins reads, which is less than others do: times have three decimals. Seed and command of a check are
properties of its test case, as pytest writes them.
"""

import re
from collections.abc import Sequence
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
        left, stale = report.not_reached or (), report.out_of_date()
        tags = [*map(_tag_of_check, report.checks), *("skipped" for _ in left), *("error" for _ in stale)]
        counted = "".join(f' {name}="{tags.count(tag)}"' for name, tag in _COUNTED)
        counted += f' time="{report.seconds:.3f}"'
        renewal = f"Write the baseline anew:\n{quote_command(report.renewal or ())}"
        cases = [_case_of_check(check) for check in report.checks]
        cases += [_write_case("gradcli.check", name, 0.0, ['<skipped message="not reached"/>']) for name in left]
        for name, why in stale:  # which the job fails by
            outcome = _write_outcome("error", f"{name}: {why}", [f"{name}: {why}", renewal])
            cases.append(_write_case("gradcli.baseline", name, 0.0, [outcome]))
    else:
        tags = [_tag_of_point(report, point) for point in report.points]
        counted = f' failures="{tags.count("failure")}" errors="{tags.count("error")}"'
        cases = [_case_of_point(report, point, k) for k, point in enumerate(report.points)]
    head = f'name="gradcli" tests="{len(tags)}"{counted}'
    body = f"<testsuites><testsuite {head}>\n{''.join(cases)}</testsuite></testsuites>"
    return f'<?xml version="1.0" encoding="utf-8"?>\n{body}\n'


def _write_case(classname: str, name: str, seconds: float, inside: Sequence[str]) -> str:
    head = f'  <testcase classname={_quote_attribute(classname)} name={_quote_attribute(name)} time="{seconds:.3f}"'
    lines = "".join(f"    {line}\n" for line in inside)
    return f"{head}>\n{lines}  </testcase>\n" if inside else f"{head}/>\n"


def _write_outcome(tag: str, message: str, lines: Sequence[str]) -> str:
    detail = escape(_replace_illegal("\n".join(lines)))
    return f"<{tag} message={_quote_attribute(message)}>{detail}</{tag}>"


def _tag_of_check(check: CheckRow) -> str:
    if check.known:
        return "skipped"
    return {"pass": "", "fail": "failure"}.get(check.verdict, "error")


def _case_of_check(check: CheckRow) -> str:
    file = check.target.strip().rpartition(":")[0].rstrip(":") if is_python(check.target) else "gradcli.check"
    inside = []
    if check.error is None:
        values = {"seed": str(check.document["seed"]), "replay": check.replay()}
        known = ((name, _quote_attribute(x)) for name, x in values.items() if x)
        listed = "".join(f'<property name="{name}" value={x}/>' for name, x in known)
        inside.append(f"<properties>{listed}</properties>")
    if tag := _tag_of_check(check):
        points = () if check.report is None else check.report.points
        wrong = [line for point in points for line in _mismatch_lines(point)]
        inside.append(_write_outcome(tag, check.said(), [check.said(), *wrong, *_lines_of_blocks(check)]))
    return _write_case(file, check.id, check.seconds, inside)


def _lines_of_blocks(report: CheckReport | CheckRow) -> list[str]:
    return [plain_text(block.text) for block in report.blocks() if isinstance(block, Paragraph | Code)]


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
    inside = []
    if tag := _tag_of_point(report, point):
        lines = [report.sentence(), *_mismatch_lines(point), *_lines_of_blocks(report)]
        inside.append(_write_outcome(tag, report.sentence(), lines))
    seconds = sum(float(mode.seconds or 0.0) for mode in point.modes.values())
    return _write_case("gradcli.check", f"{report.target.text} point {number + 1}", seconds, inside)


def _replace_illegal(text: str) -> str:
    return _ILLEGAL.sub("\ufffd", make_visible(text))


def _quote_attribute(text: str) -> str:
    return quoteattr(_replace_illegal(text), {"\n": "&#10;"})
