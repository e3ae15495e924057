"""Structure of a function that is finer than the steps of a difference: seen by a few values, and resolved where it can be.

A structure of width w that changes the slope at x by d moves f by d t at t < w. So one value near x shows every wider
structure whose d t is above the noise, and values at scales from that of the steps down to a few roundings of x show all
that the noise lets anyone see. Where noise hides a structure, the slope rests on the assumption that f is smooth there.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcli.numerics.extrapolation import FAR, SAFETY, USEFUL, Difference, chosen, swept
from gradcli.numerics.line import ALL_EXPONENTS, Line
from gradcli.numerics.noise import EPS, left_over

PROBES = 8  # values between the steps and the roundings of x
RESOLVING = 2 * len(ALL_EXPONENTS) + 12  # calls of the steps of all scales, those of the noise among them
_ASKED, _WINDOWS = 6, 4  # entries of the output, and intervals of each, that are looked at for jumps
_BETWEEN = (0.0, 0.08, 0.21, 0.38, 0.46, 0.63, 0.79, 0.91, 1.0)  # of an interval: places that show how rough it is
_CLEAR = 16.0  # times the roughness: what is further from the slope leaves it smoothly
_FIT = 5  # places, at least, that a cubic and what it leaves need
_HALVINGS = 70  # of an interval, until its ends are neighbouring numbers
_JUMP = 8.0  # times the noise: neighbouring numbers whose values differ more have a jump between them
_MANY = 30  # jumps that an interval may have
_STEEP = 7  # halvings after which what is merely steep has lost all but a hundredth of its height
_LADDER = 16  # places between the roundings of x and those where noise was seen
_LOOKING = 28 + _HALVINGS + 9 * _WINDOWS  # calls, of one entry
_LEAST = 8  # spacings of x: of what is nearer, rounding shows no less than the whole slope
_STRANGE = 8.0  # times the noise that was measured: what differs more is structure
_NOISIER = 4.0  # times the rounding near x: noise around it that may be structure
_SUSPECT = 5.0  # times the noise that is known: what differs more from the parabola through the steps is looked at
_INSIDE = 0.3  # of a step: nearer values lie on the parabola through its ends
_ULPS = (-8, -5, -2, 2, 5, 8), (-64, -41, -19, 19, 41, 64)  # spacings of x: where rounding alone is left, or structure
_NEIGHBOURS = 3  # steps over which a slope must be the same, about
_LEVEL = 0.2  # of a slope: what it may change over these
_WIDER = 10.0  # times the steps of the finer slope
PLATEAU = 0.1  # of the distance of two slopes: a bound that is wider is none of a second one


def rounding_near(values: Callable[[float], Any], at: Any, ulp: float) -> Any:
    """Return the noise a few roundings of x away.

    It is the least of two windows: a structure that fits into the wider one is smooth in the narrower. Cost: 12 calls.
    """
    found = []
    for window in _ULPS:
        known = [(t, y) for t, y in ((k * ulp, np.asarray(values(k * ulp))) for k in window) if np.all(np.isfinite(y))]
        if len(known) >= _FIT:
            found.append(left_over([0.0, *(t for t, _ in known)], np.stack([at, *(y for _, y in known)])))
    return np.min(found, axis=0) if found else EPS * np.abs(at)


def rough_part(line: Line, seen: Any) -> Any:
    """Return how much of the noise that was seen around x is none of a structure: it is there near x, or f is a staircase.

    A staircase is level near x; what has a slope there and jumps further off is teeth, whose slopes are to be told apart.

    Cost  none where the noise is that of rounding the value; else 28 calls, and up to 106 for each of six entries of the output.
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
    """Return the slope of the nearest values, of as many as lie on a line but for noise, and how far these reach."""
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
    """Return how far the slope near x may be off, where values nearer to x than the steps do not fit them; else 0.

    Cost  8 calls.
    """
    inside = _INSIDE * np.min(found.h, where=np.isfinite(found.h), initial=np.inf)
    for t in _probes(line, inside, _LEAST * line.ulp(scale)):
        line(t)
    return _off(line, found, noise, _SUSPECT)


