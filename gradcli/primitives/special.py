"""scipy.special's functions as primitives; scipy is imported when the first of them is met."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.core.bind import found_late
from gradcli.core.domain import NOT_POLE, POSITIVE, UNIT
from gradcli.core.primitive import Primitive, Value, named
from gradcli.primitives.elementwise import pi
from gradcli.primitives.kinds import elementwise


class Late:
    """A function of scipy.special, imported when it is first called."""

    __slots__ = ("__name__", "function")

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self.function: Callable[..., Value] | None = None

    def __call__(self, *xs: Value) -> Value:
        if self.function is None:
            import scipy.special

            self.function = getattr(scipy.special, self.__name__)
        return self.function(*xs)


def polygamma(x: Value, *, n: int) -> Value:
    """Return the n-th derivative of digamma; for x < 0 and n = 1 by reflection, where scipy has none.

    Source  DLMF 5.15.6.
    """
    import scipy.special

    y = scipy.special.polygamma(n, np.where(x > 0, x, 1.0)) if n == 1 else scipy.special.polygamma(n, x)
    if n > 1 or not np.any(np.less(x, 0)):
        return np.where(n == 1, np.where(np.greater(x, 0), y, np.nan), y)[()]
    reflected = (np.pi / np.sin(np.pi * x)) ** 2 - scipy.special.polygamma(1, 1 - np.where(x > 0, 0.0, x))
    return np.where(x > 0, y, reflected)[()]


def gauss(y: Value, x: Value) -> Value:
    """Return exp(-x*x) 2/sqrt(pi), the square split so that its rounding is not magnified by exp."""
    head = np.asarray(x, dtype=np.float32).astype(np.float64)
    head = np.where(np.isfinite(head), head, x)
    return (2.0 / np.sqrt(np.pi) * np.exp(-head * head) * np.exp(-(x - head) * (x + head)))[()]


def minus_gauss(y: Value, x: Value) -> Value:
    """Return the slope of erfc."""
    return -gauss(y, x)


expit, log_expit, digamma = Late("expit"), Late("log_expit"), Late("psi")
GAMMA_ROOT = (
    "near a root of digamma the relative error is that of scipy's digamma, which grows with its condition number"
)
TRIGAMMA = "scipy's zeta function, and the reflection formula for x < 0, lose some digits"

# fmt: off
elementwise(Late("erf"),      (lambda y, x: 2 / np.sqrt(pi(x)) * np.exp(-x * x),   gauss),       analytic=False)
elementwise(Late("erfc"),     (lambda y, x: -2 / np.sqrt(pi(x)) * np.exp(-x * x),  minus_gauss), analytic=False)
elementwise(expit,            (lambda y, x: y * (1 - y),     lambda y, x: expit(x) * expit(-x)), analytic=False)
elementwise(Late("logit"),     lambda y, x: 1 / (x * (1 - x)),        on=UNIT, analytic=False)
elementwise(log_expit,         lambda y, x: named("expit")(-x), analytic=False)
elementwise(Late("gamma"),     lambda y, x: y * named("digamma")(x),  on=NOT_POLE, analytic=False, reason=GAMMA_ROOT)
elementwise(Late("gammaln"),   lambda y, x: named("digamma")(x),      on=POSITIVE, reason=GAMMA_ROOT, analytic=False)
elementwise(digamma,           lambda y, x: named("polygamma")(x, n=1), on=NOT_POLE, name="digamma", analytic=False, reason=TRIGAMMA)
elementwise(polygamma,         lambda y, x, *, n: named("polygamma")(x, n=n + 1), on=POSITIVE, analytic=False, reason=TRIGAMMA)
# fmt: on

_NAMES = {"psi": "digamma"}


def special(function: Callable[..., Any]) -> Primitive | None:
    """Return the primitive for a ufunc of scipy.special, if it has one."""
    if not isinstance(function, np.ufunc):
        return None
    name = _NAMES.get(function.__name__, function.__name__)
    try:
        row = named(name)
    except KeyError:
        return None
    return row if isinstance(row.fun, Late) else None


found_late(special)
