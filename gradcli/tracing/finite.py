"""Sizes of arrays that may hold inf and nan, in as few passes as possible."""

import math
from typing import Any

import numpy as np


def all_finite(x: Any) -> bool:
    """Whether a number or every entry of an array is finite."""
    return bool(np.isfinite(x).all())


def peak(x: Any) -> float:
    """Return the largest absolute value, or 0 if there are no entries; inf or nan if an entry is."""
    x = np.asarray(x, dtype=float)
    return max(float(x.max()), -float(x.min())) if x.size else 0.0


def largest(x: Any) -> float:
    """Return the largest absolute value of the finite entries, or 0 if there are none."""
    size = peak(x)
    return size if math.isfinite(size) else float(np.max(np.abs(x), initial=0.0, where=np.isfinite(x)))
