"""Decide whether a claim at a kink is a subgradient: a convex combination of the gradients of the pieces that meet there.

The pieces are found by stepping off the kink: f is smooth along almost every direction. The convex hull of the limits of
its gradients is the set of all subgradients (Clarke 1983, Optimization and Nonsmooth Analysis, theorem 2.5.1).
"""

import itertools
from collections.abc import Iterator

import numpy as np

from gradcli.core.shapes import end_to_end, shape, split_like
from gradcli.errors import GradcliError
from gradcli.interpreters.program import record
from gradcli.interpreters.tape import Line, Tape
from gradcli.modes.mode import Question
from gradcli.numerics.jacobians import by_rows
from gradcli.point import Array, Estimate
from gradcli.verdict.evidence import HullDistance

MOST_PIECES = 64
_STEP = 1e-7  # relative to the point: so small that pieces further away are not reached
_STRAIGHT = 1e-3  # relative to the largest slope: on one piece, gradients one step apart differ by less
CLOSE = 1e-8  # relative to an entry's largest slope: the allowed distance from the hull, above extrapolation errors
_ROUNDS = 60  # of the search for pieces from the nearest convex combination towards the claim
_MOST_WORK = 2e9  # scalar operations that gradients of pieces may take
_ALONE = (1e-4, 1e-6)  # relative to the step of one entry: the steps of the others, when it moves nearly alone
_LONGER = 10  # times the step of gradients: the step of function values, whose differences lose digits


def hull(q: Question, claim: Estimate) -> HullDistance | None:
    """Return the distance of a claim from the convex hull of the pieces' gradients at a kink; None if it is unknown.

    It is unknown if f has no trace or is no scalar, if the claim leaves out inputs, or if no piece is found. Only the
    entries that reach the kink are compared, each relative to its own largest slope, so that no entry hides behind a
    larger one.

    Cost  two reverse sweeps and three evaluations of f for each direction; at most 64 pieces are collected.
    """
    names = [name for name in q.wrt if name in claim.value]
    if q.untraced is not None or shape(q.value) != () or len(names) < len(q.wrt):
        return None
    reached = np.flatnonzero(end_to_end(q.undecided))
    wanted = end_to_end([claim.value[name] for name in q.wrt])[reached]
    room = end_to_end([claim.bound[name] for name in q.wrt])[reached]
    pieces = Pieces(q, reached)
    with np.errstate(all="ignore"):
        pieces.look_around()
        if not pieces.found:
            return None
        nearest = pieces.look_towards(wanted)
        slopes = pieces.slopes()
        allowed = CLOSE * slopes + room
        apart = np.abs(wanted - nearest)
        unit = np.where(slopes > 0, slopes, np.maximum(np.abs(wanted), np.finfo(float).tiny))  # without a slope
        limits = np.where(slopes > 0, allowed / unit, CLOSE)
        worst = int(np.argmax(np.where(apart <= allowed, 0.0, apart / unit)))
    distance = 0.0 if np.all(apart <= allowed) else float(apart[worst] / unit[worst])
    return HullDistance(distance, len(pieces.found), float(np.max(limits, initial=CLOSE)), pieces.contradicted)


