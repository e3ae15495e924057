"""Points built to break gradients: signs, zeros, ties, saturation, magnitudes, tails, branches, indices, other sizes."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.request.stepping import Stepping
from gradcli.targets.facts import draw_with_facts, impose_facts

Values = dict[str, Any]
_POWERS = (-300, -150, -30, -16, -12, -8, -5, -3, -2, -1, 1, 2, 3, 5, 8, 12, 16, 30, 150, 300)
_SCALES = (1.0, 3.0, 0.1, 10.0, 100.0, 1e-3)
_SIZES = (1, 2, 3, 4, 5, 7, 8, 31)
_FEW = 6  # entries that are set alone
_LARGEST = 4_000  # entries of an input of another size


@dataclass(frozen=True)
class Around:
    """The given point, the inputs that are differentiated, the bounds, and the numbers near which branches may change."""

    values: Mapping[str, Any]
    wrt: tuple[str, ...]
    stepping: Stepping
    critical: Sequence[float] = ()
    seed: int = 0
    sizes: Mapping[str, Sequence[int]] | None = None  # by the name of a size; None for the usual sizes of every one
    named: Mapping[str, int] | None = None  # the sizes that have a name
    facts: Mapping[str, frozenset[str]] = field(default_factory=dict)  # what is assumed about inputs

    @property
    def inputs(self) -> dict[str, Any]:
        """The given values of the inputs that are differentiated, as arrays."""
        return {name: np.asarray(self.values[name], dtype=float) for name in self.wrt}


def hard_points(around: Around, more: Iterable[Values] = ()) -> Iterator[Values]:
    """Yield points in an order that takes one of each kind in turn; those outside the bounds are left out."""
    kinds = [iter(more), *(make(around, np.random.default_rng([around.seed, k])) for k, make in enumerate(_KINDS))]
    seen = {_bytes_of_values(around.values)}
    while kinds:
        for kind in tuple(kinds):
            changed = next(kind, None)
            if changed is None:
                kinds.remove(kind)
                continue
            values = _impose_assumptions(around, {**around.values, **changed})
            key = _bytes_of_values(values)
            moved = tuple(np.asarray(values[name], dtype=float) for name in around.wrt)
            if key not in seen and around.stepping.are_inside(around.wrt, moved):
                seen.add(key)
                yield values


def _impose_assumptions(around: Around, values: Values) -> Values:
    """Return the values with every input moved to where the assumptions about it hold; numbers are numpy's."""
    rng = np.random.default_rng(around.seed)
    made = {
        name: np.float64(x) if isinstance(x, float) else x[()] if isinstance(x, np.ndarray) and x.ndim == 0 else x
        for name, x in values.items()
    }
    for name, facts in around.facts.items():
        with np.errstate(all="ignore"):
            x = impose_facts(facts, np.asarray(values[name], dtype=float), rng)
        made[name] = x if np.all(np.isfinite(x)) else draw_with_facts(facts, np.shape(values[name]), rng)
    return made


def _bytes_of_values(values: Mapping[str, Any]) -> bytes:
    parts = [np.asarray(x) for x in values.values()]
    return b"|".join(x.tobytes() if x.dtype.kind in "fiub" else repr(x.shape).encode() for x in parts)


# The kinds of points: each yields the values that it changes.


def _draw_normal(around: Around, rng: np.random.Generator) -> Iterator[Values]:
    """Normal numbers of several sizes, for all inputs at once and for each alone, moved inside the bounds."""
    for _ in range(4):
        for scale in _SCALES:
            drawn = {n: scale * rng.standard_normal(x.shape) for n, x in around.inputs.items()}
            made = _move_inside_bounds(around, drawn)
            yield made
            for name in around.wrt if len(around.wrt) > 1 else ():
                yield {name: made[name]}


def _move_inside_bounds(around: Around, values: Values) -> Values:
    return {name: around.stepping.moved_inside(name, np.asarray(x, dtype=float)) for name, x in values.items()}


def _change_signs(around: Around, rng: np.random.Generator) -> Iterator[Values]:
    """The given numbers with other signs: all, one input, one entry, at random."""
    yield {name: -x for name, x in around.inputs.items()}
    for name, x in around.inputs.items():
        yield {name: -x}
        for k in _spread_indices(x):
            yield {name: _set_entry(x, k, -x.flat[k])}
        for _ in range(4):
            yield {name: x * rng.choice([-1.0, 1.0], x.shape)}


