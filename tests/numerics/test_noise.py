"""The noise of a function is found also where it can be called on one side only."""

import numpy as np
import pytest

from gradcli.numerics.noise import noise

SIGMA = 1e-10


def rough(t: float) -> float:
    """Return a slope with a ripple that no step resolves."""
    return 3 * t + SIGMA * np.sqrt(2) * np.sin(1e15 * t)


@pytest.mark.parametrize("low", [-np.inf, 0.0])
@pytest.mark.parametrize("high", [np.inf, 0.0])
def test_samples_beyond_the_domain_are_taken_on_the_other_side(low: float, high: float) -> None:
    found = noise(lambda t: rough(t) if low <= t <= high else np.nan, 1.0)
    if low == high:
        assert np.isnan(found)
    else:
        assert SIGMA / 5 < found < 5 * SIGMA


def test_entries_of_a_vector_share_their_samples() -> None:
    found = noise(lambda t: np.array([rough(t), t, 0.0 if t <= 0 else np.nan]), 1.0)
    assert SIGMA / 5 < found[0] < 5 * SIGMA and found[1] < 1e-20 and found[2] == 0
