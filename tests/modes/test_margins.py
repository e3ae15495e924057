"""How far the nearest kink is that the run did not hit."""

from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic.recorded_program import record
from gradcli.modes.kinks import Nearby, find_nearest_kink
from gradcli.tracing.primitive import PRIMITIVES
from tests.rows import for_rows

relu = PRIMITIVES["relu"]
ONE = np.float64(1)
A = np.array([[2.0, -1.0], [0.5, 3.0]])


def near(f: Any, *at: Any) -> Nearby | None:
    xs = [np.asarray(x, dtype=float)[()] for x in at]
    run = record(f, xs)
    return find_nearest_kink(run, run.tape.sweep(run.y.slot, ONE))


# fmt: off
DISTANCES: list[tuple[str, Any, tuple[Any, ...], str, float, int, tuple[int, ...]]] = [
    # name, function, point, primitive, distance, the input and the entry that reach it soonest
    ("relu",            lambda x: relu(x) + x,                       (3e-7,),                 "relu",     3e-7,       0, ()),
    ("relu below",      lambda x: relu(x) * 2 + relu(x + 1),         (-3e-7,),                "relu",     3e-7,       0, ()),
    ("abs",             lambda x: np.sum(np.abs(x)),                 ([0.5, -2e-4, 3.0],),    "absolute", 2e-4,       0, (1,)),
    ("times a factor",  lambda x: np.sum(np.abs(5 * x)),             ([0.5, -2e-4, 3.0],),    "absolute", 2e-4,       0, (1,)),
    ("moved",           lambda x: np.sum(relu(2 * x - 1)),           ([0.7, 0.5001],),        "relu",     1e-4,       0, (1,)),
    ("maximum",         lambda x, y: np.maximum(x, y),               (1.0, 1.25),             "maximum",  0.25,       0, ()),
    ("weighted",        lambda x, y: np.maximum(3 * x, y),           (1.0, 3.0006),           "maximum",  2e-4,       0, ()),
    ("minimum",         lambda x, y: np.sum(np.minimum(x, y)),       ([1.0, 2.0], [1.5, 1.9]), "minimum", 0.1,        0, (1,)),
    ("of a constant",   lambda x: np.sum(np.maximum(x, 0.3)),        ([0.1, 0.35],),          "maximum",  0.05,       0, (1,)),
    ("other input",     lambda x, y: relu(x + 10 * y),               (0.2, 0.001),            "relu",     0.021,      1, ()),
    ("through a matrix", lambda x: np.sum(relu(A @ x)),              ([1.0, 1.9999],),        "relu",     1e-4 / 2,   0, (0,)),
    ("through exp",     lambda x: np.abs(np.exp(x) - 1.0) + x,       (1e-9,),                 "absolute", 1e-9,       0, ()),
    ("the nearer one",  lambda x: relu(x[0]) + np.abs(x[1]),         ([1e-3, 1e-5],),         "absolute", 1e-5,       0, (1,)),
]
NONE: list[tuple[str, Any, tuple[Any, ...]]] = [
    ("smooth",           lambda x: np.sin(x) ** 2,                   (0.4,)),
    ("at the kink",      relu,                                       (0.0,)),
    ("not used",         lambda x: (np.abs(x), x * 3)[1],            (0.2,)),
    ("another kink",     lambda x: np.floor(x) * x,                  (0.2,)),
]
# fmt: on


@for_rows(
    ("f", "at", "primitive", "distance", "number", "entry"), [pytest.param(*rest, id=name) for name, *rest in DISTANCES]
)
def test_the_distance_to_the_nearest_kink(
    f: Any, at: Any, primitive: str, distance: float, number: int, entry: tuple[int, ...]
) -> None:
    found = near(f, *at)
    assert found is not None
    assert found.primitive.name == primitive
    assert abs(found.distance / distance - 1) < 1e-6
    assert (found.number, found.at) == (number, entry)


@for_rows(("f", "at"), [pytest.param(*rest, id=name) for name, *rest in NONE])
def test_where_no_kink_is_near_none_is_found(f: Any, at: Any) -> None:
    assert near(f, *at) is None


@for_rows("distance", [1e-2, 1e-5, 3e-7, 1e-9])
def test_moving_by_the_distance_reaches_the_kink(distance: float) -> None:
    rng = np.random.default_rng(2)
    W, x = rng.normal(size=(4, 3)), rng.normal(size=3)
    b = -W @ x + np.array([0.9, -distance, 1.3, -0.8])
    found = near(lambda x: np.sum(relu(W @ x + b)) + np.sum(x), x)
    assert found is None or found.distance > 0
    found = near(lambda x: np.sum(np.abs(W @ x + b)), x)
    assert found is not None
    (k,) = found.at
    moved = x + np.eye(3)[k] * np.sign(W[1, k]) * found.distance
    assert abs((W @ moved + b)[1]) < 1e-6 * distance + 1e-15
