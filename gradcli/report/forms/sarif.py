"""Check reports in SARIF 2.1.0, which code scanning reads: a rule for each kind of mistake, a result for each check."""

import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

from gradcli import __version__
from gradcli.report.blocks import make_visible
from gradcli.report.check import CheckReport, explain_verdict
from gradcli.report.encode import encode
from gradcli.report.explain import SITE, ExplainReport, read_explanations
from gradcli.report.forms import Page, place_in_repository, render_as_text
from gradcli.report.run import RunReport
from gradcli.report.suite import CheckRow, SuiteReport, row_of_document

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


def render(report: CheckReport | SuiteReport | RunReport, page: Page) -> str:
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
