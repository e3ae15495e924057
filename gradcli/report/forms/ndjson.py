"""Reports as JSON documents, each on one line: several checks have a line each."""

import json
from typing import Any

from gradcli.report.encode import encode
from gradcli.report.forms import Page
from gradcli.report.suite import SuiteReport


def render(report: Any, page: Page) -> str:
    """Return the report as a JSON document on one line; several checks as the document of each."""
    if isinstance(report, SuiteReport):
        return "".join(json.dumps(check.document, allow_nan=False) + "\n" for check in report.checks)
    return json.dumps(encode(report), allow_nan=False) + "\n"
