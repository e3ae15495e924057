"""Differences that choose their step and estimate their error: a cheap screen first, a sweep if that is not sharp."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.modes.rounding import EPS

# A function along one line: its values by place, each computed once and counted.

RATIO = np.sqrt(10.0)
EXPONENTS = np.arange(13) / 2 + 1  # h from 1e-1 to 1e-7 of the scale
ALL_EXPONENTS = np.arange(30) / 2 + 1  # h down to a few roundings of the scale
_FINEST = 4  # spacings of x: the shortest useful step
_DECADES = 17  # of steps, among which one inside the domain is searched


class Line:
    """phi(t) for an entry of the value x that is moved by t; each value is computed once and kept by its place t.

    A value is nan if the entry would leave the interval from `low` to `high`, if |t| is more than `reach`, or after `most`
    calls. `at` is phi(0), if it is known.
    """

    def __init__(
        self, phi: Callable[[float], Any], x: float = 0.0, low: float = -np.inf, high: float = np.inf,
        reach: float = np.inf, at: Any = None, most: float = np.inf,
    ) -> None:  # fmt: skip
        self.phi, self.x, self.reach, self.most = phi, x, reach, most
        self.low, self.high = max(low - x, -reach), min(high - x, reach)
        self.seen: dict[float, Any] = {}
        self.known = at is not None
        self.at = np.asarray(at if self.known else phi(0.0), dtype=float)

    @property
    def calls(self) -> int:
        """How often phi was called."""
        return len(self.seen) + (not self.known)

    def __call__(self, t: float) -> Any:
        if t == 0:
            return self.at
        if not self.low <= t <= self.high or (t not in self.seen and self.calls >= self.most):
            return np.full(self.at.shape, np.nan)
        if t not in self.seen:
            self.seen[t] = np.asarray(self.phi(t), dtype=float)
        return self.seen[t]

    def affords(self, calls: int) -> bool:
        """Whether so many more calls are allowed."""
        return self.calls + calls <= self.most

    def ulp(self, scale: float) -> float:
        """Return the spacing of floats at x, or at `scale` if x is zero."""
        return float(np.spacing(abs(self.x) or scale))

    def exact(self, t: float) -> float:
        """Return a place t' near t for which x + t' is exact."""
        return float((self.x + t) - self.x)

    def place(self, t: float) -> float:
        """Return a place near t with finite values, or the one on the other side beyond an edge of the domain."""
        t = self.exact(t)
        return t if np.all(np.isfinite(self(t))) else -t

    def steps(self, scale: float, exponents: Any = EXPONENTS) -> Any:
        """Return the steps h of a scale, rounded so that x + h and x - h are exact; 0 for steps that are too short."""
        h = min(scale, 10 * self.reach) * 10.0**-exponents
        spacing = np.spacing(np.abs(self.x) + h)
        return np.where(h >= _FINEST * spacing, np.round(h / spacing) * spacing, 0.0)

    def edge(self, scale: float) -> float:
        """Return a scale whose steps stay inside the domain, if wider ones leave it; else 0."""
        for h in scale * 10.0 ** -np.arange(1, _DECADES):
            if all(np.all(np.isfinite(self(self.exact(t)))) for t in (h, -h)):
                return 0.0 if h == scale / 10 else float(10 * h)
        return 0.0

    def both(self, h: Any) -> tuple[Any, Any]:
        """Return the values at x + h and at x - h, for each step.

        Shapes  h (m,); two arrays with a leading axis of m.
        """
        up, down = (np.stack([self(sign * float(step)) for step in h]) for sign in (1, -1))
        return up, down


# Derivatives from the values of a function at many steps: extrapolated differences and their error bounds.

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


def choose_entrywise(first: Any, a: Difference, b: Difference) -> Difference:
    """Return `a` where `first` holds, entry by entry, else `b`."""
    both = {f.name: np.where(first, getattr(a, f.name), getattr(b, f.name)) for f in fields(a) if f.name != "calls"}
    return Difference(calls=a.calls, **both)


def choose_sharper(a: Difference, b: Difference) -> Difference:
    """Return, entry by entry, the one with the smaller bound, or `a`, of smaller steps, if the two contradict each other."""
    apart = np.abs(a.value - b.value) > a.bound + b.bound
    return choose_entrywise((a.bound <= b.bound) | (apart & np.isfinite(a.bound)), a, b)


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


def unknown_difference(line: Line) -> Difference:
    """Return a difference without information: its value is nan and its bound infinite."""
    wide = np.full(line.at.shape, np.inf)
    return Difference(np.full(line.at.shape, np.nan), wide, wide, 0, np.zeros(line.at.shape))


# How noisy a function is: the spread of its values around a smooth curve.

_SPACING = 2e-8  # of the scale: wide enough to see rounding, narrow enough not to see the function
_DEGREE = 3  # of the polynomial that is fitted to the samples
_BITS = 53  # of the mantissa of a float64
_CHANCE = 24  # trailing zero bits of all different values together: fewer may be shared by chance
_PLACES = (-4.0, -3.31, -1.83, -1.12, 0.0, 0.77, 2.21, 2.86, 4.0)


def estimate_noise(phi: Callable[[float], Any], scale: float) -> Any:
    """Estimate the standard deviation of the noise of `phi` around 0, from the residuals of a polynomial fit.

    Shapes  as phi's values.
    Units   scale in units of phi's argument, the noise in units of phi.
    Error   nan if phi is finite on neither side of 0; a place outside its domain is replaced by its mirror image.
    Cost    9 calls, up to 17 at the edge of a domain.
    Source  Moré and Wild (2011), Estimating computational noise, for the spacing and the number of values.
    """
    seen = {}
    for t in noise_sample_places(scale):
        y = np.asarray(phi(t), dtype=float)
        if t != 0 and not np.all(np.isfinite(y)):
            t, y = -t, np.asarray(phi(-t), dtype=float)
        seen[t] = y
    return residual_deviation(list(seen), np.stack(list(seen.values())))


def noise_sample_places(scale: float) -> list[float]:
    """Return the places at which the noise is sampled.

    They are uneven: differences of evenly spaced values, as in ECnoise, do not see a ripple of the same period.
    """
    return [place * _SPACING * scale for place in _PLACES]


def residual_deviation(places: Sequence[float], values: Any) -> Any:
    """Return the standard deviation of the residuals of a cubic fit, but at least the rounding of the values.

    Shapes  values have a leading axis of places, which the result lacks.
    """
    basis = _cubic_basis(tuple((np.array(places) / np.max(np.abs(places))).tolist()))
    flat = (values - values[len(values) // 2]).reshape(len(values), -1)
    residual = flat - basis @ (basis.T @ flat)
    size = np.maximum(np.max(np.abs(residual), axis=0), np.finfo(float).tiny)  # squares may over- or underflow
    sigma = size * np.sqrt(np.sum(np.square(residual / size), axis=0) / (len(values) - _DEGREE - 1))
    return np.maximum(sigma.reshape(values.shape[1:]), EPS * np.max(np.abs(values), axis=0))


def spacing_of_values(values: Any) -> Any:
    """Return the spacing of a function's values: the largest power of two that all of them are whole multiples of.

    It is coarser than that of float64 where the function computes in a narrower format, or where larger numbers cancel. Few
    values share trailing zeros by chance; where they may, the result is the spacing of float64 at the largest value.

    Shapes  values have a leading axis of places, which the result lacks.

    >>> float(spacing_of_values(np.float32([0.1, 0.2, 0.3])) / 2.0**-27)
    1.0
    """
    values = np.asarray(values, dtype=float)
    finite = np.where(np.isfinite(values), values, 0.0)
    mantissa, exponent = np.frexp(finite)
    whole = (mantissa * 2.0**_BITS).astype(np.int64)
    last = np.where(whole == 0, np.inf, exponent - _BITS + np.log2(np.maximum(whole & -whole, 1)))
    least = np.min(last, axis=0)
    order = np.sort(values, axis=0)
    different = 1 + np.sum(order[1:] > order[:-1], axis=0)
    usual = np.spacing(np.max(np.abs(finite), axis=0))
    found = np.where(np.isfinite(least), 2.0 ** np.minimum(least, 1e3), usual)
    return np.where((different > 1) & (found > usual * 2.0 ** (_CHANCE / different)), found, usual)


@lru_cache(maxsize=64)
def _cubic_basis(places: tuple[float, ...]) -> Any:
    """Return an orthonormal basis of the cubic polynomials at some places."""
    return np.linalg.qr(np.vander(np.array(places), _DEGREE + 1))[0]


def difference_at_step(line: Line, h: float, floor: Any) -> Difference:
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
    found = Difference(slopes[1], _replace_nan_bounds(bound), np.full(line.at.shape, h), 0, rounding)
    apart = np.abs(kink) > np.maximum(_APART * rounding, USEFUL * np.max(np.abs(sides[1:]), axis=(0, 1)))
    return replace(found, left=np.where(apart, sides[2][1], np.nan), right=np.where(apart, sides[1][1], np.nan))


def screen_steps(line: Line, h: Any, floor: Any) -> Difference:
    """Return the second extrapolant of the central differences at three steps.

    Where phi does not change at all the slope is 0, and its bound is the noise over the widest step.
    """
    if not h[-1]:
        return unknown_difference(line)
    up, down = line.both(h)
    sigma = np.maximum(floor, EPS * np.max(np.abs([up, down]), axis=(0, 1)))
    found = difference_of_three_steps(up, down, line.at, h, sigma)
    level = np.all((up == line.at) & (down == line.at), axis=0)
    rounding = np.broadcast_to(_WEIGHT[CENTRAL] * sigma / h[0], level.shape)
    zero = replace(found, bound=SAFETY * rounding, rounding=rounding, h=np.full(level.shape, h[0]))
    return choose_entrywise(level, zero, found)


def difference_of_three_steps(up: Any, down: Any, at: Any, h: Any, sigma: Any) -> Difference:
    """Return the second extrapolant from the values at three steps to both sides; `at` is the value at 0, or None.

    Shapes  up and down (3, ...), h (3,), widest first; at and sigma as one value.
    Error   the changes in the two extrapolations; the difference of the one-sided slopes, if a kink lies nearer than the
            smallest step; noise / h.
    """
    column = h.reshape((-1,) + (1,) * (np.ndim(up) - 1))
    kink = 0.0 if at is None else kink_size(up, down, at, column)
    coarse, fine = next_neville_column((up - down) / (2 * column), column, CENTRAL)
    value = fine + (fine - coarse) / ((h[0] / h[2]) ** 2 - 1)
    rounding = _WEIGHT[CENTRAL] * sigma / h[-1]
    spread = np.abs(value - fine) + np.abs(fine - coarse) / 10
    apart = np.abs(kink) > np.maximum(_APART * (spread + rounding), USEFUL * np.abs(value))
    left, right = (np.where(apart, value + sign * kink / 2, np.nan) for sign in (-1, 1))
    bound = _replace_nan_bounds(SAFETY * (spread + np.abs(kink) / 2 + rounding))
    return Difference(value, bound, np.full(np.shape(value), h[-1]), 0, rounding, left, right)


def kink_size(up: Any, down: Any, at: Any, column: Any) -> Any:
    """Return by how much the one-sided slopes differ at 0, from the values at the three widest steps."""
    return np.tensordot(_BENDS, ((up - 2 * at + down) / column)[:3], 1)


def next_neville_column(table: Any, h: Any, power: int) -> Any:
    """Return the next column of Neville's table for an error series in h^power; it has one entry less."""
    level = len(h) - len(table) + 1
    return table[1:] + (table[1:] - table[:-1]) / ((h[:-level] / h[level:]) ** power - 1)


