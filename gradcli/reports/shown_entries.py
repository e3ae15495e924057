"""Which entries of a gradient are shown: all where they are few, else the largest and the least exact one of each input."""

from collections.abc import Mapping, Sequence

import numpy as np

from gradcli.reports import numbers
from gradcli.reports.encode import Values

MOST = 8  # entries side by side

Entry = tuple[str, tuple[int, ...]]
Gradient = Mapping[str, Values]


def shown(reference: Gradient, others: Sequence[Gradient]) -> list[Entry]:
    """Return the entries to show of a gradient, `others` being what modes or a claim have for the same one."""
    if total(reference) <= MOST:
        return [(name, at) for name, g in reference.items() for at in np.ndindex(np.shape(g))]
    chosen: list[Entry] = []
    for name, g in reference.items():
        if np.size(g):
            sizes = np.abs(np.nan_to_num(np.asarray(g, dtype=float)))
            digits = np.min(
                [numbers.right_digits(x[name], g) for x in others if name in x] or [sizes * 0 + 16.0], axis=0
            )
            places = dict.fromkeys((int(np.argmax(sizes)), int(np.argmin(digits))))
            chosen += [(name, tuple(map(int, np.unravel_index(k, np.shape(g))))) for k in places]
    return chosen[:MOST]


def total(reference: Gradient) -> int:
    """Return how many entries a gradient has."""
    return sum(int(np.size(g)) for g in reference.values())


def title(reference: Gradient, entries: Sequence[Entry]) -> str:
    """Return what the entries are, where they are not all."""
    count = total(reference)
    return (
        "" if count <= MOST else f"{len(entries)} of {count:,} entries: the largest and the least exact of each input"
    )


def named(entry: Entry, outputs: int, of: Sequence[str] = ()) -> str:
    """Return how a derivative is written: df/dx[0], df[1]/dx[0] for a result with `outputs` axes.

    A second derivative is d2f/dx[0]dy, `of` being the names of the first derivatives.
    """
    name, at = entry
    if of:
        return f"d2f/d{of[at[0]].removeprefix('df/d')}d{numbers.entry_name(name, at[outputs:])}"
    output = f"[{','.join(map(str, at[:outputs]))}]" if outputs else ""
    return f"df{output}/d{numbers.entry_name(name, at[outputs:])}"
