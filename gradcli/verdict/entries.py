"""Whether two estimates agree, entry by entry."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.point import Array, Estimate
from gradcli.words import Agreement

AGREE, CANNOT_TELL, DISAGREE = np.int8(0), np.int8(1), np.int8(2)  # verdicts of entries; a larger number is worse
WORDS: tuple[Agreement, ...] = ("agree", "cannot tell", "disagree")
NEAR_ZERO = 1e-6  # relative to the largest entry: smaller entries are compared as if they were this large
USEFUL = 1e-3  # a bound wider than this, relative to the entry, decides nothing
USEFUL_ITERATED = 0.05  # the same where f calls a solver with a large tolerance, which bounds what can be known
USEFUL_NARROW = 1.0  # the same for formats of few digits, relative to the largest entry: one that is missing is seen
UNRESOLVED = 0.5  # an entry known to be different from zero is not confirmed by a bound half its size
DOUBT = 3.0  # between one and three bounds, an estimated bound cannot tell


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Fixed tolerances that the user gave, in place of computed bounds.

    Units  `rtol` relative to the reference, `atol` in units of the gradient.
    """

    rtol: float = 0.0
    atol: float = 0.0


def allowed(a: Estimate, b: Estimate, name: str, fixed: Tolerance | None) -> Array:
    """Return the allowed difference of two correct estimates of one input: the sum of their bounds, or the fixed tolerance.

    Shapes  the shape of the estimates' values: of the output, then of the input.
    Units   in units of the gradient.
    """
    if fixed is not None:
        return fixed.atol + fixed.rtol * np.abs(b.value[name])
    return np.asarray(a.bound[name]) + np.asarray(b.bound[name])


def scale_of(right: Estimate, xs: Iterable[Array], value: Array) -> float:
    """Return the absolute value below which entries of a gradient count as zero, at inputs `xs` with the value of f."""
    entries = max((largest(v) for v in right.value.values()), default=0.0)
    x = max((float(np.max(np.abs(x), initial=0.0)) for x in xs), default=0.0)
    return NEAR_ZERO * max(entries, largest(value) / max(x, 1.0))


def largest(x: Array) -> float:
    """Return the largest absolute value of the finite entries, or 0 if there are none."""
    sizes = np.abs(np.atleast_1d(x))
    return float(np.max(sizes[np.isfinite(sizes)], initial=0.0))


def entrywise(
    a: Estimate, b: Estimate, name: str, scale: float, fixed: Tolerance | None = None, useful: float = USEFUL
) -> Any:
    """Return the verdict of each entry of one input; `b` is the reference.

    `useful` is the bound, relative to an entry, beyond which values that are not equal decide nothing.

    Shapes  as the estimates' values.
    Units   `scale` is the absolute value below which an entry of the gradient counts as zero.
    """
    if a is b and fixed is None:
        return np.where(np.isfinite(a.value[name]) & np.isfinite(a.bound[name]), AGREE, CANNOT_TELL)
    room = np.asarray(allowed(a, b, name, fixed))
    x, y = np.asarray(a.value[name]), np.asarray(b.value[name])
    with np.errstate(all="ignore"):
        distance = np.abs(x - y)
        close = distance <= room
        verdict = np.where(close, AGREE, DISAGREE)
        if fixed is None:  # a fixed tolerance decides alone
            size = np.abs(y)
            if a.narrow:
                wide = room > USEFUL_NARROW * max(largest(y), scale)
            else:
                wide = room > useful * np.maximum(size, scale)
                wide |= (room > UNRESOLVED * size) & (size > b.bound[name])
            if np.any(wide):  # two equal values agree, unless the bound is as wide as the slopes of f
                unequal = (distance > 0) | (room > USEFUL * scale / NEAR_ZERO if scale else False)
                verdict[...] = np.where(close & wide & unequal, CANNOT_TELL, verdict)
        if a.statistical or b.statistical:
            verdict[...] = np.where(~close & (distance <= DOUBT * room), CANNOT_TELL, verdict)
        known = np.isfinite(distance) & np.isfinite(room)
    return verdict if np.all(known) else np.where(known, verdict, CANNOT_TELL)


def word_of(verdicts: Iterable[Any]) -> Agreement:
    """Return the worst of many verdicts in words."""
    return WORDS[max((int(np.max(v, initial=AGREE)) for v in verdicts), default=0)]