def sweep_steps(line: Line, h: Any, sigma: Any, often: float = _WEIGHT[CENTRAL]) -> Difference:
    """Return the estimate with the smallest bound over all steps and levels; one-sided where a side has no values.

    A finer step contradicts an estimate if their distance is more than `often` times its noise; this widens the bound.
    """
    if len(h) < FEWEST or not np.all(h):
        return unknown_difference(line)
    up, down = line.both(h)
    column = h.reshape((-1,) + (1,) * line.at.ndim)
    sigma = np.maximum(sigma, _stair_height(up, down, line.at, column))
    ahead, behind = (up - line.at) / column, (line.at - down) / column
    firsts = (next_neville_column(slopes, column, ONE_SIDED) for slopes in (ahead, behind))
    sides = [(first[1:], np.abs(first[1:] - first[:-1]) + FAR * sigma / column[2:]) for first in firsts]
    found = list(_extrapolation_levels((up - down) / (2 * column), h, sigma, CENTRAL, often, sides, ahead - behind))
    if not np.all(np.isfinite(up - down)):
        for slopes in (ahead, behind):
            found += _extrapolation_levels(slopes, h, sigma, ONE_SIDED, often)
    value, bound, used, rounding = (np.concatenate(column) for column in zip(*found, strict=True))
    k = np.argmin(bound, axis=0)[None]
    value, bound, rounding = (np.take_along_axis(rows, k, axis=0)[0] for rows in (value, bound, rounding))
    left, right = _differing_slopes(ahead, behind, column, sigma)
    bound = np.where(np.isfinite(left), np.maximum(bound, SAFETY * np.abs(right - left) / 2), bound)
    return Difference(np.where(np.isfinite(value), value, np.nan), bound, used[k[0]], 0, rounding, left, right)


