"""Functions of scipy.linalg as numpy's, whose rules are known. They read the triangle that scipy reads, and no other entry.

Where scipy and numpy may choose different signs, as for eigenvectors, those of scipy's plain result are taken.
"""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.errors import NoRule, NotSupported
from gradcli.rules import linalg
from gradcli.rules.kinds import make_refusal
from gradcli.rules.linalg import EIGENVECTOR_SIGNS, SINGULAR_VECTOR_SIGNS, T, relative_signs, symmetric_matrix
from gradcli.rules.shaping import as_value
from gradcli.tracing.primitive import F, Value
from gradcli.tracing.shapes import shape, size
from gradcli.tracing.tracer import plain_value

_SYMMETRIC = ("sym", "symmetric", "her", "hermitian", "pos", "positive definite")
_TRIANGLES = {"lower triangular": True, "upper triangular": False}
_MOST_ROWS = 64  # of an elimination that is recorded row by row
_TRANSPOSED = {0: False, "N": False, 1: True, "T": True, 2: True, "C": True}


def _take_triangle(a: Value, lower: bool, unit_diagonal: bool = False) -> Value:
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
    factor = _take_triangle(as_value(c), lower) if lower else T(_take_triangle(as_value(c), lower))
    return np.linalg.solve(T(factor), np.linalg.solve(factor, as_value(b)))


def solve_triangular(
    a: Value, b: Value, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False, overwrite_b: bool = False,
    check_finite: bool = True,
) -> Value:  # fmt: skip
    factor = _take_triangle(as_value(a), lower, unit_diagonal)
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
        a = symmetric_matrix(a, "solve", _uplo(lower))
    elif assume_a in _TRIANGLES:
        a = _take_triangle(a, _TRIANGLES[assume_a])
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
    x = np.linalg.solve(system, np.ravel(T(q)))  # scipy's Schur form loses small imaginary parts: no complex step
    return T(np.reshape(F.real(x), (columns, rows)))


def solve_discrete_lyapunov(a: Value, q: Value, method: str | None = None) -> Value:
    """Solve A X A^T - X + Q = 0 as a linear system for the entries of X."""
    a, q = as_value(a), as_value(q)
    n = shape(a)[-1]
    return np.reshape(F.real(np.linalg.solve(np.eye(n * n) - np.kron(a, a), np.ravel(q))), (n, n))


def eigh(
    a: Value, b: Value | None = None, *, lower: bool = True, eigvals_only: bool = False, subset_by_index: Any = None,
    **others: Any,
) -> Any:  # fmt: skip
    """Return eigenvalues and vectors of a symmetric matrix, or of A v = w B v, which the factor of B reduces to it."""
    if others.pop("type", 1) != 1:
        raise NoRule("scipy.linalg.eigh with type= has no derivative rule", do="multiply by the matrix first")
    _refuse_options("eigh", others, ("overwrite_a", "overwrite_b", "check_finite", "driver"))
    kept = slice(None) if subset_by_index is None else slice(subset_by_index[0], subset_by_index[1] + 1)
    s = symmetric_matrix(as_value(a), "eigh", _uplo(lower))
    if b is not None:
        factor = np.linalg.cholesky(symmetric_matrix(as_value(b), "eigh", _uplo(lower)))
        s = np.linalg.solve(factor, T(np.linalg.solve(factor, s)))
    values = np.linalg.eigvalsh(s)
    if eigvals_only:
        return values[..., kept]
    vectors = np.linalg.eigh(s)[1]
    if b is None:
        vectors = vectors * EIGENVECTOR_SIGNS(s, uplo="L")
    else:
        vectors = np.linalg.solve(T(factor), vectors)
        scipys = scipy_linalg().eigh(plain_value(as_value(a)), plain_value(as_value(b)), lower=lower)[1]
        vectors = vectors * relative_signs(scipys, plain_value(vectors))
    return values[..., kept], vectors[..., kept]


def scipy_linalg() -> Any:
    """Return scipy.linalg, which the program has imported."""
    return sys.modules["scipy.linalg"]


def svd(a: Value, full_matrices: bool = True, compute_uv: bool = True, **others: Any) -> Any:
    if not compute_uv:
        return np.linalg.svdvals(as_value(a))
    a = as_value(a)
    rows, columns = shape(a)[-2:]
    if full_matrices and rows != columns:
        raise NoRule(
            f"the singular vectors beyond the {min(rows, columns)} singular values are not determined by the matrix",
            do="scipy.linalg.svd(a, full_matrices=False)",
        )
    u, s, vt = np.linalg.svd(a, full_matrices=False)
    signs = SINGULAR_VECTOR_SIGNS(a)
    return u * signs, s, vt * T(signs)


