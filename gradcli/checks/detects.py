"""Compute the smallest error that the check would have detected."""

from collections.abc import Mapping
from dataclasses import field
from decimal import ROUND_UP, Context, Decimal
from typing import Any

import numpy as np

from gradcli.checks.evidence import (
    AGREE,
    CANNOT_TELL,
    DISAGREE,
    DOUBT,
    USEFUL,
    Evidence,
    HullDistance,
    Tolerance,
    allowed_difference,
    tolerated_difference,
)
from gradcli.classes import dataclass
from gradcli.report import numbers
from gradcli.report.common import ABSENT
from gradcli.report.point_report import NO_SIZE, Detects, UnresolvedEntries
from gradcli.request.point import Array, Estimate, Witness
from gradcli.tracing.shapes import entries_of_part, iterate_blocks, largest_finite
from gradcli.words import Verdict

_MOSTLY = 0.5  # of the allowed difference: what makes so much of it sets the limit


# Entries that function values alone do not resolve: their differences cannot be told from 0, or hardly.

MOST = 1e-2  # of the largest entry of the input: a larger error is left open, however blunt the check is
Masks = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Resolution:
    """The entries of a claim that function values do not resolve, as masks by input.

    An entry is not resolved if the claim lies within the bound of its difference, and this bound is wide beside the
    difference. `accepted` are those whose largest possible error is below the check's own limit, that of the resolved
    entries, times the largest entry of their input. `open` are others that cannot be told from 0. `zeros` are claimed as
    exactly 0, and their differences are 0.

    Units  `error` is the largest possible error of each entry, in units of the gradient.
    """

    accepted: Masks = field(default_factory=dict)
    open: Masks = field(default_factory=dict)
    zeros: Masks = field(default_factory=dict)
    error: Masks = field(default_factory=dict)

    def agreement(self, words: Any, name: str) -> Any:
        """Return the verdicts of the entries of one input, with those of the entries that are not resolved."""
        if name not in self.accepted:
            return words
        return np.where(self.accepted[name], AGREE, np.where(self.open[name], CANNOT_TELL, words))

    def worst(self, masks: Mapping[str, Any]) -> tuple[str, tuple[int, ...]] | None:
        """Return the place of the entry with the largest possible error among some; None if there are none."""
        found: tuple[float, str, tuple[int, ...]] | None = None
        for name, mask in masks.items():
            if np.any(mask):
                errors = np.where(mask, self.error[name], -1.0)
                at = tuple(int(k) for k in np.unravel_index(int(np.argmax(errors)), errors.shape))
                if found is None or float(errors[at]) > found[0]:
                    found = float(errors[at]), name, at
        return None if found is None else found[1:]

    def zero_limit(self) -> float | None:
        """Return the largest error that an entry claimed as exactly 0 may have; None if there is no such entry."""
        place = self.worst(self.zeros)
        return None if place is None else float(self.error[place[0]][place[1]])


def resolution_of(seen: Evidence) -> Resolution:
    """Return which entries of the claim function values alone do not resolve.

    The check's own limit is the relative error beyond which it is certain to call a resolved entry wrong: `DOUBT` bounds.
    """
    claim = seen.estimate_or_none("claim")
    if claim is None or claim.narrow or seen.reference is None or "claim" not in seen.agreement:
        return Resolution()
    if seen.dependencies(seen.reference) != {Witness.FUNCTION_VALUES}:
        return Resolution()
    right, found = seen.estimate(seen.reference), Resolution()
    hidden: Masks = {}
    limit = 0.0
    with np.errstate(all="ignore"):
        for name, words in seen.agreement["claim"].items():
            x, y = np.asarray(claim.value[name]), np.asarray(right.value[name])
            room, distance = np.asarray(allowed_difference(claim, right, name, None)), np.abs(x - y)
            slopes = right.slopes.get(name)
            several = False if slopes is None else np.isfinite(slopes.left) | np.isfinite(slopes.other)
            at_kink = np.asarray(seen.undecided.get(name, False)) | several
            closed = (distance <= room) & np.isfinite(room) & (words != DISAGREE) & ~at_kink
            closed &= ~(distance + right.bound[name] <= tolerated_difference(seen.tolerance, y))
            resolved, zero = room <= USEFUL * np.abs(y), (x == 0) & (y == 0)
            hidden[name] = closed & ~resolved & ~zero
            found.zeros[name], found.error[name] = closed & zero, distance + room
            limit = max(limit, float(np.max(np.where(closed & resolved & ~zero, room / np.abs(y), 0.0), initial=0.0)))
        for name, mask in hidden.items():
            y = np.abs(right.value[name])
            top = float(np.max(np.where(mask | ~np.isfinite(y), 0.0, y), initial=0.0))
            found.accepted[name] = mask & (found.error[name] <= min(DOUBT * limit, MOST) * top)
            found.open[name] = mask & ~found.accepted[name] & _entries_near_zero(seen, name)
    return found