def _replace_nan_bounds(bound: Any) -> Any:
    return np.where(np.isfinite(bound), bound, np.inf)


# Detect structure of a function that is finer than the steps of a difference, and resolve it where possible.
#
# A structure of width w that changes the slope at x by d changes f by d t at a distance t < w. So one value at a distance t
# shows every wider structure whose d t is above the noise. Values at distances from the steps down to a few spacings of x
# show all structure that noise does not hide. Where noise hides it, the slope rests on the assumption that f is smooth.

PROBES = 8  # values between the steps and the spacing of x, on alternating sides
_UNEVEN = np.array([0.0, 0.13, -0.11, 0.07, -0.08, 0.12, -0.05, 0.0])  # so that no wave matches their places
RESOLVING = 2 * len(ALL_EXPONENTS) + 12  # calls for the steps of all scales, including those for the noise
_ASKED, _WINDOWS = 6, 4  # entries of the output, and intervals of each, that are searched for jumps at most
_BETWEEN = (0.0, 0.08, 0.21, 0.38, 0.46, 0.63, 0.79, 0.91, 1.0)  # of an interval: where its roughness is sampled
_CLEAR = 16.0  # times the roughness: an entry further from its slope leaves it smoothly
_FIT = 5  # least number of places for a cubic and its residuals
_HALVINGS = 70  # of an interval, until its ends are neighbouring floats
_JUMP = 8.0  # times the noise: if values at neighbouring floats differ more, there is a jump between them
_MANY = 30  # most jumps in an interval
_STEEP = 7  # halvings that reduce a merely steep rise to about a hundredth of its height
_LADDER = 16  # places between the spacing of x and the distances at which noise was seen
_LOOKING = 28 + _HALVINGS + 9 * _WINDOWS  # calls for one entry
_FINE_STRUCTURE_LEAST = 8  # spacings of x: at smaller distances rounding hides the slope
_STRANGE = 8.0  # times the measured noise: a larger deviation is structure
_NOISIER = 4.0  # times the rounding near x: larger noise around x may be structure
_SUSPECT = 5.0  # times the known noise: a larger deviation from the parabola through the steps is suspect
_TOGETHER = 10_000  # entries of the values that are compared at once
_INSIDE = 0.3  # of a step: values nearer than this are compared with the parabola through its ends
_ULPS = (-8, -5, -2, 2, 5, 8), (-64, -41, -19, 19, 41, 64)  # spacings of x: windows that show the rounding of f
_NEIGHBOURS = 3  # steps over which a slope must be about the same
_LEVEL = 0.2  # of a slope: the change allowed over these steps
_WIDER = 10.0  # times the step of the finer slope: the steps of a second one are wider
PLATEAU = 0.1  # of the distance of two slopes: with a wider bound the second one does not count


def rounding_near(values: Callable[[float], Any], at: Any, ulp: float) -> Any:
    """Return the noise of f within a few spacings of x.

    It is the smaller one of two windows: a structure that fits into the wider window is smooth in the narrower one.

    Cost    12 calls.
    """
    found = []
    for window in _ULPS:
        known = [(t, y) for t, y in ((k * ulp, np.asarray(values(k * ulp))) for k in window) if np.all(np.isfinite(y))]
        if len(known) >= _FIT:
            found.append(residual_deviation([0.0, *(t for t, _ in known)], np.stack([at, *(y for _, y in known)])))
    return np.min(found, axis=0) if found else EPS * np.abs(at)


def rough_part(line: Line, seen: Any) -> Any:
    """Return the part of the noise around x that is not fine structure: it is also present near x, or f is a staircase.

    A staircase is flat near x. A function with a slope near x and jumps further away is a sawtooth: its noise is structure.

    Cost    no calls if the noise is the rounding of the value; else 28, and up to 106 for each of six entries of the output.
    """
    known = EPS * np.abs(line.at)
    if not line.affords(_LOOKING) or not np.any(seen > _NOISIER * known):
        return seen
    ulp = line.ulp(1.0)
    known = np.maximum(rounding_near(lambda t: line(line.place(t)), line.at, ulp), known)
    smoother = seen > _NOISIER * known
    near = [t for t in line.seen if abs(t) <= 64 * ulp and np.all(np.isfinite(line.seen[t]))]
    if not np.any(smoother) or len(near) < 3:
        return seen
    for k, size in enumerate(np.geomspace(200 * ulp, max(map(abs, line.seen)), _LADDER)):
        line(line.place(float(size * (-1.0) ** k)))
    slope, reach = _fit_nearest_slope(line, len(near), known)
    straight = Difference(slope, np.zeros(line.at.shape), np.full(line.at.shape, np.inf))
    smooth, noisy = _find_fine_structure(line, straight, smoother, known, np.zeros(line.at.shape, dtype=bool), 0.0)
    sloping = smoother & (np.abs(slope) * reach > _STRANGE * known)
    return np.where(sloping, known, np.where(smooth, np.minimum(noisy, seen), seen))


