"""A function along one line: its values by place, each computed once and counted."""

from collections.abc import Callable
from typing import Any

import numpy as np

RATIO = np.sqrt(10.0)
EXPONENTS = np.arange(13) / 2 + 1  # h from 1e-1 to 1e-7 of the scale
ALL_EXPONENTS = np.arange(30) / 2 + 1  # h down to few roundings of the scale
_FINEST = 4  # spacings of x: shorter steps are all alike
_DECADES = 17  # between the widest step and the nearest edge of the domain that is looked for


class Line:
    """phi(t) for an entry that has the value x and is moved by t: values by place, each computed once, and the value at 0.

    Values are nan beyond `low` and `high`, between which the entry may be moved, further away than `reach`, and after `most`
    calls; `at` is phi(0) where it is known.
    """

    def __init__(
        self, phi: Callable[[float], Any], x: float = 0.0, low: float = -np.inf, high: float = np.inf,
        reach: float = np.inf, at: Any = None, most: float = np.inf,
    ) -> None:  # fmt: skip
        self.phi, self.x, self.reach, self.most = phi, x, reach, most
        self.low, self.high = max(low - x, -reach), min(high - x, reach)
        self.seen: dict[float, Any] = {}
        self.known = at is not None
        self.at = np.asarray(at if self.known else phi(0.0), dtype=float)

    @property
    def calls(self) -> int:
        """How often phi was called."""
        return len(self.seen) + (not self.known)

    def __call__(self, t: float) -> Any:
        if t == 0:
            return self.at
        if not self.low <= t <= self.high or (t not in self.seen and self.calls >= self.most):
            return np.full(self.at.shape, np.nan)
        if t not in self.seen:
            self.seen[t] = np.asarray(self.phi(t), dtype=float)
        return self.seen[t]

    def affords(self, calls: int) -> bool:
        """Whether so many more calls are allowed."""
        return self.calls + calls <= self.most

    def spacing(self, t: float) -> float:
        """Return how far apart the numbers are near x + t, in which the line has places."""
        return float(np.spacing(abs(self.x) + abs(t)))

    def ulp(self, scale: float) -> float:
        """Return the spacing of the numbers at x, or where x is zero that of numbers of a scale."""
        return self.spacing(0.0) if self.x else float(np.spacing(scale))

    def exact(self, t: float) -> float:
        """Return a place near t that x + t is exact at."""
        return float((self.x + t) - self.x)

    def place(self, t: float) -> float:
        """Return a place near t that has values: on the other side at an edge."""
        t = self.exact(t)
        return t if np.all(np.isfinite(self(t))) else -t

    def steps(self, scale: float, exponents: Any = EXPONENTS) -> Any:
        """Return the steps on a scale, such that x + h and x - h are exact; 0 for those too short to be so."""
        h = min(scale, 10 * self.reach) * 10.0**-exponents
        spacing = np.spacing(np.abs(self.x) + h)
        return np.where(h >= _FINEST * spacing, np.round(h / spacing) * spacing, 0.0)

    def edge(self, scale: float) -> float:
        """Return a scale whose steps stay inside the domain, where wider ones leave it on a side; else 0."""
        for h in scale * 10.0 ** -np.arange(1, _DECADES):
            if all(np.all(np.isfinite(self(float((self.x + t) - self.x)))) for t in (h, -h)):
                return 0.0 if h == scale / 10 else float(10 * h)
        return 0.0

    def both(self, h: Any) -> tuple[Any, Any]:
        """Return the values at x + h and at x - h, for each step."""
        up, down = (np.stack([self(sign * float(step)) for step in h]) for sign in (1, -1))
        return up, down
