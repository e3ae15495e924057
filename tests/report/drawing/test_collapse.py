"""Long computations are drawn by source line, by turn of a loop, by loop, and at last by count; order and edges stay."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradcli
from gradcli.report.drawing.graph import Group, collapsed, edges_between, titled
from gradcli.report.trace import Node


def made(lines: list[int | None], operations: list[str] | None = None) -> list[Node]:
    """Return a chain of nodes on these lines, the first an input."""
    names = [f"v{k}" for k in range(len(lines))]
    return [
        Node(
            k,
            names[k],
            (operations or ["input", *["sin"] * len(lines)])[k],
            (),
            1.0,
            1.0,
            {names[k - 1]: 1.0} if k else {},
            (),
            line,
            file="f.py",
        )  # fmt: skip
        for k, line in enumerate(lines)
    ]


def sizes(nodes: list[Node], most: int) -> list[int]:
    return [group.count for group in collapsed(nodes, most)]


def test_few_nodes_stay_alone() -> None:
    assert sizes(made([1, 2, 2, 3]), 4) == [1, 1, 1, 1]


def test_neighbours_on_a_line_are_joined_first() -> None:
    assert sizes(made([1, 2, 2, 2, 3, 2], ["input", "sin", "cos", "exp", "sin", "sin"]), 5) == [1, 3, 1, 1]


def test_the_turns_of_a_loop_on_one_line_are_kept_apart() -> None:
    nodes = made([1, *[2] * 90], ["input", *["multiply", "sin", "add"] * 30])
    assert sizes(nodes, 40) == [1, *[3] * 30]
    assert sizes(nodes, 12) == [1, *[15] * 6]
    assert titled(nodes, collapsed(nodes, 12)[1]) == "line 2 x 5: 15 steps"


def test_then_the_turns_of_a_loop() -> None:
    nodes = made([1, *[4, 5, 6] * 3, 8])
    assert sizes(nodes, 6) == [1, 3, 3, 4]
    assert titled(nodes, collapsed(nodes, 6)[1]) == "lines 4-6: 3 steps"


def test_then_turns_together_so_many_that_they_fit() -> None:
    nodes = made([1, *[4, 5] * 100])
    found = collapsed(nodes, 25)
    assert [group.count for group in found] == [1, *[10] * 20]
    assert titled(nodes, found[1]) == "lines 4-5 x 5: 10 steps"


def test_lines_without_a_place_are_joined_by_count() -> None:
    assert sizes(made([None] * 100), 10) == [10] * 10


@given(st.lists(st.integers(1, 6), min_size=1, max_size=120), st.integers(4, 30))
def test_groups_keep_the_order_and_are_few_enough(lines: list[int], most: int) -> None:
    nodes = made([*lines])
    found = collapsed(nodes, most)
    assert len(found) <= most
    assert (found[0].first, found[-1].last) == (0, len(nodes) - 1)
    assert all(before.last + 1 == after.first for before, after in pairwise(found))
    assert all(a < b for a, b, _, _ in edges_between(nodes, found))


def test_edges_between_groups_are_one_each() -> None:
    nodes = made([1, 2, 2, 3])
    assert edges_between(nodes, [Group(0, 0), Group(1, 2), Group(3, 3)]) == [(0, 1, 0, 1), (1, 2, 2, 3)]


def test_many_inputs_are_joined() -> None:
    nodes = made([None] * 30, ["input"] * 30)
    assert titled(nodes, Group(0, 29)) == "30 inputs"
    assert len(collapsed(nodes, 10)) == 1


def recurrent(w: Any, x: Any) -> Any:
    h = np.zeros(4)
    for _ in range(200):
        z = w @ h + x
        h = np.tanh(z)
    return np.sum(h)


def branching(w: Any, x: Any) -> Any:
    total = 0.0
    for k in range(300):
        if k % 3:
            total = total + np.sin(w[0, 0] * k)
        else:
            total = total * x[k % 4]
            total = total - 1
    return total


def calling(w: Any, x: Any) -> Any:
    def layer(h: Any) -> Any:
        z = w @ h
        return np.tanh(z + x)

    h = x
    for _ in range(150):
        h = layer(h)
        h = h + 0.1 * layer(h)
    return np.sum(h**2)


@pytest.mark.parametrize("f", [recurrent, branching, calling])
def test_loops_as_people_write_them_are_few_nodes(f: Callable[..., Any]) -> None:
    trace = gradcli.trace(f, {"w": np.eye(4) * 0.3, "x": np.ones(4) * 0.1})
    assert len(trace.nodes) > 400
    found = collapsed(trace.nodes)
    assert 40 <= len(found) <= 400
