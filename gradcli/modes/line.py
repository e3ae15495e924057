"""A function along one line: its values by place, each computed once and counted."""

from collections.abc import Callable
from typing import Any

import numpy as np

RATIO = np.sqrt(10.0)
EXPONENTS = np.arange(13) / 2 + 1  # h from 1e-1 to 1e-7 of the scale
ALL_EXPONENTS = np.arange(30) / 2 + 1  # h down to a few roundings of the scale
_FINEST = 4  # spacings of x: the shortest useful step
_DECADES = 17  # of steps, among which one inside the domain is searched


class Line:
    """phi(t) for an entry of the value x that is moved by t; each value is computed once and kept by its place t.

    A value is nan if the entry would leave the interval from `low` to `high`, if |t| is more than `reach`, or after `most`
    calls. `at` is phi(0), if it is known.
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
        """Return the spacing of floats of the size |x| + |t|."""
        return float(np.spacing(abs(self.x) + abs(t)))

    def ulp(self, scale: float) -> float:
        """Return the spacing of floats at x, or at `scale` if x is zero."""
        return self.spacing(0.0) if self.x else float(np.spacing(scale))

    def exact(self, t: float) -> float:
        """Return a place t' near t for which x + t' is exact."""
        return float((self.x + t) - self.x)

    def place(self, t: float) -> float:
        """Return a place near t with finite values, or the one on the other side beyond an edge of the domain."""
        t = self.exact(t)
        return t if np.all(np.isfinite(self(t))) else -t

    def steps(self, scale: float, exponents: Any = EXPONENTS) -> Any:
        """Return the steps h of a scale, rounded so that x + h and x - h are exact; 0 for steps that are too short."""
        h = min(scale, 10 * self.reach) * 10.0**-exponents
        spacing = np.spacing(np.abs(self.x) + h)
        return np.where(h >= _FINEST * spacing, np.round(h / spacing) * spacing, 0.0)

    def edge(self, scale: float) -> float:
        """Return a scale whose steps stay inside the domain, if wider ones leave it; else 0."""
        for h in scale * 10.0 ** -np.arange(1, _DECADES):
            if all(np.all(np.isfinite(self(float((self.x + t) - self.x)))) for t in (h, -h)):
                return 0.0 if h == scale / 10 else float(10 * h)
        return 0.0

    def both(self, h: Any) -> tuple[Any, Any]:
        """Return the values at x + h and at x - h, for each step.

        Shapes  h (m,); two arrays with a leading axis of m.
        """
        up, down = (np.stack([self(sign * float(step)) for step in h]) for sign in (1, -1))
        return up, down
