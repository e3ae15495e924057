"""Reports of suites that are made up of the rows of their checks, for tests of the forms."""

from typing import Any

from gradcli.errors import GradcliError
from gradcli.report.common import error_report
from gradcli.report.encode import encode
from gradcli.report.suite import CheckRow, SuiteReport, count_verdicts, exit_status_of_checks, row_of_document


def suite(*rows: CheckRow, config: str | None = "gradcli.toml", **more: Any) -> SuiteReport:
    """Return the report of a suite with these checks, which the file `config` declares; `more` are other fields."""
    names = tuple(row.id for row in rows)
    return SuiteReport(
        ("gradcli", "check"), 0, config, None, None, names, "", count_verdicts(rows), int(exit_status_of_checks(rows)), 1.0, rows, {}, **more,
    )  # fmt: skip


def error_row(name: str, target: str, error: GradcliError) -> CheckRow:
    """Return the row of a check that could not be carried out."""
    return row_of_document(name, target, encode(error_report(error)), 0.1)
