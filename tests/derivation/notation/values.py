"""What printed mathematics is worth: a vector is a column, and nothing is broadcast but vectors of ones."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special


class Senseless(Exception):
    """What is printed has no meaning."""


@dataclass(frozen=True)
class Array:
    """A matrix whose rows or columns may stretch; a multiple of the identity is kept apart."""

    a: Any
    stretches: tuple[bool, bool] = (False, False)
    eye: float = 0.0

    @property
    def T(self) -> "Array":
        return Array(self.a.T, self.stretches[::-1], self.eye)


Value = Any  # a float or an Array


def _plain(x: Array) -> Value:
    return float(x.a[0, 0]) if x.a.shape == (1, 1) and not any(x.stretches) and not x.eye else x


def together(f: Callable[[Any, Any], Any], x: Value, y: Value) -> Value:
    """Return a function of two arrays of one shape, or of numbers."""
    if isinstance(x, float) or isinstance(y, float):
        a, b = (z if isinstance(z, float) else z.a for z in (x, y))
        return f(a, b) if isinstance(x, float) and isinstance(y, float) else Array(f(a, b), _stretches(x, y))
    shape = []
    for k in (0, 1):
        fixed = {z.a.shape[k] for z in (x, y) if not z.stretches[k]}
        if len(fixed) > 1:
            raise Senseless(f"arrays of {x.a.shape} and {y.a.shape}")
        shape.append(fixed.pop() if fixed else None)
    if x.eye or y.eye:
        shape = [n or next(m for m in shape if m) for n in shape]
    full = [
        np.broadcast_to(z.a, [n or 1 for n in shape]) + (z.eye * np.eye(shape[0] or 1) if z.eye else 0) for z in (x, y)
    ]
    return _plain(Array(f(*full), (x.stretches[0] and y.stretches[0], x.stretches[1] and y.stretches[1])))


def _stretches(*values: Value) -> tuple[bool, bool]:
    return next(z.stretches for z in values if isinstance(z, Array))


def product(x: Value, y: Value) -> Value:
    """Return the product of neighbours: of matrices the matrix product."""
    if isinstance(x, float) or isinstance(y, float):
        if isinstance(x, float) and isinstance(y, float):
            return x * y
        c, z = (x, y) if isinstance(x, float) else (y, x)
        return Array(z.a * c, z.stretches, z.eye * c)
    for one, other in ((x, y), (y, x)):
        if one.eye:
            return product(one.eye, other)
    inner = x.a.shape[1] if not x.stretches[1] else y.a.shape[0]
    if (inner != y.a.shape[0] and not y.stretches[0]) or (x.stretches[1] and y.stretches[0]):
        raise Senseless(f"a product of {x.a.shape} and {y.a.shape}")
    a, b = np.broadcast_to(x.a, (x.a.shape[0], inner)), np.broadcast_to(y.a, (inner, y.a.shape[1]))
    return _plain(Array(a @ b, (x.stretches[0], y.stretches[1])))


def chosen(truth: Value, x: Value, y: Value) -> Value:
    """Return entries of one array or of another, or numbers."""
    if not isinstance(truth, Array):
        return x if truth else y
    parts = [together(np.multiply, Array(np.where(truth.a == n, 1.0, 0.0)), z) for n, z in ((True, x), (False, y))]
    return together(np.add, *parts)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "exp": np.exp, "log": np.log, "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "sigmoid": special.expit, "σ": special.expit,
    "√": np.sqrt, "relu": lambda x: np.maximum(x, 0.0), "abs": np.abs, "sign": np.sign, "erf": special.erf,
    "Φ": special.ndtr, "φ": lambda u: np.exp(-0.5 * u**2) / np.sqrt(2 * np.pi),
}  # fmt: skip
REDUCTIONS: dict[str, Callable[..., Any]] = {
    "sum": np.sum,
    "mean": np.mean,
    "var": np.var,
    "prod": np.prod,
    "logsumexp": special.logsumexp,
}
COMPARISONS = {
    ">": np.greater, "<": np.less, ">=": np.greater_equal, "<=": np.less_equal, "==": np.equal, "=": np.equal,
    "!=": np.not_equal,
}  # fmt: skip


def called(name: str, x: Value, along: str) -> Value:
    """Return the value of a function."""
    a = np.array([[x]]) if isinstance(x, float) else x.a
    if name in FUNCTIONS:
        return float(FUNCTIONS[name](np.float64(x))) if isinstance(x, float) else Array(FUNCTIONS[name](a), x.stretches)
    if name == "softmax":
        axis = {"rows": 1, "columns": 0, "": None}[along]
        if not along and min(a.shape) > 1:
            raise Senseless("softmax of a matrix without an axis")
        return Array(special.softmax(a, axis=axis))
    if name in REDUCTIONS:
        if along:
            return Array(REDUCTIONS[name](a, axis={"rows": 1, "columns": 0}[along]).reshape(-1, 1))
        return float(REDUCTIONS[name](a))
    if name == "diag":
        return Array(np.diag(a[:, 0]) if a.shape[1] == 1 else np.diag(a).reshape(-1, 1))
    if name in ("cumsum", "flip"):
        return Array({"cumsum": np.cumsum, "flip": np.flip}[name](a, axis=0))
    if name in ("tr", "det"):
        return float((np.trace if name == "tr" else np.linalg.det)(a))
    raise Senseless(f"the function {name}")
