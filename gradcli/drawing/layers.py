"""The layered layout of a directed acyclic graph, from left to right, in pixels."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gradcli.drawing.ordering import ordered
from gradcli.drawing.positions import positions
from gradcli.drawing.proper import Proper, proper
from gradcli.drawing.ranks import ranks

Spot = tuple[float, float]
_PARALLEL = 6.0  # pixels between two edges that join the same boxes, where the boxes are high enough


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


def layered(sizes: Sequence[Spot], edges: Sequence[tuple[int, int]], *, between: float, apart: float) -> Layout:
    """Return the layout of boxes of these sizes, with each edge running to the right.

    An edge joins two boxes by their numbers, the lesser number first. Boxes of one layer lie at least `apart` from each
    other, and at least half of that from an edge that passes them; layers lie `between` from each other. Equal input
    gives equal output.

    Units   pixels; centres and bends are multiples of half a pixel.
    Cost    the segments of the edges from layer to layer, times a number of sweeps that falls as they grow.
    Source  Sugiyama, Tagawa and Toda (1981), Methods for visual understanding of hierarchical system structures.

    >>> layered([(40, 20), (40, 20)], [(0, 1)], between=30, apart=10).routes
    (((40.0, 10.0), (70.0, 10.0)),)
    """
    graph = proper(ranks(len(sizes), edges), edges)
    columns, crossings = ordered(graph)
    halves = [2 * math.ceil(height) for _, height in sizes] + [0] * (len(graph.rank) - len(sizes))  # half pixels

    def separation(above: int, below: int) -> int:
        boxes = above < len(sizes) and below < len(sizes)
        return (halves[above] + halves[below]) // 2 + math.ceil(2 * apart if boxes else apart)

    places = positions(graph, columns, separation)
    tops = (place - half // 2 for place, half in zip(places, halves, strict=True))
    top = min(tops, default=0)
    ys = [(place - top) / 2 for place in places]
    height = max((y + half / 4 for y, half in zip(ys, halves, strict=True)), default=0.0)
    sides = _sides(graph, sizes, between)
    centers = tuple((sum(sides[graph.rank[box]]) / 2, ys[box]) for box in range(len(sizes)))
    routes = tuple(_routes(graph, sizes, edges, centers, sides, ys))
    return Layout(centers, routes, sides[-1][1] if sides else 0.0, height, crossings)


def _sides(graph: Proper, sizes: Sequence[Spot], between: float) -> list[Spot]:
    """Return where each layer begins and ends: it is as wide as its widest box."""
    sides: list[Spot] = []
    begin = 0.0
    for layer in graph.layers:
        end = begin + max((math.ceil(sizes[v][0]) for v in layer if v < graph.boxes), default=0)
        sides.append((begin, end))
        begin = end + math.ceil(2 * between) / 2
    return sides


def _routes(
    graph: Proper,
    sizes: Sequence[Spot],
    edges: Sequence[tuple[int, int]],
    centers: Sequence[Spot],
    sides: Sequence[Spot],
    ys: Sequence[float],
) -> Iterator[tuple[Spot, ...]]:
    """Yield the points of each edge; it crosses layers horizontally and changes its height in the gaps between them."""
    shifts = _shifts(sizes, edges)
    for (first, second), shift in zip(edges, shifts, strict=True):
        path = graph.path(first, second)
        heights = [ys[v] for v in path]
        heights[-1] += shift
        if len(path) == 2:
            heights[0] += shift
        points = [(centers[first][0] + sizes[first][0] / 2, heights[0])]
        for (left, right), y in zip(sides[graph.rank[first] : graph.rank[second] + 1], heights, strict=True):
            points += [(left, y), (right, y)]
        del points[1], points[-1]  # the sides of the layers that lie in or behind the boxes
        points.append((centers[second][0] - sizes[second][0] / 2, heights[-1]))
        yield tuple(_bends(points))


def _shifts(sizes: Sequence[Spot], edges: Sequence[tuple[int, int]]) -> list[float]:
    """Return how far each edge ends below the middle of its box: not at all but where several join the same boxes."""
    same: dict[tuple[int, int], list[int]] = {}
    for number, edge in enumerate(edges):
        same.setdefault(edge, []).append(number)
    shifts = [0.0] * len(edges)
    for edge, numbers in same.items():
        step = min(_PARALLEL, *(sizes[box][1] / (len(numbers) + 1) for box in edge))
        for k, number in enumerate(numbers):
            shifts[number] = math.floor(2 * step * (k - (len(numbers) - 1) / 2)) / 2
    return shifts


def _bends(points: Sequence[Spot]) -> Iterator[Spot]:
    """Yield the ends of a route and the points at which it bends."""
    yield points[0]
    last = points[0]
    for k, (x, y) in enumerate(points[1:-1], 1):
        if x > last[0] and x < points[-1][0] and not points[k - 1][1] == y == points[k + 1][1]:
            last = (x, y)
            yield last
    yield points[-1]
