"""How noisy a function is: the spread of its values that no slope explains."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

EPS = float(np.finfo(np.float64).eps)
_SPACING = 2e-8  # of the scale: wide enough to see rounding, narrow enough not to see the function
_COUNT = 9


def noise(phi: Callable[[float], Any], scale: float) -> Any:
    """Estimate the standard deviation of the noise of `phi` around 0.

    Shapes  as phi's values.
    Units   scale in units of phi's argument, the noise in units of phi.
    Cost    9 calls.
    Source  Moré and Wild (2011), Estimating computational noise, algorithm ECnoise.
    """
    values = np.stack([np.asarray(phi((k - _COUNT // 2) * _SPACING * scale), dtype=float) for k in range(_COUNT)])
    floor = EPS * np.max(np.abs(values), axis=0)
    levels = []
    differences = values
    for k in range(1, 7):
        differences = np.diff(differences, axis=0)
        if k >= 4:
            gamma = math.factorial(k) ** 2 / math.factorial(2 * k)
            levels.append(np.sqrt(gamma * np.mean(differences**2, axis=0)))
    return np.maximum(np.median(np.stack(levels), axis=0), floor)
