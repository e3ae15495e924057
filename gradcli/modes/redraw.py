"""All inputs of a point drawn anew, or made of another size, so that what the values have in common by design stays so.

Kept are types, signs, zeros and entries that are not finite; the order of sorted vectors, ties, and that one vector lies below
another; symmetric, skew, triangular and orthogonal matrices; rows that sum to one or have the length one. Whole numbers and
booleans, which may be labels, indices or masks, change places: rows of equally long arrays in the same way. A vector that is
not differentiated and repeats nothing, such as an index or times, repeats nothing afterwards.
"""

import itertools
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import numpy as np

Values = Mapping[str, Any]
_SPREAD = 0.4  # of the logarithm by which a number is multiplied
_NEAR = 1e-6  # relative: how near a sum is to one
_MOST_LENGTHS = 4  # lengths of axes that are changed, one at a time
_SHORTEST = 3  # the least length to which an axis is shortened
_MULTIPLES = range(2, 9)  # of a length that another one may be, as the gates of a cell are
_FEWER = 3  # times fewer entries of all inputs: else they are not shortened


def redraw_inputs(
    values: Values, wrt: Collection[str], rng: np.random.Generator, spread: float = _SPREAD, signs: bool = False
) -> dict[str, Any]:
    """Return the inputs drawn anew; those in `wrt` are differentiated, so that whole numbers among them are real ones.

    With `signs`, entries of arrays get random signs, too, where their signs mean nothing that can be seen.
    """
    orders: dict[int, Any] = {}
    found: dict[str, Any] = {}
    for name, x in values.items():
        if not _is_numeric(x):
            found[name] = x
        elif np.asarray(x).dtype.kind != "f" or (name not in wrt and np.ndim(x) > 0 and _is_whole(x)):
            found[name] = _rearrange_rows(np.asarray(x), rng, orders) if np.ndim(x) > 0 else x
        else:
            drawn = _scale_at_random(np.asarray(x), rng, spread, name in wrt, signs)
            found[name] = drawn.astype(np.asarray(x).dtype)[()]
    for low, high in _ordered_pairs(values, [n for n in values if n not in wrt]):
        a, b = found[low], found[high]
        found[low], found[high] = np.minimum(a, b), np.maximum(a, b)
    return found


def resize_inputs(values: Values, wrt: Collection[str], rng: np.random.Generator) -> Iterator[Iterator[dict[str, Any]]]:
    """Yield the inputs with other lengths, where every axis of one length gets another: of all lengths, then of one at a time.

    They come in two ways, to be tried in turn: integers that are equal to a length that changes stay, or change with it.
    """
    axes = [n for x in values.values() if _is_numeric(x) for n in np.shape(x) if n > 1]
    lengths = sorted(set(axes), key=lambda n: (-axes.count(n), -n))[:_MOST_LENGTHS]
    if len(lengths) > 1:
        yield _resize_axes(values, wrt, {n: n + 1 for n in set(axes)}, rng)
    for more in (True, False):  # one more, then twice as many
        for length in lengths:
            yield _resize_axes(values, wrt, {length: length + 1 if more else 2 * length}, rng)


