"""The rules of a derivation where those that compute numbers are not what a textbook writes.

A numerical rule avoids an inverse, or takes a matrix of twice the size; a formula names the function. Functions that only
formulas have, such as the adjoint of a Cholesky factor, are nodes that `derivation/whole.py` reads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.arithmetic.graph import Graph
from gradcli.errors import NotSupported
from gradcli.rules.linalg import T, expm_frechet
from gradcli.rules.reductions import PEAKS
from gradcli.rules.shaping import GETITEM
from gradcli.tracing.primitive import Params, Primitive, Rule, Transposer, Value
from gradcli.tracing.shapes import shape


def node(op: str, value: Callable[..., Any], *xs: Value) -> Graph:
    """Return a node of a function that only formulas have. Raises NotSupported within a second sweep."""
    if not all(isinstance(x, Graph | np.ndarray | float) for x in xs):
        raise NotSupported(f"the derivative of {op} has no closed form here", do="gradcli check verifies its gradient")
    plain = [np.asarray(x.value if isinstance(x, Graph) else x) for x in xs]
    try:
        found = value(*plain)
    except np.linalg.LinAlgError:  # values give shapes and branches only
        found = np.full(plain[-1].shape, np.nan)
    return Graph(op, tuple(Graph.lift(x) for x in xs), {}, found)


@dataclass(frozen=True, slots=True)
class _DetRule:
    """The differential of a determinant, det(x) tr(inv(x) dx), for formulas; the numerical rule avoids the inverse."""

    of_log: bool

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        part = np.sum(np.transpose(np.linalg.inv(xs[0])) * xdot)
        return part if self.of_log else y * part

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        return (ybar if self.of_log else ybar * y) * np.transpose(np.linalg.inv(xs[0]))


@dataclass(frozen=True, slots=True)
class _CumsumRule:
    """The rule of running sums as a product with a triangle of ones, whose transpose pulls back without reversing an axis."""

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        return primitive(xdot, **params)

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        lengths, axis = shape(xs[0]), params["axis"]
        if len(lengths) > 2:
            raise NotSupported("cumsum of an array of more than two axes has no closed form here")
        ones = np.tri(lengths[axis])
        return ybar @ ones if axis == 1 else ones.T @ ybar


class _Pulled:
    """Base of the rules that differ from those for numbers in the adjoint alone."""

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        own: Rule = primitive.rules[0]
        return own.push(primitive, i, y, xs, xdot, params)


class _ExpmRule:
    """The derivative of a matrix exponential in a direction, by its name."""

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        return node("expm_frechet", expm_frechet, xs[0], xdot)

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        return node("expm_frechet", expm_frechet, T(xs[0]), ybar)


class _SqrtmRule(_Pulled):
    """The adjoint of a square root of a matrix, which is simple for a trace."""

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        return node("sqrtm_adjoint", lambda y, ybar: ybar, T(y), ybar)


class _PinvRule:
    """The differential and the adjoint of a pseudoinverse of full rank, whether the matrix is wide or tall."""

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        x, turned = xs[0], T(xdot)
        right = y @ T(y) @ turned
        left = turned @ T(y) @ y
        return -y @ xdot @ y + right - right @ x @ y + left - y @ x @ left

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        x, turned = xs[0], T(ybar)
        right = turned @ y @ T(y)
        left = T(y) @ y @ turned
        return -T(y) @ ybar @ T(y) + right - x @ y @ right + left - left @ y @ x


class _LogmRule(_Pulled):
    """The adjoint of a logarithm of a matrix, which is simple for a trace."""

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        return node("logm_adjoint", lambda x, ybar: ybar, T(xs[0]), ybar)


class _CholeskyRule:
    """The differential and the adjoint of a Cholesky factor, as functions of the factor."""

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        inner = np.linalg.inv(y) @ xdot @ T(np.linalg.inv(y))
        return y @ node("lower_half", lambda m: np.tril(m) - np.diag(np.diag(m)) / 2, inner)

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        return node("cholesky_adjoint", lambda y, ybar: ybar, y, ybar)


class _SingularValuesRule:
    """A singular value moves with u.T @ dX @ v, its own two vectors."""

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        u, v = _singular_vectors(xs[0])
        return np.sum(u * (xdot @ v), axis=0)

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        u, v = _singular_vectors(xs[0])
        return (u * ybar) @ T(v)


def _singular_vectors(x: Value) -> tuple[Graph, Graph]:
    left = node("left_vectors", lambda x: np.linalg.svd(x, full_matrices=False)[0], x)
    return left, node("right_vectors", lambda x: np.linalg.svd(x, full_matrices=False)[2].T, x)


class _MaxRule:
    """The largest entry has slope 1, all others have slope 0."""

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        return np.sum(PEAKS(xs[0], **params) * xdot, axis=params["axis"])

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        return np.expand_dims(ybar, params["axis"]) * PEAKS(xs[0], **params)


def sorts(index: Any, x: Value) -> bool:
    """Whether an index sorts a vector, whose entries all differ."""
    value = np.asarray(getattr(x, "value", x))
    order = np.asarray(index) if isinstance(index, np.ndarray) else np.zeros(0)
    rolled = order.ndim == 1 and len(order) and np.array_equal(order, np.roll(np.arange(len(order)), -int(order[0])))
    return value.ndim == 1 and order.shape == value.shape and not rolled and np.array_equal(order, np.argsort(value))


class _GetitemRule:
    """A sorted vector pulls back to where its entries were."""

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        if sorts(params["index"], xs[0]):
            return node("sorted along", lambda x, xdot: xdot[np.argsort(x)], xs[0], xdot)
        return GETITEM.rules[0].push(primitive, i, y, xs, xdot, params)

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        if sorts(params["index"], xs[0]):
            return node("unsorted", lambda x, ybar: ybar[np.argsort(np.argsort(x))], xs[0], ybar)
        return GETITEM.rules[0].pull(ybar, i, y, xs, params, transpose)


class _ConvolveRule:
    """A convolution pulls back by a correlation with the other operand."""

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        return primitive(xdot, xs[1]) if i == 0 else primitive(xs[0], xdot)

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        return node("correlate", lambda a, v: np.correlate(a, v, "valid"), ybar, xs[1 - i])


RULES: dict[str, Rule] = {
    "det": _DetRule(False), "logdet": _DetRule(True), "cumsum": _CumsumRule(), "expm": _ExpmRule(), "sqrtm": _SqrtmRule(),
    "logm": _LogmRule(),
    "pinv": _PinvRule(),
    "cholesky": _CholeskyRule(), "svdvals": _SingularValuesRule(), "max": _MaxRule(), "convolve": _ConvolveRule(),
    "getitem": _GetitemRule(),
}  # fmt: skip
