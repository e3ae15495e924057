"""How exact a gradient in a narrow format is, beside what its format can deliver."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradcli.core.shapes import end_to_end
from gradcli.numerics.rounding import EPS
from gradcli.point import Array

LESS_EXACT = 4.0  # times the typical error of the same formula in the format: a larger error is reported
_ONE_ROUNDING = 12**-0.5  # ulps: the root mean square error of one rounding


def ratios(
    claim: Mapping[str, Array], right: Mapping[str, Array], typical: Mapping[str, Array], coarseness: float
) -> tuple[float, float]:
    """Return the error of a claim over the typical error of the same formula in its format: over all entries, and at most.

    The first is a root mean square. Entries that both compute without an error count as 0.

    Units  `coarseness` is one rounding of the format in those of float64.
    """
    x, y, size = (flat([part[name] for name in claim]) for part in (claim, right, typical))
    least = _ONE_ROUNDING * EPS * coarseness * np.abs(y)  # the result itself is rounded
    unit = np.maximum(size, least)
    off = np.abs(x - y)
    with np.errstate(all="ignore"):
        found = np.where(off > 0, off / unit, 0.0)
    if not found.size:
        return 0.0, 0.0
    return float(np.sqrt(np.mean(np.square(found)))), float(np.max(found))


def has_no_right_digit(claim: Mapping[str, Array], right: Mapping[str, Array]) -> bool:
    """Whether the error of a claim is at least half as large as the largest entry of the gradient."""
    x, y = (flat([part[name] for name in claim]) for part in (claim, right))
    largest = float(np.max(np.abs(y), initial=0.0))
    return largest > 0 and not float(np.max(np.abs(x - y), initial=0.0)) < 0.5 * largest


def flat(parts: list[Any]) -> Any:
    """Return the entries of all inputs, one after the other."""
    return end_to_end([np.asarray(part, dtype=float) for part in parts])
