"""Matrices in few cells, and cells in levels."""

import numpy as np

from gradcli.report.blocks import HeatMap
from gradcli.report.drawing.chart import LEVELS, Cells, Scale, coarsen_matrix, levels_of_cells
from gradcli.report.numbers import is_small
from tests.rows import for_rows


def test_a_cell_is_the_entry_of_largest_size() -> None:
    cells, rows, columns = coarsen_matrix(np.array([[1.0, -5.0, 2.0], [3.0, 4.0, -0.5]]), 2, np.abs)
    assert (cells.tolist(), rows, columns) == ([[-5.0, 2.0], [4.0, -0.5]], 1, 2)


def test_what_is_no_number_is_not_hidden_in_a_cell() -> None:
    matrix = np.ones((10, 10))
    matrix[3, 4] = np.nan
    assert np.isnan(coarsen_matrix(matrix, 2, np.abs)[0][0, 0])


@for_rows(("cells", "ends", "found"), [
    ([0.0, 1.0, 2.0], (0, 2), [0, 4, 8]), ([5.0, 5.0], (5, 5), [0, 0]), ([np.nan, 1.0, np.inf, 2.0], (1, 2), [-1, 0, -1, 8]),
    ([-1.7e308, 0.0, 1.7e308], (-1.7e308, 1.7e308), [0, 4, 8]), ([np.nan, np.inf], (0, 0), [-1, -1]),
])  # fmt: skip
def test_levels_lie_between_the_ends(cells: list[float], ends: tuple[float, float], found: list[int]) -> None:
    assert levels_of_cells(np.array(cells), *ends).tolist() == found and max(found) < LEVELS


@for_rows(("values", "ends", "letters"), [
    ([0.0, 1.0, 2.0], (0, 2), "048"), ([-2.0, -1.0, 0.0], (-2, 0), "iea"), ([5.0, 5.0], (0, 5), "88"), ([-0.0, 0.0], (0, 0), "00"),
    ([-1.0, 0.0, 2.0, 0.1], (-2, 2), "e080"), ([-3.0, 1.0], (-3, 3), "i4"), ([np.nan, 1.0, -np.inf], (0, 1), "x8x"),
    ([np.nan], (0, 0), "x"), ([-1.7e308, 1.7e308], (-1.7e308, 1.7e308), "i8"),
])  # fmt: skip
def test_colours_are_white_at_0_and_two_where_both_signs_occur(values: list[float], ends: tuple[float, float], letters: str) -> None:  # fmt: skip
    array = np.array(values)
    scale = Scale.over(array)
    assert (scale.low, scale.high) == ends and "".join(scale.letters(array)) == letters
    assert [x for _, x in scale.marks()] == ([ends[0], 0.0, ends[1]] if ends[0] < 0 < ends[1] else [*ends])


def test_maps_beside_each_other_have_one_scale() -> None:
    one, other = np.array([[1.0, 4.0]]), np.array([[-8.0, 0.0]])
    both = [Cells.of(HeatMap("", "", x, beside=y)) for x, y in ((one, other), (other, one))]
    assert both[0].scale == both[1].scale == Scale(-8.0, 8.0, "igec02468")
    assert ["".join(cells.letters[0]) for cells in both] == ["24", "i0"]


@for_rows(
    ("size", "indices"), [(1, [0]), (4, [0, 1, 2, 3]), (27, [0, 5, 10, 15, 20, 25]), (999, [*range(0, 999, 100)])]
)
def test_a_few_indices_are_written_in_the_middle_of_their_cells(size: int, indices: list[int]) -> None:
    cells = Cells.of(HeatMap("", "", np.ones((1, size))))
    assert [index for index, _ in cells.ticks(1)] == indices
    assert all(place - 0.5 == index // cells.each[1] for index, place in cells.ticks(1))


@for_rows(("shape", "small"), [((4, 4), True), ((3,), True), ((1, 4), True), ((5,), False), ((2, 5), False), ((), False),
                               ((1, 1), False), ((2, 2, 2), False), ((0, 3), False)])  # fmt: skip
def test_which_arrays_are_shown_in_full(shape: tuple[int, ...], small: bool) -> None:
    assert is_small(np.zeros(shape)) == small
