"""The largest size of an array, with and without what is not finite."""

import math
from typing import Any

import numpy as np

from gradcli.tracing.shapes import largest_finite, largest_magnitude
from tests.rows import for_rows


@for_rows(
    ("x", "top", "finite"),
    [
        ([], 0.0, 0.0),
        (-3.0, 3.0, 3.0),
        ([-2.0, -5.0], 5.0, 5.0),
        ([[1.0, -2.0], [0.0, 1.5]], 2.0, 2.0),
        ([-math.inf, 4.0], math.inf, 4.0),
        ([math.nan, -4.0, math.inf], math.nan, 4.0),
        ([math.nan], math.nan, 0.0),
    ],
)
def test_sizes(x: Any, top: float, finite: float) -> None:
    assert np.array_equal(largest_magnitude(np.array(x)), top, equal_nan=True) and largest_finite(np.array(x)) == finite
