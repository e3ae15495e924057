"""Linear algebra: products, solutions, factors, determinants, distances, and the matrix exponential."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcli.frameworks.ops.matrices import lu, permutation, triangle
from gradcli.frameworks.torch.aten.rows import aten, missing_rule, register, scale_by
from gradcli.rules.linalg import T, symmetric_matrix
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import plain_value


def _scaled_sum(c: Value, product: Value, beta: float, alpha: float) -> Value:
    """Return beta * c + alpha * product; if beta is 0, only the shape of c matters."""
    y = scale_by(product, alpha)
    return y + np.zeros(np.broadcast_shapes(shape(c), shape(y))) if beta == 0 else scale_by(c, beta) + y


# fmt: off
register({
    "addmm": lambda c, a, b, *, beta=1, alpha=1: _scaled_sum(c, np.matmul(a, b), beta, alpha),
    "addbmm": lambda c, a, b, *, beta=1, alpha=1: _scaled_sum(c, np.sum(np.matmul(a, b), axis=0), beta, alpha),
    "linalg_inv_ex": lambda a, *, check_errors=False: (np.linalg.inv(a), _zero_error_codes(a)), 
    "_linalg_det": lambda a: (np.linalg.det(a), None, None), 
    "linalg_qr": lambda a, mode="reduced": _qr(a, mode), "linalg_pinv": lambda a, *args, **kwargs: _pinv(a, *args, **kwargs),
    "_linalg_check_errors": lambda info, api_name, *, is_matrix: (), 
    "linalg_matrix_exp": lambda a: _matrix_exp(a),
})
# fmt: on


def _zero_error_codes(a: Value) -> Any:
    return np.zeros(shape(a)[:-2], dtype=np.int32)


@aten("_linalg_slogdet")
def slogdet(a: Value) -> Any:
    """Return the sign of a determinant, and the logarithm of its absolute value."""
    sign, size = np.linalg.slogdet(a)
    return plain_value(sign), size, None, None


@aten()
def linalg_cholesky_ex(a: Value, *, upper: bool = False, check_errors: bool = False) -> Any:
    """Return the Cholesky factor of a positive definite matrix, and zeros as error codes."""
    return cholesky(a, upper), _zero_error_codes(a)


@aten()
def cholesky(a: Value, upper: bool = False) -> Value:
    """Return the Cholesky factor of a positive definite matrix, of which only one triangle is read."""
    y = np.linalg.cholesky(T(a) if upper else a)
    return T(y) if upper else y


@aten("_linalg_solve_ex")
def solve_ex(a: Value, b: Value, *, left: bool = True, check_errors: bool = False) -> Any:
    """Return the solution of a @ y = b or y @ a = b; b is a vector, or a stack of them, if it has one axis less than a."""
    vector = len(shape(b)) == 1 or (len(shape(b)) == len(shape(a)) - 1 and shape(b) == shape(a)[:-1])
    right = b[..., None] if vector else b
    y = np.linalg.solve(a, right) if left else T(np.linalg.solve(T(a), T(right)))
    return (np.reshape(y, shape(y)[:-1]) if vector else y), None, None, _zero_error_codes(a)


@aten()
def linalg_solve_triangular(
    a: Value, b: Value, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Value:
    """Return the solution of a @ y = b or y @ a = b; only one triangle of a is read."""
    a = triangle(a, not upper, unitriangular)
    return np.linalg.solve(a, b) if left else T(np.linalg.solve(T(a), T(b)))


@aten()
def triangular_solve(
    b: Value, a: Value, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> tuple[Value, Value]:
    """Return the solution of a @ y = b, and a; only one triangle of a is read."""
    t = triangle(a, not upper, unitriangular)
    return np.linalg.solve(T(t) if transpose else t, b), a


@aten()
def cholesky_solve(b: Value, factor: Value, upper: bool = False) -> Value:
    """Return the solution of a @ y = b, given the Cholesky factor of a."""
    t = triangle(factor, not upper, False)
    first, second = (T(t), t) if upper else (t, T(t))
    return np.linalg.solve(second, np.linalg.solve(first, b))


@aten()
def cholesky_inverse(factor: Value, upper: bool = False) -> Value:
    """Return the inverse of a matrix, given its Cholesky factor."""
    t = triangle(factor, not upper, False)
    return np.linalg.inv(np.matmul(T(t), t) if upper else np.matmul(t, T(t)))


@aten("_linalg_eigh")
def eigh(a: Value, uplo: Any = "L", compute_v: bool = True) -> Any:
    """Return eigenvalues and eigenvectors of a symmetric matrix, of which only one triangle is read."""
    return tuple(np.linalg.eigh(a, uplo)) if compute_v else (np.linalg.eigvalsh(a, uplo), None)


@aten("_linalg_svd")
def svd(a: Value, full_matrices: bool = False, compute_uv: bool = True, *, driver: Any = None) -> Any:
    """Return left singular vectors, singular values and right singular vectors."""
    if not compute_uv:
        return None, np.linalg.svdvals(a), None
    return tuple(np.linalg.svd(a, full_matrices=full_matrices and shape(a)[-1] != shape(a)[-2]))


def _qr(a: Value, mode: Any) -> Any:
    if mode == "r":
        return np.zeros(0), np.linalg.qr(a, "r")
    return tuple(np.linalg.qr(a, mode))


def _pinv(
    a: Value, *args: Any, atol: Any = None, rtol: Any = None, rcond: Any = None, hermitian: bool = False
) -> Value:
    """Return the pseudo-inverse; singular values below a cutoff, given or numpy's default, count as 0."""
    if hermitian:
        a = symmetric_matrix(a, "pinv")
    given = [x for x in (*args, rcond, rtol) if isinstance(x, float | np.ndarray)]
    least = np.max(np.abs(plain_value(given[0]))) if given else max(shape(a)[-2:]) * float(np.finfo(np.float64).eps)
    if atol is not None:
        absolute = float(np.max(plain_value(atol) / np.max(np.linalg.svdvals(plain_value(a)), axis=-1)))
        least = max(float(least) if given else 0.0, absolute)
    return np.linalg.pinv(a, rcond=float(least))


