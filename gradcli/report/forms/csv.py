"""Reports as comma-separated values, one row for each entry; no cell can start a formula in a spreadsheet."""

import csv
import io
from typing import Any

from gradcli.report.blocks import make_visible
from gradcli.report.forms import Page

_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def render(report: Any, page: Page) -> str:
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
