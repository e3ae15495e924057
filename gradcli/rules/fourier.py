"""Discrete Fourier transforms.

The transform of a real vector x is C x - i S x, with symmetric matrices C and S of cosines and sines.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.errors import NoRule
from gradcli.rules.kinds import linear
from gradcli.rules.pairs import REAL, ComplexPair, complex_parts, is_complex, pair
from gradcli.rules.shaping import as_value
from gradcli.tracing import shapes
from gradcli.tracing.primitive import TRANSFORM, Primitive, Value, handle, handles
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import exact_integer

Norm = str | None
_SWAPPED = {None: "forward", "backward": "forward", "ortho": "ortho", "forward": "backward"}


# fmt: off
#   sums of x_k cos(2 pi j k / n), and of x_k sin(2 pi j k / n); transpose: cotangent of y -> cotangent of x
DFT_COS: Primitive = linear(lambda x, *, axis: np.fft.fft(x, axis=axis).real,
                            lambda ybar, x, *, axis: DFT_COS(ybar, axis=axis), name="dft_cos", cost=TRANSFORM)
DFT_SIN: Primitive = linear(lambda x, *, axis: -np.fft.fft(x, axis=axis).imag,
                            lambda ybar, x, *, axis: DFT_SIN(ybar, axis=axis), name="dft_sin", cost=TRANSFORM)
# fmt: on


def _normalisation_factor(n: int, norm: Norm, inverse: bool, like: Value) -> Value:
    """Return the normalisation factor of a transform of length n; the integer 1 if there is none."""
    if norm not in _SWAPPED:
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    if norm == "ortho":
        return 1 / np.sqrt(exact_integer(n, like))
    return 1 / exact_integer(n, like) if inverse == (norm != "forward") else 1


def _scale_by(x: Value, factor: Value) -> Value:
    return x if type(factor) is int else x * factor


def _fit_length(x: Value, n: int, axis: int) -> Value:
    """Return `x` truncated, or padded with zeros, to length n along an axis."""
    if n < 1:
        raise ValueError(f"Invalid number of FFT data points ({n}) specified.")
    have = shape(x)[axis]
    if have == n:
        return x
    if have > n:
        return x[(slice(None),) * axis + (slice(0, n),)]
    zeros = np.zeros([n - have if k == axis else m for k, m in enumerate(shape(x))])
    return np.concatenate([x, zeros], axis=axis)


def _prepare_input(a: Value, n: int | None, axis: int) -> tuple[Value, int, int]:
    x = as_value(a)
    axis = shapes.normalise_axis(axis, len(shape(x)))
    n = shape(x)[axis] if n is None else int(n)
    return _fit_length(x, n, axis), n, axis


def _transform(a: Value, n: int | None, axis: int, norm: Norm, inverse: bool) -> ComplexPair:
    """Return the transform of real or complex values along one axis."""
    x, n, axis = _prepare_input(a, n, axis)
    re, im = complex_parts(x)
    turn = 1 if inverse else -1
    real: Value = None if re is None else DFT_COS(re, axis=axis)
    imag: Value = None if re is None else turn * DFT_SIN(re, axis=axis)
    if im is not None:
        across, along = turn * DFT_SIN(im, axis=axis), DFT_COS(im, axis=axis)
        real, imag = (-across, along) if re is None else (real - across, imag + along)
    factor = _normalisation_factor(n, norm, inverse, x if re is None else re)
    return pair(_scale_by(real, factor), _scale_by(imag, factor))


@handles(np.fft.rfft)
def rfft(a: Value, n: int | None = None, axis: int = -1, norm: Norm = None, out: Any = None) -> ComplexPair:
    """Return the first half of the transform of real values; the other half is its conjugate.

    Raises  NoRule for complex values.
    """
    x, n, axis = _prepare_input(a, n, axis)
    if is_complex(x):
        raise NoRule("rfft of complex values has no meaning", do="np.fft.fft, or rfft of .real")
    half = (slice(None),) * axis + (slice(0, n // 2 + 1),)
    y: ComplexPair = _transform(x, n, axis, norm, inverse=False)[half]
    return y


@handles(np.fft.irfft)
def irfft(a: Value, n: int | None = None, axis: int = -1, norm: Norm = None, out: Any = None) -> Value:
    """Return the real values whose transform has `a` as its first half; imaginary parts that must be 0 are ignored."""
    x = as_value(a)
    axis = shapes.normalise_axis(axis, len(shape(x)))
    n = 2 * (shape(x)[axis] - 1) if n is None else int(n)
    x = _fit_length(x, n // 2 + 1 if n > 0 else n, axis)
    re, im = complex_parts(x)
    total: Value = None
    if re is not None:
        total = DFT_COS(_mirror_frequencies(re, n, axis, np.positive), axis=axis)
    if im is not None:
        sines = DFT_SIN(_mirror_frequencies(im, n, axis, np.negative), axis=axis)
        total = -sines if total is None else total - sines
    return REAL(_scale_by(total, _normalisation_factor(n, norm, True, x if re is None else re)))


def _mirror_frequencies(x: Value, n: int, axis: int, turned: Callable[[Value], Value]) -> Value:
    """Return the values at the frequencies 0 to n // 2, followed by those at negative frequencies, changed by `turned`."""
    inner = x[(slice(None),) * axis + (slice(1, (n + 1) // 2),)]
    return np.concatenate([x, turned(np.flip(inner, axis))], axis=axis)


@handles(np.fft.hfft)
def hfft(a: Value, n: int | None = None, axis: int = -1, norm: Norm = None, out: Any = None) -> Value:
    """Return the real transform of values whose first half is `a` and whose second half is its conjugate."""
    return irfft(np.conjugate(as_value(a)), n, axis, _SWAPPED[norm])


def _lengths_and_axes(a: Value, s: Sequence[int] | None, axes: Sequence[int] | None) -> tuple[Value, list[Any]]:
    """Return the values and `(length, axis)` for each axis to transform."""
    x = as_value(a)
    if axes is None:
        axes = range(-len(shape(x) if s is None else s), 0)
    lengths = [None] * len(axes) if s is None else [None if n == -1 else int(n) for n in s]
    if len(lengths) != len(axes):
        raise ValueError("Shape and axes have different lengths.")
    return x, list(zip(lengths, map(int, axes), strict=True))


def _transform_axes(x: Value, steps: list[tuple[int | None, int]], norm: Norm, inverse: bool) -> Value:
    for n, axis in reversed(steps):
        x = _transform(x, n, axis, norm, inverse)
    return x


@handles(np.fft.rfftn)
def rfftn(a: Value, s: Any = None, axes: Any = None, norm: Norm = None, out: Any = None) -> Value:
    x, (*others, (n, axis)) = _lengths_and_axes(a, s, axes)
    return _transform_axes(rfft(x, n, axis, norm), others, norm, inverse=False)


@handles(np.fft.irfftn)
def irfftn(a: Value, s: Any = None, axes: Any = None, norm: Norm = None, out: Any = None) -> Value:
    x, (*others, (n, axis)) = _lengths_and_axes(a, s, axes)
    return irfft(_transform_axes(x, others[::-1], norm, inverse=True), n, axis, norm)


def _roll_axes(x: Value, axes: Any, shift: Callable[[int], int]) -> Value:
    """Return `x` rolled along each axis by `shift(n)`, where n is the length of the axis."""
    x = as_value(x)
    for axis in shapes.normalise_axes(axes, len(shape(x))):
        n = shape(x)[axis]
        x = x[(slice(None),) * axis + (np.roll(np.arange(n), shift(n)),)]
    return x


handle({
    np.fft.fft: lambda a, n=None, axis=-1, norm=None, out=None: _transform(a, n, axis, norm, inverse=False),
    np.fft.ifft: lambda a, n=None, axis=-1, norm=None, out=None: _transform(a, n, axis, norm, inverse=True),
    np.fft.ihfft: lambda a, n=None, axis=-1, norm=None, out=None: np.conjugate(rfft(a, n, axis, _SWAPPED[norm])),
    np.fft.fftn: lambda a, s=None, axes=None, norm=None, out=None:
        _transform_axes(*_lengths_and_axes(a, s, axes), norm, inverse=False),
    np.fft.ifftn: lambda a, s=None, axes=None, norm=None, out=None:
        _transform_axes(*_lengths_and_axes(a, s, axes), norm, inverse=True),
    np.fft.fft2: lambda a, s=None, axes=(-2, -1), norm=None, out=None:
        _transform_axes(*_lengths_and_axes(a, s, axes), norm, inverse=False),
    np.fft.ifft2: lambda a, s=None, axes=(-2, -1), norm=None, out=None:
        _transform_axes(*_lengths_and_axes(a, s, axes), norm, inverse=True),
    np.fft.rfft2: lambda a, s=None, axes=(-2, -1), norm=None, out=None: rfftn(a, s, axes, norm),
    np.fft.irfft2: lambda a, s=None, axes=(-2, -1), norm=None, out=None: irfftn(a, s, axes, norm),
    np.fft.fftshift: lambda x, axes=None: _roll_axes(x, axes, lambda n: n // 2),
    np.fft.ifftshift: lambda x, axes=None: _roll_axes(x, axes, lambda n: -(n // 2)),
})  # fmt: skip
