"""Check reports in SARIF 2.1.0, which code scanning reads: a rule for each kind of mistake, a result for each check."""

import json
from typing import Any

from gradcli import __version__
from gradcli.report.blocks import visible
from gradcli.report.check import CheckReport, place_of, why_of
from gradcli.report.forms import Page, in_repository
from gradcli.report.run import RunReport
from gradcli.report.suite import CheckRow, SuiteReport, row_of

_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
_WRONG, _ERROR, _OPEN = "wrong-gradient", "error", "inconclusive"


def render(report: CheckReport | SuiteReport | RunReport, page: Page) -> str:
    """Return the checks that did not pass as one run of SARIF; those without a verdict are notes."""
    if isinstance(report, RunReport):
        report = report.as_suite()
    rows = report.checks if isinstance(report, SuiteReport) else (_row(report),)
    results = [_result(row, page) for row in rows if row.verdict != "pass" and not row.known]
    rules = {rule: None for rule, _ in results}
    driver = {
        "name": "gradcli", "version": __version__, "informationUri": "https://github.com/gradcli/gradcli",
        "rules": [{"id": rule, "shortDescription": {"text": rule.replace("-", " ")}} for rule in rules],
    }  # fmt: skip
    run = {"tool": {"driver": driver}, "results": [result for _, result in results]}
    return json.dumps({"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _row(report: CheckReport) -> CheckRow:
    from gradcli.report.encode import encode

    return row_of(report.target.text, report.target.text, encode(report), 0.0)


def _result(row: CheckRow, page: Page) -> tuple[str, dict[str, Any]]:
    """Return the rule of a check that did not pass, and its result."""
    diagnoses = [point["diagnosis"] for point in row.document.get("points", ()) if point["diagnosis"]]
    known = [d for d in diagnoses if d["kind"] != "unknown"]
    if row.verdict == "fail":
        rule = known[0]["kind"].replace(" ", "-") if known else _WRONG
    else:
        rule = _ERROR if row.verdict == "error" else next(iter(row.prevented_by()), _OPEN)
    said = row.said() if row.report is None else why_of(row.report)
    result: dict[str, Any] = {
        "ruleId": rule, "level": "note" if row.verdict == "inconclusive" else "error",
        "message": {"text": visible(f"{row.id}: {said}")},
        "partialFingerprints": {"gradcli/id": row.id},
    }  # fmt: skip
    place = None if row.report is None else place_of(row.report)
    if place is not None:
        region = {"startLine": place.line or 1}
        uri = in_repository(str(place.file), page)
        result["locations"] = [{"physicalLocation": {"artifactLocation": {"uri": uri}, "region": region}}]
    return rule, result
