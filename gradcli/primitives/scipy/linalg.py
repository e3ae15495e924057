"""Functions of scipy.linalg as numpy's, whose rules are known. They read the triangle that scipy reads, and no other entry.

scipy's functions reach none of numpy's protocols; `source/standin.py` puts these in their place while the user's code is
traced. Where scipy and numpy may choose different signs, as for eigenvectors, there is no such function.
"""

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.shapes import shape
from gradcli.errors import NoRule
from gradcli.primitives.decompositions import symmetric
from gradcli.primitives.linalg import T
from gradcli.primitives.shaping import as_value

_SYMMETRIC = ("sym", "symmetric", "her", "hermitian", "pos", "positive definite")
_TRIANGLES = {"lower triangular": True, "upper triangular": False}
_TRANSPOSED = {0: False, "N": False, 1: True, "T": True, 2: True, "C": True}


def _triangle(a: Value, lower: bool, unit_diagonal: bool = False) -> Value:
    if unit_diagonal:
        strict = np.tril(a, -1) if lower else np.triu(a, 1)
        return strict + np.eye(shape(a)[-1])
    return np.tril(a) if lower else np.triu(a)


def _uplo(lower: bool) -> Any:
    return "L" if lower else "U"


def cholesky(a: Value, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Value:
    return np.linalg.cholesky(as_value(a), upper=not lower)


def cho_factor(
    a: Value, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Value, bool]:
    """Return the factor in its triangle, and in the other one the entries of `a`, as scipy does."""
    a = as_value(a)
    other = np.triu(a, 1) if lower else np.tril(a, -1)
    return cholesky(a, lower) + other, lower


def cho_solve(c_and_lower: tuple[Value, bool], b: Value, overwrite_b: bool = False, check_finite: bool = True) -> Value:
    c, lower = c_and_lower
    factor = _triangle(as_value(c), lower) if lower else T(_triangle(as_value(c), lower))
    return np.linalg.solve(T(factor), np.linalg.solve(factor, as_value(b)))


def solve_triangular(
    a: Value, b: Value, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False, overwrite_b: bool = False,
    check_finite: bool = True,
) -> Value:  # fmt: skip
    factor = _triangle(as_value(a), lower, unit_diagonal)
    return np.linalg.solve(T(factor) if _TRANSPOSED[trans] else factor, as_value(b))


def solve(
    a: Value, b: Value, lower: bool = False, overwrite_a: bool = False, overwrite_b: bool = False, check_finite: bool = True,
    assume_a: str | None = None, transposed: bool = False,
) -> Value:  # fmt: skip
    """Solve a linear system; of a matrix that is assumed to be symmetric or triangular only one triangle is read.

    Raises  NoRule for other assumptions.
    """
    a = as_value(a)
    if assume_a in _SYMMETRIC:
        a = symmetric(a, "solve", _uplo(lower))
    elif assume_a in _TRIANGLES:
        a = _triangle(a, _TRIANGLES[assume_a])
    elif assume_a not in (None, "gen", "general"):
        raise NoRule(f"scipy.linalg.solve with assume_a={assume_a!r} has no derivative rule", do="leave assume_a out")
    return np.linalg.solve(T(a) if transposed else a, as_value(b))


def solve_banded(
    l_and_u: tuple[int, int], ab: Value, b: Value, overwrite_ab: bool = False, overwrite_b: bool = False,
    check_finite: bool = True,
) -> Value:  # fmt: skip
    """Solve with the matrix that the bands make: row u - k of `ab` holds its k-th diagonal."""
    ab, (below, above) = as_value(ab), l_and_u
    n = shape(ab)[-1]
    bands = [np.diag(ab[above - k, max(k, 0) : n + min(k, 0)], k) for k in range(-below, above + 1)]
    return np.linalg.solve(sum(bands[1:], bands[0]), as_value(b))


def solve_sylvester(a: Value, b: Value, q: Value) -> Value:
    """Solve A X + X B = Q as a linear system for the columns of X, one below the other."""
    a, b, q = as_value(a), as_value(b), as_value(q)
    rows, columns = shape(q)
    system = np.kron(np.eye(columns), a) + np.kron(T(b), np.eye(rows))
    return T(np.reshape(np.linalg.solve(system, np.ravel(T(q))), (columns, rows)))


def solve_continuous_lyapunov(a: Value, q: Value) -> Value:
    return solve_sylvester(a, T(as_value(a)), q)


def solve_discrete_lyapunov(a: Value, q: Value, method: str | None = None) -> Value:
    """Solve A X A^T - X + Q = 0 as a linear system for the entries of X."""
    a, q = as_value(a), as_value(q)
    n = shape(a)[-1]
    return np.reshape(np.linalg.solve(np.eye(n * n) - np.kron(a, a), np.ravel(q)), (n, n))


def eigvalsh(a: Value, b: Value | None = None, *, lower: bool = True, **others: Any) -> Value:
    _refuse("eigvalsh", {"b": b, **others}, ("overwrite_a", "overwrite_b", "check_finite", "driver", "type"))
    return np.linalg.eigvalsh(as_value(a), _uplo(lower))


def eigh(a: Value, b: Value | None = None, *, lower: bool = True, eigvals_only: bool = False, **others: Any) -> Value:
    if not eigvals_only:
        raise NoRule(
            "the signs of the eigenvectors of scipy.linalg.eigh are not known to the rule",
            do="np.linalg.eigh, or eigvals_only=True",
        )
    return eigvalsh(a, b, lower=lower, **others)


def svdvals(a: Value, overwrite_a: bool = False, check_finite: bool = True) -> Value:
    return np.linalg.svdvals(as_value(a))


def svd(a: Value, full_matrices: bool = True, compute_uv: bool = True, **others: Any) -> Value:
    if compute_uv:
        raise NoRule(
            "the signs of the singular vectors of scipy.linalg.svd are not known to the rule",
            do="np.linalg.svd(a, full_matrices=False), or compute_uv=False",
        )
    return svdvals(a)


def qr(
    a: Value, overwrite_a: bool = False, lwork: Any = None, mode: str = "full", pivoting: bool = False,
    check_finite: bool = True,
) -> Any:  # fmt: skip
    _refuse("qr", {"pivoting": pivoting}, ())
    numpys: Any = {"economic": "reduced", "full": "complete"}.get(mode, mode)
    found: Any = np.linalg.qr(as_value(a), numpys)
    return (found,) if mode == "r" else tuple(found)


def pinv(
    a: Value, *, atol: Any = None, rtol: Any = None, return_rank: bool = False, check_finite: bool = True
) -> Value:
    _refuse("pinv", {"atol": atol, "return_rank": return_rank}, ())
    return np.linalg.pinv(as_value(a), rtol=rtol) if rtol is not None else np.linalg.pinv(as_value(a))


def norm(a: Value, ord: Any = None, axis: Any = None, keepdims: bool = False, check_finite: bool = True) -> Value:
    return np.linalg.norm(as_value(a), ord, axis, keepdims)


def det(a: Value, overwrite_a: bool = False, check_finite: bool = True) -> Value:
    return np.linalg.det(as_value(a))


def inv(a: Value, overwrite_a: bool = False, check_finite: bool = True, **others: Any) -> Value:
    _refuse("inv", others, ())
    return np.linalg.inv(as_value(a))


def block_diag(*arrays: Value) -> Value:
    """Return the matrices along the diagonal of one; a vector is a row."""
    blocks = [np.atleast_2d(as_value(x)) for x in arrays]
    return np.block([
        [x if i == j else np.zeros((shape(x)[0], shape(y)[1])) for j, y in enumerate(blocks)] for i, x in enumerate(blocks)
    ])  # fmt: skip


def toeplitz(c: Value, r: Value | None = None) -> Value:
    """Return the matrix with first column `c` and first row `r`, which are constant along diagonals."""
    c = np.ravel(as_value(c))
    r = c if r is None else np.ravel(as_value(r))
    rows, columns = shape(c)[0], shape(r)[0]
    along = np.concatenate([c[::-1], r[1:]])
    return along[rows - 1 - np.arange(rows)[:, None] + np.arange(columns)]


def circulant(c: Value) -> Value:
    c = np.ravel(as_value(c))
    n = shape(c)[0]
    return c[(np.arange(n)[:, None] - np.arange(n)) % n]


def _refuse(name: str, options: dict[str, Any], harmless: tuple[str, ...]) -> None:
    """Raise NoRule for an option that changes the result and that the rule does not know."""
    for option, value in options.items():
        if option not in harmless and value is not None and value is not False:
            raise NoRule(f"scipy.linalg.{name} with {option}= has no derivative rule", do=f"leave {option}= out")


def _refused(name: str, do: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NoRule(f"scipy.linalg.{name} has no derivative rule", do=do)

    return refuse


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cholesky": cholesky, "cho_factor": cho_factor, "cho_solve": cho_solve, "solve_triangular": solve_triangular, "solve": solve,
    "solve_banded": solve_banded, "solve_sylvester": solve_sylvester, "solve_continuous_lyapunov": solve_continuous_lyapunov,
    "solve_lyapunov": solve_continuous_lyapunov, "solve_discrete_lyapunov": solve_discrete_lyapunov, "eigvalsh": eigvalsh,
    "eigh": eigh, "svdvals": svdvals, "svd": svd, "qr": qr, "pinv": pinv, "norm": norm, "det": det, "inv": inv,
    "block_diag": block_diag, "toeplitz": toeplitz, "circulant": circulant,
    "eig": _refused("eig", "np.linalg.eigh of a symmetric matrix"),
    "eigvals": _refused("eigvals", "np.linalg.eigvalsh of a symmetric matrix"),
    "expm": _refused("expm", "give your own gradient to check: --grad"),
    "logm": _refused("logm", "give your own gradient to check: --grad"),
    "sqrtm": _refused("sqrtm", "give your own gradient to check: --grad"),
    "lu": _refused("lu", "np.linalg.solve"),
    "lu_factor": _refused("lu_factor", "np.linalg.solve"),
    "lstsq": _refused("lstsq", "np.linalg.lstsq"),
}  # fmt: skip
