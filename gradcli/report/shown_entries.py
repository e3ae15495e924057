"""Which entries of a gradient are shown: all where they are few, else the largest and the least exact one of each input."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradcli.report import numbers
from gradcli.report.encode import Values

MOST = 8  # entries side by side
WORST_FIRST = "by relative, then by absolute error"  # what the worst entries are ordered by

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


def worst_first(claimed: Any, right: Any) -> Any:
    """Return the order of the entries of two vectors: by relative error, then by absolute error, the largest first.

    Relative errors that are equal to six digits count as equal: beyond them, rounding would order the entries. An entry
    that is not finite, or where the right one is 0, has an infinite relative error.
    """
    with np.errstate(all="ignore"):
        error = np.nan_to_num(np.abs(np.subtract(claimed, right, dtype=float)), nan=np.inf)
        relative = np.nan_to_num(np.where(error == 0, 0.0, error / np.abs(right)), nan=np.inf, posinf=np.inf)
        unit = 10.0 ** (np.floor(np.log10(np.where((relative > 0) & np.isfinite(relative), relative, 1.0))) - 5)
        relative = np.where(np.isfinite(relative), np.round(relative / unit) * unit, np.inf)
    return np.lexsort((-error, -relative))


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
