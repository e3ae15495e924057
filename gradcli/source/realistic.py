"""Draws that look like what trained networks see: heavy tails, outlier channels, class indices, padded batches."""

from typing import Any

import numpy as np

from gradcli.source.constructors import shape_of, whole

MOST_CLASSES = 2**24  # of zipf, which makes a table of so many numbers; vocabularies have up to 10^6
_TAIL = 5.0  # degrees of freedom of trained: about what the networks in its sources have
_RARE = 100  # one channel in so many is an outlier
_LOG_SCALES = (1.0, 2.0)  # of outlier channels: 10 to 100


def filled(*sizes: Any) -> tuple[int, ...]:
    """Return a shape that holds an entry. Raises ValueError where no size is given, or one is not a positive integer."""
    shape = shape_of(*sizes)
    if not shape:
        raise ValueError("no size is given")
    if 0 in shape:
        raise ValueError("a size is 0")
    return shape


def student(rng: Any, df: Any, *sizes: Any) -> Any:
    """Return draws from Student's t with `df` degrees of freedom: the fewer, the heavier the tails; 1 is Cauchy's."""
    shape = filled(*sizes)
    if not 1 <= float(df) < np.inf:
        raise ValueError(f"df is {df}, not a finite number of 1 or more")
    return rng.standard_t(float(df), shape)


def outliers(rng: Any, *sizes: Any) -> Any:
    """Return standard normal draws times the scale of their channel, a position of the last axis."""
    shape = filled(*sizes)
    found = rng.standard_normal(shape)
    found *= _scales(rng, shape[-1])
    return found


def trained(rng: Any, *sizes: Any) -> Any:
    """Return scale*(mean + t): t is Student's with 5 degrees of freedom; each channel has its scale, and a normal mean.

    A channel is a position of the last axis. Scales are those of `outliers`.
    """
    # Of 30 networks, weights and activations follow Student's t (Dotzel et al. 2024, arXiv:2405.03103); in transformers a few
    # channels are 10 to 100 times larger for every token (Xiao et al. 2023, arXiv:2211.10438), and have means far from 0
    # (Wei et al. 2023, arXiv:2304.09145).
    shape = filled(*sizes)
    found = rng.standard_t(_TAIL, shape)
    found += rng.standard_normal(shape[-1])
    found *= _scales(rng, shape[-1])
    return found


def _scales(rng: Any, n: int) -> Any:
    """Return the scale of each of n channels: 10 to 100, even in the logarithm, in one of 100, at least one; 1 in the others."""
    found = np.ones(n)
    chosen = rng.choice(n, max(1, n // _RARE), replace=False)
    found[chosen] = 10 ** rng.uniform(*_LOG_SCALES, chosen.size)
    return found


def zipf(rng: Any, k: Any, *sizes: Any) -> Any:
    """Return integers below k by Zipf's law, as words of a text: i has the chance 1/(i + 1), relative to that of 0."""
    shape, classes = filled(*sizes), whole(k)
    if not 1 <= classes <= MOST_CLASSES:
        raise ValueError(f"k is {classes:,}, not 1 to {MOST_CLASSES:,}")
    summed = np.cumsum(1 / np.arange(1, classes + 1))
    return np.searchsorted(summed, rng.random(shape) * summed[-1], side="right")


def onehots(rng: Any, rows: Any, n: Any) -> Any:
    """Return rows of n entries, of which one, drawn evenly, is 1 and the others are 0."""
    shape = filled(rows, n)
    found = np.zeros(shape)
    found[np.arange(shape[0]), rng.integers(shape[1], size=shape[0])] = 1.0
    return found


def ragged(rng: Any, rows: Any, n: Any) -> Any:
    """Return a mask of integers, 1 then 0 in each row: lengths are drawn evenly from 1 to n, and one row is full."""
    shape = filled(rows, n)
    lengths = rng.integers(1, shape[1], size=shape[0], endpoint=True)
    lengths[rng.integers(shape[0])] = shape[1]
    return (np.arange(shape[1]) < lengths[:, None]).astype(int)


def causal(rng: Any, n: Any) -> Any:
    """Return the mask of integers by which position i sees positions up to i: 1 on and below the diagonal, 0 above."""
    return np.tri(*filled(n, n), dtype=int)
