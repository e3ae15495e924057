"""scipy.signal: convolution, linear filters, spectral estimates."""

import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import NoRule
from gradcli.rules.scipy.linear import linear_stand_ins
from gradcli.rules.shaping import as_value
from gradcli.tracing.primitive import F, Value
from gradcli.tracing.shapes import shape, size
from gradcli.tracing.tracer import is_differentiated, plain_value


def convolve(in1: Value, in2: Value, mode: str = "full", method: str = "auto") -> Value:
    """Return the convolution of two arrays of any number of axes; with mode 'same', of the shape of the first."""
    a, b = as_value(in1), as_value(in2)
    shapes = shape(a), shape(b)
    if len(shapes[0]) != len(shapes[1]):
        raise ValueError("in1 and in2 should have the same dimensionality")
    if not shapes[0]:
        return a * b
    if mode == "valid" and any(n < m for n, m in zip(*shapes, strict=True)):
        a, b = b, a
        shapes = shapes[1], shapes[0]
    # scipy may use a Fourier transform, which mixes real and imaginary parts
    full = F.real(_full_convolution(a, b))
    if mode == "full":
        return full
    lengths = [n if mode == "same" else n - m + 1 for n, m in zip(*shapes, strict=True)]
    starts = [(n + m - 1 - length) // 2 for n, m, length in zip(*shapes, lengths, strict=True)]
    return full[tuple(slice(start, start + length) for start, length in zip(starts, lengths, strict=True))]


def _full_convolution(a: Value, b: Value) -> Value:
    """Return the full convolution: along one axis numpy's, along several as a sum over the shifts of the smaller array."""
    left, right = shape(a), shape(b)
    if len(left) == 1:
        return np.convolve(a, b)
    if np.prod(left) < np.prod(right):
        return _full_convolution(b, a)
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
    _require_zero_boundary("convolve2d", boundary, fillvalue)
    return convolve(in1, in2, mode)


def correlate2d(in1: Value, in2: Value, mode: str = "full", boundary: str = "fill", fillvalue: Any = 0) -> Value:
    _require_zero_boundary("correlate2d", boundary, fillvalue)
    return correlate(in1, in2, mode)


def _require_zero_boundary(name: str, boundary: str, fillvalue: Any) -> None:
    if boundary not in ("fill", "pad") or fillvalue != 0:
        raise NoRule(
            f"scipy.signal.{name} with boundary={boundary!r} has no derivative rule",
            do="pad the array with np.pad first",
        )


def lfilter(b: Value, a: Value, x: Value, axis: int = -1, zi: Value | None = None) -> Any:
    """Return the filtered signal, and with `zi` the final state: the recursion of direct form II, transposed."""
    b, a, x = np.atleast_1d(as_value(b)), np.atleast_1d(as_value(a)), np.moveaxis(as_value(x), axis, -1)
    order = max(size(b), size(a))
    b, a = (np.concatenate([c, np.zeros(order - size(c))]) / a[0] for c in (b, a))
    count = shape(x)[-1]
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


# scipy.signal's spectral estimates of real data: welch, csd, periodogram, spectrogram. Segments, windows, Fourier transforms.


@dataclass(frozen=True, slots=True)
class Segments:
    """How a row of samples is cut: the window, the overlap, the length of the transform, and how trends are removed."""

    window: Any
    overlap: int
    nfft: int
    detrend: Any

    def transformed(self, x: Value) -> Value:
        """Return the Fourier transforms of the segments of the last axis.

        Shapes  x (..., samples); the result (..., segments, nfft // 2 + 1).
        """
        length = len(self.window)
        starts = np.arange(0, shape(x)[-1] - length + 1, length - self.overlap)
        pieces = x[..., starts[:, None] + np.arange(length)]
        if self.detrend == "constant":
            pieces = pieces - np.mean(pieces, axis=-1, keepdims=True)
        if self.detrend == "linear":
            lines = np.stack([np.ones(length), np.arange(length)], axis=1)
            pieces = pieces - np.matmul(pieces, np.linalg.pinv(lines).T @ lines.T)
        return np.fft.rfft(pieces * self.window, self.nfft)

    def scale(self, fs: float, scaling: str) -> Any:
        """Return the factors of the one-sided spectrum, by frequency."""
        density = scaling == "density"
        one = 1 / (fs * np.sum(self.window**2)) if density else 1 / np.sum(self.window) ** 2
        factors = np.full(self.nfft // 2 + 1, 2 * one)
        factors[0] = one
        if self.nfft % 2 == 0:
            factors[-1] = one
        return factors


def _no_rule_error(name: str, what: str) -> NoRule:
    return NoRule(
        f"scipy.signal.{name} with {what} is not traced", do="leave it out, or give your own gradient: --grad"
    )


def _bind_arguments(name: str, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the arguments of a call by name, with the defaults of the installed scipy."""
    given = inspect.signature(getattr(sys.modules["scipy.signal"], name)).bind(*args, **kwargs)
    given.apply_defaults()
    options = {"noverlap": None, "nperseg": None, "average": "mean", "mode": "psd", **given.arguments}
    if options["average"] != "mean" or options["mode"] != "psd":
        raise _no_rule_error(name, "average= or mode= other than the default")
    if not options["return_onesided"] or any(np.iscomplexobj(options.get(key, 0.0)) for key in ("x", "y")):
        raise _no_rule_error(name, "return_onesided=False, or of complex data,")
    if is_differentiated(options["fs"]) or callable(options["detrend"]):
        raise _no_rule_error(name, "a traced fs=, or a function as detrend=,")
    return options


def _cut_segments(count: int, options: dict[str, Any], share: int) -> Segments:
    """Return how `count` samples are cut, with scipy's defaults; the overlap is a `share`-th of a segment by default."""
    from scipy.signal import get_window

    window, nperseg, noverlap, nfft = (options[key] for key in ("window", "nperseg", "noverlap", "nfft"))
    if isinstance(window, str | tuple):
        length = min(256 if nperseg is None else int(nperseg), count)
        window = get_window(window, length)
    else:
        window = np.asarray(plain_value(as_value(window)), dtype=float)
        length = len(window)
        if nperseg not in (None, length) or length > count:
            raise ValueError("window is longer than input signal, or nperseg is not its length")
    overlap = length // share if noverlap is None else int(noverlap)
    transform = length if nfft is None else int(nfft)
    if overlap >= length or transform < length:
        raise ValueError("noverlap must be less than nperseg, and nfft not less than nperseg")
    return Segments(window, overlap, transform, options["detrend"])


def _scaled_spectra(name: str, options: dict[str, Any], share: int) -> tuple[Any, Value, Segments]:
    """Return the frequencies, and the scaled products of the segments' transforms with the frequencies last."""
    axis, fs = options["axis"], float(options["fs"])
    first = np.moveaxis(as_value(options["x"]), axis, -1)
    count = shape(first)[-1]
    segments = _cut_segments(count, options, share)
    a = segments.transformed(first)
    if "y" not in options:
        product = np.square(np.real(a)) + np.square(np.imag(a))
    else:
        second = np.moveaxis(as_value(options["y"]), axis, -1)
        if shape(second)[-1] != count:
            raise _no_rule_error(name, "data of two lengths")
        product = np.conj(a) * segments.transformed(second)
    return np.fft.rfftfreq(segments.nfft, 1 / fs), product * segments.scale(fs, options["scaling"]), segments


def _mean_spectrum(name: str, options: dict[str, Any]) -> tuple[Any, Value]:
    frequencies, found, _ = _scaled_spectra(name, options, 2)
    return frequencies, np.moveaxis(np.mean(found, axis=-2), -1, options["axis"])


def periodogram(*args: Any, **kwargs: Any) -> tuple[Any, Value]:
    options = _bind_arguments("periodogram", args, kwargs)
    count = shape(as_value(options["x"]))[options["axis"]]
    if options["nfft"] is not None and options["nfft"] < count:
        raise _no_rule_error("periodogram", "an nfft= that is less than the number of samples")
    window = "boxcar" if options["window"] is None else options["window"]
    length = count if isinstance(window, str | tuple) else None
    return _mean_spectrum("periodogram", {**options, "window": window, "nperseg": length, "noverlap": 0})


def spectrogram(*args: Any, **kwargs: Any) -> tuple[Any, Any, Value]:
    options = _bind_arguments("spectrogram", args, kwargs)
    frequencies, found, segments = _scaled_spectra("spectrogram", options, 8)
    length, axis = len(segments.window), options["axis"]
    times = (length / 2 + (length - segments.overlap) * np.arange(shape(found)[-2])) / float(options["fs"])
    return frequencies, times, np.moveaxis(found, -1, axis - 1 if axis < 0 else axis)


_LINEAR = ("sosfilt", "sosfiltfilt", "filtfilt", "savgol_filter", "resample", "resample_poly", "upfirdn", "decimate")
_SIGNAL: dict[str, Callable[..., Any]] = {
    "convolve": convolve, "fftconvolve": fftconvolve, "oaconvolve": fftconvolve, "correlate": correlate,
    "convolve2d": convolve2d, "correlate2d": correlate2d, "lfilter": lfilter,
    "welch": lambda *args, **kwargs: _mean_spectrum("welch", _bind_arguments("welch", args, kwargs)),
    "csd": lambda *args, **kwargs: _mean_spectrum("csd", _bind_arguments("csd", args, kwargs)),
    "periodogram": periodogram, "spectrogram": spectrogram,
    **linear_stand_ins("scipy.signal", "x", *_LINEAR), **linear_stand_ins("scipy.signal", "data", "detrend"),
}  # fmt: skip

FUNCTIONS = {"signal": _SIGNAL}
