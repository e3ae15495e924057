"""Arithmetics that round every operation: to a narrow format, with losses counted, or to a given number of bits."""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
from flint import arb

from gradcli.arithmetic.ball import Ball
from gradcli.arithmetic.floats import Format
from gradcli.tracing.primitive import Params, Primitive, Value
from gradcli.tracing.tracer import Arithmetic, Tracer

GUARD = 32  # extra bits of an operation's result before it is rounded; they make double rounding errors very rare


class Low(Arithmetic):
    """A value in a narrow format, held in a wider one; rules run in their textbook form, as frameworks run them."""

    __slots__ = ("value",)
    level = 0
    form: ClassVar[Format]
    events: ClassVar[Counter[str]]

    def __init__(self, value: Any) -> None:
        self.value = value
        self.storage = None

    @classmethod
    def lift(cls, number: Value) -> Any:
        return cls(cls.rounded(np.asarray(number, dtype=np.float64)))

    @classmethod
    def rounded(cls, y: Any) -> Any:
        """Return a result rounded to the format; entries that underflow, overflow or become subnormal are counted."""
        y = np.asarray(y)
        kept = np.asarray(cls.form.rounded(y), dtype=_working(cls.form))
        size = np.abs(kept)
        cls.events["underflow"] += int(np.count_nonzero((size == 0) & (y != 0)))
        cls.events["subnormal"] += int(np.count_nonzero((size < cls.form.tiny) & (size > 0)))
        cls.events["overflow"] += int(np.count_nonzero(~np.isfinite(kept) & np.isfinite(y)))
        return kept[()]

    def hold(self, x: Value) -> Tracer:
        return x if isinstance(x, Low) else self.lift(x)

    @property
    def primal(self) -> Value:
        return np.asarray(self.value, dtype=np.float64)[()]

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.value)

    def process(self, primitive: Primitive, xs: Sequence[Value], params: Params) -> Value:
        values = [self._operand(x) for x in xs]
        y = np.asarray(primitive.fun(*values, **params))
        if y.dtype.kind != "f":
            return y[()]
        return type(self)(self.rounded(y))

    def _operand(self, x: Value) -> Any:
        if isinstance(x, Low):
            return x.value
        array = np.asarray(x)
        return np.asarray(self.form.rounded(array), dtype=_working(self.form)) if array.dtype.kind == "f" else x


def _working(form: Format) -> Any:
    """Return the type in which operations are computed; it has a wider range than the format, so that losses are seen."""
    return np.float32 if form.tiny > np.finfo(np.float32).tiny else np.float64


@cache
def low(form: Format) -> type[Low]:
    """Return the arithmetic of a format."""
    return type("Low", (Low,), {"__slots__": (), "form": form, "events": Counter()})


class Rounded(Ball):
    """A number of `bits` bits, with an unlimited exponent; every result is rounded to nearest, ties to even."""

    __slots__ = ()
    bits: ClassVar[int]

    def process(self, primitive: Primitive, xs: Sequence[Value], params: Params) -> Value:
        y = super().process(primitive, xs, params)
        return type(self)(_ROUNDED(y.value, self.bits)) if isinstance(y, Ball) else y


def nearest_of(x: arb, bits: int) -> arb:
    """Return the midpoint of a ball, rounded to `bits` bits, ties to even."""
    if not x.is_finite():
        return x.mid()
    mantissa, exponent = map(int, x.mid().man_exp())
    more = mantissa.bit_length() - bits
    if more <= 0:
        return x.mid()
    kept, rest, half = mantissa >> more, mantissa & ((1 << more) - 1), 1 << (more - 1)
    return arb((kept + (rest > half or (rest == half and kept % 2 == 1)), exponent + more))


_ROUNDED = np.frompyfunc(nearest_of, 2, 1)


@cache
def of_bits(bits: int) -> type[Rounded]:
    """Return the arithmetic of numbers of `bits` bits; run it at a precision of `GUARD` bits more."""
    return type("Rounded", (Rounded,), {"__slots__": (), "bits": bits})
