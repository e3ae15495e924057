"""Products, factorisations and solutions of matrices, and Fourier transforms."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import plain_value

Entry = Callable[..., Any]
Axes = Sequence[int]


def _as_matrix_stack(x: Value, first: Axes, second: Axes, third: Axes) -> Value:
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
    y = np.matmul(_as_matrix_stack(a, first, left, over), _as_matrix_stack(b, second, under, right))
    return y if shape(y) == tuple(sizes) else np.reshape(y, tuple(sizes))


# Gaussian elimination: LU factors, with row exchanges chosen from the plain (untraced) values, and triangular parts.


def triangle(a: Value, lower: bool, unit_diagonal: bool) -> Value:
    """Return the lower or the upper triangle of a matrix, with ones on the diagonal if `unit_diagonal`."""
    half = np.tril(a, -1 if unit_diagonal else 0) if lower else np.triu(a, 1 if unit_diagonal else 0)
    return half + np.eye(shape(a)[-1]) if unit_diagonal else half


def pivots(a: Any) -> Any:
    """Return, for each row in turn, the row it is exchanged with in elimination with partial pivoting."""
    work = np.array(plain_value(a), dtype=float)
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


def eliminate_rows(a: Value) -> Value:
    """Return the LU factors of `a` without row exchanges in one matrix: L below the diagonal, U on and above it."""
    rows, columns = shape(a)[-2:]
    if min(rows, columns) == 0:
        return a
    top, corner = a[..., :1, :], a[..., :1, :1]
    if rows == 1:
        return a
    left = a[..., 1:, :1] / np.where(np.equal(plain_value(corner), 0), 1.0, corner)
    if columns == 1:
        return np.concatenate([top, left], axis=-2)
    rest = eliminate_rows(a[..., 1:, 1:] - left * top[..., 1:])
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
    return eliminate_rows(rows), exchanges, order


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
    transforms: Any = {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn, "RFFT": np.fft.rfftn, "IRFFT": np.fft.irfftn}
    return transforms[fft_type.name](x, s=tuple(fft_lengths), axes=tuple(range(-len(fft_lengths), 0)))


TABLE: dict[str, Entry] = {
    "dot_general": dot_general, "triangular_solve": triangular_solve,
    "tridiagonal_solve": lambda *xs, **params: tridiagonal_solve(*xs), "lu": lambda a, **params: lu(a),
    "lu_pivots_to_permutation": lambda found, *, permutation_size, **params: permutation(found, permutation_size),
    "cholesky": lambda a, **params: np.linalg.cholesky(a), "eigh": eigh, "svd": svd, "qr": qr, "fft": fft,
    "symmetric_product": lambda a, c, *, alpha, beta, **params: alpha * np.matmul(a, np.swapaxes(a, -1, -2)) + beta * c,
}  # fmt: skip
