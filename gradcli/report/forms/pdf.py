"""A report's pictures as one PDF file."""

from typing import Any

from gradcli.report.forms import Page
from gradcli.report.forms.figure import draw_picture_file


def render(report: Any, page: Page) -> bytes:
    """Return the report's pictures, one below another, as PDF."""
    return draw_picture_file(report.pictures(), "pdf", page.size, page.dpi)
