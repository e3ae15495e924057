"""Products, factorisations and solutions of matrices, and Fourier transforms."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.frameworks.ops.elimination import lu, permutation, triangle, tridiagonal_solve
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape

Entry = Callable[..., Any]
Axes = Sequence[int]


def _arranged(x: Value, first: Axes, second: Axes, third: Axes) -> Value:
    """Return `x` as a stack of matrices: the `first` axes in front, the `second` and the `third` merged into one axis each."""
    groups = [[shape(x)[k] for k in axes] for axes in (first, second, third)]
    order = (*first, *second, *third)
    turned = x if order == tuple(range(len(order))) else np.transpose(x, order)
    to = (*groups[0], *(int(np.prod(sizes, dtype=int)) for sizes in groups[1:]))
    return turned if shape(turned) == to else np.reshape(turned, to)


def dot_general(a: Value, b: Value, *, dimension_numbers: Any, **params: Any) -> Value:
    """Return products summed over the contracted axes, for each entry of the batch axes.

    Shapes  the batch axes, then the other axes of `a`, then those of `b`.
    """
    (over, under), (first, second) = (tuple(map(tuple, pair)) for pair in dimension_numbers)
    left = [k for k in range(len(shape(a))) if k not in (*over, *first)]
    right = [k for k in range(len(shape(b))) if k not in (*under, *second)]
    sizes = [shape(a)[k] for k in (*first, *left)] + [shape(b)[k] for k in right]
    if not over:
        a = np.reshape(np.transpose(a, (*first, *left)), sizes[: len(first) + len(left)] + [1] * len(right))
        b = np.transpose(b, (*second, *right))
        return a * np.reshape(b, sizes[: len(first)] + [1] * len(left) + sizes[len(first) + len(left) :])
    y = np.matmul(_arranged(a, first, left, over), _arranged(b, second, under, right))
    return y if shape(y) == tuple(sizes) else np.reshape(y, tuple(sizes))


def triangular_solve(
    a: Value, b: Value, *, left_side: bool, lower: bool, transpose_a: bool, conjugate_a: bool = False,
    unit_diagonal: bool = False, **params: Any,
) -> Value:  # fmt: skip
    """Solve op(a) y = b or y op(a) = b for y, where op may transpose; only one triangle of `a` is read.

    Shapes  a (..., n, n); b and the result (..., n, columns), or (..., rows, n) if `a` is on the right.
    """
    m = triangle(a, lower, unit_diagonal)
    m = np.swapaxes(np.conjugate(m) if conjugate_a else m, -1, -2) if transpose_a != (not left_side) else m
    if left_side:
        return np.linalg.solve(m, b)
    return np.swapaxes(np.linalg.solve(m, np.swapaxes(b, -1, -2)), -1, -2)


def eigh(a: Value, *, lower: bool, **params: Any) -> tuple[Value, Value]:
    """Return eigenvectors and eigenvalues."""
    w, v = np.linalg.eigh(a, "L" if lower else "U")
    return v, w


def svd(a: Value, *, full_matrices: bool, compute_uv: bool, **params: Any) -> tuple[Value, ...]:
    """Return singular values, and singular vectors if `compute_uv`."""
    if not compute_uv:
        return (np.linalg.svd(a, compute_uv=False),)
    u, s, vt = np.linalg.svd(a, full_matrices=full_matrices)
    return s, u, vt


def qr(a: Value, *, full_matrices: bool, **params: Any) -> tuple[Value, Value]:
    """Return Q and R."""
    q, r = np.linalg.qr(a, mode="complete" if full_matrices else "reduced")
    return q, r


def fft(x: Value, *, fft_type: Any, fft_lengths: Axes, **params: Any) -> Value:
    """Return a Fourier transform over the last axes."""
    transform: Any = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn}[
        fft_type.name
    ]
    return transform(x, s=tuple(fft_lengths), axes=tuple(range(-len(fft_lengths), 0)))


TABLE: dict[str, Entry] = {
    "dot_general": dot_general, "triangular_solve": triangular_solve,
    "tridiagonal_solve": lambda *xs, **params: tridiagonal_solve(*xs), "lu": lambda a, **params: lu(a),
    "lu_pivots_to_permutation": lambda found, *, permutation_size, **params: permutation(found, permutation_size),
    "cholesky": lambda a, **params: np.linalg.cholesky(a), "eigh": eigh, "svd": svd, "qr": qr, "fft": fft,
    "symmetric_product": lambda a, c, *, alpha, beta, **params: alpha * np.matmul(a, np.swapaxes(a, -1, -2)) + beta * c,
}  # fmt: skip
