"""The graph of a computation as SVG: values above the nodes, adjoints below them, local partials on the edges."""

import heapq
import math
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter
from itertools import accumulate, islice, pairwise, takewhile
from statistics import fmean, median

import numpy as np

from gradcli.classes import dataclass
from gradcli.report import numbers
from gradcli.report.blocks import cut_line, escape_markup, shorten_text
from gradcli.report.common import Absent
from gradcli.report.encode import Values
from gradcli.report.numbers import norm, write_shape
from gradcli.report.trace import CodeBlock, Node, TraceReport

# Which boxes a drawing has, level by level: a node alone, or one box for a loop, a turn of it, a function, or neighbours.
#
# Only neighbours in the order of computation are joined, so that what is joined never forms a cycle.

MOST = 60  # boxes of one level
_DRAWN = 100  # boxes of all levels


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """Neighbouring nodes that are drawn as one box, by the numbers of the first and the last.

    title   What several nodes are; empty for one.
    opened  The loops and functions that need no box of their own inside of this one.
    turns   The turns of a loop, or the calls of a function, that it consists of: the number of each and of its first node.
    level   The number of the level that shows what is inside; None where none does.
    """

    first: int
    last: int
    title: str = ""
    opened: tuple[CodeBlock, ...] = ()
    turns: tuple[tuple[int, int], ...] = ()
    level: int | None = None

    @property
    def count(self) -> int:
        """The number of nodes in the group."""
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Level:
    """The boxes that are drawn together: those of the whole computation, or those inside of one box.

    `above` has the numbers of the level and of the box that open this one; None for the whole.
    """

    groups: tuple[NodeGroup, ...]
    title: str = ""
    above: tuple[int, int] | None = None


def levels_of(trace: TraceReport) -> tuple[Level, ...]:
    """Return the levels of a drawing, the whole first; each has at most 60 boxes.

    All of them have a limited number of boxes: what is not drawn has no level. Before others come the first and the last box
    of each level, a box that is the only one to be opened, and the one in which a claim first goes wrong.
    """
    code = _Code(trace)
    found = [Level(tuple(code.split(NodeGroup(0, len(trace.nodes) - 1))))]
    room = _DRAWN - len(found[0].groups)
    waiting = code.closed(found[0], 0, 0)
    while waiting:
        behind, above, k = heapq.heappop(waiting)
        level = found[above]
        inside = Level(tuple(code.split(level.groups[k])), level.groups[k].title, (above, k))
        room -= len(inside.groups)
        if room < 0:
            break
        opened = replace(level.groups[k], level=len(found))
        found[above] = replace(level, groups=(*level.groups[:k], opened, *level.groups[k + 1 :]))
        found.append(inside)
        for closed in code.closed(inside, len(found) - 1, behind):
            heapq.heappush(waiting, closed)
    return tuple(found)


