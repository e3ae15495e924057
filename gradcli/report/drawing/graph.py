"""The graph of a computation as SVG: values above the nodes, adjoints below them, local partials on the edges."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np

from gradcli.report import numbers
from gradcli.report.absent import Absent
from gradcli.report.drawing.layers import Layout, layered
from gradcli.report.encode import Values
from gradcli.report.escape import cut, in_markup
from gradcli.report.tidy import norm, turns
from gradcli.report.trace import Node, TraceReport

_LETTER, _LINE = 7.3, 15  # the width of a letter and the height of a line, in pixels
_BOX = 34  # the height of a box of two lines
_ROOM = 14  # between two edges that end at one box
_LONGEST = 26  # letters in a box
_MOST_PARTIALS = 4  # edges that end at one box and have a label
_MOST_EDGES = 2_000
_CUT = 80  # letters of the target in the name of the picture
_GAP, _APART, _MARGIN = 36, 14, 12


# Fewer nodes for a drawing of a long computation: by source line, by turn of a loop, by loop, and at last by count.
#
# Only neighbours in the order of computation are joined, so that what is joined never forms a cycle.

MOST = 400  # nodes of a drawing


@dataclass(frozen=True, slots=True)
class Group:
    """Nodes that are drawn as one, by the numbers of the first and the last; `turns` counts the turns of a loop in it."""

    first: int
    last: int
    turns: int = 1

    @property
    def count(self) -> int:
        """The number of nodes in the group."""
        return self.last - self.first + 1


def collapsed(nodes: Sequence[Node], most: int = MOST) -> tuple[Group, ...]:
    """Return at most `most` groups of nodes, in order; each node is a group of its own where there are few enough."""
    groups = [Group(k, k) for k in range(len(nodes))]
    for joined in (_inputs, _by_line, _by_turn, _by_loop, _by_turn, _by_loop):
        if len(groups) <= most:
            return tuple(groups)
        groups = joined(nodes, groups, most)
    return tuple(groups if len(groups) <= most else _by_count(groups, most))


def _inputs(nodes: Sequence[Node], groups: Sequence[Group], most: int) -> list[Group]:
    """Join the inputs, where they alone take more than half of the room."""
    inputs = [group for group in groups if nodes[group.last].operation == "input"]
    return [_joined(inputs), *groups[len(inputs) :]] if len(inputs) > most // 2 else [*groups]


def _by_line(nodes: Sequence[Node], groups: Sequence[Group], most: int) -> list[Group]:
    """Join neighbours on one line of the source, the turns of a loop on one line apart."""

    def key(group: Group) -> object:
        node = nodes[group.last]
        return group.first if node.operation == "input" or node.line is None else (node.file, node.line)

    found: list[Group] = []
    for _, run in groupby(groups, key):
        line = [*run]
        parts = turns(line, [nodes[group.last].operation for group in line])
        room = most * len(line) // len(groups)  # of a line that repeats nothing, as a loop of growing length
        found += _by_count(line, room) if len(parts) == 1 and len(line) > most else map(_joined, parts)
    return found


def _by_turn(nodes: Sequence[Node], groups: Sequence[Group], most: int) -> list[Group]:
    """Join neighbours whose lines ascend: the turns of a loop."""
    runs: list[list[Group]] = []
    for group in groups:
        before = nodes[runs[-1][-1].last] if runs else None
        here = nodes[group.first]
        ascends = (
            before is not None and before.file == here.file and before.line is not None and here.line is not None
            and before.operation != "input" and before.line < here.line
        )  # fmt: skip
        if ascends:
            runs[-1].append(group)
        else:
            runs.append([group])
    return [_joined(run) for run in runs]


def _by_loop(nodes: Sequence[Node], groups: Sequence[Group], most: int) -> list[Group]:
    """Join turns that begin on the same line, as many as are needed, at most the whole loop."""
    loops = [[*run] for _, run in groupby(groups, lambda group: _start(nodes, group))]
    left = most - sum(len(run) == 1 for run in loops)
    several = [len(run) for run in loops if len(run) > 1]
    size = next(size for size in _round_numbers() if size >= max(several, default=1) or _parts(several, size) <= left)
    parts = [run[k : k + size] for run in loops for k in range(0, len(run), size)]
    return [Group(part[0].first, part[-1].last, len(part)) for part in parts]


def _by_count(groups: Sequence[Group], most: int) -> list[Group]:
    """Join so many neighbours that few enough are left."""
    size = next(size for size in _round_numbers() if -(-len(groups) // size) <= most)
    return [_joined(groups[k : k + size]) for k in range(0, len(groups), size)]


def _start(nodes: Sequence[Node], group: Group) -> object:
    node = nodes[group.first]
    return group.first if node.line is None or node.operation == "input" else (node.file, node.line)


def _parts(lengths: Sequence[int], size: int) -> int:
    return sum(-(-length // size) for length in lengths)


def _round_numbers() -> Iterator[int]:
    """Yield 1, 2, 5, 10, 20, 50 and so on."""
    unit = 1
    while True:
        yield from (unit, 2 * unit, 5 * unit)
        unit *= 10


def _joined(groups: Sequence[Group]) -> Group:
    return Group(groups[0].first, groups[-1].last, groups[0].turns if len(groups) == 1 else 1)


def edges_between(nodes: Sequence[Node], groups: Sequence[Group]) -> list[tuple[int, int, int, int]]:
    """Return the edges of a drawing: from and to, as numbers of groups, and one operand and one user of the edge.

    Edges between the same two groups are one.
    """
    group_of = [number for number, group in enumerate(groups) for _ in range(group.count)]
    numbers = {node.name: k for k, node in enumerate(nodes)}
    found: dict[tuple[int, int], tuple[int, int]] = {}
    for k, node in enumerate(nodes):
        for operand in node.partials:
            before = numbers.get(operand)
            if before is not None and group_of[before] != group_of[k]:
                found[group_of[before], group_of[k]] = (before, k)
    return [(a, b, before, k) for (a, b), (before, k) in sorted(found.items())]


def titled(nodes: Sequence[Node], group: Group) -> str:
    """Return what a group of several nodes is: its operations, lines and turns of a loop."""
    members = nodes[group.first : group.last + 1]
    if all(node.operation == "input" for node in members):
        return f"{group.count:,} inputs"
    steps = f"{group.count:,} steps"
    lines = [node.line for node in members if node.line is not None]
    if not lines:
        return steps
    first, last = min(lines), max(lines)
    where = f"line {first}" if first == last else f"lines {first}-{last}"
    return f"{where}{f' x {group.turns:,}' if group.turns > 1 else ''}: {steps}"


@dataclass(frozen=True, slots=True)
class Box:
    """One box of the drawing: its words, and the nodes of the computation that it stands for."""

    group: Group
    name: str
    text: str
    value: str
    adjoint: str
    claimed: str  # what a wrong claim has here, where that is another adjoint

    @property
    def width(self) -> float:
        """The width of the longest of its words, in pixels."""
        words = (self.name, self.text, self.value, self.adjoint, self.claimed)
        return max(4 * _LETTER, 16 + _LETTER * max(map(len, words)))


@dataclass(frozen=True, slots=True)
class Drawing:
    """The graph as it is drawn: its boxes, its edges as pairs of their numbers, and the picture as an element of SVG."""

    boxes: tuple[Box, ...]
    edges: tuple[tuple[int, int], ...]
    svg: str
    crossings: int


def draw(trace: TraceReport, style: str = "") -> Drawing:
    """Return the graph of a computation; a long one is collapsed. `style` is the content of a style element in the picture."""
    nodes = trace.nodes
    groups, found = _fewest(nodes)
    boxes = tuple(_box(nodes, group, trace.departs) for group in groups)
    edges = tuple((a, b) for a, b, _, _ in found)
    ends = Counter(b for _, b in edges)
    labels = [
        _partial(nodes[user], nodes[operand].name, groups[a], groups[b]) if ends[b] <= _MOST_PARTIALS else ""
        for a, b, operand, user in found
    ]
    heights = [max(_BOX, _ROOM * ends[k]) for k in range(len(boxes))]
    sizes = [(box.width, height + 4.0 * _LINE) for box, height in zip(boxes, heights, strict=True)]
    layout = layered(sizes, edges, between=_GAP + _LETTER * max(map(len, labels), default=0), apart=_APART)
    ports = _ports(layout.routes, edges, layout.centers)
    parts = ['<g class="edges">', *map(_edge, layout.routes, ports, edges)]
    parts += [
        _label(route[-1][0], port, label)
        for route, port, label in zip(layout.routes, ports, labels, strict=True)
        if label
    ]
    parts += ["</g>", *map(_drawn, range(len(boxes)), boxes, layout.centers, heights)]
    operations = sum(node.operation != "input" for node in nodes)
    what = f"Graph of {_counted(operations)} of {cut(trace.target.text, _CUT)}"
    return Drawing(boxes, edges, _svg(what, layout, style, parts), layout.crossings)


def _fewest(nodes: Sequence[Node]) -> tuple[tuple[Group, ...], list[tuple[int, int, int, int]]]:
    """Return the groups of a drawing and the edges between them: so many groups that the edges are few enough, too."""
    most = MOST
    while True:
        groups = collapsed(nodes, most)
        found = edges_between(nodes, groups)
        if len(found) <= _MOST_EDGES:
            return groups, found
        most = len(groups) // 2


def _svg(what: str, layout: Layout, style: str, parts: Sequence[str]) -> str:
    wide, high = round(layout.width) + 2 * _MARGIN, round(layout.height) + 2 * _MARGIN
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" role="img" aria-label="{in_markup(what)}" '
        f'width="{wide}" height="{high}" viewBox="{-_MARGIN} {-_MARGIN} {wide} {high}">'
    )
    inside = f"<style>{style}</style>" if style else ""
    return "\n".join((head + inside, *parts, "</svg>"))


def _counted(count: int) -> str:
    return f"{count:,} operation{'' if count == 1 else 's'}"


def _box(nodes: Sequence[Node], group: Group, departs: object) -> Box:
    node = nodes[group.last]
    members = nodes[group.first : group.last + 1]
    claimed = next((m.claimed for m in reversed(members) if not isinstance(m.claimed, Absent)), None)
    wrong = "first wrong" if any(member.name == departs for member in members) else ""
    wrong += "" if claimed is None else f" claimed {brief(claimed)}"
    alone = group.count == 1
    text = node.text if isinstance(node.text, str) else "" if node.operation == "input" else node.operation
    name, text = (node.name, text) if alone else (titled(nodes, group), node.name)
    return Box(group, _short(name), _short(text), brief(node.value), brief(node.adjoint), wrong.strip())


def brief(x: Values) -> str:
    """Return a value as a drawing has it: a number with a few digits, an array by its shape and norm."""
    if np.ndim(x) == 0:
        return numbers.short(x, 5)
    return f"{shaped(np.shape(x))} ‖{numbers.short(norm(x), 3)}‖"


def shaped(shape: tuple[int, ...]) -> str:
    """Return a shape as numpy writes it, without spaces: (2,3) and (4,)."""
    return str(shape).replace(" ", "")


def _partial(user: Node, operand: str, a: Group, b: Group) -> str:
    """Return the label of an edge: the local partial between two nodes where it is a number."""
    partial = user.partials.get(operand)
    if a.count > 1 or b.count > 1 or partial is None or isinstance(partial, str) or np.ndim(partial):
        return ""
    return numbers.short(partial, 4)


def _short(words: str) -> str:
    flat = " ".join(words.split())
    return flat if len(flat) <= _LONGEST else f"{flat[: _LONGEST - 1]}…"


Route = tuple[tuple[float, float], ...]


def _ports(
    routes: Sequence[Route], edges: Sequence[tuple[int, int]], centers: Sequence[tuple[float, float]]
) -> list[float]:
    """Return the height at which each edge ends at its box: one above another, in the order in which they arrive."""
    arriving: dict[int, list[int]] = {}
    for k, (_, b) in enumerate(edges):
        arriving.setdefault(b, []).append(k)
    found = [0.0] * len(edges)
    for b, arrivals in arriving.items():
        arrivals.sort(key=lambda k: (routes[k][-2][1], routes[k][0][1]))
        for place, k in enumerate(arrivals):
            found[k] = centers[b][1] + _ROOM * (place - (len(arrivals) - 1) / 2)
    return found


def _edge(route: Route, port: float, edge: tuple[int, int]) -> str:
    """Return an edge along its route; between layers that differ in height it is a curve."""
    ending = route[-1][0]
    points = [
        *(spot for k, spot in enumerate(route) if (spot[0] < ending and spot[0] > route[k - 1][0]) or not k),
        (ending, port),
    ]
    path = f"M{round(points[0][0])} {round(points[0][1])}"
    for before, after in pairwise(points):
        (x0, y0), (x1, y1) = ((round(x), round(y)) for x, y in (before, after))
        half = (x1 - x0) // 2
        path += f"H{x1}" if y0 == y1 else f"c{half} 0 {half} {y1 - y0} {x1 - x0} {y1 - y0}"
    return f'<path id="e{edge[0]}-{edge[1]}" d="{path}"/>'


def _label(x: float, y: float, label: str) -> str:
    return f'<text x="{_at(x - 9)}" y="{_at(y - 3)}">{in_markup(label)}</text>'


def _drawn(k: int, box: Box, center: tuple[float, float], height: float) -> str:
    x, y, half = center[0], center[1], height / 2
    words = [_line(-half - 5, "v", box.value), _line(-3 if box.text else 4, "n", box.name)]
    words += [_line(11, "t", box.text)] if box.text else []
    words += [_line(half + _LINE - 2, "a", box.adjoint)]
    words += [_line(half + 2 * _LINE - 2, "c", box.claimed)] if box.claimed else []
    look = "node" + " bad" * bool(box.claimed) + " many" * (box.group.count > 1)
    frame = f'<rect x="{_at(-box.width / 2)}" y="{_at(-half)}" width="{_at(box.width)}" height="{_at(height)}"/>'
    return f'<g class="{look}" id="n{k}" transform="translate({_at(x)} {_at(y)})">{frame}{"".join(words)}</g>'


def _line(y: float, look: str, words: str) -> str:
    return f'<text class="{look}" y="{_at(y)}">{in_markup(words)}</text>'


def _at(x: float) -> str:
    return str(round(x))
