"""Balls: arbitrary-precision numbers that carry a proved bound on their error (python-flint's `arb`)."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from flint import arb, ctx

from gradcli.arithmetic.arb import ENTRIES, WHOLE
from gradcli.arithmetic.objectwise import Objectwise, install_quick_operator
from gradcli.tracing.primitive import Value


class Ball(Objectwise):
    """A ball, or an array of balls; each contains the exact result of the operations on the exact operands."""

    __slots__ = ()
    what = "ball arithmetic"
    entries = ENTRIES
    whole = WHOLE

    @classmethod
    def entry(cls, number: Any) -> arb:
        return arb(float(number)) if isinstance(number, float | np.floating) else arb(int(number))

    @classmethod
    def entries_of(cls, numbers: Any) -> Iterator[arb]:
        return map(arb, numbers.reshape(-1).tolist())

    @classmethod
    def lift_constant(cls, name: str, value: Value) -> Any:
        return cls(ball_of_constant(name, value))

    @property
    def moves(self) -> bool:
        """Whether it is more than one number; a ball without a radius is as good as a plain one."""
        return bool(np.any(radius(self) > 0))

    @property
    def primal(self) -> Value:
        return nearest_float64(self)


for _name, _dunder in (("add", "add"), ("subtract", "sub"), ("multiply", "mul"), ("divide", "truediv")):
    install_quick_operator(Ball, _name, _dunder)
_EXACT = ContextVar("exact constants", default=False)


def ball_of_constant(name: str, value: Value) -> arb:
    """Return pi or e: their float64 `value`, or inside `exact_constants` a ball around them of the precision that is set."""
    if not _EXACT.get():
        return arb(float(value))
    return arb.pi() if name == "pi" else arb.const_e()


@contextmanager
def exact_constants() -> Iterator[None]:
    """Take pi and e themselves inside the context, not the float64 of that name."""
    token = _EXACT.set(True)
    try:
        yield
    finally:
        _EXACT.reset(token)


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Compute with `bits` bits inside the context; restore the former precision on exit, also when user code raises."""
    before = ctx.prec
    ctx.prec = bits
    try:
        yield
    finally:
        ctx.prec = before


def _entries_and_shape(x: Value) -> tuple[list[arb], tuple[int, ...]]:
    entries = Ball.objects(x)
    return (entries.reshape(-1).tolist(), entries.shape) if type(entries) is np.ndarray else ([entries], ())


def nearest_float64(x: Value) -> Value:
    """Return the midpoints, rounded to float64."""
    if type(x) is Ball and type(x.value) is arb:
        return np.float64(float(x.value))
    entries, shape = _entries_and_shape(x)
    return np.fromiter(map(float, entries), np.float64, len(entries)).reshape(shape)[()]


def radius(x: Value) -> Value:
    """Return the radii, rounded up to float64; infinite where a ball is not finite."""
    if type(x) is Ball and type(x.value) is arb:
        return np.float64(_round_up(x.value.rad()) if math.isfinite(float(x.value)) else math.inf)
    entries, shape = _entries_and_shape(x)
    known = np.isfinite(np.fromiter(map(float, entries), np.float64, len(entries)))
    return np.where(known, _round_up_all(list(map(arb.rad, entries))), np.inf).reshape(shape)[()]


def decimal_strings(x: Value, digits: int) -> Any:
    """Return the midpoints as decimal strings of `digits` significant digits, in an object array."""
    entries = np.asarray(Ball.objects(x), dtype=object)
    written = [str(entry.mid().str(digits, radius=False)) for entry in entries.reshape(-1).tolist()]
    return np.array(written, dtype=object).reshape(entries.shape)


def bound_error(x: Value, approximate: Value) -> Value:
    """Return a float64 upper bound on |approximate - x|, entry by entry.

    Shapes  `approximate` and x broadcast; the bound has their common shape.
    Error   rounded up, and zero only if the error is zero; infinite where a ball is not finite.
    """
    if type(x) is Ball and type(x.value) is arb and isinstance(approximate, float):
        apart = Ball.entry(approximate) - x.value
        return np.float64(_round_up(abs(apart).upper()) if apart.is_finite() else math.inf)
    entries, shape = _entries_and_shape(np.subtract(Ball.lift(approximate), x))
    bounds = _round_up_all([abs(entry).upper() if entry.is_finite() else _INFINITE for entry in entries])
    return bounds.reshape(shape)[()]


def _round_up(bound: arb) -> float:
    return 0.0 if bound.is_zero() else math.nextafter(float(bound), math.inf)


def _round_up_all(bounds: list[arb]) -> Any:
    """Return exact bounds as float64 numbers that are not smaller; zero only for zero."""
    floats = np.fromiter(map(float, bounds), np.float64, len(bounds))
    up = np.nextafter(floats, np.inf)
    for k in np.flatnonzero(floats == 0).tolist():
        up[k] = _round_up(bounds[k])
    return up


_INFINITE = arb("inf")
