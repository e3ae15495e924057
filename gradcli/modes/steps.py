"""Differences that choose their step and estimate their error: a cheap screen first, a sweep if that is not sharp."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcli.modes.extrapolation import (
    FEWEST,
    HIDDEN,
    QUICK,
    SAFETY,
    USEFUL,
    Difference,
    better,
    chosen,
    fixed,
    nothing,
    quick_derivative,
    screened,
    swept,
)
from gradcli.modes.fine_structure import PROBES, moved, resolved, unexplained
from gradcli.modes.line import EXPONENTS, RATIO, Line
from gradcli.modes.noise import EPS, left_over, near, noise

__all__ = [
    "QUICK",
    "SAFETY",
    "SILENT",
    "TAME",
    "Difference",
    "Line",
    "Noise",
    "derivative",
    "quick_derivative",
    "second_derivative",
]

SCREEN = slice(2, 5)  # the screen's steps, 1e-2 to 1e-3: truncation and rounding of a smooth function are 1e-12
WIDE = slice(0, 5)  # the screen's steps and two wider ones, for functions that rounding limits
_SHARP = 1e-9  # a relative bound that is good enough
_CLOSE = 1e-6  # a relative bound that is good enough if noise limits it
_LEAST = 4.0  # roundings of the slope: the least bound, from the rounding of f's values at any step
TAME = 10  # calls for a smooth function: the screen and two wider steps, without the nearer values
SWEEP = 2 * len(EXPONENTS) + 9  # calls, including those for the noise
_NEAREST = 3  # of the smallest steps, whose values also serve to measure the noise


@dataclass(frozen=True, slots=True)
class Noise:
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


SILENT = Noise()


def derivative(
    line: Line, typical: float = 0.0, noise: Noise = SILENT, *,
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
        found = fixed(line, h, np.maximum(noise.floor, noise.seen))
    elif np.isfinite(line.x):
        scales = _scales(line.x, typical, size)
        found = _best(line, scales, noise.floor, noise.seen)
        doubtful = found.kinked | ~np.isfinite(found.bound)
        if looks and line.affords(PROBES):
            useless = ~(found.bound <= USEFUL * moved(line, found)) & ~_limited(found)
            doubtful = doubtful | useless | (unexplained(line, found, scales[0], noise.no_structure) > 0)
        found = resolved(line, found, doubtful, scales[0], noise.floor)
    else:
        found = nothing(line)
    return replace(found, calls=line.calls, bound=np.fmax(found.bound, _LEAST * EPS * np.abs(found.value)))


def _best(line: Line, scales: Sequence[float], floor: Any, seen: Any) -> Difference:
    """Return the sharpest difference of all scales; wider ones are tried only if needed, as they may leave the domain."""
    best = nothing(line)
    for scale in scales:
        found = _on_scale(line, scale, floor, seen)
        best = better(best, found if scale == scales[-1] else _where(found.value != 0, found))
        if np.all(_sharp(best)):
            return best
    edge = line.edge(scales[-1])
    return better(_on_scale(line, edge, floor, seen), best) if edge else best


def _where(convincing: Any, d: Difference) -> Difference:
    """Return the difference with an infinite bound where it is not convincing: tiny steps without any change show little."""
    return replace(d, bound=np.where(convincing, d.bound, np.inf))


SECOND = 10.0 ** -np.arange(1.0, 4.5, 0.5)


def second_derivative(phi: Callable[[float], Any]) -> Difference:
    """Estimate phi''(0) of a scalar phi on the scale of one, by second differences and Richardson's extrapolation.

    Error   the spread of neighbouring extrapolants plus noise / h**2, the smallest such bound; estimated, not proved.
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
    """Whether a bound is good enough: small beside the value, or from rounding if the value is zero."""
    return (d.bound <= _SHARP * np.abs(d.value)) | ((d.value == 0) & _limited(d))


def _limited(d: Difference) -> Any:
    """Whether rounding is most of the bound."""
    return d.bound <= 2 * SAFETY * d.rounding


def _scales(x: float, typical: float, size: float | None) -> list[float]:
    wide = size or max(1.0, typical)
    if x == 0 or not np.isfinite(x) or wide / 3 < abs(x) < (np.inf if size else wide * 3):
        return [wide]
    return [abs(x), wide]


def _on_scale(line: Line, scale: float, floor: Any, seen: Any) -> Difference:
    """Return the difference of the screen where it is sharp, else that of the sweep."""
    if not line.affords(TAME):
        return nothing(line)
    noisy = np.maximum(floor, seen)
    found = screened(line, line.steps(scale)[SCREEN], noisy)
    good = _sharp(found)
    if not np.all(good) and np.all(good | _limited(found)):
        wide = swept(line, line.steps(scale)[WIDE], np.maximum(noisy, EPS * np.abs(line.at)))
        found = chosen(good, found, better(found, wide))
        good = _sharp(found) | (_limited(found) & (found.bound <= _CLOSE * np.abs(found.value)))
    if np.all(good):
        return found
    h = line.steps(scale)
    h, sweep = h[h > 0], nothing(line)
    if len(h) >= FEWEST and line.affords(SWEEP):
        sigma = np.maximum(_noise(line, scale, h), floor)
        if not _hidden(sigma, np.concatenate(line.both(h)), line.at):
            sweep = swept(line, h, sigma)
    return chosen(good, found, sweep)


def _noise(line: Line, scale: float, h: Any) -> Any:
    """Return the noise, from its own samples and the values at the smallest steps; places outside the domain are left out."""
    places = [*near(scale), *(sign * step for step in h[-_NEAREST:] for sign in (1, -1))]
    values = np.stack([line((line.x + t) - line.x) for t in places])
    inside = [k for k in range(len(places)) if np.all(np.isfinite(values[k]))]
    if len(inside) < 6:
        return EPS * np.abs(line.at)
    return left_over([places[k] for k in inside], values[inside])


def _hidden(sigma: Any, seen: Any, at: Any) -> bool:
    """Whether the function changes hardly more than its noise, as a wave that is shorter than every step does."""
    seen = np.where(np.isfinite(seen), seen, at)
    moved, size = np.ptp(seen, axis=0), np.max(np.abs(seen), axis=0)
    return bool(np.all(sigma > np.maximum(HIDDEN * moved, 100 * EPS * size)))
