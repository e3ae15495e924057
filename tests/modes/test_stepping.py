"""What the user says of steps is obeyed: a fixed length, the edges of the domain, and the budget of evaluations."""

from typing import Any

import numpy as np
import pytest

import gradcli
from gradcli.checks.findings_at_point import compare_along_direction
from gradcli.errors import BadOption
from gradcli.modes.finite_difference import CALLS, FiniteDifference
from gradcli.modes.mode import Question
from gradcli.modes.recording import NotRun
from gradcli.request.point import DEFAULT_STEPPING, Estimate, Point, Stepping
from gradcli.targets.expression import Expression
from tests.rows import for_rows

INF = float("inf")
EDGES = Stepping(edges={"x": (0.0, 2.0), "y": (-INF, 1.0)})

# fmt: off
INSIDE = [
    # names        values                                    inside
    (("x",),       (np.float64(1.0),),                       True),
    (("x",),       (np.float64(0.0),),                       True),
    (("x",),       (np.float64(2.0),),                       True),
    (("x",),       (np.float64(np.nextafter(2.0, 3.0)),),    False),
    (("x",),       (np.float64(np.nextafter(0.0, -1.0)),),   False),
    (("x",),       (np.float64(np.nan),),                    False),
    (("x",),       (np.array([0.0, 1.0, 2.0]),),             True),
    (("x",),       (np.array([[0.0, 1.0], [2.5, 1.0]]),),    False),
    (("x",),       (np.array([]),),                          True),
    (("y",),       (np.float64(-1e300),),                    True),
    (("y",),       (np.float64(1.1),),                       False),
    (("z",),       (np.float64(1e300),),                     True),
    (("x", "y"),   (np.float64(1.0), np.array([0.0, 1.5])),  False),
    (("x", "y"),   (np.float64(1.0), np.array([0.0, 0.5])),  True),
    (("x",),       (object(),),                              True),
]
# fmt: on


@for_rows(("names", "xs", "inside"), INSIDE)
def test_values_are_inside_where_every_entry_is(names: tuple[str, ...], xs: tuple[Any, ...], inside: bool) -> None:
    assert EDGES.are_inside(names, xs) is inside


def test_an_input_that_is_not_named_has_no_edges() -> None:
    assert EDGES.edges_of("x") == (0.0, 2.0)
    assert EDGES.edges_of("z") == DEFAULT_STEPPING.edges_of("x") == (-INF, INF)


def test_by_default_nothing_is_said() -> None:
    assert (DEFAULT_STEPPING.h, DEFAULT_STEPPING.edges, DEFAULT_STEPPING.scales, DEFAULT_STEPPING.budget) == (
        None,
        {},
        {},
        None,
    )
    assert DEFAULT_STEPPING.are_inside(("x",), (np.array([-1e300, 1e300]),))


# fmt: off
MOVED = [
    # edges          inside already     outside                        where to
    ((0.0, INF),     [0.0, 0.5, 9.0],   [-0.5, -2.0],                  [0.5, 2.0]),
    ((-INF, -5.0),   [-5.0, -9.0],      [2.0, -3.0],                   [-7.0, -8.0]),
    ((2.0, 4.0),     [2.0, 3.3],        [0.0, -1.0, 9.0],              2 + 2 / (1 + np.exp([0.0, 1.0, -9.0]))),
    ((-INF, INF),    [-1e300, 1e300],   [],                            []),
]
# fmt: on


@for_rows(("edges", "inside", "outside", "moved"), MOVED)
def test_drawn_values_are_moved_inside(edges: tuple[float, float], inside: Any, outside: Any, moved: Any) -> None:
    stepping = Stepping(edges={"x": edges})
    found = stepping.moved_inside("x", np.array([*inside, *outside]))
    assert np.allclose(found, [*inside, *moved], rtol=1e-15)
    assert stepping.are_inside(("x",), (found,))
    assert isinstance(stepping.moved_inside("x", np.float64(3.0)), np.float64)


class Watched:
    """A sum of exponentials that keeps the places it was called at; those of a trace are not places."""

    def __init__(self) -> None:
        self.places: list[Any] = []

    def __call__(self, x: Any) -> Any:
        if type(x) is np.ndarray and x.dtype == float:
            self.places.append(x.copy())
        return np.sum(np.exp(x))


ON_EDGES = {"x": np.array([0.0, 1.0, 2.0])}
EVERY = "certified,reverse,forward,complex-step,fd"


