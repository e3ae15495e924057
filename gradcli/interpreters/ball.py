"""Balls: arbitrary-precision numbers that carry a proved bound on their error (python-flint's `arb`)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from flint import arb, ctx

from gradcli.core.primitive import Value
from gradcli.interpreters.objectwise import Objectwise
from gradcli.lowering.arb import ENTRIES, WHOLE


class Ball(Objectwise):
    """A ball, or an array of balls; what it is computed from it encloses."""

    __slots__ = ()
    what = "ball arithmetic"
    entries = ENTRIES
    whole = WHOLE

    @classmethod
    def entry(cls, number: Any) -> arb:
        return arb(float(number)) if isinstance(number, float | np.floating) else arb(int(number))

    @property
    def primal(self) -> Value:
        return nearest(self)


@contextmanager
def precision(bits: int) -> Iterator[None]:
    """Compute with `bits` bits inside; the former precision comes back, also when user code raises."""
    before = ctx.prec
    ctx.prec = bits
    try:
        yield
    finally:
        ctx.prec = before


def _each(x: Value, function: Any) -> Any:
    entries = Ball.objects(x)
    if type(entries) is not np.ndarray:
        return np.float64(function(entries))
    flat = entries.reshape(-1).tolist()
    return np.array([function(entry) for entry in flat], dtype=np.float64).reshape(entries.shape)


def nearest(x: Value) -> Value:
    """Return the midpoints, rounded to float64."""
    return _each(x, lambda entry: float(entry.mid()) if entry.is_finite() else float(entry))


def radius(x: Value) -> Value:
    """Return the radii, rounded up to float64; infinite where nothing is known."""
    return _each(x, lambda entry: _up(entry.rad()) if entry.is_finite() else np.inf)


def decimals(x: Value, digits: int) -> Any:
    """Return the midpoints as decimal strings, in an object array."""
    entries = np.asarray(Ball.objects(x), dtype=object)
    written = [str(entry.mid().str(digits, radius=False)) for entry in entries.reshape(-1).tolist()]
    return np.array(written, dtype=object).reshape(entries.shape)


def error_of(x: Value, approximate: Value) -> Value:
    """Return a float64 upper bound on |approximate - x|, entry by entry."""
    distance = Ball.objects(np.subtract(Ball.lift(approximate), x))
    return _each(Ball(distance), lambda entry: _up(abs(entry).upper()) if entry.is_finite() else np.inf)


def _up(bound: arb) -> float:
    """Return an exact bound as a float64 that is not smaller; zero only for zero."""
    return 0.0 if bound.is_zero() else float(np.nextafter(float(bound), np.inf))
