"""Compare ways to compute a Hessian-vector product: forward over reverse, reverse over reverse, differences."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.core.shapes import shape
from gradcli.errors import NotSupported
from gradcli.interpreters.dual import jvp
from gradcli.interpreters.program import vjp
from gradcli.modes.mode import Question
from gradcli.numerics.jacobians import stacked
from gradcli.numerics.rounding import EPS
from gradcli.point import Estimate
from gradcli.reports.absent import ABSENT, Absent
from gradcli.reports.compare_rows import Product
from gradcli.source.derived import Gradient, direction
from gradcli.study.digits import FULL, digits_against

_H = np.cbrt(np.finfo(float).eps)
_TIMES = 3


def products(q: Question, right: Estimate | None) -> tuple[Product, ...]:
    """Return each way to compute H v, with its right digits and its time; empty if f is no gradient, or untraced.

    Units  seconds, and times one evaluation of the gradient.
    """
    if not isinstance(q.f, Gradient) or q.untraced:
        return ()
    vs = [direction(q.seed, name, x) for name, x in zip(q.wrt, q.xs, strict=True)]
    truth = None if right is None else _product(right, q, vs)
    ways: dict[str, tuple[Callable[[], Any], int]] = {
        "forward over reverse": (lambda: jvp(q.g, q.xs, vs)[1], 1),
        "reverse over reverse": (lambda: _transposed(q, vs), 1),
        "differences of gradients": (lambda: _differences(q, vs), 2),
    }
    found = []
    with np.errstate(all="ignore"):
        for name, (way, calls) in ways.items():
            try:
                value, seconds = _timed(way)
            except NotSupported:
                continue
            digits, at_least = (None, ABSENT) if truth is None else _right(value, *truth)
            found.append(Product(name, calls, seconds, seconds / q.seconds, digits, at_least))
    return tuple(found)


def _right(value: Any, truth: Any, bound: Any) -> tuple[float, bool | Absent]:
    """Return the right digits of the worst entry of a product, and True if they are only a lower bound."""
    digits, lower = digits_against(value, truth, bound)
    return float(np.min(digits, initial=FULL)), bool(np.any(lower)) or ABSENT


def _product(right: Estimate, q: Question, vs: list[Any]) -> tuple[Any, Any]:
    """Return H v by the reference Hessian, and its bound: that of H, and the rounding error of the sum."""
    rows = [(right.value[name], right.bound[name], v) for name, v in zip(q.wrt, vs, strict=True)]
    values = sum(np.reshape(np.tensordot(h, v, np.ndim(v)), -1) for h, _, v in rows)
    wide = [np.reshape(np.tensordot(b + q.entries * EPS * np.abs(h), np.abs(v), np.ndim(v)), -1) for h, b, v in rows]
    return values, sum(wide)


def _transposed(q: Question, vs: list[Any]) -> Any:
    """Return v H, which equals H v, by one reverse sweep over the gradient."""
    y, pull = vjp(q.g, q.xs)
    whole = np.concatenate([np.reshape(v, -1) for v in vs])
    if shape(y) != shape(whole):
        raise NotSupported("the gradient is taken by other inputs than the Hessian")
    return np.concatenate(
        [np.reshape(stacked([[bar]], np.float64(0), 0, x), -1) for bar, x in zip(pull(whole), q.xs, strict=True)]
    )


def _differences(q: Question, vs: list[Any]) -> Any:
    up = q.g(*[x + _H * v for x, v in zip(q.xs, vs, strict=True)])
    down = q.g(*[x - _H * v for x, v in zip(q.xs, vs, strict=True)])
    return (up - down) / (2 * _H)


def _timed(way: Callable[[], Any]) -> tuple[Any, float]:
    best, value = np.inf, None
    for _ in range(_TIMES):
        start = time.perf_counter()
        value = way()
        best = min(best, time.perf_counter() - start)
    return value, float(best)
