"""Shrink a point where a claim is wrong to the simplest one where it still is."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

_MOST = 120  # points that are tried
_ROUNDED = (1, 2, 3)  # significant digits
_FEW = 12  # entries that are made simpler one by one


def shrunk(
    values: Mapping[str, Any], given: Mapping[str, Any], wrt: tuple[str, ...], fails: Callable[[Any], bool]
) -> dict[str, Any]:
    """Return a point that still `fails`, with as many given values, and numbers as short, as were found.

    Cost  at most 120 calls of `fails`.
    """
    best, left = dict(values), _MOST
    progress = True
    while progress and left > 0:
        progress = False
        for other in _simpler(best, given, wrt):
            if left <= 0:
                break
            left -= 1
            if fails(other):
                best, progress = other, True
                break
    return best


def _simpler(values: Mapping[str, Any], given: Mapping[str, Any], wrt: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """Yield simpler points: an input as it was given, all entries rounded, one entry as given or rounded."""
    for name in values:
        if not _same(values[name], given[name]) and np.shape(values[name]) == np.shape(given[name]):
            yield {**values, name: given[name]}
    for name in wrt:
        x = np.asarray(values[name], dtype=float)
        for digits in _ROUNDED:
            rounded = _rounded(x, digits)
            if not np.array_equal(rounded, x):
                yield {**values, name: rounded[()]}
                break
        if 1 < x.size <= _FEW:
            was = np.asarray(given[name], dtype=float)
            for k in range(x.size):
                for simple in (
                    was.flat[k] if was.shape == x.shape else 1.0,
                    *(_rounded(x.flat[k], d) for d in _ROUNDED),
                ):
                    if _cost(simple) < _cost(x.flat[k]):
                        made = x.copy()
                        made.flat[k] = simple
                        yield {**values, name: made}
                        break


def _rounded(x: Any, digits: int) -> Any:
    return np.vectorize(lambda number: float(f"{number:.{digits}g}"), otypes=[float])(x) if np.size(x) else x


def _cost(x: Any) -> int:
    return len(repr(float(x)))


def _same(a: Any, b: Any) -> bool:
    return np.shape(a) == np.shape(b) and bool(np.array_equal(np.asarray(a), np.asarray(b)))
