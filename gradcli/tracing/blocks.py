"""Large arrays in blocks that fit into the processor's cache: what is computed entry by entry then makes no large arrays."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

BLOCK = 2**14  # entries


def blocks(count: int) -> Iterator[slice]:
    """Yield the parts of `count` entries, one block at a time; at least one part, which may be empty."""
    for first in range(0, max(count, 1), BLOCK):
        yield slice(first, first + BLOCK)


def part_of(x: Any, part: slice) -> Any:
    """Return a part of the entries of an array, in C order; a number as it is."""
    if not np.ndim(x):
        return x
    return np.reshape(x, -1)[part] if x.flags.c_contiguous else x.flat[part]


def mapped(function: Callable[..., Any], dtype: Any, *arrays: Any) -> Any:
    """Return function(*arrays), which is computed entry by entry; large arrays are taken in blocks.

    Shapes  arrays have one shape, or are numbers; else, or if they are small, the function is called once.
    """
    shape = np.shape(arrays[0])
    count = int(np.prod(shape))
    if count <= BLOCK or any(np.ndim(x) and np.shape(x) != shape for x in arrays):
        return function(*arrays)
    made = np.empty(count, dtype)
    for part in blocks(count):
        made[part] = function(*(part_of(x, part) for x in arrays))
    return made.reshape(shape)
