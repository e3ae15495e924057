"""The noise of a function is found also where it can be called on one side only."""

import numpy as np

from gradcli.modes.difference_steps import estimate_noise, spacing_of_values
from tests.rows import for_rows

SIGMA = 1e-10


def rough(t: float) -> float:
    """Return a slope with a ripple that no step resolves."""
    return 3 * t + SIGMA * np.sqrt(2) * np.sin(1e15 * t)


@for_rows("low", [-np.inf, 0.0])
@for_rows("high", [np.inf, 0.0])
def test_samples_beyond_the_domain_are_taken_on_the_other_side(low: float, high: float) -> None:
    found = estimate_noise(lambda t: rough(t) if low <= t <= high else np.nan, 1.0)
    if low == high:
        assert np.isnan(found)
    else:
        assert SIGMA / 5 < found < 5 * SIGMA


def test_entries_of_a_vector_share_their_samples() -> None:
    found = estimate_noise(lambda t: np.array([rough(t), t, 0.0 if t <= 0 else np.nan]), 1.0)
    assert SIGMA / 5 < found[0] < 5 * SIGMA and found[1] < 1e-20 and found[2] == 0


# fmt: off
SPACINGS = [  # values, and their spacing
    (np.float32([0.1, 0.11, 0.12, 0.3]),             2.0**-27),
    (np.float32([7e6, 7e6, 7e6 + 0.5]),              2.0**-1),
    (np.float16([0.1, 0.107, 0.2, 0.3]),             2.0**-14),
    ((1e24 + np.arange(4) * 1e12) - 1e24,            2.0**27),
    (np.array([0.1, 0.11, 0.12, 0.3]),               2.0**-54),
    (np.array([3.0, 3.0, 3.0]),                      2.0**-51),  # one value alone shows nothing
    (np.array([3.0, 3.1, 3.2]),                      2.0**-51),
    (np.array([0.0, 0.0]),                           5e-324),
]
# fmt: on


@for_rows(("values", "wanted"), SPACINGS)
def test_the_spacing_of_values_is_that_of_their_format(values: object, wanted: float) -> None:
    assert spacing_of_values(values) == wanted


def test_each_output_has_its_own_spacing() -> None:
    values = np.stack([np.float64(np.float32([0.1, 0.11, 0.3])), [0.1, 0.11, 0.3]], axis=1)
    assert [*spacing_of_values(values)] == [2.0**-27, 2.0**-54]
