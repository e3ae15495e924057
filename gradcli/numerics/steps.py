"""Differences that choose their own step and state their own error: a cheap screen, and a sweep where it is not sharp."""

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcli.numerics.noise import EPS, left_over, near, noise

RATIO = np.sqrt(10.0)
EXPONENTS = np.arange(13) / 2 + 1  # h from 1e-1 to 1e-7 of the scale
SCREEN = slice(2, 5)  # its steps, 1e-2 to 1e-3: truncation and rounding of a tame function are 1e-12
WIDE = slice(0, 5)  # the screen's and two wider ones, for what rounding limits
SMALLER = 10.0 ** -np.array([5.0, 7.0, 9.0, 11.0])  # of |x|: scales where the function moves on none of the wider ones
CENTRAL, ONE_SIDED = 2, 1  # the error of a difference is a series in this power of h
LEVELS = {CENTRAL: 3, ONE_SIDED: 4}  # of Richardson's extrapolation
_WEIGHT = {CENTRAL: 3.0, ONE_SIDED: 8.0}  # of noise / h: three standard deviations of an extrapolant
_FAR = 12.0  # of noise / h: five standard deviations of a one-sided extrapolant, of which many are looked at
_SHARP = 1e-9  # a relative bound that needs no better one
_CLOSE = 1e-6  # a relative bound that agreement at tiny steps must reach
USEFUL = 1e-3  # a relative bound for which no smaller scale is looked for
_FINEST = 4  # spacings of x: shorter steps are all alike
_DECADES = 17  # between the widest step and the nearest edge of the domain that is looked for
_FEWEST = 5  # steps that a sweep needs
TAME = 10  # calls, for a function that the screen and two wider steps are sharp for
SWEEP = 2 * len(EXPONENTS) + 9  # calls, those of the noise among them
_NEAREST = 3  # steps that are as small as the noise is sampled at
HIDDEN = 0.02  # noise above this part of all the function moved decides nothing
SAFETY = 3.0  # the spread of extrapolants and the noise are estimates; right derivatives must lie inside
_BENDS = np.linalg.solve(
    np.array([np.ones(3), RATIO ** np.arange(2, -1, -1), RATIO ** (3.0 * np.arange(2, -1, -1))]), [1, 0, 0]
)


@dataclass(frozen=True, slots=True)
class Difference:
    """A derivative by differences: value, error bound (estimated), the step used, and calls of phi.

    `rounding` is the part of the bound that is noise / h: where it is most of it, smaller steps mend nothing.
    """

    value: Any
    bound: Any
    h: Any
    calls: int
    rounding: Any = 0.0


class _Line:
    """phi on one line: values by place, each computed once, nan beyond the domain or `most` calls, and the value at 0."""

    def __init__(
        self, phi: Callable[[float], Any], x: float, low: float, high: float, reach: float, at: Any, most: float
    ) -> None:
        self.phi, self.x, self.reach, self.most = phi, x, reach, most
        self.low, self.high = max(low - x, -reach), min(high - x, reach)
        self.seen: dict[float, Any] = {}
        self.known = at is not None
        self.at = np.asarray(at if self.known else phi(0.0), dtype=float)

    @property
    def calls(self) -> int:
        return len(self.seen) + (not self.known)

    def __call__(self, t: float) -> Any:
        if not self.low <= t <= self.high or (t not in self.seen and self.calls >= self.most):
            return np.full(self.at.shape, np.nan)
        if t not in self.seen:
            self.seen[t] = np.asarray(self.phi(t), dtype=float)
        return self.seen[t]

    def steps(self, scale: float) -> Any:
        """Return the steps on a scale, such that x + h and x - h are exact; 0 for those too short to be so."""
        h = min(scale, 10 * self.reach) * 10.0**-EXPONENTS
        spacing = np.spacing(np.abs(self.x) + h)
        return np.where(h >= _FINEST * spacing, np.round(h / spacing) * spacing, 0.0)

    def edge(self, scale: float) -> float:
        """Return a scale whose steps stay inside the domain, where wider ones leave it on a side; else 0."""
        for h in scale * 10.0 ** -np.arange(1, _DECADES):
            if all(np.all(np.isfinite(self(float((self.x + t) - self.x)))) for t in (h, -h)):
                return 0.0 if h == scale / 10 else float(10 * h)
        return 0.0

    def both(self, h: Any) -> tuple[Any, Any]:
        """Return the values at x + h and at x - h, for each step."""
        up, down = (np.stack([self(sign * float(step)) for step in h]) for sign in (1, -1))
        return up, down


