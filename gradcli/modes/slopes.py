"""Slopes of noisy curves on logarithmic axes."""

from typing import Any

import numpy as np


def log_slope(x: Any, y: Any) -> float | None:
    """Return the exponent p of y ~ x^p: the median of the slopes between all pairs of points; None for fewer than three.

    Source  Theil (1950) and Sen (1968): a few outliers do not change this slope.
    """
    x, y = np.log(np.asarray(x, dtype=float)), np.log(np.asarray(y, dtype=float))
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if len(x) < 3:
        return None
    i, j = np.triu_indices(len(x), 1)
    apart = x[j] != x[i]
    return float(np.median((y[j] - y[i])[apart] / (x[j] - x[i])[apart])) if np.any(apart) else None


def neighbours(x: Any) -> Any:
    """Return the median of each value of a curve and its two neighbours, so that a single lucky point has no effect.

    Shapes  as x; curves lie along the last axis.
    """
    padded = np.concatenate([x[..., :1], x, x[..., -1:]], axis=-1)
    return np.median(np.stack([padded[..., :-2], padded[..., 1:-1], padded[..., 2:]]), axis=0)
