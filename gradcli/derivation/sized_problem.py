"""The problem to derive: a function of inputs whose sizes have names, assumptions about them, and random points."""

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import field, replace
from keyword import iskeyword
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import BadOption, NotSupported
from gradcli.targets.facts import Dims, Function, draw_with_facts, length_of, size_names
from gradcli.targets.names import CONSTANTS
from gradcli.targets.points import split_shapes


def parse_shapes(texts: Iterable[str]) -> dict[str, Dims]:
    """Return the sizes of inputs, read from strings such as `W: m n; x: n; lam:`. Raises BadOption."""
    found: dict[str, Dims] = {}
    for name, words in split_shapes(texts):
        if any(re.search(r"- [^\d ]", word) for word in words):
            says = f"a size of {name} is a difference: {' '.join(words)}"
            raise BadOption(says, do='write sums, such as "y: m; x: m+k"')
        terms = [term for word in words for term in re.split(" [+-] ", word)]
        if not all((t.isidentifier() and not iskeyword(t)) or (t.isdecimal() and 0 < int(t) < 100) for t in terms):
            says = f"the sizes of {name} are not names, numbers or their sums: {', '.join(words)}"
            raise BadOption(says, do='write "W: m n", or "W: m n+k"')
        for term in terms:
            if term in CONSTANTS:
                raise BadOption(f"a size of {name} is called {term}, which is a constant", do="call it n")
        found[name] = words
    alone = {word for words in found.values() for word in words}
    for size in (word for words in found.values() for word in words if not alone.issuperset(size_names([(word,)]))):
        missing = next(name for name in size_names([(size,)]) if name not in alone)
        says = f"the size {missing} occurs only in {size}"
        raise BadOption(says, do=f"give another axis the size {missing}, or the sum a name")
    return found


def shapes_line(dims: Mapping[str, Dims]) -> str:
    """Return sizes as --shapes takes them: W: m n; x: n."""
    return "; ".join(f"{name}: {' '.join(own)}".strip() for name, own in dims.items())


RECORDINGS = 3  # sizes at which a function is recorded and checked