def derivative(
    phi: Callable[[float], Any],
    x: float,
    typical: float,
    floor: Any = 0.0,
    *,
    low: float = -np.inf,
    high: float = np.inf,
    reach: float = np.inf,
    seen: Any = 0.0,
    at: Any = None,
    h: float | None = None,
    size: float | None = None,
    most: float = np.inf,
) -> Difference:
    """Estimate phi'(0), where phi(t) moves one entry that has the value x by t.

    Shapes  as phi's values; each entry of the output takes its own step.
    `floor` is noise known to be there even where neighbouring values do not show it (a staircase of rounding), `seen`
    is noise of the function as a whole, which this entry may not have; between `low` and `high` the entry may be
    moved, and no further than `reach`; `at` is phi(0) where it is known; `h` is a step to be taken as it is. No more
    than `most` calls are made.

    Units   `typical` is the size of the other entries; steps are tried on the scale of |x| and on max(1, typical), or
            on no wider one than `size`, the size of the entry where the user has said it.
    Error   spread of three neighbouring extrapolants plus noise / h, or the contradiction of smaller steps or of
            one-sided ones, times a safety factor; estimated, not proved.
    Cost    6 calls where phi is tame, 10 where rounding limits, else 35 for a scale; 24 more where nothing is found.
    Source  Moré and Wild (2012), Estimating derivatives of noisy simulations; Richardson's extrapolation.
    """
    line = _Line(phi, x, low, high, reach, at, most)
    if h is not None:
        found = _fixed(line, h, np.maximum(floor, seen))
    elif np.isfinite(x):
        tiny = (size or max(abs(x), typical if x else 1.0)) * SMALLER
        found = _best(line, _scales(x, typical, size), tiny, floor, seen)
    else:
        found = _nothing(line)
    return replace(found, calls=line.calls)


def _best(line: _Line, scales: Sequence[float], tiny: Any, floor: Any, seen: Any) -> Difference:
    """Return the sharpest difference of all scales, the tiny ones only where nothing useful is found on the others."""
    best = _nothing(line)
    for scale in scales:  # the wider only where needed: a wide step may leave the domain of the function
        found = _on_scale(line, scale, floor, seen)
        best = _better(best, found if scale == scales[-1] else _where(found.value != 0, found))
        if np.all(_sharp(best)):
            return best
    edge = line.edge(scales[-1])
    if edge:
        best = _better(_on_scale(line, edge, floor, seen), best)
    for scale in tiny:
        if np.all(best.bound <= USEFUL * np.abs(best.value)):
            break
        found = _screened(line, scale, floor)
        best = _better(_where(found.bound <= _CLOSE * np.abs(found.value), found), best)
    return best


def _where(convincing: Any, d: Difference) -> Difference:
    """Return a difference that says nothing elsewhere: where nothing moves, tiny steps have seen too little."""
    return replace(d, bound=np.where(convincing, d.bound, np.inf))


QUICK = 10.0 ** -np.array([2.0, 2.5, 3.0])


def quick_derivative(phi: Callable[[float], Any], floor: float) -> Difference:
    """Estimate phi'(0) of a tame phi on the scale of one, with an error bound that is large where it is not tame.

    Error   what two steps of Richardson's extrapolation differ by, a tenth of it for the last one, as phi'' may jump;
            plus `floor`, the known noise, over the step.
    Cost    6 calls.
    """
    slopes = [(phi(h) - phi(-h)) / (2 * h) for h in QUICK]
    first = [fine + (fine - coarse) / (RATIO**2 - 1) for coarse, fine in itertools.pairwise(slopes)]
    second = first[1] + (first[1] - first[0]) / (RATIO**4 - 1)
    bound = SAFETY * (abs(second - first[1]) + abs(first[1] - first[0]) / 10 + 3 * floor / QUICK[-1])
    return Difference(second, bound, QUICK[-1], 2 * len(QUICK))


SECOND = 10.0 ** -np.arange(1.0, 4.5, 0.5)


