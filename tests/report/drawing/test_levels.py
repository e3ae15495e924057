"""A long computation is drawn as few boxes: loops, turns, functions and neighbours, each of which can be opened."""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradcli
from gradcli.report.common import Target
from gradcli.report.drawing.graph import MOST, Level, draw_graph, levels_of
from gradcli.report.trace import CodeBlock, Node, TraceReport


def made(lines: list[int | None], blocks: tuple[CodeBlock, ...] = ()) -> TraceReport:
    """Return a chain of nodes on these lines, the first an input."""
    nodes = tuple(
        Node(
            k,
            f"v{k}",
            "sin" if k else "input",
            (f"v{k - 1}",) * bool(k),
            1.0,
            1.0,
            {f"v{k - 1}": 1.0} if k else {},
            (),
            line,
            f"v{k % 7}",
            file="f.py",
            column=1,
        )
        for k, line in enumerate(lines)
    )
    target = Target("python", "f.py:f")
    return TraceReport(target, {}, (), 0, nodes, (), {}, result=f"v{len(lines) - 1}", blocks_of_code=blocks)


def titles(level: Level) -> list[str]:
    return [group.title for group in level.groups]


def test_few_nodes_stay_alone() -> None:
    (level,) = levels_of(made([1, 2, 2, 3]))
    assert titles(level) == [""] * 4


def test_nodes_without_a_place_are_joined_by_count() -> None:
    whole = levels_of(made([None] * 600))[0]
    assert titles(whole) == ["10 steps"] * 60


@given(st.lists(st.integers(1, 6), min_size=1, max_size=300), st.booleans())
def test_each_level_has_all_nodes_of_its_box_in_order_and_few_boxes(lines: list[int], loop: bool) -> None:
    trace = made([*lines], (CodeBlock("f.py", 1, 7, "f", True),) + (CodeBlock("f.py", 2, 4, "for k", False),) * loop)
    found = levels_of(trace)
    assert (found[0].groups[0].first, found[0].groups[-1].last) == (0, len(lines) - 1)
    for number, level in enumerate(found):
        assert len(level.groups) <= MOST
        assert all(before.last + 1 == after.first for before, after in pairwise(level.groups))
        for k, group in enumerate(level.groups):
            assert bool(group.title) == (group.count > 1)
            if group.level is not None:
                inside = found[group.level]
                assert inside.above == (number, k) and inside.title == group.title
                assert (inside.groups[0].first, inside.groups[-1].last) == (group.first, group.last)
                assert len(inside.groups) > 1
    assert sum(len(level.groups) for level in found) <= 100


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


def softmax(z: Any) -> Any:
    e = np.exp(z - np.max(z))
    return e / np.sum(e)


def calling(w: Any, x: Any) -> Any:
    h = x
    for _ in range(150):
        a = 0.1 * h
        h = softmax(a) + x
    return np.sum(softmax(softmax(h)) * h)


def nested(w: Any, x: Any) -> Any:
    s = 0.0
    for i in range(20):
        for j in range(20):
            s = s * 0.9 + w[0, 0] * np.sin(x[1] * i * j)
    return s


def alternating(w: Any, x: Any) -> Any:
    for k in range(90):
        x = np.sin(x) if k % 2 else np.cos(x)
    return np.sum(x)


def with_generator(w: Any, x: Any) -> Any:
    s = 0.0
    for _ in range(10):
        s = s + sum(w[0, i] * x[i] for i in range(4))
    return s


def until_small(w: Any, x: Any) -> Any:
    while np.sum(x * x) > 1e-30:
        x = x / 2
    return np.sum(x)


def shifted(z: Any) -> Any:
    return 2 * z + 0.1


def layered(w: Any, x: Any) -> Any:
    for _ in range(12):
        x = softmax(shifted(x))
    return np.sum(x)


def calling_inside(w: Any, x: Any) -> Any:
    def outer(h: Any) -> Any:
        a = 2 * h
        b = softmax(a)
        return a + b

    for _ in range(20):
        x = outer(x)
    return np.sum(x)


def one_line(w: Any, x: Any) -> Any:
    h = x
    for k in range(120):
        h = 0.9 * h + np.sin(w[0, k % 4] * h)
    while np.sum(h * h) > 1e-3:
        h = h / 2
    return np.sum(h)


# fmt: off
@pytest.mark.parametrize(("f", "whole"), [
    (recurrent, ["w", "x", "for _: ×200", "result"]),
    (branching, ["w", "x", "for k"]),
    (calling, ["w", "x", "for _: ×150", "softmax ×2", "t609", "result"]),
    (nested, ["w", "x", "for i, for j: ×400"]),
    (alternating, ["w", "x", "for k", "result"]),  # no count where the lines do not say where a turn ends
    (with_generator, ["w", "x", "for _"]),
    (until_small, ["w", "x", "while", "result"]),  # its condition is computed once more
    (layered, ["w", "x", *["shifted", "softmax"] * 12, "result"]),
    (calling_inside, ["w", "x", "calling_inside.outer ×20", "result"]),
], ids=lambda f: getattr(f, "__name__", ""))
# fmt: on
def test_loops_as_people_write_them_are_one_box(f: Callable[..., Any], whole: list[str]) -> None:
    trace = gradcli.trace(f, {"w": np.eye(4) * 0.3, "x": np.ones(4) * 0.1})
    found = levels_of(trace)[0]
    assert [group.title or trace.nodes[group.first].name for group in found.groups] == whole


def test_the_turns_of_a_loop_have_their_numbers_and_its_operations() -> None:
    trace = gradcli.trace(one_line, {"w": np.eye(4) * 0.3, "x": np.ones(4) * 0.1})
    whole, *inner = levels_of(trace)
    assert next(group.title for group in whole.groups if group.title) == "for k: ×120"
    loop = next(level for level in inner if level.title == "for k: ×120")
    assert titles(loop) == [f"turns {k}-{k + 1}" for k in range(1, 120, 2)]
    (first, last) = (level for level in inner if level.title in ("turns 1-2", "turns 119-120"))
    names = [trace.nodes[group.first].name for group in (*first.groups, *last.groups)]
    assert [name for name in names if name.startswith("h")] == ["h₁", "h₂", "h₁₁₉", "h₁₂₀"]


def test_what_a_box_reads_from_elsewhere_is_drawn_inside_of_it() -> None:
    trace = gradcli.trace(recurrent, {"w": np.eye(4) * 0.3, "x": np.ones(4) * 0.1})
    levels = levels_of(trace)
    number = next(k for k, level in enumerate(levels) if level.title == "turns 6-10")
    drawing = draw_graph(trace, levels[number], number=number)
    assert drawing.svg.count('<g class="given"') == 3  # w, x, and the h of turn 5
    assert f'id="l{number}-n0"' in drawing.svg and ">h₅</text>" in drawing.svg


def test_many_inputs_are_joined() -> None:
    def f(**x: Any) -> Any:
        return np.sum(np.stack([*x.values()]))

    trace = gradcli.trace(f, {f"x{k}": 1.0 for k in range(70)})
    assert titles(levels_of(trace)[0])[0] == "70 inputs"


def test_the_box_in_which_a_claim_goes_wrong_is_opened_first() -> None:
    trace = gradcli.trace(one_line, {"w": np.eye(4) * 0.3, "x": np.ones(4) * 0.1})
    node = next(node for node in trace.nodes if node.name == "h₆₁")
    found = levels_of(replace(trace, departs=node.name))
    assert "turns 61-62" in [level.title for level in found]
    assert "turns 61-62" not in [level.title for level in levels_of(trace)][:3]
