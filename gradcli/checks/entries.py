"""Whether two estimates agree, entry by entry."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.request.point import Array, Estimate
from gradcli.tracing.shapes import all_finite, largest, mapped, part_of
from gradcli.words import Agreement

AGREE, CANNOT_TELL, DISAGREE = np.int8(0), np.int8(1), np.int8(2)  # verdicts of entries; a larger number is worse
WORDS: tuple[Agreement, ...] = ("agree", "cannot tell", "disagree")
NEAR_ZERO = 1e-6  # relative to the largest entry: smaller entries are compared as if they were this large
USEFUL = 1e-3  # a bound wider than this, relative to the entry, decides nothing
USEFUL_SOLVER = 0.01  # the same where f calls a solver, whose tolerance bounds what can be known
USEFUL_NARROW = 1.0  # the same for formats of few digits, relative to the largest entry: one that is missing is seen
USEFUL_VALUES = 0.01  # the same where the bound is that of differences, which no format excuses
UNRESOLVED = 0.5  # an entry known to be different from zero is not confirmed by a bound half its size
DOUBT = 3.0  # between one and three bounds, an estimated bound cannot tell


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Tolerances that the user gave; they only loosen what the bounds grant.

    Units  `rtol` relative to the reference, `atol` in units of the gradient.
    """

    rtol: float = 0.0
    atol: float = 0.0


def allowed(a: Estimate, b: Estimate, name: str, fixed: Tolerance | None, part: slice | None = None) -> Array:
    """Return the allowed difference of two correct estimates of one input: the sum of their bounds, or the user's tolerance.

    Shapes  the shape of the estimates' values: of the output, then of the input; flat for a `part` of the entries.
    Units   in units of the gradient.
    """
    own, bound, value = a.bound[name], b.bound[name], b.value[name]
    if part is not None:
        own, bound, value = (part_of(x, part) for x in (own, bound, value))
    room = np.asarray(own) + np.asarray(bound)
    return room if fixed is None else np.maximum(room, asked(fixed, value))


def asked(fixed: Tolerance | None, value: Array) -> Array:
    """Return the difference from the values of the reference that the user tolerates."""
    return np.zeros(np.shape(value)) if fixed is None else fixed.atol + fixed.rtol * np.abs(value)


def scale_of(right: Estimate, xs: Iterable[Array], value: Array) -> float:
    """Return the absolute value below which entries of a gradient count as zero, at inputs `xs` with the value of f."""
    entries = max((largest(v) for v in right.value.values()), default=0.0)
    x = max(map(largest, xs), default=0.0)
    return NEAR_ZERO * max(entries, largest(value) / max(x, 1.0))


def entrywise(
    a: Estimate,
    b: Estimate,
    name: str,
    scale: float,
    fixed: Tolerance | None = None,
    useful: float = USEFUL,
    doubt: float = DOUBT,
) -> Any:
    """Return the verdict of each entry of one input; `b` is the reference.

    `useful` is the bound, relative to an entry, beyond which values that are not equal decide nothing. A difference of up to
    `doubt` bounds decides nothing if one of them is estimated. A fixed tolerance turns verdicts towards agreement alone: an
    entry agrees if it lies within the tolerance wherever the reference is within its bound, and disagrees only if it lies
    outside wherever that is.

    Shapes  as the estimates' values.
    Units   `scale` is the absolute value below which an entry of the gradient counts as zero.
    """
    x, y = np.asarray(a.value[name]), np.asarray(b.value[name])
    if a is b:
        return mapped(_known, np.int8, y, b.bound[name])
    top = max(largest(y), scale) if a.narrow else 0.0

    def words(x: Array, y: Array, bound: Array, own: Array, solvers: Array) -> Any:
        """Return the verdicts of some entries, given the values, the bounds of both estimates, and what solvers make of them."""
        room = bound + own
        distance = np.abs(x - y)
        close = distance <= room
        verdict = np.zeros(close.shape, np.int8) if np.all(close) else np.where(close, AGREE, DISAGREE)
        size = np.abs(y)
        if a.narrow:
            wide = room > USEFUL_NARROW * top
            if b.statistical:
                wide |= own > USEFUL_VALUES * top
        else:
            wide = room > useful * np.maximum(size, scale)
            wide |= (room > UNRESOLVED * size) & (size > own)
        if np.any(wide):  # two equal values agree, unless the bound is as wide as the slopes of f
            unequal = (distance > 0) | (room > USEFUL * scale / NEAR_ZERO if scale else False)
            verdict[...] = np.where(close & wide & unequal, CANNOT_TELL, verdict)
        if (a.statistical or b.statistical) and not np.all(close):
            doubtful = room + (doubt - 1.0) * np.maximum(room - solvers, 0.0)
            verdict[...] = np.where(~close & (distance <= doubtful), CANNOT_TELL, verdict)
        if fixed is not None:
            tolerated = asked(fixed, y)
            verdict[...] = np.where((verdict == DISAGREE) & (distance - own <= tolerated), CANNOT_TELL, verdict)
            verdict[...] = np.where(distance + own <= tolerated, AGREE, verdict)
        if all_finite(distance) and all_finite(room):
            return verdict
        return np.where(np.isfinite(distance) & np.isfinite(room), verdict, CANNOT_TELL)

    with np.errstate(all="ignore"):
        solvers = np.asarray(a.solvers.get(name, 0.0)) + b.solvers.get(name, 0.0)
        return mapped(words, np.int8, x, y, a.bound[name], b.bound[name], solvers)


def _known(value: Array, bound: Array) -> Any:
    """Return the verdicts on an estimate beside itself: it agrees where it and its bound are finite."""
    return np.where(np.isfinite(value) & np.isfinite(bound), AGREE, CANNOT_TELL)


def word_of(verdicts: Iterable[Any]) -> Agreement:
    """Return the worst of many verdicts in words."""
    return WORDS[max((int(np.max(v, initial=AGREE)) for v in verdicts), default=0)]
