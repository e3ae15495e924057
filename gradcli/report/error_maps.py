"""The errors of gradients as matrices, for pictures."""

from collections.abc import Mapping, Sequence

import numpy as np

from gradcli.report.blocks import HeatMap
from gradcli.report.encode import Values
from gradcli.report.shown_entries import worst_first

_MARKED = 3  # worst entries of a map that are ringed
_LARGEST = 1_000  # rows or columns of a picture
_FLOOR = 1e-17  # relative error shown for entries that are right to the last bit


def error_maps(
    mode: str,
    values: Mapping[str, Values],
    reference: Mapping[str, Values],
    outputs: int = 0,
    *,
    vectors: bool = False,
    worst: Mapping[str, Sequence[tuple[int, ...]]] | None = None,
) -> list[HeatMap]:
    """Return the relative errors of each matrix of a mode, in powers of ten; absolute ones where the right entry is 0.

    The entries in `worst`, the first ones of each input, are ringed; without it the worst that there are.

    Shapes  gradients that are matrices; Jacobians, whose first `outputs` axes are those of the result, with all outputs
            along the rows and all entries of the input along the columns. With `vectors`, these too, each as a row.
    """
    found = []
    for name, right in reference.items():
        if name not in values or np.shape(values[name]) != np.shape(right):
            continue
        g, own = _as_matrix(right, outputs), _as_matrix(values[name], outputs)
        if vectors and g.ndim == 1:
            g, own = g[None, :], own[None, :]
        if g.ndim != 2 or not g.size or not 1 < max(g.shape) <= _LARGEST:
            continue
        with np.errstate(all="ignore"):
            error = np.abs(own - g) / np.where(g == 0, 1.0, np.abs(g))
        error = np.where(own == g, 0.0, np.where(np.isnan(error), np.inf, error))
        if worst is None:
            ringed = [at for at in worst_first(np.ravel(own), np.ravel(g))[:_MARKED] if np.ravel(error)[at] > 0]
        else:
            ringed = [np.ravel_multi_index(at, np.shape(right)) for at in worst.get(name, ())[:_MARKED]]
        marked = tuple(tuple(int(k) for k in np.unravel_index(at, g.shape)) for at in ringed)
        title = f"{mode}: relative error of the entries of {name}, the largest ringed"
        found.append(HeatMap(title, "power of ten", np.log10(np.maximum(error, _FLOOR)), marked))  # type: ignore[arg-type]
    return found


def _as_matrix(x: Values, outputs: int) -> np.ndarray:
    array = np.asarray(x, dtype=float)
    if not outputs or array.ndim == 2:
        return array
    return array.reshape(int(np.prod(array.shape[:outputs])), int(np.prod(array.shape[outputs:])))
