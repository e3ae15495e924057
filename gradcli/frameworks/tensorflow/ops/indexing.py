"""Gathers, scatters and diagonals, at positions that are plain integers."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.shapes import shape, size
from gradcli.frameworks.ops.places import added, gathered, put, put_with
from gradcli.frameworks.tensorflow.ops.shaping import sizes_of

Entry = Callable[..., Any]


def _places(sizes: tuple[int, ...]) -> Any:
    return np.arange(int(np.prod(sizes, dtype=int))).reshape(sizes)


def gather(x: Value, indices: Any, axis: Any = 0, *, batch_dims: int = 0, **attrs: Any) -> Value:
    """Return slices along an axis, separately for each index of the first `batch_dims` axes."""
    indices = np.asarray(indices)
    batch = batch_dims % (indices.ndim + 1) if batch_dims < 0 else batch_dims
    k = int(axis) % len(shape(x))
    if not batch:
        return np.take(x, indices, axis=k)
    places = _places(shape(x))
    found = np.stack([np.take(places[at], indices[at], axis=k - batch) for at in np.ndindex(*indices.shape[:batch])])
    return gathered(x, found.reshape(indices.shape[:batch] + found.shape[1:]))


def gather_nd(x: Value, indices: Any, **attrs: Any) -> Value:
    """Return the entries, or slices, at positions that are given along the last axis of `indices`."""
    return gathered(x, _places(shape(x))[_index(indices)])


def _index(indices: Any) -> tuple[Any, ...]:
    indices = np.asarray(indices)
    return (*np.moveaxis(indices, -1, 0),) if indices.shape[-1] else (np.zeros(indices.shape[:-1], dtype=int), Ellipsis)


def scattered(combine: Callable[[Value, Any, Value], Value]) -> Entry:
    """Return an entry that combines updates into its first input at positions."""

    def scatter(x: Value, indices: Any, updates: Value, **attrs: Any) -> Value:
        places = _places(shape(x))[_index(indices)]
        return combine(x, places, updates if shape(updates) == places.shape else np.broadcast_to(updates, places.shape))

    return scatter


def scatter_nd(indices: Any, updates: Value, sizes: Any, **attrs: Any) -> Value:
    """Return zeros with updates added at positions."""
    into = sizes_of(sizes)
    return added(np.zeros(into), _places(into)[_index(indices)], updates)


def one_hot(indices: Any, depth: Any, on: Value, off: Value, *, axis: int = -1, **attrs: Any) -> Value:
    """Return `on` at the positions along a new axis, and `off` elsewhere."""
    indices = np.asarray(indices)
    hot = indices[..., None] == np.arange(int(depth))
    return np.where(np.moveaxis(hot, -1, axis), on, off)


def _diagonals(k: Any, rows: int, columns: int) -> list[int]:
    ends = sizes_of(k)
    return list(range(ends[0], ends[-1] + 1)) if rows and columns else []


def _along(d: int, longest: int, rows: int, columns: int, align: str) -> tuple[Any, Any, Any]:
    """Return the row and column numbers of a diagonal, and the places of its entries in a row of length `longest`."""
    count = min(rows + min(d, 0), columns - max(d, 0))
    n = np.arange(count)
    upper, lower = align.split("_")
    start = longest - count if (upper if d >= 0 else lower) == "RIGHT" else 0
    return n - min(d, 0), n + max(d, 0), n + start


def matrix_diag_part(x: Value, k: Any = 0, filling: Value = 0.0, *, align: Any = b"RIGHT_LEFT", **attrs: Any) -> Value:
    """Return diagonals of matrices as rows, the highest first; short ones are padded with `filling`."""
    rows, columns = shape(x)[-2:]
    wanted = _diagonals(k, rows, columns)[::-1]
    longest = max(min(rows + min(d, 0), columns - max(d, 0)) for d in wanted)
    places = _places(shape(x))
    found = np.full((*shape(x)[:-2], len(wanted), longest), size(x))
    for line, d in enumerate(wanted):
        i, j, at = _along(d, longest, rows, columns, _text(align))
        found[..., line, at] = places[..., i, j]
    return gathered(
        x, found if len(wanted) > 1 or (len(sizes_of(k)) > 1 and len(wanted) > 1) else found[..., 0, :], filling
    )


def _text(x: Any) -> str:
    return x.decode() if isinstance(x, bytes) else str(x)


def matrix_set_diag(x: Value, diagonal: Value, k: Any = 0, *, align: Any = b"RIGHT_LEFT", **attrs: Any) -> Value:
    """Return matrices with some diagonals replaced."""
    rows, columns = shape(x)[-2:]
    wanted = _diagonals(k, rows, columns)[::-1]
    d_shape = shape(diagonal) if len(wanted) > 1 else (*shape(diagonal)[:-1], 1, shape(diagonal)[-1])
    values, places = np.reshape(diagonal, d_shape), _places(shape(x))
    for line, d in enumerate(wanted):
        i, j, at = _along(d, d_shape[-1], rows, columns, _text(align))
        x = put(x, places[..., i, j], values[..., line, at])
    return x


def matrix_diag(
    diagonal: Value, k: Any = 0, rows: Any = -1, columns: Any = -1, filling: Value = 0.0, *, align: Any = b"RIGHT_LEFT",
    **attrs: Any,
) -> Value:  # fmt: skip
    """Return matrices with the given diagonals, and a filling elsewhere."""
    ends = sizes_of(k)
    longest = shape(diagonal)[-1]
    m, n = int(rows), int(columns)
    least = (longest - min(ends[-1], 0), longest + max(ends[0], 0))
    if m == -1 and n == -1:
        m = n = max(least)
    elif m == -1:
        m = least[0]
    elif n == -1:
        n = least[1]
    outer = shape(diagonal)[: -2 if len(ends) > 1 and ends[0] != ends[-1] else -1]
    into = (*outer, m, n)
    return matrix_set_diag(
        np.broadcast_to(filling, into) if np.ndim(filling) == 0 else filling, diagonal, k, align=align
    )


def band_part(x: Value, below: Any, above: Any, **attrs: Any) -> Value:
    """Return matrices with zeros outside a band of diagonals; a negative `below` or `above` keeps that whole side."""
    rows, columns = shape(x)[-2:]
    apart = np.arange(columns) - np.arange(rows)[:, None]
    kept = ((-apart <= below) | (int(below) < 0)) & ((apart <= above) | (int(above) < 0))
    return np.where(kept, x, 0.0)


def diag(x: Value, **attrs: Any) -> Value:
    """Return a tensor with the axes of `x` twice, and `x` on its diagonal."""
    n = size(x)
    flat = added(np.zeros(n * n), np.arange(n) * (n + 1), np.reshape(x, (-1,)))
    return np.reshape(flat, shape(x) * 2)


def diag_part(x: Value, **attrs: Any) -> Value:
    """Return the diagonal of a tensor whose axes come twice."""
    half = shape(x)[: len(shape(x)) // 2]
    n = int(np.prod(half, dtype=int))
    return gathered(x, (np.arange(n) * (n + 1)).reshape(half))


def dynamic_stitch(*xs: Any, **attrs: Any) -> Value:
    """Merge rows at given positions; `xs` holds all arrays of positions, then all arrays of rows."""
    half = len(xs) // 2
    indices, data = [np.asarray(x) for x in xs[:half]], xs[half:]
    rows = [np.reshape(x, (-1, *shape(x)[at.ndim :])) for at, x in zip(indices, data, strict=True)]
    order = np.concatenate([np.ravel(at) for at in indices])
    last = np.zeros(int(order.max()) + 1, dtype=int)
    last[order] = np.arange(order.size)
    return np.concatenate(rows)[last]


def dynamic_partition(x: Value, parts: Any, *, num_partitions: int, **attrs: Any) -> tuple[Value, ...]:
    """Return the rows of `x` sorted into partitions."""
    parts = np.asarray(parts)
    rows = np.reshape(x, (-1, *shape(x)[parts.ndim :]))
    return tuple(rows[np.flatnonzero(np.ravel(parts) == k)] for k in range(num_partitions))


TABLE: dict[str, Entry] = {
    "GatherV2": gather, "Gather": gather, "ResourceGather": gather, "GatherNd": gather_nd, "ResourceGatherNd": gather_nd,
    "ScatterNd": scatter_nd, "TensorScatterUpdate": scattered(put), "TensorScatterAdd": scattered(added),
    "TensorScatterSub": scattered(lambda x, places, v: added(x, places, -v)), "TensorScatterMax": scattered(put_with(np.maximum)),
    "TensorScatterMin": scattered(put_with(np.minimum)), "ScatterNdNonAliasingAdd": scattered(added),
    "OneHot": one_hot, "Where": lambda x, **attrs: np.argwhere(x), "MatrixDiagPartV3": matrix_diag_part,
    "MatrixDiagPartV2": lambda x, k, filling, **attrs: matrix_diag_part(x, k, filling, align="LEFT_LEFT"),
    "MatrixDiagPart": lambda x, **attrs: matrix_diag_part(x), "MatrixSetDiagV3": matrix_set_diag,
    "MatrixSetDiagV2": lambda x, d, k, **attrs: matrix_set_diag(x, d, k, align="LEFT_LEFT"),
    "MatrixSetDiag": lambda x, d, **attrs: matrix_set_diag(x, d), "MatrixDiagV3": matrix_diag,
    "MatrixDiagV2": lambda *xs, **attrs: matrix_diag(*xs, align="LEFT_LEFT"), "MatrixDiag": lambda d, **attrs: matrix_diag(d),
    "MatrixBandPart": band_part, "Diag": diag, "DiagPart": diag_part,
    "DynamicStitch": dynamic_stitch, "ParallelDynamicStitch": dynamic_stitch, "DynamicPartition": dynamic_partition,
}  # fmt: skip