def _off(line: Line, found: Difference, noise: Any, often: float) -> Any:
    """Return how far the slope near x may be off by the known values nearer to x than the steps; 0 where these fit.

    It is that of the nearest value that noise does not explain: of nearer ones, noise hides how steep they are.
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
    """Return places on both sides in turn, from the steps to the roundings of x; uneven, so that no wave fits them."""
    if not least < inside < np.inf:
        return []
    ladder = (np.arange(PROBES) + np.array([0.0, 0.13, -0.11, 0.07, -0.08, 0.12, -0.05, 0.0])) / (PROBES - 1)
    sizes = inside * (least / inside) ** ladder
    return [line.place(float(t)) for t in dict.fromkeys(sizes * (-1.0) ** np.arange(PROBES))]


def moved(line: Line, found: Difference) -> Any:
    """Return how much the function moves to either side over the steps of a difference, by the step: at least the slope."""
    return np.abs(found.value) + np.where(np.isfinite(found.h), np.abs(_bends(line, found)[0]) * found.h / 2, 0.0)


def _bends(line: Line, found: Difference) -> tuple[Any, Any, Any]:
    """Return the second derivative over the steps of a difference, by how much it is another over wider steps, and how
    far the slope over the steps is from the difference.
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
    """Return the second and the first derivative by the values a step to both sides, or to one where the other is missing."""
    up, down = line(h), line(-h)
    ahead, behind = (up - line.at) / h, (line.at - down) / h
    one = 2 * np.where(np.isfinite(ahead), ahead - found.value, found.value - behind)
    both = np.isfinite(ahead + behind)
    return np.where(both, ahead - behind, one) / h, np.where(both, (ahead + behind) / 2, found.value)


def resolved(line: Line, coarse: Difference, doubtful: Any, scale: float, floor: Any) -> Difference:
    """Return the slope by steps of all scales, beside the one by the wider steps where the two contradict each other.

    The finer one is the derivative where the function is smooth between the scales. Where it jumps there, it rounds
    inside: then the steps that cross many jumps show its slope, and the jumps are their noise.

    Error   where structure is seen that is too fine to be resolved, the bound is as wide as its slope may be.
    Cost    72 calls at most, and up to 106 for each of six entries of the output.
    """
    if not line.affords(RESOLVING) or not np.any(doubtful):
        return coarse
    sigma = np.maximum(rounding_near(lambda t: line(line.place(t)), line.at, line.ulp(scale)), floor)
    h = line.steps(scale, ALL_EXPONENTS)
    fine = swept(line, h[h > 0], sigma, FAR)  # of many more steps, some are far off by chance
    distance = np.abs(fine.value - coarse.value)
    apart = np.isfinite(fine.bound) & (distance > fine.bound + coarse.bound)
    blunt = ~(coarse.bound <= USEFUL * np.abs(coarse.value))
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
    """Return a difference with the slope over wider steps beside it, where three neighbouring ones have the same, about.

    It is the same to both sides too: beside a kink, the mean of its two slopes is no slope of f.
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
    """Return which entries leave the slope smoothly, and the noise of each: of those that leave it by jumps, these too.

    They leave it where they are beside its parabola by more than noise explains; a slope that was measured by the finest
    steps, by more than `steep` times the distance. Of many entries, a few show what the others do.
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
    """Return whether an entry leaves its slope smoothly, if at all, and its noise."""
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
    """How far the values at b are from a slope, how far where the slope does not explain it, their rounding; a is before b."""

    a: float
    b: float
    off: Any
    apart: Any
    rounding: Any


def _departures(line: Line, found: Difference, finer: Any, steep: Any) -> Iterator[_Departure]:
    """Yield how all known values depart from a slope, the nearest first."""
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
    """Whether an entry jumps between two places: halved until they are neighbours, it is as high there as a little before.

    Cost  70 calls at most; about 10 where it does not jump.
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
    """Return how rough values between two places are: a jump between them is rough, what is as wide as they is smooth."""
    a = a or b / 3
    places = [line.exact(a + (b - a) * u) for u in _BETWEEN]
    known = [(t, y) for t, y in ((t, line(t)) for t in dict.fromkeys(places)) if np.all(np.isfinite(y))]
    if len(known) <= _FIT:
        return np.full(line.at.shape, np.inf)
    return left_over([t for t, _ in known], np.stack([y for _, y in known]))