def _entries_near_zero(seen: Evidence, name: str) -> Any:
    """Return a mask of the entries whose difference cannot be told from 0."""
    right = seen.estimate(str(seen.reference))
    return np.abs(right.value[name]) <= right.bound[name]


def report_accepted_entries(seen: Evidence, found: Resolution) -> UnresolvedEntries | None:
    """Return what a pass says of the entries that were accepted without being resolved; None if there are none."""
    place = found.worst(found.accepted)
    if place is None:
        return None
    name, at = place
    return UnresolvedEntries(
        count=sum(int(np.sum(mask)) for mask in found.accepted.values()),
        compared=sum(int(np.size(mask)) for mask in found.accepted.values()),
        below=float(found.error[name][at]),
        at=numbers.entry_name(name, at),
        told_from_zero=any(bool(np.any(mask & ~_entries_near_zero(seen, n))) for n, mask in found.accepted.items()),
    )


def describe_open_entries(seen: Evidence, found: Resolution) -> str | None:
    """Return in words which entries are left open, and the one with the widest bound; None if there are none."""
    place = found.worst(found.open)
    if place is None:
        return None
    count = sum(int(np.sum(mask)) for mask in found.open.values())
    total = sum(int(np.size(mask)) for mask in found.open.values())
    return f"{count:,} of {total:,} entr{'y' if total == 1 else 'ies'} not resolved: {_describe_entry(seen, *place)}"


def find_undecided_entry(seen: Evidence) -> tuple[str, str, float] | None:
    """Return the undecided entry of the claim that needs the largest tolerance; None if none has a finite bound.

    It comes in words, with the option that decides all entries, and with the bound of the reference, relative to it, where
    the claim is outside of the bounds all the same; 0 where it is not, or the reference is 0.
    """
    if seen.claimed is None or seen.reference is None:
        return None
    claim, right = seen.estimate("claim"), seen.estimate(seen.reference)
    given = seen.tolerance or Tolerance()
    relative: dict[str, Any] = {}
    absolute: dict[str, Any] = {}
    with np.errstate(all="ignore"):
        for name, words in seen.agreement["claim"].items():
            y = np.abs(right.value[name])
            needed = np.abs(np.asarray(claim.value[name]) - right.value[name]) + right.bound[name]
            undecided = (words == CANNOT_TELL) & np.isfinite(needed)
            relative[name] = np.where(undecided, (needed - given.atol) / y, -np.inf)
            absolute[name] = np.where(undecided, needed - given.rtol * y, -np.inf)
    largest = {name: float(np.max(x, initial=-np.inf)) for name, x in relative.items()}
    name = max(largest, key=lambda n: largest[n])
    if largest[name] == -np.inf:
        return None
    at = tuple(int(k) for k in np.unravel_index(int(np.argmax(relative[name])), np.shape(relative[name])))
    most = max(float(np.max(x, initial=-np.inf)) for x in absolute.values())
    option = f"--rtol {_round_up(largest[name])}" if np.isfinite(largest[name]) else f"--atol {_round_up(most)}"
    bound = float(np.asarray(right.bound[name])[at])
    own = float(np.asarray(claim.bound[name])[at])
    off = abs(float(np.asarray(claim.value[name] - right.value[name])[at]))
    size = abs(float(np.asarray(right.value[name])[at]))
    outside = bound / size if size and off > DOUBT * (bound + own) else 0.0
    return _describe_entry(seen, name, at), f"{option} decides it", outside


def _round_up(x: float) -> str:
    """Return a positive number with two digits, rounded up."""
    return f"{float(Context(prec=2, rounding=ROUND_UP).create_decimal(Decimal(f'{x:.12g}'))):.1e}"


def _describe_entry(seen: Evidence, name: str, at: tuple[int, ...]) -> str:
    """Return an entry of the reference with its bound, and the claim: `x[1] is 0 +- 2e-03, claimed 0.0001`."""
    right, claim = seen.estimate(str(seen.reference)), seen.estimate("claim")
    value, bound, own = (float(np.asarray(part[name])[at]) for part in (right.value, right.bound, claim.value))
    return f"{numbers.entry_name(name, at)} is {value:.3g} +- {numbers.write_bound(bound)}, claimed {numbers.few_digits(own)}"