@for_rows("modes", ["reverse,fd", EVERY])
@for_rows("more", [{}, {"h": 1e-3}, {"budget": 3}, {"mutate": True}], ids=str)
def test_the_function_is_never_called_beyond_its_edges(modes: str, more: dict[str, Any]) -> None:
    f = Watched()
    gradcli.check(f, ON_EDGES, bounds={"x": (0.0, 2.0)}, modes=modes, **more)
    places = np.stack(f.places)
    assert (places.min(), places.max()) == (0.0, 2.0)


def test_without_edges_it_is() -> None:
    f = Watched()
    gradcli.check(f, ON_EDGES, modes="reverse,fd")
    assert np.min(f.places) < 0.0 and np.max(f.places) > 2.0


def differences(text: str, at: dict[str, Any], stepping: Stepping) -> Estimate:
    at = {name: np.float64(x) if np.ndim(x) == 0 else np.array(x) for name, x in at.items()}
    return FiniteDifference().gradient(
        Question(Expression(text, frozenset(at)), Point(at), tuple(at), stepping=stepping)
    )


# fmt: off
SIDES = [
    # expression       x      edges           slope there     relative bound
    ("exp(x)",         0.0,   (0.0, INF),     1.0,            1e-8),
    ("exp(x)",         0.0,   (-INF, 0.0),    1.0,            1e-8),
    ("log(1 + x)",     0.0,   (0.0, 1e-3),    1.0,            1e-8),
    ("log(1 + x)",     0.0,   (-1e-3, 0.0),   1.0,            1e-8),
    ("x**2*sin(x)",    2.0,   (2.0, 3.0),     4*np.sin(2) + 4*np.cos(2), 1e-7),
    ("abs(x - 1) + x", 1.0,   (1.0, INF),     2.0,            1e-8),
    ("abs(x - 1) + x", 1.0,   (-INF, 1.0),    0.0,            1e-8),
    ("relu(x)",        0.0,   (0.0, 1.0),     1.0,            1e-8),
]
# fmt: on


@for_rows(("text", "x", "edges", "slope", "relative"), SIDES)
def test_at_an_edge_differences_are_one_sided(
    text: str, x: float, edges: tuple[float, float], slope: float, relative: float
) -> None:
    found = differences(text, {"x": x}, Stepping(edges={"x": edges}))
    assert abs(found.value["x"] - slope) <= found.bound["x"] <= relative * max(1.0, abs(slope))


def test_only_the_entry_at_the_edge_is_one_sided() -> None:
    free = differences("sum(exp(x))", ON_EDGES, DEFAULT_STEPPING)
    edged = differences("sum(exp(x))", ON_EDGES, Stepping(edges={"x": (0.0, 2.0)}))
    assert edged.bound["x"][0] > 10 * edged.bound["x"][1]
    assert free.bound["x"][0] < 10 * free.bound["x"][1]


@pytest.mark.parametrize("h", [1e-2, 1e-4, 1e-6])
def test_a_fixed_step_is_the_central_difference_at_that_step(h: float) -> None:
    found = differences("sin(x)*x", {"x": 0.7}, Stepping(h=h))
    right = np.sin(0.7) + 0.7 * np.cos(0.7)
    by_hand = (np.sin(0.7 + h) * (0.7 + h) - np.sin(0.7 - h) * (0.7 - h)) / (2 * h)
    assert found.value["x"] == pytest.approx(by_hand, rel=1e-15 / h)
    assert abs(found.value["x"] - right) <= found.bound["x"]


def test_the_bound_of_a_fixed_step_knows_truncation_and_rounding() -> None:
    bounds = [float(differences("sin(x)*x", {"x": 0.7}, Stepping(h=h)).bound["x"]) for h in (1e-1, 1e-5, 1e-12)]
    assert bounds[1] < 1e-3 * bounds[0] and bounds[1] < 1e-3 * bounds[2]


@pytest.mark.parametrize("h", [1e-300, 1e5])
def test_a_step_that_shows_nothing_has_a_bound_that_decides_nothing(h: float) -> None:
    found = differences("sin(x)*x", {"x": 0.7}, Stepping(h=h))
    assert found.bound["x"] > abs(found.value["x"])


@pytest.mark.parametrize("edges", [(0.0, INF), (-INF, 0.0)])
def test_a_fixed_step_at_an_edge_has_a_bound(edges: tuple[float, float]) -> None:
    found = differences("exp(x)", {"x": 0.0}, Stepping(h=1e-4, edges={"x": edges}))
    assert abs(found.value["x"] - 1) <= found.bound["x"] < 1e-2


