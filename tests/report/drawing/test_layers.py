"""Layouts of graphs: drawn examples whose least number of crossings is known, and what holds for all graphs."""

from collections.abc import Sequence
from itertools import combinations, pairwise

from hypothesis import given
from hypothesis import strategies as st

from gradcli.report.drawing.graph import (
    Layout,
    assign_layers,
    crossings_between,
    insert_dummies,
    lay_out_boxes,
    order_layers,
)
from tests.rows import for_rows

BETWEEN, APART = 40.0, 12.0
Spot = tuple[float, float]
Edges = Sequence[tuple[int, int]]
Graph = tuple[list[Spot], list[tuple[int, int]]]  # the sizes of the boxes, and the edges


def drawn(boxes: int, edges: Edges, size: Spot = (40.0, 20.0)) -> Layout:
    return lay_out_boxes([size] * boxes, edges, between=BETWEEN, apart=APART)


def operations(*sources: Sequence[int]) -> tuple[int, list[tuple[int, int]]]:
    """Return the number of boxes and the edges of a program, from the boxes that each box uses."""
    return len(sources), [(source, box) for box, used in enumerate(sources) for source in used]


def recurrence(steps: int) -> tuple[int, list[tuple[int, int]]]:
    """Return h = tanh(w h + u x), with a new x in each step: w, u, h, and then x, w h, u x, their sum and h."""
    lines: list[Sequence[int]] = [(), (), ()]
    for _ in range(steps):
        h, x = len(lines) - 1, len(lines)
        lines += [(), (0, h), (1, x), (x + 1, x + 2), (x + 3,)]
    return operations(*lines)


def grid(side: int) -> tuple[int, list[tuple[int, int]]]:
    cells = range(side * side)
    across = [(k, k + 1) for k in cells if (k + 1) % side]
    return side * side, across + [(k, k + side) for k in cells if k + side < side * side]


EXAMPLES = {
    # a path has no two segments in one gap
    "a chain": (*operations((), (0,), (1,), (2,), (3,)), 0),
    # a tree is planar layer by layer: the leaves of each subtree lie side by side
    "a binary tree": (*operations((), (), (), (), (), (), (), (), (0, 4), (1, 5), (2, 6), (3, 7), (8, 10), (9, 11), (12, 13)), 0),
    # two ways from one box to another enclose an area
    "a diamond": (*operations((), (0,), (0,), (1, 2)), 0),
    # K_{m,n} on two layers has C(m,2) C(n,2) crossings in any order
    "two inputs, two operations on both": (*operations((), (), (0, 1), (0, 1)), 1),
    "two inputs, three operations on both": (*operations((), (), (0, 1), (0, 1), (0, 1)), 3),
    "three inputs, three operations on all": (*operations((), (), (), (0, 1, 2), (0, 1, 2), (0, 1, 2)), 9),
    # the layers of a grid are its diagonals, in which each cell lies between its two users
    "a grid": (*grid(4), 0),
    # x0, x1 | w00 x0, w01 x1, w10 x0, w11 x1 | sums | tanh | v h | sum: x0 and x1 both reach both sums, which is K_{2,2}
    "two hidden units": (
        *operations(
            (), (), (), (), (), (), (2, 0), (3, 1), (4, 0), (5, 1), (6, 7), (8, 9), (10,), (11,), (), (), (14, 12), (15, 13), (16, 17)
        ),
        1,
    ),
    # w runs above all steps and u below them, and x comes in between them
    "an unrolled recurrence": (*recurrence(5), 0),
    # 0 -> 3 -> 4 and 1 -> 2 -> 5 cross in each gap when the boxes of a layer are in the order of their numbers
    "two chains": (*operations((), (), (1,), (0,), (3,), (2,)), 0),
}  # fmt: skip


@for_rows("name", EXAMPLES)
def test_the_least_number_of_crossings_is_reached(name: str) -> None:
    boxes, edges, least = EXAMPLES[name]
    assert drawn(boxes, edges).crossings == least