def second_derivative(phi: Callable[[float], Any]) -> Difference:
    """Estimate phi''(0) of a scalar phi on the scale of one, by second differences and Richardson's extrapolation.

    Error   spread of neighbouring extrapolants plus noise / h**2, the smallest such bound; estimated, not proved.
    Cost    24 calls.
    """
    at, sigma = float(phi(0.0)), float(noise(phi, 1.0))
    slopes = np.array([(float(phi(h)) - 2 * at + float(phi(-h))) / h**2 for h in SECOND])
    once = slopes[1:] + (slopes[1:] - slopes[:-1]) / (RATIO**2 - 1)
    twice = once[1:] + (once[1:] - once[:-1]) / (RATIO**4 - 1)
    bounds = SAFETY * (np.abs(np.diff(twice)) + 4 * sigma / SECOND[3:] ** 2)
    k = int(np.argmin(np.where(np.isfinite(bounds), bounds, np.inf)))
    return Difference(twice[k + 1], bounds[k], SECOND[k + 3], 2 * len(SECOND) + 10)


def _sharp(d: Difference) -> Any:
    """Whether a bound needs no better one: small beside the value, or rounding beside no movement at all."""
    return (d.bound <= _SHARP * np.abs(d.value)) | ((d.value == 0) & _limited(d))


def _limited(d: Difference) -> Any:
    """Whether rounding makes most of the bound."""
    return d.bound <= 2 * SAFETY * d.rounding


def _better(a: Difference, b: Difference) -> Difference:
    """Return, entry by entry, the one with the smaller bound; where they contradict each other, `a`, of smaller steps."""
    apart = np.abs(a.value - b.value) > a.bound + b.bound
    return _chosen((a.bound <= b.bound) | (apart & np.isfinite(a.bound)), a, b)


def _chosen(first: Any, a: Difference, b: Difference) -> Difference:
    parts = ((a.value, b.value), (a.bound, b.bound), (a.h, b.h), (a.rounding, b.rounding))
    value, bound, h, rounding = (np.where(first, x, y) for x, y in parts)
    return Difference(value, bound, h, a.calls, rounding)


def _scales(x: float, typical: float, size: float | None) -> list[float]:
    wide = size or max(1.0, typical)
    if x == 0 or not np.isfinite(x) or wide / 3 < abs(x) < (np.inf if size else wide * 3):
        return [wide]
    return [abs(x), wide]


def _on_scale(line: _Line, scale: float, floor: Any, seen: Any) -> Difference:
    """Return the screen's answer where it is sharp, else the sweep's."""
    if line.calls + TAME > line.most:
        return _nothing(line)
    noisy = np.maximum(floor, seen)
    screened = _screened(line, scale, noisy)
    good = _sharp(screened)
    if not np.all(good) and np.all(good | _limited(screened)):
        wide = _swept(line, line.steps(scale)[WIDE], np.maximum(noisy, EPS * np.abs(line.at)))
        screened = _chosen(good, screened, _better(screened, wide))
        good = _sharp(screened) | (_limited(screened) & (screened.bound <= _CLOSE * np.abs(screened.value)))
    if np.all(good):
        return screened
    h = line.steps(scale)
    h, swept = h[h > 0], _nothing(line)
    if len(h) >= _FEWEST and line.calls + SWEEP <= line.most:
        sigma = np.maximum(_noise(line, scale, h), floor)
        if not _hidden(sigma, np.concatenate(line.both(h)), line.at):
            swept = _swept(line, h, sigma)
    return _chosen(good, screened, swept)


def _screened(line: _Line, scale: float, floor: Any) -> Difference:
    h = line.steps(scale)[SCREEN]
    return _screen(line, h, floor) if h[-1] else _nothing(line)


def _fixed(line: _Line, h: float, floor: Any) -> Difference:
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
    bound = np.where(np.isfinite(bound), bound, np.inf)
    return Difference(slopes[1], bound, np.full(line.at.shape, h), 0, rounding)


def _nothing(line: _Line) -> Difference:
    nothing = np.full(line.at.shape, np.inf)
    return Difference(np.full(line.at.shape, np.nan), nothing, nothing, 0, np.zeros(line.at.shape))


def _screen(line: _Line, h: Any, floor: Any) -> Difference:
    """Return the second extrapolant of three steps.

    Error   how far it is from both first ones; how the function bends, where that does not go to zero with h (a kink
            nearer than the smallest step: the one-sided slopes differ by it); noise / h.
    """
    up, down = line.both(h)
    column = h.reshape((-1,) + (1,) * line.at.ndim)
    coarse, fine = _extrapolated((up - down) / (2 * column), column, CENTRAL)
    value = fine + (fine - coarse) / ((h[0] / h[2]) ** 2 - 1)
    kink = np.tensordot(_BENDS, (up - 2 * line.at + down) / column, 1)
    sigma = np.maximum(floor, EPS * np.max(np.abs([up, down]), axis=(0, 1)))
    rounding = _WEIGHT[CENTRAL] * sigma / h[-1]
    bound = SAFETY * (np.abs(value - fine) + np.abs(fine - coarse) / 10 + np.abs(kink) / 2 + rounding)
    bound = np.where(np.isfinite(bound), bound, np.inf)
    return Difference(value, bound, np.full(line.at.shape, h[-1]), 0, rounding)