def shrink_inputs(values: Values, wrt: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield the inputs with short axes, in ways to be tried in turn; nothing where that leaves out few entries.

    Of each axis the first entries stay. Lengths that differ still differ, in their order; in other ways multiples of a length
    in one array stay multiples, and so do multiples of four, as where a width is that of several heads. Integers that are equal
    to a length become the new one, and whole numbers that may be positions along an axis lie within it.
    """
    shapes = [np.shape(x) for x in values.values() if _is_numeric(x)]
    lengths = sorted({n for shape in shapes for n in shape if n > 1})
    tried: list[dict[int, int]] = []
    for unit, keeps_multiples in itertools.product((1, 4), (False, True)):
        new: dict[int, int] = {}
        for n in lengths:
            beside = [m for m in new if any({m, n} <= {*shape} for shape in shapes)]
            multiple = next((k * new[m] for m in beside for k in _MULTIPLES if n == k * m), None)
            least = max(_SHORTEST, 1 + max(new.values(), default=0))
            least = least if n % unit else unit * -(-least // unit)
            new[n] = min(n, least) if multiple is None or not keeps_multiples else multiple
        if new in tried:
            continue
        tried.append(new)
        shorter = {name: _shorten_axes(x, new, name in wrt) for name, x in values.items()}
        before, after = (sum(np.size(x) for x in v.values() if _is_numeric(x)) for v in (values, shorter))
        if _FEWER * after <= before:
            yield shorter


def _shorten_axes(x: Any, new: Mapping[int, int], differentiated: bool) -> Any:
    """Return an input whose axes have new lengths, by the old ones."""
    if isinstance(x, int | np.integer) and not isinstance(x, bool):
        return type(x)(new.get(int(x), x))
    if not _is_numeric(x) or not np.ndim(x):
        return x
    x = np.asarray(x)
    y = x[tuple(slice(new.get(n, n)) for n in x.shape)]
    whole, sums = _is_whole(x), [axis for axis in (x.ndim - 1, 0) if _sums_to_one(x, axis)]
    if whole and x.ndim == 2 and sums:  # one hot
        classes = y.shape[1]
        return np.eye(classes, dtype=x.dtype)[np.argmax(x[: len(y)], axis=1) % classes]
    if whole and not (differentiated and x.dtype.kind == "f") and x.dtype.kind != "b" and np.min(x, initial=0) >= 0:
        axis = next((n for n in new if n > np.max(x, initial=0)), None)
        return y if axis is None else y % new[axis]
    for axis in sums[:1]:
        return y / np.sum(y, axis=axis, keepdims=True)
    return y / np.linalg.norm(y, axis=-1, keepdims=True) if _has_unit_rows(x) else y


def _resize_axes(
    values: Values, wrt: Collection[str], new: Mapping[int, int], rng: np.random.Generator
) -> Iterator[dict[str, Any]]:
    grown = dict(values)
    for length in sorted(new, reverse=True):
        grown = {
            name: _grow_axes(np.asarray(x), length, new[length], name in wrt) if _is_numeric(x) else x
            for name, x in grown.items()
        }
    yield redraw_inputs(grown, wrt, rng)
    integers = {n: x for n, x in values.items() if isinstance(x, int | np.integer) and not isinstance(x, bool)}
    numbers = {name: type(x)(new[int(x)]) for name, x in integers.items() if int(x) in new}
    if numbers:
        yield redraw_inputs(grown | numbers, wrt, rng)


def _is_numeric(x: Any) -> bool:
    return isinstance(x, np.ndarray | np.generic | float) and np.asarray(x).dtype.kind in "fiub"


def _is_whole(x: Any) -> bool:
    """Whether all numbers are whole, as labels and counts are."""
    return bool(np.all(np.asarray(x) == np.round(x)))


def _rearrange_rows(x: Any, rng: np.random.Generator, orders: dict[int, Any]) -> Any:
    """Return whole numbers in another order of their rows, the same for all arrays with as many rows."""
    if x.ndim == 2 and x.shape[0] == x.shape[1] > 1:
        if _triangle_mask(x) is not None:
            return x
        order = orders.setdefault(len(x), rng.permutation(len(x)))
        return x[order][:, order] if np.array_equal(x, x.T) else x[order]
    if x.ndim == 1 and x.size > 1 and _sort_direction(x):
        low, high = min(x[0], x[-1]), max(x[0], x[-1])  # the smallest and the largest stay
        if _has_no_repetitions(x):
            inner = rng.choice(int(high) - int(low) - 1, x.size - 2, replace=False) if x.size > 2 else []
            drawn = np.array([low, *np.sort(inner) + int(low) + 1, high]) if len(inner) else np.array([low, high])
            return drawn.astype(x.dtype)[:: _sort_direction(x)]
        drawn = np.sort(rng.choice(x, x.shape))  # of its own values
        drawn[0], drawn[-1] = low, high
        return drawn[:: _sort_direction(x)]
    if len(x) == 1 and x.ndim > 1:
        return x[:, rng.permutation(x.shape[1])]
    return x[orders.setdefault(len(x), rng.permutation(len(x)))]


def _scale_at_random(x: Any, rng: np.random.Generator, spread: float, differentiated: bool, signs: bool) -> Any:
    """Return real numbers, each multiplied by a random one; zeros move only where they are differentiated."""
    finite, triangle, orthogonal = np.isfinite(x), _triangle_mask(x), _is_orthogonal(x)
    mirrored = x.ndim == 2 and x.shape[0] == x.shape[1] and (np.array_equal(x, x.T) or np.array_equal(x, -x.T))
    sums = [axis for axis in {x.ndim - 1, 0} if _sums_to_one(x, axis)] if x.ndim else []
    is_share = bool(x.size and np.all((x >= 0) & (x <= 1))) and not _is_whole(x)
    with np.errstate(all="ignore"):
        if mirrored:
            d = _random_factors(rng, x.shape[:1], spread, signs)
            y = x * np.outer(d, d)
        elif is_share and not sums:
            y = x ** _random_factors(rng, x.shape, spread, False)
        else:
            y = x * _random_factors(rng, x.shape, spread, signs and x.ndim > 0 and not sums)
        if not differentiated and not mirrored and x.ndim == 1:
            first = np.unique(x, return_index=True, return_inverse=True)
            y = y[first[1]][first[2]]  # what is equal stays equal
        zero = (x == 0) & (triangle if triangle is not None else True)
        if differentiated and np.any(zero) and not is_share:
            size = float(np.median(np.abs(x[finite]))) if np.any(finite) else 0.0
            step = spread * (size or 1.0) * rng.uniform(-1, 1, x.shape)
            y = np.where(zero, (step + step.T) / 2 if mirrored and np.array_equal(x, x.T) else step, y)
        y = np.where(finite, y, x)
        if orthogonal:
            q, r = np.linalg.qr(y)
            return q * np.sign(np.diag(r))
        for axis in sums[:1]:
            y = y / np.sum(y, axis=axis, keepdims=True)
        if not sums and _has_unit_rows(x):
            y = y / np.linalg.norm(y, axis=-1, keepdims=True)
    if x.ndim == 1 and x.size > 1 and (way := _sort_direction(x)):
        y = np.sort(y)[::way]
    return y


def _random_factors(rng: np.random.Generator, shape: tuple[int, ...], spread: float, signs: bool) -> Any:
    sign = rng.choice([-1.0, 1.0], shape) if signs else 1.0
    return np.exp(spread * rng.uniform(-1, 1, shape)) * sign


def _triangle_mask(x: Any) -> Any:
    """Return a mask of the triangle outside of which a square matrix is zero; None if there is none."""
    if x.ndim != 2 or x.shape[0] != x.shape[1] or x.shape[0] < 2:
        return None
    masks = (np.tri(len(x), dtype=bool), np.tri(len(x), dtype=bool).T)
    return next((mask for mask in masks if np.any(x[~mask.T]) and not np.any(x[~mask])), None)


def _is_orthogonal(x: Any) -> bool:
    square = x.ndim == 2 and x.shape[0] == x.shape[1] > 1 and bool(np.all(np.isfinite(x)))
    return square and np.allclose(x.T @ x, np.eye(len(x)), atol=_NEAR)


def _sums_to_one(x: Any, axis: int) -> bool:
    if x.shape[axis] < 2 or not np.all(x >= 0):
        return False
    return bool(np.allclose(np.sum(x, axis=axis), 1.0, rtol=_NEAR))


def _has_unit_rows(x: Any) -> bool:
    if x.ndim == 0 or x.shape[-1] < 2:
        return False
    return bool(np.allclose(np.linalg.norm(x, axis=-1), 1.0, rtol=_NEAR))


def _has_no_repetitions(x: Any) -> bool:
    """Whether a vector repeats no entry; one of 0, 1 and -1 is too short to tell, and may be a mask or signs."""
    is_vector = x.ndim == 1 and x.size > 1 and bool(np.all(np.abs(x) < 2**53))
    return is_vector and len(np.unique(x)) == x.size and not np.all(np.isin(x, (-1, 0, 1)))


def _sort_direction(x: Any) -> int:
    """Return 1 for a vector in ascending order, -1 for one in descending order, else 0."""
    if x.size < 2 or not np.any(x[1:] != x[:-1]):
        return 0
    return 1 if np.all(x[1:] >= x[:-1]) else -1 if np.all(x[1:] <= x[:-1]) else 0


def _ordered_pairs(values: Values, names: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield pairs of real arrays of one shape of which the first is nowhere larger than the second."""
    arrays = [(n, values[n]) for n in names if isinstance(values[n], np.ndarray)]
    real = [(n, x) for n, x in arrays if x.dtype.kind == "f" and x.size > 2]
    for (a, x), (b, y) in itertools.permutations(real, 2):
        if x.shape == y.shape and np.all(x <= y) and np.any(x < y):
            yield a, b


def _grow_axes(x: Any, length: int, new: int, differentiated: bool) -> Any:
    """Return an array in which every axis of one length has another; its entries are repeated.

    A vector that repeats nothing gets other entries, if it is not differentiated: whole numbers that it lacks, from its
    smallest on, or the means of two neighbours.
    """
    if x.shape == (length,) and not differentiated and x.dtype.kind in "fiu" and _has_no_repetitions(x):
        if _is_whole(x):
            lacking = itertools.filterfalse({int(n) for n in x}.__contains__, itertools.count(int(np.min(x))))
            more = np.array(list(itertools.islice(lacking, new - length)))
        else:
            at = np.arange(new - length)
            more = (x[at] + x[(at + 1) % length]) / 2
        y = np.concatenate([x, more]).astype(x.dtype)
        return np.sort(y)[:: _sort_direction(x)] if _sort_direction(x) else y
    axes = [axis for axis, n in enumerate(x.shape) if n == length]
    triangle, symmetric = _triangle_mask(x), x.ndim == 2 and x.shape[0] == x.shape[1] and np.array_equal(x, x.T)
    one_hot = x.ndim == 2 and _is_whole(x) and _sums_to_one(x, 1)
    y = x
    for axis in axes:
        y = np.take(y, np.arange(new) % length, axis=axis)
        if one_hot and axis == 1:
            y[:, length:] = 0
    if triangle is not None and len(axes) == 2:
        y = np.tril(y) if triangle[-1, 0] else np.triu(y)
    elif symmetric and len(axes) == 2 and x.dtype.kind == "f":
        for k in range(length, new):
            y[k, k] *= 1.5  # so that what is positive definite stays so
    return y[()] if x.ndim == 0 else y
