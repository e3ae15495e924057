"""The arithmetic of complex values, primitive by primitive, written with real operations on their parts."""

from typing import Any, NoReturn

import numpy as np

from gradcli.errors import NoRule
from gradcli.rules.elementwise import ln, pi
from gradcli.rules.pairs import RULES, ComplexPair, Part, add, both, linearly, pair, parts
from gradcli.tracing.primitive import Value, named
from gradcli.tracing.shapes import shape, zeros_like


def _less(a: Part) -> Part:
    return None if a is None else -a


def _times(a: Part, b: Part) -> Part:
    return None if a is None or b is None else a * b


def _plus(a: Value, b: Value) -> ComplexPair:
    (ar, ai), (br, bi) = parts(a), parts(b)
    return pair(add(ar, br), add(ai, bi))


def _minus(a: Value, b: Value) -> ComplexPair:
    (ar, ai), (br, bi) = parts(a), parts(b)
    return pair(add(ar, _less(br)), add(ai, _less(bi)))


def _product(a: Value, b: Value) -> ComplexPair:
    (ar, ai), (br, bi) = parts(a), parts(b)
    return pair(add(_times(ar, br), _less(_times(ai, bi))), add(_times(ar, bi), _times(ai, br)))


def _quotient(a: Value, b: Value) -> ComplexPair:
    br, bi = parts(b)
    if bi is not None:
        size = add(_times(br, br), _times(bi, bi))
        return _quotient(_product(a, pair(br, -bi)), size)
    ar, ai = parts(a)
    return pair(None if ar is None else ar / br, None if ai is None else ai / br)


def _whole_power(x: Value, *, n: int) -> Value:
    if n < 0:
        return _quotient(1.0, _whole_power(x, n=-n))
    y: Value = None
    while n:
        if n & 1:
            y = x if y is None else y * x
        n >>= 1
        x = x * x if n else x
    return pair(zeros_like(x) + 1.0, None) if y is None else y


def _exp(x: Value) -> ComplexPair:
    re, im = parts(x)
    size = None if re is None else np.exp(re)
    if im is None:
        return pair(size, None)
    turn = pair(np.cos(im), np.sin(im))
    return turn if size is None else _product(size, turn)


def _expm1(x: Value) -> ComplexPair:
    re, im = both(x)
    return pair(np.expm1(re) * np.cos(im) - 2 * np.square(np.sin(im / 2)), np.exp(re) * np.sin(im))


def _log(x: Value) -> ComplexPair:
    re, im = both(x)
    return pair(np.log(np.hypot(re, im)), np.arctan2(im, re))


def _log1p(x: Value) -> ComplexPair:
    re, im = both(x)
    return pair(np.log1p(re * (2 + re) + im * im) / 2, np.arctan2(im, 1 + re))


def _sqrt(x: Value) -> ComplexPair:
    re, im = both(x)
    root, half = np.sqrt(np.hypot(re, im)), np.arctan2(im, re) / 2
    return pair(root * np.cos(half), root * np.sin(half))


def _power(x: Value, p: Value) -> Value:
    return np.exp(p * _log(x))


def _i_times(x: Value, sign: int = 1) -> ComplexPair:
    """Return i x, or -i x."""
    re, im = both(x)
    return pair(-sign * im, sign * re)


def _arcsinh(x: Value) -> ComplexPair:
    return _log(x + _sqrt(1 + x * x))


def _arcsin(x: Value) -> ComplexPair:
    return _i_times(_arcsinh(_i_times(x)), -1)


def _arctanh(x: Value) -> ComplexPair:
    return _quotient(_minus(_log1p(x), _log1p(-x)), 2.0)


def _sin(x: Value) -> ComplexPair:
    re, im = both(x)
    return pair(np.sin(re) * np.cosh(im), np.cos(re) * np.sinh(im))


def _cos(x: Value) -> ComplexPair:
    re, im = both(x)
    return pair(np.cos(re) * np.cosh(im), -np.sin(re) * np.sinh(im))


def _sinh(x: Value) -> ComplexPair:
    re, im = both(x)
    return pair(np.sinh(re) * np.cos(im), np.cosh(re) * np.sin(im))


def _cosh(x: Value) -> ComplexPair:
    re, im = both(x)
    return pair(np.cosh(re) * np.cos(im), np.sinh(re) * np.sin(im))


def _absolute(x: Value) -> Value:
    re, im = parts(x)
    if re is not None and im is not None:
        return np.hypot(re, im)
    alone: Value = im if re is None else re
    return np.abs(alone)


def _equal(a: Value, b: Value) -> Any:
    (ar, ai), (br, bi) = both(a), both(b)
    return np.logical_and(np.equal(ar, br), np.equal(ai, bi))


def _ordered(*xs: Value, **params: Any) -> NoReturn:
    raise NoRule("complex values have no order", do="compare .real, .imag or np.abs")


def _solve(a: Value, b: Value) -> ComplexPair:
    """Return the solution of a @ y = b, by the equivalent real system of twice the size."""
    (ar, ai), (br, bi) = both(a), both(b)
    upper, lower = np.concatenate([ar, -ai], axis=-1), np.concatenate([ai, ar], axis=-1)
    y = np.linalg.solve(np.concatenate([upper, lower], axis=-2), np.concatenate([br, bi], axis=-2))
    n = shape(ar)[-1]
    return pair(y[..., :n, :], y[..., n:, :])


# fmt: off
RULES |= {
    "positive": lambda x: x, "negative": lambda x: linearly(named("negative"), [x], {}),
    "add": _plus, "subtract": _minus, "multiply": _product, "divide": _quotient, "square": lambda x: _product(x, x),
    "reciprocal": lambda x: _quotient(1.0, x), "integer_power": _whole_power, "power": _power,
    "exp": _exp, "expm1": _expm1, "log": _log, "log1p": _log1p, "sqrt": _sqrt,
    "sin": _sin, "cos": _cos, "tan": lambda x: _quotient(_sin(x), _cos(x)),
    "sinh": _sinh, "cosh": _cosh, "tanh": lambda x: _quotient(_sinh(x), _cosh(x)),
    "arcsinh": _arcsinh, "arccosh": lambda x: _log(x + _product(_sqrt(x + 1), _sqrt(x - 1))), "arctanh": _arctanh,
    "arcsin": _arcsin, "arccos": lambda x: _minus(pi(x) / 2, _arcsin(x)),
    "arctan": lambda x: _i_times(_arctanh(_i_times(x)), -1),
    "log2": lambda x: _quotient(_log(x), ln(2, x)), "log10": lambda x: _quotient(_log(x), ln(10, x)),
    "exp2": lambda x: _exp(x * ln(2, x)), "sign": lambda x: x / _absolute(x),
    "absolute": _absolute, "norm": lambda x: np.linalg.norm(np.concatenate([np.ravel(part) for part in both(x)])),
    "equal": _equal, "not_equal": lambda a, b: np.logical_not(_equal(a, b)),
    "isfinite": lambda x: np.logical_and(*map(np.isfinite, both(x))), "isnan": lambda x: np.logical_or(*map(np.isnan, both(x))),
    "isinf": lambda x: np.logical_or(*map(np.isinf, both(x))),
    "solve": _solve, "inv": lambda a: _solve(a, np.eye(shape(a)[-1])),
}
RULES |= dict.fromkeys(("less", "less_equal", "greater", "greater_equal", "maximum", "minimum", "max", "peaks"), _ordered)
# fmt: on
