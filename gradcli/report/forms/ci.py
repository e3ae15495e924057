"""What services for CI read: GitHub's workflow commands, JUnit XML and SARIF."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote
from xml.sax.saxutils import escape, quoteattr

from gradcli import __version__
from gradcli.report import numbers
from gradcli.report.blocks import Code, Paragraph, escape_workflow_data, make_visible, plain_text
from gradcli.report.check import CheckReport, explain_verdict, file_and_line, quote_command
from gradcli.report.common import ErrorDetail
from gradcli.report.encode import encode
from gradcli.report.explain import SITE, ExplainReport, read_explanations
from gradcli.report.forms import Page, place_in_repository, render_as_text
from gradcli.report.point_report import PointReport
from gradcli.report.suite import CheckRow, RunReport, SuiteReport, row_of_document
from gradcli.request.target_text import is_python
from gradcli.words import Exit, Verdict

MOST = 10  # annotations: GitHub shows at most ten for each step
_LEVELS = {Verdict.FAIL: "error", Verdict.INCONCLUSIVE: "warning", Verdict.PASS: "notice"}


def render_github(report: CheckReport | SuiteReport, page: Page) -> str:
    """Return the verdict as an annotation, at a file and line if known; for several reports, all that the job fails by."""
    if isinstance(report, CheckReport):
        return _annotate_report(report, report.target.text, file_and_line(report), page)
    renewal = f"; write the baseline anew: {quote_command(report.renewal or ())}"
    of: dict[str, list[str]] = {"failed": [], "errors": [], "stale": [], "inconclusive": []}
    for name, why in report.out_of_date():
        of["stale"].append(_write_annotation("error", name, [], f"{name}: {why}{renewal}", page))
    for check in report.not_passed():
        if check.report is not None:
            found = _annotate_report(check.report, check.id, check.places(report.config), page)
        else:
            level = "warning" if check.counted == "inconclusive" else "error"
            found = _write_annotation(level, check.id, check.places(report.config), check.said(), page)
        of[check.counted].append(found)
    listed = [annotation for annotations in of.values() for annotation in annotations]
    left = len(listed) - MOST
    return "".join([*listed[:MOST], *([f"and {left} more\n"] if left > 0 else [])])


def error_annotation(error: ErrorDetail, page: Page) -> str:
    """Return an error that ends a command as an annotation, at the line that it happened on if that is known."""
    place = [(error.file, error.line)] if isinstance(error.file, str) and isinstance(error.line, int) else []
    return _write_annotation("error", "", place, error.message, page)


def _annotate_report(report: CheckReport, name: str, places: Sequence[tuple[str, int | None]], page: Page) -> str:
    level = "error" if report.exit_status == Exit.UNUSABLE else _LEVELS[report.verdict]
    return _write_annotation(level, name, places, explain_verdict(report), page)


def _write_annotation(level: str, name: str, places: Sequence[tuple[str, int | None]], said: str, page: Page) -> str:
    properties = {"title": f"gradcli: {name}"[:120] if name else "gradcli"}
    place = place_in_repository(places, page)
    if place is not None:
        file, line = place
        properties |= {"file": file} if line is None else {"file": file, "line": str(line)}
    escaped = {key: escape_workflow_data(text).replace(":", "%3A") for key, text in properties.items()}
    listed = ",".join(f"{key}={text.replace(',', '%2C')}" for key, text in escaped.items())
    return f"::{level} {listed}::{escape_workflow_data(said)}\n"


# Check reports as JUnit XML, with one test case for each point, or for each of several checks.
#
# It keeps to what Jenkins reads, which is less than others do: times have three decimals. Seed and command of a check are
# properties of its test case, as pytest writes them.

_ILLEGAL = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_COUNTED = (("failures", "failure"), ("errors", "error"), ("skipped", "skipped"))
_TAGS = {Verdict.FAIL: "failure", Verdict.INCONCLUSIVE: "error"}
_ROWS = 10  # of wrong entries, the worst first


def render_junit(report: CheckReport | SuiteReport | RunReport, page: Page) -> str:
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
        f"claimed {numbers.all_digits(m.claimed + 0.0)}, {point.reference} {numbers.all_digits(m.reference + 0.0)}"
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


# Check reports in SARIF 2.1.0, which code scanning reads: a rule for each kind of mistake, a result for each check.

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_WRONG, _ERROR, _OPEN = "wrong-gradient", "error", "inconclusive"
_OTHER_RULES = {  # those that are no finding and no diagnosis: what they are about, what that means, and a page
    _WRONG: (
        "A gradient is wrong, and no known mistake explains it.",
        "The claimed gradient differs from the right one by more than the errors of both. The message has what is known.",
        "docs/explanation/verdicts.md",
    ),
    _ERROR: (
        "A check could not be carried out.",
        "Nothing is known of the gradient: a file, a name, a point or an option cannot be used, a function raised, or what a "
        "check needs is not installed. The message says which.",
        "docs/reference/exit-statuses.md",
    ),
    _OPEN: (
        "A gradient could neither be confirmed nor shown to be wrong.",
        "The modes that were run do not suffice for a verdict. The message says what is in the way.",
        "docs/explanation/verdicts.md",
    ),
}  # fmt: skip


def render_sarif(report: CheckReport | SuiteReport | RunReport, page: Page) -> str:
    """Return the checks that did not pass as one run of SARIF; those without a verdict are notes."""
    if isinstance(report, RunReport):
        report = report.as_suite()
    if isinstance(report, SuiteReport):
        rows, config = report.checks, report.config
    else:
        rows, config = (row_of_document(report.target.text, report.target.text, encode(report), 0.0),), None
    results = [_result_of_check(row, config, page) for row in rows if row.verdict != "pass" and not row.known]
    rules = dict.fromkeys(result["ruleId"] for result in results)
    driver = {
        "name": "gradcli", "version": __version__, "informationUri": "https://github.com/gradcli/gradcli",
        "rules": [_describe_rule(rule) for rule in rules],
    }  # fmt: skip
    run = {"tool": {"driver": driver}, "results": results}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _describe_rule(name: str) -> dict[str, Any]:
    """Return a rule with what the documentation says of it, and where."""
    if name in _OTHER_RULES:
        short, full, file = _OTHER_RULES[name]
        address, text, markdown = f"{SITE}/{file}", f"{short} {full}", f"{short} {full}"
    else:
        kinds = tuple(row for row in read_explanations() if row.kind == name)
        short = f"{name}: {kinds[0].summary}."
        full = " ".join(row.meaning for row in kinds)
        address, said = kinds[0].page, ExplainReport(kinds)
        text, markdown = render_as_text("text", said), render_as_text("markdown", said)
    return {
        "id": name, "shortDescription": {"text": short}, "fullDescription": {"text": full}, "helpUri": address,
        "help": {"text": text, "markdown": markdown},
    }  # fmt: skip


def _result_of_check(row: CheckRow, config: str | None, page: Page) -> dict[str, Any]:
    """Return the result of a check that did not pass; code scanning takes none without a location."""
    diagnoses = [point["diagnosis"] for point in row.document.get("points", ()) if point["diagnosis"]]
    known = [d for d in diagnoses if d["kind"] != "unknown"]
    if row.verdict == "fail":
        rule = known[0]["kind"] if known else _WRONG
    else:
        rule = _ERROR if row.verdict == "error" else next(iter(row.prevented_by()), _OPEN)
    said = row.said() if row.report is None else explain_verdict(row.report)
    place = place_in_repository(row.places(config), page)
    file, line = place or ("", None)
    if place is None:
        says = "There is no file: the command itself has what was checked."
        artifact: dict[str, Any] = {"uri": "command", "description": {"text": says}}
    elif Path(file).is_absolute():
        artifact = {"uri": Path(file).as_uri()}
    else:
        artifact = {"uri": quote(file), "uriBaseId": "%SRCROOT%"}
    return {
        "ruleId": rule, "level": "note" if row.verdict == "inconclusive" else "error",
        "message": {"text": make_visible(f"{row.id}: {said}")},
        "partialFingerprints": {"gradcli/id": row.id},
        "locations": [{"physicalLocation": {"artifactLocation": artifact, "region": {"startLine": line or 1}}}],
    }  # fmt: skip
