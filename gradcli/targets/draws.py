"""Constructors of values for `--at`: arrays by size, and random draws, with a separate stream for each input."""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import signature
from types import MappingProxyType
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.targets.names import CONSTRUCTORS, shape_from_sizes, whole_number

Sizes = Mapping[str, int]  # named sizes: n in randn(n, n)
NO_SIZES: Sizes = MappingProxyType({})


class Whole(int):
    """An integer that the user wrote as `int(3)`: passed to a Python function unchanged, and not differentiated."""


def _whole_numbers(x: Any) -> Any:
    """Return an integer, or an array of integers. Raises ValueError for other numbers."""
    if np.ndim(x) == 0:
        return Whole(whole_number(x))
    if not np.all(np.asarray(x) == np.floor(x)):
        raise ValueError("it has entries that are not whole numbers")
    return np.asarray(x).astype(int)


class RandomStream:
    """The random numbers of one input at one point: a separate stream, so that adding an input changes no other."""

    def __init__(self, seed: int, name: str, point: int, sizes: Sizes = NO_SIZES) -> None:
        self.sizes = sizes
        key = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big")
        self.rng = np.random.default_rng([seed, key, point])

    def functions(self) -> dict[str, Callable[..., Any]]:
        """Return the constructors of `--at` by name: seeded draws, and arrays given by value and sizes."""
        return {
            **{name: partial(each.make, self.rng) for name, each in BY_SIZE.items()},
            "int": _whole_numbers,
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

    def read_arguments(self, args: Sequence[Any], by_name: Mapping[str, Any]) -> list[Any]:
        """Return the arguments by position, with the sizes last. numpy has `size=(3, 4)`, `shape=(3, 4)` and `full((3, 4), x)`.

        Raises  TypeError for names that are no arguments.
        """
        named = dict(by_name)
        parameters = signature(self.entries).parameters.values()
        own = [each.name for each in parameters if each.kind is not each.VAR_POSITIONAL]
        found = [*args, *(named.pop(name) for name in own[len(args) :] if name in named)]
        found += [named.pop(name) for name in ("size", "shape") if name in named and len(found) == len(own)]
        if named:
            raise TypeError(f"unknown arguments: {', '.join(named)}")
        return found[::-1] if own == ["value"] and len(found) == 2 and np.ndim(found[0]) == 1 else found


def _count_entries(*sizes: Any) -> int:
    return math.prod(shape_from_sizes(*sizes))


def _spd(rng: Any, n: Any) -> Any:
    """Return a random symmetric positive definite matrix, with eigenvalues of order one."""
    a = rng.standard_normal((whole_number(n), whole_number(n)))
    return a @ a.T / whole_number(n) + np.eye(whole_number(n))


# Draws that look like what trained networks see: heavy tails, outlier channels, class indices, padded batches.

MOST_CLASSES = 2**24  # of zipf, which makes a table of so many numbers; vocabularies have up to 10^6
_TAIL = 5.0  # degrees of freedom of trained: about what the networks in its sources have
_RARE = 100  # one channel in so many is an outlier
_LOG_SCALES = (1.0, 2.0)  # of outlier channels: 10 to 100


def nonempty_shape(*sizes: Any) -> tuple[int, ...]:
    """Return a shape that holds an entry. Raises ValueError where no size is given, or one is not a positive integer."""
    shape = shape_from_sizes(*sizes)
    if not shape:
        raise ValueError("no size is given")
    if 0 in shape:
        raise ValueError("a size is 0")
    return shape


def student(rng: Any, df: Any, *sizes: Any) -> Any:
    """Return draws from Student's t with `df` degrees of freedom: the fewer, the heavier the tails; 1 is Cauchy's."""
    shape = nonempty_shape(*sizes)
    if not 1 <= float(df) < np.inf:
        raise ValueError(f"df is {df}, not a finite number of 1 or more")
    return rng.standard_t(float(df), shape)


def outliers(rng: Any, *sizes: Any) -> Any:
    """Return standard normal draws times the scale of their channel, a position of the last axis."""
    shape = nonempty_shape(*sizes)
    found = rng.standard_normal(shape)
    found *= _channel_scales(rng, shape[-1])
    return found


def trained(rng: Any, *sizes: Any) -> Any:
    """Return scale*(mean + t): t is Student's with 5 degrees of freedom; each channel has its scale, and a normal mean.

    A channel is a position of the last axis. Scales are those of `outliers`.
    """
    # Of 30 networks, weights and activations follow Student's t (Dotzel et al. 2024, arXiv:2405.03103); in transformers a few
    # channels are 10 to 100 times larger for every token (Xiao et al. 2023, arXiv:2211.10438), and have means far from 0
    # (Wei et al. 2023, arXiv:2304.09145).
    shape = nonempty_shape(*sizes)
    found = rng.standard_t(_TAIL, shape)
    found += rng.standard_normal(shape[-1])
    found *= _channel_scales(rng, shape[-1])
    return found


def _channel_scales(rng: Any, n: int) -> Any:
    """Return the scale of each of n channels: 10 to 100, even in the logarithm, in one of 100, at least one; 1 in the others."""
    found = np.ones(n)
    chosen = rng.choice(n, max(1, n // _RARE), replace=False)
    found[chosen] = 10 ** rng.uniform(*_LOG_SCALES, chosen.size)
    return found


def he(rng: Any, *sizes: Any) -> Any:
    """Return normal draws with variance 2/n, n the last size: weights before a relu keep the norm of what `W @ x` gets.

    Source  He et al. (2015), Delving deep into rectifiers.
    """
    shape = nonempty_shape(*sizes)
    return rng.standard_normal(shape) * np.sqrt(2 / shape[-1])


def xavier(rng: Any, *sizes: Any) -> Any:
    """Return normal draws with variance 2/(m + n), of the first and the last size: weights before a tanh.

    Source  Glorot and Bengio (2010), Understanding the difficulty of training deep feedforward neural networks.
    """
    shape = nonempty_shape(*sizes)
    return rng.standard_normal(shape) * np.sqrt(2 / (shape[0] + shape[-1]))


def zipf(rng: Any, k: Any, *sizes: Any) -> Any:
    """Return integers below k by Zipf's law, as words of a text: i has the chance 1/(i + 1), relative to that of 0."""
    shape, classes = nonempty_shape(*sizes), whole_number(k)
    if not 1 <= classes <= MOST_CLASSES:
        raise ValueError(f"k is {classes:,}, not 1 to {MOST_CLASSES:,}")
    summed = np.cumsum(1 / np.arange(1, classes + 1))
    return np.searchsorted(summed, rng.random(shape) * summed[-1], side="right")


def onehots(rng: Any, rows: Any, n: Any) -> Any:
    """Return rows of n entries, of which one, drawn evenly, is 1 and the others are 0."""
    shape = nonempty_shape(rows, n)
    found = np.zeros(shape)
    found[np.arange(shape[0]), rng.integers(shape[1], size=shape[0])] = 1.0
    return found


def ragged(rng: Any, rows: Any, n: Any) -> Any:
    """Return a mask of integers, 1 then 0 in each row: lengths are drawn evenly from 1 to n, and one row is full."""
    shape = nonempty_shape(rows, n)
    lengths = rng.integers(1, shape[1], size=shape[0], endpoint=True)
    lengths[rng.integers(shape[0])] = shape[1]
    return (np.arange(shape[1]) < lengths[:, None]).astype(int)


def causal(rng: Any, n: Any) -> Any:
    """Return the mask of integers by which position i sees positions up to i: 1 on and below the diagonal, 0 above."""
    return np.tri(*nonempty_shape(n, n), dtype=int)


# fmt: off
BY_SIZE: Mapping[str, BySize] = MappingProxyType({
    "randn":    BySize("randn(3, 4)",              _count_entries, lambda rng,
        *sizes: rng.standard_normal(shape_from_sizes(*sizes))),
    "rand":     BySize("rand(3, 4)",               _count_entries, lambda rng, *sizes: rng.random(shape_from_sizes(*sizes))),
    "uniform":  BySize("uniform(low, high, 3, 4)", lambda low, high, *sizes: _count_entries(*sizes),
                       lambda rng, low, high, *sizes: rng.uniform(low, high, shape_from_sizes(*sizes))),
    "zeros":    BySize("zeros(3, 4)",              _count_entries, lambda rng, *sizes: np.zeros(shape_from_sizes(*sizes))),
    "ones":     BySize("ones(3, 4)",               _count_entries, lambda rng, *sizes: np.ones(shape_from_sizes(*sizes))),
    "full":     BySize("full(value, 3, 4)",        lambda value, *sizes: _count_entries(*sizes),
                       lambda rng, value, *sizes: np.full(shape_from_sizes(*sizes), float(value))),
    "spd":      BySize("spd(3)",                   lambda n: whole_number(n) ** 2, _spd),
    "student":  BySize("student(df, 3, 4)",        lambda df, *sizes: _count_entries(*sizes), student),
    "outliers": BySize("outliers(3, 4)",           _count_entries, outliers),
    "trained":  BySize("trained(3, 4)",            _count_entries, trained),
    "he":       BySize("he(3, 4)",                 _count_entries, he),
    "xavier":   BySize("xavier(3, 4)",             _count_entries, xavier),
    "zipf":     BySize("zipf(k, 3, 4)",            lambda k, *sizes: _count_entries(*sizes), zipf),
    "onehots":  BySize("onehots(rows, n)",         lambda rows, n: _count_entries(rows, n), onehots),
    "ragged":   BySize("ragged(rows, n)",          lambda rows, n: _count_entries(rows, n), ragged),
    "causal":   BySize("causal(3)",                lambda n: _count_entries(n, n), causal),
})
# fmt: on
