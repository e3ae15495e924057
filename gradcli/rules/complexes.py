"""The arithmetic of complex values, primitive by primitive, written with real operations on their parts."""

from typing import Any, NoReturn

import numpy as np

from gradcli.errors import NoRule
from gradcli.rules.elementwise import ln, pi
from gradcli.rules.pairs import RULES, ComplexPair, Part, add_parts, complex_parts, filled_parts, pair, run_linear
from gradcli.tracing.primitive import Value, primitive_by_name
from gradcli.tracing.shapes import shape, zeros_like


def _negate_part(a: Part) -> Part:
    return None if a is None else -a


def _multiply_parts(a: Part, b: Part) -> Part:
    return None if a is None or b is None else a * b


def _add(a: Value, b: Value) -> ComplexPair:
    (ar, ai), (br, bi) = complex_parts(a), complex_parts(b)
    return pair(add_parts(ar, br), add_parts(ai, bi))


def _subtract(a: Value, b: Value) -> ComplexPair:
    (ar, ai), (br, bi) = complex_parts(a), complex_parts(b)
    return pair(add_parts(ar, _negate_part(br)), add_parts(ai, _negate_part(bi)))


def _multiply(a: Value, b: Value) -> ComplexPair:
    (ar, ai), (br, bi) = complex_parts(a), complex_parts(b)
    return pair(
        add_parts(_multiply_parts(ar, br), _negate_part(_multiply_parts(ai, bi))),
        add_parts(_multiply_parts(ar, bi), _multiply_parts(ai, br)),
    )


def _divide(a: Value, b: Value) -> ComplexPair:
    br, bi = complex_parts(b)
    if bi is not None:
        size = add_parts(_multiply_parts(br, br), _multiply_parts(bi, bi))
        return _divide(_multiply(a, pair(br, -bi)), size)
    ar, ai = complex_parts(a)
    return pair(None if ar is None else ar / br, None if ai is None else ai / br)


def _integer_power(x: Value, *, n: int) -> Value:
    if n < 0:
        return _divide(1.0, _integer_power(x, n=-n))
    y: Value = None
    while n:
        if n & 1:
            y = x if y is None else y * x
        n >>= 1
        x = x * x if n else x
    return pair(zeros_like(x) + 1.0, None) if y is None else y


def _exp(x: Value) -> ComplexPair:
    re, im = complex_parts(x)
    size = None if re is None else np.exp(re)
    if im is None:
        return pair(size, None)
    turn = pair(np.cos(im), np.sin(im))
    return turn if size is None else _multiply(size, turn)


def _expm1(x: Value) -> ComplexPair:
    re, im = filled_parts(x)
    return pair(np.expm1(re) * np.cos(im) - 2 * np.square(np.sin(im / 2)), np.exp(re) * np.sin(im))


def _log(x: Value) -> ComplexPair:
    re, im = filled_parts(x)
    return pair(np.log(np.hypot(re, im)), np.arctan2(im, re))


def _log1p(x: Value) -> ComplexPair:
    re, im = filled_parts(x)
    return pair(np.log1p(re * (2 + re) + im * im) / 2, np.arctan2(im, 1 + re))


def _sqrt(x: Value) -> ComplexPair:
    re, im = filled_parts(x)
    root, half = np.sqrt(np.hypot(re, im)), np.arctan2(im, re) / 2
    return pair(root * np.cos(half), root * np.sin(half))


def _power(x: Value, p: Value) -> Value:
    return np.exp(p * _log(x))


def _multiply_by_i(x: Value, sign: int = 1) -> ComplexPair:
    """Return i x, or -i x."""
    re, im = filled_parts(x)
    return pair(-sign * im, sign * re)


def _arcsinh(x: Value) -> ComplexPair:
    return _log(x + _sqrt(1 + x * x))


def _arcsin(x: Value) -> ComplexPair:
    return _multiply_by_i(_arcsinh(_multiply_by_i(x)), -1)


def _arctanh(x: Value) -> ComplexPair:
    return _divide(_subtract(_log1p(x), _log1p(-x)), 2.0)