@pytest.mark.parametrize(("budget", "run"), [(2 * CALLS, True), (2 * CALLS - 1, False), (1, False)])
def test_differences_run_where_the_budget_is_enough(budget: int, run: bool) -> None:
    if run:
        assert differences("x*y", {"x": 1, "y": 2}, Stepping(budget=budget)).cost.evaluations <= budget
        return
    with pytest.raises(NotRun) as error:
        differences("x*y", {"x": 1, "y": 2}, Stepping(budget=budget))
    assert "more than the budget" in error.value.what and error.value.do == f"--budget {2 * CALLS}"


def test_the_budget_is_kept_by_functions_that_are_not_tame() -> None:
    assert differences("sin(1e6*x)", {"x": 0.0}, Stepping(budget=CALLS)).cost.evaluations <= CALLS


def counted(text: str, at: dict[str, float], budget: int) -> tuple[Question, list[int]]:
    """Return a question under a budget, and a list that grows by each evaluation from now on."""
    point = Point({name: np.float64(x) for name, x in at.items()})
    q = Question(Expression(text, frozenset(at)), point, tuple(at), stepping=Stepping(budget=budget))
    q.prepare()
    g, calls = q.g, []
    q.__dict__["g"] = lambda *xs: (calls.append(1), g(*xs))[1]
    return q, calls


UNTAMED = ["sin(1e6*x)*y", "sin(1e6*y)*sin(1e6*x)", "sqrt(2 - x)**5 + y", "1e8 + x*y", "abs(x - 2)*y"]


@for_rows("budget", [2 * CALLS, 50, 60, 80, 200])
@for_rows("text", UNTAMED)
def test_what_one_entry_leaves_of_the_budget_is_for_the_others(text: str, budget: int) -> None:
    q, calls = counted(text, {"x": 2.0, "y": 1.0}, budget)
    assert len(calls) < FiniteDifference().gradient(q).cost.evaluations <= budget
    assert len(calls) <= budget


@for_rows("budget", [1, 5, 6, 10, 30, 60])
@for_rows("text", UNTAMED)
def test_the_difference_along_a_direction_keeps_the_budget(text: str, budget: int) -> None:
    q, calls = counted(text, {"x": 2.0, "y": 1.0}, budget)
    _ = q.trace_test, q.kinks  # which have been looked at before, whatever the budget of differences
    calls.clear()
    one = {"x": np.float64(1.0), "y": np.float64(1.0)}
    compare_along_direction(q, Estimate(one, {"x": np.float64(0.0), "y": np.float64(0.0)}))
    assert len(calls) <= budget


@pytest.mark.parametrize("size", [1e3, 1e-6])
def test_the_typical_size_of_an_input_sets_the_widest_step(size: float) -> None:
    f = Watched()
    gradcli.check(f, {"x": np.zeros(2)}, scale={"x": size}, modes="reverse,fd")
    assert 1e-3 * size < np.max(f.places) <= size


def test_a_size_is_for_its_own_input() -> None:
    found, other, wide = (
        differences("sin(x/1e6) + sin(y)", {"x": 0, "y": 0.5}, Stepping(scales=scales)).bound
        for scales in ({}, {"y": 1.0}, {"x": 1e3})
    )
    assert found == other and wide["x"] < 0.1 * found["x"] and wide["y"] == found["y"]


def test_at_an_edge_rounding_may_limit_the_differences() -> None:
    found = differences("exp(x) + 600", {"x": 2.0}, Stepping(edges={"x": (0.0, 2.0)}))
    assert abs(found.value["x"] - np.exp(2)) <= found.bound["x"]


# fmt: off
REFUSED = [
    ({"bounds": {"z": (0, 1)}},   "z"),
    ({"bounds": {"x": (5, 6)}},   "outside its bounds, 5 to 6"),
    ({"scale": {"z": 1.0}},       "z"),
    ({"h": -1.0},             ""),
    ({"h": 0.0},              ""),
    ({"scale": {"x": -1.0}},  ""),
    ({"budget": 0},           ""),
]
# fmt: on


@for_rows(("options", "says"), REFUSED)
def test_python_refuses_what_the_command_line_refuses(options: dict[str, Any], says: str) -> None:
    with pytest.raises(BadOption) as error:
        gradcli.check("x**2", {"x": 3.0}, modes="reverse,fd", **options)
    assert says in error.value.what
