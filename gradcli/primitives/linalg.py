"""Matrix products and linear algebra."""

from typing import Any, NamedTuple

import numpy as np

from gradcli.core import shapes
from gradcli.core.bind import handles
from gradcli.core.primitive import Primitive, Value, declare
from gradcli.core.shapes import is_plain, shape
from gradcli.core.tracer import exact, plain
from gradcli.errors import NoRule
from gradcli.primitives.kinds import Linear, bilinear, differential
from gradcli.primitives.shaping import SCATTER, as_value, diagonal


def T(a: Value) -> Value:
    """Return the transpose of the last two axes."""
    return np.swapaxes(a, -1, -2)


def _left(ybar: Value, a: Value, b: Value) -> Value:
    """Return the cotangent of `a` in `a @ b`, both at least matrices."""
    return shapes.unbroadcast(np.matmul(ybar, T(b)), a)


def _right(ybar: Value, a: Value, b: Value) -> Value:
    return shapes.unbroadcast(np.matmul(T(a), ybar), b)


def _solve(a: Value, b: Value) -> Value:
    """Return the solution of a @ y = b, both matrices."""
    return np.linalg.solve(a, b)


def _logdet(a: Value) -> Value:
    return np.linalg.slogdet(a)[1]


MOST_MINORS = 5  # rows of a matrix whose cofactors are computed one by one


def cofactors(y: Value, a: Value) -> Value:
    """Return the derivative of det(a) = y by each entry, also where the matrix is singular.

    Source  in float64 from the singular values (Stewart 1998, On the adjugate matrix), else by minors.
    """
    n = shape(a)[0]
    if is_plain(a):
        u, s, vt = np.linalg.svd(a)
        others = np.array([np.prod(np.delete(s, k)) for k in range(n)])
        return np.linalg.det(u) * np.linalg.det(vt) * (u * others) @ vt
    if n > MOST_MINORS:
        return y * T(np.linalg.inv(a))
    return np.stack([np.stack([_minor(a, i, j) for j in range(n)]) for i in range(n)])


def _minor(a: Value, i: int, j: int) -> Value:
    """Return the signed determinant of a matrix without row i and column j."""
    n = shape(a)[0]
    if n == 1:
        return exact(1, a)
    rows, columns = ([k for k in range(n) if k != out] for out in (i, j))
    return (-1.0) ** (i + j) * np.linalg.det(a[np.ix_(rows, columns)])


# fmt: off
MATMUL = bilinear(np.matmul, _left, _right)
#                     numpy           ydot, given the tangent, y and the arguments
DET    = differential(np.linalg.det,  lambda adot, y, a: np.sum(cofactors(y, a) * adot))
LOGDET = differential(_logdet,        lambda adot, y, a: np.trace(np.linalg.solve(a, adot)), name="logdet", analytic=False)
INV    = differential(np.linalg.inv,  lambda adot, y, a: -np.matmul(np.matmul(y, adot), y))
SOLVE  = differential(_solve,         lambda adot, y, a, b: -np.linalg.solve(a, np.matmul(adot, y)),
                      Linear(lambda ybar, a, b: np.linalg.solve(T(a), ybar)), name="solve")
# fmt: on


def _einsum(*operands: Value, subscripts: str) -> Value:
    return np.einsum(subscripts, *operands, optimize=len(operands) > 2)


class _EinsumRule(Linear):
    """Linear in each operand; the transpose is another einsum, with the subscripts exchanged."""

    def pull(self, ybar: Value, i: int, y: Value, xs: Any, params: Any, transpose: Any) -> Value:
        inputs, output = params["subscripts"].split("->")
        parts = inputs.split(",")
        mine = parts[i]
        others = [(part, x) for k, (part, x) in enumerate(zip(parts, xs, strict=True)) if k != i]
        seen = output + "".join(part for part, _ in others)
        once = "".join(dict.fromkeys(mine))
        reached = "".join(letter for letter in once if letter in seen)
        letters = ",".join([output, *(part for part, _ in others)])
        xbar = EINSUM(ybar, *(x for _, x in others), subscripts=f"{letters}->{reached}")
        sizes = dict(zip(mine, shape(xs[i]), strict=True))
        if reached != once:
            kept = tuple(sizes[letter] if letter in reached else 1 for letter in once)
            xbar = np.broadcast_to(np.reshape(xbar, kept), tuple(sizes[letter] for letter in once))
        return _spread_diagonal(xbar, once, mine, sizes)


