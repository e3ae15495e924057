"""Reports for programs and logs: strict JSON, comma-separated values, and at most ten lines.

JSON has no NaN, and every character beyond ASCII escaped. CSV has one row for each entry; no cell can start a formula in a
spreadsheet. An error is printed as JSON without numpy, so that what needs it is imported when it is used.
"""

import csv
import io
import json
from typing import Any

from gradcli.report.blocks import make_visible
from gradcli.report.encode import encode
from gradcli.report.forms import Page

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def render_csv(report: Any, page: Page) -> str:
    """Return the records of the report as CSV, with the column names in the first row."""
    columns, rows = report.records()
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[_write_cell(x) for x in row] for row in rows])
    return out.getvalue()


def _write_cell(x: object) -> object:
    if x is None:
        return ""
    if isinstance(x, float):
        return repr(float(x))
    if not isinstance(x, str):
        return x
    text = make_visible(x).replace("\n", " ")
    return "'" + text if x.startswith(_FORMULA) else text


def render_json(report: Any, page: Page) -> str:
    """Return the report as an indented JSON document."""
    return json.dumps(encode(report), indent=2, allow_nan=False) + "\n"


def render_ndjson(report: Any, page: Page) -> str:
    """Return the report as a JSON document on one line; several checks as the document of each."""
    from gradcli.report.suite import SuiteReport

    if isinstance(report, SuiteReport):
        return "".join(json.dumps(check.document, allow_nan=False) + "\n" for check in report.checks)
    return json.dumps(encode(report), allow_nan=False) + "\n"


def render_brief(report: Any, page: Page) -> str:
    """Return the report as at most ten lines."""
    from gradcli.report.brief_of_check import brief_of, brief_of_error, first_lines
    from gradcli.report.check import CheckReport
    from gradcli.report.common import ErrorReport

    if isinstance(report, CheckReport):
        lines = brief_of(report).lines()
    elif isinstance(report, ErrorReport):
        lines = brief_of_error(report, "gradcli", None).lines()
    else:
        lines = first_lines(report.brief())
    return "".join(f"{line}\n" for line in lines)
