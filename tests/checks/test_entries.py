"""The verdict of each entry of two estimates."""

import numpy as np
import pytest

from gradcli.checks.evidence import AGREE, CANNOT_TELL, DISAGREE, DOUBT, judge_entries
from gradcli.request.point import Estimate
from gradcli.tracing.shapes import BLOCK


def _estimate(value: np.ndarray, bound: float, **more: bool) -> Estimate:
    return Estimate({"x": value}, {"x": np.full(value.shape, bound)}, **more)


@pytest.mark.parametrize("count", [3, 2 * BLOCK + 3])
def test_entries_are_compared_within_their_bounds(count: int) -> None:
    right = np.ones(count)
    claim = right.copy()
    claim[[0, -1]] = 1 + 1e-6, np.nan
    words = judge_entries(_estimate(claim, 1e-9), _estimate(right, 1e-9), "x", 1e-6)
    assert words[0] == DISAGREE and words[-1] == CANNOT_TELL and np.all(words[1:-1] == AGREE)


@pytest.mark.parametrize(("doubt", "word"), [(DOUBT, DISAGREE), (100 * DOUBT, CANNOT_TELL)])
def test_an_estimated_bound_cannot_tell_within_the_doubt(doubt: float, word: np.int8) -> None:
    right, other = np.ones(4), np.full(4, 1 + 1e-8)
    estimates = _estimate(other, 1e-9, statistical=True), _estimate(right, 0.0, proved=True)
    assert np.all(judge_entries(*estimates, "x", 1e-6, doubt=doubt) == word)
