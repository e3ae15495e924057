"""scipy.sparse and scipy.sparse.linalg: products and solutions with a sparse matrix of plain numbers."""

import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradcli.errors import NoRule, NotSupported
from gradcli.rules.kinds import make_refusal
from gradcli.rules.scipy.linear import linear_map
from gradcli.rules.shaping import GETITEM, SCATTER, as_value
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import is_differentiated

_DENSE = 1_000_000  # entries of a matrix up to which the dense product is recorded


def sparse_product(a: Any, x: Value) -> Value:
    """Return the product of a sparse matrix with a vector or a matrix."""
    x = as_value(x)
    if len(shape(x)) == 0:
        raise NoRule("a sparse matrix times a traced number is not traced", do="multiply the vector by the number")
    if np.prod(a.shape, dtype=float) <= _DENSE:
        return np.matmul(a.toarray(), x)
    entries = a.tocoo()
    rows, columns = entries.coords
    terms = GETITEM(x, index=columns) * np.reshape(entries.data, (-1,) + (1,) * (len(shape(x)) - 1))
    return SCATTER(terms, index=rows, into=(a.shape[0], *shape(x)[1:]))


def _reflected_product(a: Any, x: Value) -> Value:
    """Return the product of a vector or a matrix with a sparse matrix."""
    return np.transpose(sparse_product(a.T, np.transpose(as_value(x))))


_refuse_traced_entries = make_refusal(
    "a sparse matrix of traced entries is not traced",
    "make a dense one: np.diag(v), or A = np.zeros((n, n)) and A[i, j] = v",
)


def methods() -> Iterator[tuple[type, str, Callable[..., Any]]]:
    from scipy.sparse import _base, _compressed, _coo, _dia, _matrix

    yield _base._spbase, "__matmul__", sparse_product
    yield _base._spbase, "__rmatmul__", _reflected_product
    yield _base._spbase, "dot", sparse_product
    says = "the entrywise product of a sparse and a traced array is not traced"
    yield _base._spbase, "multiply", make_refusal(says, "multiply by A.toarray()")
    yield _matrix.spmatrix, "__mul__", sparse_product
    yield _matrix.spmatrix, "__rmul__", _reflected_product
    for module, owner in ((_compressed, "_cs_matrix"), (_coo, "_coo_base"), (_dia, "_dia_base")):
        if hasattr(module, owner):
            yield getattr(module, owner), "__init__", _refuse_traced_entries


_SPARSE: dict[str, Callable[..., Any]] = dict.fromkeys(("diags", "diags_array", "spdiags"), _refuse_traced_entries)


# scipy.sparse.linalg: solving with a sparse matrix of plain numbers, and the exponential of one times a vector.

_MOST_ROWS = 2_000  # of a matrix that is recorded as a dense one


def spsolve_triangular(
    A: Any, b: Value, lower: bool = True, overwrite_A: bool = False, overwrite_b: bool = False,
    unit_diagonal: bool = False,
) -> Value:  # fmt: skip
    a = _dense_matrix(A, "spsolve_triangular")
    a = np.tril(a) if lower else np.triu(a)
    return np.linalg.solve(a - np.diag(np.diag(a)) + np.eye(len(a)) if unit_diagonal else a, as_value(b))


def _dense_matrix(a: Any, name: str) -> Any:
    """Return a sparse matrix as a dense one.

    Raises  NoRule if it is traced; NotSupported if it is too large.
    """
    if is_differentiated(a):
        raise NoRule(f"scipy.sparse.linalg.{name} of a traced matrix has no derivative rule", do="np.linalg.solve")
    if a.shape[0] > _MOST_ROWS:
        raise NotSupported(
            f"scipy.sparse.linalg.{name} is recorded for up to {_MOST_ROWS:,} rows, not {a.shape[0]:,}",
            do="check it for a smaller system",
        )
    return a.toarray() if hasattr(a, "toarray") else np.asarray(a)


def expm_multiply(A: Any, B: Value, **others: Any) -> Value:
    if is_differentiated(A):
        says = "scipy.sparse.linalg.expm_multiply has no derivative rule by the matrix"
        raise NoRule(says, do="scipy.linalg.expm(A) @ B")
    multiply = sys.modules["scipy.sparse.linalg"].expm_multiply
    return linear_map(lambda v: multiply(A, v, **others), B, "scipy.sparse.linalg.expm_multiply")


_LINALG: dict[str, Callable[..., Any]] = {
    "spsolve": lambda A, b, permc_spec=None, use_umfpack=True: np.linalg.solve(_dense_matrix(A, "spsolve"), as_value(b)),
    "spsolve_triangular": spsolve_triangular, "expm_multiply": expm_multiply,
    **{name: make_refusal(f"scipy.sparse.linalg.{name} stops at its own tolerance and is not traced", "spsolve")
       for name in ("cg", "cgs", "bicg", "bicgstab", "gmres", "lgmres", "minres", "qmr", "lsqr", "lsmr")},
}  # fmt: skip

FUNCTIONS = {"sparse": _SPARSE, "sparse.linalg": _LINALG}
