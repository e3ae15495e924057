"""The problem that all modes solve: the gradient of one function at one point."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gradcli.errors import BadExpression, FunctionFailed
from gradcli.modes import limits
from gradcli.modes.budget import WITHOUT_LIMITS, Budget
from gradcli.modes.stepping import DEFAULT_STEPPING, Stepping
from gradcli.modes.work import Effort
from gradcli.request.point import Array, Point
from gradcli.targets.facts import Function, of
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape, size

MANY = 5_000  # entries: if there are more, a claim is compared with the reverse sweep, unless more is requested
_TIMED = 3  # evaluations, of which the fastest is reported


@dataclass(frozen=True)
class Problem:
    """One function at one point, the inputs that are differentiated, and what may be spent on it.

    `device` is what frameworks run on if the user chose it, and the CPU else.
    """

    f: Function
    point: Point
    wrt: tuple[str, ...]
    seed: int = 0
    budget: Budget = WITHOUT_LIMITS
    stepping: Stepping = DEFAULT_STEPPING
    device: str | None = None

    @cached_property
    def xs(self) -> list[Array]:
        """The values of the inputs that are differentiated."""
        return [self.point.values[name] for name in self.wrt]

    @cached_property
    def g(self) -> Callable[..., Value]:
        """The function of those inputs alone. Raises OutOfTime in a mode whose time is up."""
        g = of(self.f, self.point.values, self.wrt)
        return g if self.budget.mode_timeout is None else limits.stopped(g, self.budget.mode_timeout)

    def near(self, *xs: Value) -> Value:
        """Return the user's function at another point: nan beyond the user's bounds, and where it raises or changes shape."""
        if not self.stepping.edges or self.stepping.inside(self.wrt, xs):
            try:
                y = self.g(*xs)
            except (FunctionFailed, BadExpression):
                pass
            else:
                if shape(y) == shape(self.value):
                    return y
        return np.full(shape(self.value), np.nan)[()]

    @cached_property
    def value(self) -> Array:
        """The value of the user's function at the point, on plain numbers."""
        if self.point.value is not None:
            return self.point.value
        with np.errstate(all="ignore"):
            return np.asarray(self.g(*self.xs), dtype=float)[()]

    @property
    def own_value(self) -> Array:
        """The value of the user's function with the user's tolerances, where `value` is that with smaller ones."""
        return self.value if self.point.own_value is None else self.point.own_value

    @cached_property
    def seconds(self) -> float:
        """The time of one evaluation in seconds, the best of three. It is reported, and decides nothing."""
        best = np.inf
        with np.errstate(all="ignore"):
            for _ in range(_TIMED):
                start = time.perf_counter()
                self.g(*self.xs)
                best = min(best, time.perf_counter() - start)
        return float(best)

    @cached_property
    def entries(self) -> int:
        """The number of entries that are differentiated."""
        return sum(size(x) for x in self.xs)

    @property
    def crowded(self) -> bool:
        """Whether there are so many entries that balls are used only on request."""
        return self.budget.effort is Effort.DEFAULT and self.entries > MANY
