"""A report's pictures as one PNG file."""

from typing import Any

from gradcli.report.forms import Page
from gradcli.report.forms.figure import draw_picture_file


def render(report: Any, page: Page) -> bytes:
    """Return the report's pictures, one below another, as PNG."""
    return draw_picture_file(report.pictures(), "png", page.size, page.dpi)
