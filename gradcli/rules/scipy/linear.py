"""Functions of scipy that are linear, or linear plus a constant, in one argument: recorded as one product with their matrix.

The matrix is what the function itself returns for the unit vectors, to its own rounding. It is exact for gradcli in the way
of any other number that the code contains.
"""

import inspect
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.errors import NoRule, NotSupported
from gradcli.rules.shaping import as_value
from gradcli.tracing.primitive import F, Value
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import is_differentiated, plain_value

_MOST_ENTRIES = 4_000_000  # of the matrix, 32 MB


def linear_map(f: Callable[[Any], Any], x: Value, name: str) -> Value:
    """Return f(x) for an f of plain arrays that is linear plus a constant.

    Cost    one call of f for each entry of x, and one more.
    Raises  NotSupported if the matrix of f would be too large.
    """
    x = as_value(x)
    zeros = np.zeros(shape(x))
    offset = np.asarray(f(zeros), dtype=float)
    if offset.size * zeros.size > _MOST_ENTRIES:
        says = f"{name} of {zeros.size:,} entries would be recorded as a matrix of {offset.size * zeros.size:,} entries"
        raise NotSupported(says, do="check it for a smaller input")
    matrix = np.empty((offset.size, zeros.size))
    for k in range(zeros.size):
        unit = np.zeros(zeros.size)
        unit[k] = 1.0
        matrix[:, k] = np.ravel(np.asarray(f(unit.reshape(zeros.shape)), dtype=float) - offset)
    real = F.real(np.reshape(x, (-1,)))  # scipy may not take complex numbers: no complex step
    y = np.reshape(np.matmul(matrix, real), offset.shape)
    return y + offset if np.any(offset) else y


def linear_stand_in(module: str, name: str, argument: str) -> Callable[..., Any]:
    """Return the stand-in of a function that is linear in one argument.

    Raises  NoRule if another argument is traced, or the function returns several arrays.
    """

    def stand_in(*args: Any, **kwargs: Any) -> Value:
        function = getattr(sys.modules[module], name)
        given = inspect.signature(function).bind(*args, **kwargs)
        for other, x in given.arguments.items():
            if other != argument and is_differentiated(x):
                raise NoRule(f"{module}.{name} has a derivative rule by {argument}= only", do="keep the others fixed")
            if other != argument:
                given.arguments[other] = plain_value(x)

        def called(v: Any) -> Any:
            given.arguments[argument] = v
            y = function(*given.args, **given.kwargs)
            if isinstance(y, tuple):
                raise NoRule(f"{module}.{name} with these options returns several arrays and is not traced")
            return y

        return linear_map(called, given.arguments[argument], f"{module}.{name}")

    stand_in.__name__ = name
    return stand_in


def linear_stand_ins(module: str, argument: str, *names: str) -> dict[str, Callable[..., Any]]:
    """Return the stand-ins of functions that are linear in an argument, by name."""
    return {name: linear_stand_in(module, name, argument) for name in names}


# scipy.fft: the transforms that numpy has as well, and real transforms as linear functions.

_NUMPYS = (
    "fft", "ifft", "rfft", "irfft", "hfft", "ihfft", "fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn",
    "fftshift", "ifftshift",
)  # fmt: skip


def _numpy_transform(name: str) -> Callable[..., Any]:
    def stand_in(
        x: Any, *args: Any, overwrite_x: bool = False, workers: Any = None, plan: Any = None, **kwargs: Any
    ) -> Any:
        if len(args) > 3:
            raise NoRule(
                f"scipy.fft.{name} with these positional arguments is not traced", do="name overwrite_x= and workers="
            )
        return getattr(np.fft, name)(x, *args, **kwargs)

    stand_in.__name__ = name
    return stand_in


_FFT: dict[str, Callable[..., Any]] = {name: _numpy_transform(name) for name in _NUMPYS} | linear_stand_ins(
    "scipy.fft", "x", "dct", "idct", "dst", "idst", "dctn", "idctn", "dstn", "idstn"
)


# scipy.ndimage: its linear filters and resampling, as functions of the image.

_NDIMAGE = linear_stand_ins(
    "scipy.ndimage",
    "input",
    *("gaussian_filter", "gaussian_filter1d", "gaussian_laplace", "uniform_filter", "uniform_filter1d", "convolve"),
    *("convolve1d", "correlate", "correlate1d", "laplace", "sobel", "prewitt", "zoom", "shift", "rotate"),
    *("map_coordinates", "spline_filter", "spline_filter1d", "affine_transform"),
)


# scipy.integrate: rules on samples. What is not here, such as trapezoid and simpson, is traced through scipy's own lines.


def cumulative_trapezoid(y: Value, x: Value | None = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Value:
    y = np.moveaxis(as_value(y), axis, -1)
    if x is None:
        steps = dx
    else:
        x = as_value(x)
        steps = np.diff(x if len(shape(x)) == 1 else np.moveaxis(x, axis, -1), axis=-1)
    found = np.cumsum(steps * (y[..., 1:] + y[..., :-1]) / 2, axis=-1)
    if initial is not None:
        first = np.broadcast_to(np.float64(initial), (*shape(found)[:-1], 1))
        found = np.concatenate([first, found], axis=-1)
    return np.moveaxis(found, -1, axis)


_INTEGRATE: dict[str, Callable[..., Any]] = {
    "cumulative_trapezoid": cumulative_trapezoid,
    "cumulative_simpson": linear_stand_in("scipy.integrate", "cumulative_simpson", "y"),
}

FUNCTIONS = {"fft": _FFT, "ndimage": _NDIMAGE, "integrate": _INTEGRATE}
