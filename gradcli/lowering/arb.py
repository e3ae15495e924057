"""Primitives in ball arithmetic: functions of python-flint's `arb`, by the primitive's name.

A comparison of balls that overlap raises Undecided, unless they are equal and exact; flint itself returns False.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from flint import arb

from gradcli.errors import Undecided
from gradcli.lowering.arb_matrices import MATRICES
from gradcli.lowering.arb_special import SPECIAL


def less(a: arb, b: arb) -> bool:
    """Return whether a < b.

    Raises  Undecided if the balls overlap.
    """
    if a < b:
        return True
    if a >= b:
        return False
    raise undecided(a, b)


def equal(a: arb | bool, b: arb | bool) -> bool:
    """Return whether a == b; either may be the truth of another comparison.

    Raises  Undecided if the balls overlap and are not exact.
    """
    if isinstance(a, bool):
        a = arb(a)
    if isinstance(b, bool):
        b = arb(b)
    if a == b:
        return True
    if not a.overlaps(b):
        return False
    raise undecided(a, b)


def undecided(a: arb, b: arb) -> Undecided:
    """Return the error for two balls that overlap, so that a comparison cannot be decided."""
    return Undecided(
        f"{float(a.mid()):.6g} and {float(b.mid()):.6g} are too close to compare",
        do="the function may have a kink here",
    )


def sign(x: arb) -> arb:
    """Return -1, 0 or 1; raise Undecided if the ball contains 0 and is not exact."""
    return arb(0) if equal(x, arb(0)) else arb(-1) if less(x, arb(0)) else arb(1)


def heaviside(x: arb, middle: arb) -> arb:
    """Return 0, `middle` or 1; raise Undecided if the ball contains 0 and is not exact."""
    return middle if equal(x, arb(0)) else arb(0) if less(x, arb(0)) else arb(1)


def maximum(a: arb, b: arb) -> arb:
    """Return the larger of two balls; if they overlap, a ball that contains the maximum."""
    return a if a > b else b if b > a else a.max(b)


def _step(name: str) -> Callable[[arb], arb]:
    def step(x: arb) -> arb:
        y = getattr(x, name)()
        if y.is_exact():
            return y
        raise undecided(x, y)

    return step


def trunc(x: arb) -> arb:
    return _step("ceil")(x) if less(x, arb(0)) else _step("floor")(x)


def rint(x: arb) -> arb:
    """Round to nearest, halves to even."""
    low = _step("floor")(x)
    rest = x - low - arb("0.5")
    up = int(float(low)) % 2 == 1 if equal(rest, arb(0)) else less(arb(0), rest)
    return low + 1 if up else low


def power(x: arb, p: arb) -> arb:
    if p.is_exact() and p.is_integer() and abs(p) <= 10**6:
        return integer_power(x, n=int(float(p)))
    if x.is_zero() and p > 0:
        return arb(0)
    return x**p


def integer_power(x: arb, *, n: int) -> arb:
    """Return x**n by squaring; flint's power is nan for a ball around zero."""
    if isinstance(x, bool):
        x = arb(x)
    if n < 0:
        return 1 / integer_power(x, n=-n)
    y = None
    while n > 1:
        if n & 1:
            y = x if y is None else y * x
        n, x = n >> 1, x * x
    if not n:
        return arb(1)
    return x if y is None else y * x


def cbrt(x: arb) -> arb:
    """Return the real cube root; negative for negative x."""
    return arb(0) if x.is_zero() else -((-x).root(3)) if x < 0 else x.root(3)


def logaddexp(a: arb, b: arb) -> arb:
    top, low = (b, a) if b > a else (a, b)
    return top + (low - top).exp().log1p()


