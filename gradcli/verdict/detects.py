"""How small an error would have been seen."""

import numpy as np

from gradcli.point import Array, Estimate
from gradcli.report.point_report import NO_SIZE, Detects
from gradcli.verdict.entries import AGREE, allowed
from gradcli.verdict.evidence import Evidence, Hull
from gradcli.words import Verdict


def detects_of(seen: Evidence, verdict: Verdict, hull: Hull | None) -> Detects:
    """Return the largest relative error that could have stayed unseen, over the entries that are not zero.

    An entry's is the largest of the claim's bound, the reference's bound and what could be lost in tracing: the limit of the
    trace test, or the bound of function values where that is less. At a kink it is the limit of the test for subgradients.
    """
    if seen.reference is None or verdict == Verdict.INCONCLUSIVE:
        return NO_SIZE
    right = seen.estimate(seen.reference)
    smallest, at = -1.0, None
    for name in seen.claimed or seen.inputs:
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
    return Detects(smallest, at) if 0 <= smallest < 1 else NO_SIZE


def _room(seen: Evidence, right: Estimate, name: str) -> Array | None:
    """Return how wrong each entry of one input could be unseen."""
    claim = seen.answered("claim") if seen.claimed is not None else None
    if seen.claimed is not None and (claim is None or name not in claim.value):
        return None
    own = np.asarray(right.bound[name] if claim is None else allowed(claim, right, name, seen.tolerance))
    if claim is not None and seen.trace.limit is None and not seen.trace.untested:
        return own  # nothing is traced, or every operation is compared as it is recorded
    lost = _by_function_values(seen, name)
    if seen.trace.limit is not None:
        by_test = seen.trace.limit * np.abs(np.asarray(right.value[name]))
        lost = by_test if lost is None else np.minimum(lost, by_test)
    if lost is None:
        return None if claim is None else own
    return np.maximum(own, lost)


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
