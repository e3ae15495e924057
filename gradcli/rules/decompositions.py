"""Matrix factorisations with their differentials; each reads the same triangle of a symmetric matrix as numpy does.

The sign of an eigenvector or singular vector is arbitrary. numpy's value fixes it, and the derivative keeps this sign.
"""

from collections.abc import Sequence
from typing import Any, NoReturn, Protocol

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import NoRule
from gradcli.rules.kinds import constant, differential, make_refusal
from gradcli.rules.linalg import T, require_square, solve_or_nan
from gradcli.rules.shaping import as_value
from gradcli.tracing.primitive import Params, Primitive, Transposer, Value, declare, handle, handles
from gradcli.tracing.primitive_cost import factorisation_cost
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import Tracer, arithmetic_of, plain_value

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
