"""Constructors: arrays that are made of sizes and plain numbers, which an expression and a point can contain."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.tracing.primitive import Value
from gradcli.tracing.tracer import plain


def whole(x: Any) -> int:
    """Return a size or a position as an int. Raises ValueError unless it is an integer."""
    number = float(plain(x)) if not isinstance(x, str) else float("nan")
    if not number.is_integer():
        raise ValueError(f"{x} is not a whole number")
    return int(plain(x))


def shape_of(*sizes: Any) -> tuple[int, ...]:
    """Return a shape given as sizes, or as one list of them. Raises ValueError for a negative or fractional size."""
    parts = sizes[0] if len(sizes) == 1 and np.ndim(sizes[0]) == 1 else sizes
    found = tuple(whole(n) for n in parts)
    if any(n < 0 for n in found):
        raise ValueError("a size is negative")
    return found


def _zeros(shape: Any = ()) -> Any:
    """Return zeros of a shape."""
    return np.zeros(shape_of(shape) if np.ndim(shape) == 0 else shape_of(*shape))[()]


def _ones(shape: Any = ()) -> Any:
    """Return ones of a shape."""
    return _zeros(shape) + 1.0


def _full(shape: Any, value: Value) -> Any:
    """Return an array filled with a value."""
    wanted = shape_of(shape) if np.ndim(shape) == 0 else shape_of(*shape)
    return np.broadcast_to(value, wanted) if wanted else value


def _eye(n: Any) -> Any:
    """Return the identity matrix of n rows."""
    return np.eye(whole(n))


def _arange(*bounds: Any) -> Any:
    """Return evenly spaced numbers, without the end."""
    return np.arange(*(plain(x) for x in bounds), dtype=float)


def _linspace(start: Any, stop: Any, num: Any = 50) -> Any:
    """Return `num` evenly spaced numbers, the end included."""
    return np.linspace(plain(start), plain(stop), whole(num))


def _onehot(k: Any, n: Any) -> Any:
    """Return the k-th row of the identity matrix of n rows, k from 0."""
    if not 0 <= whole(k) < whole(n):
        raise ValueError(f"position {whole(k)} is not in 0 to {whole(n) - 1}")
    return np.eye(1, whole(n), whole(k))[0]


def _tri(N: Any, M: Any = None, k: Any = 0) -> Any:
    """Return ones on and below the k-th diagonal of N rows and M columns, and zeros above."""
    return np.tri(whole(N), None if M is None else whole(M), whole(k))


def _fftfreq(n: Any, d: Any = 1.0) -> Any:
    """Return the frequencies of a transform of n samples that are d apart."""
    return np.fft.fftfreq(whole(n), float(plain(d)))


def _rfftfreq(n: Any, d: Any = 1.0) -> Any:
    """Return the frequencies of 0 or more of a transform of n samples that are d apart."""
    return np.fft.rfftfreq(whole(n), float(plain(d)))


def _window(make: Callable[..., Any]) -> Callable[..., Any]:
    def window(M: Any) -> Any:
        return make(whole(M))

    window.__doc__ = f"Return numpy's window {make.__name__} of M points."
    return window


def _kaiser(M: Any, beta: Any) -> Any:
    """Return numpy's window kaiser of M points."""
    return np.kaiser(whole(M), float(plain(beta)))


CONSTRUCTORS: dict[str, Callable[..., Any]] = {
    "zeros": _zeros, "ones": _ones, "full": _full, "eye": _eye, "identity": _eye,
    "arange": _arange, "linspace": _linspace, "onehot": _onehot, "tri": _tri, "fftfreq": _fftfreq, "rfftfreq": _rfftfreq,
    "bartlett": _window(np.bartlett), "blackman": _window(np.blackman), "hamming": _window(np.hamming),
    "hanning": _window(np.hanning), "kaiser": _kaiser,
}  # fmt: skip


def constructed_entries(name: str, given: dict[str, Any]) -> int:
    """Return how many entries a constructor would make from its named arguments.

    Raises  ValueError for an arange without an end, with a step of 0 or with infinite bounds.
    """
    if name in ("zeros", "ones", "full"):
        sizes = given.get("shape", ())
        return math.prod(int(plain(n)) for n in (sizes if isinstance(sizes, list | tuple | np.ndarray) else (sizes,)))
    if name in ("eye", "identity"):
        return int(plain(given["n"])) ** 2
    if name == "tri":
        rows = int(plain(given["N"]))
        return rows * (rows if given.get("M") is None else int(plain(given["M"])))
    if "M" in given:
        return int(plain(given["M"]))
    if name in ("onehot", "linspace", "fftfreq", "rfftfreq"):
        return int(plain(given.get("n", given.get("num", 50))))
    bounds = [float(plain(x)) for x in given.get("bounds", ())]
    if not bounds:
        raise ValueError("arange needs an end")
    start, stop, step = (0.0, bounds[0], 1.0) if len(bounds) == 1 else (*bounds, 1.0)[:3]
    if step == 0 or not math.isfinite((stop - start) / step):
        raise ValueError("arange needs a step that is not 0, and finite bounds")
    return max(0, math.ceil((stop - start) / step))
