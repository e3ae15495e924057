"""The problem to derive: a function of inputs whose sizes have names, assumptions about them, and random points."""

import itertools
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from keyword import iskeyword
from typing import Any

import numpy as np

from gradcli.errors import BadOption
from gradcli.source.function import Function
from gradcli.source.points import pairs

Dims = tuple[str, ...]
_PART = re.compile(r"\s*(\w+)\s*:\s*(.+)")


@dataclass(frozen=True, slots=True)
class Fact:
    """An assumption: whether inputs of given sizes can have it, what it needs in words, and how to make it hold."""

    fits: Callable[[Dims], bool]
    needs: str
    make: Callable[[Any, Any], Any]


def _square(dims: Dims) -> bool:
    return len(dims) == 2 and dims[0] == dims[1]


def _spd(x: Any, rng: Any) -> Any:
    return x @ x.T / len(x) + np.eye(len(x))


def _simplex(x: Any, rng: Any) -> Any:
    return np.abs(x) / np.sum(np.abs(x), axis=-1, keepdims=True)


def _onehot(x: Any, rng: Any) -> Any:
    return np.eye(np.shape(x)[-1])[rng.integers(np.shape(x)[-1], size=np.shape(x)[:-1])]


def _any(dims: Dims) -> bool:
    return True


_VECTOR: tuple[Callable[[Dims], bool], str] = (lambda dims: len(dims) == 1, "a vector")
_ROWS: tuple[Callable[[Dims], bool], str] = (lambda dims: len(dims) == 2, "a matrix")
_MATRIX: tuple[Callable[[Dims], bool], str] = (_square, "a square matrix")
FACTS: dict[str, Fact] = {
    "symmetric":    Fact(*_MATRIX, lambda x, rng: (x + x.T) / 2),
    "spd":          Fact(*_MATRIX, _spd),
    "tied":         Fact(*_MATRIX, lambda x, rng: (x + x.T) / 2),
    "diagonal":     Fact(*_MATRIX, lambda x, rng: np.diag(np.diag(x))),
    "orthogonal":   Fact(*_MATRIX, lambda x, rng: np.linalg.qr(x)[0]),
    "simplex":      Fact(*_VECTOR, _simplex),
    "onehot":       Fact(*_VECTOR, _onehot),
    "simplex rows": Fact(*_ROWS,   _simplex),
    "onehot rows":  Fact(*_ROWS,   _onehot),
    "signs":        Fact(_any, "", lambda x, rng: np.where(x < 0, -1.0, 1.0)),
    "positive":     Fact(_any, "", lambda x, rng: np.abs(x) + 0.3),
}  # fmt: skip


def facts_of(texts: list[str], dims: Mapping[str, Dims]) -> dict[str, frozenset[str]]:
    """Return the assumptions about each input, read from strings such as `S: spd, tied; y: simplex`.

    Raises  BadOption for an unknown assumption or input, or an assumption that cannot hold.
    """
    found: dict[str, frozenset[str]] = {}
    for part in (p for text in texts for p in text.split(";") if p.strip()):
        match = _PART.fullmatch(part)
        if match is None:
            raise BadOption(f"the assumption '{part.strip()}' cannot be read", do='write --assume "S: spd; y: simplex"')
        name, words = match[1], match[2]
        if name not in dims:
            raise BadOption(f"--assume names '{name}', which is not an input", do=f"inputs: {', '.join(dims)}")
        found[name] = found.get(name, frozenset()) | frozenset(_words(words, name, dims[name]))
    return found


def _words(text: str, name: str, dims: Dims) -> list[str]:
    words = []
    rest = text.strip().lower()
    while rest:
        word = next((w for w in sorted(FACTS, key=len, reverse=True) if re.match(rf"{w}\b", rest)), None)
        if word is None:
            raise BadOption(f"'{rest.split()[0]}' is no assumption", do=f"known: {', '.join(FACTS)}")
        if not FACTS[word].fits(dims):
            shape = " x ".join(dims) or "a number"
            raise BadOption(f"{name} is {shape} and cannot be {word}", do=f"{word} is for {FACTS[word].needs}")
        words.append(word)
        rest = rest[len(word) :].lstrip(" ,")
    return words


def drawn(facts: frozenset[str], shape: tuple[int, ...], rng: Any) -> Any:
    """Return a random value for which the facts hold."""
    x = rng.standard_normal(shape) if shape else np.float64(rng.standard_normal())
    for word in FACTS:
        if word in facts:
            x = FACTS[word].make(x, rng)
    return np.asarray(x, dtype=np.float64)[()]


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