def test_the_layout_of_no_boxes() -> None:
    assert drawn(0, []) == Layout((), (), 0.0, 0.0, 0)


def test_a_chain_is_one_straight_line_however_long() -> None:
    layout = drawn(400, list(pairwise(range(400))))
    assert {y for _, y in layout.centers} == {10.0}
    assert all(len(route) == 2 for route in layout.routes)
    assert (layout.width, layout.height) == (400 * 40 + 399 * BETWEEN, 20.0)


def test_an_input_that_every_operation_uses_runs_along_them_as_one_line() -> None:
    edges = [(0, k) for k in range(2, 400)] + [(k, k + 1) for k in range(1, 399)]
    layout = drawn(400, edges)
    assert layout.crossings == 0
    assert {y for route in layout.routes[:398] for _, y in route[:-1]} == {layout.centers[0][1]}
    assert len({y for _, y in layout.centers[1:399]}) == 1


def test_a_constant_lies_next_to_its_user() -> None:
    boxes, edges = operations((), (0,), (1,), (), (2, 3))  # 3 is the constant
    (x2, _), (x3, _) = drawn(boxes, edges).centers[2:4]
    assert x2 == x3


def test_a_result_lies_next_to_what_it_is_made_of() -> None:
    assert assign_layers(*operations((), (), (0, 1), (2,), (0, 1), (3, 4))) == [0, 0, 1, 2, 1, 3]  # 4 could lie later


def test_a_parent_lies_in_the_middle_of_its_children() -> None:
    boxes, edges, _ = EXAMPLES["a binary tree"]
    ys = [y for _, y in drawn(boxes, edges).centers]
    for parent in range(8, 15):
        first, second = (source for source, user in edges if user == parent)
        assert ys[parent] == (ys[first] + ys[second]) / 2


def test_the_first_input_lies_above_the_others() -> None:
    boxes, edges, _ = EXAMPLES["an unrolled recurrence"]
    (_, w), (_, u), (_, h) = drawn(boxes, edges).centers[:3]
    assert w < h < u


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    boxes = draw(st.integers(1, 14))
    size = st.tuples(st.integers(2, 160).map(lambda k: k / 2), st.integers(2, 90).map(lambda k: k / 2))
    sizes = draw(st.lists(size, min_size=boxes, max_size=boxes))
    numbers = st.integers(0, boxes - 1)
    pairs = draw(st.lists(st.tuples(numbers, numbers), max_size=2 * boxes))
    return sizes, [(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]]


def laid(graph: Graph) -> Layout:
    return lay_out_boxes(*graph, between=BETWEEN, apart=APART)


def height_at(route: Sequence[Spot], x: float) -> float:
    """Return the height of a route at a place between its ends."""
    (x0, y0), (x1, y1) = next(part for part in pairwise(route) if part[0][0] <= x <= part[1][0])
    return y0 + (y1 - y0) * (x - x0) / (x1 - x0)


@given(graphs())
def test_boxes_of_a_layer_are_apart_and_inside_the_picture(graph: Graph) -> None:
    layout = laid(graph)
    boxes = list(zip(layout.centers, graph[0], strict=True))
    for ((x, y), (w, h)), ((p, q), (v, g)) in combinations(boxes, 2):
        assert abs(x - p) >= (w + v) / 2 + BETWEEN or abs(y - q) >= (h + g) / 2 + APART
    for (x, y), (w, h) in boxes:
        assert w / 2 <= x <= layout.width - w / 2
        assert h / 2 <= y <= layout.height - h / 2
        assert (2 * x, 2 * y) == (round(2 * x), round(2 * y))


@given(graphs())
def test_a_route_runs_rightwards_from_its_box_to_its_box(graph: Graph) -> None:
    sizes, edges = graph
    layout = laid(graph)
    for (first, second), route in zip(edges, layout.routes, strict=True):
        for box, side, (x, y) in ((first, 1, route[0]), (second, -1, route[-1])):
            assert x == layout.centers[box][0] + side * sizes[box][0] / 2
            assert abs(y - layout.centers[box][1]) <= sizes[box][1] / 2
        assert all(a < b for (a, _), (b, _) in pairwise(route))
        assert all(
            not y == other == third for (_, y), (_, other), (_, third) in zip(route, route[1:], route[2:], strict=False)
        )
        assert all(0 <= y <= layout.height for _, y in route)


