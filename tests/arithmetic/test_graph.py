"""Graphs: what was computed, as nodes, beside the values that show shapes."""

from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic import value_graph
from gradcli.arithmetic.value_graph import GraphNode, NotStraight
from tests.rows import for_rows


def names(x: Any) -> Any:
    """Return a graph as nested tuples of operations."""
    if not isinstance(x, GraphNode):
        return x if np.ndim(x) == 0 else "array"
    return (x.op, *map(names, x.args)) if x.args else x.op


def test_a_program_becomes_nodes() -> None:
    x, y = GraphNode.variable("x", np.float64(2)), GraphNode.variable("y", np.float64(3))
    made = np.exp(x * y) + np.sin(x)
    assert names(made) == ("add", ("exp", ("multiply", "input x", "input y")), ("sin", "input x"))
    assert made.value == np.exp(6.0) + np.sin(2.0)


@for_rows(("f", "right"), [
    (lambda A, x: A @ x, ("matmul",)), (lambda A, x: np.linalg.inv(A), ("inv",)), (lambda A, x: np.linalg.det(A), ("det",)),
    (lambda A, x: np.sum(A, axis=0), ("sum",)), (lambda A, x: A.T, ("transpose",)), (lambda A, x: np.linalg.solve(A, x), ("solve",)),
])  # fmt: skip
def test_arrays_have_values_and_shapes(f: Any, right: tuple) -> None:
    A, x = np.array([[2.0, 1.0], [0.0, 3.0]]), np.array([1.0, 2.0])
    made = f(GraphNode.variable("A", A), GraphNode.variable("x", x))
    np.testing.assert_allclose(made.value, f(A, x))
    assert made.shape == np.shape(f(A, x))
    assert right[0] in str(names(made))


def test_values_decide_nothing() -> None:
    x = GraphNode.variable("x", np.float64(-2))
    with pytest.raises(NotStraight, match="whether a comparison of its inputs holds"):
        bool(x < 0)


def test_a_write_changes_no_operand() -> None:
    x = GraphNode.variable("x", np.array([1.0, 2.0]))
    y = np.sin(x)
    z = 2 * y
    y += x
    assert names(z) == ("multiply", 2.0, ("sin", "input x"))
    assert names(y) == ("add", ("sin", "input x"), "input x")


def test_nodes_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(value_graph, "MOST_NODES", 3)
    x = GraphNode.variable("x", np.float64(0.5))
    y = np.exp(np.sin(x * x))
    with pytest.raises(NotStraight, match="more than 3 operations"):
        np.cos(y)


def test_parameters_are_kept() -> None:
    made = np.sum(GraphNode.variable("X", np.ones((2, 3))), axis=1)
    assert made.params["axis"] == (1,) and made.shape == (2,)


def test_a_singular_matrix_has_no_part_in_either() -> None:
    made = np.linalg.inv(GraphNode.variable("A", np.ones((2, 2))))
    assert made.shape == (2, 2) and np.all(np.isnan(made.value))


def test_numbers_are_lifted_once() -> None:
    one = GraphNode.lift(1)
    assert (one.op, one.value, GraphNode.lift(one)) == ("constant", 1.0, one)
