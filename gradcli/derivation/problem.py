"""The problem to derive: a function of inputs whose sizes have names, assumptions about them, and random points."""

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any

import numpy as np

from gradcli.errors import BadOption
from gradcli.source.facts import Dims, drawn
from gradcli.source.function import Function
from gradcli.source.points import pairs


def dims_of(texts: Iterable[str]) -> dict[str, Dims]:
    """Return the sizes of inputs, read from strings such as `W: m n; x: n; lam:`. Raises BadOption."""
    found: dict[str, Dims] = {}
    for name, words in pairs(texts):
        if not all((w.isidentifier() and not iskeyword(w)) or (w.isdecimal() and 0 < int(w) < 100) for w in words):
            raise BadOption(f"the sizes of {name} are not names or numbers: {' '.join(words)}", do='write "W: m n"')
        found[name] = words
    return found


RECORDINGS = 3  # sizes at which a function is recorded and checked


@dataclass(frozen=True)
class Problem:
    """A function of inputs whose sizes have names, and the assumptions about them.

    `direction` is an extra input, which f does not have: a second derivative is taken along it.
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
    """Return random values of all inputs, and the sizes as numbers if the function uses their names.

    `moved` maps the values of inputs without assumptions to a range where f may have a value, such as positive numbers.
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
