"""Arrays of constants that have a name: the identity and its rows, unit vectors, triangles of ones, times a number."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from gradcli.derivation.index import Index, Tensor, of_atom
from gradcli.derivation.indexing import edge, picks
from gradcli.derivation.products import identity
from gradcli.derivation.units import rows, triangle, unit
from gradcli.errors import NotSupported

_DIAGONALS = range(-3, 4)  # on which a triangle of ones may end


def named(at: Sequence[Index], arrays: Sequence[Any]) -> tuple[Tensor, list[float]] | None:
    """Return a constant array, given at several sizes, as one that has a name, and the number before it at each size."""
    numbers = [float(x.flat[np.argmax(np.abs(x))]) if x.size else 0.0 for x in arrays]
    if not all(numbers):
        return None
    ones = [x / c for x, c in zip(arrays, numbers, strict=True)]
    if any(not np.all((x == 0) | (x == 1)) for x in ones):
        return None
    found = next(_vectors(at[0], ones) if len(at) == 1 else _matrices(at, ones) if len(at) == 2 else iter(()), None)
    return None if found is None else (found, numbers)


def _vectors(i: Index, ones: Sequence[Any]) -> Iterator[Tensor]:
    if all(np.sum(x) == 1 for x in ones):
        try:
            yield of_atom(unit(i.dim, int(edge([int(np.argmax(x)) for x in ones], [len(x) for x in ones]))), (i,))
        except NotSupported:
            return


def _matrices(at: Sequence[Index], ones: Sequence[Any]) -> Iterator[Tensor]:
    if at[0].dim == at[1].dim and all(np.array_equal(x, np.eye(len(x))) for x in ones):
        yield of_atom(identity(at[0].dim), at)
    for order in ((0, 1), (1, 0)):
        new, old = (at[n] for n in order)
        turned = [np.transpose(x, order) for x in ones]
        yield from _rows(new, old, turned)
        for k in _DIAGONALS:
            if all(np.array_equal(x, np.tri(x.shape[0], x.shape[1], k)) for x in turned):
                yield of_atom(triangle((new.dim, old.dim), k), (new, old))


def _rows(new: Index, old: Index, ones: Sequence[Any]) -> Iterator[Tensor]:
    """Yield rows of the identity that lie side by side, as they stand or turned round."""
    if any(not np.all(np.sum(x, axis=1) == 1) for x in ones):
        return
    places = [np.argmax(x, axis=1) for x in ones]
    step = int(places[0][1] - places[0][0]) if len(places[0]) > 1 else 1
    spans = [slice(int(p[0]), int(p[-1]) + step if int(p[-1]) + step >= 0 else None, step) for p in places if step]
    lengths = [x.shape[1:] for x in ones]
    fits = len(spans) == len(ones) and all(
        np.array_equal(np.arange(n)[s], p) for (n,), s, p in zip(lengths, spans, places, strict=True)
    )
    for wanted in (spans, places) if fits else (places,):
        try:
            (pick,) = picks(wanted, lengths)
        except NotSupported:
            continue
        if pick.kind == "span":
            yield rows(pick.text, new, old)
