"""Derivatives from the values of a function at many steps: extrapolated differences and their error bounds."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from gradcli.modes.line import RATIO, Line
from gradcli.modes.noise import EPS

CENTRAL, ONE_SIDED = 2, 1  # the error of a difference is a series in this power of h
LEVELS = {CENTRAL: 3, ONE_SIDED: 4}  # of Richardson's extrapolation
SAFETY = 3.0  # times a bound: spread and noise are estimates, and correct derivatives must lie inside
USEFUL = 1e-3  # a relative bound: if it is reached, no smaller scale is tried
FEWEST = 5  # the least number of steps in a sweep
HIDDEN = 0.02  # of the function's total change: with more noise, differences decide nothing
_WEIGHT = {CENTRAL: 3.0, ONE_SIDED: 8.0}  # of noise / h: three standard deviations of an extrapolant
FAR = 12.0  # of noise / h: five standard deviations of a one-sided extrapolant, because many are compared
_APART = 4.0  # times what noise explains: one-sided slopes that are further apart differ
_OPPOSITE = 0.1  # of the one-sided slopes: a smaller mean is zero by symmetry
# Weights of (f(h) - 2 f(0) + f(-h)) / h at three steps: they keep a kink and cancel the terms in h and in h^3.
_BENDS = np.linalg.solve(
    np.array([np.ones(3), RATIO ** np.arange(2, -1, -1), RATIO ** (3.0 * np.arange(2, -1, -1))]), [1, 0, 0]
)


@dataclass(frozen=True, slots=True)
class Difference:
    """A derivative by differences: its value, its estimated error bound, the step, and the number of calls of phi.

    `rounding` is the part of the bound that comes from noise / h: where it dominates, smaller steps do not help. `left` and
    `right` are the one-sided slopes where they differ (at a kink), else nan. `other` is the slope over a second scale of
    steps, if there is one, with its bound and step. `jumps` means that phi jumps between the two scales, as a function
    that rounds inside does; then `other` is the slope between two jumps.

    Shapes  all but `calls` are arrays in the shape of phi's values.
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
        """Whether the one-sided slopes differ."""
        return np.isfinite(self.left)


def chosen(first: Any, a: Difference, b: Difference) -> Difference:
    """Return `a` where `first` holds, entry by entry, else `b`."""
    both = {f.name: np.where(first, getattr(a, f.name), getattr(b, f.name)) for f in fields(a) if f.name != "calls"}
    return Difference(calls=a.calls, **both)


def better(a: Difference, b: Difference) -> Difference:
    """Return, entry by entry, the one with the smaller bound, or `a`, of smaller steps, if the two contradict each other."""
    apart = np.abs(a.value - b.value) > a.bound + b.bound
    return chosen((a.bound <= b.bound) | (apart & np.isfinite(a.bound)), a, b)


def widen_zeros(found: Sequence[Difference]) -> list[Difference]:
    """Return the differences of all entries; those that are exactly 0 get a bound of at least the noise that others show.

    Where phi does not change at all it shows no noise of its own: a function that rounds inside, to the spacing of a narrow
    format, is constant between two values.
    """
    with np.errstate(all="ignore"):
        shown = [np.where(d.value != 0, d.rounding * d.h / _WEIGHT[CENTRAL], 0.0) for d in found]
        sigma = np.max([np.where(np.isfinite(x), x, 0.0) for x in shown], axis=0)
        least = [np.where(d.value == 0, SAFETY * _WEIGHT[CENTRAL] * sigma / d.h, 0.0) for d in found]
    return [replace(d, bound=np.fmax(d.bound, bound)) for d, bound in zip(found, least, strict=True)]


def nothing(line: Line) -> Difference:
    """Return a difference without information: its value is nan and its bound infinite."""
    wide = np.full(line.at.shape, np.inf)
    return Difference(np.full(line.at.shape, np.nan), wide, wide, 0, np.zeros(line.at.shape))


