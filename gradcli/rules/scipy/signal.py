"""scipy.signal: convolution, linear filters, spectral estimates."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.errors import NoRule
from gradcli.rules.scipy.linear import all_linear
from gradcli.rules.scipy.spectra import SPECTRA
from gradcli.rules.shaping import as_value
from gradcli.tracing.primitive import Value, named
from gradcli.tracing.tracer import plain


def convolve(in1: Value, in2: Value, mode: str = "full", method: str = "auto") -> Value:
    """Return the convolution of two arrays of any number of axes; with mode 'same', of the shape of the first."""
    a, b = as_value(in1), as_value(in2)
    shapes = np.shape(plain(a)), np.shape(plain(b))
    if len(shapes[0]) != len(shapes[1]):
        raise ValueError("in1 and in2 should have the same dimensionality")
    if not shapes[0]:
        return a * b
    if mode == "valid" and any(n < m for n, m in zip(*shapes, strict=True)):
        a, b = b, a
        shapes = shapes[1], shapes[0]
    full = named("real")(_full(a, b))  # scipy may use a Fourier transform, which mixes real and imaginary parts
    if mode == "full":
        return full
    lengths = [n if mode == "same" else n - m + 1 for n, m in zip(*shapes, strict=True)]
    starts = [(n + m - 1 - length) // 2 for n, m, length in zip(*shapes, lengths, strict=True)]
    return full[tuple(slice(start, start + length) for start, length in zip(starts, lengths, strict=True))]


def _full(a: Value, b: Value) -> Value:
    """Return the full convolution: along one axis numpy's, along several as a sum over the shifts of the smaller array."""
    left, right = np.shape(plain(a)), np.shape(plain(b))
    if len(left) == 1:
        return np.convolve(a, b)
    if np.prod(left) < np.prod(right):
        return _full(b, a)
    total: Any = 0.0
    for at in np.ndindex(*right):
        room = [(k, m - 1 - k) for k, m in zip(at, right, strict=True)]
        total = total + np.pad(a, room) * b[at]
    return total


def fftconvolve(in1: Value, in2: Value, mode: str = "full", axes: Any = None) -> Value:
    if axes is not None:
        raise NoRule("scipy.signal.fftconvolve with axes= has no derivative rule", do="leave axes= out, or use a loop")
    return convolve(in1, in2, mode)


def correlate(in1: Value, in2: Value, mode: str = "full", method: str = "auto") -> Value:
    return convolve(in1, np.flip(as_value(in2)), mode)


def convolve2d(in1: Value, in2: Value, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Value:
    _zero_filled("convolve2d", boundary, fillvalue)
    return convolve(in1, in2, mode)


def correlate2d(in1: Value, in2: Value, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Value:
    _zero_filled("correlate2d", boundary, fillvalue)
    return correlate(in1, in2, mode)


def _zero_filled(name: str, boundary: str, fillvalue: Any) -> None:
    if boundary not in ("fill", "pad") or fillvalue != 0:
        raise NoRule(
            f"scipy.signal.{name} with boundary={boundary!r} has no derivative rule",
            do="pad the array with np.pad first",
        )


def lfilter(b: Value, a: Value, x: Value, axis: int = -1, zi: Value | None = None) -> Any:
    """Return the filtered signal, and with `zi` the final state: the recursion of direct form II, transposed."""
    b, a, x = np.atleast_1d(as_value(b)), np.atleast_1d(as_value(a)), np.moveaxis(as_value(x), axis, -1)
    order = max(np.size(plain(b)), np.size(plain(a)))
    b, a = (np.concatenate([c, np.zeros(order - np.size(plain(c)))]) / a[0] for c in (b, a))
    count = np.shape(plain(x))[-1]
    if zi is None:
        state = [0.0 * x[..., 0] for _ in range(order - 1)]
    else:
        given = np.moveaxis(as_value(zi), axis, -1)
        state = [given[..., k] for k in range(order - 1)]
    found = []
    for t in range(count):
        y = b[0] * x[..., t] + (state[0] if state else 0.0)
        state = [
            b[k + 1] * x[..., t] - a[k + 1] * y + (state[k + 1] if k + 2 < order else 0.0) for k in range(order - 1)
        ]
        found.append(y)
    filtered = np.moveaxis(np.stack(found, axis=-1), -1, axis)
    return filtered if zi is None else (filtered, np.moveaxis(np.stack(state, axis=-1), -1, axis))


_OWN: dict[str, Callable[..., Any]] = {
    "convolve": convolve,
    "fftconvolve": fftconvolve,
    "oaconvolve": fftconvolve,
    "correlate": correlate,
    "convolve2d": convolve2d,
    "correlate2d": correlate2d,
    "lfilter": lfilter,
}
_LINEAR = ("sosfilt", "sosfiltfilt", "filtfilt", "savgol_filter", "resample", "resample_poly", "upfirdn", "decimate")
FUNCTIONS = _OWN | SPECTRA | all_linear("scipy.signal", "x", *_LINEAR) | all_linear("scipy.signal", "data", "detrend")
