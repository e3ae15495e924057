"""Matrix products, factorisations and linear algebra, of one matrix or of stacks of them."""

import functools
import math
import operator
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, Protocol

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import NoRule, NotSupported
from gradcli.rules.kinds import Linear, bilinear, constant, differential, make_refusal, restore_axes
from gradcli.rules.pairs import REAL
from gradcli.rules.reductions import NORM
from gradcli.rules.shaping import SCATTER, as_value, diagonal
from gradcli.tracing import shapes
from gradcli.tracing.primitive import (
    CONTRACTION,
    PRODUCT,
    Params,
    Primitive,
    Transposer,
    Value,
    declare,
    factorisation_cost,
    handle,
    handles,
    primitive_by_name,
)
from gradcli.tracing.shapes import is_plain, shape
from gradcli.tracing.tracer import Tracer, arithmetic_of, exact_integer, plain_value

# Matrix factorisations with their differentials; each reads the same triangle of a symmetric matrix as numpy does.
#
# The sign of an eigenvector or singular vector is arbitrary. numpy's value fixes it, and the derivative keeps this sign.

EighResult: Any = type(np.linalg.eigh(np.eye(1)))
QRResult: Any = type(np.linalg.qr(np.eye(1)))
SVDResult: Any = type(np.linalg.svd(np.eye(1)))
ROUNDED = 8 * float(np.finfo(np.float64).eps)  # relative to the largest: closer eigenvalues may be equal


def _cholesky_differential(sdot: Value, y: Value, s: Value) -> Value:
    """Return L phi(L^-1 sdot L^-T), phi the lower triangle with half the diagonal (Murray 2016, arXiv 1602.07527)."""
    n = shape(y)[-1]
    inside = T(solve_or_nan(y, T(solve_or_nan(y, sdot))))
    return np.matmul(y, np.tril(inside, -1) + np.where(np.eye(n, dtype=bool), inside / 2, 0.0))


def _eigenvectors(s: Value, *, uplo: Any) -> Value:
    """Return the eigenvectors in the columns; their signs depend on the triangle that LAPACK reads."""
    return np.linalg.eigh(s, uplo)[1]


def _eigenvalues_differential(sdot: Value, y: Value, s: Value, *, uplo: str) -> Value:
    v = EIGENVECTORS(s, uplo=uplo)
    return np.sum(v * np.matmul(sdot, v), axis=-2)


def _eigenvectors_differential(sdot: Value, y: Value, s: Value, *, uplo: str) -> Value:
    inside = np.matmul(T(y), np.matmul(sdot, y))
    return np.matmul(y, _divide_off_diagonal(inside, _pairwise_differences(EIGENVALUES(s, uplo=uplo))))


def _pairwise_differences(w: Value) -> Value:
    """Return w[j] - w[i] at row i and column j."""
    return np.expand_dims(w, -2) - np.expand_dims(w, -1)


def _divide_off_diagonal(a: Value, by: Value) -> Value:
    """Return a / by off the diagonal, and 0 on it."""
    eye = np.eye(shape(a)[-1], dtype=bool)
    return np.where(eye, 0.0, a / np.where(eye, 1.0, by))


def _singular_vectors(a: Value) -> Value:
    """Return the left singular vectors stacked on top of the right ones, as columns of one matrix."""
    u, _, vt = np.linalg.svd(a, full_matrices=False)
    return np.concatenate([u, T(vt)], axis=-2)


def _split_rows(stacked: Value, rows: int) -> tuple[Value, Value]:
    """Return the first `rows` rows of each matrix, and the others."""
    return stacked[..., :rows, :], stacked[..., rows:, :]


def _singular_values_differential(adot: Value, y: Value, a: Value) -> Value:
    u, v = _split_rows(SINGULAR_VECTORS(a), shape(a)[-2])
    return np.sum(u * np.matmul(adot, v), axis=-2)


def _singular_vectors_differential(adot: Value, y: Value, a: Value) -> Value:
    """Return udot stacked on top of vdot; 1 / (sj^2 - si^2) is split so that nothing cancels.

    Source  Giles (2008), Collected matrix derivative results, 3.3.
    """
    rows, columns = shape(a)[-2:]
    u, v = _split_rows(y, rows)
    s = SINGULAR_VALUES(a)
    inside = np.matmul(T(u), np.matmul(adot, v))
    even = _divide_off_diagonal(inside + T(inside), _pairwise_differences(s)) / 2
    odd = _divide_off_diagonal(inside - T(inside), np.expand_dims(s, -2) + np.expand_dims(s, -1)) / 2
    udot, vdot = np.matmul(u, even + odd), np.matmul(v, even - odd)
    if rows > columns:
        udot = udot + (np.matmul(adot, v) - np.matmul(u, inside)) / np.expand_dims(s, -2)
    if columns > rows:
        vdot = vdot + (np.matmul(T(adot), u) - np.matmul(v, T(inside))) / np.expand_dims(s, -2)
    return np.concatenate([udot, vdot], axis=-2)


