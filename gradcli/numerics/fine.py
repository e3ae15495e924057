"""Structure of a function that is finer than the steps of a difference: seen by a few values, and resolved where it can be.

A structure of width w that changes the slope at x by d moves f by d t at t < w. So one value near x shows every wider
structure whose d t is above the noise, and values at scales from that of the steps down to a few roundings of x show all
that the noise lets anyone see. Where noise hides a structure, the slope rests on the assumption that f is smooth there.
"""

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gradcli.numerics.extrapolation import SAFETY, USEFUL, Difference, chosen, swept
from gradcli.numerics.line import ALL_EXPONENTS, Line
from gradcli.numerics.noise import EPS, left_over

PROBES = 8  # values between the steps and the roundings of x
RESOLVING = 2 * len(ALL_EXPONENTS) + 12  # calls of the steps of all scales, those of the noise among them
_JUMPS = 6  # entries of the output that are searched for a jump, of up to 70 calls each
_LEAST = 8  # spacings of x: of what is nearer, rounding shows no less than the whole slope
_HALVINGS = 70  # of an interval, until its ends are neighbouring numbers
_STRANGE = 8.0  # times the noise that was measured: what differs more is structure
_SUSPECT = 5.0  # times the noise that is known: what differs more from the parabola through the steps is looked at
_MANY = 30  # jumps that an interval may have
_JUMP = 8.0  # times the noise: neighbouring numbers whose values differ more have a jump between them
_INSIDE = 0.3  # of a step: nearer values lie on the parabola through its ends
_ULPS = (-8, -5, -2, 2, 5, 8), (-64, -41, -19, 19, 41, 64)  # spacings of x: where rounding alone is left, or structure
_STEEP = 7  # halvings after which what is merely steep has lost all but a hundredth of its height
_NEIGHBOURS = 3  # steps over which a slope must be the same, about
_LEVEL = 0.2  # of a slope: what it may change over these
_WIDER = 10.0  # times the steps of the finer slope
PLATEAU = 0.1  # of the distance of two slopes: a bound that is wider is none of a second one


def rounding_near(values: Callable[[float], Any], at: Any, ulp: float) -> tuple[Any, Any]:
    """Return the noise a few roundings of x away, and whether all values there are equal.

    It is the least of two windows: a structure that fits into the wider one is smooth in the narrower. Cost: 12 calls.
    """
    found, flat = [], np.ones(np.shape(at), dtype=bool)
    for window in _ULPS:
        places = [k * ulp for k in window]
        known = [(t, y) for t, y in ((t, np.asarray(values(t), dtype=float)) for t in places) if np.all(np.isfinite(y))]
        flat &= np.all([y == at for _, y in known], axis=0) if known else False
        if len(known) > 4:
            found.append(left_over([0.0, *(t for t, _ in known)], np.stack([at, *(y for _, y in known)])))
    return (np.min(found, axis=0) if found else EPS * np.abs(at)), flat


def rough_part(line: Line, seen: Any) -> Any:
    """Return how much of the noise that was seen around x is none of a smooth structure: it is there near x, or f jumps.

    Cost  none where the noise is that of rounding the value; else 12 calls, and up to 140 for each entry of the output
          that is searched for a jump.
    """
    known = EPS * np.abs(line.at)
    if not line.affords(RESOLVING + 2 * _HALVINGS) or not np.any(seen > _STRANGE * known):
        return seen
    ulp = line.ulp(1.0)
    sigma, flat = rounding_near(lambda t: line(line.place(t)), line.at, ulp)
    known = np.maximum(sigma, known)
    smoother = seen > _STRANGE * known
    near = [t for t in line.seen if abs(t) <= 64 * ulp and np.all(np.isfinite(line.seen[t]))]
    if not np.any(smoother) or len(near) < 3:
        return seen
    slope = np.polyfit(near, np.stack([line.seen[t] - line.at for t in near]).reshape(len(near), -1), 1)[0]
    found = Difference(slope.reshape(line.at.shape), np.zeros(line.at.shape), np.zeros(line.at.shape))
    return np.where(_smooth(line, found, smoother, known, 0.0, flat), known, seen)


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
        y, size = line.seen[t], abs(t)
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
    Cost    72 calls at most, and 70 for each entry of the output that is searched for a jump.
    """
    if not line.affords(RESOLVING) or not np.any(doubtful):
        return coarse
    sigma, flat = rounding_near(lambda t: line(line.place(t)), line.at, line.ulp(scale))
    sigma = np.maximum(sigma, floor)
    h = line.steps(scale, ALL_EXPONENTS)
    fine = swept(line, h[h > 0], sigma)
    distance = np.abs(fine.value - coarse.value)
    apart = np.isfinite(fine.bound) & (distance > fine.bound + coarse.bound)
    blunt = ~(coarse.bound <= USEFUL * np.abs(coarse.value))
    finer = doubtful & (apart | (blunt & (fine.bound < coarse.bound)))
    plain = chosen(finer, fine, coarse)
    smooth = _smooth(line, plain, doubtful, sigma, np.where(apart, distance / 3, 0.0), flat)
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


def _smooth(line: Line, found: Difference, entries: Any, sigma: Any, other: Any, flat: Any) -> Any:
    """Return which entries do not jump where their values leave the slope; of many, a few show what the others do.

    They leave it where they are beside it by more than the noise, and by a part of what would be `other` slopes' values.
    """
    smooth = np.array(entries & ~flat)
    asked = list(map(tuple, np.argwhere(smooth)))
    for k in asked[:_JUMPS]:
        slope, noise, steep = (float(np.broadcast_to(part, smooth.shape)[k]) for part in (found.value, sigma, other))
        smooth[k] = not jumps(functools.partial(_entry, line, k), slope, noise, steep, line)
    if len(asked) > _JUMPS and not any(smooth[k] for k in asked[:_JUMPS]):
        smooth[...] = False
    return smooth


def _entry(line: Line, k: tuple[int, ...], t: float) -> float:
    return float(line(t)[k])


def jumps(f: Callable[[float], float], slope: float, noise: float, steep: float, line: Line) -> bool:
    """Whether f jumps between neighbouring numbers, at the place nearest to 0 where it leaves its slope there.

    Cost  70 calls at most on each side, by halving; about 10 where it does not jump.
    """
    for side in (1.0, -1.0):
        a = 0.0
        for b in sorted((t for t in line.seen if t * side > 0), key=abs):
            if abs(f(b) - f(0.0) - slope * b) > max(_STRANGE * noise, steep * abs(b)):
                if _jumps_between(f, a, b, slope, noise, line):
                    return True
                break
            a = b
    return False


def _jumps_between(f: Callable[[float], float], a: float, b: float, slope: float, noise: float, line: Line) -> bool:
    """Halve an interval until its ends are neighbours: there, a jump is as high as it was some halvings before."""
    low, high = f(a), f(b)
    heights = [abs(high - low - slope * (b - a))]
    for _ in range(_HALVINGS):
        middle = line.exact((a + b) / 2)
        if middle in (a, b) or not heights[-1] > _JUMP * noise:
            break
        y = f(middle)
        first, second = abs(y - low - slope * (middle - a)), abs(high - y - slope * (b - middle))
        if first >= second:
            b, high = middle, y
        else:
            a, low = middle, y
        heights.append(max(first, second))
    last, before = heights[-1], heights[-_STEEP:][0]
    return len(heights) > 2 and last > max(_JUMP * noise, heights[0] / _MANY, before / 2)
