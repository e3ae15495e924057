"""The shortest sequence that a sequence repeats: a turn of a loop."""

from collections.abc import Sequence
from typing import Any


def turns(items: Sequence[Any], kinds: Sequence[Any]) -> list[Sequence[Any]]:
    """Split items by the shortest sequence of kinds that all of them repeat; one part where they repeat none.

    >>> turns("abcdef", [1, 2, 1, 2, 1, 2])
    ['ab', 'cd', 'ef']
    """
    size = len(kinds)
    fits = (n for n in range(1, size + 1) if size % n == 0 and all(kinds[k] == kinds[k % n] for k in range(size)))
    length = next(fits, 1)
    return [items[k : k + length] for k in range(0, size, length)]
