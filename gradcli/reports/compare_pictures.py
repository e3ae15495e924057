"""The pictures of `compare-modes`: bars of digits and cost, the errors of matrices, and growth."""

from typing import Protocol

import numpy as np

from gradcli.reports.absent import Absent
from gradcli.reports.blocks import Bars, HeatMap, Picture
from gradcli.reports.compare_rows import ModeRow, Precision, RightDigits
from gradcli.reports.encode import Values
from gradcli.reports.growth import Growth

_MARKED = 3  # worst entries in a heat map
_LARGEST_MAP = 1_000  # rows or columns of a picture
_FLOOR = 1e-17  # relative error shown for entries that are right to the last bit


class Compared(Protocol):
    """What pictures show of the whole report."""

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
            found += _maps(mode, row.values, reference)
    if report.precision:
        ulps = tuple((p.dtype, p.ulps_worst) for p in report.precision)
        found.append(Bars("worst error of a gradient in low precision", "ulps of that precision", ulps, log=True))
    return (*found, *(report.growth.pictures() if report.growth else ()))


def _maps(mode: str, values: dict[str, Values], reference: dict[str, Values]) -> list[HeatMap]:
    """Return the errors of each matrix of a mode, in powers of ten of the entry."""
    found = []
    for name, g in reference.items():
        shape = np.shape(g)
        if name not in values or len(shape) != 2 or not 1 < max(shape) <= _LARGEST_MAP:
            continue
        with np.errstate(all="ignore"):
            error = np.abs(np.asarray(values[name]) - g) / np.where(np.asarray(g) == 0, 1.0, np.abs(g))
        worst = np.argsort(-error, axis=None)[:_MARKED]
        marked = tuple(tuple(int(k) for k in np.unravel_index(at, shape)) for at in worst if np.ravel(error)[at] > 0)
        title = f"{mode}: relative error of the entries of {name}, the worst ringed"
        found.append(HeatMap(title, "power of ten", np.log10(np.maximum(error, _FLOOR)), marked))  # type: ignore[arg-type]
    return found
