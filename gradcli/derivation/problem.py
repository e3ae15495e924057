"""What is to be derived: a function of inputs whose sizes have names, what is assumed of them, and points of it."""

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.derivation.facts import Dims, drawn
from gradcli.source.function import Function

RECORDINGS = 3  # sizes at which a function is recorded and checked


@dataclass(frozen=True)
class Problem:
    """A function of inputs whose sizes have names, and what is assumed of them.

    `direction` is an input that f has not: a second derivative is taken along it.
    """

    f: Function
    dims: Mapping[str, Dims]
    facts: Mapping[str, frozenset[str]]
    order: int = 1
    seed: int = 0
    layout: str = "denominator"
    style: str = "differential"
    direction: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sizes, in the order in which they occur."""
        return tuple(dict.fromkeys(d for dims in self.dims.values() for d in dims if not d.isdecimal()))


def point_of(
    problem: Problem, sizes: Mapping[str, int], rng: Any, moved: Callable[[Any], Any] | None = None
) -> dict[str, Any]:
    """Return random values of all inputs; the sizes are given as numbers where the function names them.

    `moved` takes the values of inputs of which nothing is assumed to where f may have a value: positive ones, say.
    """
    values: dict[str, Any] = {}
    for name, dims in problem.dims.items():
        size = tuple(int(d) if d.isdecimal() else sizes[d] for d in dims)
        facts = problem.facts.get(name, frozenset())
        value = drawn(facts, size, rng)
        values[name] = value if facts or moved is None else moved(value)
    return values | {n: np.float64(s) for n, s in sizes.items() if n in problem.f.inputs and n not in values}


def first_free(stems: Iterable[str], stem: str, taken: Iterable[str]) -> str:
    """Return the first of several names that is not taken, or one with a number."""
    used = set(taken)
    return next(n for n in itertools.chain(stems, (f"{stem}{k}" for k in itertools.count(1))) if n not in used)
