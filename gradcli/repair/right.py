"""The right gradient at the given point and at others, and which entries of a claim are wrong there."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcli.modes.rounding import EPS
from gradcli.request.point import Array

Gradient = Mapping[str, Array]


@dataclass(frozen=True, slots=True)
class Right:
    """The right gradient at one point, and how far a right claim may be from it.

    Shapes  each array has the shape of the output, then that of the input.
    Units   `room` is in units of the gradient.

    `other_signs` and `resized` say how the point differs from the given one; named sizes are those in `sizes`.
    """

    at: Mapping[str, Any]
    gradient: Gradient
    room: Gradient
    outputs: tuple[int, ...] = ()
    other_signs: bool = False
    resized: bool = False
    sizes: Mapping[str, Any] = field(default_factory=dict)

    def wrong(self, made: Gradient | None, names: Collection[str] | None = None) -> dict[str, Any] | None:
        """Return a mask of the wrong entries of each input, or of some; None if their gradient is not there."""
        names = self.gradient if names is None else names
        if made is None or not set(names) <= set(made):
            return None
        return {name: self._wrong(name, np.asarray(made[name])) for name in names}

    def _wrong(self, name: str, made: Any) -> Any:
        right = np.asarray(self.gradient[name])
        if made.shape != right.shape:
            return np.ones(right.shape, dtype=bool)
        with np.errstate(all="ignore"):
            return ~(np.abs(made - right) <= self.room[name] + 4 * EPS * np.abs(right))

    def holds(self, made: Gradient | None, names: Collection[str] | None = None) -> bool:
        """Whether a claimed gradient is right, by each input or by some."""
        wrong = self.wrong(made, names)
        return wrong is not None and not any(np.any(mask) for mask in wrong.values())
