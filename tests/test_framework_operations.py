"""What frameworks need and numpy shows: positions of padded arrays, windows and blocks, orders of pivots; and their options."""

import numpy as np
import pytest
import scipy.linalg

from gradcli.errors import BadOption
from gradcli.frameworks.framework import KNOWN
from gradcli.frameworks.ops.indexing import block_positions, padded_positions, window_positions
from gradcli.frameworks.ops.matrices import permutation, pivots
from gradcli.request.options import FRAMEWORKS, options_from_keywords, options_of_command
from tests.rows import for_rows

RNG = np.random.default_rng(0)


def test_rows_are_exchanged_as_in_lapack() -> None:
    a = RNG.normal(size=(3, 4, 4))
    found = pivots(a)
    for each, exchanges, order in zip(a, found, permutation(found, 4), strict=True):
        assert np.array_equal(exchanges, scipy.linalg.lu_factor(each)[1])
        _, low, up = scipy.linalg.lu(each)
        assert np.allclose(each[order], low @ up)


PADDED = [  # sizes, the padding before, after and between entries of each axis, and the array
    ((3,), [(1, 2, 0)], [3, 0, 1, 2, 3, 3]),
    ((3,), [(0, 0, 1)], [0, 3, 1, 3, 2]),
    ((3,), [(-1, 1, 0)], [1, 2, 3]),
    ((3,), [(0, -2, 0)], [0]),
    ((2, 2), [(1, 0, 0), (0, 1, 0)], [[4, 4, 4], [0, 1, 4], [2, 3, 4]]),
    ((2, 2), [(0, 0, 0), (-1, 0, 0)], [[1], [3]]),
]


@for_rows(("sizes", "config", "places"), PADDED)
def test_padded_arrays_have_the_number_of_entries_where_there_is_none(
    sizes: tuple[int, ...], config: list[tuple[int, ...]], places: list[int]
) -> None:
    assert padded_positions(sizes, config).tolist() == places


def test_windows_are_those_of_numpy() -> None:
    places = np.arange(20).reshape(4, 5)
    view = np.lib.stride_tricks.sliding_window_view(places, (2, 3))
    assert np.array_equal(window_positions(places, (2, 3), (1, 1), (1, 1)), view)
    assert np.array_equal(window_positions(places, (2, 2), (2, 1), (1, 2)), view[::2, :, :, ::2])


def test_blocks_begin_at_their_corners() -> None:
    places = np.arange(20).reshape(4, 5)
    found = block_positions([np.array([0, 2]), np.array([1, 3])], (4, 5), (2, 2))
    assert np.array_equal(found, [places[0:2, 1:3], places[2:4, 3:5]])


UNKNOWN = [("--expect", "stopgradient"), ("--same-as", "eagre"), ("--framework", "troch")]


@for_rows(("flag", "word"), UNKNOWN)
def test_a_word_that_is_not_known_is_refused(flag: str, word: str) -> None:
    row = next(row for row in options_of_command("check") if row.flag == flag)
    with pytest.raises(BadOption, match=f"{flag} does not know '{word}'"):
        row.value(word)
    with pytest.raises(BadOption, match=f"does not know '{word}'"):
        options_from_keywords({row.name: word})


def test_the_option_names_the_frameworks_that_are_known() -> None:
    assert (*KNOWN, "numpy") == FRAMEWORKS
