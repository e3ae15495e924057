"""A report's pictures as one PDF file."""

from typing import Any

from gradcli.render import Page
from gradcli.render.figure import drawn


def render(report: Any, page: Page) -> bytes:
    """Return the report's pictures, one below another, as PDF."""
    return drawn(report.pictures(), "pdf", page.size, page.dpi)
