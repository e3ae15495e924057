"""`compare-modes`: what each mode says, how good it is, and what it costs."""

from typing import Any

import numpy as np

from gradcli.core.shapes import shape
from gradcli.exits import Exit
from gradcli.modes.claim import Claim
from gradcli.modes.mode import Question
from gradcli.modes.registry import MODES
from gradcli.point import Estimate
from gradcli.report import numbers
from gradcli.report.common import Finding, Target, finding
from gradcli.report.compare import CompareReport, ModeRow, RightDigits
from gradcli.report.encode import ABSENT
from gradcli.source.derived import root_of
from gradcli.study.sweep import summary
from gradcli.verify.check import Request, check
from gradcli.verify.compare import Outcome, reference_of, run
from gradcli.verify.environment import environment


def compare_modes(request: Request) -> CompareReport:
    """Run the modes at the first point and set them side by side; with a claim, its verdict is `check`'s."""
    point = request.points[0]
    q = Question(request.f, point, request.wrt, request.seed, request.mode_timeout, stepping=request.stepping)
    with np.errstate(all="ignore"):
        modes = [MODES[name] for name in request.modes]
        outcomes = run(q, [*([Claim(request.claim)] if request.claim else []), *modes])
        reference = reference_of({name: o for name, o in outcomes.items() if name != "claim"})
        right = outcomes[reference].estimate if reference else None
        rows = {name: _row(q, outcome, right) for name, outcome in outcomes.items()}
        steps = summary(q, right) if right is not None and q.not_finite is None and not q.kinks else ()
        findings = _findings(q)
    judged = check(request) if request.claim else None
    return CompareReport(
        target=Target(q.f.kind, root_of(q.f).text), at=point.values, drawn=point.drawn, seed=request.seed, value=q.value,
        f_seconds=q.seconds,
        reference=reference, modes=rows, sweep=steps, findings=findings,
        exit_status=int(Exit.CONFIRMED) if judged is None else judged.exit_status,
        verdict=ABSENT if judged is None else judged.verdict,
        environment=environment(),
    )  # fmt: skip


def _findings(q: Question) -> tuple[Finding, ...]:
    if q.not_finite is not None:
        return (finding("non-finite", "warning", q.not_finite.says),)
    return tuple(
        finding(kind, "warning", mark.says)
        for kind, marks in (("kink", q.kinks), ("staircase", q.staircases))
        for mark in marks
    )


def _row(q: Question, outcome: Outcome, right: Estimate | None) -> ModeRow:
    if outcome.estimate is None:
        error = outcome.error
        return ModeRow(outcome.status, message=error.what if error else ABSENT, hint=error.do if error else ABSENT)
    estimate = outcome.estimate
    vector = shape(q.value) != ()
    cost = estimate.cost
    return ModeRow(
        "ok", gradient=ABSENT if vector else estimate.value, jacobian=estimate.value if vector else ABSENT,
        right_digits=_digits(estimate, right) if right is not None else ABSENT, bound=estimate.bound, proved=estimate.proved,
        bound_held=_held(estimate, right) if right is not None else ABSENT, evaluations=cost.evaluations,
        operations=cost.operations,
        seconds=cost.seconds, relative_time=cost.seconds / q.seconds, peak_bytes=cost.peak_bytes,
    )  # fmt: skip


def _each(estimate: Estimate, right: Estimate, measure: Any) -> Any:
    found = [np.ravel(measure(name)) for name in estimate.value if name in right.value]
    return np.concatenate(found) if found else np.zeros(0)


def _digits(estimate: Estimate, right: Estimate) -> RightDigits:
    if estimate is right and right.proved:
        digits = _each(estimate, right, lambda name: _proved(right.value[name], right.bound[name]))
    else:
        digits = _each(estimate, right, lambda name: numbers.right_digits(estimate.value[name], right.value[name]))
    return RightDigits(float(np.min(digits, initial=99.0)), float(np.median(digits)) if digits.size else 0.0)


def _proved(value: Any, bound: Any) -> Any:
    scale = np.where(np.asarray(value) == 0, 1.0, np.abs(value))
    return np.where(np.asarray(bound) == 0, 99.0, -np.log10(np.where(np.asarray(bound) == 0, 1.0, bound) / scale))


def _held(estimate: Estimate, right: Estimate) -> bool:
    """Whether every entry lies within both bounds of the reference; float64 itself rounds the reference by half an ulp."""
    excess = _each(
        estimate, right,
        lambda name: np.abs(estimate.value[name] - right.value[name])
        - (np.asarray(estimate.bound[name]) + right.bound[name] + np.spacing(np.abs(right.value[name]))),
    )  # fmt: skip
    return bool(np.all((excess <= 0) | ~np.isfinite(excess)))
