"""How exact a gradient in a narrow format is, beside what its format can deliver."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradcli.modes.rounding import EPS
from gradcli.request.point import Array
from gradcli.tracing.shapes import end_to_end

LESS_EXACT = 4.0  # times the typical error of the same formula in the format: a larger error is reported
LESS_EXACT_ENTRY = 6.0  # the same of one entry
_ONE_ROUNDING = 12**-0.5  # ulps: the root mean square error of one rounding


def ratios(
    claim: Mapping[str, Array], right: Mapping[str, Array], typical: Mapping[str, Array], coarseness: float
) -> tuple[float, float]:
    """Return the error of a claim over the typical error of the same formula in its format: of the worst input, and entry.

    The first is a root mean square of the entries of one input. Entries that both compute without an error count as 0.

    Units  `coarseness` is one rounding of the format in those of float64.
    """
    worst = largest = 0.0
    for name, x in claim.items():
        y = np.asarray(right[name])
        least = _ONE_ROUNDING * EPS * coarseness * np.abs(y)  # the result itself is rounded
        off = np.abs(np.asarray(x) - y)
        with np.errstate(all="ignore"):
            found = np.where(off > 0, off / np.maximum(typical[name], least), 0.0)
        if found.size:
            worst = max(worst, float(np.sqrt(np.mean(np.square(found)))))
            largest = max(largest, float(np.max(found)))
    return worst, largest


def has_no_right_digit(claim: Mapping[str, Array], right: Mapping[str, Array]) -> bool:
    """Whether the error of a claim is at least half as large as the largest entry of the gradient."""
    x, y = (flat([part[name] for name in claim]) for part in (claim, right))
    largest = float(np.max(np.abs(y), initial=0.0))
    return largest > 0 and not float(np.max(np.abs(x - y), initial=0.0)) < 0.5 * largest


def flat(parts: list[Any]) -> Any:
    """Return the entries of all inputs, one after the other."""
    return end_to_end([np.asarray(part, dtype=float) for part in parts])
