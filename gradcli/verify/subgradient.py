"""At a kink: is a claim a subgradient, a mean of the gradients of the smooth pieces that meet there?

The pieces are found by stepping off the kink: along nearly every direction f is smooth, and the limits of its gradients
span all that a subgradient can be (Clarke 1983, theorem 2.5.1).
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gradcli.core.shapes import end_to_end, shape, size, split_like
from gradcli.errors import GradcliError
from gradcli.interpreters.tape import record
from gradcli.modes.mode import Question
from gradcli.numerics.jacobians import by_rows
from gradcli.point import Array

MOST_PIECES = 64
_STEP = 1e-7  # of the point: near enough that pieces further away are not met
_STRAIGHT = 1e-3  # of the largest slope: gradients a step apart differ less, on one piece
CLOSE = 1e-6  # of the largest slope: how near a claim must be to the hull; extrapolated gradients are nearer
_ROUNDS = 60  # of looking for pieces beyond the nearest mean, towards the claim
_MOST_WORK = 2e9  # scalar operations that gradients of pieces may take
_LONGER = 10  # times the step of gradients: that of function values, which lose digits


@dataclass(frozen=True, slots=True)
class Hull:
    """How far a claim is from the means of the pieces' gradients, relative to the largest slope, and how many they are."""

    distance: float
    pieces: int
    contradicted: bool = False

    @property
    def holds(self) -> bool:
        """Whether the claim is a subgradient."""
        return self.distance <= CLOSE and not self.contradicted


def hull(q: Question, claim: dict[str, Array]) -> Hull | None:
    """Return how a claim lies to the pieces that meet at a kink; None where they cannot be looked at.

    Cost  two reverse sweeps and three evaluations of f for each of up to 64 directions.
    """
    names = [name for name in q.wrt if name in claim]
    if q.untraced is not None or shape(q.value) != () or len(names) < len(q.wrt):
        return None
    wanted = end_to_end([claim[name] for name in q.wrt])
    rng = np.random.default_rng([q.seed, 0x5B])
    most = min(MOST_PIECES, int(_MOST_WORK / (2 * q.reverse_work)))
    found: list[Array] = []
    contradicted = False
    with np.errstate(all="ignore"):
        for d in itertools.islice(_directions(q, rng), most):
            contradicted |= _add(q, d, found)
        nearest = _nearest(found, wanted)
        for _ in range(_ROUNDS if found else 0):
            apart = wanted - nearest
            if len(found) >= most or np.max(np.abs(apart)) <= CLOSE * _size(found):
                break
            before = len(found)
            for sign in (1.0, -1.0):  # a little aside: a step along a tie would stay on it
                aside = apart + 0.05 * np.max(np.abs(apart)) * rng.uniform(-1.0, 1.0, apart.shape)
                contradicted |= _add(q, _masked(q, sign * aside), found)
                if len(found) > before:
                    break
            if len(found) == before:
                break
            nearest = _nearest(found, wanted)
    if not found:
        return None
    return Hull(float(np.max(np.abs(wanted - nearest))) / _size(found), len(found), contradicted)


def _size(found: list[Array]) -> float:
    return max(float(np.max(np.abs(np.stack(found)), initial=0.0)), 1e-300)


def _masked(q: Question, d: Array) -> Array:
    return np.where(end_to_end(q.undecided), d, 0.0)


def _directions(q: Question, rng: np.random.Generator) -> Iterator[Array]:
    """Yield directions that leave the kink every way: all signs of the entries that reach it, where they are few."""
    reached = np.flatnonzero(end_to_end(q.undecided))
    n = sum(size(x) for x in q.xs)
    few = 2 ** len(reached) <= MOST_PIECES // 2 if len(reached) < 10 else False
    patterns = itertools.product((1.0, -1.0), repeat=len(reached)) if few else _random_signs(rng, len(reached))
    for signs in patterns:
        for _ in range(2 if few else 1):
            d = np.zeros(n)
            d[reached] = np.asarray(signs) * rng.uniform(0.5, 1.5, len(reached))
            yield d


def _random_signs(rng: np.random.Generator, n: int) -> Iterator[Array]:
    yield np.ones(n)
    yield -np.ones(n)
    for _ in range(MOST_PIECES // 32):
        signs = rng.choice([-1.0, 1.0], n)
        yield signs
        yield -signs


def _add(q: Question, d: Array, found: list[Array]) -> bool:
    """Add the gradient of the piece along `d` where it is a new one; return whether function values contradict it."""
    largest = float(np.max(np.abs(d), initial=0.0))
    if not largest > 0 or not np.isfinite(largest):
        return False
    scale = max(1.0, float(np.median(np.abs(end_to_end(q.xs)))))
    step = d * (_STEP * scale / largest)
    near, far = (_gradient(q, end_to_end(q.xs) + k * step) for k in (1, 2))
    if near is None or far is None:
        return False
    size_ = max(float(np.max(np.abs(near))), float(np.max(np.abs(far))), 1e-300)
    if np.max(np.abs(near - far)) > _STRAIGHT * max(size_, q.largest_adjoint):
        return False  # another piece begins between the two
    limit = 2 * near - far
    if not any(np.max(np.abs(limit - g)) <= CLOSE * size_ for g in found):
        found.append(limit)
    return _contradicted(q, step, float(limit @ step), size_)


def _gradient(q: Question, flat: Array) -> Array | None:
    try:
        row = by_rows(*record(q.g, split_like(flat, q.xs)), np.float64(1))[0]
    except GradcliError:
        return None
    g = end_to_end(row)
    return g if np.all(np.isfinite(g)) else None


def _contradicted(q: Question, step: Array, slope: float, size_: float) -> bool:
    """Whether the untouched function moves otherwise along a step than the gradient of the piece there says."""
    one, two = (
        float(q.near(*split_like(end_to_end(q.xs) + _LONGER * k * step, q.xs))) - float(q.value) for k in (1, 2)
    )
    moved = (2 * one - two / 2) / _LONGER
    room = 1e-3 * size_ * float(np.sum(np.abs(step))) + 10 * q.noise_floor + 1e-15 * abs(float(q.value))
    return bool(np.isfinite(moved)) and abs(moved - slope) > room


def _nearest(found: list[Array], wanted: Array) -> Array:
    """Return the mean of the gradients that is nearest to the claim."""
    if not found:
        return np.zeros_like(wanted)
    from scipy.optimize import nnls

    pieces = np.stack(found, axis=1)
    weight = 100 * max(_size(found), float(np.max(np.abs(wanted))))
    weights, _ = nnls(np.vstack([pieces, np.full(len(found), weight)]), np.append(wanted, weight))
    return np.asarray(pieces @ (weights / max(float(np.sum(weights)), 1e-300)))
