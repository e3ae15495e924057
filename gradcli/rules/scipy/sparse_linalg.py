"""scipy.sparse.linalg: solving with a sparse matrix of plain numbers, and the exponential of one times a vector."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.errors import NoRule, NotSupported
from gradcli.rules.kinds import make_refusal
from gradcli.rules.scipy.linear import linear_map
from gradcli.rules.shaping import as_value
from gradcli.tracing.primitive import Value
from gradcli.tracing.tracer import is_differentiated

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


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "spsolve": lambda A, b, permc_spec=None, use_umfpack=True: np.linalg.solve(_dense_matrix(A, "spsolve"), as_value(b)),
    "spsolve_triangular": spsolve_triangular, "expm_multiply": expm_multiply,
    **{name: make_refusal(f"scipy.sparse.linalg.{name} stops at its own tolerance and is not traced", "spsolve")
       for name in ("cg", "cgs", "bicg", "bicgstab", "gmres", "lgmres", "minres", "qmr", "lsqr", "lsmr")},
}  # fmt: skip
