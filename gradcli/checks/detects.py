"""Compute the smallest error that the check would have detected."""

from collections.abc import Iterable

import numpy as np

from gradcli.checks.entries import AGREE, allowed
from gradcli.checks.evidence import Evidence, HullDistance
from gradcli.checks.resolution import Resolution, accepted_entries, resolution_of
from gradcli.report.absent import ABSENT
from gradcli.report.point_report import NO_SIZE, Detects
from gradcli.request.point import Array, Estimate
from gradcli.tracing.shapes import blocks, largest, part_of
from gradcli.words import Verdict

_MOSTLY = 0.5  # of the allowed difference: what makes so much of it sets the limit


def detects_of(seen: Evidence, verdict: Verdict, hull: HullDistance | None) -> Detects:
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
    claim = seen.estimate_or_none("claim") if seen.claimed is not None else None
    resolution = resolution_of(seen) if hull is None else Resolution()
    unresolved = accepted_entries(seen, resolution) or ABSENT
    if hull is None and not any(np.any(np.asarray(right.value[name]) != 0) for name in names):
        absolute = _absolute(seen, right, names)
    for name in names:
        value = np.asarray(right.value[name])
        top = largest(value) if claim is not None and claim.narrow else None  # small entries have no right digit there
        left_out = None  # the entries at the kink have the limit of the hull, and those not resolved their own
        if hull is not None and np.any(seen.undecided[name]):
            left_out = np.broadcast_to(seen.undecided[name], value.shape)
        elif name in resolution.accepted:
            left_out = np.broadcast_to(resolution.accepted[name], value.shape)
        for part in blocks(value.size):
            room = _room(seen, right, name, part)
            g = np.abs(part_of(value, part)) if top is None else np.full(np.shape(part_of(value, part)), top)
            g = g if left_out is None else np.where(part_of(left_out, part), 0.0, g)
            if room is None or not np.any(g > 0):
                continue
            relative = np.divide(room, g, out=np.zeros(np.shape(g)), where=g > 0)
            k = int(np.argmax(relative))
            if float(np.reshape(relative, -1)[k]) > smallest:
                smallest = float(np.reshape(relative, -1)[k])
                by_solvers = _solver_room(claim, right, name, part, k) > _MOSTLY * float(np.reshape(room, -1)[k])
                place = np.unravel_index(part.start + k, value.shape) if value.ndim else ()
                at = f"{name}[{','.join(map(str, place))}]" if place else name
    if hull is not None and hull.limit > smallest:
        smallest, at, by_solvers = hull.limit, None, False
    if 0 <= smallest < 1:
        zero_limit = resolution.zero_limit()
        solvers = seen.solvers if by_solvers and seen.tolerance is None else ABSENT
        return Detects(smallest, at, ABSENT if zero_limit is None else zero_limit, unresolved, solvers)
    return Detects(None, None, ABSENT if absolute is None else absolute, unresolved)


def _solver_room(claim: Estimate | None, right: Estimate, name: str, part: slice, k: int) -> float:
    """Return the part of the allowed difference of one entry that the tolerances of solvers in f make."""
    estimates = [right] if claim is None else [claim, right]
    parts = [np.ravel(part_of(e.solvers[name], part)) for e in estimates if name in e.solvers]
    return sum(float(x[k] if x.size > 1 else x[0]) for x in parts)


def _absolute(seen: Evidence, right: Estimate, names: Iterable[str]) -> float | None:
    """Return the largest undetected absolute error if all entries are zero; None if it is unknown."""
    every = slice(None)
    rooms = [(_claimed_room(seen, right, name, every), _by_function_values(seen, name, every)) for name in names]
    known = [room for pair in rooms for room in pair if room is not None]
    largest = max((float(np.max(room, initial=0.0)) for room in known), default=np.inf)
    return largest if np.isfinite(largest) else None


def _room(seen: Evidence, right: Estimate, name: str, part: slice) -> Array | None:
    """Return the largest undetected absolute error of some entries of one input; None if it is unknown."""
    claim = seen.estimate_or_none("claim") if seen.claimed is not None else None
    own = _claimed_room(seen, right, name, part)
    if own is None:
        return None
    if claim is not None and seen.trace.limit is None and not seen.trace.untested_reason:
        return own  # nothing is traced, or the recorder compares every operation
    lost = _by_function_values(seen, name, part)
    if seen.trace.limit is not None:
        by_test = seen.trace.limit * np.abs(np.asarray(part_of(right.value[name], part)))
        lost = by_test if lost is None else np.minimum(lost, by_test)
    if lost is None:
        return None if claim is None else own
    return np.maximum(own, lost)


def _claimed_room(seen: Evidence, right: Estimate, name: str, part: slice) -> Array | None:
    """Return the allowed difference of some entries of claim and reference; without a claim, the bound of the reference."""
    if seen.claimed is None:
        return np.asarray(part_of(right.bound[name], part))
    claim = seen.estimate_or_none("claim")
    if claim is None or name not in claim.value:
        return None
    return np.asarray(allowed(claim, right, name, seen.tolerance, part))


def _by_function_values(seen: Evidence, name: str, part: slice) -> Array | None:
    """Return the largest error in an entry that the best independent pair of modes, or one direction, would still confirm."""
    if seen.untraced is not None:
        return None
    rooms = []
    for a, b in seen.independent_pairs:
        both = (part_of(seen.agreement[a][name], part) == AGREE) & (part_of(seen.agreement[b][name], part) == AGREE)
        rooms.append(np.where(both, allowed(seen.estimate(a), seen.estimate(b), name, None, part), np.inf))
    if not rooms and seen.direction is not None and seen.direction.agrees:
        return seen.direction.bound_of(name, part)
    return np.min(np.stack(rooms), axis=0) if rooms else None
