"""Reports as one JSON document, strict: no NaN, every character beyond ASCII escaped."""

import json
from typing import Any

from gradcli.forms import Page
from gradcli.reports.encode import encode


def render(report: Any, page: Page) -> str:
    """Return the document, indented."""
    return json.dumps(document(report), indent=2, allow_nan=False) + "\n"


def document(report: Any) -> dict[str, Any]:
    """Return a report as data; `schema` comes first."""
    data = encode(report)
    return {"schema": data.pop("schema"), **data}
