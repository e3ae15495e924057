"""The exponent of a noisy power law, and curves without lucky points."""

from typing import Any

import numpy as np
import pytest

from gradcli.modes.finite_difference import log_slope, median_of_neighbours
from tests.rows import for_rows

H = 10.0 ** -np.arange(0, 10, 1 / 3)


@for_rows("p", [-1.0, 0.0, 0.5, 1.0, 2.0, 6.0])
@for_rows("size", [1e-200, 1.0, 1e100])
def test_the_exponent_of_a_power_is_found(p: float, size: float) -> None:
    assert log_slope(H, size * H**p) == pytest.approx(p, abs=1e-10)


def test_noise_of_a_factor_two_moves_it_little() -> None:
    rng = np.random.default_rng(0)
    found = [log_slope(H, H**2 * 2 ** rng.uniform(-1, 1, len(H))) for _ in range(20)]
    assert max(abs(slope - 2) for slope in found) < 0.1


@for_rows("far", [1e-30, 1e-9, 1e9, 1e30])
def test_a_few_points_off_the_line_do_not_move_it(far: float) -> None:
    y = H**2
    y[[3, 11, 12, 20, 29]] *= far
    assert log_slope(H, y) == pytest.approx(2, abs=0.05)


# fmt: off
FEW: list[tuple[Any, Any, float | None]] = [
    ([],                [],                      None),
    ([1.0],             [1.0],                   None),
    ([1.0, 0.1],        [1.0, 0.1],              None),
    ([1.0, 0.1, 0.01],  [1.0, 0.1, 0.01],        1.0),
    ([1.0, 0.1, 0.01],  [1.0, 0.0, 0.01],        None),  # zeros have no logarithm
    ([1.0, 0.1, 0.01],  [1.0, np.nan, 0.01],     None),
    ([1.0, 0.1, 0.01],  [np.inf, 0.1, 0.01],     None),
    ([0.1, 0.1, 0.1],   [1.0, 2.0, 3.0],         None),  # one step, three times
    ([1, 1, 0.1, 0.1],  [1.0, 1.0, 0.1, 0.1],    1.0),
]
# fmt: on


@for_rows(("x", "y", "expected"), FEW)
def test_fewer_than_three_points_have_no_slope(x: Any, y: Any, expected: float | None) -> None:
    with np.errstate(divide="ignore"):
        assert log_slope(x, y) == (None if expected is None else pytest.approx(expected))


# fmt: off
CURVES = [
    ([1.0, 2.0, 3.0],                  [1.0, 2.0, 3.0]),
    ([1.0, 1e-9, 1.0, 1.0],            [1.0, 1.0, 1.0, 1.0]),  # a lucky point
    ([1.0, 1e9, 2.0, 3.0],             [1.0, 2.0, 3.0, 3.0]),
    ([1e-9, 1.0, 1.0],                 [1e-9, 1.0, 1.0]),      # the ends count themselves twice
    ([5.0],                            [5.0]),
    ([np.inf, np.inf, 1.0, 2.0, 3.0],  [np.inf, np.inf, 2.0, 2.0, 3.0]),
]
# fmt: on


@for_rows(("curve", "expected"), CURVES)
def test_no_lucky_point_counts(curve: list[float], expected: list[float]) -> None:
    np.testing.assert_array_equal(median_of_neighbours(np.array(curve)), expected)


def test_curves_lie_along_the_last_axis() -> None:
    curves = np.random.default_rng(0).normal(size=(2, 3, 7))
    found = median_of_neighbours(curves)
    assert found.shape == curves.shape
    for k in np.ndindex(2, 3):
        np.testing.assert_array_equal(found[k], median_of_neighbours(curves[k]))
