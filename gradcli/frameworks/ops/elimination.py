"""Gaussian elimination: LU factors, with row exchanges chosen from the plain (untraced) values, and triangular parts."""

from typing import Any

import numpy as np

from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import plain


def triangle(a: Value, lower: bool, unit_diagonal: bool) -> Value:
    """Return the lower or the upper triangle of a matrix, with ones on the diagonal if `unit_diagonal`."""
    half = np.tril(a, -1 if unit_diagonal else 0) if lower else np.triu(a, 1 if unit_diagonal else 0)
    return half + np.eye(shape(a)[-1]) if unit_diagonal else half


def pivots(a: Any) -> Any:
    """Return, for each row in turn, the row it is exchanged with in elimination with partial pivoting."""
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
    """Return the order of the rows after the exchanges that `pivots` returns."""
    order = np.broadcast_to(np.arange(rows, dtype=np.int32), (*np.shape(exchanges)[:-1], rows)).copy()
    for k in range(np.shape(exchanges)[-1]):
        at = np.asarray(exchanges)[..., k : k + 1]
        other = np.take_along_axis(order, at, -1)
        np.put_along_axis(order, at, order[..., k : k + 1].copy(), -1)
        order[..., k : k + 1] = other
    return order


def eliminated(a: Value) -> Value:
    """Return the LU factors of `a` without row exchanges in one matrix: L below the diagonal, U on and above it."""
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
    """Return the LU factors of `a` in one matrix, the row exchanges, and the order of the rows after them.

    Shapes  a and the factors (..., rows, columns); exchanges (..., min(rows, columns)); order (..., rows).
    Source  Golub and Van Loan (2013), Matrix Computations, section 3.4.
    """
    exchanges = pivots(a)
    if not pivot:
        exchanges = np.broadcast_to(np.arange(exchanges.shape[-1], dtype=np.int32), exchanges.shape)
    order = permutation(exchanges, shape(a)[-2])
    rows = np.take_along_axis(a, np.broadcast_to(order[..., None], shape(a)), -2)
    return eliminated(rows), exchanges, order


def tridiagonal_solve(below: Value, middle: Value, above: Value, b: Value) -> Value:
    """Solve a y = b for a tridiagonal `a`; the first entry of `below` and the last of `above` are not read.

    Shapes  each diagonal (..., n); b and the result (..., n, columns).
    """
    n = shape(middle)[-1]
    eye = np.eye(n)
    a = middle[..., None] * eye
    if n > 1:
        a = a + below[..., None] * np.eye(n, k=-1) + above[..., None] * np.eye(n, k=1)
    return np.linalg.solve(a, b)
