"""A report's pictures as one SVG file."""

from typing import Any

from gradcli.forms import Page
from gradcli.forms.figure import drawn


def render(report: Any, page: Page) -> str:
    """Return the report's pictures, one below another, as SVG."""
    return drawn(report.pictures(), "svg", page.size, page.dpi).decode()