class _Code:
    """What the source says of the nodes: in which functions and loops they are."""

    def __init__(self, trace: TraceReport) -> None:
        self._nodes = trace.nodes
        self._departs = next((k for k, node in enumerate(trace.nodes) if node.name == trace.departs), -1)
        self._around: list[list[CodeBlock]] = []  # the functions and loops that each node is in, the outermost first
        for node in trace.nodes:
            line = -1 if node.line is None else node.line
            blocks = [b for b in trace.blocks_of_code if b.file == node.file and b.first <= line <= b.last]
            self._around.append(sorted(blocks, key=lambda block: block.first - block.last))

    def closed(self, level: Level, number: int, behind: int) -> list[tuple[int, int, int]]:
        """Return the boxes that can be opened, each as how many come before it, the number of the level, and its own."""
        several = [k for k, group in enumerate(level.groups) if group.count > 1]
        wrong = (k for k in several if level.groups[k].first <= self._departs <= level.groups[k].last)
        ends = {*several[:1], *several[-1:], *wrong}
        return [(behind + (k not in ends), number, k) for k in several]

    def split(self, group: NodeGroup) -> list[NodeGroup]:
        """Return what a group consists of: its nodes, if these are few enough, else turns, loops, functions and nodes."""
        if group.count <= MOST:
            return [NodeGroup(k, k) for k in range(group.first, group.last + 1)]
        if len(group.turns) > 1:
            ends = [first - 1 for _, first in group.turns[1:]] + [group.last]
            turn = "call" if group.opened and group.opened[-1].is_function else "turn"
            parts = [
                NodeGroup(first, end, f"{turn} {number}" * (end > first), group.opened, ((number, first),))
                for (number, first), end in zip(group.turns, ends, strict=True)
            ]
        else:  # the nodes of one loop or of one function together
            parts, k = [], group.first
            while k <= group.last:
                block, end = self._inner_block(k, group.opened), k
                if block is not None:
                    end = self._end_of_block(k, group.last, block, group.opened)
                elif self._is_input(k) and (inputs := sum(map(self._is_input, range(k, group.last + 1)))) > MOST // 2:
                    end = k + inputs - 1
                parts.append(NodeGroup(k, k) if k == end else self._group_nodes(k, end, block, group.opened))
                k = end + 1
        if len(parts) == 1:  # such as a function that is one loop
            if len(parts[0].turns) > 1 or parts[0].opened != group.opened:
                return self.split(parts[0])
            parts = [NodeGroup(k, k) for k in range(group.first, group.last + 1)]
        return parts if len(parts) <= MOST else self._join_neighbours(parts)

    def _is_input(self, k: int) -> bool:
        return self._nodes[k].operation == "input"

    def _inner_block(self, k: int, opened: Sequence[CodeBlock]) -> CodeBlock | None:
        """Return the outermost loop or function that a node is in and that is not opened; None if there is none.

        Of a function that the code calls, it is the innermost: what lies around it is no part of the call.
        """
        around, function = self._around[k], self._function_of_node(k)
        if function != self._current_function(opened):
            return function
        inside = around[around.index(function) + 1 :] if function is not None else around
        return next((block for block in inside if block not in opened), None)

    def _function_of_node(self, k: int) -> CodeBlock | None:
        """Return the function in whose own lines a node is."""
        return next((block for block in reversed(self._around[k]) if block.is_function), None)

    def _current_function(self, opened: Sequence[CodeBlock]) -> CodeBlock | None:
        """Return the function whose own lines are seen: the one opened last, or the one whose value the result is."""
        opened_last = next((block for block in reversed(opened) if block.is_function), None)
        return opened_last or self._function_of_node(len(self._nodes) - 1)

    def _end_of_block(self, k: int, last: int, block: CodeBlock, opened: Sequence[CodeBlock]) -> int:
        """Return the last node of a loop, or of calls of one function in a row, that begin with the k-th node."""
        here, own, end, seen = self._current_function(opened), k, k, set[tuple[object, ...]]()
        after: dict[object, set[CodeBlock | None]] = {}  # the calls that followed an operation in earlier turns
        for j in range(k, last + 1):
            if block in self._around[j]:
                again = j > k and self._is_step_back(j, own, seen)
                if again and block.is_function and j > own + 1:
                    break  # another function was called between two calls
                if again:
                    seen.clear()
                seen.add(self._source_key(j))
                after.setdefault(self._source_key(own), set()).update(
                    self._inner_block(i, opened) for i in range(own + 1, j)
                )
                own = end = j
            elif self._function_of_node(j) == here:
                break
            elif end == j - 1 and self._inner_block(j, opened) in after.get(self._source_key(own), ()):
                end = j  # at the end of the last turn
        return end

    def _group_nodes(self, first: int, last: int, block: CodeBlock | None, opened: tuple[CodeBlock, ...]) -> NodeGroup:
        if block is None:
            return NodeGroup(first, last, self._title_of_nodes(first, last), opened)
        turns, opened, title = self._starts_of_turns(first, last, block), (*opened, block), block.title
        while len(turns) == 1 and not block.is_function:  # a loop that has nothing but a loop inside
            inner = self._inner_block(first, opened)
            if inner is None or inner.is_function or self._end_of_block(first, last, inner, opened) < last:
                break
            turns, opened = self._starts_of_turns(first, last, inner), (*opened, inner)
            title, block = f"{title}, {inner.title}", inner
        at = (self._nodes[k].line or 0 for k in range(first, last + 1) if block in self._around[k])
        if any(start <= line <= end for line in at for start, end in block.uneven):
            turns = [first]  # the lines do not say where a turn ends
        if len(turns) > 1:
            title += f"{'' if block.is_function else ':'} ×{len(turns):,}"
        own = [self._function_of_node(k - 1) == self._function_of_node(k) for k in turns[1:]]
        if not all(own) and self._function_of_node(last) == self._current_function(opened):
            turns = [first]  # a call before a turn may be the beginning of it
        return NodeGroup(first, last, title, opened, tuple(enumerate(turns, 1)))

    def _starts_of_turns(self, first: int, last: int, block: CodeBlock) -> list[int]:
        """Return the first nodes of the turns of a loop, or of the calls of a function.

        A turn begins where an operation comes again, or an operand after what it is a part of, or an earlier line, which no loop
        inside explains.
        """
        starts, seen, before = [first], set[tuple[object, ...]](), first
        for k in range(first, last + 1):
            if block not in self._around[k] or isinstance(self._nodes[k].column, Absent):
                continue
            common = [b for b in self._around[k] if b in self._around[before]]
            if self._is_step_back(k, before, seen) and common[-1] == block:
                starts.append(k)
                seen.clear()
            seen.add(self._source_key(k))
            before = k
        return starts

    def _is_step_back(self, k: int, before: int, seen: Collection[tuple[object, ...]]) -> bool:
        """Whether a node is an operation that was seen, an operand of the one before it, or on an earlier line."""
        node, previous = self._nodes[k], self._nodes[before]
        return self._source_key(k) in seen or (node.line or 0) < (previous.line or 0) or _is_within(node, previous)

    def _source_key(self, k: int) -> tuple[object, ...]:
        """Return what tells an operation of the source from others."""
        return self._nodes[k].line, self._nodes[k].column, self._nodes[k].text

    def _join_neighbours(self, parts: Sequence[NodeGroup]) -> list[NodeGroup]:
        """Join so many neighbours that few enough are left."""
        size = numbers.round_step(len(parts) / MOST)
        found = []
        for k in range(0, len(parts), size):
            joined = parts[k : k + size]
            first, last = joined[0], joined[-1]
            turns = [turn for part in joined for turn in part.turns]
            if len(joined) == 1:
                found.append(first)
            elif len(turns) == len(joined) and all(len(part.turns) == 1 for part in joined):
                title = f"turns {turns[0][0]:,}-{turns[-1][0]:,}"
                found.append(NodeGroup(first.first, last.last, title, first.opened, tuple(turns)))
            else:
                title = self._title_of_nodes(first.first, last.last)
                found.append(NodeGroup(first.first, last.last, title, first.opened))
        return found

    def _title_of_nodes(self, first: int, last: int) -> str:
        """Return what several nodes are: inputs, or the lines they are on and their number."""
        members = self._nodes[first : last + 1]
        if all(node.operation == "input" for node in members):
            return f"{len(members):,} inputs"
        lines = [node.line for node in members if node.line is not None and node.file == members[-1].file]
        if not lines:
            return f"{len(members):,} steps"
        where = f"line {lines[0]}" if min(lines) == max(lines) else f"lines {min(lines)}-{max(lines)}"
        return f"{where}: {len(members):,} steps"


