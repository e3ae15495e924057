"""Check reports as GitHub workflow commands: one annotation for each report."""

from collections.abc import Sequence

from gradcli.report.blocks import escape_workflow_data
from gradcli.report.check import CheckReport, explain_verdict, file_and_line, quote_command
from gradcli.report.common import ErrorDetail
from gradcli.report.forms import Page, place_in_repository
from gradcli.report.suite import SuiteReport
from gradcli.words import Exit, Verdict

MOST = 10  # annotations: GitHub shows at most ten for each step
_LEVELS = {Verdict.FAIL: "error", Verdict.INCONCLUSIVE: "warning", Verdict.PASS: "notice"}


def render(report: CheckReport | SuiteReport, page: Page) -> str:
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