def find_detection_limit(seen: Evidence, verdict: Verdict, hull: HullDistance | None) -> Detects:
    """Return the largest relative error that could have gone undetected, over the nonzero entries that were resolved.

    If all entries are zero, return the largest absolute error instead; beside it, if some are and function values alone
    show it. The limit of an entry is the larger of two: the
    allowed difference of claim and reference, and what tracing could lose (the limit of the trace test or of function
    values, whichever is less). At a kink the limit of the test for subgradients is included too.

    Units  relative to each entry of the reference, for a claim in a narrow format to the largest entry; the absolute error
           in units of the gradient.
    """
    if seen.reference is None or verdict == Verdict.INCONCLUSIVE:
        return NO_SIZE
    right = seen.estimate(seen.reference)
    smallest, at, absolute, by_solvers = -1.0, None, None, False
    names = seen.claimed or seen.inputs
    claim = seen.estimate_or_none("claim")
    resolution = resolution_of(seen) if hull is None else Resolution()
    unresolved = report_accepted_entries(seen, resolution) or ABSENT
    if hull is None and not any(np.any(np.asarray(right.value[name]) != 0) for name in names):
        every = [_allowed_difference_to_claim(seen, right, name, slice(None)) for name in names]
        every += [_largest_confirmed_error(seen, name, slice(None)) for name in names]
        largest = max((float(np.max(room, initial=0.0)) for room in every if room is not None), default=np.inf)
        absolute = largest if np.isfinite(largest) else None
    for name in names:
        value = np.asarray(right.value[name])
        # small entries have no right digit there
        top = largest_finite(value) if claim is not None and claim.narrow else None
        left_out = None  # the entries at the kink have the limit of the hull, and those not resolved their own
        if hull is not None and np.any(seen.undecided[name]):
            left_out = np.broadcast_to(seen.undecided[name], value.shape)
        elif name in resolution.accepted:
            left_out = np.broadcast_to(resolution.accepted[name], value.shape)
        for part in iterate_blocks(value.size):
            room = _largest_undetected_error(seen, right, name, part)
            entries = entries_of_part(value, part)
            g = np.abs(entries) if top is None else np.full(np.shape(entries), top)
            g = g if left_out is None else np.where(entries_of_part(left_out, part), 0.0, g)
            if room is None or not np.any(g > 0):
                continue
            relative = np.divide(room, g, out=np.zeros(np.shape(g)), where=g > 0)
            k = int(np.argmax(relative))
            if float(np.reshape(relative, -1)[k]) > smallest:
                smallest = float(np.reshape(relative, -1)[k])
                estimates = [right] if claim is None else [claim, right]
                parts = [np.ravel(entries_of_part(e.solvers[name], part)) for e in estimates if name in e.solvers]
                made = sum(float(x[k] if x.size > 1 else x[0]) for x in parts)  # by the tolerances of solvers in f
                by_solvers = made > _MOSTLY * float(np.reshape(room, -1)[k])
                place = np.unravel_index(part.start + k, value.shape) if value.ndim else ()
                at = numbers.entry_name(name, tuple(map(int, place)))
    if hull is not None and hull.limit > smallest:
        smallest, at, by_solvers = hull.limit, None, False
    if 0 <= smallest < 1:
        zero_limit = resolution.zero_limit()
        solvers = seen.solvers if by_solvers and seen.tolerance is None else ABSENT
        return Detects(smallest, at, ABSENT if zero_limit is None else zero_limit, unresolved, solvers)
    return Detects(None, None, ABSENT if absolute is None else absolute, unresolved)


def _largest_undetected_error(seen: Evidence, right: Estimate, name: str, part: slice) -> Array | None:
    """Return the largest undetected absolute error of some entries of one input; None if it is unknown."""
    claim = seen.estimate_or_none("claim")
    own = _allowed_difference_to_claim(seen, right, name, part)
    if own is None:
        return None
    if claim is not None and seen.trace.detects is None and not seen.trace.why:
        return own  # nothing is traced, or the recorder compares every operation
    lost = _largest_confirmed_error(seen, name, part)
    if seen.trace.detects is not None:
        by_test = seen.trace.detects * np.abs(np.asarray(entries_of_part(right.value[name], part)))
        lost = by_test if lost is None else np.minimum(lost, by_test)
    if lost is None:
        return None if claim is None else own
    return np.maximum(own, lost)


def _allowed_difference_to_claim(seen: Evidence, right: Estimate, name: str, part: slice) -> Array | None:
    """Return the allowed difference of some entries of claim and reference; without a claim, the bound of the reference."""
    if seen.claimed is None:
        return np.asarray(entries_of_part(right.bound[name], part))
    claim = seen.estimate_or_none("claim")
    if claim is None or name not in claim.value:
        return None
    return np.asarray(allowed_difference(claim, right, name, seen.tolerance, part))


def _largest_confirmed_error(seen: Evidence, name: str, part: slice) -> Array | None:
    """Return the largest error in an entry that the best independent pair of modes, or one direction, would still confirm."""
    if seen.untraced is not None:
        return None
    rooms = []
    for a, b in seen.independent_pairs:
        one, other = (entries_of_part(seen.agreement[mode][name], part) == AGREE for mode in (a, b))
        both = one & other
        rooms.append(np.where(both, allowed_difference(seen.estimate(a), seen.estimate(b), name, None, part), np.inf))
    if not rooms and seen.direction is not None and seen.direction.agrees:
        return seen.direction.bound_of(name, part)
    return np.min(np.stack(rooms), axis=0) if rooms else None
