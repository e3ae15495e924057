"""Reports in ten lines at most, for programs and logs."""

from typing import Any

from gradcli.report.brief_of_check import at_most, brief_of
from gradcli.report.check import CheckReport
from gradcli.report.forms import Page


def render(report: Any, page: Page) -> str:
    """Return the report as at most ten lines."""
    lines = brief_of(report).lines() if isinstance(report, CheckReport) else at_most(report.brief())
    return "".join(f"{line}\n" for line in lines)
