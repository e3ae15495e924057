"""Floating-point formats: how each rounds, and the type that holds its values during a computation."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from gradcli.errors import BadOption, NotSupported


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


def _numpy(name: str, held: Any, complex_: Any, round_to: Any = None) -> Format:
    kind = held if round_to is None else round_to
    info = np.finfo(kind)
    return Format(
        name,
        float(info.eps),
        float(info.tiny),
        float(info.smallest_subnormal),
        float(info.max),
        held,
        round_to,
        complex_,
    )


def _small(name: str) -> Format:
    """Return a format of the package ml_dtypes, which numpy does not have.

    Raises  NotSupported if ml_dtypes is not installed.
    """
    try:
        import ml_dtypes
    except ImportError:
        raise NotSupported(f"{name} needs ml_dtypes, which is not installed", do="pip install ml_dtypes") from None
    kind = getattr(ml_dtypes, name)
    info: Any = ml_dtypes.finfo(kind)  # type: ignore[no-untyped-call]
    numbers = (float(info.eps), float(info.tiny), float(info.smallest_subnormal), float(info.max))
    return Format(name, *numbers, np.float32, kind)


def _long() -> Format:
    if np.finfo(np.longdouble).eps == np.finfo(np.float64).eps:
        raise NotSupported("longdouble is float64 on this machine", do="use --bits 64, which works anywhere")
    return _numpy("longdouble", np.longdouble, np.clongdouble)


_MADE: dict[str, Callable[[], Format]] = {
    "float64": lambda: _numpy("float64", np.float64, np.complex128),
    "float32": lambda: _numpy("float32", np.float32, np.complex64),
    "float16": lambda: _numpy("float16", np.float32, None, np.float16),
    "bfloat16": lambda: _small("bfloat16"),
    "float8_e4m3fn": lambda: _small("float8_e4m3fn"),
    "float8_e5m2": lambda: _small("float8_e5m2"),
    "longdouble": _long,
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
