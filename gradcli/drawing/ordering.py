"""The order of the vertices within their layers, with few crossings of segments."""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from itertools import accumulate, islice, pairwise

from gradcli.drawing.crossings import crossings_between
from gradcli.drawing.proper import Proper

ROUNDS = 24  # sweeps from each starting order, in a graph that is not large
STALLED = 10  # sweeps in a row without fewer crossings: more rarely help
WORK = 16_000  # segments that the sweeps from one start visit, in a large graph; one with more has one start
_PASSES = 8  # over the layers, or over the vertices of one, in one improvement
_WIDEST = 64  # vertices of a layer that is sifted

_Sides = tuple[list[int], list[int]]  # the sorted places of a vertex's neighbours, before it and after it


def ordered(graph: Proper) -> tuple[tuple[tuple[int, ...], ...], int]:
    """Return the layers in an order with few crossings, and the number of crossings.

    Parts that no edge connects are ordered one by one, so they do not cross each other. Of an order and its mirror image, the
    one with the lesser numbers above is returned.

    Cost    sweeps times segments times the logarithm of a layer's size; the number of sweeps falls with the segments.
    Source  Gansner, Koutsofios, North and Vo (1993), A technique for drawing directed graphs, section 3: sweeps by
            barycentres and medians, then transpositions; the best order is kept.
    """
    columns: list[list[int]] = [[] for _ in graph.layers]
    crossings = 0
    for part in _parts(graph):
        best, fewest = _best(graph, part)
        crossings += fewest
        upright = _descents(best, graph.boxes) <= 0
        for column, layer in zip(columns, best, strict=True):
            column.extend(layer if upright else reversed(layer))
    return tuple(map(tuple, columns)), crossings


def _descents(layers: list[list[int]], boxes: int) -> int:
    """Return how many more neighbours have falling than rising numbers; the mirrored order has as many crossings."""
    numbers = ([vertex for vertex in layer if vertex < boxes] for layer in layers)
    return sum((above > below) - (above < below) for layer in numbers for above, below in pairwise(layer))


def _parts(graph: Proper) -> Iterator[list[list[int]]]:
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


def _starts(graph: Proper, part: list[list[int]]) -> Iterator[list[list[int]]]:
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


def _best(graph: Proper, part: list[list[int]]) -> tuple[list[list[int]], int]:
    """Return the best order found for a connected part, and its crossings."""
    segments = 1 + sum(len(graph.right[v]) for layer in part for v in layer)
    rounds = max(2, min(ROUNDS, WORK // segments))
    best, fewest = part, -1
    for start in islice(_starts(graph, part), 1 if segments > WORK else None):
        layers, crossings = _swept(_Order(graph, start), rounds)
        if fewest < 0 or crossings < fewest:
            best, fewest = layers, crossings
        if not fewest:
            return best, 0
    order = _Order(graph, best)
    order.improve(order.sift_layer)
    order.improve(order.transpose_layer)
    return order.layers, order.crossings()


def _swept(order: "_Order", rounds: int) -> tuple[list[list[int]], int]:
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


class _Order:
    """An order of the layers that is changed in place."""

    def __init__(self, graph: Proper, layers: list[list[int]]) -> None:
        self.graph = graph
        self.layers = layers
        self.place = [0] * len(graph.rank)
        for layer in layers:
            self._number(layer)

    def crossings(self) -> int:
        """Return the number of crossings of all segments."""
        return sum(
            crossings_between([[self.place[w] for w in self.graph.right[v]] for v in layer], len(after))
            for layer, after in pairwise(self.layers)
        )

    def sweep(self, number: int) -> None:
        """Order all layers but one by the places of their neighbours: rightwards or leftwards, by means or medians."""
        rightwards = number % 2 == 1
        near = self.graph.left if rightwards else self.graph.right
        wanted = _median if number % 4 > 2 else _mean
        for layer in self.layers if rightwards else reversed(self.layers):
            keys = {v: wanted([self.place[w] for w in near[v]]) for v in layer if near[v]}
            movable = iter(sorted(keys if number % 4 < 2 else reversed(keys), key=keys.__getitem__))
            layer[:] = [next(movable) if near[v] else v for v in layer]
            self._number(layer)

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
        sides = self._sides(layer)
        saved = False
        for _ in range(_PASSES):
            moved = False
            for k in range(len(layer) - 1):
                if _saved(sides[layer[k]], sides[layer[k + 1]]) > 0:
                    layer[k], layer[k + 1] = layer[k + 1], layer[k]
                    moved = True
            saved |= moved
            if not moved:
                break
        self._number(layer)
        return saved

    def exchange_ties(self) -> None:
        """Exchange neighbours wherever that leaves as many crossings, so that later changes start from another order."""
        for layer in self.layers:
            sides = self._sides(layer)
            for k in range(len(layer) - 1):
                if _saved(sides[layer[k]], sides[layer[k + 1]]) == 0:
                    layer[k], layer[k + 1] = layer[k + 1], layer[k]
            self._number(layer)

    def sift_layer(self, layer: list[int]) -> bool:
        """Move each vertex of one layer to the place where it crosses least; whether that saved crossings.

        Cost    the square of the layer's size, so a layer of more than `_WIDEST` vertices stays as it is.
        Source  Matuszewski, Schoenfeld and Molitor (1999), Using sifting for k-layer straightline crossing minimization.
        """
        if len(layer) > _WIDEST:
            return False
        sides = self._sides(layer)
        before = list(layer)
        for vertex in before:
            at = layer.index(vertex)
            up = accumulate(_saved(sides[other], sides[vertex]) for other in reversed(layer[:at]))
            down = accumulate(_saved(sides[vertex], sides[other]) for other in layer[at + 1 :])
            moves = [*((saved, at - k) for k, saved in enumerate(up, 1)), *((s, at + k) for k, s in enumerate(down, 1))]
            saved, place = max(moves, key=lambda move: move[0], default=(0, at))
            if saved > 0:
                layer.insert(place, layer.pop(at))
        self._number(layer)
        return layer != before

    def _sides(self, layer: list[int]) -> dict[int, _Sides]:
        """Return the sorted places of the neighbours of each vertex before it and after it."""
        place, left, right = self.place, self.graph.left, self.graph.right
        return {v: (sorted([place[w] for w in left[v]]), sorted([place[w] for w in right[v]])) for v in layer}

    def _number(self, layer: list[int]) -> None:
        for k, vertex in enumerate(layer):
            self.place[vertex] = k


def _mean(places: list[int]) -> float:
    return sum(places) / len(places)


def _median(places: list[int]) -> float:
    places = sorted(places)
    return (places[(len(places) - 1) // 2] + places[len(places) // 2]) / 2


def _saved(above: _Sides, below: _Sides) -> int:
    """Return how many crossings an exchange of two neighbours in a layer saves."""
    return _saved_on_one_side(above[0], below[0]) + _saved_on_one_side(above[1], below[1])


def _saved_on_one_side(above: list[int], below: list[int]) -> int:
    if not above or not below:
        return 0
    if above[-1] < below[0]:
        return -len(above) * len(below)
    if below[-1] < above[0]:
        return len(above) * len(below)
    if len(above) > len(below):
        return -_saved_on_one_side(below, above)
    return sum(bisect_left(below, place) + bisect_right(below, place) - len(below) for place in above)