def _sin(x: Value) -> ComplexPair:
    re, im = filled_parts(x)
    return pair(np.sin(re) * np.cosh(im), np.cos(re) * np.sinh(im))


def _cos(x: Value) -> ComplexPair:
    re, im = filled_parts(x)
    return pair(np.cos(re) * np.cosh(im), -np.sin(re) * np.sinh(im))


def _sinh(x: Value) -> ComplexPair:
    re, im = filled_parts(x)
    return pair(np.sinh(re) * np.cos(im), np.cosh(re) * np.sin(im))


def _cosh(x: Value) -> ComplexPair:
    re, im = filled_parts(x)
    return pair(np.cosh(re) * np.cos(im), np.sinh(re) * np.sin(im))


def _absolute(x: Value) -> Value:
    re, im = complex_parts(x)
    if re is not None and im is not None:
        return np.hypot(re, im)
    alone: Value = im if re is None else re
    return np.abs(alone)


def _equal(a: Value, b: Value) -> Any:
    (ar, ai), (br, bi) = filled_parts(a), filled_parts(b)
    return np.logical_and(np.equal(ar, br), np.equal(ai, bi))


def _refuse_order(*xs: Value, **params: Any) -> NoReturn:
    raise NoRule("complex values have no order", do="compare .real, .imag or np.abs")


def _solve(a: Value, b: Value) -> ComplexPair:
    """Return the solution of a @ y = b, by the equivalent real system of twice the size."""
    (ar, ai), (br, bi) = filled_parts(a), filled_parts(b)
    upper, lower = np.concatenate([ar, -ai], axis=-1), np.concatenate([ai, ar], axis=-1)
    y = np.linalg.solve(np.concatenate([upper, lower], axis=-2), np.concatenate([br, bi], axis=-2))
    n = shape(ar)[-1]
    return pair(y[..., :n, :], y[..., n:, :])


# fmt: off
RULES |= {
    "positive": lambda x: x, "negative": lambda x: run_linear(primitive_by_name("negative"), [x], {}),
    "add": _add, "subtract": _subtract, "multiply": _multiply, "divide": _divide, "square": lambda x: _multiply(x, x),
    "reciprocal": lambda x: _divide(1.0, x), "integer_power": _integer_power, "power": _power,
    "exp": _exp, "expm1": _expm1, "log": _log, "log1p": _log1p, "sqrt": _sqrt,
    "sin": _sin, "cos": _cos, "tan": lambda x: _divide(_sin(x), _cos(x)),
    "sinh": _sinh, "cosh": _cosh, "tanh": lambda x: _divide(_sinh(x), _cosh(x)),
    "arcsinh": _arcsinh, "arccosh": lambda x: _log(x + _multiply(_sqrt(x + 1), _sqrt(x - 1))), "arctanh": _arctanh,
    "arcsin": _arcsin, "arccos": lambda x: _subtract(pi(x) / 2, _arcsin(x)),
    "arctan": lambda x: _multiply_by_i(_arctanh(_multiply_by_i(x)), -1),
    "log2": lambda x: _divide(_log(x), ln(2, x)), "log10": lambda x: _divide(_log(x), ln(10, x)),
    "exp2": lambda x: _exp(x * ln(2, x)), "sign": lambda x: x / _absolute(x),
    "absolute": _absolute, "norm": lambda x: np.linalg.norm(np.concatenate([np.ravel(part) for part in filled_parts(x)])),
    "equal": _equal, "not_equal": lambda a, b: np.logical_not(_equal(a, b)),
    "isfinite": lambda x: np.logical_and(*map(np.isfinite, filled_parts(x))),
    "isnan": lambda x: np.logical_or(*map(np.isnan, filled_parts(x))),
    "isinf": lambda x: np.logical_or(*map(np.isinf, filled_parts(x))),
    "solve": _solve, "inv": lambda a: _solve(a, np.eye(shape(a)[-1])),
}
RULES |= dict.fromkeys(("less", "less_equal", "greater", "greater_equal", "maximum", "minimum", "max", "peaks"), _refuse_order)
# fmt: on