def fixed(line: Line, h: float, floor: Any) -> Difference:
    """Return the difference at a given step, central if the function has values on both sides.

    Error   truncation, from a second, wider step; the kink that second differences show; noise / h.
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
    """Return the second extrapolant of the central differences at three steps.

    Where phi does not change at all the slope is 0, and its bound is the noise over the widest step.
    """
    if not h[-1]:
        return nothing(line)
    up, down = line.both(h)
    sigma = np.maximum(floor, EPS * np.max(np.abs([up, down]), axis=(0, 1)))
    found = of_three(up, down, line.at, h, sigma)
    level = np.all((up == line.at) & (down == line.at), axis=0)
    rounding = np.broadcast_to(_WEIGHT[CENTRAL] * sigma / h[0], level.shape)
    zero = replace(found, bound=SAFETY * rounding, rounding=rounding, h=np.full(level.shape, h[0]))
    return chosen(level, zero, found)


def of_three(up: Any, down: Any, at: Any, h: Any, sigma: Any) -> Difference:
    """Return the second extrapolant from the values at three steps to both sides; `at` is the value at 0, or None.

    Shapes  up and down (3, ...), h (3,), widest first; at and sigma as one value.
    Error   the changes in the two extrapolations; the difference of the one-sided slopes, if a kink lies nearer than the
            smallest step; noise / h.
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
    """Return by how much the one-sided slopes differ at 0, from the values at the three widest steps."""
    return np.tensordot(_BENDS, ((up - 2 * at + down) / column)[:3], 1)


def extrapolated(table: Any, h: Any, power: int) -> Any:
    """Return the next column of Neville's table for an error series in h^power; it has one entry less."""
    level = len(h) - len(table) + 1
    return table[1:] + (table[1:] - table[:-1]) / ((h[:-level] / h[level:]) ** power - 1)


def swept(line: Line, h: Any, sigma: Any, often: float = _WEIGHT[CENTRAL]) -> Difference:
    """Return the estimate with the smallest bound over all steps and levels; one-sided where a side has no values.

    A finer step contradicts an estimate if their distance is more than `often` times its noise; this widens the bound.
    """
    if len(h) < FEWEST or not np.all(h):
        return nothing(line)
    up, down = line.both(h)
    column = h.reshape((-1,) + (1,) * line.at.ndim)
    sigma = np.maximum(sigma, _stair(up, down, line.at, column))
    ahead, behind = (up - line.at) / column, (line.at - down) / column
    sides = [_side(slopes, column, sigma) for slopes in (ahead, behind)]
    found = list(_levels((up - down) / (2 * column), h, sigma, CENTRAL, often, sides, ahead - behind))
    if not np.all(np.isfinite(up - down)):
        found += [row for slopes in (ahead, behind) for row in _levels(slopes, h, sigma, ONE_SIDED, often)]
    value, bound, used, rounding = (np.concatenate(column) for column in zip(*found, strict=True))
    k = np.argmin(bound, axis=0)[None]
    value, bound, rounding = (np.take_along_axis(rows, k, axis=0)[0] for rows in (value, bound, rounding))
    left, right = _apart(ahead, behind, column, sigma)
    bound = np.where(np.isfinite(left), np.maximum(bound, SAFETY * np.abs(right - left) / 2), bound)
    return Difference(np.where(np.isfinite(value), value, np.nan), bound, used[k[0]], 0, rounding, left, right)


def _finite(bound: Any) -> Any:
    return np.where(np.isfinite(bound), bound, np.inf)


def _stair(up: Any, down: Any, at: Any, column: Any) -> Any:
    """Return the height of a staircase's steps: the least change of phi if it does not change at smaller steps, else 0.

    A flat piece beside a kink looks the same, but there the second difference is as large as the change, at every step.
    """
    moved, bent = np.abs(up - down), np.abs(up - 2 * at + down)
    stepping = np.logical_or.accumulate((moved == 0)[::-1])[::-1] & (moved > 0)
    least = np.min(np.where(stepping, moved, np.inf), axis=0)
    kink = np.abs(kink_of(up, down, at, column))
    one_sided = np.all((bent >= moved / 2) | (moved == 0), axis=0)
    beside_a_kink = (kink > HIDDEN * moved[0] / column[0]) & one_sided
    return np.where(np.isfinite(least) & ~beside_a_kink, least, 0.0)


