"""Sizes of arrays that may hold inf and nan, in as few passes as possible."""

import math
from typing import Any

import numpy as np


def all_finite(x: Any) -> bool:
    """Whether a number or every entry of an array is finite."""
    return bool(np.isfinite(x).all())


def largest(x: Any) -> float:
    """Return the largest absolute value of the finite entries, or 0 if there are none."""
    x = np.asarray(x, dtype=float)
    if not x.size:
        return 0.0
    size = max(float(x.max()), -float(x.min()), 0.0)  # nan if an entry is
    return size if math.isfinite(size) else float(np.max(np.abs(x), initial=0.0, where=np.isfinite(x)))