def _pinv_differential(adot: Value, y: Value, a: Value, *, rcond: float) -> Value:
    """Return the differential at full rank (Golub and Pereyra 1973)."""
    rows, columns = shape(a)[-2:]
    ydot = -np.matmul(np.matmul(y, adot), y)
    if rows > columns:
        ydot = ydot + np.matmul(np.matmul(y, T(y)), T(adot) - np.matmul(np.matmul(T(adot), a), y))
    if columns > rows:
        ydot = ydot + np.matmul(T(adot) - np.matmul(y, np.matmul(a, T(adot))), np.matmul(T(y), y))
    return ydot


def _qr(a: Value) -> Value:
    """Return Q stacked on top of R, for a matrix with at least as many rows as columns."""
    q, r = np.linalg.qr(a)
    return np.concatenate([q, r], axis=-2)


def _qr_differential(adot: Value, y: Value, a: Value) -> Value:
    """Return Qdot stacked on top of Rdot (Walter, Lehmann and Lamour 2012, section 2)."""
    rows, columns = shape(a)[-2:]
    q, r = _split_rows(y, rows)
    b = T(solve_or_nan(T(r), T(adot)))
    c = np.matmul(T(q), b)
    low = np.tril(c, -1)
    turn = low - T(low)
    qdot = np.matmul(q, turn)
    if rows > columns:
        qdot = qdot + b - np.matmul(q, c)
    return np.concatenate([qdot, np.matmul(np.triu(c - turn), r)], axis=-2)


def _equal_neighbours(w: Any) -> Any:
    """Return which of the sorted values equal a neighbour, up to rounding."""
    if not shape(w)[-1]:
        return np.zeros(shape(w), dtype=bool)
    gaps = np.diff(w, axis=-1)
    tied = np.abs(gaps) <= ROUNDED * shape(w)[-1] * np.max(np.abs(w), axis=-1, keepdims=True)
    none = np.zeros((*shape(w)[:-1], 1), dtype=bool)
    return np.concatenate([tied, none], axis=-1) | np.concatenate([none, tied], axis=-1)


def _vanishing_values(s: Any, length: int) -> Any:
    """Return which singular values are zero up to rounding."""
    return s <= ROUNDED * length * np.max(s, axis=-1, keepdims=True, initial=0.0)


def _singular_vectors_kink(y: Value, a: Value) -> Any:
    s = np.linalg.svd(a, compute_uv=False)
    tied = _equal_neighbours(s)
    if shape(a)[-1] != shape(a)[-2]:
        tied = tied | _vanishing_values(s, max(shape(a)))
    return tied[..., None, :]


def _has_small_singular_value(y: Value, a: Value, *, rcond: float) -> Any:
    s = np.linalg.svd(a, compute_uv=False)
    small = s <= max(rcond, ROUNDED) * np.max(s, axis=-1, keepdims=True, initial=0.0)
    return np.any(small, axis=-1)[..., None, None]


def relative_signs(one: Any, other: Any) -> Any:
    """Return, for each column, -1 where it has the other sign in the other matrix, else 1."""
    return np.where(np.sum(one * other, axis=-2, keepdims=True) < 0, -1.0, 1.0)


def _eigenvector_signs(s: Value, *, uplo: str) -> Value:
    """Return the signs of scipy's eigenvectors relative to numpy's; the two use different routines."""
    import scipy.linalg

    return relative_signs(scipy.linalg.eigh(s, lower=uplo == "L")[1], _eigenvectors(s, uplo=uplo))


def _singular_vector_signs(a: Value) -> Value:
    """Return the signs of scipy's left singular vectors relative to numpy's."""
    import scipy.linalg

    return relative_signs(*(library.linalg.svd(a, full_matrices=False)[0] for library in (scipy, np)))


DIRECT, ITERATED = factorisation_cost(5), factorisation_cost(30)
# fmt: off
#                               numpy                ydot, given the tangent, y and the argument
CHOLESKY         = differential(np.linalg.cholesky,  _cholesky_differential,         name="cholesky", analytic=False, cost=DIRECT)
EIGENVALUES      = differential(lambda s, *, uplo: np.linalg.eigvalsh(s, uplo), _eigenvalues_differential,
                                name="eigvalsh", analytic=False, cost=ITERATED, kinks="two eigenvalues are equal",
                                kink=lambda y, s, *, uplo: _equal_neighbours(y))
EIGENVECTORS     = differential(_eigenvectors,       _eigenvectors_differential,     name="eigenvectors", analytic=False,
                                cost=ITERATED, kinks="two eigenvalues are equal",
                                kink=lambda y, s, *, uplo: _equal_neighbours(np.linalg.eigvalsh(s))[..., None, :])
SINGULAR_VALUES  = differential(np.linalg.svdvals,   _singular_values_differential,  name="svdvals", analytic=False,
                                cost=ITERATED, kinks="two singular values are equal, or one is 0",
                                kink=lambda y, a: _equal_neighbours(y) | _vanishing_values(y, max(shape(a))))
SINGULAR_VECTORS = differential(_singular_vectors,   _singular_vectors_differential, name="singular_vectors", analytic=False,
                                cost=ITERATED, kink=_singular_vectors_kink,
                                kinks="two singular values are equal, or one of a rectangular matrix is 0")
PINV             = differential(lambda a, *, rcond: np.linalg.pinv(a, rcond), _pinv_differential,
                                name="pinv", analytic=False, cost=DIRECT,
                                kinks="the matrix has not full rank (jump)", kink=_has_small_singular_value)
