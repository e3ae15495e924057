"""The layer of each box of a graph, counted from the inputs."""

from collections.abc import Sequence


def ranks(boxes: int, edges: Sequence[tuple[int, int]]) -> list[int]:
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
        if sources[box]:
            _pull(box, rank, sources, users)
    return rank


def _pull(box: int, rank: list[int], sources: Sequence[set[int]], users: Sequence[set[int]]) -> None:
    """Move a box next to its last source if the lines of its sources lose more than its own line gains."""
    nearest = max(rank[source] for source in sources[box]) + 1
    moved = rank[box] - nearest
    gained = moved if users[box] else 0
    lost = 0
    for source in sources[box]:
        others = max((rank[user] for user in users[source] if user != box), default=rank[source])
        lost += rank[box] - max(nearest, min(others, rank[box]))
    if lost > gained:
        rank[box] = nearest
