"""Detect structure of a function that is finer than the steps of a difference, and resolve it where possible.

A structure of width w that changes the slope at x by d changes f by d t at a distance t < w. So one value at a distance t
shows every wider structure whose d t is above the noise. Values at distances from the steps down to a few spacings of x
show all structure that noise does not hide. Where noise hides it, the slope rests on the assumption that f is smooth.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcli.modes.extrapolation import FAR, SAFETY, USEFUL, Difference, chosen, swept
from gradcli.modes.line import ALL_EXPONENTS, Line
from gradcli.modes.noise import EPS, left_over

PROBES = 8  # values between the steps and the spacing of x
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
_LEAST = 8  # spacings of x: at smaller distances rounding hides the slope
_STRANGE = 8.0  # times the measured noise: a larger deviation is structure
_NOISIER = 4.0  # times the rounding near x: larger noise around x may be structure
_SUSPECT = 5.0  # times the known noise: a larger deviation from the parabola through the steps is suspect
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
            found.append(left_over([0.0, *(t for t, _ in known)], np.stack([at, *(y for _, y in known)])))
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
    slope, reach = _straight(line, len(near), known)
    straight = Difference(slope, np.zeros(line.at.shape), np.full(line.at.shape, np.inf))
    smooth, noisy = _structure(line, straight, smoother, known, np.zeros(line.at.shape, dtype=bool), 0.0)
    sloping = smoother & (np.abs(slope) * reach > _STRANGE * known)
    return np.where(sloping, known, np.where(smooth, np.minimum(noisy, seen), seen))


def _straight(line: Line, fewest: int, noise: Any) -> tuple[Any, Any]:
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


def unexplained(line: Line, found: Difference, scale: float, noise: Any) -> Any:
    """Return how far the slope near x may be off, if values nearer to x than the steps do not fit it; else 0.

    Cost    8 calls.
    """
    inside = _INSIDE * np.min(found.h, where=np.isfinite(found.h), initial=np.inf)
    for t in _probes(line, inside, _LEAST * line.ulp(scale)):
        line(t)
    return _off(line, found, noise, _SUSPECT)


def _off(line: Line, found: Difference, noise: Any, often: float) -> Any:
    """Return how far the slope near x may be off, by the known values nearer to x than the steps; 0 if they fit it.

    The nearest value whose deviation noise does not explain decides; nearer still, noise hides how steep f is.
    """
    curvature, changes, wide = _bends(line, found)
    off = np.zeros(line.at.shape)
    for t in sorted(line.seen, key=abs, reverse=True):
        y, size = line.seen[t], np.float64(abs(t))
        apart = np.abs(y - line.at - found.value * t - curvature * t * t / 2)
        room = found.bound * size + changes * size**2 + (np.abs(curvature) + wide / found.h) * size**3 / found.h
        level = often * np.maximum(noise, EPS * np.maximum(np.abs(y), np.abs(line.at)))
        strange = (apart > level + room) & (size <= _INSIDE * found.h)
        off = np.where(strange, (apart + level) / size, off)
    return off


def _probes(line: Line, inside: float, least: float) -> list[float]:
    """Return places on alternating sides, from the steps to the spacing of x; uneven, so that no wave matches them."""
    if not least < inside < np.inf:
        return []
    ladder = (np.arange(PROBES) + np.array([0.0, 0.13, -0.11, 0.07, -0.08, 0.12, -0.05, 0.0])) / (PROBES - 1)
    sizes = inside * (least / inside) ** ladder
    return [line.place(float(t)) for t in dict.fromkeys(sizes * (-1.0) ** np.arange(PROBES))]


def moved(line: Line, found: Difference) -> Any:
    """Return how steep the function is within a step h of a difference: |slope| + |second derivative| h / 2."""
    return np.abs(found.value) + np.where(np.isfinite(found.h), np.abs(_bends(line, found)[0]) * found.h / 2, 0.0)


def _bends(line: Line, found: Difference) -> tuple[Any, Any, Any]:
    """Return the second derivative over the steps of a difference, how much it changes over wider steps, and how far
    the slope over the steps is from the difference's value.
    """
    curvature, changes, wide = (np.zeros(line.at.shape) for _ in range(3))
    for h in np.unique(found.h[np.isfinite(found.h)]):
        here, slope = _bent(line, found, float(h))
        wider = min((t for t in line.seen if t > 2 * h and -t in line.seen), default=None)
        there = np.zeros(line.at.shape) if wider is None else _bent(line, found, wider)[0]
        rows = found.h == h
        curvature, changes = np.where(rows, here, curvature), np.where(rows, np.abs(there - here), changes)
        wide = np.where(rows, np.abs(slope - found.value), wide)
    return np.nan_to_num(curvature), np.nan_to_num(changes), np.nan_to_num(wide)


def _bent(line: Line, found: Difference, h: float) -> tuple[Any, Any]:
    """Return the second and the first derivative from the values at one step to both sides, or to one side at an edge."""
    up, down = line(h), line(-h)
    ahead, behind = (up - line.at) / h, (line.at - down) / h
    one = 2 * np.where(np.isfinite(ahead), ahead - found.value, found.value - behind)
    both = np.isfinite(ahead + behind)
    return np.where(both, ahead - behind, one) / h, np.where(both, (ahead + behind) / 2, found.value)


def resolved(line: Line, coarse: Difference, doubtful: Any, scale: float, floor: Any) -> Difference:
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
    fine = swept(line, h[h > 0], sigma, FAR)  # of many more steps, some are far off by chance
    distance = np.abs(fine.value - coarse.value)
    apart = np.isfinite(fine.bound) & (distance > fine.bound + coarse.bound)
    moves = np.any([y != line.at for y in line.seen.values()], axis=0)  # else smaller steps show no more
    blunt = ~(coarse.bound <= USEFUL * np.abs(coarse.value)) & moves
    finer = doubtful & (apart | (blunt & (fine.bound < PLATEAU * coarse.bound)))
    plain = chosen(finer, fine, coarse)
    smooth, sigma = _structure(line, plain, doubtful, sigma, finer, np.where(apart, distance / 3, 0.0))
    off = np.where(smooth, SAFETY * _off(line, plain, sigma, _STRANGE), 0.0)
    two = (apart | (off > 0)) & ~coarse.kinked & (coarse.bound <= PLATEAU * np.maximum(distance, off))
    wider = replace(plain, bound=np.maximum(plain.bound, off))
    both = chosen(
        two, replace(wider, other=coarse.value, other_bound=coarse.bound, other_h=coarse.h),
        _beside_plateau(line, h[h > 0], wider),
    )  # fmt: skip
    stairs = replace(coarse, other=fine.value, other_bound=fine.bound, other_h=fine.h, jumps=True)
    return chosen(doubtful & smooth, both, chosen(doubtful & apart, stairs, coarse))


def _beside_plateau(line: Line, h: Any, found: Difference) -> Difference:
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


def _structure(line: Line, found: Difference, entries: Any, sigma: Any, finer: Any, steep: Any) -> tuple[Any, Any]:
    """Return which entries leave the slope smoothly, and the noise of each entry, which includes jumps.

    An entry leaves its slope where it deviates from the parabola by more than noise explains; for a slope from the finest
    steps, by more than `steep` times the distance. Of many entries only a few are examined, and stand for the others.
    """
    smooth, sigma = np.array(entries), np.array(np.broadcast_to(sigma, entries.shape))
    departures = list(_departures(line, found, finer, steep))
    asked = [tuple(map(int, k)) for k in np.argwhere(entries)]
    for k in asked[:_ASKED]:
        slope = float(found.value[k])
        smooth[k], sigma[k] = _leaves(line, departures, k, slope, float(sigma[k]), bool(finer[k]))
    if len(asked) > _ASKED and not any(smooth[k] for k in asked[:_ASKED]):
        smooth[...] = False
    return smooth, sigma


def _leaves(
    line: Line, departures: list["_Departure"], k: tuple[int, ...], slope: float, noise: float, finer: bool
) -> tuple[bool, float]:
    """Return whether an entry leaves its slope smoothly, and the noise of the entry."""
    ends = _leaving(departures, k, noise)
    if finer:
        return ends is None or not _jumps(line, k, ends.a, ends.b, slope, noise), noise
    for _ in range(_WINDOWS):
        if ends is None:
            return False, noise
        rough, apart = float(_roughness(line, ends.a, ends.b)[k]), float(ends.apart[k])
        if apart > _CLEAR * rough:
            steep = slope + float(ends.off[k]) / ends.b
            turn = _turning(departures, k, ends)
            return turn is None or not _jumps(line, k, turn.a, turn.b, steep, noise), noise
        noise = max(rough, apart / _STRANGE)
        ends = _leaving(departures, k, noise)
    return False, noise


@dataclass(frozen=True, slots=True)
class _Departure:
    """The deviation of the values at b from a slope, its size where it is unexplained, their rounding; a is the place before."""

    a: float
    b: float
    off: Any
    apart: Any
    rounding: Any


def _departures(line: Line, found: Difference, finer: Any, steep: Any) -> Iterator[_Departure]:
    """Yield the departures of all known values from a slope, the nearest first."""
    curvature, changes, wide = _bends(line, found)
    before = {1.0: 0.0, -1.0: 0.0}
    for t in sorted(line.seen, key=abs):
        size, side, y = np.float64(abs(t)), float(np.sign(t)), line.seen[t]
        straight = y - line.at - found.value * t
        room = found.bound * size + changes * size**2 + (np.abs(curvature) + wide / found.h) * size**3 / found.h
        bent = np.where(size <= _INSIDE * found.h, straight - curvature * t * t / 2, 0.0)
        off = np.nan_to_num(np.where(finer, straight, bent))
        explained = np.where(finer, steep * size, room)
        rounding = EPS * np.maximum(np.abs(y), np.abs(line.at))
        yield _Departure(before[side], t, off, np.where(np.abs(off) > explained, np.abs(off), 0.0), rounding)
        before[side] = t


def _leaving(departures: list[_Departure], k: tuple[int, ...], noise: float) -> _Departure | None:
    """Return the first interval over which an entry leaves its slope."""
    return next((d for d in departures if d.apart[k] > _STRANGE * max(noise, float(d.rounding[k]))), None)


def _turning(departures: list[_Departure], k: tuple[int, ...], first: _Departure) -> _Departure | None:
    """Return the first interval at whose end an entry is no longer on the straight line by which it left its slope."""
    steep = float(first.off[k]) / first.b
    beyond = (d for d in departures if d.b * first.b > 0 and abs(d.b) > abs(first.b))
    return next((d for d in beyond if abs(float(d.off[k]) - steep * d.b) > abs(steep * d.b) / 2), None)


def _jumps(line: Line, k: tuple[int, ...], a: float, b: float, slope: float, noise: float) -> bool:
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


def _roughness(line: Line, a: float, b: float) -> Any:
    """Return the roughness of the values between two places: a jump is rough, a structure as wide as the interval smooth."""
    a = a or b / 3
    places = [line.exact(a + (b - a) * u) for u in _BETWEEN]
    known = [(t, y) for t, y in ((t, line(t)) for t in dict.fromkeys(places)) if np.all(np.isfinite(y))]
    if len(known) <= _FIT:
        return np.full(line.at.shape, np.inf)
    return left_over([t for t, _ in known], np.stack([y for _, y in known]))
