"""Reports in ten lines at most, for programs and logs."""

from typing import Any

from gradcli.report.brief_of_check import brief_of, brief_of_error, first_lines
from gradcli.report.check import CheckReport
from gradcli.report.common import ErrorReport
from gradcli.report.forms import Page


def render(report: Any, page: Page) -> str:
    """Return the report as at most ten lines."""
    if isinstance(report, CheckReport):
        lines = brief_of(report).lines()
    elif isinstance(report, ErrorReport):
        lines = brief_of_error(report, "gradcli", None).lines()
    else:
        lines = first_lines(report.brief())
    return "".join(f"{line}\n" for line in lines)
