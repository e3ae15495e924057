"""LU factors, and linear solves with them."""

from typing import Any

import numpy as np

from gradcli.frameworks.ops.elimination import lu, permutation
from gradcli.frameworks.torch.aten.rows import aten
from gradcli.rules.linalg import T
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape


def _orders(pivots: Any, rows: int) -> Any:
    """Return the order of the rows of each matrix after all exchanges, which torch counts from 1."""
    return permutation(np.asarray(pivots) - 1, rows)


def _triangles(lu: Value) -> tuple[Value, Value]:
    """Return L with ones on its diagonal, and U."""
    rows, columns = shape(lu)[-2:]
    n = min(rows, columns)
    return np.tril(lu[..., :n], -1) + np.eye(rows, n), np.triu(lu[..., :n, :])


def _permutation(orders: Any) -> Any:
    """Return the matrices P with P @ (reordered rows) = (original rows)."""
    return T(np.eye(orders.shape[-1])[orders])


@aten()
def linalg_lu_factor_ex(a: Value, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """Return the LU factors in one matrix, the row exchanges counted from 1, and zeros as error codes."""
    factors, exchanges, _ = lu(a, pivot)
    return factors, exchanges + 1, np.zeros(shape(a)[:-2], dtype=np.int32)


@aten()
def linalg_lu(a: Value, *, pivot: bool = True) -> Any:
    """Return the permutation, L and U."""
    lu, pivots, _ = linalg_lu_factor_ex(a, pivot=pivot)
    p = _permutation(_orders(pivots, shape(a)[-2])) if pivot else np.zeros(0)
    return p, *_triangles(lu)


@aten()
def lu_unpack(lu: Value, pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """Return the permutation, L and U from the LU factors in one matrix."""
    p = _permutation(_orders(pivots, shape(lu)[-2])) if unpack_pivots else np.zeros(0)
    return p, *(_triangles(lu) if unpack_data else (np.zeros(0), np.zeros(0)))


@aten()
def linalg_lu_solve(lu: Value, pivots: Any, b: Value, *, left: bool = True, adjoint: bool = False) -> Value:
    """Return the solution of a @ y = b or y @ a = b, or of the same with a transposed, given the LU factors of a."""
    lower, upper = _triangles(lu)
    if not left:
        return T(linalg_lu_solve(lu, pivots, T(b), adjoint=not adjoint))
    p = _permutation(_orders(pivots, shape(lu)[-2]))
    if adjoint:
        return np.matmul(p, np.linalg.solve(T(lower), np.linalg.solve(T(upper), b)))
    return np.linalg.solve(upper, np.linalg.solve(lower, np.matmul(T(p), b)))
