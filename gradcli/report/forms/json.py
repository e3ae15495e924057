"""Reports as one strict JSON document: no NaN, and every character beyond ASCII escaped."""

import json
from typing import Any

from gradcli.report.encode import encode
from gradcli.report.forms import Page


def render(report: Any, page: Page) -> str:
    """Return the report as an indented JSON document."""
    return json.dumps(encode(report), indent=2, allow_nan=False) + "\n"
