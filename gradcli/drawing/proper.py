"""Proper graphs: each segment joins two neighbouring layers, and edges over several layers pass through dummies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise


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


def proper(rank: Sequence[int], edges: Sequence[tuple[int, int]]) -> Proper:
    """Return the graph with dummies in all layers between a box and its last user.

    Cost    linear in the number of segments, of which there may be as many as boxes times layers.
    """
    last = list(rank)
    for first, second in edges:
        last[first] = max(last[first], rank[second] - 1)
    ranks, chains = list(rank), []
    for box in range(len(rank)):
        chains.append(tuple(range(len(ranks), len(ranks) + last[box] - rank[box])))
        ranks.extend(range(rank[box] + 1, last[box] + 1))
    segments = {(box, chain[0]): None for box, chain in enumerate(chains) if chain}
    segments |= {pair: None for chain in chains for pair in pairwise(chain)}
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
    return Proper(
        boxes=len(rank),
        layers=tuple(map(tuple, layers)),
        left=tuple(map(tuple, left)),
        right=tuple(map(tuple, right)),
        chains=tuple(chains),
        rank=tuple(ranks),
    )
