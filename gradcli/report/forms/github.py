"""Check reports as GitHub workflow commands: one annotation for each report."""

from gradcli.report.blocks import workflow_data
from gradcli.report.check import CheckReport, place_of, why_of
from gradcli.report.forms import Page, in_repository
from gradcli.report.suite import SuiteReport
from gradcli.words import Exit, Verdict

MOST = 10  # annotations: GitHub shows at most ten for each step
_LEVELS = {Verdict.FAIL: "error", Verdict.INCONCLUSIVE: "warning", Verdict.PASS: "notice"}


def render(report: CheckReport | SuiteReport, page: Page) -> str:
    """Return the verdict as an annotation, at a file and line if known; for several reports, those that did not pass."""
    return _several(report, page) if isinstance(report, SuiteReport) else _annotation(report, page)


def _several(suite: SuiteReport, page: Page) -> str:
    open_ = [check for check in suite.checks if check.counted not in ("passed", "known")]
    open_.sort(key=lambda check: ("failed", "errors", "inconclusive").index(check.counted))
    found = [
        _annotation(check.report, page, check.id)
        if check.report is not None
        else f"::{'warning' if check.counted == 'inconclusive' else 'error'} "
        f"title={_property(f'gradcli: {check.id}'[:120])}::{workflow_data(check.said())}\n"
        for check in open_[:MOST]
    ]
    left = len(open_) - len(found)
    return "".join([*found, *([f"and {left} more\n"] if left else [])])


def _annotation(report: CheckReport, page: Page, name: str | None = None) -> str:
    place = place_of(report)
    properties = {"title": f"gradcli: {name or report.target.text}"[:120]}
    if place is not None:
        properties["file"] = in_repository(str(place.file), page)
        properties |= {"line": str(place.line)} if isinstance(place.line, int) else {}
    level = "error" if report.exit_status == Exit.UNUSABLE else _LEVELS[report.verdict]
    listed = ",".join(f"{key}={_property(text)}" for key, text in properties.items())
    return f"::{level} {listed}::{workflow_data(why_of(report))}\n"


def _property(text: str) -> str:
    return workflow_data(text).replace(":", "%3A").replace(",", "%2C")