def lu(
    a: Value, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True, p_indices: bool = False
) -> Any:
    """Return the factors by elimination, with the row exchanges that scipy chooses."""
    a = as_value(a)
    rows = scipy_linalg().lu(plain_value(a), p_indices=True)[0]
    lower, upper = _lu_factors(a[np.argsort(rows)])
    if permute_l:
        return lower[rows], upper
    return (rows if p_indices else np.eye(len(rows))[rows]), lower, upper


def _lu_factors(a: Value) -> tuple[Value, Value]:
    """Return the unit lower and the upper triangular factor of a matrix that needs no row exchanges."""
    rows, columns = shape(a)
    count = min(rows, columns)
    if count > _MOST_ROWS:
        raise NotSupported(f"an LU factorisation of more than {_MOST_ROWS} rows is not traced", do="scipy.linalg.solve")
    lower, upper = [], []
    for k in range(count):
        multipliers = a[:, k] / a[k, k]
        lower.append(np.concatenate([np.zeros(k), multipliers[k:]]))
        upper.append(np.concatenate([np.zeros(k), a[k, k:]]))
        a = a - multipliers[:, None] * a[k]
    return np.stack(lower, axis=-1), np.stack(upper)


def lu_factor(a: Value, overwrite_a: bool = False, check_finite: bool = True) -> tuple[Value, Any]:
    a = as_value(a)
    pivots = scipy_linalg().lu_factor(plain_value(a))[1]
    lower, upper = _lu_factors(a[_row_order(pivots)])
    return np.tril(lower, -1) + upper, pivots


def _row_order(pivots: Any) -> Any:
    """Return the order of the rows after the exchanges of row k with row pivots[k]."""
    order = np.arange(len(pivots))
    for k, other in enumerate(pivots):
        order[[k, other]] = order[[other, k]]
    return order


def lu_solve(lu_and_piv: Any, b: Value, trans: int = 0, overwrite_b: bool = False, check_finite: bool = True) -> Value:
    factors, pivots = lu_and_piv
    factors, b, order = as_value(factors), as_value(b), _row_order(pivots)
    lower, upper = _take_triangle(factors, True, unit_diagonal=True), _take_triangle(factors, False)
    if trans == 0:
        return np.linalg.solve(upper, np.linalg.solve(lower, b[order]))
    return np.linalg.solve(T(lower), np.linalg.solve(T(upper), b))[np.argsort(order)]


def lstsq(a: Value, b: Value, cond: Any = None, **others: Any) -> Any:
    """Return the solution, the squared residuals, the rank and the singular values."""
    _refuse_options("lstsq", others, ("overwrite_a", "overwrite_b", "check_finite", "lapack_driver"))
    y, residuals, rank, values = np.linalg.lstsq(as_value(a), as_value(b), cond)
    one = len(shape(as_value(b))) == 1 and size(residuals) == 1
    return y, residuals[0] if one else residuals, rank, values


def qr(
    a: Value, overwrite_a: bool = False, lwork: Any = None, mode: str = "full", pivoting: bool = False,
    check_finite: bool = True,
) -> Any:  # fmt: skip
    _refuse_options("qr", {"pivoting": pivoting}, ())
    numpys: Any = {"economic": "reduced", "full": "complete"}.get(mode, mode)
    found: Any = np.linalg.qr(as_value(a), numpys)
    return (found,) if mode == "r" else tuple(found)


def pinv(
    a: Value, *, atol: Any = None, rtol: Any = None, return_rank: bool = False, check_finite: bool = True
) -> Value:
    _refuse_options("pinv", {"atol": atol, "return_rank": return_rank}, ())
    return np.linalg.pinv(as_value(a), rtol=rtol) if rtol is not None else np.linalg.pinv(as_value(a))


def inv(a: Value, overwrite_a: bool = False, check_finite: bool = True, **others: Any) -> Value:
    _refuse_options("inv", others, ())
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
    # scipy's row is the conjugate: no complex step
    r = F.real(c) if r is None else np.ravel(as_value(r))
    rows, columns = shape(c)[0], shape(r)[0]
    along = np.concatenate([c[::-1], r[1:]])
    return along[rows - 1 - np.arange(rows)[:, None] + np.arange(columns)]


def circulant(c: Value) -> Value:
    c = np.ravel(as_value(c))
    n = shape(c)[0]
    return c[(np.arange(n)[:, None] - np.arange(n)) % n]


def hankel(c: Value, r: Value | None = None) -> Value:
    """Return the matrix with first column `c` and last row `r`, constant along antidiagonals."""
    c = np.ravel(as_value(c))
    r = np.zeros(shape(c)) if r is None else np.ravel(as_value(r))
    rows, columns = shape(c)[0], shape(r)[0]
    return np.concatenate([c, r[1:]])[np.arange(rows)[:, None] + np.arange(columns)]


