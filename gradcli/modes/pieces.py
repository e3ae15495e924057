"""The smooth pieces that meet at a tie of a comparison or an operation: their gradients, found by stepping off the tie.

f is smooth along almost every direction. Where all pieces have one gradient, the tie is no kink.
"""

import itertools
from collections.abc import Iterator

import numpy as np

from gradcli.arithmetic.recorded_program import record
from gradcli.arithmetic.tape import Line, Tape
from gradcli.errors import GradcliError
from gradcli.modes.recording import Recording
from gradcli.request.point import Array
from gradcli.tracing.shapes import concatenate_entries, shape, split_like

MOST_PIECES = 64
_STEP = 1e-7  # relative to the point: so small that pieces further away are not reached
_STRAIGHT = 1e-3  # relative to the largest slope: on one piece, gradients one step apart differ by less
CLOSE = 1e-8  # relative to an entry's largest slope: the allowed distance from the hull, above extrapolation errors
_EQUAL = 1e-10  # relative to an entry's slope: what two pieces that have one gradient differ by, above rounding
_WIDE = 1e-6  # of the largest slope: rounding errors that are larger say nothing of the pieces
_BEND = 1e-4  # of the change of a gradient over a step: the error of its limit, which is extrapolated
_SQUARED = 3.5  # how much larger what grows with the square of a step is after two steps
_ROUNDS = 60  # of the search for pieces from the nearest convex combination towards the claim
_MOST_WORK = 2e9  # scalar operations that gradients of pieces may take
_ALONE = (1e-4, 1e-6)  # relative to the step of one entry: the steps of the others, when it moves nearly alone
_LONGER = 10  # times the step of gradients: the step of function values, whose differences lose digits
_MORE = 16  # random directions, beside those that leave the tie on all sides, before a tie is taken for no kink


class Pieces:
    """The gradients of the smooth pieces that meet at a tie, for the entries that reach it.

    Of a function with array values, they are those of a sum of its entries with random weights.
    """

    def __init__(self, q: Recording, reached: Array) -> None:
        self.q, self.reached = q, reached
        self.rng = np.random.default_rng([q.seed, 0x5B])
        y = shape(q.value)
        self.weights = np.float64(1.0) if y == () else self.rng.uniform(0.5, 1.5, y) * self.rng.choice([-1.0, 1.0], y)
        self.most = max(2, min(MOST_PIECES, int(_MOST_WORK / (2 * q.reverse_work))))
        self.found: list[Array] = []
        self.contradicted = False
        x = concatenate_entries(q.xs)
        scale = max(1.0, float(np.median(np.abs(x))))
        self.unit = _STEP * np.maximum(scale, np.abs(x[reached]))

    def slopes(self) -> Array:
        """Return the largest slope of each entry on any piece."""
        return np.asarray(np.max(np.abs(np.stack(self.found)), axis=0))

    def look_around(self) -> None:
        """Collect the pieces along directions that leave the kink on all sides."""
        for d in itertools.islice(_directions_off_tie(len(self.reached), self.rng), 2 * self.most):
            self._add_piece(d)

    def rules_hold(self, room: Array) -> bool | None:
        """Whether the recorded program gives the one gradient that all pieces have; None if they differ, or are not known.

        Shapes  `room` is the rounding error of a gradient, for each entry that reaches the tie.
        """
        count = len(self.reached)
        more = (self.rng.choice([-1.0, 1.0], count) * self.rng.uniform(0.5, 1.5, count) for _ in range(_MORE))
        first = None
        for d in itertools.islice(itertools.chain(_directions_off_tie(count, self.rng), more), 2 * self.most):
            piece = self._gradients_of_piece(d)
            if piece is None or self.contradicted:
                return None
            first = first or piece
            if np.any(room > _WIDE * np.max(np.abs(first), initial=0.0)):
                return None  # rounding alone would hide that two pieces differ
            if not _have_one_limit(first, piece, room):
                return None
        recorded = concatenate_entries(self.q.recording.pull(self.weights))[self.reached]
        return first is not None and _have_one_limit(first, (recorded, recorded), room)

    def look_towards(self, wanted: Array) -> Array:
        """Search for pieces in the direction of the claim, and return the convex combination nearest to the claim.

        First for the piece that a claim takes which passes a gradient on to one of several tied entries.
        """
        chosen = np.where(wanted != 0, 1.0, 0.0)
        for d in (chosen, -chosen):
            self._add_piece(d + 0.05 * self.rng.uniform(-1.0, 1.0, d.shape))
        nearest = _nearest_combination(self.found, wanted, self.slopes())
        for _ in range(_ROUNDS):
            slopes = self.slopes()
            slopes = np.where(slopes > 0, slopes, np.maximum(np.abs(wanted), np.finfo(float).tiny))
            apart = (wanted - nearest) / slopes
            if len(self.found) >= self.most or np.max(np.abs(apart)) <= CLOSE:
                break
            before = len(self.found)
            for d in (apart, -apart, apart / slopes):
                aside = 0.05 * np.max(np.abs(d)) * self.rng.uniform(-1.0, 1.0, d.shape)
                self._add_piece(d + aside)  # slightly off this direction: a step along a tie would stay on the tie
                if len(self.found) > before:
                    break
            if len(self.found) == before:
                break
            nearest = _nearest_combination(self.found, wanted, self.slopes())
        return nearest

    def _add_piece(self, d: Array) -> None:
        """Add the gradient of the piece along `d` if it is new."""
        piece = self._gradients_of_piece(d)
        if piece is None:
            return
        limit = _limit_at_tie(*piece)
        if not any(np.all(np.abs(limit - g) <= CLOSE * np.maximum(np.abs(limit), np.abs(g))) for g in self.found):
            self.found.append(limit)

    def _gradients_of_piece(self, d: Array) -> tuple[Array, Array] | None:
        """Return the gradients of the piece along `d` after one step and after two, compared with function values.

        None if they are not known, or another piece begins between the two.
        """
        largest = float(np.max(np.abs(d), initial=0.0))
        if not largest > 0 or not np.isfinite(largest):
            return None
        step = np.zeros(self.q.entries)
        step[self.reached] = self.unit * d / largest
        near, far = (self._gradient_after_step(k * step) for k in (1, 2))
        if near is None or far is None or not _have_same_branches(near[1], far[1]):
            return None
        sizes = np.maximum(np.abs(near[0]), np.abs(far[0]))
        straight = _STRAIGHT * max(float(np.max(sizes, initial=0.0)), self.q.largest_adjoint)
        if np.max(np.abs(near[0] - far[0]), initial=0.0) > straight:
            return None  # another piece begins between the two
        self.contradicted |= self._is_contradicted_by_values(step, _limit_at_tie(near[0], far[0]), sizes)
        return near[0], far[0]

    def _gradient_after_step(self, step: Array) -> tuple[Array, Tape] | None:
        """Return the gradient after a step, for the entries that reach the kink, and the tape; None if it is not finite."""
        try:
            recorded = record(self.q.g, split_like(concatenate_entries(self.q.xs) + step, self.q.xs))
            g = concatenate_entries(recorded.pull(self.weights))
        except GradcliError:
            return None
        return (g[self.reached], recorded[2]) if np.all(np.isfinite(g)) else None

    def _is_contradicted_by_values(self, step: Array, slopes: Array, sizes: Array) -> bool:
        """Whether the untouched function changes along a step differently from what the gradient of the piece predicts."""
        q, x = self.q, concatenate_entries(self.q.xs)
        values = (q.near(*split_like(x + _LONGER * k * step, q.xs)) for k in (1, 2))
        one, two = (float(np.sum(self.weights * (y - q.value))) for y in values)
        moved = (2 * one - two / 2) / _LONGER
        along = step[self.reached]
        room = float(np.sum((1e-3 * sizes + 1e-10 * q.largest_adjoint) * np.abs(along)))
        room = room + 10 * q.noise_floor + 1e-15 * float(np.sum(np.abs(q.value)))
        return bool(np.isfinite(moved)) and abs(moved - float(slopes @ along)) > room


