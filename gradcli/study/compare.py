"""`compare-modes`: what each mode says, how good it is, and what it costs."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.core.shapes import shape
from gradcli.errors import BadOption
from gradcli.exits import Exit
from gradcli.lowering.floats import format_of
from gradcli.modes.claim import Claim
from gradcli.modes.mode import Question
from gradcli.modes.registry import MODES
from gradcli.point import Estimate
from gradcli.report import numbers
from gradcli.report.common import Finding, Target, finding
from gradcli.report.compare import CompareReport, ModeRow, RightDigits
from gradcli.report.compare_blocks import COST
from gradcli.report.encode import ABSENT
from gradcli.source.derived import root_of
from gradcli.study.batches import accumulated
from gradcli.study.cost import MOST_LINES, Operations, measured_bytes, of_forward, of_function, of_reverse
from gradcli.study.growth import growth
from gradcli.study.precision import in_format
from gradcli.study.products import products
from gradcli.study.sweep import summary
from gradcli.verify.check import Request, check
from gradcli.verify.compare import Outcome, reference_of, run
from gradcli.verify.environment import environment


@dataclass(frozen=True, slots=True)
class Studies:
    """What `compare-modes` is asked for beside the comparison.

    `sizes` names a size, its values, and what makes the request for one of them.
    """

    cost: bool = False
    columns: tuple[str, ...] = ()
    jacobian: bool = False
    dtypes: tuple[str, ...] = ()
    loss_scale: int | None = None
    accumulate: int | None = None
    sizes: tuple[str, tuple[int, ...], Callable[[int], Request]] | None = None
    timeout: float | None = None


def compare_modes(request: Request, studies: Studies = Studies()) -> CompareReport:
    """Run the modes at the first point and set them side by side; with a claim, its verdict is `check`'s.

    Raises  BadOption for what does not fit the function.
    """
    point = request.points[0]
    q = Question(request.f, point, request.wrt, request.seed, request.mode_timeout, stepping=request.stepping)
    formats = [format_of(name) for name in studies.dtypes]
    if studies.jacobian and shape(q.value) == ():
        raise BadOption("--jacobian is for a vector result, and this one is a scalar", do="for its Hessian: --order 2")
    columns = studies.columns or (COST if studies.cost else ())
    measured = studies.cost or bool(set(columns) & {"adds", "mults", "fn", "memory"})
    with np.errstate(all="ignore"):
        modes = [MODES[name] for name in request.modes]
        outcomes = run(q, [*([Claim(request.claim)] if request.claim else []), *modes])
        reference = reference_of({name: o for name, o in outcomes.items() if name != "claim"})
        right = outcomes[reference].estimate if reference else None
        rows = {name: _row(q, outcome, right, measured) for name, outcome in outcomes.items()}
        smooth = q.not_finite is None and not q.kinks
        steps = summary(q) if right is not None and smooth and studies.sizes is None else ()
        found = products(q, right)
        lows = tuple(in_format(q, right, form, studies.loss_scale) for form in formats) if right is not None else ()
    judged = check(request) if request.claim else None
    return CompareReport(
        target=Target(q.f.kind, root_of(q.f).text), at=point.values, drawn=point.drawn, seed=request.seed, value=q.value,
        f_seconds=q.seconds,
        reference=reference, modes=rows, sweep=steps, findings=_findings(q),
        exit_status=int(Exit.CONFIRMED) if judged is None else judged.exit_status,
        verdict=ABSENT if judged is None else judged.verdict, message=ABSENT if judged is None else judged.sentence(),
        function=ABSENT if root_of(q.f) is q.f else q.f.text, columns=columns or ABSENT,
        precision=lows or ABSENT, products=found or ABSENT,
        accumulation=ABSENT if studies.accumulate is None else accumulated(q, studies.accumulate),
        growth=ABSENT if studies.sizes is None else growth(*studies.sizes, studies.timeout),
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


def _row(q: Question, outcome: Outcome, right: Estimate | None, measured: bool) -> ModeRow:
    if outcome.estimate is None:
        error = outcome.error
        return ModeRow(outcome.status, message=error.what if error else ABSENT, hint=error.do if error else ABSENT)
    estimate = outcome.estimate
    vector = shape(q.value) != ()
    cost = estimate.cost
    found = _operations(q, outcome.mode.name, cost.evaluations)
    once = cost.seconds / max(1, cost.evaluations)
    peak = measured_bytes(q, outcome.mode.name, once) if measured else cost.peak_bytes
    return ModeRow(
        "ok", gradient=ABSENT if vector else estimate.value, jacobian=estimate.value if vector else ABSENT,
        right_digits=_digits(estimate, right) if right is not None else ABSENT, bound=estimate.bound, proved=estimate.proved,
        bound_held=_held(estimate, right) if right is not None else ABSENT, evaluations=cost.evaluations,
        operations=cost.operations if found is None else found.total,
        additions=found.additions if found else ABSENT, multiplications=found.multiplications if found else ABSENT,
        transcendental=found.transcendental if found else ABSENT,
        formula=ABSENT if cost.formula is None else cost.formula, formula_shared=ABSENT if cost.shared is None else cost.shared,
        seconds=cost.seconds, relative_time=cost.seconds / q.seconds, peak_bytes=peak,
    )  # fmt: skip


def _operations(q: Question, mode: str, evaluations: int) -> Operations | None:
    """Return the operations of a mode, counted on recorded programs; None for those that are no float64 programs."""
    if q.untraced or not q.wrt or len(q.lines) > MOST_LINES:
        return None
    if mode == "reverse":
        return of_reverse(q)
    if mode == "forward":
        return of_forward(q).times(evaluations)
    return of_function(q).times(evaluations) if mode in ("finite-difference", "complex-step") else None


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