def companion(a: Value) -> Value:
    """Return the matrix whose characteristic polynomial has the coefficients `a`."""
    a = as_value(a)
    n = shape(a)[-1] - 1
    return np.concatenate([np.reshape(-a[1:] / a[0], (1, n)), np.eye(n - 1, n)])


def khatri_rao(a: Value, b: Value) -> Value:
    """Return the Kronecker products of the columns of two matrices."""
    a, b = as_value(a), as_value(b)
    return np.reshape(a[:, None, :] * b[None, :, :], (-1, shape(b)[-1]))


def solve_toeplitz(c_or_cr: Any, b: Value, check_finite: bool = True) -> Value:
    first = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr,)
    return np.linalg.solve(toeplitz(*first), as_value(b))


def solve_circulant(c: Value, b: Value, **others: Any) -> Value:
    _refuse_options("solve_circulant", others, ())
    x = np.linalg.solve(circulant(c), as_value(b))
    return F.real(x)  # by a Fourier transform in scipy: no complex step


def solveh_banded(
    ab: Value, b: Value, overwrite_ab: bool = False, overwrite_b: bool = False, lower: bool = False,
    check_finite: bool = True,
) -> Value:  # fmt: skip
    """Solve with the symmetric matrix whose bands on one side of the diagonal are the rows of `ab`."""
    ab = as_value(ab)
    count, n = shape(ab)
    rows = [ab[k, : n - k] if lower else ab[count - 1 - k, k:] for k in range(count)]
    matrix = np.diag(rows[0])
    for k in range(1, count):
        matrix = matrix + np.diag(rows[k], k) + np.diag(rows[k], -k)
    return np.linalg.solve(matrix, as_value(b))


def _matrix_function_stand_in(function: Callable[[Value], Value]) -> Callable[..., Value]:
    """Return the stand-in of a function of a square matrix."""

    def stand_in(A: Value, disp: Any = True, blocksize: Any = None) -> Value:
        if disp is not True:
            says = f"scipy.linalg.{function.__name__} with disp= returns an error estimate, and is not traced"
            raise NoRule(says, do="leave disp= out")
        return function(A)

    return stand_in


def _refuse_options(name: str, options: dict[str, Any], harmless: tuple[str, ...]) -> None:
    """Raise NoRule for an option that changes the result and that the rule does not know."""
    for option, value in options.items():
        if option not in harmless and value is not None and value is not False:
            raise NoRule(f"scipy.linalg.{name} with {option}= has no derivative rule", do=f"leave {option}= out")


_solve_lyapunov: Any = lambda a, q: solve_sylvester(a, T(as_value(a)), q)
_LINALG: dict[str, Callable[..., Any]] = {
    "cholesky": cholesky, "cho_factor": cho_factor, "cho_solve": cho_solve, "solve_triangular": solve_triangular, "solve": solve,
    "solve_banded": solve_banded, "solve_sylvester": solve_sylvester, "solve_discrete_lyapunov": solve_discrete_lyapunov,
    "eigh": eigh, "svd": svd, "qr": qr, "pinv": pinv, "inv": inv,
    "solve_continuous_lyapunov": _solve_lyapunov, "solve_lyapunov": _solve_lyapunov,
    "eigvalsh": lambda a, b=None, *, lower=True, **others: eigh(a, b, lower=lower, eigvals_only=True, **others),
    "norm": lambda a, ord=None, axis=None, keepdims=False, check_finite=True:
        np.linalg.norm(as_value(a), ord, axis, keepdims),
    "svdvals": lambda a, overwrite_a=False, check_finite=True: np.linalg.svdvals(as_value(a)),
    "det": lambda a, overwrite_a=False, check_finite=True: np.linalg.det(as_value(a)),
    "block_diag": block_diag, "toeplitz": toeplitz, "circulant": circulant,
    "eig": make_refusal("scipy.linalg.eig has no derivative rule", "np.linalg.eigh of a symmetric matrix"),
    "eigvals": make_refusal("scipy.linalg.eigvals has no derivative rule", "np.linalg.eigvalsh of a symmetric matrix"),
    **{f.__name__: _matrix_function_stand_in(f) for f in (linalg.expm, linalg.logm, linalg.sqrtm)},
    "lu": lu, "lu_factor": lu_factor, "lu_solve": lu_solve, "lstsq": lstsq, "hankel": hankel, "companion": companion,
    "khatri_rao": khatri_rao, "solve_toeplitz": solve_toeplitz, "solve_circulant": solve_circulant,
    "solveh_banded": solveh_banded,
}  # fmt: skip

FUNCTIONS = {"linalg": _LINALG}
