"""What the benchmark checks: functions as engineers write them, their hand-written gradients, and slips in those."""

import inspect
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

At = dict[str, Any]


@dataclass(frozen=True)
class Slip:
    """A mistake in the code of a gradient: a text that occurs in it once, and what stands there instead."""

    kind: str
    old: str
    new: str


@dataclass(frozen=True)
class Case:
    """A function, its right gradient (one array, or a tuple in the order of the inputs), and a point.

    `resolves` is the relative error of an entry below which float64 itself cannot tell, with the reason beside it.
    """

    name: str
    f: Callable[..., Any]
    gradient: Callable[..., Any]
    at: At
    slips: tuple[Slip, ...] = ()
    resolves: float = 0.0

    def right(self) -> dict[str, Any]:
        """Return the right gradient of each input."""
        return self.by_name(self.gradient(**self.at))

    def by_name(self, found: Any) -> dict[str, Any]:
        """Return what a gradient function returned as arrays by input."""
        parts = found if isinstance(found, tuple) else (found,)
        return {name: np.asarray(part, dtype=float) for name, part in zip(self.at, parts, strict=False)}

    def slipped(self, slip: Slip) -> Callable[..., Any]:
        """Return the gradient with a slip in its code."""
        source = textwrap.dedent(inspect.getsource(self.gradient))
        if source.count(slip.old) != 1:
            raise ValueError(f"{self.name}: {slip.old!r} occurs {source.count(slip.old)} times")
        names = dict(inspect.unwrap(self.gradient).__globals__)
        exec(compile(source.replace(slip.old, slip.new), f"<{self.name}: {slip.kind}>", "exec"), names)
        return names[self.gradient.__name__]  # type: ignore[no-any-return]
