"""The pictures of `compare-modes`: bars of digits and cost, the errors of matrices, and growth."""

from typing import Protocol

import numpy as np

from gradcli.reports.absent import Absent
from gradcli.reports.blocks import Bars, Picture
from gradcli.reports.compare_rows import ModeRow, Precision, RightDigits
from gradcli.reports.encode import Values
from gradcli.reports.error_maps import error_maps
from gradcli.reports.growth import Growth


class Compared(Protocol):
    """What pictures show of the whole report."""

    @property
    def value(self) -> Values: ...

    @property
    def reference(self) -> str | None: ...

    @property
    def modes(self) -> dict[str, ModeRow]: ...

    @property
    def precision(self) -> tuple[Precision, ...] | Absent: ...

    @property
    def growth(self) -> Growth | Absent: ...


def pictures(report: Compared) -> tuple[Picture, ...]:
    """Return bars of digits and cost, the errors of matrices as heat maps, and growth."""
    ok = {mode: row for mode, row in report.modes.items() if row.status == "ok"}
    digits = tuple(
        (mode, row.right_digits.worst) for mode, row in ok.items() if isinstance(row.right_digits, RightDigits)
    )
    costs = tuple((mode, float(row.relative_time or 0.0)) for mode, row in ok.items())
    found: list[Picture] = [
        Bars("right digits of the worst entry", "digits", digits),
        Bars("time of a gradient", "evaluations of f", costs, log=True),
    ]
    reference = report.modes[report.reference].values if report.reference else {}
    for mode, row in ok.items():
        if mode != report.reference:
            found += error_maps(mode, row.values, reference, int(np.ndim(report.value)))
    if report.precision:
        ulps = tuple((p.dtype, p.ulps_worst) for p in report.precision)
        found.append(Bars("worst error of a gradient in low precision", "ulps of that precision", ulps, log=True))
    return (*found, *(report.growth.pictures() if report.growth else ()))
