"""Arrays as rows of a table, one entry each."""

from collections.abc import Iterator
from typing import Any

import numpy as np


def entries(x: Any) -> Iterator[tuple[str, float]]:
    """Yield each entry's index, as text, and its value."""
    array = np.asarray(x, dtype=float)
    for at in np.ndindex(array.shape):
        yield ",".join(map(str, at)), float(array[at])
