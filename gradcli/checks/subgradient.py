"""Decide whether a claim at a kink is a subgradient: a convex combination of the gradients of the pieces that meet there.

The pieces are found by stepping off the kink: f is smooth along almost every direction. The convex hull of the limits of
its gradients is the set of all subgradients (Clarke 1983, Optimization and Nonsmooth Analysis, theorem 2.5.1).
"""

import numpy as np

from gradcli.checks.evidence import HullDistance
from gradcli.modes.mode import Question
from gradcli.modes.pieces import CLOSE, Pieces
from gradcli.request.point import Estimate
from gradcli.tracing.shapes import end_to_end, shape


def hull(q: Question, claim: Estimate) -> HullDistance | None:
    """Return the distance of a claim from the convex hull of the pieces' gradients at a kink; None if it is unknown.

    It is unknown if f has no trace or is no scalar, if the claim leaves out inputs, or if no piece is found. Only the
    entries that reach the kink are compared, each relative to its own largest slope, so that no entry hides behind a
    larger one.

    Cost  two reverse sweeps and three evaluations of f for each direction; at most 64 pieces are collected.
    """
    names = [name for name in q.wrt if name in claim.value]
    if q.untraced is not None or shape(q.value) != () or len(names) < len(q.wrt):
        return None
    reached = np.flatnonzero(end_to_end(q.undecided))
    wanted = end_to_end([claim.value[name] for name in q.wrt])[reached]
    room = end_to_end([claim.bound[name] for name in q.wrt])[reached]
    pieces = Pieces(q, reached)
    with np.errstate(all="ignore"):
        pieces.look_around()
        if not pieces.found:
            return None
        nearest = pieces.look_towards(wanted)
        slopes = pieces.slopes()
        allowed = CLOSE * slopes + room
        apart = np.abs(wanted - nearest)
        unit = np.where(slopes > 0, slopes, np.maximum(np.abs(wanted), np.finfo(float).tiny))  # without a slope
        limits = np.where(slopes > 0, allowed / unit, CLOSE)
        worst = int(np.argmax(np.where(apart <= allowed, 0.0, apart / unit)))
    distance = 0.0 if np.all(apart <= allowed) else float(apart[worst] / unit[worst])
    return HullDistance(distance, len(pieces.found), float(np.max(limits, initial=CLOSE)), pieces.contradicted)
