"""Difference schemes, and the step at which the theory of each balances truncation and rounding error.

With h the step, e the rounding error of one value of f, and f(k) its k-th derivative, the error of a scheme of order p is

    c |f(k)| h^p + r e / h,    least at  h = (r e / (p c |f(k)|))^(1/(p+1)),  where it is  (1 + p) c |f(k)| h^p.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import BadOption

Rounded = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class Scheme:
    """One way to estimate f' from values at x + o h, for its offsets o.

    `terms` are `(o, o', w)` for w (f(x + o h) - f(x + o' h)); their sum is divided by `over` h. `order`, `derivative`, `c`
    and `r` are p, k, c and r of the law above.
    """

    name: str
    terms: tuple[tuple[float, float, float], ...]
    over: float
    order: int
    derivative: int
    c: float
    r: float
    imaginary: bool = False

    @property
    def offsets(self) -> frozenset[float]:
        """The places, in steps, at which the scheme needs f."""
        return frozenset(o for up, down, _ in self.terms for o in (up, down))

    def quotient(self, values: Mapping[float, Any], h: Any, rounded: Rounded) -> Any:
        """Return the estimates, each operation rounded by `rounded`; `values[o]` are f(x + o h) for the steps `h`."""
        total: Any = None
        for up, down, weight in self.terms:
            part = rounded(values[up] - values[down])
            part = part if weight == 1 else rounded(weight * part)
            total = part if total is None else rounded(total + part)
        return rounded(total / (h if self.over == 1 else rounded(self.over * h)))

    def predicted(self, e: float, derivatives: Mapping[int, float]) -> tuple[float, float] | None:
        """Return the best step and its error; None if f(k) or the rounding error is zero, or f(k) is unknown."""
        size = self.c * derivatives.get(self.derivative, 0.0)
        if size == 0 or e == 0 or not self.r:
            return None
        h = (self.r * e / (self.order * size)) ** (1 / (self.order + 1))
        return h, (1 + self.order) * size * h**self.order

    @property
    def symbol(self) -> str:
        """The derivative f(k) of the error law as text: f'', f''' or f(5)."""
        return "f" + "'" * self.derivative if self.derivative <= 3 else f"f({self.derivative})"

    def law(self) -> str:
        """Return the formula of the best step."""
        inside = f"{self.r / (self.order * self.c):.4g} e/|{self.symbol}|"
        return f"({inside})^(1/{self.order + 1})"


# fmt: off
SCHEMES = (
    #      name          terms                                        over  order  f(k)   c      r
    Scheme("forward",    ((1, 0, 1),),                                 1,    1,     2,   1/2,   2),
    Scheme("backward",   ((0, -1, 1),),                                1,    1,     2,   1/2,   2),
    Scheme("central",    ((1, -1, 1),),                                2,    2,     3,   1/6,   1),
    Scheme("5-point",    ((1, -1, 8), (2, -2, -1)),                   12,    4,     5,   1/30,  3/2),
    Scheme("7-point",    ((1, -1, 45), (2, -2, -9), (3, -3, 1)),      60,    6,     7,   1/140, 11/6),
    Scheme("richardson", ((.5, -.5, 8), (1, -1, -1)),                  6,    4,     5,   1/480, 3),
    Scheme("complex",    (),                                           1,    2,     3,   1/6,   0, imaginary=True),
)
# fmt: on
ONE_SIDED = ("forward", "backward")
USUAL = tuple(scheme.name for scheme in SCHEMES if scheme.name != "backward")
_BY_NAME = {scheme.name: scheme for scheme in SCHEMES}

#                   weights of f(x + k h), k from -4 to 4, for h^k f(k)
STENCILS: dict[int, tuple[float, ...]] = {
    2: (0, 0, 0, 1, -2, 1, 0, 0, 0),
    3: (0, 0, -0.5, 1, 0, -1, 0.5, 0, 0),
    5: (0, -0.5, 2, -2.5, 0, 2.5, -2, 0.5, 0),
    7: (-0.5, 3, -7, 7, 0, -7, 7, -3, 0.5),
}


def parse_schemes(text: str | None) -> tuple[Scheme, ...]:
    """Return the schemes that a list separated by commas names; unique prefixes will do. Raises BadOption."""
    if text is None:
        return tuple(_BY_NAME[name] for name in USUAL)
    found: list[Scheme] = []
    for part in filter(None, (word.strip() for word in text.split(","))):
        fits = [part] if part in _BY_NAME else [name for name in _BY_NAME if name.startswith(part)]
        if len(fits) != 1:
            raise BadOption(f"there is no scheme '{part}'", do=f"schemes: {', '.join(_BY_NAME)}")
        found += [_BY_NAME[fits[0]]]
    if not found:
        raise BadOption("--schemes names none", do=f"schemes: {', '.join(_BY_NAME)}")
    return tuple(dict.fromkeys(found))


# Slopes of noisy curves on logarithmic axes.


def log_slope(x: Any, y: Any) -> float | None:
    """Return the exponent p of y ~ x^p: the median of the slopes between all pairs of points; None for fewer than three.

    Source  Theil (1950) and Sen (1968): a few outliers do not change this slope.
    """
    x, y = np.log(np.asarray(x, dtype=float)), np.log(np.asarray(y, dtype=float))
    known = np.isfinite(x) & np.isfinite(y)
    x, y = x[known], y[known]
    if len(x) < 3:
        return None
    i, j = np.triu_indices(len(x), 1)
    apart = x[j] != x[i]
    return float(np.median((y[j] - y[i])[apart] / (x[j] - x[i])[apart])) if np.any(apart) else None


def median_of_neighbours(x: Any) -> Any:
    """Return the median of each value of a curve and its two neighbours, so that a single lucky point has no effect.

    Shapes  as x; curves lie along the last axis.
    """
    padded = np.concatenate([x[..., :1], x, x[..., -1:]], axis=-1)
    return np.median(np.stack([padded[..., :-2], padded[..., 1:-1], padded[..., 2:]]), axis=0)
