"""Arrays in short: as rows of a table, one entry each, and by their norm."""

from collections.abc import Iterator
from typing import Any

import numpy as np

_SQUARES = (1e-140, 1e140)  # norms whose squares float64 holds with all digits


def entries(x: Any) -> Iterator[tuple[str, float]]:
    """Yield each entry's index, as text, and its value."""
    array = np.asarray(x, dtype=float)
    for at in np.ndindex(array.shape):
        yield ",".join(map(str, at)), float(array[at])


def norm(x: Any) -> float:
    """Return the Euclidean norm of all entries, also where their squares are beyond float64."""
    size = np.abs(np.ravel(np.asarray(x)))
    with np.errstate(over="ignore", under="ignore"):
        found = float(np.linalg.norm(size))
    largest = float(np.max(size, initial=0.0))
    if _SQUARES[0] < found < _SQUARES[1] or not np.isfinite(largest) or largest == 0:
        return found
    return largest * float(np.linalg.norm(size / largest))