def _extrapolated(table: Any, h: Any, power: int) -> Any:
    """Return the next column of Neville's table, in h^power: the widest of the steps that an entry rests on is gone."""
    level = len(h) - len(table) + 1
    return table[1:] + (table[1:] - table[:-1]) / ((h[:-level] / h[level:]) ** power - 1)


def _swept(line: _Line, h: Any, sigma: Any) -> Difference:
    """Return the estimate with the smallest bound of all steps and levels, one-sided ones where a side is missing."""
    if len(h) < _FEWEST or not np.all(h):
        return _nothing(line)
    up, down = line.both(h)
    column = h.reshape((-1,) + (1,) * line.at.ndim)
    sigma = np.maximum(sigma, _stair(up, down, line.at, column))
    ahead, behind = (up - line.at) / column, (line.at - down) / column
    sides = [_side(slopes, column, sigma) for slopes in (ahead, behind)]
    found = list(_levels((up - down) / (2 * column), h, sigma, CENTRAL, sides))
    if not np.all(np.isfinite(up - down)):
        found += [row for slopes in (ahead, behind) for row in _levels(slopes, h, sigma, ONE_SIDED, [])]
    value, bound, used, rounding = (np.concatenate(column) for column in zip(*found, strict=True))
    k = np.argmin(bound, axis=0)[None]
    value, bound, rounding = (np.take_along_axis(rows, k, axis=0)[0] for rows in (value, bound, rounding))
    return Difference(np.where(np.isfinite(value), value, np.nan), bound, used[k[0]], 0, rounding)


def _stair(up: Any, down: Any, at: Any, column: Any) -> Any:
    """Return how high the steps of a staircase are: the least movement, where there is none at smaller steps.

    A flat piece beside a kink looks alike, but there the function bends as much as it moves, however wide the step.
    """
    moved = np.abs(up - down)
    stepping = np.logical_or.accumulate((moved == 0)[::-1])[::-1] & (moved > 0)
    least = np.min(np.where(stepping, moved, np.inf), axis=0)
    kink = np.abs(np.tensordot(_BENDS, ((up - 2 * at + down) / column)[:3], 1))
    return np.where(np.isfinite(least) & ~(kink > HIDDEN * moved[0] / column[0]), least, 0.0)


def _noise(line: _Line, scale: float, h: Any) -> Any:
    """Return the noise, from values of its own and those at the smallest steps; what is outside the domain is left out."""
    places = [*near(scale), *(sign * step for step in h[-_NEAREST:] for sign in (1, -1))]
    values = np.stack([line((line.x + t) - line.x) for t in places])
    inside = [k for k in range(len(places)) if np.all(np.isfinite(values[k]))]
    if len(inside) < 6:
        return EPS * np.abs(line.at)
    return left_over([places[k] for k in inside], values[inside])


def _hidden(sigma: Any, seen: Any, at: Any) -> bool:
    """Whether the function moves hardly more than its noise: a wave shorter than every step looks like that."""
    seen = np.where(np.isfinite(seen), seen, at)
    moved, size = np.ptp(seen, axis=0), np.max(np.abs(seen), axis=0)
    return bool(np.all(sigma > np.maximum(HIDDEN * moved, 100 * EPS * size)))


def _side(slopes: Any, column: Any, sigma: Any) -> tuple[Any, Any]:
    """Return one-sided extrapolants of each step but the two widest, and how far off they may be by noise and truncation."""
    first = _extrapolated(slopes, column, ONE_SIDED)
    return first[1:], np.abs(first[1:] - first[:-1]) + _FAR * sigma / column[2:]


def _levels(d: Any, h: Any, sigma: Any, power: int, sides: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Yield, for each level of extrapolation, estimates with their bounds, the smallest step and the rounding of each."""
    column = (-1,) + (1,) * (d.ndim - 1)
    finest = _extrapolated(d, h.reshape(column), power)
    fine_rounding = _WEIGHT[power] * sigma / h[1:].reshape(column)
    table = d
    for level in range(1, LEVELS[power] + 1):
        table = _extrapolated(table, h.reshape(column), power)
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
