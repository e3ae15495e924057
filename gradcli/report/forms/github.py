"""Check reports as GitHub workflow commands: one annotation for each report."""

from collections.abc import Sequence

from gradcli.report.blocks import escape_workflow_data
from gradcli.report.check import CheckReport, explain_verdict, file_and_line, quote_command
from gradcli.report.common import ErrorDetail
from gradcli.report.forms import Page, place_in_repository
from gradcli.report.suite import CheckRow, SuiteReport
from gradcli.words import Exit, Verdict

MOST = 10  # annotations: GitHub shows at most ten for each step
_LEVELS = {Verdict.FAIL: "error", Verdict.INCONCLUSIVE: "warning", Verdict.PASS: "notice"}


def render(report: CheckReport | SuiteReport, page: Page) -> str:
    """Return the verdict as an annotation, at a file and line if known; for several reports, all that the job fails by."""
    if isinstance(report, SuiteReport):
        return _annotate_suite(report, page)
    return _write_annotation(
        _annotation_level(report), report.target.text, file_and_line(report), explain_verdict(report), page
    )


def error_annotation(error: ErrorDetail, page: Page) -> str:
    """Return an error that ends a command as an annotation, at the line that it happened on if that is known."""
    place = [(error.file, error.line)] if isinstance(error.file, str) and isinstance(error.line, int) else []
    return _write_annotation("error", "", place, error.message, page)


def _annotate_suite(suite: SuiteReport, page: Page) -> str:
    of = {
        word: [check for check in suite.not_passed() if check.counted == word]
        for word in ("failed", "errors", "inconclusive")
    }
    renewal = f"; write the baseline anew: {quote_command(suite.renewal or ())}"
    found = [_annotate_check(check, suite.config, page) for check in (*of["failed"], *of["errors"])]
    found += [
        _write_annotation("error", name, [], f"{name}: {why}{renewal}", page) for name, why in suite.out_of_date()
    ]
    found += [_annotate_check(check, suite.config, page) for check in of["inconclusive"]]
    left = len(found) - MOST
    return "".join([*found[:MOST], *([f"and {left} more\n"] if left > 0 else [])])


def _annotate_check(check: CheckRow, config: str | None, page: Page) -> str:
    report = check.report
    if report is not None:
        return _write_annotation(
            _annotation_level(report), check.id, check.places(config), explain_verdict(report), page
        )
    level = "warning" if check.counted == "inconclusive" else "error"
    return _write_annotation(level, check.id, check.places(config), check.said(), page)


def _annotation_level(report: CheckReport) -> str:
    return "error" if report.exit_status == Exit.UNUSABLE else _LEVELS[report.verdict]


def _write_annotation(level: str, name: str, places: Sequence[tuple[str, int | None]], said: str, page: Page) -> str:
    properties = {"title": f"gradcli: {name}"[:120] if name else "gradcli"}
    place = place_in_repository(places, page)
    if place is not None:
        file, line = place
        properties |= {"file": file} if line is None else {"file": file, "line": str(line)}
    listed = ",".join(f"{key}={_escape_property(text)}" for key, text in properties.items())
    return f"::{level} {listed}::{escape_workflow_data(said)}\n"


def _escape_property(text: str) -> str:
    return escape_workflow_data(text).replace(":", "%3A").replace(",", "%2C")