# fmt: off
ENTRIES: dict[str, Callable[..., Any]] = {
    "positive": lambda x: +x, "negative": lambda x: -x,
    "add": lambda a, b: a + b, "subtract": lambda a, b: a - b, "multiply": lambda a, b: a * b, "divide": lambda a, b: a / b,
    "power": power, "integer_power": integer_power, "square": lambda x: x * x, "reciprocal": lambda x: 1 / x,
    "sqrt": arb.sqrt, "cbrt": cbrt, "absolute": abs, "hypot": lambda a, b: (a * a + b * b).sqrt(),
    "exp": arb.exp, "exp2": lambda x: arb(2) ** x, "expm1": arb.expm1, "log": arb.log, "log1p": arb.log1p,
    "log2": lambda x: x.log() / arb.const_log2(), "log10": lambda x: x.log() / arb.const_log10(), "logaddexp": logaddexp,
    "sin": arb.sin, "cos": arb.cos, "tan": arb.tan, "arcsin": arb.asin, "arccos": arb.acos, "arctan": arb.atan,
    "arctan2": lambda a, b: arb.atan2(a, b), "sinh": arb.sinh, "cosh": arb.cosh, "tanh": arb.tanh,
    "arcsinh": arb.asinh, "arccosh": arb.acosh, "arctanh": arb.atanh,
    "maximum": maximum, "minimum": lambda a, b: -maximum(-a, -b), "relu": lambda x: maximum(x, arb(0)),
    "remainder": lambda a, b: a - b * _step("floor")(a / b), "floor_divide": lambda a, b: _step("floor")(a / b),
    "fmod": lambda a, b: a - b * trunc(a / b), "logical_xor": lambda a, b: bool(a) != bool(b),
    "sign": sign, "heaviside": heaviside, "floor": _step("floor"), "ceil": _step("ceil"), "trunc": trunc, "rint": rint,
    "log_expit": lambda x: -logaddexp(arb(0), -x), **SPECIAL,
    "less": less, "greater": lambda a, b: less(b, a), "equal": equal, "not_equal": lambda a, b: not equal(a, b),
    "less_equal": lambda a, b: not less(b, a), "greater_equal": lambda a, b: not less(a, b),
    "isfinite": lambda x: bool(x.is_finite()), "isnan": lambda x: bool(x.is_nan()), "isinf": lambda x: not x.is_finite() and not x.is_nan(),
    "real": lambda x: x, "signbit": lambda x: less(x, arb(0)), "logical_not": lambda x: not x,
    "logical_and": lambda a, b: bool(a) and bool(b), "logical_or": lambda a, b: bool(a) or bool(b),
}
# fmt: on


def along(axis: tuple[int, ...], x: Any, function: Callable[[list[Any]], Any]) -> Any:
    """Return `function` of the entries along `axis`, an object array over the other axes."""
    kept = [k for k in range(x.ndim) if k not in axis]
    rows = np.transpose(x, (*kept, *axis)).reshape(*(x.shape[k] for k in kept), -1)
    if not kept:
        return function(rows.tolist())
    y = np.empty(rows.shape[:-1], dtype=object)
    for at in np.ndindex(*rows.shape[:-1]):
        y[at] = function(rows[at].tolist())
    return y


def _top(entries: list[Any]) -> Any:
    top = entries[0]
    for entry in entries[1:]:
        top = maximum(top, entry)
    return top


def peaks(x: Any, *, axis: tuple[int, ...]) -> Any:
    """Return 1 at the largest entries along the axes and 0 elsewhere; exact entries that are equal share the 1.

    Raises  Undecided if the largest entry overlaps with another one and they are not exact.
    """
    order = [k for k in range(x.ndim) if k not in axis] + list(axis)
    moved = np.transpose(x, order)
    flat = moved.reshape(*moved.shape[: x.ndim - len(axis)], -1)
    shares = np.empty(flat.shape, dtype=object)
    for at in np.ndindex(*flat.shape[:-1]):
        shares[at] = _shares(flat[at].tolist())
    return np.transpose(shares.reshape(moved.shape), np.argsort(order))


def _shares(entries: list[Any]) -> list[Any]:
    best = max(range(len(entries)), key=lambda k: float(entries[k].mid()))
    tied = [k for k, entry in enumerate(entries) if k == best or not less(entry, entries[best])]
    return [arb(1) / len(tied) if k in tied else arb(0) for k in range(len(entries))]


def logsumexp(x: Any, *, axis: tuple[int, ...]) -> Any:
    def one(entries: list[Any]) -> Any:
        shift = max(entries, key=lambda e: float(e.mid())).mid()
        return sum(((entry - shift).exp() for entry in entries), arb(0)).log() + shift

    return along(axis, x, one)


# fmt: off
WHOLE: dict[str, Callable[..., Any]] = {
    "max": lambda x, *, axis: along(axis, x, _top),
    "peaks": peaks,
    "norm": lambda x: sum((e * e for e in np.reshape(x, -1).tolist()), arb(0)).sqrt(),
    "logsumexp": logsumexp,
    **MATRICES,
}
# fmt: on