@given(graphs())
def test_no_route_runs_through_a_foreign_box(graph: Graph) -> None:
    sizes, edges = graph
    layout = laid(graph)
    for edge, route in zip(edges, layout.routes, strict=True):
        for box, ((x, y), (w, h)) in enumerate(zip(layout.centers, sizes, strict=True)):
            if box in edge:
                continue
            for (x0, y0), (x1, y1) in pairwise(route):
                begin, end = max(x0, x - w / 2), min(x1, x + w / 2)
                if begin <= end:
                    ends = [height_at(((x0, y0), (x1, y1)), at) for at in (begin, end)]
                    assert max(ends) < y - h / 2 or min(ends) > y + h / 2


@given(graphs())
def test_the_crossings_are_those_of_the_lines_that_are_drawn(graph: Graph) -> None:
    """Counted in each gap between layers, where lines that run together count once."""
    sizes, edges = graph[0], sorted(set(graph[1]))
    layout = lay_out_boxes(sizes, edges, between=BETWEEN, apart=APART)
    rank = assign_layers(len(sizes), edges)
    boxes = list(zip(rank, layout.centers, sizes, strict=True))
    crossings = 0
    for layer in range(max(rank)):
        begin = max(x + width / 2 for r, (x, _), (width, _) in boxes if r == layer)
        end = min(x - width / 2 for r, (x, _), (width, _) in boxes if r == layer + 1)
        passing = [r for (a, b), r in zip(edges, layout.routes, strict=True) if rank[a] <= layer < rank[b]]
        segments = {(height_at(route, begin), height_at(route, end)) for route in passing}
        crossings += sum((a - c) * (b - d) < 0 for (a, b), (c, d) in combinations(segments, 2))
    assert crossings == layout.crossings


@given(graphs())
def test_the_crossings_of_an_order_are_those_of_its_pairs_of_segments(graph: Graph) -> None:
    found = insert_dummies(assign_layers(len(graph[0]), graph[1]), graph[1])
    columns, crossings = order_layers(found)
    assert [sorted(column) for column in columns] == [list(layer) for layer in found.layers]
    place = {vertex: k for column in columns for k, vertex in enumerate(column)}
    pairs = combinations([(v, w) for column in columns for v in column for w in found.right[v]], 2)
    together = [(a, b) for a, b in pairs if found.rank[a[0]] == found.rank[b[0]]]
    assert crossings == sum((place[a] - place[c]) * (place[b] - place[d]) < 0 for (a, b), (c, d) in together)


@given(st.lists(st.lists(st.integers(0, 9), unique=True), max_size=8))
def test_the_count_between_two_layers_is_that_of_the_pairs(targets: list[list[int]]) -> None:
    segments = [(k, end) for k, ends in enumerate(targets) for end in ends]
    counted = sum((a - c) * (b - d) < 0 for (a, b), (c, d) in combinations(segments, 2))
    assert crossings_between(targets) == counted


@given(graphs())
def test_no_edge_goes_back_and_no_layer_is_empty(graph: Graph) -> None:
    rank = assign_layers(len(graph[0]), graph[1])
    assert all(rank[first] < rank[second] for first, second in graph[1])
    assert set(rank) == set(range(max(rank) + 1))


@given(graphs())
def test_an_edge_over_several_layers_bends_only_in_its_first_and_last_gap(graph: Graph) -> None:
    """A chain of dummies is straight unless it crosses another one."""
    layout = laid(graph)
    if not layout.crossings:
        assert all(len({y for _, y in route}) <= 3 for route in layout.routes)


@given(graphs())
def test_equal_graphs_have_equal_layouts(graph: Graph) -> None:
    assert laid(graph) == laid(graph)
