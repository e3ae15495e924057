"""The Taylor remainder test of a gradient: |f(x + h v) - f(x) - h <g, v>| falls as h^2 if g is right, else as h."""

from typing import Any

import numpy as np

from gradcli.modes.mode import Question
from gradcli.numerics.noise import left_over, near
from gradcli.numerics.slopes import log_slope
from gradcli.reports.sweep_rows import Taylor
from gradcli.study.rays import Ray, Rays
from gradcli.study.truth import slope_along
from gradcli.words import Remains

H = 10.0 ** (-np.arange(0, 40) / 4)  # from 1 to about 1e-10, relative to the size of the inputs
_ABOVE_NOISE = 10.0
_POINTS = 9  # the slope is fitted to this many of the smallest steps above the noise: two decades
_SECOND, _FIRST = 1.7, 1.3  # a steeper slope counts as 2, a flatter one as 1


def taylor(q: Question, claim: dict[str, Any], ray: Ray, slope: float) -> Taylor:
    """Return the Taylor remainders of a claim along a ray, and the verdict that follows from their slope.

    Units  `slope` is the true <g, v>; steps are relative to the size of the inputs.
    Cost   about 50 evaluations of f.
    """
    claimed = float(slope_along(q, claim, ray))
    rays = Rays(q)
    with np.errstate(all="ignore"):
        values = rays.values([ray], np.concatenate([[0.0], H, near(1.0)]))[0]
        at, moved, close = values[0], values[1 : len(H) + 1], values[len(H) + 1 :]
        noise = float(left_over(near(1.0), close))
        remainder = np.abs(moved - at - H * claimed)
        floor = _ABOVE_NOISE * (noise + np.finfo(float).eps * np.abs(H * claimed))
    seen = np.flatnonzero((remainder > floor) & np.isfinite(remainder))[-_POINTS:]
    order = log_slope(H[seen], remainder[seen])
    bend = float(np.max(remainder[seen] / H[seen] ** 2, initial=0.0))
    verdict, message = _verdict(claimed, slope, order, remainder, np.maximum(remainder, floor) / H + bend * H)
    if q.kinks:
        verdict, message = "cannot tell", "f has a kink here: remainders fall with slope 1 whatever the gradient is"
    return Taylor(verdict, message, order, claimed, slope, tuple(map(float, H)), tuple(map(float, remainder)))


def _verdict(claimed: float, slope: float, order: float | None, remainder: Any, sees_at: Any) -> tuple[Remains, str]:
    """Return the verdict on a claim; `sees_at` is, for each step, the largest error that its remainder can hide.

    An error e leaves a remainder e h, from which the bend of f can take away as much as it adds: e <= remainder / h + bend h.
    """
    size = abs(slope) or 1.0
    known = np.isfinite(remainder)
    sees = float(np.min(np.where(known, sees_at, np.inf))) / size
    if order is None:
        if not np.any(known):
            return "cannot tell", "f is not defined along v"
        says = f"f is linear along v, and <g, v> = {claimed:.6g} has no error above {sees:.0e} of it."
        return "right", f"The remainder is rounding at every step: {says}"
    falls = f"The remainder |f(x + h v) - f(x) - h <g, v>| falls with slope {order:.2f}"
    if order > _SECOND:
        return "right", f"{falls}: along v there is no error above {sees:.0e} of the slope."
    off = f"<g, v> = {claimed:.9g}, the slope of f is {slope:.9g} ({abs(claimed - slope) / size:.1e} off)."
    if order < _FIRST:
        return "wrong", f"{falls}, not 2: along v the gradient is wrong. {off}"
    return "cannot tell", f"{falls}, between 1 and 2: noise or a small error. {off}"
