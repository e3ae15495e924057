"""Products, factorisations and solutions of matrices, and Fourier transforms."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.shapes import shape
from gradcli.frameworks.ops.elimination import lu, triangle, tridiagonal_solve
from gradcli.frameworks.tensorflow.ops.shaping import sizes_of
from gradcli.primitives.linalg import T

Entry = Callable[..., Any]


def H(a: Value) -> Value:
    """Return the conjugate transpose of the last two axes."""
    return T(np.conjugate(a))


def matmul(a: Value, b: Value, *, transpose_a: bool = False, transpose_b: bool = False, **attrs: Any) -> Value:
    """Return the product of two matrices."""
    return np.matmul(T(a) if transpose_a else a, T(b) if transpose_b else b)


def batch_matmul(a: Value, b: Value, *, adj_x: bool = False, adj_y: bool = False, **attrs: Any) -> Value:
    """Return products of stacks of matrices."""
    return np.matmul(H(a) if adj_x else a, H(b) if adj_y else b)


def solve(a: Value, b: Value, *, adjoint: bool = False, **attrs: Any) -> Value:
    """Solve a y = b for y."""
    return np.linalg.solve(H(a) if adjoint else a, b)


def triangular_solve(a: Value, b: Value, *, lower: bool = True, adjoint: bool = False, **attrs: Any) -> Value:
    """Solve a y = b for y; only one triangle of `a` is read."""
    half = triangle(a, lower, False)
    return np.linalg.solve(H(half) if adjoint else half, b)


def least_squares(a: Value, b: Value, damping: Any, **attrs: Any) -> Value:
    """Return the y of least norm among those that minimise |a y - b|^2 + damping |y|^2."""
    rows, columns = shape(a)[-2:]
    if float(damping) == 0:
        return np.matmul(np.linalg.pinv(a), b)
    if rows >= columns:
        return np.linalg.solve(np.matmul(T(a), a) + damping * np.eye(columns), np.matmul(T(a), b))
    return np.matmul(T(a), np.linalg.solve(np.matmul(a, T(a)) + damping * np.eye(rows), b))


def eigh(a: Value, *, compute_v: bool = True, **attrs: Any) -> tuple[Value, Value]:
    """Return eigenvalues and eigenvectors."""
    if not compute_v:
        return np.linalg.eigvalsh(a), np.zeros(0)
    w, v = np.linalg.eigh(a)
    return w, v


def svd(a: Value, *, compute_uv: bool = True, full_matrices: bool = False, **attrs: Any) -> tuple[Value, Value, Value]:
    """Return the singular values, U and V; the singular vectors are columns."""
    if not compute_uv:
        return np.linalg.svd(a, compute_uv=False), np.zeros(0), np.zeros(0)
    u, s, vt = np.linalg.svd(a, full_matrices=full_matrices)
    return s, u, H(vt)


def lu_factors(a: Value, *, output_idx_type: Any, **attrs: Any) -> tuple[Value, Any]:
    """Return the LU factors of `a` in one matrix, and the order of its rows."""
    factors, _, order = lu(a)
    return factors, order.astype(output_idx_type.as_numpy_dtype)


def transformed(function: Entry, axes: int) -> Entry:
    """Return an entry for a Fourier transform over the last axes; its second input gives the lengths."""

    def transform(x: Value, lengths: Any = None, **attrs: Any) -> Value:
        over = tuple(range(-axes, 0))
        return function(x, axes=over) if lengths is None else function(x, s=sizes_of(lengths), axes=over)

    return transform


TABLE: dict[str, Entry] = {
    "MatMul": matmul, "BatchMatMul": batch_matmul, "BatchMatMulV2": batch_matmul, "BatchMatMulV3": batch_matmul,
    "Einsum": lambda *xs, equation, **attrs: np.einsum(equation.decode() if isinstance(equation, bytes) else equation, *xs),
    "Cross": lambda a, b, **attrs: np.linalg.cross(a, b), "Cholesky": lambda a, **attrs: np.linalg.cholesky(a),
    "MatrixSolve": solve, "MatrixTriangularSolve": triangular_solve, "MatrixSolveLs": least_squares,
    "MatrixInverse": lambda a, *, adjoint=False, **attrs: np.linalg.inv(H(a) if adjoint else a),
    "MatrixDeterminant": lambda a, **attrs: np.linalg.det(a),
    "LogMatrixDeterminant": lambda a, **attrs: tuple(np.linalg.slogdet(a)), "SelfAdjointEigV2": eigh, "Svd": svd,
    "Qr": lambda a, *, full_matrices=False, **attrs: tuple(np.linalg.qr(a, "complete" if full_matrices else "reduced")),
    "Lu": lu_factors,
    "TridiagonalSolve": lambda d, b, **attrs: tridiagonal_solve(d[..., 2, :], d[..., 1, :], d[..., 0, :], b),
    "FFT": transformed(np.fft.fftn, 1), "FFT2D": transformed(np.fft.fftn, 2), "FFT3D": transformed(np.fft.fftn, 3),
    "IFFT": transformed(np.fft.ifftn, 1), "IFFT2D": transformed(np.fft.ifftn, 2), "IFFT3D": transformed(np.fft.ifftn, 3),
    "RFFT": transformed(np.fft.rfftn, 1), "RFFT2D": transformed(np.fft.rfftn, 2), "RFFT3D": transformed(np.fft.rfftn, 3),
    "IRFFT": transformed(np.fft.irfftn, 1), "IRFFT2D": transformed(np.fft.irfftn, 2), "IRFFT3D": transformed(np.fft.irfftn, 3),
}  # fmt: skip
