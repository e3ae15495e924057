"""One custom backward pass: right, wrong in ways that are easy to make, and where it is looked at."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

Function = Callable[..., Any]


@dataclass(frozen=True)
class Case:
    """A custom backward pass; `wrong` says by each wrong version what its author missed."""

    name: str
    right: Function
    wrong: Mapping[str, Function]
    inputs: Mapping[str, Any]
    expect: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Rules:
    """A function and its backward rules `(ybar, y, *xs)`, in functions of arrays that all frameworks have."""

    name: str
    f: Function
    right: Function
    wrong: Mapping[str, Function]
    inputs: Mapping[str, Any]

    def case(self, with_backward: Callable[[Function, Function], Function]) -> Case:
        """Return the case in a framework, given how it gives a function a backward rule."""
        wrong = {says: with_backward(self.f, rule) for says, rule in self.wrong.items()}
        return Case(self.name, with_backward(self.f, self.right), wrong, self.inputs)


def rules(name: str, f: Function, right: Function, wrong: Mapping[str, Function], **inputs: Any) -> Rules:
    """Return rules, with the inputs by their names."""
    return Rules(name, f, right, wrong, inputs)


def drawn(*shape: int, low: float = -1.5, high: float = 1.5) -> Any:
    """Return the same random numbers at every call with the same arguments."""
    seed = [*shape, int(10 * (low + 20)), int(10 * (high + 20))]
    return np.random.default_rng(seed).uniform(low, high, shape)