def _spread_indices(x: Any) -> list[int]:
    return [int(k) for k in np.unique(np.linspace(0, x.size - 1, min(_FEW, x.size)).astype(int))] if x.size else []


def _set_entry(x: Any, k: int, value: float) -> Any:
    made = np.array(x, dtype=float)
    made.flat[k] = value
    return made


def _near_branches(around: Around, rng: np.random.Generator) -> Iterator[Values]:
    """Numbers between and beside the constants of the code, in one entry, and in all."""
    for number, (value, (name, x)) in enumerate(itertools.product(around.critical, around.inputs.items())):
        if x.size:
            yield {name: _set_entry(x, number % x.size, value)}
            if x.size > 1:
                yield {name: value * (1 + 1e-3 * rng.uniform(0, 1, x.shape))}


def _scale_by_powers(around: Around, rng: np.random.Generator) -> Iterator[Values]:
    """The given numbers times powers of ten: all, one input, one entry, both signs."""
    for power in sorted(_POWERS, key=lambda p: (abs(p) > 30, abs(p) % 7, p)):
        factor = 10.0**power
        with np.errstate(all="ignore"):
            yield {name: x * factor for name, x in around.inputs.items()}
            for name, x in around.inputs.items():
                if len(around.wrt) > 1:
                    yield {name: x * factor}
                for k in _spread_indices(x)[:2] if x.size > 1 else ():
                    yield {name: _set_entry(x, k, x.flat[k] * factor)}
                yield {name: -x * factor}


def _saturating_numbers(around: Around, rng: np.random.Generator) -> Iterator[Values]:
    """Numbers where exponentials saturate or overflow, in one entry or in all, and numbers far from zero and near each other."""
    for value in (12.0, 20.0, 31.0, 37.0, 45.0, 100.0, 500.0, 720.0, 800.0):
        for (name, x), sign in itertools.product(around.inputs.items(), (1.0, -1.0)):
            if x.size > 1:
                yield {name: _set_entry(x, int(rng.integers(x.size)), sign * value)}
            yield {name: sign * value + x}
            yield {name: sign * value * np.ones_like(x) * (1 + 0.01 * rng.uniform(-1, 1, x.shape))}
    for power in (3, 5, 7, 9):
        for name, x in around.inputs.items():
            yield {name: 10.0**power + x}


def _zeros_and_ties(around: Around, rng: np.random.Generator) -> Iterator[Values]:
    """Zeros, equal entries, entries in order, nearly equal ones, one entry alone."""
    for name, x in around.inputs.items():
        yield {name: np.zeros_like(x)}
        yield {name: -0.0 * np.ones_like(x)}
        for k in _spread_indices(x) if x.size > 1 else ():
            yield {name: _set_entry(x, k, 0.0)}
            yield {name: _set_entry(x, k, x.flat[(k + 1) % x.size])}
            yield {name: _set_entry(np.zeros_like(x), k, 1.0)}
        if x.size > 1:
            yield {name: np.sort(x, axis=None).reshape(x.shape)}
            yield {name: -np.sort(-x, axis=None).reshape(x.shape)}
            yield {name: x.reshape(-1)[::-1].reshape(x.shape)}
            yield {name: np.mean(x) * (1 + 1e-9 * rng.uniform(-1, 1, x.shape))}
        yield {name: np.full_like(x, 1.0)}


def _heavy_tails(around: Around, rng: np.random.Generator) -> Iterator[Values]:
    """Heavy-tailed numbers, and numbers evenly spread over their exponents."""
    for _ in range(8):
        made = {n: rng.standard_cauchy(x.shape) for n, x in around.inputs.items()}
        yield _move_inside_bounds(around, made)
        made = {
            n: rng.choice([-1.0, 1.0], x.shape) * 10.0 ** rng.uniform(-9, 5, x.shape) for n, x in around.inputs.items()
        }
        yield _move_inside_bounds(around, made)