QR               = differential(_qr,                 _qr_differential,               name="qr", analytic=False, cost=DIRECT)
# fmt: on
EIGENVECTOR_SIGNS = constant(_eigenvector_signs, name="eigenvector_signs", cost=ITERATED)
SINGULAR_VECTOR_SIGNS = constant(_singular_vector_signs, name="singular_vector_signs", cost=ITERATED)


def symmetric_matrix(a: Value, name: str, uplo: str = "L") -> Value:
    """Return the symmetric matrix that one triangle of `a` defines; the other triangle is not read.

    In a formula, which is for symmetric matrices, it is the mean of `a` and its transpose.

    Raises  ValueError if `a` is not square, or `uplo` is neither 'L' nor 'U'.
    """
    a = require_square(a, name)
    if uplo not in ("L", "U"):
        raise ValueError("UPLO argument must be 'L' or 'U'")
    system = arithmetic_of(a)
    if system is not None and system.symbolic:
        return (a + T(a)) / 2
    return np.triu(a) + T(np.triu(a, 1)) if uplo == "U" else np.tril(a) + T(np.tril(a, -1))


@handles(np.linalg.cholesky)
def cholesky(a: Value, *, upper: bool = False) -> Value:
    y = CHOLESKY(symmetric_matrix(a, "cholesky", "U" if upper else "L"))
    return T(y) if upper else y


@handles(np.linalg.eigh)
def eigh(a: Value, UPLO: str = "L") -> Any:
    uplo = UPLO.upper()
    s = symmetric_matrix(a, "eigh", uplo)
    return EighResult(EIGENVALUES(s, uplo=uplo), EIGENVECTORS(s, uplo=uplo))


handles(np.linalg.eig, np.linalg.eigvals)(make_refusal(
    "eigenvalues of a matrix that is not symmetric may be complex or not differentiable: eig has no derivative rule",
    "np.linalg.eigh or np.linalg.eigvalsh of a symmetric matrix",
))  # fmt: skip


class Open:
    """A placeholder for a factor that the matrix does not determine; every use of it raises NoRule."""

    def __init__(self, what: str, do: str) -> None:
        self._what, self._do = what, do

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NoRule(self._what, do=self._do)

    __getattr__ = __getitem__ = __len__ = __iter__ = __neg__ = __array_ufunc__ = __array_function__ = __array__ = (
        _refuse
    )
    __matmul__ = __rmatmul__ = __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = _refuse


