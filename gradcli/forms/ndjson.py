"""Reports as one JSON document on one line."""

import json
from typing import Any

from gradcli.forms import Page
from gradcli.reports.encode import encode


def render(report: Any, page: Page) -> str:
    """Return the report as a JSON document on one line."""
    data = encode(report)
    return json.dumps({"schema": data.pop("schema"), **data}, allow_nan=False) + "\n"