def _spread_diagonal(x: Value, once: str, mine: str, sizes: dict[str, int]) -> Value:
    """Return `x`, indexed by letters that occur once, on the diagonal of axes whose letters repeat."""
    if once == mine:
        return x
    grid = np.ix_(*(np.arange(sizes[letter]) for letter in once))
    at = tuple(np.broadcast_to(grid[once.index(letter)], shape(x)) for letter in mine)
    return SCATTER(x, index=at, into=tuple(sizes[letter] for letter in mine))


EINSUM = declare(Primitive("einsum", _einsum, (_EinsumRule(lambda ybar: ybar),), kind="bilinear"))


@handles(np.einsum)
def einsum(subscripts: str, *operands: Value, optimize: Any = None) -> Value:
    """Return the sum of products that the subscripts name; the output is spelled out, ellipses become letters."""
    if not isinstance(subscripts, str):
        raise ValueError("einsum takes its subscripts first: einsum('ij,j->i', A, x)")
    values = [as_value(x) for x in operands]
    return EINSUM(*values, subscripts=explicit(subscripts, [len(shape(x)) for x in values]))


def explicit(subscripts: str, ndims: list[int]) -> str:
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


@handles(np.matmul)
def matmul(a: Value, b: Value) -> Value:
    """Return a @ b; a vector is a row on the left and a column on the right, as numpy has it."""
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


@handles(np.vdot)
def vdot(a: Value, b: Value) -> Value:
    return matmul(np.ravel(a), np.ravel(b))


@handles(np.inner)
def inner(a: Value, b: Value) -> Value:
    return a * b if not shape(a) or not shape(b) else np.tensordot(a, b, axes=((-1,), (-1,)))


@handles(np.outer)
def outer(a: Value, b: Value) -> Value:
    return np.reshape(a, (-1, 1)) * np.reshape(b, (1, -1))


@handles(np.tensordot)
def tensordot(a: Value, b: Value, axes: Any = 2) -> Value:
    if isinstance(axes, int):
        axes = (range(len(shape(a)) - axes, len(shape(a))), range(axes))
    first, second = (_axis_list(over, len(shape(x))) for over, x in zip(axes, (a, b), strict=True))
    letters = "abcdefghijklmnopqrstuvwxyz"
    left = list(letters[: len(shape(a))])
    right = list(letters[len(left) : len(left) + len(shape(b))])
    for i, j in zip(first, second, strict=True):
        right[j] = left[i]
    kept = [c for k, c in enumerate(left) if k not in first] + [c for k, c in enumerate(right) if k not in second]
    return EINSUM(a, b, subscripts=f"{''.join(left)},{''.join(right)}->{''.join(kept)}")


def _axis_list(over: Any, ndim: int) -> list[int]:
    return [int(k) % ndim for k in ((over,) if isinstance(over, int) else over)]


@handles(np.trace)
def trace(a: Value, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Value:
    return np.sum(diagonal(a, offset, axis1, axis2), axis=-1)


def _square(a: Value, name: str) -> Value:
    a = as_value(a)
    if len(shape(a)) != 2 or shape(a)[0] != shape(a)[1]:
        if len(shape(a)) > 2:
            raise NoRule(f"{name} of a stack of matrices has no derivative rule", do="take one matrix at a time")
        raise ValueError(f"{name} needs a square matrix, not shape {shape(a)}")
    return a


@handles(np.linalg.det)
def det(a: Value) -> Value:
    return DET(_square(a, "det"))


class SlogdetResult(NamedTuple):
    """What numpy's slogdet returns."""

    sign: Value
    logabsdet: Value


@handles(np.linalg.slogdet)
def slogdet(a: Value) -> SlogdetResult:
    a = _square(a, "slogdet")
    return SlogdetResult(np.linalg.slogdet(plain(a))[0], LOGDET(a))


@handles(np.linalg.inv)
def inv(a: Value) -> Value:
    return INV(_square(a, "inv"))


@handles(np.linalg.solve)
def solve(a: Value, b: Value) -> Value:
    a, b = _square(a, "solve"), as_value(b)
    if len(shape(b)) == 1:
        return np.reshape(SOLVE(a, np.reshape(b, (-1, 1))), shape(b))
    return SOLVE(a, b)


@handles(np.linalg.matrix_power)
def matrix_power(a: Value, n: int) -> Value:
    if n < 0:
        return matrix_power(np.linalg.inv(a), -n)
    y: Value = np.eye(shape(a)[0])
    square = a
    while n:
        y, n, square = (y @ square if n & 1 else y), n >> 1, (square @ square if n > 1 else square)
    return y
