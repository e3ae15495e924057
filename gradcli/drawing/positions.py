"""The heights at which vertices of ordered layers lie: long edges straight, and boxes amid their neighbours."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

from gradcli.drawing.proper import Proper

Layers = Sequence[Sequence[int]]
Separation = Callable[[int, int], int]  # the least distance of the centres of two vertices, the upper one first


def positions(graph: Proper, columns: Layers, separation: Separation) -> list[int]:
    """Return a whole number for each vertex: its place across the layers, which run from the least to the greatest.

    Four layouts align each vertex with a median of its neighbours: of those before it or after it, and the upper or the lower
    median. Each of the four keeps the separations and the straight chains; so does the mean of the middle two.

    Cost    four times the number of segments.
    Source  Brandes and Koepf (2001), Fast and simple horizontal coordinate assignment; the blocks of aligned vertices are
            placed by longest paths, once from either side.
    """
    place = [0] * len(graph.rank)
    for column in columns:
        for k, vertex in enumerate(column):
            place[vertex] = k
    barred = _crossing_chains(graph, place)
    found = []
    for forwards in (True, False):
        for upper in (True, False):
            blocks = _aligned(graph, columns, place, barred, forwards, upper)
            found.append(_compacted(columns, blocks, separation, upper))
    return _balanced(found)


def _straight(graph: Proper, forwards: bool) -> dict[int, int]:
    """Return the dummy that each dummy continues, where its chain has one before it (or after it, if not `forwards`)."""
    return {second: first for first, second in graph.inner()} if forwards else dict(graph.inner())


def _crossing_chains(graph: Proper, place: Sequence[int]) -> set[tuple[int, int]]:
    """Return the segments that cross one between two dummies: the latter stays straight, so they cannot."""
    inner = set(graph.inner())
    barred = set()
    for layer in graph.layers:
        segments = sorted((place[v], place[w], v, w) for v in layer for w in graph.right[v])
        for ordered, sign in ((segments, 1), (segments[::-1], -1)):
            farthest, waiting, start = None, None, None  # of the inner segments that start before the present one
            for first, second, v, w in ordered:
                if first != start and waiting is not None:
                    farthest = waiting if farthest is None else max(farthest, waiting)
                    waiting = None
                start = first
                if (v, w) in inner:
                    waiting = sign * second
                elif farthest is not None and farthest > sign * second:
                    barred.add((v, w))
    return barred


def _aligned(
    graph: Proper, columns: Layers, place: Sequence[int], barred: set[tuple[int, int]], forwards: bool, upper: bool
) -> list[int]:
    """Return the block of each vertex, by the number of the vertex that was its first."""
    near = graph.left if forwards else graph.right
    straight = _straight(graph, forwards)
    taken = set(straight.values())  # the chain of these goes on, and what branches off does not align with them
    sign = 1 if upper else -1
    block = list(range(len(place)))
    for column in columns if forwards else reversed(columns):
        last = -1 if upper else len(place)
        for vertex in column if upper else reversed(column):
            for other in _candidates(vertex, near[vertex], place, straight, upper):
                pair = (other, vertex) if forwards else (vertex, other)
                free = vertex in straight or (other not in taken and pair not in barred)
                if free and sign * place[other] > sign * last:
                    block[vertex], last = block[other], place[other]
                    break
    return block


def _candidates(
    vertex: int, near: Sequence[int], place: Sequence[int], straight: dict[int, int], upper: bool
) -> Sequence[int]:
    """Return the neighbours that a vertex may be aligned with, the preferred one first."""
    if vertex in straight:
        return (straight[vertex],)
    if not near:
        return ()
    ordered = sorted(near, key=place.__getitem__)
    medians = ordered[(len(near) - 1) // 2], ordered[len(near) // 2]
    return medians if upper else medians[::-1]


def _compacted(columns: Layers, block: Sequence[int], separation: Separation, upper: bool) -> list[int]:
    """Return the places of the vertices, with the blocks as near to each other as the separations allow.

    The blocks are pushed to the side of the upper medians (or else of the lower ones), and then back towards the blocks that
    follow them, so that no room is left between a block and those that it was aligned next to.
    """
    after: dict[int, dict[int, int]] = {first: {} for first in block}
    for column in columns:
        for above, below in pairwise(column):
            first, second, room = block[above], block[below], separation(above, below)
            if not upper:
                first, second = second, first
            after[first][second] = max(room, after[first].get(second, 0))
    place = dict.fromkeys(after, 0)
    order = list(_sorted_blocks(after))
    for first in order:
        for second, room in after[first].items():
            place[second] = max(place[second], place[first] + room)
    for first in reversed(order):
        if after[first]:
            place[first] = min(place[second] - room for second, room in after[first].items())
    return [place[first] if upper else -place[first] for first in block]


def _sorted_blocks(after: dict[int, dict[int, int]]) -> Iterator[int]:
    """Yield the blocks, each before those that must come after it."""
    before = dict.fromkeys(after, 0)
    for others in after.values():
        for other in others:
            before[other] += 1
    ready = [first for first in after if not before[first]]
    for first in ready:
        yield first
        for other in after[first]:
            before[other] -= 1
            if not before[other]:
                ready.append(other)


def _balanced(found: Sequence[Sequence[int]]) -> list[int]:
    """Return the mean of the two middle places of each vertex, after the layouts were moved over the narrowest one.

    A layout of upper medians is moved to the same least place, and one of lower medians to the same greatest place.
    """
    narrowest = min(found, key=lambda places: max(places, default=0) - min(places, default=0))
    moved = []
    for number, places in enumerate(found):
        side = min if number % 2 == 0 else max
        by = side(narrowest, default=0) - side(places, default=0)
        moved.append([place + by for place in places])
    return [sum(sorted(four)[1:3]) // 2 for four in zip(*moved, strict=True)]
