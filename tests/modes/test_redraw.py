"""What the values of a point have in common by design stays so where they are drawn anew, or get another size."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.modes.redraw import redraw_inputs, resize_inputs, shrink_inputs
from tests.rows import for_rows

RNG = np.random.default_rng(5)
SHARES = RNG.dirichlet(np.ones(4), 3)
ORTHOGONAL = np.linalg.qr(RNG.normal(size=(3, 3)))[0]
SPREAD = RNG.normal(size=(3, 3))


def redrawn(x: Any, seed: int = 0, wrt: tuple[str, ...] = ()) -> Any:
    return redraw_inputs({"x": x}, wrt, np.random.default_rng(seed))["x"]


@for_rows(
    ("x", "keeps"),
    [
        (np.array([0.5, -1.5, 2.5]), lambda a, b: np.array_equal(np.sign(a), np.sign(b))),
        (np.array([0.5, 1.5, 2.5]), lambda a, b: np.all(np.diff(b) > 0)),
        (np.array([2.5, 1.5, 0.5]), lambda a, b: np.all(np.diff(b) < 0)),
        (np.array([0.5, 1.5, 0.5]), lambda a, b: b[0] == b[2] != b[1]),
        (np.array([0.25, 0.5, 0.75, 0.1]), lambda a, b: np.all((b > 0) & (b < 1))),
        (np.array([0.0, 1.5, -0.5]), lambda a, b: b[0] == 0),
        (np.array([-np.inf, 1.5, np.nan]), lambda a, b: b[0] == -np.inf and np.isnan(b[2])),
        (SPREAD + SPREAD.T, lambda a, b: np.array_equal(b, b.T)),
        (SPREAD - SPREAD.T, lambda a, b: np.array_equal(b, -b.T)),
        (SPREAD @ SPREAD.T + np.eye(3), lambda a, b: np.all(np.linalg.eigvalsh(b) > 0)),
        (np.tril(SPREAD), lambda a, b: np.array_equal(b, np.tril(b))),
        (SHARES, lambda a, b: np.allclose(b.sum(1), 1)),
        (
            SPREAD / np.linalg.norm(SPREAD, axis=1, keepdims=True),
            lambda a, b: np.allclose(np.linalg.norm(b, axis=1), 1),
        ),
        (ORTHOGONAL, lambda a, b: np.allclose(b.T @ b, np.eye(3))),
        (np.float64(2.0), lambda a, b: b > 0),
    ],
)
def test_real_numbers_move_and_keep_their_structure(x: Any, keeps: Callable[[Any, Any], bool]) -> None:
    found = redrawn(x)
    assert np.asarray(found).dtype == np.asarray(x).dtype and np.shape(found) == np.shape(x)
    assert not np.array_equal(found, x, equal_nan=True) and keeps(x, found)


@for_rows(
    ("x", "keeps"),
    [
        (np.array([3, 1, 2, 0]), lambda a, b: sorted(a) == sorted(b)),
        (np.array([True, False, True, True]), lambda a, b: a.sum() == b.sum()),
        (np.eye(4)[[2, 0, 0, 1]], lambda a, b: np.array_equal(b.sum(1), np.ones(4))),
        (np.array([0, 0, 1, 2, 2]), lambda a, b: np.all(np.diff(b) >= 0) and b[0] == 0 and b[-1] == 2),
        (np.array([0, 2, 7, 5])[[0, 1, 3, 2]], lambda a, b: np.all(np.diff(b) > 0) and b[0] == 0 and b[-1] == 7),
        (np.tri(4, dtype=bool), lambda a, b: np.array_equal(a, b)),
        (np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]]), lambda a, b: np.array_equal(b, b.T)),
        ("mean", lambda a, b: a == b),
        (3, lambda a, b: a == b),
    ],
)
def test_whole_numbers_change_places(x: Any, keeps: Callable[[Any, Any], bool]) -> None:
    assert all(keeps(x, redrawn(x, seed)) and type(redrawn(x, seed)) is type(x) for seed in range(4))


def test_rows_of_labels_stay_together() -> None:
    values = {"i": np.array([3, 1, 2, 0, 4]), "j": np.array([13, 11, 12, 10, 14])}
    found = redraw_inputs(values, [], np.random.default_rng(1))
    assert np.array_equal(found["j"], found["i"] + 10) and not np.array_equal(found["i"], values["i"])


def test_what_lies_below_another_stays_below() -> None:
    low, high = np.array([0.1, 2.3, 1.7]), np.array([0.2, 2.4, 1.9])
    for seed in range(20):
        found = redraw_inputs({"low": low, "high": high}, [], np.random.default_rng(seed))
        assert np.all(found["low"] <= found["high"])


def test_zeros_move_where_they_are_differentiated() -> None:
    assert np.all(redrawn(np.zeros(3), wrt=("x",)) != 0) and not np.any(redrawn(np.array([0.0, 0.0])))


def test_axes_of_one_length_grow_together() -> None:
    values = {"W": SPREAD[:2], "x": np.array([0.5, -1.5, 2.5]), "y": np.array([1, 0]), "n": 2}
    shapes = [
        {name: np.shape(x) if name != "n" else x for name, x in at.items()}
        for ways in resize_inputs(values, ["W"], np.random.default_rng(0))
        for at in ways
    ]
    assert shapes[0] == {
        "W": (3, 4),
        "x": (4,),
        "y": (3,),
        "n": 2,
    }  # all at once, so that no two stay equal by accident
    assert shapes[2] == {"W": (2, 4), "x": (4,), "y": (2,), "n": 2}
    assert {"W": (3, 3), "x": (3,), "y": (3,), "n": 2} in shapes and {
        "W": (3, 3),
        "x": (3,),
        "y": (3,),
        "n": 3,
    } in shapes


def test_axes_get_short_and_positions_stay_within_them() -> None:
    classes, features, rows = 10, 41, 60
    values = {
        "W": RNG.normal(size=(features, classes)), "X": RNG.normal(size=(rows, features)), "bias": np.zeros(classes),
        "y": np.arange(rows) % classes, "Y": np.eye(classes)[np.arange(rows) % classes], "count": rows, "reg": 0.1,
        "shares": RNG.dirichlet(np.ones(classes), rows), "gates": RNG.normal(size=(4 * features, features)),
    }  # fmt: skip
    free, multiples, of_fours = shrink_inputs(values, ("W", "bias", "gates"))
    assert of_fours["X"].shape == (8, 4) and of_fours["gates"].shape == (12, 4)
    assert [np.shape(x) for x in free.values()] == [(4, 3), (5, 4), (3,), (5,), (5, 3), (), (), (5, 3), (6, 4)]
    assert multiples["gates"].shape == (16, 4) and multiples["X"].shape == (multiples["count"], 4)
    for found in (free, multiples):
        assert found["y"].max() < 3 and found["count"] == len(found["X"]) and found["reg"] == 0.1
        assert np.array_equal(found["Y"].sum(1), np.ones(len(found["Y"]))) and np.allclose(found["shares"].sum(1), 1)
    assert not [*shrink_inputs({"x": np.zeros((4, 5)), "y": np.arange(5)}, ("x",))]


def test_structure_is_kept_at_other_sizes() -> None:
    values = {"S": SPREAD @ SPREAD.T, "L": np.tril(SPREAD), "y": np.eye(3)[[2, 0, 1]], "p": SHARES[:, :3] + 0.0}
    at = next(next(iter(resize_inputs(values, [], np.random.default_rng(0)))))
    assert at["S"].shape == (4, 4) and np.all(np.linalg.eigvalsh(at["S"]) > 0)
    assert np.array_equal(at["L"], np.tril(at["L"])) and np.array_equal(at["y"].sum(1), np.ones(4))


@for_rows(
    ("x", "keeps"),
    [
        (np.array([0, 3]), lambda b: np.all(np.diff(b) > 0)),
        (np.array([4.0, 1.0, 3.0]), lambda b: {1, 2, 3, 4} <= set(b)),
        (np.array([0.3, 0.9, 1.4]), lambda b: np.all(np.diff(b) > 0)),
        (np.array([1.0, -1.0]), lambda b: set(b) == {1.0, -1.0}),
        (np.array([1, 0]), lambda b: set(b) == {0, 1}),
        (np.array([2, 0, 2]), lambda b: set(b) == {0, 2}),
    ],
)
def test_a_vector_that_repeats_nothing_repeats_nothing_at_other_sizes(x: Any, keeps: Callable[[Any], bool]) -> None:
    found = [next(ways)["x"] for ways in resize_inputs({"x": x}, [], np.random.default_rng(0))]
    assert [len(b) for b in found] == [len(x) + 1, 2 * len(x)] and all(map(keeps, found)), found
