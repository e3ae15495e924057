"""How noisy a function is: the spread of its values around a smooth curve."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

EPS = float(np.finfo(np.float64).eps)
_SPACING = 2e-8  # of the scale: wide enough to see rounding, narrow enough not to see the function
_DEGREE = 3  # of the polynomial that is fitted to the samples
_BITS = 53  # of the mantissa of a float64
_CHANCE = 24  # trailing zero bits of all different values together: fewer may be shared by chance
_PLACES = (-4.0, -3.31, -1.83, -1.12, 0.0, 0.77, 2.21, 2.86, 4.0)


def noise(phi: Callable[[float], Any], scale: float) -> Any:
    """Estimate the standard deviation of the noise of `phi` around 0, from the residuals of a polynomial fit.

    Shapes  as phi's values.
    Units   scale in units of phi's argument, the noise in units of phi.
    Error   nan if phi is finite on neither side of 0; a place outside its domain is replaced by its mirror image.
    Cost    9 calls, up to 17 at the edge of a domain.
    Source  Moré and Wild (2011), Estimating computational noise, for the spacing and the number of values.
    """
    seen = {}
    for t in near(scale):
        y = np.asarray(phi(t), dtype=float)
        t, y = (t, y) if t == 0 or np.all(np.isfinite(y)) else (-t, np.asarray(phi(-t), dtype=float))
        seen[t] = y
    return left_over(list(seen), np.stack(list(seen.values())))


def near(scale: float) -> list[float]:
    """Return the places at which the noise is sampled.

    They are uneven: differences of evenly spaced values, as in ECnoise, do not see a ripple of the same period.
    """
    return [place * _SPACING * scale for place in _PLACES]


def left_over(places: Sequence[float], values: Any) -> Any:
    """Return the standard deviation of the residuals of a cubic fit, but at least the rounding of the values.

    Shapes  values have a leading axis of places, which the result lacks.
    """
    basis = _basis(tuple((np.array(places) / np.max(np.abs(places))).tolist()))
    flat = (values - values[len(values) // 2]).reshape(len(values), -1)
    residual = flat - basis @ (basis.T @ flat)
    size = np.maximum(np.max(np.abs(residual), axis=0), np.finfo(float).tiny)  # squares may over- or underflow
    sigma = size * np.sqrt(np.sum(np.square(residual / size), axis=0) / (len(values) - _DEGREE - 1))
    return np.maximum(sigma.reshape(values.shape[1:]), EPS * np.max(np.abs(values), axis=0))


def spacing(values: Any) -> Any:
    """Return the spacing of a function's values: the largest power of two that all of them are whole multiples of.

    It is coarser than that of float64 where the function computes in a narrower format, or where larger numbers cancel. Few
    values share trailing zeros by chance; where they may, the result is the spacing of float64 at the largest value.

    Shapes  values have a leading axis of places, which the result lacks.

    >>> float(spacing(np.float32([0.1, 0.2, 0.3])) / 2.0**-27)
    1.0
    """
    values = np.asarray(values, dtype=float)
    largest = np.max(np.abs(np.where(np.isfinite(values), values, 0.0)), axis=0)
    mantissa, exponent = np.frexp(np.where(np.isfinite(values), values, 0.0))
    whole = (mantissa * 2.0**_BITS).astype(np.int64)
    last = np.where(whole == 0, np.inf, exponent - _BITS + np.log2(np.maximum(whole & -whole, 1)))
    least = np.min(last, axis=0)
    order = np.sort(values, axis=0)
    different = 1 + np.sum(order[1:] > order[:-1], axis=0)
    usual = np.spacing(largest)
    found = np.where(np.isfinite(least), 2.0 ** np.minimum(least, 1e3), usual)
    return np.where((different > 1) & (found > usual * 2.0 ** (_CHANCE / different)), found, usual)


@lru_cache(maxsize=64)
def _basis(places: tuple[float, ...]) -> Any:
    """Return an orthonormal basis of the cubic polynomials at some places."""
    return np.linalg.qr(np.vander(np.array(places), _DEGREE + 1))[0]