@aten("_euclidean_dist")
def euclidean(a: Value, b: Value) -> Value:
    """Return the distances of every row of a and every row of b; torch's own formula cancels for rows that are close."""
    return cdist(a, b, 2.0)


@aten("_cdist_forward")
def cdist(a: Value, b: Value, p: float, compute_mode: Any = None) -> Value:
    """Return the p-norms of the differences of every row of a and every row of b.

    Shapes  a (..., m, k), b (..., n, k); the result (..., m, n).
    """
    return np.linalg.vector_norm(a[..., :, None, :] - b[..., None, :, :], ord=float(p), axis=-1)


@aten("_pdist_forward")
def pdist(a: Value, p: float = 2) -> Value:
    """Return the p-norms of the differences of all pairs of rows, as a vector."""
    first, second = np.triu_indices(shape(a)[0], 1)
    return np.linalg.vector_norm(a[first] - a[second], ord=float(p), axis=-1)


@aten("_trilinear")
def trilinear(
    a: Value, b: Value, c: Value, expand1: Any, expand2: Any, expand3: Any, sumdim: Any, unroll_dim: int = 1
) -> Value:
    """Return the product of three arrays, each with new axes, summed over axes."""
    for x, new in ((a, expand1), (b, expand2), (c, expand3)):
        if len(shape(x)) + len(new) != len(shape(a)) + len(expand1):
            raise missing_rule("a trilinear product of these shapes")
    a, b, c = (np.expand_dims(x, tuple(new)) if new else x for x, new in ((a, expand1), (b, expand2), (c, expand3)))
    return np.sum(a * b * c, axis=tuple(sumdim)) if sumdim else a * b * c


TERMS = 24  # of the Taylor series of exp, for a norm of 1/2 at most: the next one is below 1e-32


def _matrix_exp(a: Value) -> Value:
    """Return the exponential of a matrix by scaling and squaring, with a Taylor series of the scaled matrix.

    Source  Moler and Van Loan (2003), Nineteen dubious ways to compute the exponential of a matrix, method 3.
    """
    length = float(np.max(np.sum(np.abs(plain_value(a)), axis=-1), initial=0.0))
    halvings = max(0, int(np.ceil(np.log2(length))) + 1) if length > 0 else 0
    small = a / 2.0**halvings
    eye = np.eye(shape(a)[-1])
    y: Value = np.broadcast_to(eye, shape(a))
    for k in range(TERMS, 0, -1):
        y = eye + np.matmul(small, y) / k
    for _ in range(halvings):
        y = np.matmul(y, y)
    return y


@aten()
def linalg_householder_product(a: Value, tau: Value) -> Value:
    """Return the first columns of a product of Householder reflections, with vectors below the diagonal of a."""
    rows, columns = shape(a)[-2:]
    y: Value = np.eye(rows, columns)
    for k in range(shape(tau)[-1] - 1, -1, -1):
        below = np.arange(rows) > k
        v = np.where(below, a[..., :, k], 0.0) + (np.arange(rows) == k) * 1.0
        y = y - np.reshape(tau[..., k], (*shape(tau)[:-1], 1, 1)) * v[..., :, None] * np.matmul(v[..., None, :], y)
    return y


