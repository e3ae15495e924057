"""Compare a gradient with differences of the untouched function, which need no rules and no trace."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gradcli.checks.evidence import DirectionalCheck
from gradcli.modes.certified import certified_difference
from gradcli.modes.mode import Question
from gradcli.modes.rounding import EPS
from gradcli.modes.steps import QUICK, Line, derivative, quick_derivative
from gradcli.request.point import Array, Estimate
from gradcli.targets.derived import either_way
from gradcli.tracing.shapes import all_finite, blocks, part_of, shape, size

_DIRECTIONS = 4  # along which a gradient is compared with one-sided slopes
_JUMP = 1e-2  # relative to the slopes: a smaller difference of the one-sided slopes is no kink
_SHRINKING = (1e-6, 1e-9, 1e-12)  # steps over which a slope that is infinite keeps growing
_SHARP = 1e-7  # relative to the slope: a bound this small is good enough
_SUMMED = 1e-14  # of the sum of all contributions: the rounding of the sum <g, v>
_SHARP_FOR_RULES = 1e-3  # relative to all contributions: the same if the trace was tested, and only rules can be wrong


def directional(q: Question, gradient: Estimate, balls: bool = False) -> DirectionalCheck:
    """Compare a gradient with function values along one random direction, in proportion to the entries.

    With `balls`, it is also compared with a difference of the recorded program in balls, where that can be run in blocks.

    Cost  6 evaluations of the untouched function if it is smooth or its trace was tested, else 35 more; none beyond the
          budget. In balls 2 evaluations.
    """
    most = (q.stepping.budget or np.inf) - 2 * len(QUICK)
    if most < 0:
        return DirectionalCheck(None, 0.0, 0)
    weights = either_way(np.random.default_rng([q.seed, 0xD1EC]), shape(q.value))
    moved = [w * np.maximum(np.abs(x), 1e-3) for w, x in zip(q.weights, q.xs, strict=True)]
    vs = [np.where(mask, 0.0, v) if np.any(mask) else v for v, mask in zip(moved, q.undecided, strict=True)]

    def phi(t: float) -> float:
        return float(np.sum(weights * q.near(*[x + t * v for x, v in zip(q.xs, vs, strict=True)])))

    with np.errstate(all="ignore"):
        along, scale, rounding = _along(q, gradient, weights, vs)
        found = quick_derivative(phi, q.noise_floor)
        confirmed = q.trace_test.agrees and abs(float(found.value) - along) <= float(found.bound) + rounding
        if not found.bound <= (_SHARP_FOR_RULES * scale if confirmed else _SHARP * abs(found.value)):
            found = derivative(Line(phi, at=np.sum(weights * q.value), most=most))
        bound = float(found.bound) + rounding
        distance = abs(float(found.value) - along)
    relative_bound = bound / scale if scale else 0.0
    if not np.isfinite(distance) or not np.isfinite(bound) or relative_bound > 1e-2:
        return DirectionalCheck(None, relative_bound, found.calls)
    displacements = dict(zip(q.wrt, vs, strict=True)) if shape(q.value) == () else {}
    seen = DirectionalCheck(distance <= 3 * bound, relative_bound, found.calls, bound, displacements)
    exact = certified_difference(q, vs, scale) if balls and seen.agrees and scale > 0 else None
    if exact is None:
        return seen
    finer = abs(float(weights)) * float(exact.bound) + rounding + _SUMMED * scale
    if not finer < bound:  # the values of f meet each other in it again and again: its balls are wide
        return seen
    agrees = abs(float(weights * exact.value) - along) <= 3 * finer
    return replace(seen, agrees=agrees, relative_bound=finer / scale, in_balls=True)


def _along(q: Question, gradient: Estimate, weights: Array, vs: Sequence[Array]) -> tuple[float, float, float]:
    """Return <g, v>, the sum of the sizes of its terms, and how far rounding may move it, in g and in f."""
    along, scale, rounding = 0.0, 0.0, 0.0
    knows_f = q.untraced is None and q.affords_slopes
    for name, v in zip(q.wrt, vs, strict=True):
        step = weights * v if shape(q.value) == () else np.reshape(weights, shape(q.value) + (1,) * np.ndim(v)) * v
        g, bound = (np.broadcast_to(x, shape(step)) for x in (gradient.value[name], gradient.bound[name]))
        own = q.rounding[name] if knows_f else 0.0  # rounding of f, in addition to the bound of the gradient
        for part in blocks(size(step)):
            g_, step_, bound_, own_ = (part_of(x, part) for x in (g, step, bound, own))
            terms = (g_ if all_finite(g_) else np.where(np.isfinite(g_), g_, 0.0)) * step_
            along += float(np.sum(terms))
            scale += float(np.sum(np.abs(terms)))
            rounding += float(np.sum(np.abs((bound_ + own_) * step_)))
    return along, scale, rounding


def kink_at(q: Question, name: str, at: tuple[int, ...]) -> str | None:
    """Return in words the kink that function values show at one entry; None if the one-sided slopes meet as steps shrink."""
    wide, fine = (one_sided(q, name, at, step) for step in (1e-4, 1e-6))
    jump, before = abs(fine[1] - fine[0]), abs(wide[1] - wide[0])
    size = max(abs(fine[0]), abs(fine[1]))
    if not jump > _JUMP * size or not 0.5 * before < jump < 2 * before or not np.isfinite(jump):
        return None
    entry = f"{name}[{','.join(map(str, at))}]" if at else name
    return f"f has a kink at {entry}: its slope is {slopes_in_words(q, name, at)}"


def slopes_in_words(q: Question, name: str, at: tuple[int, ...]) -> str:
    """Return the slopes on both sides of one entry; one that grows without bound as the steps shrink is infinite."""
    slopes = [one_sided(q, name, at, step) for step in _SHRINKING]
    noise = 10 * EPS * abs(float(q.value)) / _SHRINKING[-1]
    found = []
    for side, word in ((0, "left"), (1, "right")):
        wide, middle, fine = (pair[side] for pair in slopes)
        more = abs(fine - middle) > max(abs(middle - wide) / 2, _JUMP * abs(fine), noise)
        infinite = more and abs(fine) > abs(middle) > abs(wide)
        found.append(f"{'infinite' if infinite else f'{wide:.5g}'} from the {word}")
    return " and ".join(found)


def kink_along(q: Question, gradient: Estimate) -> str | None:
    """Return in words a kink: a direction whose slope, even over short steps, is not what the gradient says; else None.

    Partial derivatives can exist where f has no gradient, for example those of `sqrt(abs(x*y))` at the origin.

    Cost  16 evaluations of f, 4 for each of 4 directions.
    """
    rng = np.random.default_rng([q.seed, 0xD1A6])
    for _ in range(_DIRECTIONS):
        vs = [either_way(rng, shape(x)) * np.maximum(1.0, np.abs(x)) for x in q.xs]
        terms = [gradient.value[name] * v for name, v in zip(q.wrt, vs, strict=True)]
        along, largest = (sum(float(np.sum(part(t))) for t in terms) for part in (np.positive, np.abs))
        apart = []
        for h in (1e-4, -1e-4, 1e-6, -1e-6):
            slope = (float(q.near(*(x + h * v for x, v in zip(q.xs, vs, strict=True)))) - float(q.value)) / h
            apart.append(abs(slope - along))
            largest = max(largest, abs(slope))
        wide, fine = max(apart[:2]), max(apart[2:])
        if np.isfinite(fine) and fine > max(wide / 2, _JUMP * largest):
            return (
                f"f has a kink: along a direction its slope differs from that of its partial derivatives by {fine:.2g}"
            )
    return None


def one_sided(q: Question, name: str, at: tuple[int, ...], step: float = 1e-6) -> tuple[float, float]:
    """Return the slopes of a scalar f to the left and to the right of one entry, by differences without an error bound."""
    k = q.wrt.index(name)
    h = step * max(1.0, abs(float(np.asarray(q.xs[k])[at])))
    values = []
    for t in (-h, 0.0, h):
        moved = np.array(q.xs[k])
        moved[at] += t
        values.append(float(q.near(*q.xs[:k], moved[()], *q.xs[k + 1 :])))
    return (values[1] - values[0]) / h, (values[2] - values[1]) / h
