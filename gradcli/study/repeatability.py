"""Test whether a function returns the same value twice, and whether its values scatter more than rounding explains."""

import numpy as np

from gradcli.modes.mode import Question
from gradcli.modes.steps import left_over, near
from gradcli.report.common import Finding, finding
from gradcli.study.cost import takes_at_most
from gradcli.study.rays import Ray, directions, weights
from gradcli.tracing.shapes import shape
from gradcli.words import Kind, Severity

_FINER = 0.01  # times the first spacing: smooth changes vanish over so short distances, noise does not
_UNEXPLAINED = 1e3  # times the rounding error: larger scatter is noise
_MOST_WORK = 2 * 10**9  # operations that the search for noise may take


def noticed(q: Question) -> list[Finding]:
    """Return the notices of the first calls of the function as findings."""
    return [finding(n.kind, n.severity, n.message, at=n.at, hint=n.hint) for n in q.point.notices]


def unsteady(q: Question) -> list[Finding]:
    """Return a finding if a Python function returns a different value when called again."""
    if q.f.kind != "python" or any(notice.kind == Kind.NOT_DETERMINISTIC for notice in q.point.notices):
        return []
    if np.array_equal(np.asarray(q.near(*q.xs)), np.asarray(q.value), equal_nan=True):
        return []
    says = "the function's value at this point has changed since the first call: the function keeps state"
    return [finding(Kind.NOT_DETERMINISTIC, Severity.INCONCLUSIVE, says, hint="let it depend on its arguments alone")]


def unexplained(q: Question, ray: Ray, slope: float) -> list[Finding]:
    """Return a finding if values of a Python function near the point scatter by more than rounding explains.

    Cost  18 evaluations of f.
    """
    if q.f.kind != "python" or q.kinks or q.staircases or q.stepping.budget is not None:
        return []
    if not q.untraced and not takes_at_most(q, _MOST_WORK, 2 * len(near(1.0))):
        return []
    w, vs = weights(q), directions(q, ray)
    found = []
    for spacing in (1.0, _FINER):
        moved = [[x if v is None else x + t * v for x, v in zip(q.xs, vs, strict=True)] for t in near(spacing)]
        values = np.array([float(np.sum(w * q.near(*xs))) for xs in moved])
        found.append(float(left_over(near(spacing), values)))
    size = float(np.sum(np.abs(w * q.value))) if shape(q.value) else abs(float(q.value))
    explained = np.finfo(float).eps * (size + abs(slope)) + q.noise_floor
    if not min(found) > _UNEXPLAINED * explained:
        return []
    says = f"values of f near the point scatter by {min(found):.1e}, but rounding explains only {explained:.1e}"
    return [finding(Kind.NOISE, Severity.WARNING, f"{says}: no step can be more accurate than this noise allows")]