@dataclass(frozen=True)
class DerivationProblem:
    """A function of inputs whose sizes have names, and the assumptions about them.

    `direction` is an extra input, which f does not have: a second derivative is taken along it. `compared` are the inputs
    that f compares by == or !=, or takes as conditions, with the numbers they are compared with; comparisons that
    `continuous` is in are taken as false, which they are at all but single points.
    """

    f: Function
    dims: Mapping[str, Dims]
    facts: Mapping[str, frozenset[str]]
    order: int = 1
    seed: int = 0
    layout: str = "mixed"
    style: str = "differential"
    direction: str | None = None
    compared: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    continuous: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the sizes, in the order in which they occur."""
        return size_names(self.dims.values())

    @property
    def letters(self) -> list[str]:
        """The letters of the first and the second derivative: G, H, or the first letters after these that no input has."""
        return [letter for letter in ("G", "H", "J", "D", "grad", "hess") if letter not in self.dims]

    @property
    def function(self) -> str:
        """The name of what is differentiated: f, or for order two the letter of its gradient."""
        return "f" if self.order == 1 else self.letters[0]

    @property
    def letter(self) -> str:
        """The letter of the derivative: G, or H for order two, or H[V] for its product with a direction."""
        letter = self.letters[self.order - 1]
        return f"{letter}[{self.direction}]" if self.direction else letter


def draw_point(
    problem: DerivationProblem, sizes: Mapping[str, int], rng: Any, moved: Callable[[Any], Any] | None = None
) -> dict[str, Any]:
    """Return random values of all inputs, and the sizes as numbers if the function uses their names.

    `moved` maps the values of inputs without assumptions to a range where f may have a value, such as positive numbers.
    """
    values: dict[str, Any] = {}
    for name, dims in problem.dims.items():
        size = tuple(length_of(d, sizes) for d in dims)
        facts = problem.facts.get(name, frozenset())
        value = draw_with_facts(facts, size, rng)
        met = problem.compared.get(name, ())
        if met and not facts:  # about half of the entries are equal to one of the numbers
            equal = rng.random(size) < 0.5
            values[name] = np.where(equal, rng.choice(met, size), rng.choice(two_other_numbers(met), size))[()]
        else:
            values[name] = value if facts or moved is None else moved(value)
    return values | {n: np.float64(s) for n, s in sizes.items() if n in problem.f.inputs and n not in values}


def ignore_comparisons(problem: DerivationProblem, name: str) -> DerivationProblem:
    """Return the problem with the comparisons of one input taken as false, and with points at which they are."""
    compared = {n: met for n, met in problem.compared.items() if n != name}
    return replace(problem, compared=compared, continuous=name)


def two_other_numbers(met: Sequence[float]) -> tuple[float, ...]:
    """Return two numbers that differ from all numbers that an input is compared with."""
    return max(met) + 1.0, max(met) + 0.5


def _near_identity(x: Any) -> Any:
    """Return a square matrix whose eigenvalues are near 1; other arrays as they are."""
    square = np.ndim(x) == 2 and len({*np.shape(x)}) == 1
    return np.eye(len(x)) + x / (2 + np.linalg.norm(x)) if square else x


# where f may have a value: all positive; all between 0 and 1; matrices with positive eigenvalues
MOVED: tuple[Callable[[Any], Any], ...] = (lambda x: np.abs(x) + 0.3, lambda x: np.abs(np.tanh(x)), _near_identity)
_SHAPE = re.compile(r"\((\d+(?:, \d+)*),?\)")


def named_shape(lengths: Sequence[int], sizes: Mapping[str, int]) -> str:
    """Return a shape in the names of sizes: m x n; `a number` for none."""
    names = {length: name for name, length in reversed(list(sizes.items()))}
    return " x ".join(names.get(n, str(n)) for n in lengths) or "a number"


def name_shapes_in_text(text: str, sizes: Mapping[str, int]) -> str:
    """Return a sentence whose shapes, such as (3, 4), have the names of the sizes: m x n."""
    return _SHAPE.sub(lambda found: named_shape([int(n) for n in found[1].split(", ")], sizes), text)


def first_free_name(stems: Iterable[str], stem: str, taken: Iterable[str]) -> str:
    """Return the first of several names that is not taken, or one with a number."""
    used = set(taken)
    return next(n for n in itertools.chain(stems, (f"{stem}{k}" for k in itertools.count(1))) if n not in used)


# The counted work of a derivation, which ends it: a count, and not a time, so that the answer is the same on every machine.

MOST_WORK = 300_000  # of one derivative, in factors that are put in order; those of textbooks take 10,000 at most
MOST_SIMPLIFYING = 100_000  # of that, for one simplification, which then ends with the smallest form it has found
CHARACTERS = 50  # of the canonical text of a function that count as one factor


class TooLong(NotSupported):
    """A derivative whose formula takes more work than is allowed."""


_BUDGETS: ContextVar[tuple[list[int], ...]] = ContextVar("work that is left, of each limit", default=())


@contextmanager
def limited_work(most: int = MOST_WORK) -> Iterator[None]:
    """Let what runs inside do at most this much work, and no more than is left outside."""
    token = _BUDGETS.set((*_BUDGETS.get(), [most]))
    try:
        yield
    finally:
        _BUDGETS.reset(token)


def spend_work(factors: int) -> None:
    """Count work. Raises TooLong if more is done than is allowed."""
    for budget in _BUDGETS.get():
        budget[0] -= factors
        if budget[0] < 0:
            says = "its formula is too long: finding and simplifying it takes more work than is allowed"
            do = "derive a part of f, or name an intermediate result as an input; gradcli grad computes the derivative at a point"
            raise TooLong(says, do=do)
