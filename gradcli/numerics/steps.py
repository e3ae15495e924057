"""Central differences that choose their own step and state their own error."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.numerics.noise import EPS, left_over, near, noise

RATIO = np.sqrt(10.0)
LEVELS = 3  # of Richardson's extrapolation: errors of order h^4, h^6, h^8
EXPONENTS = np.arange(13) / 2 + 1  # h from 1e-1 to 1e-7 of the scale
_SHARP = 1e-9  # a relative bound that needs no better one
_NEAREST = 3  # steps that are as small as the noise is sampled at
HIDDEN = 0.02  # noise above this part of all the function moved decides nothing
SAFETY = 3.0  # the spread of extrapolants and the noise are estimates; right derivatives must lie inside


@dataclass(frozen=True, slots=True)
class Difference:
    """A derivative by differences: value, error bound (estimated), the step used, and calls of phi."""

    value: Any
    bound: Any
    h: Any
    calls: int


def derivative(phi: Callable[[float], Any], x: float, typical: float, floor: float = 0.0) -> Difference:
    """Estimate phi'(0), where phi(t) moves one entry that has the value x by t.

    Shapes  as phi's values; each entry of the output takes its own step.
    `floor` is noise known to be there even where neighbouring values do not show it (a staircase of rounding).

    Units   `typical` is the size of the other entries; steps are tried on the scale of |x| and on max(1, typical).
    Error   spread of three neighbouring extrapolants plus noise / h, or the contradiction of smaller steps, times a
            safety factor; estimated, not proved.
    Cost    35 calls, 70 where the scales differ and the first one's bound is wide.
    Source  Moré and Wild (2012), Estimating derivatives of noisy simulations; Richardson's extrapolation.
    """
    first, *wider = _scales(x, typical)
    best = _on_scale(phi, x, first, floor)
    for scale in wider:  # only where it is needed: a wide step may leave the domain of the function
        if np.all(best.bound <= _SHARP * np.abs(best.value)):
            break
        best = _better(best, _on_scale(phi, x, scale, floor))
    return best


QUICK = 10.0 ** -np.array([2.0, 2.5, 3.0])


def quick_derivative(phi: Callable[[float], Any], floor: float) -> Difference:
    """Estimate phi'(0) of a tame phi on the scale of one, with an error bound that is large where it is not tame.

    Error   what two steps of Richardson's extrapolation differ by, plus `floor`, the known noise, over the step.
    Cost    6 calls.
    """
    slopes = [(phi(h) - phi(-h)) / (2 * h) for h in QUICK]
    first = [fine + (fine - coarse) / (RATIO**2 - 1) for coarse, fine in itertools.pairwise(slopes)]
    second = first[1] + (first[1] - first[0]) / (RATIO**4 - 1)
    bound = SAFETY * (abs(second - first[1]) + abs(first[1] - first[0]) / RATIO**4 + 3 * floor / QUICK[-1])
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


def _better(a: Difference, b: Difference) -> Difference:
    """Return, entry by entry, the one with the smaller bound; where they contradict each other, `a`, of smaller steps."""
    apart = np.abs(a.value - b.value) > a.bound + b.bound
    first = (a.bound <= b.bound) | (apart & np.isfinite(a.bound))
    value, bound, h = (np.where(first, x, y) for x, y in ((a.value, b.value), (a.bound, b.bound), (a.h, b.h)))
    return Difference(value, bound, h, a.calls + b.calls)


def _scales(x: float, typical: float) -> list[float]:
    wide = max(1.0, typical)
    if x == 0 or not np.isfinite(x) or wide / 3 < abs(x) < wide * 3:
        return [wide]
    return [abs(x), wide]


def _on_scale(phi: Callable[[float], Any], x: float, scale: float, floor: float) -> Difference:
    values: list[Any] = []
    slopes, steps = [], []
    for exponent in EXPONENTS:
        h = scale * 10.0**-exponent
        up, down = (x + h) - x, x - (x - h)
        values += [np.asarray(phi(up), dtype=float), np.asarray(phi(-down), dtype=float)]
        slopes.append((values[-2] - values[-1]) / (up + down))
        steps.append((up + down) / 2)
    sigma = np.maximum(_noise(phi, scale, values), floor)
    if _hidden(sigma, values):
        nothing = np.full(np.shape(values[0]), np.inf)
        return Difference(slopes[0], nothing, nothing, 2 * len(EXPONENTS) + 9)
    d, h = np.stack(slopes), np.array(steps)
    found = list(_levels(d, h, sigma))
    value, bound, used = (np.concatenate(column) for column in zip(*found, strict=True))
    k = np.argmin(bound, axis=0)[None]
    best = np.take_along_axis(value, k, axis=0)[0]
    calls = 2 * len(EXPONENTS) + 9
    return Difference(
        np.where(np.isfinite(best), best, np.nan), np.take_along_axis(bound, k, axis=0)[0], used[k[0]], calls
    )


def _noise(phi: Callable[[float], Any], scale: float, values: list[Any]) -> Any:
    """Return the noise, from values of its own and those at the smallest steps."""
    places = near(scale)
    nearest = [sign * scale * 10.0**-exponent for exponent in EXPONENTS[-_NEAREST:] for sign in (1, -1)]
    sampled = [np.asarray(phi(t), dtype=float) for t in places]
    return left_over([*places, *nearest], np.stack([*sampled, *values[-2 * _NEAREST :]]))


def _hidden(sigma: Any, values: list[Any]) -> bool:
    """Whether the function moves hardly more than its noise: a wave shorter than every step looks like that."""
    seen = np.stack(values)
    moved, size = np.ptp(seen, axis=0), np.max(np.abs(seen), axis=0)
    return bool(np.all(sigma > np.maximum(HIDDEN * moved, 100 * EPS * size)))


def _levels(d: Any, h: Any, sigma: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Yield, for each level of extrapolation, estimates with their bounds and the smallest step each rests on."""
    column = (-1,) + (1,) * (d.ndim - 1)
    finest = d[1:] + (d[1:] - d[:-1]) / (RATIO**2 - 1)
    fine_rounding = 3 * sigma / h[1:].reshape(column)
    table = d
    for level in range(1, LEVELS + 1):
        table = table[1:] + (table[1:] - table[:-1]) / (RATIO ** (2 * level) - 1)
        triples = np.stack([table[:-2], table[1:-1], table[2:]])
        spread = np.max(triples, axis=0) - np.min(triples, axis=0)
        used = h[level + 1 : -1]
        rounding = 3 * sigma / used.reshape(column)
        apart = _contradiction(table[1:-1], finest[level:], fine_rounding[level:])
        bound = SAFETY * np.maximum(spread + rounding, apart)
        yield table[1:-1], np.where(np.isfinite(bound), bound, np.inf), used


def _contradiction(values: Any, finest: Any, rounding: Any) -> Any:
    """Return how far each estimate is from those of smaller steps, beyond their rounding: steps too wide for f show here."""
    apart = np.zeros_like(values)
    for k in range(len(values)):
        excess = np.abs(values[k] - finest[k + 1 :]) - rounding[k + 1 :]
        apart[k] = np.max(np.where(np.isfinite(excess), excess, 0.0), axis=0, initial=0.0)
    return np.maximum(apart, 0.0)
