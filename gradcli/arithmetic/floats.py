"""Floating-point formats: how each rounds, and the type that holds its values during a computation."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np
from flint import arb

from gradcli.arithmetic.ball import Ball
from gradcli.classes import dataclass
from gradcli.errors import BadOption, NotSupported
from gradcli.tracing.primitive import Params, Primitive, Value
from gradcli.tracing.tracer import Arithmetic, Tracer

GUARD = 32  # extra bits of an operation's result before it is rounded; they make double rounding errors very rare


@dataclass(frozen=True, slots=True)
class Format:
    """A floating-point format.

    Values of formats narrower than float32 are held in float32, and the result of every operation is rounded to the
    format. Sums and matrix products are accumulated in float32, as accelerators do.

    Units   `eps` is the spacing at 1, `tiny` the smallest normal number, `least` the smallest positive number.
    """

    name: str
    eps: float
    tiny: float
    least: float
    largest: float
    held: Any
    round_to: Any = None
    complex: Any = None

    @property
    def digits(self) -> float:
        """The decimal digits of a correctly rounded number."""
        return float(-np.log10(self.eps / 2))

    def rounded(self, x: Any) -> Any:
        """Return `x` rounded to this format; values that are not floats are returned without change."""
        if self.round_to is None and type(x) is np.ndarray and x.dtype.type is self.held:
            return x
        array = np.asarray(x)
        if array.dtype.kind == "c":
            return array.astype(self.complex, copy=False)
        if array.dtype.kind != "f":
            return x
        if self.round_to is not None:
            array = array.astype(self.round_to)
        return array.astype(self.held, copy=False)


def _limits(info: Any) -> tuple[float, float, float, float]:
    return float(info.eps), float(info.tiny), float(info.smallest_subnormal), float(info.max)


def _numpy_format(name: str, held: Any, complex_: Any, round_to: Any = None) -> Format:
    return Format(name, *_limits(np.finfo(round_to or held)), held, round_to, complex_)


def _ml_dtypes_format(name: str) -> Format:
    """Return a format of the package ml_dtypes, which numpy does not have.

    Raises  NotSupported if ml_dtypes is not installed.
    """
    try:
        import ml_dtypes
    except ImportError:
        raise NotSupported(f"{name} needs ml_dtypes, which is not installed", do="pip install ml_dtypes") from None
    kind = getattr(ml_dtypes, name)
    return Format(name, *_limits(ml_dtypes.finfo(kind)), np.float32, kind)  # type: ignore[no-untyped-call]


def _longdouble_format() -> Format:
    if np.finfo(np.longdouble).eps == np.finfo(np.float64).eps:
        raise NotSupported("longdouble is float64 on this machine", do="use --bits 64, which works anywhere")
    return _numpy_format("longdouble", np.longdouble, np.clongdouble)


_MADE: dict[str, Callable[[], Format]] = {
    "float64": lambda: _numpy_format("float64", np.float64, np.complex128),
    "float32": lambda: _numpy_format("float32", np.float32, np.complex64),
    "float16": lambda: _numpy_format("float16", np.float32, None, np.float16),
    "bfloat16": lambda: _ml_dtypes_format("bfloat16"),
    "float8_e4m3fn": lambda: _ml_dtypes_format("float8_e4m3fn"),
    "float8_e5m2": lambda: _ml_dtypes_format("float8_e5m2"),
    "longdouble": _longdouble_format,
}
DTYPES = tuple(_MADE)


@cache
def format_of(name: str) -> Format:
    """Return the format called `name`, or the only one whose name begins with `name`.

    Raises  BadOption if there is none, or more than one; NotSupported if the format is not available here.
    """
    found = [known for known in DTYPES if known == name] or [known for known in DTYPES if known.startswith(name)]
    if len(found) != 1 or not name:
        raise BadOption(f"there is no dtype '{name}'", do=f"dtypes: {', '.join(DTYPES)}")
    return _MADE[found[0]]()


FLOAT64 = format_of("float64")


# Arithmetics that round every operation: to a narrow format, with losses counted, or to a given number of bits.


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
        kept = np.asarray(cls.form.rounded(y), dtype=_working_dtype(cls.form))
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
        values = [self._operand_in_format(x) for x in xs]
        y = np.asarray(primitive.fun(*values, **params))
        if y.dtype.kind != "f":
            return y[()]
        return type(self)(self.rounded(y))

    def _operand_in_format(self, x: Value) -> Any:
        if isinstance(x, Low):
            return x.value
        array = np.asarray(x)
        return np.asarray(self.form.rounded(array), dtype=_working_dtype(self.form)) if array.dtype.kind == "f" else x


def _working_dtype(form: Format) -> Any:
    """Return the type in which operations are computed; it has a wider range than the format, so that losses are seen."""
    return np.float32 if form.tiny > np.finfo(np.float32).tiny else np.float64


@cache
def arithmetic_of_format(form: Format) -> type[Low]:
    """Return the arithmetic of a format."""
    return type("Low", (Low,), {"__slots__": (), "form": form, "events": Counter()})


class Rounded(Ball):
    """A number of `bits` bits, with an unlimited exponent; every result is rounded to nearest, ties to even."""

    __slots__ = ()
    bits: ClassVar[int]

    def process(self, primitive: Primitive, xs: Sequence[Value], params: Params) -> Value:
        y = super().process(primitive, xs, params)
        return type(self)(_ROUNDED(y.value, self.bits)) if isinstance(y, Ball) else y


def round_to_bits(x: arb, bits: int) -> arb:
    """Return the midpoint of a ball, rounded to `bits` bits, ties to even."""
    if not x.is_finite():
        return x.mid()
    mantissa, exponent = map(int, x.mid().man_exp())
    more = mantissa.bit_length() - bits
    if more <= 0:
        return x.mid()
    kept, rest, half = mantissa >> more, mantissa & ((1 << more) - 1), 1 << (more - 1)
    return arb((kept + (rest > half or (rest == half and kept % 2 == 1)), exponent + more))


_ROUNDED = np.frompyfunc(round_to_bits, 2, 1)


@cache
def arithmetic_of_bits(bits: int) -> type[Rounded]:
    """Return the arithmetic of numbers of `bits` bits; run it at a precision of `GUARD` bits more."""
    return type("Rounded", (Rounded,), {"__slots__": (), "bits": bits})
