"""Operations counted on recorded programs, against counts worked out by hand; memory measured at its peak."""

from typing import Any

import numpy as np
import pytest

from gradcli.modes.mode import Question
from gradcli.request.point import Point
from gradcli.study.outline import (
    measure_bytes,
    operations_of_forward,
    operations_of_function,
    operations_of_reverse,
    peak_bytes,
    recomputed_operations,
)
from gradcli.targets.arguments import bind_arguments
from gradcli.targets.derived import checkpoint, record_checkpoints
from gradcli.targets.expression import Expression
from gradcli.tracing.primitive import Operations
from tests.rows import for_rows

V, W, A = np.array([1.0, 2.0, 3.0]), np.array([0.5, -1.0, 2.0]), np.arange(1.0, 7.0).reshape(2, 3)
XY = {"x": np.float64(0.7), "y": np.float64(1.3)}
X = {"x": np.float64(0.7)}


def question(text: str, at: dict[str, Any], wrt: tuple[str, ...] = ()) -> Question:
    return Question(Expression(text, frozenset(at)), Point(at), wrt or tuple(at))


def kinds(found: Operations) -> tuple[int, int, int]:
    return found.additions, found.multiplications, found.transcendental


# fmt: off
COUNTED = [  # additions, multiplications and divisions, transcendental functions of
    #                                    f          f and its gradient   f and one slope
    ("x + y",         XY,                (1, 0, 0), (1, 0, 0),           (2, 0, 0)),    # the cotangent is handed on
    ("x - y",         XY,                (1, 0, 0), (1, 1, 0),           (2, 1, 0)),    # and once times -1
    ("x * y",         XY,                (0, 1, 0), (0, 3, 0),           (1, 3, 0)),
    ("x / y",         XY,                (0, 1, 0), (1, 5, 0),           (2, 5, 0)),    # 1/y and -(x/y)/y, each times ybar
    ("1 / x",         X,                 (0, 1, 0), (1, 3, 0),           (1, 3, 0)),
    ("3*x + 1",       X,                 (1, 1, 0), (1, 2, 0),           (1, 2, 0)),
    ("x**2",          X,                 (0, 1, 0), (0, 3, 0),           (0, 3, 0)),    # x x, 2 x, times ybar
    ("x**3",          X,                 (0, 2, 0), (0, 5, 0),           (0, 5, 0)),    # x x x, 3 x x, times ybar
    ("sin(x)",        X,                 (0, 0, 1), (0, 1, 2),           (0, 1, 2)),    # sine and cosine
    ("exp(x)",        X,                 (0, 0, 1), (0, 1, 1),           (0, 1, 1)),    # its own derivative
    ("log(x)",        X,                 (0, 0, 1), (0, 2, 1),           (0, 2, 1)),    # 1/x, times ybar
    ("sqrt(x)",       X,                 (0, 0, 1), (0, 2, 1),           (0, 2, 1)),    # 0.5/y, times ybar
    ("tanh(x)",       X,                 (0, 0, 1), (1, 2, 1),           (1, 2, 1)),    # 1 - y y, times ybar
    ("sin(x) + x*x",  X,                 (1, 1, 1), (3, 4, 2),           (3, 4, 2)),    # three paths meet in x
    ("sum(x)",        {"x": V},          (2, 0, 0), (2, 0, 0),           (4, 0, 0)),
    ("sum(x*y)",      {"x": V, "y": W},  (2, 3, 0), (2, 9, 0),           (7, 9, 0)),
    ("x @ y",         {"x": V, "y": W},  (2, 3, 0), (2, 9, 0),           (7, 9, 0)),    # the same sum
    ("einsum('i,i->', x, y)", {"x": V, "y": W}, (2, 3, 0), (2, 9, 0),    (7, 9, 0)),
    ("mean(x**2)",    {"x": V},          (2, 4, 0), (2, 11, 0),          (4, 11, 0)),
    ("sum(A @ x)",    {"A": A, "x": V},  (5, 6, 0), (8, 18, 0),          (16, 18, 0)),  # 2 rows of 3 products
    ("x[0] * x[1]",   {"x": V},          (0, 1, 0), (5, 3, 0),           (1, 3, 0)),    # two put into zeros, then added
    ("x.T + x[::-1]", {"x": V},          (3, 0, 0), (21, 0, 0),          (6, 0, 0)),    # 3 rows, each: 3 put, 3 added
    ("[x*y, x]",      XY,                (0, 1, 0), (2, 5, 0),           (3, 3, 0)),    # f once, each row x, y and their sum
    ("x",             X,                 (0, 0, 0), (0, 0, 0),           (0, 0, 0)),
]
# fmt: on


@for_rows(("text", "at", "f", "reverse", "forward"), COUNTED, ids=[row[0] for row in COUNTED])
def test_operations_are_those_counted_by_hand(text: str, at: dict, f: tuple, reverse: tuple, forward: tuple) -> None:
    q = question(text, at)
    assert (kinds(operations_of_function(q)), kinds(operations_of_reverse(q)), kinds(operations_of_forward(q))) == (
        f,
        reverse,
        forward,
    )


