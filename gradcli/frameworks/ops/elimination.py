"""Elimination: the factors of a matrix with exchanges of rows, which are chosen by the plain values, and triangles."""

from typing import Any

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.shapes import shape
from gradcli.core.tracer import plain


def triangle(a: Value, lower: bool, unit_diagonal: bool) -> Value:
    """Return one triangle of a matrix, with ones on the diagonal where that is asked for."""
    half = np.tril(a, -1 if unit_diagonal else 0) if lower else np.triu(a, 1 if unit_diagonal else 0)
    return half + np.eye(shape(a)[-1]) if unit_diagonal else half


def pivots(a: Any) -> Any:
    """Return which row is exchanged with each row in turn by elimination, the largest entry being taken first."""
    work = np.array(plain(a), dtype=float)
    rows, columns = work.shape[-2:]
    found = np.zeros((*work.shape[:-2], min(rows, columns)), dtype=np.int32)
    for k in range(min(rows, columns)):
        at = k + np.argmax(np.abs(work[..., k:, k]), axis=-1)
        found[..., k] = at
        other = np.take_along_axis(work, at[..., None, None], -2)
        np.put_along_axis(work, at[..., None, None], work[..., k : k + 1, :].copy(), -2)
        work[..., k : k + 1, :] = other
        top = work[..., k : k + 1, k : k + 1]
        factors = work[..., k + 1 :, k : k + 1] / np.where(top == 0, 1.0, top)
        work[..., k + 1 :, k:] -= factors * work[..., k : k + 1, k:]
    return found


def permutation(exchanges: Any, rows: int) -> Any:
    """Return the order of the rows after exchanges."""
    order = np.broadcast_to(np.arange(rows, dtype=np.int32), (*np.shape(exchanges)[:-1], rows)).copy()
    for k in range(np.shape(exchanges)[-1]):
        at = np.asarray(exchanges)[..., k : k + 1]
        other = np.take_along_axis(order, at, -1)
        np.put_along_axis(order, at, order[..., k : k + 1].copy(), -1)
        order[..., k : k + 1] = other
    return order


def eliminated(a: Value) -> Value:
    """Return the factors of `a` without exchanges, one below and one on and above the diagonal."""
    rows, columns = shape(a)[-2:]
    if min(rows, columns) == 0:
        return a
    top, corner = a[..., :1, :], a[..., :1, :1]
    if rows == 1:
        return a
    left = a[..., 1:, :1] / np.where(np.equal(plain(corner), 0), 1.0, corner)
    if columns == 1:
        return np.concatenate([top, left], axis=-2)
    rest = eliminated(a[..., 1:, 1:] - left * top[..., 1:])
    return np.concatenate([top, np.concatenate([left, rest], axis=-1)], axis=-2)


def lu(a: Value, pivot: bool = True) -> tuple[Value, Any, Any]:
    """Return the factors of `a` in one matrix, the exchanges of rows, and their order after them."""
    exchanges = pivots(a)
    if not pivot:
        exchanges = np.broadcast_to(np.arange(exchanges.shape[-1], dtype=np.int32), exchanges.shape)
    order = permutation(exchanges, shape(a)[-2])
    rows = np.take_along_axis(a, np.broadcast_to(order[..., None], shape(a)), -2)
    return eliminated(rows), exchanges, order


def tridiagonal_solve(below: Value, middle: Value, above: Value, b: Value) -> Value:
    """Return y with a y = b, `a` given by its three diagonals; the first entry below and the last above are not read."""
    n = shape(middle)[-1]
    eye = np.eye(n)
    a = middle[..., None] * eye
    if n > 1:
        a = a + below[..., None] * np.eye(n, k=-1) + above[..., None] * np.eye(n, k=1)
    return np.linalg.solve(a, b)
