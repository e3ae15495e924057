"""What defeats other tracers: scalars put into arrays, math.*, types asked for, threads, random numbers, copies."""

import copy
import itertools
import math
import operator
import random
import warnings
from collections import Counter, OrderedDict
from concurrent.futures import ThreadPoolExecutor
from functools import singledispatch
from math import cos, pi, sqrt
from operator import itemgetter

import numpy as np
from numpy import array, where, zeros
from scipy import special

rng = np.random.default_rng(10)


def array_of_scalars(x):
    """np.array of computed scalars."""
    return np.sum(np.array([x[0], x[1] ** 2, x[0] * x[1], 1.0]) ** 2)


def nested_lists(x):
    """A matrix from nested lists, a tuple of rows, and an array of those."""
    a, b, c = x
    rows = [[a, b], [b, c + 1]]
    stacked = np.array([rows, ((c, 0), (0, a))])
    return np.linalg.det(array(rows)) + stacked.sum(axis=0)[0, 1] * stacked[1, 0, 0]


def filled(x):
    """np.full, np.full_like, np.ones_like times a scalar, np.repeat of a scalar."""
    a = np.full(3, x[0])
    b = np.full_like(x, x[1])
    c = np.full((2, 3), x)
    return a @ b + (c * np.ones_like(c) * x[2]).sum() + np.repeat(x[0], 2).prod()


def coerced(x):
    """asarray, asanyarray, atleast_1d, ascontiguousarray, array(copy) on what is one already."""
    y = np.atleast_1d(np.asanyarray(np.asarray(x)))
    z = np.ascontiguousarray(np.array(y, copy=True))
    z[0] = 3.0
    return np.sum(y * z)


def scalar_functions(a, b):
    """A page of math.*."""
    total = math.exp(a) + math.log(b) + math.log(b, 3) + math.log2(b) + math.log10(b) + math.log1p(a) + math.expm1(a)
    total += math.sin(a) * math.cos(b) * math.tan(a) + math.asin(a) + math.acos(a) + math.atan(a) + math.atan2(a, b)
    total += math.sinh(a) + math.cosh(a) + math.tanh(b) + math.asinh(a) + math.acosh(b) + math.atanh(a)
    total += (
        math.sqrt(b) + math.pow(b, a) + math.hypot(a, b) + math.fabs(-a) + math.erf(a) + math.erfc(b) + math.cbrt(b)
    )
    total += (
        math.gamma(b) + math.lgamma(b) + math.degrees(a) / 100 + math.radians(b) + math.fsum([a, b, a]) + math.exp2(a)
    )
    return total + math.prod([a, b, b]) + math.dist([a, b], [1.0, 2.0]) + math.copysign(a, -1.0) + math.fmod(b, 0.7)


def imported_by_name(x):
    """Names imported from math and numpy."""
    out = zeros(2)
    out[0] = sqrt(x[0]) * cos(pi * x[1])
    out[1] = where(x[1] > 0, x[1], -x[1])
    return out.sum()


def vectorized(x, threshold):
    """np.vectorize of a function with a branch, with a second argument."""

    @np.vectorize
    def clipped_square(v, t):
        if v < t:
            return v * v
        return t * (2 * v - t)

    return clipped_square(x, threshold).sum()


def builtins_over_arrays(x):
    """sum, max, min, abs, pow, divmod, round, sorted, reversed, map, filter, zip of an array's entries."""
    total = sum(x) + sum(v * w for v, w in zip(x, reversed(x), strict=True)) + max(x) * min(list(x))
    total += sum(map(abs, x)) + sum(filter(lambda v: v > 0, x)) + pow(x[0], 2)
    _, rest = divmod(x[1], 0.5)
    smallest, *_, largest = sorted(x)
    return total + rest + smallest / largest + max(x, key=lambda v: v * v) + min(x[0], 0.1, key=abs)


def types_asked_for(x, scale):
    """isinstance, type names, ndim, shape, dtype, hasattr: all as without tracing."""
    assert isinstance(x, np.ndarray), f"an array is wanted, not {type(x).__name__}"
    assert isinstance(scale, float)
    assert isinstance(scale, np.floating | float)
    assert x.ndim == 1
    assert x.dtype == np.float64
    assert np.isscalar(scale)
    assert hasattr(x, "__len__")
    assert not hasattr(scale, "__len__")
    assert np.issubdtype(x.dtype, np.floating)
    if isinstance(x[0], (list, tuple)) or callable(x):
        return 0.0
    return scale * np.linalg.norm(x) ** len(x)


@singledispatch
def size_of(x):
    """Something generic."""
    return x**2


@size_of.register
def _(x: np.ndarray):
    return np.sum(x**2)


@size_of.register(list)
def _(x):
    return sum(map(size_of, x))


def dispatched(x):
    """functools.singledispatch on arrays, lists and numbers."""
    return size_of(x) * size_of([x[0], x[1:]])


