"""What the user says of steps: their length, the edges of the domain, the typical size of an input, the calls allowed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Edges = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Stepping:
    """How differences may step; gradcli chooses what is not given.

    Units  `h` and `scales` in units of the input; `edges` by input, in the same; `budget` in evaluations of f.
    """

    h: float | None = None
    edges: Mapping[str, Edges] = field(default_factory=dict)
    scales: Mapping[str, float] = field(default_factory=dict)
    budget: int | None = None

    def of(self, name: str) -> Edges:
        """Return the edges of an input."""
        return self.edges.get(name, (-np.inf, np.inf))

    def inside(self, names: tuple[str, ...], xs: tuple[Any, ...]) -> bool:
        """Whether values lie inside the edges; values under a sweep are not asked."""
        for name, x in zip(names, xs, strict=True):
            low, high = self.of(name)
            if isinstance(x, np.ndarray | float) and not (
                np.all(np.asarray(x) >= low) and np.all(np.asarray(x) <= high)
            ):
                return False
        return True


AS_WE_LIKE = Stepping()
