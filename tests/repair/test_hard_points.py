"""Hard points: which ones are built, that they stay inside the bounds, and that a seed gives the same."""

import itertools
from typing import Any

import numpy as np
import pytest

from gradcli.repair.stress import Around, hard_points
from gradcli.request.point import Stepping

X = np.array([0.5, -1.5, 2.0])


def points(values: dict[str, Any], wrt: tuple[str, ...] = ("x",), **more: Any) -> list[dict[str, Any]]:
    around = Around(values, wrt, more.pop("stepping", Stepping()), **more)
    return list(itertools.islice(hard_points(around), 2_000))


def test_signs_ties_zeros_magnitudes_and_tails_are_among_them() -> None:
    found = [p["x"] for p in points({"x": X})]
    assert any(np.array_equal(x, -X) for x in found)
    assert any(np.array_equal(x, np.zeros(3)) for x in found) and any(
        np.signbit(x).all() and not x.any() for x in found
    )
    assert any(len(set(x)) < len(x) == 3 and x.any() for x in found)
    assert any(np.max(np.abs(x)) > 1e200 for x in found) and any(0 < np.max(np.abs(x)) < 1e-200 for x in found)
    assert any(sorted(x) == [0.0, 0.0, 1.0] for x in found)


def test_other_sizes_change_all_axes_of_one_length_together() -> None:
    found = points({"A": np.ones((2, 3)), "x": X, "n": 3}, ("A", "x"))
    shapes = {(p["A"].shape, p["x"].shape, p["n"]) for p in found}
    assert ((2, 1), (1,), 1) in shapes and ((2, 31), (31,), 31) in shapes and ((1, 3), (3,), 3) in shapes


def test_sizes_that_are_named_are_the_only_ones() -> None:
    found = points({"x": X}, sizes={"n": (1, 127)}, named={"n": 3})
    assert {len(p["x"]) for p in found} == {1, 3, 127}


def test_indices_repeat_and_masks_are_all_false() -> None:
    found = points({"x": X, "ids": np.array([2, 0]), "mask": np.array([True, False, True]), "k": 2})
    assert any(len(set(p["ids"])) == 1 for p in found) and any(not p["mask"].any() for p in found)
    assert any(p["mask"].all() for p in found) and {1, 3} <= {p["k"] for p in found}
    assert all(p["ids"].dtype.kind == "i" and p["mask"].dtype == bool for p in found)


@pytest.mark.parametrize("edges", [{"x": (0.0, 1.0)}, {"x": (0.1, np.inf)}, {"x": (-np.inf, 3.0)}])
def test_no_point_leaves_the_bounds(edges: dict[str, tuple[float, float]]) -> None:
    low, high = edges["x"]
    found = points({"x": np.array([0.5, 0.7])}, stepping=Stepping(edges=edges))
    assert len(found) > 20 and all(np.all((p["x"] >= low) & (p["x"] <= high)) for p in found)


def test_numbers_of_the_code_come_between_and_beside() -> None:
    found = points({"x": X}, critical=(0.99, 7.5))
    assert any(0.99 in p["x"] for p in found) and any(7.5 in p["x"] for p in found)


def test_a_seed_gives_the_same_points_and_another_gives_others() -> None:
    same = [[p["x"].tolist() for p in points({"x": X}, seed=seed)] for seed in (3, 3, 4)]
    assert same[0] == same[1] != same[2]


def test_no_point_comes_twice() -> None:
    found = [p["x"].tobytes() for p in points({"x": X})]
    assert len(found) == len(set(found))
