"""How differences may step: their length, the edges of the domain, the typical size of an input, the calls allowed."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import BadOption

Edges = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Stepping:
    """How differences may step; gradcli chooses what is not given.

    Units   `h`, and by input `edges` and `scales`, in units of the input; `budget` in evaluations of f.
    Raises  BadOption for steps, sizes and budgets that are not positive, and for edges in the wrong order.
    """

    h: float | None = None
    edges: Mapping[str, Edges] = field(default_factory=dict)
    scales: Mapping[str, float] = field(default_factory=dict)
    budget: int | None = None

    def __post_init__(self) -> None:
        if self.h is not None and not 0 < self.h < np.inf:
            raise BadOption(f"--h takes a positive step, not {self.h:g}", do="drop --h: gradcli chooses steps itself")
        for name, (low, high) in self.edges.items():
            if not low < high:
                says = f"--bounds takes NAME=LOW:HIGH, not '{name}={low:g}:{high:g}'"
                raise BadOption(says, do='write --bounds "k=0:inf"')
        if not all(0 < size < np.inf for size in self.scales.values()):
            raise BadOption("--scale takes positive sizes", do='write --scale "x=1e-3"')
        if self.budget is not None and self.budget < 1:
            says = f"--budget takes a positive number of evaluations, not {self.budget}"
            raise BadOption(says, do="write --budget 500")

    def edges_of(self, name: str) -> Edges:
        """Return the lower and the upper edge of an input; infinite if there is none."""
        return self.edges.get(name, (-np.inf, np.inf))

    def sizes_of_entries(self, name: str, x: Any) -> Any:
        """Return the size of each entry of an input; for an entry of zero, the user's scale, or one."""
        sizes = np.abs(x)
        return sizes if np.all(sizes) else np.where(np.asarray(x) == 0, self.scales.get(name, 1.0), sizes)

    def turn_inward(self, name: str, x: Any, v: Any) -> Any:
        """Return a direction in which entries at an edge of the domain point inward."""
        if name not in self.edges:
            return v
        low, high = self.edges_of(name)
        return np.where(np.asarray(x) <= low, np.abs(v), np.where(np.asarray(x) >= high, -np.abs(v), v))

    def moved_inside(self, name: str, x: Any) -> Any:
        """Return values moved inside the edges where they lie outside."""
        low, high = self.edges_of(name)
        if np.isinf(low) or np.isinf(high):
            moved = low + np.abs(x) if np.isinf(high) else high - np.abs(x)
        else:
            moved = low + (high - low) / (1 + np.exp(-x))
        return np.where((low <= x) & (x <= high), x, moved)[()]

    def are_inside(self, names: tuple[str, ...], xs: tuple[Any, ...]) -> bool:
        """Whether values lie inside the edges; tracers are not checked."""
        for name, x in zip(names, xs, strict=True):
            low, high = self.edges_of(name)
            if isinstance(x, np.ndarray | float) and not np.all((low <= np.asarray(x)) & (np.asarray(x) <= high)):
                return False
        return True


DEFAULT_STEPPING = Stepping()
