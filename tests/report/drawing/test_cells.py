"""Matrices in few cells, and cells in levels."""

import numpy as np

from gradcli.report.drawing.chart import LEVELS, coarse, ends, levels
from tests.rows import for_rows


def test_a_cell_is_the_entry_of_largest_size() -> None:
    cells, rows, columns = coarse(np.array([[1.0, -5.0, 2.0], [3.0, 4.0, -0.5]]), 2, np.abs)
    assert (cells.tolist(), rows, columns) == ([[-5.0, 2.0], [4.0, -0.5]], 1, 2)


def test_what_is_no_number_is_not_hidden_in_a_cell() -> None:
    matrix = np.ones((10, 10))
    matrix[3, 4] = np.nan
    assert np.isnan(coarse(matrix, 2, np.abs)[0][0, 0])


@for_rows(("cells", "found"), [
    ([0.0, 1.0, 2.0], [0, 4, 8]), ([5.0, 5.0], [0, 0]), ([np.nan, 1.0, np.inf, 2.0], [-1, 0, -1, 8]),
    ([-1.7e308, 0.0, 1.7e308], [0, 4, 8]), ([np.nan, np.inf], [-1, -1]),
])  # fmt: skip
def test_levels_lie_between_the_ends(cells: list[float], found: list[int]) -> None:
    array = np.array(cells)
    assert levels(array, *ends(array)).tolist() == found and max(found) < LEVELS