@handles(np.linalg.svd)
def svd(a: Value, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    """Return singular vectors and values; vectors beyond the number of values are replaced by `Open`.

    Raises  NoRule if `hermitian` is true.
    """
    a = as_value(a)
    if hermitian:
        raise NoRule("svd with hermitian=True has no derivative rule", do="np.linalg.eigh(a), or leave out hermitian=")
    s = SINGULAR_VALUES(a)
    if not compute_uv:
        return s
    rows, columns = shape(a)[-2:]
    u, v = _split_rows(SINGULAR_VECTORS(a), rows)
    beyond = Open(
        f"the singular vectors beyond the {min(rows, columns)} singular values are not determined by the matrix",
        "np.linalg.svd(a, full_matrices=False)",
    )
    return SVDResult(
        beyond if full_matrices and rows > columns else u, s, beyond if full_matrices and columns > rows else T(v)
    )


@handles(np.linalg.pinv)
def pinv(a: Value, rcond: Any = None, hermitian: bool = False, *, rtol: Any = np._NoValue) -> Value:
    """Return the pseudo-inverse; it has a derivative at full rank, and jumps elsewhere."""
    a = as_value(a)
    if hermitian:
        raise NoRule("pinv with hermitian=True has no derivative rule", do="leave out hermitian=")
    if rcond is None:
        rcond = 1e-15 if rtol is np._NoValue else max(shape(a)[-2:]) * np.finfo(float).eps if rtol is None else rtol
    return PINV(a, rcond=rcond)


@handles(np.linalg.qr)
def qr(a: Value, mode: str = "reduced") -> Any:
    """Return Q and R, or R alone (mode 'r'); in a wide matrix, columns beyond the square part are multiplied by Q.T."""
    a = as_value(a)
    rows, columns = shape(a)[-2:]
    if mode not in ("reduced", "r") and not (mode == "complete" and rows <= columns):
        raise NoRule(f"qr with mode={mode!r} has no derivative rule", do="mode='reduced'")
    q, r = _split_rows(QR(a[..., :rows] if columns > rows else a), rows)
    if columns > rows:
        r = np.concatenate([r, np.matmul(T(q), a[..., rows:])], axis=-1)
    return r if mode == "r" else QRResult(q, r)


@handles(np.linalg.lstsq)
def lstsq(a: Value, b: Value, rcond: Any = None) -> Any:
    """Return the least-squares solution, the squared residuals, the rank and the singular values.

    Raises  NoRule if the matrix does not have full rank.
    """
    a, b = as_value(a), as_value(b)
    rows, columns = shape(a)
    _, residuals, rank, _ = np.linalg.lstsq(plain_value(a), plain_value(b), rcond)
    if rank < min(rows, columns):
        raise NoRule("lstsq of a matrix without full rank has no derivative", do="leave out dependent columns")
    y = np.matmul(PINV(a, rcond=0.0), b)
    if np.size(residuals):
        residuals = np.reshape(np.sum(np.square(b - np.matmul(a, y)), axis=0), np.shape(residuals))
    return y, residuals, rank, SINGULAR_VALUES(a)


handle({
    np.linalg.eigvalsh: lambda a, UPLO="L": EIGENVALUES(symmetric_matrix(a, "eigvalsh", UPLO.upper()), uplo=UPLO.upper()),
    np.linalg.svdvals: lambda x: SINGULAR_VALUES(as_value(x)),
    np.linalg.matrix_rank: lambda A, tol=None, hermitian=False, *, rtol=None:
        np.linalg.matrix_rank(plain_value(A), tol, hermitian, rtol=rtol),
})  # fmt: skip


# The solution of an equation as one operation: what a solver returns, with the derivative by the equation itself.
#
# The equation may be a differential equation, an integral, a root or a minimum. A solver works to a tolerance, so the value
# has an error far above rounding; the operation states it.


class Equation(Protocol):
    """An equation with parameters, and how it is solved."""

    name: str

    def value(self, *parameters: Any) -> Any:
        """Return the solution for plain parameters, by the solver that the program calls."""

    def jacobian(self, *parameters: Any) -> list[Any]:
        """Return the derivative by each parameter, `[entry of the solution, entry of the parameter]`."""

    def error(self, *parameters: Any) -> float:
        """Return an estimate of the relative error of the solver's result."""


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The rule of a solution: the product with its Jacobian, which is made when it is first asked for."""

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        return np.reshape(np.matmul(_jacobian_by_parameter(xs, i, params), np.reshape(xdot, (-1,))), shape(y))

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        return np.reshape(np.matmul(_jacobian_by_parameter(xs, i, params).T, np.reshape(ybar, (-1,))), shape(xs[i]))


def _jacobian_by_parameter(xs: Sequence[Value], i: int, params: Params) -> Any:
    equation: Equation = params["equation"]
    if any(isinstance(x, Tracer) for x in xs):
        raise NoRule(
            f"{equation.name} has a rule for first derivatives only", do="check the gradient, not the Hessian, of it"
        )
    return equation.jacobian(*xs)[i]


SOLUTION = declare(
    Primitive(
        "solution", lambda *xs, equation: equation.value(*xs), (Sensitivity(),), kind="differential", analytic=False,
        cost=factorisation_cost(1000), error=lambda xs, params: params["equation"].error(*xs),
    )
)  # fmt: skip


# Products of matrices, and linear algebra.

_COST = factorisation_cost(50)  # some ten products and a solve, or a Schur form
_ROUNDED = 1e-8  # relative to the largest entry: a larger imaginary part is not rounding


SlogdetResult: Any = type(np.linalg.slogdet(np.eye(1)))


def T(a: Value) -> Value:
    """Return the transpose of the last two axes."""
    return np.swapaxes(a, -1, -2)


def solve_or_nan(a: Value, b: Value) -> Value:
    """Return the solution of a @ y = b for use in a rule; all nan if a matrix of the stack is singular."""
    try:
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:
        return np.full(np.broadcast_shapes(shape(a)[:-2], shape(b)[:-2]) + shape(b)[-2:], np.nan)


CLOSED_MINORS = 3  # rows; up to this size, minors give more accurate cofactors than singular values do
MOST_MINORS = 5  # rows; up to this size, other arithmetics compute the cofactors by minors
WELL_CONDITIONED = 1e6  # condition number; above it, the inverse does not give accurate cofactors


def cofactors(y: Value, a: Value) -> Value:
    """Return the derivative of det(a) = y with respect to each entry, also where the matrix is singular.

    Small matrices use minors. Larger ones use singular values in float64, and the inverse or traces in other arithmetics.

    Shapes  the result has the shape of a.
    Source  Stewart (1998), On the adjugate matrix, for the singular values.
    """
    n = shape(a)[-1]
    if n <= (CLOSED_MINORS if is_plain(a) else MOST_MINORS):
        rows = [np.stack([_signed_minor(a, i, j) for j in range(n)], axis=-1) for i in range(n)]
        return np.stack(rows, axis=-2) if n else shapes.zeros_like(a)
    if is_plain(a):
        u, s, vt = np.linalg.svd(a)
        others = np.stack([np.prod(np.delete(s, k, axis=-1), axis=-1) for k in range(n)], axis=-1)
        return (np.linalg.det(u) * np.linalg.det(vt))[..., None, None] * (u * others[..., None, :]) @ vt
    if np.all(np.linalg.cond(plain_value(a)) < WELL_CONDITIONED):
        return np.reshape(y, (*shape(y), 1, 1)) * T(np.linalg.inv(a))
    # The transposed cofactors by products and traces alone (Faddeev and LeVerrier).
    m: Value = np.eye(n)
    for k in range(1, n):
        product = np.matmul(a, m)
        trace = np.trace(product, axis1=-2, axis2=-1)
        m = product - np.reshape(trace / k, (*shape(trace), 1, 1)) * np.eye(n)
    return T(m if n % 2 else -m)


def _signed_minor(a: Value, i: int, j: int) -> Value:
    """Return the signed determinant of a matrix without row i and column j."""
    n = shape(a)[-1]
    rows, columns = ([k for k in range(n) if k != out] for out in (i, j))
    sign = (-1.0) ** (i + j)
    if n == 1:
        return np.broadcast_to(exact_integer(1, a), shape(a)[:-2]) if shape(a)[:-2] else exact_integer(1, a)
    if n == 2:
        return sign * a[..., rows[0], columns[0]]
    if n == 3:
        (i, k), (j, m) = rows, columns
        return sign * (a[..., i, j] * a[..., k, m] - a[..., i, m] * a[..., k, j])
    return sign * np.linalg.det(a[(..., *np.ix_(rows, columns))])


EXPANDED = factorisation_cost(1, expanded=True)  # a formula writes out the determinant
# fmt: off
#                     numpy              cotangents of the arguments, both at least matrices
MATMUL = bilinear(    np.matmul,         lambda ybar, a, b: shapes.unbroadcast(np.matmul(ybar, T(b)), a),
                                         lambda ybar, a, b: shapes.unbroadcast(np.matmul(T(a), ybar), b), cost=PRODUCT)
#                     numpy              ydot, given the tangent, y and the arguments
DET    = differential(np.linalg.det,     lambda adot, y, a: np.sum(cofactors(y, a) * adot, axis=(-2, -1)), cost=EXPANDED)
LOGDET = differential(lambda a: np.linalg.slogdet(a)[1],
                      lambda adot, y, a: np.sum(T(solve_or_nan(a, np.eye(shape(a)[-1]))) * adot, axis=(-2, -1)),
                      name="logdet", analytic=False, cost=EXPANDED)
INV    = differential(np.linalg.inv,     lambda adot, y, a: -np.matmul(np.matmul(y, adot), y), cost=EXPANDED)
SOLVE  = differential(np.linalg.solve,   lambda adot, y, a, b: -np.linalg.solve(a, np.matmul(adot, y)),
                      Linear(lambda ybar, a, b: shapes.unbroadcast(np.linalg.solve(T(a), ybar), b)), cost=EXPANDED)
# fmt: on


def _einsum(*operands: Value, subscripts: str) -> Value:
    return np.einsum(subscripts, *operands, optimize=len(operands) > 2)


class _EinsumRule(Linear):
    """The rule of an operand of einsum: the transpose is another einsum, with the subscripts exchanged."""

    def pull(self, ybar: Value, i: int, y: Value, xs: Any, params: Any, transpose: Any) -> Value:
        inputs, output = params["subscripts"].split("->")
        parts = inputs.split(",")
        mine = parts[i]
        others = [(part, x) for k, (part, x) in enumerate(zip(parts, xs, strict=True)) if k != i]
        seen = output + "".join(part for part, _ in others)
        once = "".join(dict.fromkeys(mine))
        reached = "".join(letter for letter in once if letter in seen)
        letters = ",".join(part for part, _ in others)
        if others and not output:  # einsum takes longer for every operand
            xbar = ybar * EINSUM(*(x for _, x in others), subscripts=f"{letters}->{reached}")
        else:
            inside = ",".join(filter(None, (output, letters)))
            xbar = EINSUM(ybar, *(x for _, x in others), subscripts=f"{inside}->{reached}")
        sizes = dict(zip(mine, shape(xs[i]), strict=True))
        if reached != once:
            kept = tuple(sizes[letter] if letter in reached else 1 for letter in once)
            xbar = np.broadcast_to(np.reshape(xbar, kept), tuple(sizes[letter] for letter in once))
        if once == mine:
            return xbar
        grid = np.ix_(*(np.arange(sizes[letter]) for letter in once))  # repeated letters: zeros but on the diagonals
        at = tuple(np.broadcast_to(grid[once.index(letter)], shape(xbar)) for letter in mine)
        return SCATTER(xbar, index=at, into=tuple(sizes[letter] for letter in mine))


EINSUM = declare(Primitive("einsum", _einsum, (_EinsumRule(lambda ybar: ybar),), kind="bilinear", cost=CONTRACTION))


@handles(np.einsum)
def einsum(subscripts: str, *operands: Value, optimize: Any = None) -> Value:
    """Return the sum of products given by the subscripts, which `explicit_subscripts` completes first.

    Raises  ValueError if the first argument is not a string, or the subscripts do not fit the operands.
    """
    if not isinstance(subscripts, str):
        raise ValueError("einsum takes its subscripts first: einsum('ij,j->i', A, x)")
    values = [as_value(x) for x in operands]
    return EINSUM(*values, subscripts=explicit_subscripts(subscripts, [len(shape(x)) for x in values]))


def explicit_subscripts(subscripts: str, ndims: list[int]) -> str:
    """Return the subscripts with their output written out and `...` replaced by letters."""
    text = subscripts.replace(" ", "")
    inputs, arrow, output = text.partition("->")
    parts = inputs.split(",")
    if len(parts) != len(ndims):
        raise ValueError(f"einsum has {len(parts)} subscripts for {len(ndims)} operands")
    free = [letter for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZ" if letter not in text]
    counts = [n - len(part.replace("...", "")) for part, n in zip(parts, ndims, strict=True)]
    longest = max((n for part, n in zip(parts, counts, strict=True) if "..." in part), default=0)
    dots = "".join(free[:longest])
    if not arrow:
        once = sorted({c for c in inputs if c.isalpha() and inputs.count(c) == 1})
        output = ("..." if "..." in inputs else "") + "".join(once)
    named = [part.replace("...", dots[longest - n :] if n > 0 else "") for part, n in zip(parts, counts, strict=True)]
    return ",".join(named) + "->" + output.replace("...", dots)


@handles(np.matmul, np.linalg.matmul)
def matmul(a: Value, b: Value) -> Value:
    """Return a @ b; as in numpy, a vector is a row on the left and a column on the right."""
    a, b = as_value(a), as_value(b)
    if not shape(a) or not shape(b):
        raise ValueError(f"@ needs arrays on both sides, not shapes {shape(a)} and {shape(b)}")
    if len(shape(a)) == 1 and len(shape(b)) == 1:
        return EINSUM(a, b, subscripts="a,a->")
    if len(shape(a)) == 1:
        return np.squeeze(MATMUL(np.reshape(a, (1, -1)), b), -2)
    if len(shape(b)) == 1:
        return np.squeeze(MATMUL(a, np.reshape(b, (-1, 1))), -1)
    return MATMUL(a, b)


@handles(np.dot)
def dot(a: Value, b: Value) -> Value:
    a, b = as_value(a), as_value(b)
    if not shape(a) or not shape(b):
        return a * b
    if len(shape(b)) <= 2:
        return matmul(a, b)
    return np.tensordot(a, b, axes=((-1,), (-2,)))


def vdot(a: Value, b: Value) -> Value:
    """Return the sum of products of entries without a conjugate, which is analytic."""
    return matmul(np.ravel(a), np.ravel(b))


@handles(np.vecdot, np.linalg.vecdot)
def vecdot(x1: Value, x2: Value, *, axis: int = -1) -> Value:
    """Return the sum of products along an axis, the first factor conjugated."""
    return np.sum(np.conjugate(as_value(x1)) * as_value(x2), axis=axis)


@handles(np.outer, np.linalg.outer)
def outer(a: Value, b: Value) -> Value:
    return np.reshape(a, (-1, 1)) * np.reshape(b, (1, -1))


@handles(np.tensordot, np.linalg.tensordot)
def tensordot(a: Value, b: Value, axes: Any = 2) -> Value:
    if isinstance(axes, int):
        axes = (range(len(shape(a)) - axes, len(shape(a))), range(axes))
    first, second = (
        [int(k) % len(shape(x)) for k in ((over,) if isinstance(over, int) else over)]
        for over, x in zip(axes, (a, b), strict=True)
    )
    letters = "abcdefghijklmnopqrstuvwxyz"
    left = list(letters[: len(shape(a))])
    right = list(letters[len(left) : len(left) + len(shape(b))])
    for i, j in zip(first, second, strict=True):
        right[j] = left[i]
    kept = [c for k, c in enumerate(left) if k not in first] + [c for k, c in enumerate(right) if k not in second]
    return EINSUM(a, b, subscripts=f"{''.join(left)},{''.join(right)}->{''.join(kept)}")


def require_square(a: Value, name: str) -> Value:
    """Return `a`, a square matrix or a stack of them.

    Raises  ValueError if the last two axes do not have the same length.
    """
    a = as_value(a)
    if len(shape(a)) < 2 or shape(a)[-2] != shape(a)[-1]:
        raise ValueError(f"{name} needs a square matrix, not shape {shape(a)}")
    return a


@handles(np.linalg.slogdet)
def slogdet(a: Value) -> Any:
    a = require_square(a, "slogdet")
    return SlogdetResult(np.linalg.slogdet(plain_value(a))[0], LOGDET(a))


def inverse(a: Value) -> Value:
    """Return the inverse of a matrix, or of a number."""
    return 1 / a if shape(a) == () else np.linalg.inv(a)


def logdet(a: Value) -> Value:
    """Return the logarithm of the determinant; nan where that is negative, as `log(det(a))` is."""
    sign, size = np.linalg.slogdet(a)
    return size + np.log(plain_value(sign))


def vec(a: Value) -> Value:
    """Return the columns of a matrix, one after the other."""
    return np.ravel(np.transpose(a))


@handles(np.linalg.solve)
def solve(a: Value, b: Value) -> Value:
    """Return the solution of a @ y = b; as in numpy 2, `b` is a vector if it has one axis, else a stack of matrices."""
    a, b = require_square(a, "solve"), as_value(b)
    if len(shape(b)) == 1:
        return np.squeeze(SOLVE(a, np.reshape(b, (-1, 1))), -1)
    return SOLVE(a, b)


@handles(np.linalg.matrix_power)
def matrix_power(a: Value, n: int) -> Value:
    """Return the n-th power of `a` by repeated squaring; for negative n, a power of the inverse."""
    a = require_square(a, "matrix_power")
    if not isinstance(n, int | np.integer):
        raise NoRule("the power of matrix_power must be a whole number", do="write it out: matrix_power(X, 3)")
    if n < 0:
        return matrix_power(np.linalg.inv(a), -n)
    y: Value = None
    while n:
        if n & 1:
            y = a if y is None else y @ a
        n >>= 1
        a = a @ a if n else a
    return np.broadcast_to(np.eye(shape(a)[-1]), shape(a)) if y is None else y


@handles(np.linalg.multi_dot)
def multi_dot(arrays: Sequence[Value], *, out: Any = None) -> Value:
    """Return the product of matrices; the first and the last may be vectors."""
    first, *rest = (as_value(x) for x in arrays)
    if len(shape(rest[-1])) == 1:
        return functools.reduce(lambda y, x: x @ y, (*reversed(rest), first))
    return functools.reduce(operator.matmul, rest, first)


@handles(np.linalg.tensorsolve)
def tensorsolve(a: Value, b: Value, axes: Sequence[int] | None = None) -> Value:
    """Return y with tensordot(a, y, y.ndim) = b."""
    a, b = as_value(a), as_value(b)
    ndim = len(shape(a))
    last = [k % ndim for k in axes or ()]
    a = np.transpose(a, [k for k in range(ndim) if k not in last] + last)
    free = shape(a)[len(shape(b)) :]
    return np.reshape(solve(np.reshape(a, (-1, math.prod(free))), np.ravel(b)), free)


@handles(np.linalg.tensorinv)
def tensorinv(a: Value, ind: int = 2) -> Value:
    """Return the inverse of `a` as a map from its last axes to its first `ind`."""
    rows, columns = shape(a)[:ind], shape(a)[ind:]
    return np.reshape(np.linalg.inv(np.reshape(a, (math.prod(rows), -1))), columns + rows)


# Functions of a square matrix: exponential, logarithm and square root. scipy is imported when one is called.
#
# Source  Higham (2008), Functions of Matrices, theorem 3.6: f([[A, E], [0, A]]) holds the derivative of f at A in direction E
#         in its upper right block. The adjoint is the derivative at the transposed matrix.


@dataclass(frozen=True, slots=True)
class Frechet:
    """The rule of a function of a matrix, by the same function of a matrix of twice the size."""

    name: str

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        return self.derivative(xs[0], xdot)

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        return self.derivative(T(xs[0]), ybar)

    def derivative(self, a: Value, direction: Value) -> Value:
        """Return the derivative at `a` in a direction."""
        n = shape(a)[-1]
        upper = np.concatenate([a, direction], axis=-1)
        lower = np.concatenate([np.zeros(shape(a)), a], axis=-1)
        return primitive_by_name(self.name)(np.concatenate([upper, lower], axis=-2))[..., :n, n:]


def _declare_matrix_function(name: str, **facts: Any) -> Primitive:
    """Declare scipy's function of one matrix as a function of stacks of matrices with a real result."""

    def function(a: Value) -> Value:
        import scipy.linalg

        a = np.asarray(a)
        with warnings.catch_warnings():
            # scipy warns of singular matrices; values that are not finite become findings
            warnings.simplefilter("ignore")
            found = [getattr(scipy.linalg, name)(m) for m in a.reshape(-1, *a.shape[-2:])]
        y = np.reshape(np.stack(found), a.shape) if found else np.zeros(a.shape)
        if np.iscomplexobj(a) or not np.iscomplexobj(y):
            return y
        if np.max(np.abs(y.imag), initial=0.0) > _ROUNDED * np.max(np.abs(y), initial=0.0):
            raise NotSupported(f"{name} of this matrix is complex", do="move the point: no eigenvalue may be negative")
        return y.real

    return declare(Primitive(name, function, (Frechet(name),), kind="differential", cost=_COST, **facts))


EXPM = _declare_matrix_function("expm")
# through a Schur form, whose rotations add rounding of the real parts to the imaginary ones
LOGM = _declare_matrix_function("logm", complex_loss=1.0)
SQRTM = _declare_matrix_function("sqrtm", complex_loss=1.0)


def expm(A: Value) -> Value:
    """Return the exponential of a square matrix, or of each matrix of a stack."""
    return EXPM(require_square(A, "expm"))


def expm_frechet(A: Value, E: Value) -> Value:
    """Return the derivative of the matrix exponential at `A` in the direction `E`."""
    return Frechet("expm").derivative(require_square(A, "expm_frechet"), require_square(E, "expm_frechet"))


def logm(A: Value) -> Value:
    """Return the principal logarithm of a square matrix."""
    return LOGM(require_square(A, "logm"))


def sqrtm(A: Value) -> Value:
    """Return the principal square root of a square matrix."""
    return SQRTM(require_square(A, "sqrtm"))


# Norms of vectors and matrices, and condition numbers.

_PAIR = (-2, -1)
_MATRIX: dict[Any, Callable[[Value], Value]] = {
    1: lambda a: np.max(np.sum(np.abs(a), axis=-2), axis=-1),
    -1: lambda a: np.min(np.sum(np.abs(a), axis=-2), axis=-1),
    np.inf: lambda a: np.max(np.sum(np.abs(a), axis=-1), axis=-1),
    -np.inf: lambda a: np.min(np.sum(np.abs(a), axis=-1), axis=-1),
    2: lambda a: np.linalg.svdvals(a)[..., 0],
    -2: lambda a: np.linalg.svdvals(a)[..., -1],
    "nuc": lambda a: np.sum(np.linalg.svdvals(a), axis=-1),
    "fro": lambda a: _euclidean_norm(a, _PAIR),
}


def _euclidean_norm(x: Value, axis: Any) -> Value:
    """Return the square root of the sum of squares over the axes."""
    if len(shape(x)) == len(axis):
        return NORM(x)
    return np.sqrt(np.sum(np.square(x), axis=axis))


def _norms_of_vectors(x: Value, ord: Any) -> Value:
    """Return the norm over the last axis."""
    if ord is None or ord == 2:
        return _euclidean_norm(x, (-1,))
    magnitude = np.abs(x)
    if ord == 1:
        return np.sum(magnitude, axis=-1)
    if ord in (np.inf, -np.inf):
        return np.max(magnitude, axis=-1) if ord > 0 else np.min(magnitude, axis=-1)
    if isinstance(ord, str):
        raise ValueError(f"Invalid norm order {ord!r} for vectors")
    if ord == 0:
        return np.sum(np.not_equal(x, 0) * 1.0, axis=-1)
    return np.power(np.sum(np.power(magnitude, ord), axis=-1), exact_integer(1, x) / ord)


def _move_axes_last(x: Value, axis: tuple[int, ...]) -> Value:
    """Return `x` with the axes, counted from 0, moved to the end in their order."""
    ndim = len(shape(x))
    order = (*(k for k in range(ndim) if k not in axis), *axis)
    return x if order == tuple(range(ndim)) else np.transpose(x, order)


def _nonnegative_axes(axis: Any, ndim: int) -> tuple[int, ...]:
    """Return axes counted from 0, in the order given."""
    many = (axis,) if isinstance(axis, int | np.integer) else tuple(axis)
    return tuple(shapes.normalise_axis(int(k), ndim) for k in many)


def norm(x: Value, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Value:
    """Return the norm of all entries, of vectors along one axis, or of matrices along two axes, as numpy does.

    Raises  ValueError for an order that is not defined, or for more than two axes.
    """
    x = as_value(x)
    ndim = len(shape(x))
    if axis is None and ord is None:
        return restore_axes(NORM(x), keepdims, tuple(range(ndim)), x)
    over = _nonnegative_axes(range(ndim) if axis is None else axis, ndim)
    if len(over) not in (1, 2):
        raise ValueError("Improper number of dimensions to norm.")
    last = _move_axes_last(x, over)
    if len(over) == 1:
        return restore_axes(_norms_of_vectors(last, ord), keepdims, over, x)
    known = _MATRIX.get("fro" if ord in (None, "f") else ord)
    if known is None:
        raise ValueError(f"Invalid norm order {ord!r} for matrices")
    return restore_axes(known(last), keepdims, over, x)


@handles(np.linalg.vector_norm)
def vector_norm(x: Value, *, axis: Any = None, keepdims: bool = False, ord: Any = 2) -> Value:
    """Return the vector norm over all the axes together."""
    x = REAL(as_value(x))
    ndim = len(shape(x))
    over = _nonnegative_axes(range(ndim) if axis is None else axis, ndim)
    rest = tuple(n for k, n in enumerate(shape(x)) if k not in over)
    y = _norms_of_vectors(np.reshape(_move_axes_last(x, over), (*rest, -1)), ord)
    return restore_axes(y, keepdims, over, x)


@handles(np.linalg.cond)
def cond(x: Value, p: Any = None) -> Value:
    """Return the condition number: a ratio of singular values, or the norm of `x` times the norm of its inverse.

    Raises  NoRule for p='nuc' of a matrix that is not square.
    """
    if p is None or p in (2, -2):
        s = np.linalg.svdvals(x)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    if p == "nuc" and shape(x)[-1] != shape(x)[-2]:
        raise NoRule("cond with p='nuc' is of square matrices", do="p=2")
    return norm(x, p, _PAIR) * norm(np.linalg.inv(x), p, _PAIR)


handle({
    np.vdot: lambda a, b: vdot(np.conjugate(a), b),
    np.inner: lambda a, b: a * b if not shape(a) or not shape(b) else np.tensordot(a, b, axes=((-1,), (-1,))),
    np.trace: lambda a, offset=0, axis1=0, axis2=1: np.sum(diagonal(a, offset, axis1, axis2), axis=-1),
    np.linalg.trace: lambda x, *, offset=0, dtype=None: np.sum(diagonal(x, offset, -2, -1), axis=-1),
    np.linalg.diagonal: lambda x, *, offset=0: diagonal(x, offset, -2, -1),
    np.linalg.det: lambda a: DET(require_square(a, "det")), np.linalg.inv: lambda a: INV(require_square(a, "inv")),
    # numpy takes the modulus of complex numbers: not analytic
    np.linalg.norm: lambda x, ord=None, axis=None, keepdims=False: norm(REAL(as_value(x)), ord, axis, keepdims),
    np.linalg.matrix_norm: lambda x, *, keepdims=False, ord="fro": norm(REAL(as_value(x)), ord, _PAIR, keepdims),
})  # fmt: skip
