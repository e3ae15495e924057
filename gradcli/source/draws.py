"""Constructors of values for `--at`: arrays by size, and random draws, with a separate stream for each input."""

import hashlib
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

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
        rng = self.rng
        return {
            "randn": lambda *sizes: rng.standard_normal(shape_of(*sizes)),
            "rand": lambda *sizes: rng.random(shape_of(*sizes)),
            "uniform": lambda low, high, *sizes: rng.uniform(low, high, shape_of(*sizes)),
            "zeros": lambda *sizes: np.zeros(shape_of(*sizes)),
            "ones": lambda *sizes: np.ones(shape_of(*sizes)),
            "full": lambda value, *sizes: np.full(shape_of(*sizes), float(value)),
            "spd": lambda n: _spd(rng, whole(n)),
            "int": _whole,
            "complex": lambda real, imag: np.asarray(real, dtype=float) + 1j * np.asarray(imag, dtype=float),
            **{name: CONSTRUCTORS[name] for name in ("eye", "identity", "linspace", "arange", "onehot")},
        }


LEADING = {"uniform": 2, "full": 1}  # arguments before the sizes
SIZED = ("randn", "rand", "uniform", "zeros", "ones", "full")


def _spd(rng: Any, n: int) -> Any:
    """Return a random symmetric positive definite matrix, with eigenvalues of order one."""
    a = rng.standard_normal((n, n))
    return a @ a.T / n + np.eye(n)