def _is_within(node: Node, other: Node) -> bool:
    """Whether the source of a node is a part of another's, on one line."""
    if node is other or node.line != other.line or isinstance(node.column, Absent) or isinstance(other.column, Absent):
        return False
    if isinstance(node.text, Absent) or isinstance(other.text, Absent) or node.column < other.column:
        return False
    return node.column + len(node.text) <= other.column + len(other.text)


# The graph of a computation as SVG.

_LETTER, _LINE = 7.3, 15  # the width of a letter and the height of a line, in pixels
_BOX = 34  # the height of a box of two lines
_ROOM = 14  # between two edges that end at one box
_LONGEST = 26  # letters in a box
_MOST_PARTIALS = 4  # edges that end at one box and have a label
_ARROW = 10  # the length of the end of an edge with its arrowhead
_ARROWHEAD = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" markerUnits="userSpaceOnUse" '
    'orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>'
)
_CUT = 80  # letters of the target in the name of the picture
_GAP, _APART, _MARGIN = 36, 14, 12


@dataclass(frozen=True, slots=True)
class Box:
    """One box of the drawing: its words, and the nodes of the computation that it stands for."""

    group: NodeGroup
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
class OutsideValue:
    """What the boxes of a drawing read from elsewhere: its name, or the constant itself, its value, and the boxes that use it."""

    name: str
    value: str
    users: tuple[int, ...]

    @property
    def width(self) -> float:
        """The width of the longer of its words, in pixels."""
        return 12 + _LETTER * max(len(self.name), len(self.value))


@dataclass(frozen=True, slots=True)
class Drawing:
    """The graph as it is drawn: its boxes, its edges as pairs of their numbers, and the picture as an element of SVG."""

    boxes: tuple[Box, ...]
    edges: tuple[tuple[int, int], ...]
    svg: str


# The layered layout of a directed acyclic graph, from left to right, in pixels.

Spot = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the boxes of a graph lie and how its edges run, in pixels from the upper left corner of all boxes.

    `centers` holds the centre of each box. `routes` holds the points of each edge, from the right side of its first box to the
    left side of its second: the edge is straight between two points. All edges that leave a box run together until they
    branch off. `crossings` counts these lines once: it is the least number found, not always the least there is.
    """

    centers: tuple[Spot, ...]
    routes: tuple[tuple[Spot, ...], ...]
    width: float
    height: float
    crossings: int


# The layer of each box of a graph, counted from the inputs.


def assign_layers(boxes: int, edges: Sequence[tuple[int, int]]) -> list[int]:
    """Return the layer of each box: as near to its users as it can be without making the edges longer in total.

    No edge stays within a layer or goes back, and no layer is empty. All edges that leave a box share one line, so the
    length that counts is that from a box to its last user.

    Cost    one pass over the edges forwards, one backwards, and one forwards again.
    """
    sources: list[set[int]] = [set() for _ in range(boxes)]
    users: list[set[int]] = [set() for _ in range(boxes)]
    for first, second in edges:
        sources[second].add(first)
        users[first].add(second)
    rank = [0] * boxes
    for box in range(boxes):
        rank[box] = max((rank[source] + 1 for source in sources[box]), default=0)
    for box in reversed(range(boxes)):
        if users[box]:
            rank[box] = min(rank[user] for user in users[box]) - 1
    for box in range(boxes):
        if sources[box]:  # it moves next to its last source if their lines lose more than its own line gains
            nearest = max(rank[source] for source in sources[box]) + 1
            gained = rank[box] - nearest if users[box] else 0
            lost = 0
            for source in sources[box]:
                others = max((rank[user] for user in users[source] if user != box), default=rank[source])
                lost += rank[box] - max(nearest, min(others, rank[box]))
            if lost > gained:
                rank[box] = nearest
    return rank


ROUNDS = 24  # sweeps from each starting order, in a graph that is not large
STALLED = 10  # sweeps in a row without fewer crossings: more rarely help
WORK = 16_000  # segments that the sweeps from one start visit, in a large graph; one with more has one start
_PASSES = 8  # over the layers, or over the vertices of one, in one improvement
_WIDEST = 64  # vertices of a layer that is sifted

_Sides = tuple[list[int], list[int]]  # the sorted places of a vertex's neighbours, before it and after it


# Proper graphs: each segment joins two neighbouring layers, and edges over several layers pass through dummies.


@dataclass(frozen=True, slots=True)
class Proper:
    """A layered graph whose vertices are the boxes, by their numbers, and then the dummies.

    All edges that leave a box share one chain of dummies, `chains[box]`, one in each layer between the box and its last
    user. `left` and `right` hold the neighbours of each vertex in the layers before and after it, without repetition.
    """

    boxes: int
    layers: tuple[tuple[int, ...], ...]
    left: tuple[tuple[int, ...], ...]
    right: tuple[tuple[int, ...], ...]
    chains: tuple[tuple[int, ...], ...]
    rank: tuple[int, ...]

    def path(self, first: int, second: int) -> tuple[int, ...]:
        """Return the vertices that an edge between two boxes passes, with both boxes."""
        return first, *self.chains[first][: self.rank[second] - self.rank[first] - 1], second

    def inner(self) -> Iterator[tuple[int, int]]:
        """Yield the segments between two dummies."""
        for chain in self.chains:
            yield from pairwise(chain)


def insert_dummies(rank: Sequence[int], edges: Sequence[tuple[int, int]]) -> Proper:
    """Return the graph with dummies in all layers between a box and its last user.

    Cost    linear in the number of segments, of which there may be as many as boxes times layers.
    """
    last = list(rank)
    for first, second in edges:
        last[first] = max(last[first], rank[second] - 1)
    ranks, chains = list(rank), []
    for first, end in zip(rank, last, strict=True):
        chains.append(tuple(range(len(ranks), len(ranks) + end - first)))
        ranks.extend(range(first + 1, end + 1))
    segments = dict.fromkeys(pair for box, chain in enumerate(chains) for pair in pairwise((box, *chain)))
    for first, second in edges:
        skipped = rank[second] - rank[first] - 1
        segments[chains[first][skipped - 1] if skipped else first, second] = None
    left: list[list[int]] = [[] for _ in ranks]
    right: list[list[int]] = [[] for _ in ranks]
    for first, second in segments:
        right[first].append(second)
        left[second].append(first)
    layers: list[list[int]] = [[] for _ in range(max(ranks, default=-1) + 1)]
    for vertex, layer in enumerate(ranks):
        layers[layer].append(vertex)
    inside, before, after = (tuple(map(tuple, vertices)) for vertices in (layers, left, right))
    return Proper(len(rank), inside, before, after, tuple(chains), tuple(ranks))


def order_layers(graph: Proper) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Return the layers in an order with few crossings, and the number of crossings.

    Parts that no edge connects are ordered one by one, so they do not cross each other. Of an order and its mirror image, the
    one with the lesser numbers above is returned.

    Cost    sweeps times segments times the logarithm of a layer's size; the number of sweeps falls with the segments.
    Source  Gansner, Koutsofios, North and Vo (1993), A technique for drawing directed graphs, section 3: sweeps by
            barycentres and medians, then transpositions; the best order is kept.
    """
    columns: list[list[int]] = [[] for _ in graph.layers]
    crossings = 0
    for part in _connected_parts(graph):
        best, fewest = _best_order(graph, part)
        crossings += fewest
        named = ([vertex for vertex in layer if vertex < graph.boxes] for layer in best)
        descents = sum((above > below) - (above < below) for layer in named for above, below in pairwise(layer))
        upright = descents <= 0  # the mirrored order has as many crossings
        for column, layer in zip(columns, best, strict=True):
            column.extend(layer if upright else reversed(layer))
    return tuple(map(tuple, columns)), crossings


