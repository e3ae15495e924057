"""How far rounding can have carried a float64 gradient at one point: by balls of 53 bits, or by shaken runs."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from gradcli.core.shapes import is_plain, shape, size
from gradcli.errors import NotSupported, Undecided
from gradcli.interpreters.shake import SIZE, Shake, shaken
from gradcli.modes.lapack import factored
from gradcli.modes.recording import Recording
from gradcli.numerics.jacobians import directions, stacked
from gradcli.numerics.rounding import EPS, ULPS, rounding_bounds
from gradcli.point import Array

_WIDE = 1e-11  # relative: a wider radius may be that of values that meet themselves in balls, not of rounding
SAFETY = 16.0  # from what shaken runs moved to what any order of operations may have done
_TYPICAL = 0.9  # the quantile of relative movements that every entry is granted
_CANCELLED = 1e-8  # of the largest slope: smaller ones may be what rounding left of zero, and move by all they are
_RUNS = ((60_000, 8), (400_000, 2))  # scalar operations of the function, and how often its sweep is shaken; once beyond
_MANY = 1000  # entries, among which one run shows what is typical
_SAMPLE = 1000  # entries that show what is typical of more


def rounding_of(q: Recording, kernels: bool) -> tuple[dict[str, Array], bool]:
    """Return what rounding can have done to each entry of our float64 gradient, and whether balls of 53 bits bound it.

    With `kernels`, for the partials as gradcli computes them; else for the textbook's.

    Error   by balls a bound, up to a few ulps; where balls are too dear, or know nothing because values meet
            themselves again, or matrices are factored, an estimate: what runs did whose every operation was off by
            one rounding.
    """
    radii = _by_balls(q, kernels)
    known = not factored(q.lines)
    if radii is not None and known and not any(np.any(wide) for wide in _wide(q, radii)):
        return _bounds(q, radii), True
    moved = by_shaking(q, kernels)
    if radii is not None:
        both = zip(radii, moved, _wide(q, radii), strict=True)
        moved = [np.where(wide, np.minimum(r, m), r if known else np.maximum(r, m)) for r, m, wide in both]
    return _bounds(q, moved), False


def _wide(q: Recording, radii: list[Array]) -> list[Any]:
    """Return which radii are wide beside their slope, slopes that cancel out aside."""
    return [r > _WIDE * np.abs(q.slopes[name]) + EPS * _largest(q) for r, name in zip(radii, q.wrt, strict=True)]


def _largest(q: Recording) -> float:
    return max((float(np.max(np.abs(q.slopes[name]), initial=0.0)) for name in q.wrt), default=0.0)


def _bounds(q: Recording, spread: list[Array]) -> dict[str, Array]:
    return {
        name: np.asarray(2 * s + ULPS * np.abs(q.slopes[name]) + 1e-320)[()]
        for name, s in zip(q.wrt, spread, strict=True)
    }


def _by_balls(q: Recording, kernels: bool) -> list[Any] | None:
    if not q.affords_balls:
        return None
    try:
        q.balls[53], radii = rounding_bounds(q.g, q.xs, kernels)
    except (Undecided, NotSupported):
        return None
    return radii if all(np.all(np.isfinite(r)) for r in radii) else None


def by_shaking(q: Recording, kernels: bool, rough: Mapping[str, float] = {}) -> list[Array]:
    """Return how far each entry of the gradient moves in runs whose every operation is off by one rounding.

    `rough` names operations that may be off by more, and by how many ulps.

    Shapes  one array for each input, as our Jacobian.
    Source  Parker (1997), Monte Carlo arithmetic; Vignes (1993), the CESTAC method.
    """
    program = q.recording
    if size(q.value) > sum(size(x) for x in q.xs) or not all(map(is_plain, program.tape.values)):
        most = max(8.0, *rough.values(), 0.0)
        return [most * EPS * np.sqrt(len(program.lines)) * np.abs(q.slopes[name]) for name in q.wrt]
    runs = 1 if q.entries >= _MANY else next((n for limit, n in _RUNS if q.work < limit), 1)
    moved = [np.zeros(shape(q.slopes[name])) for name in q.wrt]
    for run in range(runs if program.moves else 0):
        looser = {name: Shake(q.seed + run, ulps) for name, ulps in rough.items()}
        again = shaken(program, Shake(q.seed + run), kernels, looser)
        rows = [again.pull(seed) for seed in directions(q.value)]
        for k, name in enumerate(q.wrt):
            found = np.abs(stacked(rows, q.value, k, q.xs[k]) - q.slopes[name])
            np.maximum(moved[k], np.where(np.isfinite(found), found, 0.0), out=moved[k])
    least = EPS / SAFETY * _largest(q)  # what is zero by our order of operations need not be by another
    return [np.maximum(_granted(m, np.abs(q.slopes[name])), least) for m, name in zip(moved, q.wrt, strict=True)]


def _granted(moved: Array, slopes: Array) -> Array:
    """Return the movement of each entry, at least that of nearly all others of its size: few runs may miss an entry."""
    least = _CANCELLED * np.max(slopes, initial=0.0)
    every = max(1, slopes.size // _SAMPLE)
    some_moved, some = moved.reshape(-1)[::every], slopes.reshape(-1)[::every]
    used = some > least
    ratios = some_moved[used] / some[used]
    place = int(_TYPICAL * (ratios.size - 1) + 0.5)
    typical = float(np.partition(ratios, place)[place]) if ratios.size else 0.0
    return np.asarray(SAFETY / SIZE * np.maximum(moved, typical * slopes))
