"""LU factors: rows in the order that pivoting by the values gives, and elimination without pivots."""

from typing import Any

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.shapes import shape
from gradcli.core.tracer import plain
from gradcli.frameworks.torch.aten.rows import aten
from gradcli.primitives.linalg import T


def _exchanges(a: Any, pivot: bool) -> Any:
    """Return, counted from 1, which row each row of each matrix is exchanged with in turn."""
    a = np.array(a, dtype=np.float64)
    rows, columns = a.shape[-2:]
    found = np.empty((*a.shape[:-2], min(rows, columns)), dtype=np.int32)
    for at in np.ndindex(a.shape[:-2]):
        m = a[at]
        for k in range(min(rows, columns)):
            other = k + int(np.argmax(np.abs(m[k:, k]))) if pivot else k
            found[(*at, k)] = other + 1
            m[[k, other]] = m[[other, k]]
            if m[k, k]:
                m[k + 1 :] -= np.outer(m[k + 1 :, k] / m[k, k], m[k])
    return found


def _orders(pivots: Any, rows: int) -> Any:
    """Return the order of the rows of each matrix after all exchanges."""
    orders = np.broadcast_to(np.arange(rows), (*np.shape(pivots)[:-1], rows)).copy()
    for at in np.ndindex(np.shape(pivots)[:-1]):
        for k, other in enumerate(np.asarray(pivots)[at]):
            orders[at][[k, other - 1]] = orders[at][[other - 1, k]]
    return orders


def _eliminated(a: Value) -> Value:
    """Return U, and below its diagonal L without the ones, of a = L U (Doolittle)."""
    rows, columns = shape(a)[-2:]
    steps = min(rows, columns)
    lower, upper = [], []
    rest = a
    for _ in range(steps):
        top = rest[..., :1, :]
        factors = rest[..., 1:, :1] / top[..., :1]
        upper.append(top)
        lower.append(factors)
        rest = rest[..., 1:, 1:] - factors * top[..., 1:]
    y: Value = np.zeros((*shape(a)[:-2], rows - steps, columns - steps))
    for top, factors in zip(reversed(upper), reversed(lower), strict=True):
        y = np.concatenate([top, np.concatenate([factors, y], axis=-1)], axis=-2)
    return y


def _triangles(lu: Value) -> tuple[Value, Value]:
    """Return L with ones on its diagonal, and U."""
    rows, columns = shape(lu)[-2:]
    n = min(rows, columns)
    return np.tril(lu[..., :n], -1) + np.eye(rows, n), np.triu(lu[..., :n, :])


def _permutation(orders: Any) -> Any:
    """Return the matrices P with P @ rows in that order = rows as they were."""
    return T(np.eye(orders.shape[-1])[orders])


@aten()
def linalg_lu_factor_ex(a: Value, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """Return both factors in one matrix, the exchanges of rows, and that all went well."""
    pivots = _exchanges(plain(a), pivot)
    rows = np.take_along_axis(a, _orders(pivots, shape(a)[-2])[..., None], -2)
    return _eliminated(rows), pivots, np.zeros(shape(a)[:-2], dtype=np.int32)


@aten()
def linalg_lu(a: Value, *, pivot: bool = True) -> Any:
    """Return the permutation, L and U."""
    lu, pivots, _ = linalg_lu_factor_ex(a, pivot=pivot)
    p = _permutation(_orders(pivots, shape(a)[-2])) if pivot else np.zeros(0)
    return p, *_triangles(lu)


@aten()
def lu_unpack(lu: Value, pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """Return the permutation, L and U from both factors in one matrix."""
    p = _permutation(_orders(pivots, shape(lu)[-2])) if unpack_pivots else np.zeros(0)
    return p, *(_triangles(lu) if unpack_data else (np.zeros(0), np.zeros(0)))


@aten()
def linalg_lu_solve(lu: Value, pivots: Any, b: Value, *, left: bool = True, adjoint: bool = False) -> Value:
    """Return the solution of a @ y = b, of y @ a = b, or of the transposed of these, given the factors of a."""
    lower, upper = _triangles(lu)
    if not left:
        return T(linalg_lu_solve(lu, pivots, T(b), adjoint=not adjoint))
    p = _permutation(_orders(pivots, shape(lu)[-2]))
    if adjoint:
        return np.matmul(p, np.linalg.solve(T(lower), np.linalg.solve(T(upper), b)))
    return np.linalg.solve(upper, np.linalg.solve(lower, np.matmul(T(p), b)))