def safe_logarithm(x):
    """np.where with a logarithm of what may be negative, silenced."""
    with np.errstate(invalid="ignore", divide="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = np.where(x > 0, np.log(x), x**2)
    return np.nansum(y) + np.nanmax(np.where(x > 0, x, np.nan))


def checked_for_nan(x):
    """Guards as careful people write them."""
    if np.any(np.isnan(x)) or not np.isfinite(x).all():
        raise ValueError("not finite")
    if (x == 0).any() or np.allclose(x, 1.0):
        return 0.0
    y = np.nan_to_num(x / x.sum())
    assert math.isclose(y.sum(), 1.0, rel_tol=1e-9), f"{y.sum():.3e}"
    return np.count_nonzero(y) * special.entr(np.abs(y)).sum()


def in_threads(x):
    """A pool of threads over the entries."""
    with ThreadPoolExecutor(max_workers=2) as pool:
        return sum(pool.map(lambda v: np.sin(v) * v, x))


def noisy_but_seeded(x):
    """Random numbers of three kinds, all seeded inside the function."""
    generator = np.random.default_rng(3)
    mask = generator.random(len(x)) < 0.7
    noise = generator.normal(scale=0.1, size=x.shape)
    order = generator.permutation(len(x))
    weight = random.Random(1).random()
    return weight * np.sum((x + noise)[order] ** 2 * mask)


def copies(x):
    """copy.copy, copy.deepcopy, ndarray.copy and dicts of arrays."""
    state = {"a": x * 2, "nested": [x**2]}
    shallow, deep = copy.copy(state), copy.deepcopy(state)
    state["a"][0] = 0.0
    deep["nested"][0] *= 3
    return np.sum(shallow["a"]) + np.sum(deep["a"] * deep["nested"][0]) + state["nested"][0].sum()


def counted(x):
    """Values in Counter, OrderedDict and sets of keys; operators as functions."""
    totals = Counter()
    for key, value in zip("abca", itertools.cycle(x)):
        totals[key] += value
    ordered = OrderedDict(sorted(totals.items()))
    return operator.mul(ordered["a"], ordered["b"]) + sum(map(itemgetter(1), ordered.items())) ** 2


def mean_of_logs(x):
    """Means and spreads that numpy has as functions and as methods."""
    geometric = np.exp(np.mean(np.log(x)))
    harmonic = len(x) / np.sum(1.0 / x)
    quantiles = np.percentile(x, [25, 75])
    return geometric * harmonic + np.median(x) + x.std(ddof=1) + quantiles @ [1, -1] + np.average(x, weights=x)


def piecewise_table(t, levels):
    """np.interp, np.searchsorted, np.digitize and np.clip together."""
    edges = np.array([0.0, 0.5, 1.0, 2.0])
    k = np.searchsorted(edges, t) - 1
    smooth = np.interp(t, edges, levels)
    return smooth**2 + levels[k] * np.clip(t, 0.2, 0.9) + np.digitize([t], edges)[0] * t


def einsum_everywhere(a, b, c):
    """Several contractions, a trace, a diagonal, an outer and a batch."""
    chain = np.einsum("ij,jk,kl->il", a, b, c)
    return (
        np.einsum("ii", chain)
        + np.einsum("ij,ij->", a, b)
        + np.einsum("ij->j", c)[0]
        + np.einsum("i,j->ij", a[0], b[0])[0, 1]
        + np.einsum("bij,bj->bi", np.stack([a, b]), c).prod()
        + np.tensordot(a, b, axes=1)[0, 1]
    )


def shaped(x):
    """A tour of shapes."""
    m = x.reshape(2, -1)
    t = np.moveaxis(m[None], 0, -1).squeeze(-1).T.flatten("F")
    p = np.pad(t, (1, 0), mode="edge")
    r = np.roll(np.flip(np.rot90(m), axis=0), 1, axis=1)
    s = np.dstack([m, m]).swapaxes(0, 2)
    return p @ np.arange(p.size) + (r * np.arange(4).reshape(r.shape)).sum() + s[..., ::-1][0, 0] @ np.tril(m)[:, 0]


def ternaries(x):
    """Conditional expressions, and/or, chained comparisons, any and all on numbers."""
    sign = 1 if x[0] > 0 else -1
    value = x[1] or 1.0
    capped = x[2] if 0 < x[2] < 1 else (x[2] > 1 and 1.0) or 0.0
    return sign * value + (x[0] > x[1]) * x[0] ** 2 + capped**2 * (x > 0).sum() + np.sum(x[x > x.mean()])


POINTS = {
    array_of_scalars: {"x": np.array([0.4, -1.3])},
    nested_lists: {"x": np.array([0.4, -1.3, 0.8])},
    filled: {"x": np.array([0.4, -1.3, 0.8])},
    coerced: {"x": np.array([0.4, -1.3, 0.8])},
    scalar_functions: (0.3, 1.6),
    imported_by_name: {"x": np.array([0.4, -1.3])},
    vectorized: {"x": np.array([0.4, -1.3, 0.8]), "threshold": 0.5},
    builtins_over_arrays: {"x": np.array([0.4, -1.3, 0.8])},
    types_asked_for: {"x": np.array([0.4, -1.3, 0.8]), "scale": 1.5},
    dispatched: {"x": np.array([0.4, -1.3, 0.8])},
    safe_logarithm: {"x": np.array([0.4, -1.3, 0.8])},
    checked_for_nan: {"x": np.array([0.4, 1.3, 0.8])},
    in_threads: {"x": np.array([0.4, -1.3, 0.8])},
    noisy_but_seeded: {"x": rng.normal(size=5)},
    copies: {"x": np.array([0.4, -1.3])},
    counted: {"x": np.array([0.4, -1.3, 0.8])},
    mean_of_logs: {"x": np.array([0.4, 1.3, 0.8, 2.2])},
    piecewise_table: {"t": 0.7, "levels": np.array([0.3, 1.0, -0.4, 2.0])},
    einsum_everywhere: {"a": rng.normal(size=(2, 2)), "b": rng.normal(size=(2, 2)), "c": rng.normal(size=(2, 2))},
    shaped: {"x": rng.normal(size=4)},
    ternaries: {"x": np.array([0.4, -1.3, 0.8])},
}
