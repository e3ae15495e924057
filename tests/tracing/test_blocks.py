"""Arrays in blocks give what the whole arrays give, whatever their layout."""

import numpy as np
import pytest

from gradcli.tracing.shapes import BLOCK, all_finite, entries_of_part, iterate_blocks, largest_finite, map_in_blocks
from tests.rows import for_rows


@for_rows("count", [0, 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7])
def test_the_blocks_cover_every_entry_once(count: int) -> None:
    parts = [np.arange(count)[part] for part in iterate_blocks(count)]
    assert np.array_equal(np.concatenate(parts), np.arange(count)) and max(map(len, parts)) <= BLOCK


@pytest.mark.parametrize("turned", [False, True])
def test_what_is_mapped_in_blocks_is_mapped_in_c_order(turned: bool) -> None:
    a = np.random.default_rng(0).standard_normal((300, 211))
    x = a.T if turned else a
    y = np.arange(x.size).reshape(x.shape)
    assert np.array_equal(map_in_blocks(lambda x, y, c: x * y > c, bool, x, y, 3.0), x * y > 3.0)
    assert np.array_equal(entries_of_part(x, slice(5, 9000)), np.ravel(x)[5:9000])


def test_arrays_that_are_broadcast_are_mapped_as_a_whole() -> None:
    x, row = np.ones((200, 200)), np.arange(200.0)
    assert np.array_equal(map_in_blocks(np.add, float, x, row), x + row)


@for_rows(
    ("x", "size"),
    [
        ([], 0.0), ([-3.0, 2.0], 3.0), ([np.nan, -1.0], 1.0), ([np.inf, 2.0, -5.0], 5.0), ([-np.inf, np.nan], 0.0), (-2.5, 2.5),
        (np.nan, 0.0),
    ],
)  # fmt: skip
def test_the_largest_entry_is_that_of_the_finite_ones(x: object, size: float) -> None:
    assert largest_finite(x) == size
    assert all_finite(x) == bool(np.all(np.isfinite(x)))
