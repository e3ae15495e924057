"""Check reports as GitHub workflow commands: one annotation for each report."""

from gradcli.forms import Page
from gradcli.reports.check import CheckReport, place_of
from gradcli.reports.escape import workflow_data
from gradcli.reports.suite import SuiteReport
from gradcli.words import Verdict

MOST = 10  # annotations: GitHub shows at most ten for each step
_LEVELS = {Verdict.FAIL: "error", Verdict.INCONCLUSIVE: "warning", Verdict.PASS: "notice"}


def render(report: CheckReport | SuiteReport, page: Page) -> str:
    """Return the verdict as an annotation, at a file and line if known; for several reports, those that did not pass."""
    return _several(report) if isinstance(report, SuiteReport) else _annotation(report)


def _several(suite: SuiteReport) -> str:
    open_ = [check for check in suite.checks if check.counted not in ("passed", "known")]
    open_.sort(key=lambda check: ("failed", "errors", "inconclusive").index(check.counted))
    found = [
        _annotation(check.report, check.id)
        if check.report is not None
        else f"::error title={_property(f'gradcli: {check.id}'[:120])}::{workflow_data(check.said())}\n"
        for check in open_[:MOST]
    ]
    left = len(open_) - len(found)
    return "".join([*found, *([f"and {left} more\n"] if left else [])])


def _annotation(report: CheckReport, name: str | None = None) -> str:
    place = place_of(report)
    properties = {"title": f"gradcli: {name or report.target.text}"[:120]}
    if place is not None:
        properties |= {"file": str(place.file), **({"line": str(place.line)} if place.line is not None else {})}
    said = [report.sentence(), *(p.diagnosis.message for p in report.points if p.diagnosis)]
    listed = ",".join(f"{key}={_property(text)}" for key, text in properties.items())
    return f"::{_LEVELS[report.verdict]} {listed}::{workflow_data('; '.join(dict.fromkeys(said)))}\n"


def _property(text: str) -> str:
    return workflow_data(text).replace(":", "%3A").replace(",", "%2C")
