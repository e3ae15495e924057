"""Constructors of values for `--at`: arrays by size, and random draws, with a separate stream for each input."""

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from gradcli.source import realistic
from gradcli.source.constructors import CONSTRUCTORS, shape_of, whole

Sizes = Mapping[str, int]  # named sizes: n in randn(n, n)
NO_SIZES: Sizes = MappingProxyType({})


class Whole(int):
    """An integer that the user wrote as `int(3)`: passed to a Python function unchanged, and not differentiated."""


def _whole(x: Any) -> Any:
    """Return an integer, or an array of integers. Raises ValueError for other numbers."""
    if np.ndim(x) == 0:
        return Whole(whole(x))
    if not np.all(np.asarray(x) == np.floor(x)):
        raise ValueError("it has entries that are not whole numbers")
    return np.asarray(x).astype(int)


class Source:
    """The random numbers of one input at one point: a separate stream, so that adding an input changes no other."""

    def __init__(self, seed: int, name: str, point: int, sizes: Sizes = NO_SIZES) -> None:
        self.sizes = sizes
        key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
        self.rng = np.random.default_rng([seed, key, point])

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return the constructors of `--at` by name: seeded draws, and arrays given by value and sizes."""
        return {
            **{name: partial(each.make, self.rng) for name, each in BY_SIZE.items()},
            "int": _whole,
            "complex": lambda real, imag: np.asarray(real, dtype=float) + 1j * np.asarray(imag, dtype=float),
            **{name: CONSTRUCTORS[name] for name in ("eye", "identity", "linspace", "arange", "onehot")},
        }


@dataclass(frozen=True, slots=True)
class BySize:
    """A constructor of an array of given sizes: how it is written, how many entries it makes, and how it makes them.

    `entries` gets the arguments, before anything is allocated; `make` gets the random numbers before them. Both raise
    ValueError for arguments that make no array.
    """

    usage: str
    entries: Callable[..., int]
    make: Callable[..., Any]


def _count(*sizes: Any) -> int:
    return math.prod(shape_of(*sizes))


def _spd(rng: Any, n: Any) -> Any:
    """Return a random symmetric positive definite matrix, with eigenvalues of order one."""
    a = rng.standard_normal((whole(n), whole(n)))
    return a @ a.T / whole(n) + np.eye(whole(n))


# fmt: off
BY_SIZE: Mapping[str, BySize] = MappingProxyType({
    "randn":    BySize("randn(3, 4)",              _count, lambda rng, *sizes: rng.standard_normal(shape_of(*sizes))),
    "rand":     BySize("rand(3, 4)",               _count, lambda rng, *sizes: rng.random(shape_of(*sizes))),
    "uniform":  BySize("uniform(low, high, 3, 4)", lambda low, high, *sizes: _count(*sizes),
                       lambda rng, low, high, *sizes: rng.uniform(low, high, shape_of(*sizes))),
    "zeros":    BySize("zeros(3, 4)",              _count, lambda rng, *sizes: np.zeros(shape_of(*sizes))),
    "ones":     BySize("ones(3, 4)",               _count, lambda rng, *sizes: np.ones(shape_of(*sizes))),
    "full":     BySize("full(value, 3, 4)",        lambda value, *sizes: _count(*sizes),
                       lambda rng, value, *sizes: np.full(shape_of(*sizes), float(value))),
    "spd":      BySize("spd(3)",                   lambda n: whole(n) ** 2, _spd),
    "student":  BySize("student(df, 3, 4)",        lambda df, *sizes: _count(*sizes), realistic.student),
    "outliers": BySize("outliers(3, 4)",           _count, realistic.outliers),
    "trained":  BySize("trained(3, 4)",            _count, realistic.trained),
    "zipf":     BySize("zipf(k, 3, 4)",            lambda k, *sizes: _count(*sizes), realistic.zipf),
    "onehots":  BySize("onehots(rows, n)",         lambda rows, n: _count(rows, n), realistic.onehots),
    "ragged":   BySize("ragged(rows, n)",          lambda rows, n: _count(rows, n), realistic.ragged),
    "causal":   BySize("causal(3)",                lambda n: _count(n, n), realistic.causal),
})
# fmt: on
