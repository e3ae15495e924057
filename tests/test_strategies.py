"""Points that hypothesis draws: their shapes, what is assumed of them, and that a wrong gradient is found with them."""

from typing import Any

import numpy as np
import pytest
from hypothesis import find, given

from gradcli.errors import BadOption
from gradcli.strategies import points
from tests.rows import for_rows


@pytest.mark.slow
@given(points("W: m n; x: n; y: m; lam:", largest=4))
def test_sizes_with_one_name_are_one_size(at: dict[str, Any]) -> None:
    m, n = np.shape(at["W"])
    assert (np.shape(at["x"]), np.shape(at["y"]), np.shape(at["lam"])) == ((n,), (m,), ())
    assert 1 <= m <= 4 and 1 <= n <= 4


@pytest.mark.slow
@given(points("y: n; S: k k; t: n", assume="y: simplex; S: spd; t: signs"))
def test_assumptions_hold_at_hard_points_too(at: dict[str, Any]) -> None:
    assert np.all(at["y"] >= 0) and np.sum(at["y"]) == pytest.approx(1)
    assert np.allclose(at["S"], at["S"].T, rtol=1e-9, atol=0) and np.all(np.abs(at["t"]) == 1)


@pytest.mark.slow
@given(points("p: n", bounds={"p": (0.1, 0.9)}))
def test_bounds_hold(at: dict[str, Any]) -> None:
    assert np.all((at["p"] >= 0.1) & (at["p"] <= 0.9))


def test_a_branch_far_away_is_found() -> None:
    at = find(points("x: n"), lambda at: bool(np.any(at["x"] > 1e6)))
    assert np.max(at["x"]) > 1e6


@for_rows(("shapes", "assume"), [("x n", ""), ("x: n", "x: odd"), ("x: n", "y: simplex"), ("x: n", "x: spd")])
def test_what_cannot_be_read_is_refused(shapes: str, assume: str) -> None:
    with pytest.raises(BadOption):
        find(points(shapes, assume=assume), lambda at: True)