def _connected_parts(graph: Proper) -> Iterator[list[list[int]]]:
    """Yield the layers of each connected part, in the order of their first boxes."""
    seen = [False] * len(graph.rank)
    for box in range(graph.boxes):
        if seen[box]:
            continue
        layers: list[list[int]] = [[] for _ in graph.layers]
        seen[box], found = True, [box]
        for vertex in found:
            layers[graph.rank[vertex]].append(vertex)
            for other in (*graph.left[vertex], *graph.right[vertex]):
                if not seen[other]:
                    seen[other] = True
                    found.append(other)
        yield layers


def _starting_orders(graph: Proper, part: list[list[int]]) -> Iterator[list[list[int]]]:
    """Yield the orders to start from: by the numbers, and as searches in depth from either end find the vertices."""
    yield [sorted(layer) for layer in part]
    for ahead, behind in ((graph.right, graph.left), (graph.left, graph.right)):
        deep: list[list[int]] = [[] for _ in part]
        seen: set[int] = set()
        stack = sorted((v for layer in part for v in layer if not ahead[v]), reverse=True)
        while stack:
            vertex = stack.pop()
            if vertex not in seen:
                seen.add(vertex)
                deep[graph.rank[vertex]].append(vertex)
                stack.extend(v for v in reversed(behind[vertex]) if v not in seen)
        yield deep


