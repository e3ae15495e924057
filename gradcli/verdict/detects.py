"""How small an error would have been seen."""

from collections.abc import Iterable

import numpy as np

from gradcli.point import Array, Estimate
from gradcli.reports.point_report import NO_SIZE, Detects
from gradcli.verdict.entries import AGREE, allowed
from gradcli.verdict.evidence import Evidence, Hull
from gradcli.words import Verdict


def detects_of(seen: Evidence, verdict: Verdict, hull: Hull | None) -> Detects:
    """Return the largest relative error that could have stayed unseen, over the entries that are not zero.

    Where all are zero it is the largest absolute error.
    An entry's is the largest of the claim's bound, the reference's bound and what could be lost in tracing: the limit of the
    trace test, or the bound of function values where that is less. At a kink it is the limit of the test for subgradients.
    """
    if seen.reference is None or verdict == Verdict.INCONCLUSIVE:
        return NO_SIZE
    right = seen.estimate(seen.reference)
    smallest, at, absolute = -1.0, None, None
    names = seen.claimed or seen.inputs
    if hull is None and not any(np.any(np.asarray(right.value[name]) != 0) for name in names):
        absolute = _absolute(seen, right, names)
    for name in names:
        room = _room(seen, right, name)
        g = np.abs(np.asarray(right.value[name]))
        if hull is not None:  # which has a limit of its own
            g = np.where(seen.undecided[name], 0.0, g)
        if room is None or not np.any(g > 0):
            continue
        relative = np.divide(room, g, out=np.zeros(np.shape(g)), where=g > 0)
        k = np.unravel_index(int(np.argmax(relative)), relative.shape) if relative.ndim else ()
        if float(relative[k]) > smallest:
            smallest, at = float(relative[k]), f"{name}[{','.join(map(str, k))}]" if k else name
    if hull is not None and hull.limit > smallest:
        smallest, at = hull.limit, None
    return Detects(smallest, at) if 0 <= smallest < 1 else Detects(None, None, absolute)


def _absolute(seen: Evidence, right: Estimate, names: Iterable[str]) -> float | None:
    """Return how wrong an entry could be unseen where all are zero; None where that is not known."""
    rooms = [(_claimed_room(seen, right, name), _by_function_values(seen, name)) for name in names]
    known = [room for pair in rooms for room in pair if room is not None]
    largest = max((float(np.max(room, initial=0.0)) for room in known), default=np.inf)
    return largest if np.isfinite(largest) else None


def _room(seen: Evidence, right: Estimate, name: str) -> Array | None:
    """Return how wrong each entry of one input could be unseen."""
    claim = seen.answered("claim") if seen.claimed is not None else None
    own = _claimed_room(seen, right, name)
    if own is None:
        return None
    if claim is not None and seen.trace.limit is None and not seen.trace.untested:
        return own  # nothing is traced, or every operation is compared as it is recorded
    lost = _by_function_values(seen, name)
    if seen.trace.limit is not None:
        by_test = seen.trace.limit * np.abs(np.asarray(right.value[name]))
        lost = by_test if lost is None else np.minimum(lost, by_test)
    if lost is None:
        return None if claim is None else own
    return np.maximum(own, lost)


def _claimed_room(seen: Evidence, right: Estimate, name: str) -> Array | None:
    """Return how far each entry of the claim may be from the reference; without a claim, the bound of the reference."""
    if seen.claimed is None:
        return np.asarray(right.bound[name])
    claim = seen.answered("claim")
    if claim is None or name not in claim.value:
        return None
    return np.asarray(allowed(claim, right, name, seen.tolerance))


def _by_function_values(seen: Evidence, name: str) -> Array | None:
    """Return how wrong a value could be that the best independent pair of modes, or one direction, confirms."""
    if seen.untraced is not None:
        return None
    rooms = []
    for a, b in seen.independent_pairs:
        both = (seen.words[a][name] == AGREE) & (seen.words[b][name] == AGREE)
        rooms.append(np.where(both, allowed(seen.estimate(a), seen.estimate(b), name, None), np.inf))
    if not rooms and seen.direction is not None and seen.direction.agrees:
        return seen.direction.room_of(name)
    return np.min(np.stack(rooms), axis=0) if rooms else None
