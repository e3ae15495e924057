"""Assumptions about inputs: symmetric matrices, probabilities, signs; which shapes can have them, and values that do."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.errors import BadOption

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
    "index":        Fact(_any, "", lambda x, rng: np.floor(np.abs(3 * x)) % 3),
    "mask":         Fact(_any, "", lambda x, rng: np.where(x < 0, 0.0, 1.0)),
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
    return assumed(facts, rng.standard_normal(shape) if shape else np.float64(rng.standard_normal()), rng)


def assumed(facts: frozenset[str], x: Any, rng: Any) -> Any:
    """Return the value nearest at hand for which the facts hold."""
    for word in FACTS:
        if word in facts:
            x = FACTS[word].make(x, rng)
    return np.asarray(x, dtype=np.float64)[()]
