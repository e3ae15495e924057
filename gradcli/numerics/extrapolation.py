"""From values of a function at many steps to its derivative: extrapolated differences, and how far off they may be."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from gradcli.numerics.line import RATIO, Line
from gradcli.numerics.noise import EPS

CENTRAL, ONE_SIDED = 2, 1  # the error of a difference is a series in this power of h
LEVELS = {CENTRAL: 3, ONE_SIDED: 4}  # of Richardson's extrapolation
SAFETY = 3.0  # the spread of extrapolants and the noise are estimates; right derivatives must lie inside
USEFUL = 1e-3  # a relative bound for which no smaller scale is looked for
FEWEST = 5  # steps that a sweep needs
HIDDEN = 0.02  # noise above this part of all the function moved decides nothing
_WEIGHT = {CENTRAL: 3.0, ONE_SIDED: 8.0}  # of noise / h: three standard deviations of an extrapolant
FAR = 12.0  # of noise / h: five standard deviations of a one-sided extrapolant, of which many are looked at
_APART = 4.0  # of what noise explains: one-sided slopes further apart do not meet
_OPPOSITE = 0.1  # of one-sided slopes: where their mean is less, it is zero by symmetry
_BENDS = np.linalg.solve(
    np.array([np.ones(3), RATIO ** np.arange(2, -1, -1), RATIO ** (3.0 * np.arange(2, -1, -1))]), [1, 0, 0]
)


@dataclass(frozen=True, slots=True)
class Difference:
    """A derivative by differences: value, error bound (estimated), the step used, and calls of phi.

    `rounding` is the part of the bound that is noise / h: where it is most of it, smaller steps mend nothing.
    `left` and `right` are the one-sided slopes where they do not meet as the steps shrink, else nan. `other` is the slope
    over another scale of steps, with its bound and step, where there are two; `jumps` says that phi jumps between the two
    scales, as what rounds inside does: then `other` is the slope between two jumps.
    """

    value: Any
    bound: Any
    h: Any
    calls: int = 0
    rounding: Any = 0.0
    left: Any = np.nan
    right: Any = np.nan
    other: Any = np.nan
    other_bound: Any = np.inf
    other_h: Any = np.nan
    jumps: Any = False

    @property
    def kinked(self) -> Any:
        """Whether the one-sided slopes do not meet."""
        return np.isfinite(self.left)


def chosen(first: Any, a: Difference, b: Difference) -> Difference:
    """Return `a` where `first` holds, entry by entry, else `b`."""
    both = {f.name: np.where(first, getattr(a, f.name), getattr(b, f.name)) for f in fields(a) if f.name != "calls"}
    return Difference(calls=a.calls, **both)


def better(a: Difference, b: Difference) -> Difference:
    """Return, entry by entry, the one with the smaller bound; where they contradict each other, `a`, of smaller steps."""
    apart = np.abs(a.value - b.value) > a.bound + b.bound
    return chosen((a.bound <= b.bound) | (apart & np.isfinite(a.bound)), a, b)


def nothing(line: Line) -> Difference:
    """Return a difference that says nothing."""
    wide = np.full(line.at.shape, np.inf)
    return Difference(np.full(line.at.shape, np.nan), wide, wide, 0, np.zeros(line.at.shape))


def fixed(line: Line, h: float, floor: Any) -> Difference:
    """Return the difference at a step, central where it can be.

    Error   truncation from a second, wider step; how the function bends, as in the screen; noise / h.
    """
    steps = np.array([RATIO, 1.0]) * h
    up, down = line.both(steps)
    column = steps.reshape((-1,) + (1,) * line.at.ndim)
    sides = [(up - down) / (2 * column), (up - line.at) / column, (line.at - down) / column]
    slopes, power = next(
        ((d, p) for d, p in zip(sides, (2, 1, 1), strict=True) if np.all(np.isfinite(d))), (sides[0], 2)
    )
    bends = (up - 2 * line.at + down) / column
    kink = np.nan_to_num((RATIO * bends[1] - bends[0]) / (RATIO - 1)) * (power == CENTRAL)
    sigma = np.maximum(floor, EPS * np.max(np.abs(np.nan_to_num([up, down])), axis=(0, 1)))
    rounding = _WEIGHT[power] * sigma / h
    bound = SAFETY * (np.abs(slopes[0] - slopes[1]) / (RATIO**power - 1) + np.abs(kink) / 2 + rounding)
    found = Difference(slopes[1], _finite(bound), np.full(line.at.shape, h), 0, rounding)
    apart = np.abs(kink) > np.maximum(_APART * rounding, USEFUL * np.max(np.abs(sides[1:]), axis=(0, 1)))
    return replace(found, left=np.where(apart, sides[2][1], np.nan), right=np.where(apart, sides[1][1], np.nan))


def screened(line: Line, h: Any, floor: Any) -> Difference:
    """Return the second extrapolant of three steps."""
    if not h[-1]:
        return nothing(line)
    up, down = line.both(h)
    sigma = np.maximum(floor, EPS * np.max(np.abs([up, down]), axis=(0, 1)))
    return of_three(up, down, line.at, h, sigma)


def of_three(up: Any, down: Any, at: Any, h: Any, sigma: Any) -> Difference:
    """Return the second extrapolant of the values at three steps to both sides; `at` may be unknown.

    Error   how far it is from both first ones; how the function bends, where that does not go to zero with h (a kink
            nearer than the smallest step: the one-sided slopes differ by it); noise / h.
    """
    column = h.reshape((-1,) + (1,) * (np.ndim(up) - 1))
    kink = 0.0 if at is None else kink_of(up, down, at, column)
    coarse, fine = extrapolated((up - down) / (2 * column), column, CENTRAL)
    value = fine + (fine - coarse) / ((h[0] / h[2]) ** 2 - 1)
    rounding = _WEIGHT[CENTRAL] * sigma / h[-1]
    spread = np.abs(value - fine) + np.abs(fine - coarse) / 10
    apart = np.abs(kink) > np.maximum(_APART * (spread + rounding), USEFUL * np.abs(value))
    left, right = (np.where(apart, value + sign * kink / 2, np.nan) for sign in (-1, 1))
    bound = _finite(SAFETY * (spread + np.abs(kink) / 2 + rounding))
    return Difference(value, bound, np.full(np.shape(value), h[-1]), 0, rounding, left, right)


def kink_of(up: Any, down: Any, at: Any, column: Any) -> Any:
    """Return by how much the one-sided slopes differ, from the values at the three widest steps."""
    return np.tensordot(_BENDS, ((up - 2 * at + down) / column)[:3], 1)


def extrapolated(table: Any, h: Any, power: int) -> Any:
    """Return the next column of Neville's table, in h^power: the widest of the steps that an entry rests on is gone."""
    level = len(h) - len(table) + 1
    return table[1:] + (table[1:] - table[:-1]) / ((h[:-level] / h[level:]) ** power - 1)