def _limit_at_tie(near: Array, far: Array) -> Array:
    """Return what the gradients after one step and after two tend to at the tie."""
    return np.asarray(2 * near - far)


def _have_one_limit(a: tuple[Array, Array], b: tuple[Array, Array], room: Array) -> bool:
    """Whether two pieces, given by their gradients after one step and after two, have one gradient at the tie.

    Their limits are equal, or what lies between the two grows at least with the square of the step.
    """
    apart = np.abs(_limit_at_tie(*a) - _limit_at_tie(*b))
    bend = np.abs(a[0] - a[1]) + np.abs(b[0] - b[1])
    equal = apart <= _EQUAL * np.abs(_limit_at_tie(*a)) + _BEND * bend + room
    return bool(np.all(equal | (np.abs(a[1] - b[1]) >= _SQUARED * np.abs(a[0] - b[0]))))


def _have_same_branches(near: Tape, far: Tape) -> bool:
    """Whether two runs took the same branches, in comparisons and in operations such as maximum and relu."""
    if len(near.lines) != len(far.lines) or len(near.decisions) != len(far.decisions):
        return False
    for (asked, _, _, one, _, _), (again, _, _, other, _, _) in zip(near.decisions, far.decisions, strict=True):
        if asked is not again or not np.array_equal(one, other, equal_nan=True):
            return False
    return all(
        near.primitive(k) is far.primitive(k)
        and all(map(np.array_equal, _weights_of_branch(one), _weights_of_branch(other)))
        for k, (one, other) in enumerate(zip(near.lines, far.lines, strict=True))
    )


def _weights_of_branch(line: Line) -> list[Array]:
    """Return the weights of the operands in the branch that a line took; empty if the operation has no branches."""
    primitive, _, xs, y, params, _ = line
    return [] if primitive is None or primitive.branch is None else primitive.branch(y, *xs, **(params or {}))


def _directions_off_tie(count: int, rng: np.random.Generator) -> Iterator[Array]:
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


def _nearest_combination(found: list[Array], wanted: Array, slopes: Array) -> Array:
    """Return the convex combination of the gradients nearest to the claim, in units of each entry's largest slope."""
    from scipy.optimize import nnls

    unit = np.where(slopes > 0, slopes, 1.0)
    pieces = np.stack(found, axis=1)
    scaled, target = pieces / unit[:, None], wanted / unit
    weight = 100 * max(1.0, float(np.max(np.abs(target), initial=0.0)))
    weights, _ = nnls(np.vstack([scaled, np.full(len(found), weight)]), np.append(target, weight))
    return np.asarray(pieces @ (weights / max(float(np.sum(weights)), 1e-300)))


def rules_hold_at(q: Recording, reach: tuple[Array, ...], room: Array) -> bool | None:
    """Whether f is smooth at a tie, and the recorded program gives its gradient there; None if f has a kink, or may have.

    `reach` are masks of the entries that reach the tie, one for each input, and `room` is the rounding error of the
    gradient, entry by entry.

    Cost  two reverse sweeps and three evaluations of f for each direction; where there is a kink, about two directions.
    """
    reached = np.flatnonzero(concatenate_entries(reach))
    if not reached.size:  # the slopes of what is tied are 0
        reached = np.arange(q.entries)
    with np.errstate(all="ignore"):
        return Pieces(q, reached).rules_hold(room[reached])
