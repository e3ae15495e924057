"""Domains: where on the real line an elementwise operation is smooth, and which numbers there are hard to compute with."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.classes import dataclass

_SIZES = np.array([1e-300, 1e-154, 1e-20, 1e-8, 1e-3, 0.1, 0.5, 0.9, 1.1, 1.5, 2.0, 3.3, 7.7, 25.9, 40.0, 300.0, 700.0])
_HUGE = np.array([1e4, 1e8, 1e20, 1e154, 1e300])
_NEAR_ONE = 1 - np.array([1e-15, 1e-10, 1e-5, 1e-2])


@dataclass(frozen=True, slots=True, eq=False)
class Domain:
    """An open set of real numbers; `contains(x)` tests membership elementwise.

    `hard` lists members for tests of accuracy: tiny, ordinary, huge and saturated numbers. A `dense` domain leaves out
    isolated points only. Outside a domain that is not dense, a function has no value or is constant.
    """

    name: str
    contains: Callable[[Any], Any]
    hard: Any
    dense: bool = False

    def sample(self, rng: Any, count: int) -> Any:
        """Return `count` random members of ordinary size, none of them within 0.05 of zero.

        Shapes  the result has the shape (count,).
        """
        drawn = np.concatenate(
            [rng.normal(size=50 * count), rng.uniform(0, 1, 20 * count), 1 + rng.exponential(size=20 * count)]
        )
        inside = drawn[self.contains(drawn) & (abs(drawn) > 0.05)]
        return rng.choice(inside, count, replace=False)


def _with_negatives(x: Any) -> Any:
    return np.concatenate([-x[::-1], x])


_EVERYWHERE = _with_negatives(np.concatenate([_SIZES, _HUGE]))

REAL = Domain("real", lambda x: np.isfinite(x), _EVERYWHERE, dense=True)
POSITIVE = Domain("x > 0", lambda x: x > 0, np.concatenate([_SIZES, _HUGE]))
AWAY_FROM_0 = Domain("x != 0", lambda x: x != 0, _EVERYWHERE, dense=True)
ABOVE_MINUS_1 = Domain("x > -1", lambda x: x > -1, np.concatenate([-_NEAR_ONE, -_SIZES[:8], _SIZES, _HUGE]))
INSIDE_1 = Domain("-1 < x < 1", lambda x: abs(x) < 1, _with_negatives(np.concatenate([_SIZES[:8], _NEAR_ONE])))
ABOVE_1 = Domain("x > 1", lambda x: x > 1, np.concatenate([1 + (1 - _NEAR_ONE), _SIZES[8:], _HUGE]))
BELOW_1 = Domain("x < 1", lambda x: x < 1, np.concatenate([-_HUGE[::-1], -_SIZES[::-1], _SIZES[:8], _NEAR_ONE]))
UNIT = Domain("0 < x < 1", lambda x: (x > 0) & (x < 1), np.concatenate([_SIZES[:8], _NEAR_ONE]))
UP_TO_10000 = Domain("0 < x < 10,000", lambda x: (x > 0) & (x < 1e4), _SIZES[4:-1])
NOT_POLE = Domain(
    "x not 0, -1, -2, ...",
    lambda x: (x > 0) | (x != np.floor(x)),
    np.concatenate([-_SIZES[2:8], -_SIZES[8:12] - 0.05, _SIZES[2:15], np.array([100.0, 170.0])]),
    dense=True,
)
NOT_HALF_PI = Domain("cos(x) != 0", lambda x: np.isfinite(x), _EVERYWHERE, dense=True)

# where float kernels and operations of frameworks are accurate; their error was measured on these sets only
NEAR_0 = Domain(
    "|x| < 0.15", lambda x: abs(x) < 0.15, _with_negatives(np.array([1e-300, 1e-20, 1e-8, 1e-3, 0.1, 0.149]))
)
NEAR_1 = Domain(
    "|x - 1| < 0.15", lambda x: abs(x - 1) < 0.15, 1 + _with_negatives(np.array([1e-15, 1e-8, 1e-3, 0.1, 0.149]))
)
ABOVE_12 = Domain("x > 12", lambda x: x > 12, np.concatenate([np.array([12.1, 25.9, 300.0]), _HUGE]))
BEYOND_12 = Domain("|x| > 12", lambda x: abs(x) > 12, _with_negatives(ABOVE_12.hard))
ABOVE_30 = Domain("x > 30", lambda x: x > 30, np.concatenate([np.array([30.1, 40.0, 700.0]), _HUGE]))
BEYOND_30 = Domain("|x| > 30", lambda x: abs(x) > 30, _with_negatives(ABOVE_30.hard))
ABOVE_MINUS_10000 = Domain(
    "x > -10000", lambda x: x > -1e4, np.concatenate([-_SIZES[::-1], _SIZES, np.array([-9e3, 1e8])])
)