def _spread_over_bounds(around: Around, rng: np.random.Generator) -> Iterator[Values]:
    """Numbers spread over the bounds, evenly and by their distance from each end."""
    inputs = {n: x for n, x in around.inputs.items() if n in around.stepping.edges}
    ends = {n: [float(np.clip(edge, -1e300, 1e300)) for edge in around.stepping.edges_of(n)] for n in inputs}
    for _ in range(6) if inputs else ():
        yield {n: low + (high - low) * rng.uniform(0, 1, inputs[n].shape) for n, (low, high) in ends.items()}
    for power in (-1, -2, -3, -5, -8, -12, -16):
        for (name, x), from_low in itertools.product(inputs.items(), (True, False)):
            low, high = ends[name]
            edge = low + (high - low) * 10.0**power if from_low else high - (high - low) * 10.0**power
            yield {name: _set_entry(x, int(rng.integers(x.size)), edge) if x.size else x}
            yield {name: np.full_like(x, edge) * (1 + 1e-3 * rng.uniform(-1, 0, x.shape))}
        for name, x in inputs.items():
            low, high = around.stepping.edges_of(name)
            if low > 0 and np.isfinite(high):
                yield {name: 10.0 ** (np.log10(low) + (np.log10(high) - np.log10(low)) * rng.uniform(0, 1, x.shape))}
            yield {name: np.clip(x * 10.0**power, low, high)}


def _change_integers(around: Around, rng: np.random.Generator) -> Iterator[Values]:
    """Other indices, masks and counts: repeated, all false, all true, another order; numbers beside the given one."""
    for name, x in around.values.items():
        if name in around.wrt or isinstance(x, str | bytes):
            continue
        array = np.asarray(x)
        if array.dtype.kind not in "iub" or not array.size:
            continue
        if array.ndim == 0:
            if array.dtype.kind != "b":
                for value in (int(array) + 1, int(array) - 1, 1, 2, 0):
                    yield {name: type(x)(value)}
            continue
        most = int(np.max(array)) if array.dtype.kind != "b" else 1
        made = [np.full_like(array, array.flat[0]), np.roll(array, 1), array[..., ::-1], np.zeros_like(array)]
        if array.dtype.kind == "b" or set(np.unique(array)) <= {0, 1}:
            made += [np.ones_like(array), 1 - array if array.dtype.kind != "b" else ~array]
            made += [rng.integers(0, 2, array.shape).astype(array.dtype) for _ in range(3)]
        elif most >= 0 and np.min(array) >= 0:
            made += [rng.integers(0, most + 1, array.shape).astype(array.dtype) for _ in range(3)]
            made += [np.full_like(array, most)]
        for other in made:
            yield {name: other}


def _change_sizes(around: Around, rng: np.random.Generator) -> Iterator[Values]:
    """Other lengths of arrays; axes of one length are taken to be one size."""
    found = {n for x in around.values.values() if isinstance(x, np.ndarray) for n in x.shape if n > 0}
    lengths, named = sorted(found, reverse=True), around.named or {}
    tried = {"": _SIZES} if around.sizes is None else around.sizes
    for name, sizes in tried.items():
        for size, old in itertools.product(sizes, [named[name]] if name in named else lengths):
            made: Values = {}
            for n, x in around.values.items() if size != old else ():
                if isinstance(x, np.ndarray):
                    made[n] = _resize_axis(x, old, size, rng, n in around.wrt)
                elif isinstance(x, int) and not isinstance(x, bool) and x == old:
                    made[n] = size
            if made and all(np.size(x) <= _LARGEST for x in made.values()):
                yield made


def _resize_axis(x: Any, old: int, size: int, rng: np.random.Generator, moves: bool) -> Any:
    for axis, length in enumerate(x.shape):
        if length == old:
            taken = np.arange(size) % old
            x = np.take(x, taken, axis=axis)
            if moves and size > old:
                x = x * (1 + 0.3 * rng.uniform(-1, 1, x.shape))
    return x


_KINDS: tuple[Callable[[Around, np.random.Generator], Iterator[Values]], ...] = (
    _change_signs, _draw_normal, _near_branches, _change_integers, _change_sizes, _scale_by_powers, _spread_over_bounds,
    _zeros_and_ties, _saturating_numbers, _heavy_tails,
)  # fmt: skip
