"""Arrays in short: as rows of a table, one entry each, and by their norm; a sequence by the turn that it repeats."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

_SMALL = 4  # rows and columns at most
_SQUARES = (1e-140, 1e140)  # norms whose squares float64 holds with all digits


def entries_with_index(x: Any) -> Iterator[tuple[str, float]]:
    """Yield each entry's index, as text, and its value."""
    array = np.asarray(x, dtype=float)
    for at in np.ndindex(array.shape):
        yield ",".join(map(str, at)), float(array[at])


def is_small(x: Any) -> bool:
    """Whether an array is a vector or a matrix of at most 4 x 4 entries, which is shown in full."""
    return 1 <= np.ndim(x) <= 2 and np.size(x) > 1 and max(np.shape(x)) <= _SMALL


def write_shape(shape: tuple[int, ...]) -> str:
    """Return a shape as numpy writes it, without spaces: (2,3) and (4,)."""
    return str(shape).replace(" ", "")


def largest_entries(x: np.ndarray, most: int) -> list[tuple[int, ...]]:
    """Return the indices of the largest entries by size: those that are not finite first, and of equal ones the first."""
    sizes = np.abs(x.reshape(-1))
    order = np.argsort(-np.where(np.isfinite(sizes), sizes, np.inf), kind="stable")[:most]
    return [tuple(int(k) for k in np.unravel_index(at, x.shape)) for at in order]


def norm(x: Any) -> float:
    """Return the Euclidean norm of all entries, also where their squares are beyond float64."""
    size = np.abs(np.ravel(np.asarray(x)))
    with np.errstate(over="ignore", under="ignore"):
        found = float(np.linalg.norm(size))
    largest = float(np.max(size, initial=0.0))
    if _SQUARES[0] < found < _SQUARES[1] or not np.isfinite(largest) or largest == 0:
        return found
    return largest * float(np.linalg.norm(size / largest))


def split_by_repetition(items: Sequence[Any], kinds: Sequence[Any]) -> list[Sequence[Any]]:
    """Split items by the shortest sequence of kinds that all of them repeat; one part where they repeat none.

    >>> split_by_repetition("abcdef", [1, 2, 1, 2, 1, 2])
    ['ab', 'cd', 'ef']
    """
    size = len(kinds)
    fits = (n for n in range(1, size + 1) if size % n == 0 and all(kinds[k] == kinds[k % n] for k in range(size)))
    length = next(fits, 1)
    return [items[k : k + length] for k in range(0, size, length)]
