"""Named sizes, such as m and n in `W: m n`: read from the shapes of the given values, or set to small numbers."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gradcli.errors import BadOption
from gradcli.targets.draws import NO_SIZES, Sizes
from gradcli.targets.points import WHOLE, pairs, read
from gradcli.tracing.shapes import shape

SMALL = (5, 3, 4)  # sizes for names without a value: all different, the first the largest, so that matrices are tall


def numbers(texts: Sequence[str], at: Sequence[str], seed: int = 0, fixed: Sizes = NO_SIZES, target: str = "") -> Sizes:
    """Return a number for every size that `W: m n; x: n` names, together with the `fixed` ones.

    Raises  BadOption if two values disagree on a size, or a value has another number of axes; BadPoint for points that
            cannot be read.
    """
    dims = dict(pairs(texts))
    every = dict.fromkeys(w for words in dims.values() for w in words if w.isidentifier())
    names = [n for n in every if n not in fixed]
    if not every:
        return fixed
    small = itertools.chain(SMALL, itertools.count(6))
    found: dict[str, int] = {**dict(zip(names, small, strict=False)), **fixed}
    found |= {n: k for _, n, k in reversed(list(_lengths(dims, read(at, seed, found, target=target)))) if n in names}
    owners: dict[str, str] = {}
    for owner, name, length in _lengths(dims, read(at, seed, found, target=target)):
        if length != found[name]:
            says = f"the size {name} is {found[name]} by {owners.get(name, '--shapes')} and {length} by {owner}"
            raise BadOption(says, do="give sizes that differ names that differ, and one point at a time")
        owners.setdefault(name, owner)
    return found


def _lengths(dims: Mapping[str, Sequence[str]], points: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, str, int]]:
    """Yield (input, name of the size, length) for each named axis of each input that has a value."""
    for point in points:
        whole = point.get(WHOLE)
        values = {**(whole if isinstance(whole, dict) else {}), **point}
        for name, words in dims.items():
            if name not in values:
                continue
            lengths = shape(values[name])
            if len(lengths) != len(words):
                says = f"{name} has shape {lengths}, and --shapes says {' '.join(words) or 'a number'}"
                raise BadOption(says, do="write a name or a number for each of its axes")
            yield from ((name, word, n) for word, n in zip(words, lengths, strict=True) if word.isidentifier())
