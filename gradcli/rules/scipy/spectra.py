"""scipy.signal's spectral estimates of real data: welch, csd, periodogram, spectrogram. Segments, windows, Fourier transforms."""

import inspect
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.errors import NoRule
from gradcli.rules.shaping import as_value
from gradcli.tracing.primitive import Value
from gradcli.tracing.tracer import depends, plain


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
        starts = np.arange(0, np.shape(plain(x))[-1] - length + 1, length - self.overlap)
        pieces = x[..., starts[:, None] + np.arange(length)]
        return np.fft.rfft(self._level(pieces) * self.window, self.nfft)

    def _level(self, pieces: Value) -> Value:
        if self.detrend == "constant":
            return pieces - np.mean(pieces, axis=-1, keepdims=True)
        if self.detrend == "linear":
            count = len(self.window)
            lines = np.stack([np.ones(count), np.arange(count)], axis=1)
            return pieces - np.matmul(pieces, np.linalg.pinv(lines).T @ lines.T)
        return pieces

    def scale(self, fs: float, scaling: str) -> Any:
        """Return the factors of the one-sided spectrum, by frequency."""
        density = scaling == "density"
        one = 1 / (fs * np.sum(self.window**2)) if density else 1 / np.sum(self.window) ** 2
        factors = np.full(self.nfft // 2 + 1, 2 * one)
        factors[0] = one
        if self.nfft % 2 == 0:
            factors[-1] = one
        return factors


def _refuse(name: str, what: str) -> NoRule:
    return NoRule(
        f"scipy.signal.{name} with {what} is not traced", do="leave it out, or give your own gradient: --grad"
    )


def _bound(name: str, args: Any, kwargs: Any) -> dict[str, Any]:
    """Return the arguments of a call by name, with the defaults of the installed scipy."""
    given = inspect.signature(getattr(sys.modules["scipy.signal"], name)).bind(*args, **kwargs)
    given.apply_defaults()
    options = {"noverlap": None, "nperseg": None, "average": "mean", "mode": "psd", **given.arguments}
    if options["average"] != "mean" or options["mode"] != "psd":
        raise _refuse(name, "average= or mode= other than the default")
    if not options["return_onesided"] or any(np.iscomplexobj(options.get(key, 0.0)) for key in ("x", "y")):
        raise _refuse(name, "return_onesided=False, or of complex data,")
    if depends(options["fs"]) or callable(options["detrend"]):
        raise _refuse(name, "a traced fs=, or a function as detrend=,")
    return options


def _segments(count: int, options: dict[str, Any], share: int) -> Segments:
    """Return how `count` samples are cut, with scipy's defaults; the overlap is a `share`-th of a segment by default."""
    from scipy.signal import get_window

    window, nperseg, noverlap, nfft = (options[key] for key in ("window", "nperseg", "noverlap", "nfft"))
    if isinstance(window, str | tuple):
        length = min(256 if nperseg is None else int(nperseg), count)
        window = get_window(window, length)
    else:
        window = np.asarray(plain(as_value(window)), dtype=float)
        length = len(window)
        if nperseg not in (None, length) or length > count:
            raise ValueError("window is longer than input signal, or nperseg is not its length")
    overlap = length // share if noverlap is None else int(noverlap)
    transform = length if nfft is None else int(nfft)
    if overlap >= length or transform < length:
        raise ValueError("noverlap must be less than nperseg, and nfft not less than nperseg")
    return Segments(window, overlap, transform, options["detrend"])


def _spectra(name: str, x: Value, y: Value | None, options: dict[str, Any], share: int) -> tuple[Any, Value, Segments]:
    """Return the frequencies, and the scaled products of the segments' transforms with the frequencies last."""
    axis, fs = options["axis"], float(options["fs"])
    first = np.moveaxis(as_value(x), axis, -1)
    count = np.shape(plain(first))[-1]
    segments = _segments(count, options, share)
    a = segments.transformed(first)
    if y is None:
        product = np.square(np.real(a)) + np.square(np.imag(a))
    else:
        second = np.moveaxis(as_value(y), axis, -1)
        if np.shape(plain(second))[-1] != count:
            raise _refuse(name, "data of two lengths")
        product = np.conj(a) * segments.transformed(second)
    return np.fft.rfftfreq(segments.nfft, 1 / fs), product * segments.scale(fs, options["scaling"]), segments


def _mean(name: str, x: Value, y: Value | None, options: dict[str, Any]) -> tuple[Any, Value]:
    frequencies, found, _ = _spectra(name, x, y, options, 2)
    return frequencies, np.moveaxis(np.mean(found, axis=-2), -1, options["axis"])


def welch(*args: Any, **kwargs: Any) -> tuple[Any, Value]:
    options = _bound("welch", args, kwargs)
    return _mean("welch", options["x"], None, options)


def csd(*args: Any, **kwargs: Any) -> tuple[Any, Value]:
    options = _bound("csd", args, kwargs)
    return _mean("csd", options["x"], options["y"], options)


def periodogram(*args: Any, **kwargs: Any) -> tuple[Any, Value]:
    options = _bound("periodogram", args, kwargs)
    count = np.shape(plain(as_value(options["x"])))[options["axis"]]
    if options["nfft"] is not None and options["nfft"] < count:
        raise _refuse("periodogram", "an nfft= that is less than the number of samples")
    window = "boxcar" if options["window"] is None else options["window"]
    length = count if isinstance(window, str | tuple) else None
    return _mean("periodogram", options["x"], None, {**options, "window": window, "nperseg": length, "noverlap": 0})


def spectrogram(*args: Any, **kwargs: Any) -> tuple[Any, Any, Value]:
    options = _bound("spectrogram", args, kwargs)
    frequencies, found, segments = _spectra("spectrogram", options["x"], None, options, 8)
    length, axis = len(segments.window), options["axis"]
    times = (length / 2 + (length - segments.overlap) * np.arange(np.shape(plain(found))[-2])) / float(options["fs"])
    return frequencies, times, np.moveaxis(found, -1, axis - 1 if axis < 0 else axis)


SPECTRA: dict[str, Callable[..., Any]] = {
    "welch": welch, "csd": csd, "periodogram": periodogram, "spectrogram": spectrogram,
}  # fmt: skip