def _fit_nearest_slope(line: Line, fewest: int, noise: Any) -> tuple[Any, Any]:
    """Return the slope of the nearest values, as many as lie on a line up to noise, and how far they reach."""
    places = sorted((t for t in line.seen if np.all(np.isfinite(line.seen[t]))), key=abs)
    slope, reach = np.zeros(line.at.shape), np.zeros(line.at.shape)
    fits = np.ones(line.at.shape, dtype=bool)
    for count in range(fewest, len(places) + 1):
        t = np.array(places[:count]).reshape((-1,) + (1,) * line.at.ndim)
        y = np.stack([line.seen[p] - line.at for p in places[:count]])
        here = np.sum(t * y, axis=0) / np.sum(t * t)
        fits = fits & (np.max(np.abs(y - here * t), axis=0) <= _STRANGE * noise)
        taken = fits | (count == fewest)
        slope, reach = np.where(taken, here, slope), np.where(taken, abs(places[count - 1]), reach)
    return slope, reach


def unexplained_slope_error(line: Line, found: Difference, scale: float, noise: Any) -> Any:
    """Return how far the slope near x may be off, if values nearer to x than the steps do not fit it; else 0.

    Cost    8 calls.
    """
    inside = _INSIDE * np.min(found.h, where=np.isfinite(found.h), initial=np.inf)
    least = _FINE_STRUCTURE_LEAST * line.ulp(scale)
    if least < inside < np.inf:
        sizes = inside * (least / inside) ** ((np.arange(PROBES) + _UNEVEN) / (PROBES - 1))
        for t in [line.place(float(t)) for t in dict.fromkeys(sizes * (-1.0) ** np.arange(PROBES))]:
            line(t)
    return _possible_slope_error(line, found, noise, _SUSPECT)