def swept(line: Line, h: Any, sigma: Any, often: float = _WEIGHT[CENTRAL]) -> Difference:
    """Return the estimate with the smallest bound of all steps and levels, one-sided ones where a side is missing.

    Finer steps contradict it where they are further from it than `often` their noise.
    """
    if len(h) < FEWEST or not np.all(h):
        return nothing(line)
    up, down = line.both(h)
    column = h.reshape((-1,) + (1,) * line.at.ndim)
    sigma = np.maximum(sigma, _stair(up, down, line.at, column))
    ahead, behind = (up - line.at) / column, (line.at - down) / column
    sides = [_side(slopes, column, sigma) for slopes in (ahead, behind)]
    found = list(_levels((up - down) / (2 * column), h, sigma, CENTRAL, sides, often))
    if not np.all(np.isfinite(up - down)):
        found += [row for slopes in (ahead, behind) for row in _levels(slopes, h, sigma, ONE_SIDED, [], often)]
    value, bound, used, rounding = (np.concatenate(column) for column in zip(*found, strict=True))
    k = np.argmin(bound, axis=0)[None]
    value, bound, rounding = (np.take_along_axis(rows, k, axis=0)[0] for rows in (value, bound, rounding))
    left, right = _apart(ahead, behind, column, sigma)
    bound = np.where(np.isfinite(left), np.maximum(bound, SAFETY * np.abs(right - left) / 2), bound)
    return Difference(np.where(np.isfinite(value), value, np.nan), bound, used[k[0]], 0, rounding, left, right)


def _finite(bound: Any) -> Any:
    return np.where(np.isfinite(bound), bound, np.inf)


def _stair(up: Any, down: Any, at: Any, column: Any) -> Any:
    """Return how high the steps of a staircase are: the least movement, where there is none at smaller steps.

    A flat piece beside a kink looks alike, but there the function bends as much as it moves, however wide the step.
    """
    moved = np.abs(up - down)
    stepping = np.logical_or.accumulate((moved == 0)[::-1])[::-1] & (moved > 0)
    least = np.min(np.where(stepping, moved, np.inf), axis=0)
    kink = np.abs(kink_of(up, down, at, column))
    return np.where(np.isfinite(least) & ~(kink > HIDDEN * moved[0] / column[0]), least, 0.0)