class Pieces:
    """The gradients of the smooth pieces that meet at a kink, for the entries that reach the kink."""

    def __init__(self, q: Question, reached: Array) -> None:
        self.q, self.reached = q, reached
        self.rng = np.random.default_rng([q.seed, 0x5B])
        self.most = max(2, min(MOST_PIECES, int(_MOST_WORK / (2 * q.reverse_work))))
        self.found: list[Array] = []
        self.contradicted = False
        x = end_to_end(q.xs)
        scale = max(1.0, float(np.median(np.abs(x))))
        self.unit = _STEP * np.maximum(scale, np.abs(x[reached]))

    def slopes(self) -> Array:
        """Return the largest slope of each entry on any piece."""
        return np.asarray(np.max(np.abs(np.stack(self.found)), axis=0))

    def look_around(self) -> None:
        """Collect the pieces along directions that leave the kink on all sides."""
        for d in itertools.islice(_directions(len(self.reached), self.rng), 2 * self.most):
            self._add(d)

    def look_towards(self, wanted: Array) -> Array:
        """Search for pieces in the direction of the claim, and return the convex combination nearest to the claim."""
        nearest = _nearest(self.found, wanted, self.slopes())
        for _ in range(_ROUNDS):
            slopes = self.slopes()
            slopes = np.where(slopes > 0, slopes, np.maximum(np.abs(wanted), np.finfo(float).tiny))
            apart = (wanted - nearest) / slopes
            if len(self.found) >= self.most or np.max(np.abs(apart)) <= CLOSE:
                break
            before = len(self.found)
            for d in (apart, -apart, apart / slopes):
                aside = 0.05 * np.max(np.abs(d)) * self.rng.uniform(-1.0, 1.0, d.shape)
                self._add(d + aside)  # slightly off this direction: a step along a tie would stay on the tie
                if len(self.found) > before:
                    break
            if len(self.found) == before:
                break
            nearest = _nearest(self.found, wanted, self.slopes())
        return nearest

    def _add(self, d: Array) -> None:
        """Add the gradient of the piece along `d` if it is new, and compare it with function values."""
        largest = float(np.max(np.abs(d), initial=0.0))
        if not largest > 0 or not np.isfinite(largest):
            return
        step = np.zeros(self.q.entries)
        step[self.reached] = self.unit * d / largest
        near, far = (self._gradient(k * step) for k in (1, 2))
        if near is None or far is None or not _same_branches(near[1], far[1]):
            return
        sizes = np.maximum(np.abs(near[0]), np.abs(far[0]))
        straight = _STRAIGHT * max(float(np.max(sizes, initial=0.0)), self.q.largest_adjoint)
        if np.max(np.abs(near[0] - far[0]), initial=0.0) > straight:
            return  # another piece begins between the two
        limit = 2 * near[0] - far[0]
        if not any(np.all(np.abs(limit - g) <= CLOSE * np.maximum(np.abs(limit), np.abs(g))) for g in self.found):
            self.found.append(limit)
        self.contradicted |= self._contradicts(step, limit, sizes)

    def _gradient(self, step: Array) -> tuple[Array, Tape] | None:
        """Return the gradient after a step, for the entries that reach the kink, and the tape; None if it is not finite."""
        try:
            recorded = record(self.q.g, split_like(end_to_end(self.q.xs) + step, self.q.xs))
            g = end_to_end(by_rows(recorded, np.float64(1))[0])
        except GradcliError:
            return None
        return (g[self.reached], recorded[2]) if np.all(np.isfinite(g)) else None

    def _contradicts(self, step: Array, slopes: Array, sizes: Array) -> bool:
        """Whether the untouched function changes along a step differently from what the gradient of the piece predicts."""
        q, x = self.q, end_to_end(self.q.xs)
        one, two = (float(q.near(*split_like(x + _LONGER * k * step, q.xs))) - float(q.value) for k in (1, 2))
        moved = (2 * one - two / 2) / _LONGER
        along = step[self.reached]
        room = 1e-3 * float(np.sum(sizes * np.abs(along))) + 10 * q.noise_floor + 1e-15 * abs(float(q.value))
        return bool(np.isfinite(moved)) and abs(moved - float(slopes @ along)) > room


def _same_branches(near: Tape, far: Tape) -> bool:
    """Whether two runs took the same branches, in comparisons and in operations such as maximum and relu."""
    if len(near.lines) != len(far.lines) or len(near.decisions) != len(far.decisions):
        return False
    for (asked, _, _, one, _, _), (again, _, _, other, _, _) in zip(near.decisions, far.decisions, strict=True):
        if asked is not again or not np.array_equal(one, other, equal_nan=True):
            return False
    return all(
        near.primitive(k) is far.primitive(k) and all(map(np.array_equal, _branch_of(one), _branch_of(other)))
        for k, (one, other) in enumerate(zip(near.lines, far.lines, strict=True))
    )


def _branch_of(line: Line) -> list[Array]:
    """Return the weights of the operands in the branch that a line took; empty if the operation has no branches."""
    primitive, _, xs, y, params, _ = line
    return [] if primitive is None or primitive.branch is None else primitive.branch(y, *xs, **(params or {}))


def _directions(count: int, rng: np.random.Generator) -> Iterator[Array]:
    """Yield directions that leave the kink on all sides: all combinations of signs if few entries reach it, else random ones.

    If they are few, each entry then also moves nearly alone: next to entries with larger slopes, its pieces are narrow.
    """
    few = 2**count <= MOST_PIECES // 2 if count < 10 else False
    patterns = itertools.product((1.0, -1.0), repeat=count) if few else _random_signs(rng, count)
    for signs in patterns:
        yield np.asarray(signs) * rng.uniform(0.5, 1.5, count)
    for k in range(count if few else 0):
        for aside in _ALONE:
            for sign in (1.0, -1.0):
                d = aside * rng.uniform(-1.0, 1.0, count)
                d[k] = sign
                yield d


def _random_signs(rng: np.random.Generator, n: int) -> Iterator[Array]:
    yield np.ones(n)
    yield -np.ones(n)
    for _ in range(MOST_PIECES // 32):
        signs = rng.choice([-1.0, 1.0], n)
        yield signs
        yield -signs


def _nearest(found: list[Array], wanted: Array, slopes: Array) -> Array:
    """Return the convex combination of the gradients nearest to the claim, in units of each entry's largest slope."""
    from scipy.optimize import nnls

    unit = np.where(slopes > 0, slopes, 1.0)
    pieces = np.stack(found, axis=1)
    scaled, target = pieces / unit[:, None], wanted / unit
    weight = 100 * max(1.0, float(np.max(np.abs(target), initial=0.0)))
    weights, _ = nnls(np.vstack([scaled, np.full(len(found), weight)]), np.append(target, weight))
    return np.asarray(pieces @ (weights / max(float(np.sum(weights)), 1e-300)))