def _best_order(graph: Proper, part: list[list[int]]) -> tuple[list[list[int]], int]:
    """Return the best order found for a connected part, and its crossings."""
    segments = 1 + sum(len(graph.right[v]) for layer in part for v in layer)
    rounds = max(2, min(ROUNDS, WORK // segments))
    best, fewest = part, -1
    for start in islice(_starting_orders(graph, part), 1 if segments > WORK else None):
        layers, crossings = _sweep_layers(_Order(graph, start), rounds)
        if fewest < 0 or crossings < fewest:
            best, fewest = layers, crossings
        if not fewest:
            return best, 0
    order = _Order(graph, best)
    order.improve(order.sift_layer)
    order.improve(order.transpose_layer)
    return order.layers, order.crossings()


def _sweep_layers(order: "_Order", rounds: int) -> tuple[list[list[int]], int]:
    """Return the best order that sweeps reach from a given one, and its crossings."""
    best: list[list[int]] = []
    fewest, stalled = -1, 0
    for number in range(rounds + 1):
        if number:
            order.sweep(number)
        if number % 4 == 2:
            order.exchange_ties()
        order.improve(order.transpose_layer)
        crossings = order.crossings()
        stalled += 1
        if fewest < 0 or crossings < fewest:
            best, fewest, stalled = [list(layer) for layer in order.layers], crossings, 0
        if not fewest or stalled > STALLED:
            break
    return best, fewest


# The number of crossings of the segments between two layers.


def crossings_between(targets: Sequence[Sequence[int]]) -> int:
    """Return how many segments cross between two layers; `targets` are the places that each vertex goes to, in order.

    Cost    for each segment a search in a sorted list, and an insertion into it.

    >>> crossings_between([[0, 1], [0, 1]])
    1
    """
    before: list[int] = []  # where the segments of the vertices above end
    crossings = 0
    for ends in targets:
        crossings += sum(len(before) - bisect_right(before, end) for end in ends)
        for end in ends:
            insort(before, end)
    return crossings


class _Order:
    """An order of the layers that is changed in place."""

    def __init__(self, graph: Proper, layers: list[list[int]]) -> None:
        self.graph = graph
        self.layers = layers
        self.place = [0] * len(graph.rank)
        for layer in layers:
            self._number_vertices(layer)

    def crossings(self) -> int:
        """Return the number of crossings of all segments."""
        place, right = self.place, self.graph.right
        return sum(crossings_between([[place[w] for w in right[v]] for v in layer]) for layer in self.layers)

    def sweep(self, number: int) -> None:
        """Order all layers but one by the places of their neighbours: rightwards or leftwards, by means or medians."""
        rightwards = number % 2 == 1
        near = self.graph.left if rightwards else self.graph.right
        wanted = median if number % 4 > 2 else fmean
        for layer in self.layers if rightwards else reversed(self.layers):
            keys = {v: wanted([self.place[w] for w in near[v]]) for v in layer if near[v]}
            movable = iter(sorted(keys if number % 4 < 2 else reversed(keys), key=keys.__getitem__))
            layer[:] = [next(movable) if near[v] else v for v in layer]
            self._number_vertices(layer)

    def improve(self, change: Callable[[list[int]], bool]) -> None:
        """Change each layer, and again those next to a changed one, until no change leaves fewer crossings."""
        waiting = set(range(len(self.layers)))
        for _ in range(_PASSES):
            changed = {k for k in sorted(waiting) if change(self.layers[k])}
            waiting = {k + side for k in changed for side in (-1, 0, 1) if 0 <= k + side < len(self.layers)}
            if not waiting:
                break

    def transpose_layer(self, layer: list[int]) -> bool:
        """Exchange neighbours in one layer where that saves crossings; whether there were such."""
        sides = self._neighbour_places(layer)
        passes = (_exchange_neighbours(layer, sides, lambda saved: saved > 0) for _ in range(_PASSES))
        saved = [*takewhile(bool, passes)]
        self._number_vertices(layer)
        return bool(saved)

    def exchange_ties(self) -> None:
        """Exchange neighbours wherever that leaves as many crossings, so that later changes start from another order."""
        for layer in self.layers:
            _exchange_neighbours(layer, self._neighbour_places(layer), lambda saved: saved == 0)
            self._number_vertices(layer)

    def sift_layer(self, layer: list[int]) -> bool:
        """Move each vertex of one layer to the place where it crosses least; whether that saved crossings.

        Cost    the square of the layer's size, so a layer of more than `_WIDEST` vertices stays as it is.
        Source  Matuszewski, Schoenfeld and Molitor (1999), Using sifting for k-layer straightline crossing minimization.
        """
        if len(layer) > _WIDEST:
            return False
        sides = self._neighbour_places(layer)
        before = list(layer)
        for vertex in before:
            at = layer.index(vertex)
            up = accumulate(_count_saved_crossings(sides[other], sides[vertex]) for other in reversed(layer[:at]))
            down = accumulate(_count_saved_crossings(sides[vertex], sides[other]) for other in layer[at + 1 :])
            moves = [*((saved, at - k) for k, saved in enumerate(up, 1)), *((s, at + k) for k, s in enumerate(down, 1))]
            saved, place = max(moves, key=lambda move: move[0], default=(0, at))
            if saved > 0:
                layer.insert(place, layer.pop(at))
        self._number_vertices(layer)
        return layer != before

    def _neighbour_places(self, layer: list[int]) -> dict[int, _Sides]:
        """Return the sorted places of the neighbours of each vertex before it and after it."""
        place, left, right = self.place, self.graph.left, self.graph.right
        return {v: (sorted([place[w] for w in left[v]]), sorted([place[w] for w in right[v]])) for v in layer}

    def _number_vertices(self, layer: list[int]) -> None:
        for k, vertex in enumerate(layer):
            self.place[vertex] = k


def _exchange_neighbours(layer: list[int], sides: dict[int, _Sides], is_wanted: Callable[[int], bool]) -> bool:
    """Exchange neighbours in a layer, from its beginning, where what that saves is wanted; whether there were such."""
    exchanged = False
    for k in range(len(layer) - 1):
        if is_wanted(_count_saved_crossings(sides[layer[k]], sides[layer[k + 1]])):
            layer[k], layer[k + 1] = layer[k + 1], layer[k]
            exchanged = True
    return exchanged


def _count_saved_crossings(above: _Sides, below: _Sides) -> int:
    """Return how many crossings an exchange of two neighbours in a layer saves."""
    return _saved_crossings_on_side(above[0], below[0]) + _saved_crossings_on_side(above[1], below[1])


def _saved_crossings_on_side(above: list[int], below: list[int]) -> int:
    if not above or not below:
        return 0
    if above[-1] < below[0]:
        return -len(above) * len(below)
    if below[-1] < above[0]:
        return len(above) * len(below)
    if len(above) > len(below):
        return -_saved_crossings_on_side(below, above)
    return sum(bisect_left(below, place) + bisect_right(below, place) - len(below) for place in above)


# The heights at which vertices of ordered layers lie: long edges straight, and boxes amid their neighbours.

Layers = Sequence[tuple[int, ...]]
Separation = Callable[[int, int], int]  # the least distance of the centres of two vertices


def place_vertices(graph: Proper, columns: Layers, separation: Separation) -> list[int]:
    """Return a whole number for each vertex: its place across the layers, which run from the least to the greatest.

    Four layouts align each vertex with a median of its neighbours: of those before it or after it, and the upper or the lower
    median. Each of the four keeps the separations and the straight chains; so does the mean of the middle two.

    Cost    four times the number of segments, and in each layer that number times the number of those between dummies.
    Source  Brandes and Koepf (2001), Fast and simple horizontal coordinate assignment; the blocks of aligned vertices are
            placed by longest paths, once from either side.
    """
    place = {vertex: k for column in columns for k, vertex in enumerate(column)}
    inner, barred = set(graph.inner()), set()  # segments that cross one between two dummies, which stays straight
    for column in columns:
        segments = [(v, w) for v in column for w in graph.right[v]]
        straight = [segment for segment in segments if segment in inner]
        barred |= {
            (v, w) for v, w in segments for a, b in straight if (place[v] - place[a]) * (place[w] - place[b]) < 0
        }
    found = []
    mirrored = [column[::-1] for column in columns]  # in which the lower median is the upper one
    for forwards in (True, False):
        for seen, sign in ((columns, 1), (mirrored, -1)):
            blocks = _align_blocks(graph, seen, barred, forwards)
            found.append([sign * place for place in _compact_blocks(seen, blocks, separation)])
    # all are moved over the narrowest one: those of upper medians to the same least place, others to the same greatest
    narrowest = min(found, key=lambda places: max(places, default=0) - min(places, default=0))
    moved = []
    for number, places in enumerate(found):
        side = min if number % 2 == 0 else max
        by = side(narrowest, default=0) - side(places, default=0)
        moved.append([x + by for x in places])
    return [sum(sorted(four)[1:3]) // 2 for four in zip(*moved, strict=True)]


def _align_blocks(graph: Proper, columns: Layers, barred: set[tuple[int, int]], forwards: bool) -> list[int]:
    """Return the block of each vertex, by the number of the vertex that was its first; the upper of two medians goes first."""
    place = {vertex: k for column in columns for k, vertex in enumerate(column)}
    near = graph.left if forwards else graph.right
    # the dummy that each dummy continues, where its chain has one before it, or after it
    straight = {second: first for first, second in graph.inner()} if forwards else dict(graph.inner())
    taken = set(straight.values())  # the chain of these goes on, and what branches off does not align with them
    block = list(range(len(place)))
    for column in columns if forwards else reversed(columns):
        last = -1
        for vertex in column:
            ordered = [straight[vertex]] if vertex in straight else sorted(near[vertex], key=place.__getitem__)
            for other in ordered[(len(ordered) - 1) // 2 : len(ordered) // 2 + 1]:  # the medians
                pair = (other, vertex) if forwards else (vertex, other)
                free = vertex in straight or (other not in taken and pair not in barred)
                if free and place[other] > last:
                    block[vertex], last = block[other], place[other]
                    break
    return block


def _compact_blocks(columns: Layers, block: Sequence[int], separation: Separation) -> list[int]:
    """Return the places of the vertices, with the blocks as near to each other as the separations allow.

    The blocks are pushed to the side of the upper medians, and then back towards the blocks that follow them, so that no room
    is left between a block and those that it was aligned next to.
    """
    after: dict[int, dict[int, int]] = {first: {} for first in block}
    for column in columns:
        for above, below in pairwise(column):
            first, second, room = block[above], block[below], separation(above, below)
            after[first][second] = max(room, after[first].get(second, 0))
    place = dict.fromkeys(after, 0)
    backwards = [*TopologicalSorter(after).static_order()]
    for first in reversed(backwards):
        for second, room in after[first].items():
            place[second] = max(place[second], place[first] + room)
    for first in backwards:
        if after[first]:
            place[first] = min(place[second] - room for second, room in after[first].items())
    return [place[first] for first in block]


def lay_out_boxes(sizes: Sequence[Spot], edges: Sequence[tuple[int, int]], *, between: float, apart: float) -> Layout:
    """Return the layout of boxes of these sizes, with each edge running to the right.

    An edge joins two boxes by their numbers, the lesser number first. Boxes of one layer lie at least `apart` from each
    other, and at least half of that from an edge that passes them; layers lie `between` from each other. Equal input
    gives equal output.

    Units   pixels; centres and bends are multiples of half a pixel.
    Cost    the segments of the edges from layer to layer, times a number of sweeps that falls as they grow.
    Source  Sugiyama, Tagawa and Toda (1981), Methods for visual understanding of hierarchical system structures.

    >>> lay_out_boxes([(40, 20), (40, 20)], [(0, 1)], between=30, apart=10).routes
    (((40.0, 10.0), (70.0, 10.0)),)
    """
    graph = insert_dummies(assign_layers(len(sizes), edges), edges)
    columns, crossings = order_layers(graph)
    halves = [2 * math.ceil(height) for _, height in sizes] + [0] * (len(graph.rank) - len(sizes))  # half pixels

    def separation(above: int, below: int) -> int:
        boxes = above < len(sizes) and below < len(sizes)
        return (halves[above] + halves[below]) // 2 + math.ceil(2 * apart if boxes else apart)

    places = place_vertices(graph, columns, separation)
    tops = (place - half // 2 for place, half in zip(places, halves, strict=True))
    top = min(tops, default=0)
    ys = [(place - top) / 2 for place in places]
    height = max((y + half / 4 for y, half in zip(ys, halves, strict=True)), default=0.0)
    sides: list[Spot] = []  # where each layer begins and ends: it is as wide as its widest box
    begin = 0.0
    for layer in graph.layers:
        end = begin + max((math.ceil(sizes[v][0]) for v in layer if v < graph.boxes), default=0)
        sides.append((begin, end))
        begin = end + math.ceil(2 * between) / 2
    centers = tuple((sum(sides[graph.rank[box]]) / 2, ys[box]) for box in range(len(sizes)))
    routes = []
    for first, second in edges:  # they cross layers horizontally and change their height in the gaps between them
        heights = [ys[v] for v in graph.path(first, second)]
        points = [(centers[first][0] + sizes[first][0] / 2, heights[0])]
        for (left, right), y in zip(sides[graph.rank[first] : graph.rank[second] + 1], heights, strict=True):
            points += [(left, y), (right, y)]
        del points[1], points[-1]  # the sides of the layers that lie in or behind the boxes
        points.append((centers[second][0] - sizes[second][0] / 2, heights[-1]))
        routes.append(tuple(_bends_of_route(points)))
    return Layout(centers, tuple(routes), sides[-1][1] if sides else 0.0, height, crossings)


def _bends_of_route(points: Sequence[Spot]) -> Iterator[Spot]:
    """Yield the ends of a route and the points at which it bends."""
    yield points[0]
    last = points[0]
    for k, (x, y) in enumerate(points[1:-1], 1):
        if x > last[0] and x < points[-1][0] and not points[k - 1][1] == y == points[k + 1][1]:
            last = (x, y)
            yield last
    yield points[-1]


def draw_graph(
    trace: TraceReport, level: Level | None = None, *, number: int = 0, style: str = "", down: bool = False
) -> Drawing:
    """Return the graph of a computation, or of one level of it; without one, of the whole, with loops and functions closed.

    What the boxes read from elsewhere is drawn before them, grey: constants, inputs outside of `wrt`, and values of the level
    above. Edges run to the right, or `down`. `number` is that of the level, and `style` the content of a style element.
    """
    nodes = trace.nodes
    groups = (levels_of(trace)[0] if level is None else level).groups
    given, edges = _find_edges(trace, groups)
    boxes = tuple(_make_box(nodes, group, trace.departs) for group in groups)
    shift, prefix = len(given), f"l{number}-" if number else ""
    joins = [(g, shift + user) for g, box in enumerate(given) for user in box.users]
    labels, ids = [""] * len(joins), list[str | None]([None] * len(joins))
    for (a, b), (operand, user) in edges.items():  # the label is the local partial between two nodes, if it is a number
        partial = nodes[user].partials.get(nodes[operand].name)
        several = groups[a].count > 1 or groups[b].count > 1
        unnamed = several or partial is None or isinstance(partial, str) or np.ndim(partial)
        labels.append("" if unnamed else numbers.few_digits(partial, 4))
        ids.append(f"{prefix}e{a}-{b}")
        joins.append((shift + a, shift + b))
    arriving: dict[int, list[int]] = {}
    for k, (_, b) in enumerate(joins):
        arriving.setdefault(b, []).append(k)
    labels = [label if len(arriving[b]) <= _MOST_PARTIALS else "" for (_, b), label in zip(joins, labels, strict=True)]
    wide = {b: max(len(labels[k]) for k in arrivals) for b, arrivals in arriving.items()}
    room = {b: _LETTER * wide[b] + 10 if down and wide[b] else _ROOM for b in arriving}
    stubs = {b: _ARROW + ((_LINE if down else _LETTER * wide[b] + 4) if wide[b] else 0) for b in arriving}
    spans = [max(_BOX, room[k] * len(arriving[k])) if k in arriving else _BOX for k in range(shift + len(boxes))]
    widths = [*(box.width for box in given), *(box.width for box in boxes)]
    tall = [_BOX / 2 + 2.0 * _LINE] * shift + [(_BOX if down else high) + 4.0 * _LINE for high in spans[shift:]]
    if down:
        widths = [max(width, span) if span > _BOX else width for width, span in zip(widths, spans, strict=True)]
    sizes = [*zip(*((tall, widths) if down else (widths, tall)), strict=True)]
    layout = lay_out_boxes(sizes, joins, between=_GAP + max(stubs.values(), default=0), apart=_APART)
    ports = [0.0] * len(joins)  # where across its box each edge ends: beside others, in the order in which they arrive
    for b, arrivals in arriving.items():
        arrivals.sort(key=lambda k: (layout.routes[k][-2][1], layout.routes[k][0][1]))
        for place, k in enumerate(arrivals):
            ports[k] = layout.centers[b][1] + room[b] * (place - (len(arrivals) - 1) / 2)
    parts = [_ARROWHEAD, f'<g class="edges{" down" * down}">']
    for route, port, (_, b), name, label in zip(layout.routes, ports, joins, ids, labels, strict=True):
        parts.append(_draw_edge(route, port, stubs[b], name, down))
        if label:  # on the straight end of the edge
            end = route[-1][0] - _ARROW
            across, along = (port, end) if down else (end, port + 4)
            at = f'x="{round(across)}" y="{round(along)}"'
            parts.append(f'<text data-edge="{name}" {at}>{escape_markup(label)}</text>')
    parts.append("</g>")
    centers = [_turn_spot(center, down) for center in layout.centers]
    for outside, (x, y) in zip(given, centers, strict=False):
        words = _draw_words(-_BOX / 4 - 5, "v", outside.value) + _draw_words(4, "n", outside.name)
        move, frame = f"translate({round(x)} {round(y)})", _draw_frame(outside.width, _BOX / 2)
        parts.append(f'<g class="given" transform="{move}">{frame}{words}</g>')
    heights = [_BOX if down else span for span in spans[shift:]]
    placed = zip(boxes, centers[shift:], widths[shift:], heights, strict=True)
    parts += [_draw_box(f"{prefix}n{k}", box, center, *size) for k, (box, center, *size) in enumerate(placed)]
    members = nodes[groups[0].first : groups[-1].last + 1] if groups else ()
    operations = sum(node.operation != "input" for node in members)
    what = f"Graph of {numbers.write_count(operations, 'operation')} of {shorten_text(trace.target.text, _CUT)}"
    what += f": {level.title}" if level is not None and level.title else ""
    width, height = (round(length) + 2 * _MARGIN for length in _turn_spot((layout.width, layout.height), down))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="graph" role="img" aria-label="{escape_markup(what)}" '
        f'width="{width}" height="{height}" viewBox="{-_MARGIN} {-_MARGIN} {width} {height}">'
    )
    svg = "\n".join((head + (f"<style>{style}</style>" if style else ""), *parts, "</svg>"))
    return Drawing(boxes, tuple(edges), svg)


def _find_edges(
    trace: TraceReport, groups: Sequence[NodeGroup]
) -> tuple[list[OutsideValue], dict[tuple[int, int], tuple[int, int]]]:
    """Return what is read from elsewhere, and the edges between the groups, each with one operand and one user.

    Edges between the same two groups are one.
    """
    nodes = trace.nodes
    numbers = {node.name: k for k, node in enumerate(nodes)}
    group_of = {k: number for number, group in enumerate(groups) for k in range(group.first, group.last + 1)}
    found: dict[tuple[int, int], tuple[int, int]] = {}
    given: dict[object, OutsideValue] = {}
    for k, b in group_of.items():
        for place, operand in enumerate(nodes[k].inputs):
            before = numbers.get(operand)
            a = None if before is None else group_of.get(before)
            if a is not None and before is not None:
                found |= {} if a == b else {(a, b): (before, k)}
                continue
            named = before is not None or operand in trace.at
            if before is None and groups[b].count > 1:
                continue  # a constant inside of several nodes
            value = nodes[before].value if before is not None else trace.at.get(operand)
            key = operand if named else (operand, k, place)
            says = brief_value(value) if named else ""
            one = given.setdefault(key, OutsideValue(cut_line(operand, _LONGEST), says, ()))
            given[key] = replace(one, users=tuple(dict.fromkeys((*one.users, b))))
    return [*given.values()], dict(sorted(found.items()))


def _make_box(nodes: Sequence[Node], group: NodeGroup, departs: object) -> Box:
    node = nodes[group.last]
    members = nodes[group.first : group.last + 1]
    claimed = next((m.claimed for m in reversed(members) if not isinstance(m.claimed, Absent)), None)
    wrong = "first wrong" if any(member.name == departs for member in members) else ""
    wrong += "" if claimed is None else f" claimed {brief_value(claimed)}"
    alone = group.count == 1
    text = node.text if isinstance(node.text, str) else "" if node.operation == "input" else node.operation
    name, text = (cut_line(x, _LONGEST) for x in ((node.name, text) if alone else (group.title, node.name)))
    return Box(group, name, text, brief_value(node.value), brief_value(node.adjoint), wrong.strip())


def brief_value(x: Values) -> str:
    """Return a value as a drawing has it: a number with a few digits, an array by its shape and norm."""
    if np.ndim(x) == 0:
        return numbers.few_digits(x, 5)
    return f"{write_shape(np.shape(x))} ‖{numbers.few_digits(norm(x), 3)}‖"


def _turn_spot(spot: Spot, down: bool) -> Spot:
    """Return a place of the layout, whose edges run to the right, in the picture, where they may run down."""
    return (spot[1], spot[0]) if down else spot


def _draw_edge(route: Sequence[Spot], port: float, stub: float, name: str | None, down: bool) -> str:
    """Return an edge along its route, straight at the end; between layers that differ in height it is a curve."""

    def write(*spot: float) -> str:
        x, y = map(round, _turn_spot((spot[0], spot[1]), down))
        return f"{x} {y}"

    ending = route[-1][0]
    curved = (spot for k, spot in enumerate(route) if not k or route[k - 1][0] < spot[0] < ending - stub - _LINE)
    points = [*curved, (ending - stub, port), (ending, port)]
    path = f"M{write(*points[0])}"
    for before, after in pairwise(points):
        dx, dy = (round(end) - round(start) for start, end in zip(before, after, strict=True))
        half = dx // 2
        path += f"c{write(half, 0)} {write(half, dy)} {write(dx, dy)}" if dy else f"l{write(dx, 0)}"
    return f'<path class="given" d="{path}"/>' if name is None else f'<path id="{name}" d="{path}"/>'


def _draw_box(name: str, box: Box, center: Spot, width: float, height: float) -> str:
    (x, y), half = center, height / 2
    words = [_draw_words(-half - 5, "v", box.value), _draw_words(-3 if box.text else 4, "n", box.name)]
    words += [_draw_words(11, "t", box.text)] if box.text else []
    words += [_draw_words(half + _LINE - 2, "a", box.adjoint)]
    words += [_draw_words(half + 2 * _LINE - 2, "c", box.claimed)] if box.claimed else []
    look = "node" + " bad" * bool(box.claimed) + " many" * (box.group.count > 1)
    look += " opens" * (box.group.level is not None)
    move = f"translate({round(x)} {round(y)})"
    return f'<g class="{look}" id="{name}" transform="{move}">{_draw_frame(width, height)}{"".join(words)}</g>'


def _draw_frame(width: float, height: float) -> str:
    """Return a rectangle about the origin."""
    x, y, w, h = map(round, (-width / 2, -height / 2, width, height))
    return f'<rect x="{x}" y="{y}" width="{w}" height="{h}"/>'


def _draw_words(y: float, look: str, words: str) -> str:
    return f'<text class="{look}" y="{round(y)}">{escape_markup(words)}</text>' if words else ""