def _side(slopes: Any, column: Any, sigma: Any) -> tuple[Any, Any]:
    """Return one-sided extrapolants of each step but the two widest, and how far off they may be by noise and truncation."""
    first = extrapolated(slopes, column, ONE_SIDED)
    return first[1:], np.abs(first[1:] - first[:-1]) + FAR * sigma / column[2:]


def _apart(ahead: Any, behind: Any, column: Any, sigma: Any) -> tuple[Any, Any]:
    """Return the slopes to the left and to the right where nothing shows that they meet as the steps shrink, else nan.

    They meet at a step if their extrapolants are no further apart there, nor at any smaller step, than what noise and
    truncation explain. What is small beside the slopes is part of the bound alone, unless the two cancel by symmetry, so
    that their mean shows nothing. Where noise hides it, they may meet.
    """
    right, left = (extrapolated(slopes, column, ONE_SIDED) for slopes in (ahead, behind))
    noise = 2 * FAR * sigma / column[2:]
    room = sum(np.abs(first[1:] - first[:-1]) for first in (left, right)) + noise
    gap = np.abs(right - left)[1:]
    sizes = np.maximum.accumulate(np.nan_to_num(np.maximum(np.abs(ahead), np.abs(behind))), axis=0)[2:]
    beyond = np.nan_to_num(gap - room - _APART * noise, nan=0.0)
    gap = np.maximum(gap, np.maximum.accumulate(beyond[::-1], axis=0)[::-1])
    k = np.argmin(np.nan_to_num(gap + room, nan=np.inf), axis=0)[None]
    gap, room, noise, size, left, right = (
        np.take_along_axis(np.broadcast_to(rows, gap.shape), k, axis=0)[0]
        for rows in (gap, room, noise, sizes, *(extrapolated(first, column, ONE_SIDED) for first in (left, right)))
    )
    opposite = np.abs(right + left) / 2 <= _OPPOSITE * np.minimum(np.abs(right), np.abs(left))
    apart = (gap > room) & (gap + room > _APART * noise) & ((gap + room > USEFUL * size) | opposite)
    return np.where(apart, left, np.nan), np.where(apart, right, np.nan)


def _levels(d: Any, h: Any, sigma: Any, power: int, sides: Sequence[Any], often: float) -> Iterator[tuple[Any, ...]]:
    """Yield, for each level of extrapolation, estimates with their bounds, the smallest step and the rounding of each."""
    column = (-1,) + (1,) * (d.ndim - 1)
    finest = extrapolated(d, h.reshape(column), power)
    fine_rounding = max(often, _WEIGHT[power]) * sigma / h[1:].reshape(column)
    table = d
    for level in range(1, LEVELS[power] + 1):
        table = extrapolated(table, h.reshape(column), power)
        triples = np.stack([table[:-2], table[1:-1], table[2:]])
        spread = np.max(triples, axis=0) - np.min(triples, axis=0)
        used = h[level + 1 : -1]
        rounding = _WEIGHT[power] * sigma / used.reshape(column)
        apart = _contradiction(table[1:-1], finest[level + 1 :], fine_rounding[level + 1 :])
        for slopes, room in sides:
            apart = np.maximum(apart, _contradiction(table[1:-1], slopes[level:], room[level:]))
        bound = SAFETY * np.maximum(spread + rounding, apart)
        yield table[1:-1], np.where(np.isfinite(bound), bound, np.inf), used, rounding


def _contradiction(values: Any, finer: Any, room: Any) -> Any:
    """Return how far each estimate is from those of no larger steps, beyond what those may be off."""
    apart = np.zeros_like(values)
    for k in range(len(values)):
        excess = np.abs(values[k] - finer[k:]) - room[k:]
        apart[k] = np.max(np.where(np.isfinite(excess), excess, 0.0), axis=0, initial=0.0)
    return np.maximum(apart, 0.0)


QUICK = 10.0 ** -np.array([2.0, 2.5, 3.0])


def quick_derivative(phi: Callable[[float], Any], floor: float, at: float | None = None) -> Difference:
    """Estimate phi'(0) of a tame phi on the scale of one, with an error bound that is large where it is not tame.

    Error   what two steps of Richardson's extrapolation differ by, a tenth of it for the last one, as phi'' may jump;
            how phi bends at 0, where its value `at` there is given; plus `floor`, the known noise, over the step.
    Cost    6 calls.
    """
    up, down = (np.array([phi(sign * h) for h in QUICK]) for sign in (1, -1))
    return replace(of_three(up, down, at, QUICK, floor), calls=2 * len(QUICK))
