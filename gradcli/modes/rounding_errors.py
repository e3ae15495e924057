"""Tell rounding errors from mistakes: between nearby points rounding errors change, and a mistake stays."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

_NEARBY = 8  # points where the errors are measured
_FEWER = 2.0**-8  # times the error in the narrow format: a larger one in the wide format is no loss of digits
_AS_MANY = 16.0  # times the error that is expected of a loss of as many digits
_STAYS = 25.0  # times the variance of a mean: a larger mean error does not come from rounding

Values = Mapping[str, Any]


def errors_change(
    off: Callable[[Values], Any | None], at: Values, moved: Sequence[str], seed: int, eps: float
) -> bool | None:
    """Return whether errors change between points near `at` as rounding errors do. `off(values)` returns the errors there.

    The inputs `moved` are moved by one or two ulps. None if `off` returns None at a point.

    Shapes  `off` returns a vector, of the same length at each point.
    Units   `eps` is the machine epsilon of the format.
    """
    rng = np.random.default_rng([seed, 0xF0])
    errors = []
    for _ in range(_NEARBY):
        error = off({**at, **{name: _nearby(at[name], eps, rng) for name in moved}})
        if error is None:
            return None
        errors.append(error)
    with np.errstate(all="ignore"):
        mean = np.mean(errors, axis=0)
        noise = np.var(errors, axis=0, ddof=1) / _NEARBY  # of the mean
        return bool(np.sum(np.square(mean)) <= _STAYS * np.sum(noise))


def loses_as_many_digits(error: float, wide_error: float, eps: float, wide_eps: float) -> bool:
    """Whether an error in a narrow format is about what rounding makes of one in a wide format, where it is smaller.

    This holds for sums that lose small terms, whose errors do not change between nearby points.

    Units  both errors are relative to the same size.
    """
    return wide_error <= _FEWER * error and error <= _AS_MANY * max(wide_error, wide_eps) * eps / wide_eps


def _nearby(x: Any, eps: float, rng: np.random.Generator) -> Any:
    """Return a value in a format of machine epsilon `eps`, each entry one or two ulps away from that of `x`."""
    ulps = rng.integers(1, 3, np.shape(x)) * rng.choice([-1.0, 1.0], np.shape(x))
    mantissa, exponent = np.frexp(np.asarray(x) * (1 + eps * ulps))
    return np.ldexp(np.round(mantissa * 2 / eps) * eps / 2, exponent)[()]
