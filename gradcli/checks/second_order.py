"""Further checks of second derivatives: that the gradient is right, second differences of f, and symmetry."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.modes.mode import Question
from gradcli.modes.second_differences import GradientByValues
from gradcli.modes.steps import second_derivative
from gradcli.report.common import Finding, finding
from gradcli.report.point_report import PointReport
from gradcli.request.point import Array, Estimate
from gradcli.targets.derived import STEP, Gradient, SumOfEntries, direction, gradient_in
from gradcli.targets.facts import of
from gradcli.tracing.shapes import end_to_end, shape, size
from gradcli.words import Kind, Severity, Verdict

_SYMMETRIC = 1e-6  # relative to the largest entry: a Hessian that differs more from its transpose gets a finding


def first_order(q: Question, judged: Callable[[Question, Any], PointReport]) -> Finding | None:
    """Return a finding that says whether the gradient that is differentiated is itself right; None if there is none.

    `judged` checks the gradient as a first derivative. A Hessian by second differences of f needs no gradient.
    """
    gradient = gradient_in(q.f)
    if gradient is None or isinstance(gradient, GradientByValues):
        return None
    whose = "the gradient that is differentiated" if gradient.claim is None else "the claimed gradient"
    values = {name: x for name, x in q.point.values.items() if name != STEP}
    point = type(q.point)(values, q.point.drawn, q.point.number)
    report = judged(Question(gradient.f, point, gradient.wrt, q.seed, q.budget, q.stepping, q.device), gradient.claim)
    if report.verdict == Verdict.PASS:
        relative = report.detects.relative
        better = "" if relative is None else f" to better than {relative:.0e}"
        return finding(Kind.FIRST_ORDER, Severity.INFO, f"{whose} is confirmed{better}")
    if report.verdict == Verdict.FAIL and gradient.claim is not None:
        why = f": {report.diagnosis.message}" if report.diagnosis else ""
        return finding(Kind.FIRST_ORDER, Severity.ERROR, f"{whose} is wrong{why}", hint="check it alone: --grad")
    said = next((f.message for f in report.findings if f.severity == Severity.INCONCLUSIVE), "its modes disagree")
    return finding(Kind.FIRST_ORDER, Severity.INCONCLUSIVE, f"{whose} is not confirmed: {said}")


def by_values(q: Question, right: Estimate) -> Finding | None:
    """Compare v H v with a second difference of the untouched function along v, and the Hessian with its transpose.

    Return None if f is no gradient, or if the bounds are too wide to decide.
    """
    f = q.f.f if isinstance(q.f, SumOfEntries) else q.f
    if not isinstance(f, Gradient) or isinstance(f, GradientByValues) or set(right.value) != set(f.wrt):
        return None
    v = {name: direction(q.seed, name, q.point.values[name]) for name in f.wrt}
    xs = [q.point.values[name] for name in f.wrt]
    g = of(f.f, q.point.values, f.wrt)
    found = second_derivative(lambda t: g(*[x + t * v[name] for x, name in zip(xs, f.wrt, strict=True)]))
    if f is q.f:
        h, bound = matrix(right.value, f.wrt), matrix(right.bound, f.wrt)
    else:
        h, bound = (np.diag(end_to_end([np.asarray(of[name]) for name in f.wrt])) for of in (right.value, right.bound))
    flat = np.concatenate([np.reshape(v[name], -1) for name in f.wrt])
    along, scale = flat @ h @ flat, np.abs(flat) @ np.abs(h) @ np.abs(flat)
    room = float(found.bound) + float(np.abs(flat) @ bound @ np.abs(flat))
    if not np.isfinite(room) or room > 1e-2 * scale:
        return None
    if abs(float(found.value) - along) > 3 * room:
        says = "second differences of the untouched function contradict the Hessian along a random direction"
        return finding(Kind.DISAGREEMENT, Severity.INCONCLUSIVE, says)
    apart = float(np.max(np.abs(h - h.T), initial=0.0)) / max(float(np.max(np.abs(h), initial=0.0)), 1e-300)
    says = (
        f"second differences of the untouched function confirm one random direction to {room / max(scale, 1e-300):.0e}"
    )
    return finding(Kind.SECOND_ORDER, Severity.INFO, f"{says}; the Hessian is symmetric to {apart:.0e}")


def asymmetry(q: Question, claim: dict[str, Array]) -> Finding | None:
    """Return a finding if a claimed Hessian is not symmetric, else None."""
    f = q.f
    if not isinstance(f, Gradient) or set(claim) != set(f.wrt):
        return None
    if any(shape(claim[name]) != shape(q.value) + shape(q.point.values[name]) for name in f.wrt):
        return None
    h = matrix(claim, f.wrt)
    apart = np.abs(h - h.T)
    if not np.any(apart > _SYMMETRIC * np.max(np.abs(h), initial=0.0)):
        return None
    i, j = np.unravel_index(int(np.argmax(apart)), apart.shape)
    return finding(
        Kind.NOT_SYMMETRIC,
        Severity.WARNING,
        f"the claimed Hessian is not symmetric: {h[i, j]:.6g} at {i},{j} and {h[j, i]:.6g} at {j},{i}",
    )


def matrix(blocks: dict[str, Any], wrt: tuple[str, ...]) -> Any:
    """Return the blocks of a Hessian, one for each pair of inputs, joined into one square matrix.

    Shapes  `blocks[x]` is (n, shape of x), with n entries of all inputs; the result is (n, n).
    """
    rows = shape(next(iter(blocks.values())))[0]
    return np.concatenate(
        [np.reshape(blocks[name], (rows, size(blocks[name]) // max(rows, 1))) for name in wrt], axis=1
    )