@for_rows("levels", [1, 2, 3, 10, 60])
def test_a_level_of_the_logistic_map_takes_eight_operations_at_most(levels: int) -> None:
    """r x (1 - x): 3 operations; backwards 5 more: r - r x and its product with the cotangent, by two factors."""
    text = "x = r*x*(1 - x); " * levels + "x"
    q = question(text, {"x": np.float64(0.3), "r": np.float64(3.7)}, ("x",))
    assert operations_of_function(q).total == 3 * levels
    assert operations_of_reverse(q).total <= 8 * levels
    assert kinds(operations_of_reverse(q)) == (2 * levels, 6 * levels, 0)


@for_rows("n", [2, 3, 4, 10])
def test_a_product_takes_three_multiplications_for_each(n: int) -> None:
    q = question("*".join(f"x{k}" for k in range(n)), {f"x{k}": np.float64(k + 1) for k in range(n)})
    assert kinds(operations_of_function(q)) == (0, n - 1, 0)
    assert kinds(operations_of_reverse(q)) == (0, 3 * (n - 1), 0)
    assert kinds(operations_of_forward(q)) == (n - 1, 3 * (n - 1), 0)


@for_rows("n", [2, 10, 50])
@for_rows("wrt", [("x",), ("x", "W")])
def test_a_gradient_takes_two_to_four_times_the_operations_of_f(n: int, wrt: tuple[str, ...]) -> None:
    q = question("sum(tanh(W@x)**2)", {"W": np.eye(n), "x": np.ones(n)}, wrt)
    assert 2 <= operations_of_reverse(q).total / operations_of_function(q).total <= 4


def test_nothing_to_differentiate_costs_f() -> None:
    assert (
        operations_of_reverse(question("2**3 + exp(2)", {}))
        == operations_of_forward(question("2**3 + exp(2)", {}))
        == Operations()
    )


def test_operations_add_up() -> None:
    one = Operations(1, 2, 3)
    assert (one.total, one + one, one.times(3), one - one) == (6, one.times(2), Operations(3, 6, 9), Operations())


def test_memory_is_what_is_held_at_the_peak() -> None:
    assert peak_bytes(lambda: np.zeros(10**5).sum()) == pytest.approx(8e5, rel=0.01)
    assert peak_bytes(lambda: [np.zeros(10**5).sum() for _ in range(5)]) == pytest.approx(8e5, rel=0.01)
    assert peak_bytes(lambda: [np.zeros(10**5) for _ in range(5)]) == pytest.approx(4e6, rel=0.01)


def chain(x: Any, depth: int = 20) -> Any:
    for _ in range(depth):
        x = np.tanh(x)
    return np.sum(x)


N = 10**5
# fmt: off
HELD = [  # arrays at once: a value and the next one; beside them their tangents and partials; twice as wide; all of them
    ("finite-difference", 1,  4),
    ("forward",           3,  8),
    ("complex-step",      3,  8),
    ("reverse",          20, 24),
]
# fmt: on


@for_rows(("mode", "least", "most"), HELD)
def test_a_reverse_sweep_stores_what_others_let_go(mode: str, least: int, most: int) -> None:
    q = Question(bind_arguments(chain, "chain", {"x": np.ones(N)})[0], Point({"x": np.linspace(-1, 1, N)}), ("x",))
    assert least <= (measure_bytes(q, mode) or 0) / (8 * N) <= most


@pytest.mark.parametrize("mode", ["certified", "symbolic"])
def test_memory_that_is_not_seen_is_not_told(mode: str) -> None:
    assert measure_bytes(question("sum(tanh(x))", {"x": V}), mode) is None


def test_much_work_is_not_run_again_to_measure_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    q = question("sum(tanh(x))", {"x": V})
    assert measure_bytes(q, "reverse") is not None
    monkeypatch.setattr("gradcli.study.outline._AGAIN", 10)
    assert measure_bytes(q, "reverse") is None


def layer(x: Any) -> Any:
    return np.tanh(np.tanh(x))


def inner(x: Any) -> Any:
    return checkpoint(layer)(np.sin(x))


# fmt: off
CHECKPOINTED = [  # f; of f, of a gradient that stores, recomputed, on 3 entries
    (lambda x: np.sum(checkpoint(layer)(x)),                  8,  6),   # tanh of tanh; sum: 6 and 2
    (lambda x: np.sum(checkpoint(layer)(checkpoint(layer)(x))), 14, 12),
    (lambda x: np.sum(np.sin(checkpoint(layer)(x))),          11, 6),   # a part
    (lambda x: np.sum(checkpoint(inner)(x)),                  11, 15),  # sin once more, and what is inside twice
    (lambda x: np.sum(layer(x)),                              8,  0),
]
# fmt: on


@for_rows(("f", "operations", "again"), CHECKPOINTED)
def test_recomputation_is_counted(f: Any, operations: int, again: int) -> None:
    q = Question(bind_arguments(f, "f", {"x": V})[0], Point({"x": V}), ("x",))
    plain = Question(bind_arguments(without_checkpoints(f), "f", {"x": V})[0], Point({"x": V}), ("x",))
    assert operations_of_function(q).total == operations
    assert recomputed_operations(q).total == again
    assert operations_of_reverse(q).total == operations_of_reverse(plain).total + again


def without_checkpoints(f: Any) -> Any:
    def stored(x: Any) -> Any:
        with record_checkpoints():
            return f(x)

    return stored