@aten()
def linalg_lstsq(a: Value, b: Value, rcond: Any = None, *, driver: Any = None) -> Any:
    """Return the least-squares solution for full rank, and the squared residuals if the driver returns them."""
    vector = len(shape(b)) == len(shape(a)) - 1
    right = b[..., None] if vector else b
    y = np.matmul(np.linalg.pinv(a), right)
    tall = shape(a)[-2] > shape(a)[-1] and driver in ("gels", "gelsd", "gelss")
    residuals = np.sum(np.square(np.matmul(a, y) - right), axis=-2) if tall else np.zeros(0)
    return (np.reshape(y, shape(y)[:-1]) if vector else y), residuals, None, None


# LU factors, and linear solves with them.


def _lower_and_upper(lu: Value) -> tuple[Value, Value]:
    """Return L with ones on its diagonal, and U."""
    rows, columns = shape(lu)[-2:]
    n = min(rows, columns)
    return np.tril(lu[..., :n], -1) + np.eye(rows, n), np.triu(lu[..., :n, :])


def _permutation_matrices(pivots: Any, rows: int) -> Any:
    """Return the matrices P with P @ (reordered rows) = (original rows), after all exchanges, which torch counts from 1."""
    return T(np.eye(rows)[permutation(np.asarray(pivots) - 1, rows)])


@aten()
def linalg_lu_factor_ex(a: Value, *, pivot: bool = True, check_errors: bool = False) -> Any:
    """Return the LU factors in one matrix, the row exchanges counted from 1, and zeros as error codes."""
    factors, exchanges, _ = lu(a, pivot)
    return factors, exchanges + 1, _zero_error_codes(a)


@aten()
def linalg_lu(a: Value, *, pivot: bool = True) -> Any:
    """Return the permutation, L and U."""
    lu, pivots, _ = linalg_lu_factor_ex(a, pivot=pivot)
    p = _permutation_matrices(pivots, shape(a)[-2]) if pivot else np.zeros(0)
    return p, *_lower_and_upper(lu)


@aten()
def lu_unpack(lu: Value, pivots: Any, unpack_data: bool = True, unpack_pivots: bool = True) -> Any:
    """Return the permutation, L and U from the LU factors in one matrix."""
    p = _permutation_matrices(pivots, shape(lu)[-2]) if unpack_pivots else np.zeros(0)
    return p, *(_lower_and_upper(lu) if unpack_data else (np.zeros(0), np.zeros(0)))


@aten()
def linalg_lu_solve(lu: Value, pivots: Any, b: Value, *, left: bool = True, adjoint: bool = False) -> Value:
    """Return the solution of a @ y = b or y @ a = b, or of the same with a transposed, given the LU factors of a."""
    lower, upper = _lower_and_upper(lu)
    if not left:
        return T(linalg_lu_solve(lu, pivots, T(b), adjoint=not adjoint))
    p = _permutation_matrices(pivots, shape(lu)[-2])
    if adjoint:
        return np.matmul(p, np.linalg.solve(T(lower), np.linalg.solve(T(upper), b)))
    return np.linalg.solve(upper, np.linalg.solve(lower, np.matmul(T(p), b)))


# Fourier transforms and complex numbers.

# numpy's name for torch's 0 (as is), 1 (1 / sqrt(n)) and 2 (1 / n)
FORWARD: tuple[Any, ...] = ("backward", "ortho", "forward")
BACKWARD: tuple[Any, ...] = ("forward", "ortho", "backward")


def _real_to_complex(x: Value, dim: Sequence[int], normalization: int, onesided: bool) -> Value:
    transform = np.fft.rfftn if onesided else np.fft.fftn
    return transform(x, axes=tuple(dim), norm=FORWARD[normalization])


def _complex_to_real(x: Value, dim: Sequence[int], normalization: int, last_dim_size: int) -> Value:
    sizes = [shape(x)[k] for k in dim[:-1]] + [int(last_dim_size)]
    return np.fft.irfftn(x, s=sizes, axes=tuple(dim), norm=BACKWARD[normalization])


def _complex_to_complex(x: Value, dim: Sequence[int], normalization: int, forward: bool) -> Value:
    if forward:
        return np.fft.fftn(x, axes=tuple(dim), norm=FORWARD[normalization])
    return np.fft.ifftn(x, axes=tuple(dim), norm=BACKWARD[normalization])


# fmt: off
register({
    "_fft_r2c": _real_to_complex, "_fft_c2r": _complex_to_real, "_fft_c2c": _complex_to_complex,
    "conj_physical": np.conj, "_conj": np.conj, "conj": np.conj, "_conj_physical": np.conj,
    "complex": lambda re, im: re + 1j * im, "polar": lambda size, angle: size * np.cos(angle) + 1j * (size * np.sin(angle)),
    "view_as_real": lambda x: np.stack([np.real(x), np.imag(x)], axis=-1),
    "view_as_complex": lambda x: x[..., 0] + 1j * x[..., 1],
    "real": np.real, "imag": np.imag,
})
# fmt: on