def _possible_slope_error(line: Line, found: Difference, noise: Any, often: float) -> Any:
    """Return how far the slope near x may be off, by the known values nearer to x than the steps; 0 if they fit it.

    The nearest value whose deviation noise does not explain decides; nearer still, noise hides how steep f is.
    """
    curvature, changes, wide = _curvature_over_steps(line, found)
    off = np.zeros(line.at.shape)
    bent, farthest = (np.abs(curvature) + wide / found.h) / found.h, _INSIDE * found.h
    inside = sorted((t for t in line.seen if np.any(abs(t) <= farthest)), key=abs, reverse=True)
    together = max(1, _TOGETHER // max(1, line.at.size))
    for k in range(0, len(inside), together):
        places = inside[k : k + together]
        t, y = np.reshape(places, (-1,) + (1,) * line.at.ndim), np.stack([line.seen[place] for place in places])
        size = np.abs(t)
        apart = np.abs(y - line.at - found.value * t - curvature * t * t / 2)
        room = found.bound * size + changes * size**2 + bent * size**3
        level = often * np.maximum(noise, EPS * np.maximum(np.abs(y), np.abs(line.at)))
        strange = (apart > level + room) & (size <= farthest)
        nearest = (len(places) - 1 - np.argmax(strange[::-1], axis=0))[None]
        here = np.take_along_axis((apart + level) / size, nearest, axis=0)[0]
        off = np.where(np.any(strange, axis=0), here, off)
    return off


def steepness_within_step(line: Line, found: Difference) -> Any:
    """Return how steep the function is within a step h of a difference: |slope| + |second derivative| h / 2."""
    bent = np.abs(_curvature_over_steps(line, found)[0]) * found.h / 2
    return np.abs(found.value) + np.where(np.isfinite(found.h), bent, 0.0)


def _curvature_over_steps(line: Line, found: Difference) -> tuple[Any, Any, Any]:
    """Return the second derivative over the steps of a difference, how much it changes over wider steps, and how far
    the slope over the steps is from the difference's value.
    """
    curvature, changes, wide = (np.zeros(line.at.shape) for _ in range(3))
    for h in np.unique(found.h[np.isfinite(found.h)]):
        here, slope = _curvature_and_slope(line, found, float(h))
        wider = min((t for t in line.seen if t > 2 * h and -t in line.seen), default=None)
        there = np.zeros(line.at.shape) if wider is None else _curvature_and_slope(line, found, wider)[0]
        rows = found.h == h
        curvature, changes = np.where(rows, here, curvature), np.where(rows, np.abs(there - here), changes)
        wide = np.where(rows, np.abs(slope - found.value), wide)
    return np.nan_to_num(curvature), np.nan_to_num(changes), np.nan_to_num(wide)


def _curvature_and_slope(line: Line, found: Difference, h: float) -> tuple[Any, Any]:
    """Return the second and the first derivative from the values at one step to both sides, or to one side at an edge."""
    up, down = line(h), line(-h)
    ahead, behind = (up - line.at) / h, (line.at - down) / h
    one = 2 * np.where(np.isfinite(ahead), ahead - found.value, found.value - behind)
    both = np.isfinite(ahead + behind)
    return np.where(both, ahead - behind, one) / h, np.where(both, (ahead + behind) / 2, found.value)


def resolve_fine_structure(line: Line, coarse: Difference, doubtful: Any, scale: float, floor: Any) -> Difference:
    """Return the slope from steps of all scales, together with that of the wider steps if the two contradict each other.

    If the function is smooth between the scales, the finer slope is the derivative. If it jumps there, it rounds inside:
    then the slope is that of the steps that cross many jumps, and the jumps are noise.

    Error   if structure is too fine to be resolved, the bound is as wide as its slope may be.
    Cost    72 calls at most, and up to 106 for each of six entries of the output.
    """
    if not line.affords(RESOLVING) or not np.any(doubtful):
        return coarse
    sigma = np.maximum(rounding_near(lambda t: line(line.place(t)), line.at, line.ulp(scale)), floor)
    h = line.steps(scale, ALL_EXPONENTS)
    fine = sweep_steps(line, h[h > 0], sigma, FAR)  # of many more steps, some are far off by chance
    distance = np.abs(fine.value - coarse.value)
    apart = np.isfinite(fine.bound) & (distance > fine.bound + coarse.bound)
    moves = np.any([y != line.at for y in line.seen.values()], axis=0)  # else smaller steps show no more
    blunt = ~(coarse.bound <= USEFUL * np.abs(coarse.value)) & moves
    finer = doubtful & (apart | (blunt & (fine.bound < PLATEAU * coarse.bound)))
    plain = choose_entrywise(finer, fine, coarse)
    smooth, sigma = _find_fine_structure(line, plain, doubtful, sigma, finer, np.where(apart, distance / 3, 0.0))
    off = np.where(smooth, SAFETY * _possible_slope_error(line, plain, sigma, _STRANGE), 0.0)
    two = (apart | (off > 0)) & ~coarse.kinked & (coarse.bound <= PLATEAU * np.maximum(distance, off))
    wider = replace(plain, bound=np.maximum(plain.bound, off))
    both = choose_entrywise(
        two, replace(wider, other=coarse.value, other_bound=coarse.bound, other_h=coarse.h),
        _add_plateau_slope(line, h[h > 0], wider),
    )  # fmt: skip
    stairs = replace(coarse, other=fine.value, other_bound=fine.bound, other_h=fine.h, jumps=True)
    return choose_entrywise(doubtful & smooth, both, choose_entrywise(doubtful & apart, stairs, coarse))


def _add_plateau_slope(line: Line, h: Any, found: Difference) -> Difference:
    """Return a difference with the slope over wider steps as `other`, if three neighbouring steps have about the same one.

    That slope must also be the same on both sides: near a kink, the mean of the two slopes is not a slope of f.
    """
    if len(h) < _NEIGHBOURS:
        return found
    up, down = line.both(h)
    column = h.reshape((-1,) + (1,) * line.at.ndim)
    slopes, apart = (up - down) / (2 * column), ((up + down - 2 * line.at) / column)[1:-1]
    triples = np.stack([slopes[:-2], slopes[1:-1], slopes[2:]])
    middle, spread = triples[1], np.ptp(triples, axis=0)
    level = np.maximum(spread, np.abs(apart)) <= _LEVEL * np.abs(middle)
    flat = level & (column[1:-1] > _WIDER * found.h) & (spread <= PLATEAU * np.abs(middle - found.value))
    k = np.argmin(np.where(flat, spread, np.inf), axis=0)[None]
    flat, other, spread = (np.take_along_axis(rows, k, axis=0)[0] for rows in (flat, middle, spread))
    return replace(
        found,
        other=np.where(flat, other, found.other),
        other_bound=np.where(flat, spread, found.other_bound),
        other_h=np.where(flat, h[1:-1][k[0]], found.other_h),
    )


def _find_fine_structure(
    line: Line, found: Difference, entries: Any, sigma: Any, finer: Any, steep: Any
) -> tuple[Any, Any]:
    """Return which entries leave the slope smoothly, and the noise of each entry, which includes jumps.

    An entry leaves its slope where it deviates from the parabola by more than noise explains; for a slope from the finest
    steps, by more than `steep` times the distance. Of many entries only a few are examined, and stand for the others.
    """
    smooth, sigma = np.array(entries), np.array(np.broadcast_to(sigma, entries.shape))
    departures = list(_departures_from_slope(line, found, finer, steep))
    asked = [tuple(map(int, k)) for k in np.argwhere(entries)]
    for k in asked[:_ASKED]:
        slope = float(found.value[k])
        smooth[k], sigma[k] = _examine_departure(line, departures, k, slope, float(sigma[k]), bool(finer[k]))
    if len(asked) > _ASKED and not any(smooth[k] for k in asked[:_ASKED]):
        smooth[...] = False
    return smooth, sigma


def _examine_departure(
    line: Line, departures: list["_Departure"], k: tuple[int, ...], slope: float, noise: float, finer: bool
) -> tuple[bool, float]:
    """Return whether an entry leaves its slope smoothly, and the noise of the entry."""
    ends = _first_departure(departures, k, noise)
    if finer:
        return ends is None or not _has_jump_between(line, k, ends.a, ends.b, slope, noise), noise
    for _ in range(_WINDOWS):
        if ends is None:
            return False, noise
        rough, apart = float(_roughness_between(line, ends.a, ends.b)[k]), float(ends.apart[k])
        if apart > _CLEAR * rough:
            steep = slope + float(ends.off[k]) / ends.b
            turn = _first_turning_point(departures, k, ends)
            return turn is None or not _has_jump_between(line, k, turn.a, turn.b, steep, noise), noise
        noise = max(rough, apart / _STRANGE)
        ends = _first_departure(departures, k, noise)
    return False, noise


@dataclass(frozen=True, slots=True)
class _Departure:
    """The deviation of the values at b from a slope, its size where it is unexplained, their rounding; a is the place before."""

    a: float
    b: float
    off: Any
    apart: Any
    rounding: Any


def _departures_from_slope(line: Line, found: Difference, finer: Any, steep: Any) -> Iterator[_Departure]:
    """Yield the departures of all known values from a slope, the nearest first."""
    curvature, changes, wide = _curvature_over_steps(line, found)
    before = {1.0: 0.0, -1.0: 0.0}
    for t in sorted(line.seen, key=abs):
        size, side, y = np.float64(abs(t)), float(np.sign(t)), line.seen[t]
        straight = y - line.at - found.value * t
        room = found.bound * size + changes * size**2 + (np.abs(curvature) + wide / found.h) * size**3 / found.h
        bent = np.where(size <= _INSIDE * found.h, straight - curvature * t * t / 2, 0.0)
        off = np.where(finer, straight, bent)
        off = off if np.all(np.isfinite(off)) else np.nan_to_num(off)
        explained = np.where(finer, steep * size, room)
        rounding = EPS * np.maximum(np.abs(y), np.abs(line.at))
        yield _Departure(before[side], t, off, np.where(np.abs(off) > explained, np.abs(off), 0.0), rounding)
        before[side] = t


def _first_departure(departures: list[_Departure], k: tuple[int, ...], noise: float) -> _Departure | None:
    """Return the first interval over which an entry leaves its slope."""
    return next((d for d in departures if d.apart[k] > _STRANGE * max(noise, float(d.rounding[k]))), None)


def _first_turning_point(departures: list[_Departure], k: tuple[int, ...], first: _Departure) -> _Departure | None:
    """Return the first interval at whose end an entry is no longer on the straight line by which it left its slope."""
    steep = float(first.off[k]) / first.b
    beyond = (d for d in departures if d.b * first.b > 0 and abs(d.b) > abs(first.b))
    return next((d for d in beyond if abs(float(d.off[k]) - steep * d.b) > abs(steep * d.b) / 2), None)


def _has_jump_between(line: Line, k: tuple[int, ...], a: float, b: float, slope: float, noise: float) -> bool:
    """Whether an entry jumps between two places: the change does not shrink when the interval is halved to neighbours.

    Cost    70 calls at most; about 10 if it does not jump.
    """
    low, high = float(line(a)[k]), float(line(b)[k])
    heights = [abs(high - low - slope * (b - a))]
    for _ in range(_HALVINGS):
        middle = line.exact((a + b) / 2)
        if middle in (a, b) or not heights[-1] > _JUMP * noise:
            break
        y = float(line(middle)[k])
        first, second = abs(y - low - slope * (middle - a)), abs(high - y - slope * (b - middle))
        a, low, b, high = (a, low, middle, y) if first >= second else (middle, y, b, high)
        heights.append(max(first, second))
    last, before = heights[-1], heights[-_STEEP:][0]
    return len(heights) > 2 and last > max(_JUMP * noise, heights[0] / _MANY, before / 2)


def _roughness_between(line: Line, a: float, b: float) -> Any:
    """Return the roughness of the values between two places: a jump is rough, a structure as wide as the interval smooth."""
    a = a or b / 3
    places = [line.exact(a + (b - a) * u) for u in _BETWEEN]
    known = [(t, y) for t, y in ((t, line(t)) for t in dict.fromkeys(places)) if np.all(np.isfinite(y))]
    if len(known) <= _FIT:
        return np.full(line.at.shape, np.inf)
    return residual_deviation([t for t, _ in known], np.stack([y for _, y in known]))


def _stair_height(up: Any, down: Any, at: Any, column: Any) -> Any:
    """Return the height of a staircase's steps: the least change of phi if it does not change at smaller steps, else 0.

    A flat piece beside a kink looks the same, but there the second difference is as large as the change, at every step.
    """
    moved, bent = np.abs(up - down), np.abs(up - 2 * at + down)
    stepping = np.logical_or.accumulate((moved == 0)[::-1])[::-1] & (moved > 0)
    least = np.min(np.where(stepping, moved, np.inf), axis=0)
    kink = np.abs(kink_size(up, down, at, column))
    one_sided = np.all((bent >= moved / 2) | (moved == 0), axis=0)
    beside_a_kink = (kink > HIDDEN * moved[0] / column[0]) & one_sided
    return np.where(np.isfinite(least) & ~beside_a_kink, least, 0.0)


def _differing_slopes(ahead: Any, behind: Any, column: Any, sigma: Any) -> tuple[Any, Any]:
    """Return the slopes to the left and to the right where the values show that they differ, else nan.

    The slopes agree at a step if noise and truncation explain the distance of their extrapolants there and at all smaller
    steps. A distance that is small beside the slopes only widens the bound, unless the slopes cancel by symmetry: then
    their mean shows nothing. Where noise could hide a distance, the slopes count as equal.
    """
    right, left = (next_neville_column(slopes, column, ONE_SIDED) for slopes in (ahead, behind))
    noise = 2 * FAR * sigma / column[2:]
    room = sum(np.abs(first[1:] - first[:-1]) for first in (left, right)) + noise
    gap = np.abs(right - left)[1:]
    sizes = np.maximum.accumulate(np.nan_to_num(np.maximum(np.abs(ahead), np.abs(behind))), axis=0)[2:]
    beyond = np.nan_to_num(gap - room - _APART * noise, nan=0.0)
    gap = np.maximum(gap, np.maximum.accumulate(beyond[::-1], axis=0)[::-1])
    k = np.argmin(np.nan_to_num(gap + room, nan=np.inf), axis=0)[None]
    left, right = (next_neville_column(first, column, ONE_SIDED) for first in (left, right))
    gap, room, noise, size, left, right = (
        np.take_along_axis(np.broadcast_to(rows, gap.shape), k, axis=0)[0]
        for rows in (gap, room, noise, sizes, left, right)
    )
    opposite = np.abs(right + left) / 2 <= _OPPOSITE * np.minimum(np.abs(right), np.abs(left))
    apart = (gap > room) & (gap + room > _APART * noise) & ((gap + room > USEFUL * size) | opposite)
    return np.where(apart, left, np.nan), np.where(apart, right, np.nan)


def _extrapolation_levels(
    d: Any, h: Any, sigma: Any, power: int, often: float, sides: Sequence[Any] = (), bends: Any = None
) -> Iterator[tuple[Any, ...]]:
    """Yield, for each level of extrapolation, the estimates, their bounds, their smallest steps and their rounding.

    `sides` are the one-sided extrapolants and their errors; `bends` is by how much the one-sided differences differ.
    """
    column = (-1,) + (1,) * (d.ndim - 1)
    finest = next_neville_column(d, h.reshape(column), power)
    fine_rounding = max(often, _WEIGHT[power]) * sigma / h[1:].reshape(column)
    table = d
    for level in range(1, LEVELS[power] + 1):
        table = next_neville_column(table, h.reshape(column), power)
        triples = np.stack([table[:-2], table[1:-1], table[2:]])
        spread = np.max(triples, axis=0) - np.min(triples, axis=0)
        used = h[level + 1 : -1]
        rounding = _WEIGHT[power] * sigma / used.reshape(column)
        apart = _contradiction_by_finer_steps(table[1:-1], finest[level + 1 :], fine_rounding[level + 1 :])
        for slopes, room in sides:
            apart = np.maximum(apart, _contradiction_by_finer_steps(table[1:-1], slopes[level:], room[level:]))
        if bends is not None:
            bends = bends[1:] + (bends[1:] - bends[:-1]) / (RATIO ** (2 * level - 1) - 1)  # their error: h, h^3, h^5
            kinks = np.nan_to_num(np.min(np.abs([bends[:-2], bends[1:-1], bends[2:]]), axis=0))
            nearer = [(slopes[level:], room[level:]) for slopes, room in sides]
            apart = np.maximum(apart, _error_by_kink(table[1:-1], kinks, nearer))
        yield table[1:-1], _replace_nan_bounds(SAFETY * np.maximum(spread + rounding, apart)), used, rounding


def _contradiction_by_finer_steps(values: Any, finer: Any, room: Any) -> Any:
    """Return how far each estimate is from those of equal and smaller steps, beyond the errors of these."""
    known = np.isfinite(finer) & np.isfinite(room)
    below, above = (np.where(known, sign * finer - room, -np.inf) for sign in (-1, 1))  # the most of all smaller steps:
    below, above = (np.maximum.accumulate(ends[::-1], axis=0)[::-1][: len(values)] for ends in (below, above))
    apart = np.maximum(values + below, above - values)
    return np.where(np.isfinite(apart), np.maximum(apart, 0.0), 0.0)


def _error_by_kink(values: Any, kinks: Any, sides: Sequence[Any]) -> Any:
    """Return how far a kink at 0, or nearer than the steps, puts each estimate from the slopes on both sides of it.

    It counts also where noise hides it from smaller steps; but not where both one-sided slopes of a smaller step are so
    near to the estimate that the kink must be the truncation of wide steps.
    """
    error = kinks / 2
    for k in range(len(values)):
        distances = (np.abs(values[k] - slopes[k:]) + room[k:] for slopes, room in sides)
        least = np.fmin.reduce(reduce(np.maximum, distances), axis=0)
        error[k] = np.where(least < error[k] / 2, 0.0, error[k])
    return error


QUICK = 10.0 ** -np.array([2.0, 2.5, 3.0])
_NEXT = 1e-5  # of the term that the two finer steps remove: the next one, where derivatives have one size


def quick_derivative(
    phi: Callable[[float], Any], floor: float, at: float | None = None, expected: float | None = None
) -> Difference:
    """Estimate phi'(0) for a phi that is smooth on the scale of one; for others the error bound is large.

    Error   the change in the last step of Richardson's extrapolation, plus a tenth of the change before, as phi'' may jump;
            the kink at 0, if phi(0) is given as `at`; `floor`, the known noise, over the step. Where the two finer steps
            alone give the `expected` slope, up to the next term of the extrapolation, that term.
    Cost    6 calls; 4 where the slope is as expected.
    """
    sides = np.array([[phi(sign * h) for h in QUICK[1:]] for sign in (1, -1)])
    if expected is not None:
        found = _difference_of_two_steps(sides, floor)
        if abs(float(found.value) - expected) <= float(found.bound):
            return found
    up, down = (np.concatenate([[phi(sign * QUICK[0])], side]) for sign, side in zip((1, -1), sides, strict=True))
    return replace(difference_of_three_steps(up, down, at, QUICK, floor), calls=2 * len(QUICK))


def _difference_of_two_steps(sides: Any, floor: float) -> Difference:
    """Return the first extrapolant of a number from its values at the two finer steps, to one side and to the other."""
    h = QUICK[1:]
    slopes = (sides[0] - sides[1]) / (2 * h)
    (value,) = next_neville_column(slopes, h, CENTRAL)
    rounding = _WEIGHT[CENTRAL] * floor / h[-1]
    bound = SAFETY * (_NEXT * abs(value - slopes[-1]) + rounding)
    return Difference(value, bound, h[-1], 2 * len(h), rounding)


SCREEN = slice(2, 5)  # the screen's steps, 1e-2 to 1e-3: truncation and rounding of a smooth function are 1e-12
WIDE = slice(0, 5)  # the screen's steps and two wider ones, for functions that rounding limits
_SHARP = 1e-9  # a relative bound that is good enough
_CLOSE = 1e-6  # a relative bound that is good enough if noise limits it
_LEAST = 4.0  # roundings of the slope: the least bound, from the rounding of f's values at any step
TAME = 10  # calls for a smooth function: the screen and two wider steps, without the nearer values
SWEEP = 2 * len(EXPONENTS) + 9  # calls, including those for the noise
_NEAREST = 3  # of the smallest steps, whose values also serve to measure the noise


@dataclass(frozen=True, slots=True)
class FunctionNoise:
    """The noise of a function; `floor` is present even if neighbouring values do not show it (a staircase of rounding).

    `seen` is the measured noise of the function as a whole, which a single entry may not have. `rough` is the part of it
    that is not fine structure; None stands for all of it.
    """

    floor: Any = 0.0
    seen: Any = 0.0
    rough: Any = None

    @property
    def no_structure(self) -> Any:
        """The noise without structure finer than the steps."""
        return np.maximum(self.floor, self.seen if self.rough is None else self.rough)


SILENT = FunctionNoise()


def derivative(
    line: Line, typical: float = 0.0, noise: FunctionNoise = SILENT, *,
    h: float | None = None, size: float | None = None, looks: bool = True,
) -> Difference:  # fmt: skip
    """Estimate phi'(0) on a line.

    `h` is a fixed step, if it is given. With `looks`, values nearer than the steps are searched for finer structure.

    Shapes  as phi's values; each entry of the output gets its own step.
    Units   `typical` is the size of the other entries. Steps are tried on the scale of |x| and on that of max(1, typical),
            or on none wider than `size`, the size of the entry if the user has given it.
    Error   the spread of three neighbouring extrapolants plus noise / h, or the contradiction by smaller steps or by
            one-sided ones, or half of the kink that second differences show, times a safety factor; estimated, not proved.
            It assumes that phi has no structure that its noise hides: of a width w, one that changes the slope by less
            than about 8 noise / w.
    Cost    14 calls for a smooth phi, 18 if rounding limits, else 43 for a scale; if nearer values do not fit the slope,
            up to 72 more, and up to 106 for each of six entries of the output to find jumps.
    Source  Moré and Wild (2012), Estimating derivatives of noisy simulations; Richardson's extrapolation.
    """
    if h is not None:
        found = difference_at_step(line, h, np.maximum(noise.floor, noise.seen))
    elif np.isfinite(line.x):
        scales = _step_scales(line.x, typical, size)
        found = _sharpest_difference(line, scales, noise.floor, noise.seen)
        doubtful = found.kinked | ~np.isfinite(found.bound)
        if looks and line.affords(PROBES):
            useless = ~(found.bound <= USEFUL * steepness_within_step(line, found)) & ~_is_limited_by_rounding(found)
            doubtful = doubtful | useless | (unexplained_slope_error(line, found, scales[0], noise.no_structure) > 0)
        found = resolve_fine_structure(line, found, doubtful, scales[0], noise.floor)
    else:
        found = unknown_difference(line)
    return replace(found, calls=line.calls, bound=np.fmax(found.bound, _LEAST * EPS * np.abs(found.value)))


def _sharpest_difference(line: Line, scales: Sequence[float], floor: Any, seen: Any) -> Difference:
    """Return the sharpest difference of all scales; wider ones are tried only if needed, as they may leave the domain."""
    best = unknown_difference(line)
    for scale in scales:
        found = _difference_on_scale(line, scale, floor, seen)
        if scale != scales[-1]:  # tiny steps without any change show little
            found = replace(found, bound=np.where(found.value != 0, found.bound, np.inf))
        best = choose_sharper(best, found)
        if np.all(_has_sharp_bound(best)):
            return best
    edge = line.edge(scales[-1])
    return choose_sharper(_difference_on_scale(line, edge, floor, seen), best) if edge else best


SECOND = 10.0 ** -np.arange(1.0, 4.5, 0.5)


def second_derivative(phi: Callable[[float], Any]) -> Difference:
    """Estimate phi''(0) of a scalar phi on the scale of one, by second differences and Richardson's extrapolation.

    Error   the spread of neighbouring extrapolants plus noise / h**2, the smallest such bound; estimated, not proved.
    Cost    24 calls.
    """
    at, sigma = float(phi(0.0)), float(estimate_noise(phi, 1.0))
    slopes = np.array([(float(phi(h)) - 2 * at + float(phi(-h))) / h**2 for h in SECOND])
    once = slopes[1:] + (slopes[1:] - slopes[:-1]) / (RATIO**2 - 1)
    twice = once[1:] + (once[1:] - once[:-1]) / (RATIO**4 - 1)
    bounds = SAFETY * (np.abs(np.diff(twice)) + 4 * sigma / SECOND[3:] ** 2)
    k = int(np.argmin(np.where(np.isfinite(bounds), bounds, np.inf)))
    return Difference(twice[k + 1], bounds[k], SECOND[k + 3], 2 * len(SECOND) + 10)


def _has_sharp_bound(d: Difference) -> Any:
    """Whether a bound is good enough: small beside the value, or from rounding if the value is zero."""
    return (d.bound <= _SHARP * np.abs(d.value)) | ((d.value == 0) & _is_limited_by_rounding(d))


def _is_limited_by_rounding(d: Difference) -> Any:
    """Whether rounding is most of the bound."""
    return d.bound <= 2 * SAFETY * d.rounding


def _step_scales(x: float, typical: float, size: float | None) -> list[float]:
    wide = size or max(1.0, typical)
    if x == 0 or not np.isfinite(x) or wide / 3 < abs(x) < (np.inf if size else wide * 3):
        return [wide]
    return [abs(x), wide]


def _difference_on_scale(line: Line, scale: float, floor: Any, seen: Any) -> Difference:
    """Return the difference of the screen where it is sharp, else that of the sweep."""
    if not line.affords(TAME):
        return unknown_difference(line)
    noisy = np.maximum(floor, seen)
    found = screen_steps(line, line.steps(scale)[SCREEN], noisy)
    good = _has_sharp_bound(found)
    if not np.all(good) and np.all(good | _is_limited_by_rounding(found)):
        wide = sweep_steps(line, line.steps(scale)[WIDE], np.maximum(noisy, EPS * np.abs(line.at)))
        found = choose_entrywise(good, found, choose_sharper(found, wide))
        good = _has_sharp_bound(found) | (
            _is_limited_by_rounding(found) & (found.bound <= _CLOSE * np.abs(found.value))
        )
    if np.all(good):
        return found
    h = line.steps(scale)
    h, sweep = h[h > 0], unknown_difference(line)
    if len(h) >= FEWEST and line.affords(SWEEP):
        sigma = np.maximum(_noise_at_small_steps(line, scale, h), floor)
        if not _is_hidden_by_noise(sigma, np.concatenate(line.both(h)), line.at):
            sweep = sweep_steps(line, h, sigma)
    return choose_entrywise(good, found, sweep)


def _noise_at_small_steps(line: Line, scale: float, h: Any) -> Any:
    """Return the noise, from its own samples and the values at the smallest steps; places outside the domain are left out."""
    places = [*noise_sample_places(scale), *(sign * step for step in h[-_NEAREST:] for sign in (1, -1))]
    values = np.stack([line(line.exact(t)) for t in places])
    inside = [k for k, y in enumerate(values) if np.all(np.isfinite(y))]
    if len(inside) < 6:
        return EPS * np.abs(line.at)
    return residual_deviation([places[k] for k in inside], values[inside])


def _is_hidden_by_noise(sigma: Any, seen: Any, at: Any) -> bool:
    """Whether the function changes hardly more than its noise, as a wave that is shorter than every step does."""
    seen = np.where(np.isfinite(seen), seen, at)
    moved, size = np.ptp(seen, axis=0), np.max(np.abs(seen), axis=0)
    return bool(np.all(sigma > np.maximum(HIDDEN * moved, 100 * EPS * size)))
