"""The number of crossings of the segments between two layers."""

from collections.abc import Sequence


def crossings_between(targets: Sequence[Sequence[int]], places: int) -> int:
    """Return how many segments cross between two layers; `targets` are the places that each vertex goes to, in order.

    Cost    the number of segments times the logarithm of the number of places.
    Source  Barth, Juenger and Mutzel (2002), Simple and efficient bilayer cross counting, section 4.

    >>> crossings_between([[0, 1], [0, 1]], 2)
    1
    """
    leaves = 1 << max(places - 1, 0).bit_length()
    tree = [0] * (2 * leaves)  # each vertex of it holds the number of segments that end below it
    crossings = 0
    for ends in targets:
        for end in sorted(ends):
            index = end + leaves
            tree[index] += 1
            while index > 1:
                if not index & 1:
                    crossings += tree[index + 1]
                index >>= 1
                tree[index] += 1
    return crossings