def _side(slopes: Any, column: Any, sigma: Any) -> tuple[Any, Any]:
    """Return the one-sided extrapolants of all but the two widest steps, and their errors by noise and truncation."""
    first = extrapolated(slopes, column, ONE_SIDED)
    return first[1:], np.abs(first[1:] - first[:-1]) + FAR * sigma / column[2:]


def _apart(ahead: Any, behind: Any, column: Any, sigma: Any) -> tuple[Any, Any]:
    """Return the slopes to the left and to the right where the values show that they differ, else nan.

    The slopes agree at a step if noise and truncation explain the distance of their extrapolants there and at all smaller
    steps. A distance that is small beside the slopes only widens the bound, unless the slopes cancel by symmetry: then
    their mean shows nothing. Where noise could hide a distance, the slopes count as equal.
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


def _levels(
    d: Any, h: Any, sigma: Any, power: int, often: float, sides: Sequence[Any] = (), bends: Any = None
) -> Iterator[tuple[Any, ...]]:
    """Yield, for each level of extrapolation, the estimates, their bounds, their smallest steps and their rounding.

    `sides` are the one-sided extrapolants and their errors; `bends` is by how much the one-sided differences differ.
    """
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
        if bends is not None:
            bends = bends[1:] + (bends[1:] - bends[:-1]) / (RATIO ** (2 * level - 1) - 1)  # their error: h, h^3, h^5
            kinks = np.nan_to_num(np.min(np.abs([bends[:-2], bends[1:-1], bends[2:]]), axis=0))
            nearer = [(slopes[level:], room[level:]) for slopes, room in sides]
            apart = np.maximum(apart, _error_by_kink(table[1:-1], kinks, nearer))
        bound = SAFETY * np.maximum(spread + rounding, apart)
        yield table[1:-1], np.where(np.isfinite(bound), bound, np.inf), used, rounding


def _contradiction(values: Any, finer: Any, room: Any) -> Any:
    """Return how far each estimate is from those of equal and smaller steps, beyond the errors of these."""
    apart = np.zeros_like(values)
    for k in range(len(values)):
        excess = np.abs(values[k] - finer[k:]) - room[k:]
        apart[k] = np.max(np.where(np.isfinite(excess), excess, 0.0), axis=0, initial=0.0)
    return np.maximum(apart, 0.0)


def _error_by_kink(values: Any, kinks: Any, sides: Sequence[Any]) -> Any:
    """Return how far a kink at 0, or nearer than the steps, puts each estimate from the slopes on both sides of it.

    It counts also where noise hides it from smaller steps; but not where both one-sided slopes of a smaller step are so
    near to the estimate that the kink must be the truncation of wide steps.
    """
    error = kinks / 2
    for k in range(len(values)):
        distance = np.max([np.abs(values[k] - slopes[k:]) + room[k:] for slopes, room in sides], axis=0)
        least = np.min(np.nan_to_num(distance, nan=np.inf), axis=0)
        error[k] = np.where(least < error[k] / 2, 0.0, error[k])
    return error


QUICK = 10.0 ** -np.array([2.0, 2.5, 3.0])


def quick_derivative(phi: Callable[[float], Any], floor: float, at: float | None = None) -> Difference:
    """Estimate phi'(0) for a phi that is smooth on the scale of one; for others the error bound is large.

    Error   the change in the last step of Richardson's extrapolation, plus a tenth of the change before, as phi'' may jump;
            the kink at 0, if phi(0) is given as `at`; `floor`, the known noise, over the step.
    Cost    6 calls.
    """
    up, down = (np.array([phi(sign * h) for h in QUICK]) for sign in (1, -1))
    return replace(of_three(up, down, at, QUICK, floor), calls=2 * len(QUICK))
