"""Primitives as sympy expressions, by the primitive's name.

Branches are not in this table: a recorded program has already decided them, and says so with weights (see `plan`).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import sympy as sp

half = sp.Rational(1, 2)


def det(a: Any) -> Any:
    return sp.Matrix(a).det(method="berkowitz")


def inv(a: Any) -> Any:
    """Return the adjugate over the determinant, so that no pivot is tested for zero."""
    m = sp.Matrix(a)
    return np.array((m.adjugate() / det(a)).tolist(), dtype=object)


def along(axis: tuple[int, ...], x: Any, function: Callable[[Any], Any]) -> Any:
    return np.sum(np.frompyfunc(function, 1, 1)(x), axis=axis)


# fmt: off
ENTRIES: dict[str, Callable[..., Any]] = {
    "positive": lambda x: x, "negative": lambda x: -x,
    "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b, "divide": lambda a, b: a / b,
    "power": lambda x, p: x**p, "integer_power": lambda x, *, n: x**n, "square": lambda x: x**2, "reciprocal": lambda x: 1 / x,
    "sqrt": sp.sqrt, "cbrt": lambda x: x / (x**2) ** sp.Rational(1, 3), "hypot": lambda a, b: sp.sqrt(a**2 + b**2),
    "exp": sp.exp, "exp2": lambda x: sp.Integer(2) ** x, "expm1": lambda x: sp.exp(x) - 1,
    "log": sp.log, "log1p": lambda x: sp.log(1 + x), "log2": lambda x: sp.log(x) / sp.log(2), "log10": lambda x: sp.log(x) / sp.log(10),
    "logaddexp": lambda a, b: sp.log(sp.exp(a) + sp.exp(b)),
    "sin": sp.sin, "cos": sp.cos, "tan": sp.tan, "arcsin": sp.asin, "arccos": sp.acos, "arctan": sp.atan, "arctan2": sp.atan2,
    "sinh": sp.sinh, "cosh": sp.cosh, "tanh": sp.tanh, "arcsinh": sp.asinh, "arccosh": sp.acosh, "arctanh": sp.atanh,
    "erf": sp.erf, "erfc": sp.erfc, "gamma": sp.gamma, "gammaln": sp.loggamma, "digamma": sp.digamma,
    "polygamma": lambda x, *, n: sp.polygamma(n, x),
    "expit": lambda x: 1 / (1 + sp.exp(-x)), "log_expit": lambda x: -sp.log(1 + sp.exp(-x)), "logit": lambda x: sp.log(x / (1 - x)),
}
WHOLE: dict[str, Callable[..., Any]] = {
    "matmul": lambda a, b: np.matmul(a, b),
    "norm": lambda x: sp.sqrt(sum(e**2 for e in np.reshape(x, -1).tolist())),
    "logsumexp": lambda x, *, axis: np.frompyfunc(sp.log, 1, 1)(along(axis, x, sp.exp)),
    "det": det,
    "logdet": lambda a: half * sp.log(det(a) ** 2),
    "inv": inv,
    "solve": lambda a, b: np.matmul(inv(a), b),
}
# fmt: on
