"""The study behind `compare-modes`: the value, accuracy and cost of each mode, side by side."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from gradcli.core.cost import Operations
from gradcli.core.shapes import shape, size
from gradcli.errors import BadOption
from gradcli.lowering.floats import format_of
from gradcli.modes.claim import Claim
from gradcli.modes.mode import Question
from gradcli.modes.registry import MODES
from gradcli.modes.solver_changes import smaller_tolerances
from gradcli.modes.work import Effort
from gradcli.numerics.infinities import TO_FINITE
from gradcli.point import Estimate
from gradcli.reports.absent import ABSENT, Absent
from gradcli.reports.common import Finding, Target, finding
from gradcli.reports.compare import COST, CompareReport
from gradcli.reports.compare_rows import ModeRow, SchemeSummary
from gradcli.reports.encode import MAX_ENTRIES
from gradcli.source.derived import Gradient, root_of
from gradcli.source.outputs import named_outputs
from gradcli.study.batches import accumulated
from gradcli.study.cost import (
    MOST_LINES,
    least_seconds,
    measured_bytes,
    of_forward,
    of_function,
    of_reverse,
    recomputed,
)
from gradcli.study.digits import each, right_digits
from gradcli.study.growth import growth
from gradcli.study.precision import in_format
from gradcli.study.products import products
from gradcli.study.rays import common_ray
from gradcli.study.repeatability import noticed, unexplained, unsteady
from gradcli.study.sweep_summary import left_out_of_summary, summary
from gradcli.study.truth import slope_along
from gradcli.verdict.evidence import Outcome
from gradcli.verify.check import Answers, check, with_values_at_smaller_tolerances
from gradcli.verify.environment import environment
from gradcli.verify.request import Request
from gradcli.verify.run_modes import answered, missing, reference_of, run
from gradcli.words import Derivative, Exit, Kind, Severity


@dataclass(frozen=True, slots=True)
class Studies:
    """Studies that `compare-modes` adds to the comparison on request.

    `sizes` holds the name of a size, its values, and a function that makes the request for one value.
    """

    cost: bool = False
    columns: tuple[str, ...] = ()
    jacobian: bool = False
    dtypes: tuple[str, ...] = ()
    loss_scale: int | None = None
    accumulate: int | None = None
    sizes: tuple[str, tuple[int, ...], Callable[[int], Request]] | None = None


def compare_modes(request: Request, studies: Studies = Studies()) -> CompareReport:
    """Run the modes at the first point and compare them; the verdict on a claim is that of `check`.

    Raises  BadOption for a study that does not fit the function, such as a Jacobian of a scalar.
    """
    with smaller_tolerances(request.f):
        return _compared(with_values_at_smaller_tolerances(request), studies)


def _compared(request: Request, studies: Studies) -> CompareReport:
    point = request.points[0]
    q = request.question(point, request.budget.at_least(Effort.ALL))
    formats = [format_of(name) for name in studies.dtypes]
    if studies.jacobian and shape(q.value) == ():
        raise BadOption("--jacobian is for a vector result, and this one is a scalar", do="for its Hessian: --order 2")
    cost = (*COST, "sweeps") if shape(q.value) else COST
    columns = studies.columns or (cost if studies.cost else ())
    measured = studies.cost or bool(set(columns) & {"adds", "mults", "fn", "memory"})
    with np.errstate(all="ignore"):
        modes = [MODES[name] for name in request.modes]
        outcomes = run(q, [*([Claim(request.claim)] if request.claim else []), *modes])
        reference = reference_of({name: o for name, o in outcomes.items() if name != "claim"})
        right = outcomes[reference].estimate if reference else None
        told = (*_findings(q, right), *missing(outcomes))
        open_ = {f.kind for f in told if f.severity == Severity.INCONCLUSIVE}
        smooth = not open_ and not q.kinks
        imaginary = "complex-step" not in outcomes or outcomes["complex-step"].status == "ok"
        steps: tuple[SchemeSummary, ...] = ()
        without: str | Absent = ABSENT
        if studies.sizes is None:
            left_out = None if right is not None and smooth else "there is no smooth derivative here to compare with"
            left_out = left_out or left_out_of_summary(q)
            steps, without = ((), left_out) if left_out else (summary(q, outcomes, imaginary), ABSENT)
        rows = {name: _row(q, outcome, None if open_ else right, measured) for name, outcome in outcomes.items()}
        found = products(q, right)
        lows = tuple(in_format(q, right, form, studies.loss_scale) for form in formats) if right is not None else ()
    if request.own is not None and rows["claim"].status == "ok":
        rows["claim"] = replace(rows["claim"], ran_on=request.own.native.ran_on)
    judged = check(request, answers=Answers(q, outcomes)) if request.claim else None
    derivative: Derivative = "Hessian" if isinstance(q.f, Gradient) else "Jacobian"
    return CompareReport(
        target=Target(q.f.kind, root_of(q.f).text), at=point.values, drawn=point.drawn, seed=request.seed, value=q.own_value,
        f_seconds=q.seconds,
        reference=reference, modes=rows, sweep=steps, findings=told,
        exit_status=_status(outcomes, bool(open_)) if judged is None else judged.exit_status,
        verdict=ABSENT if judged is None else judged.verdict, message=ABSENT if judged is None else judged.sentence(),
        function=ABSENT if root_of(q.f) is q.f else q.f.text, columns=columns or ABSENT,
        precision=lows or ABSENT, products=found or ABSENT,
        accumulation=ABSENT if studies.accumulate is None else accumulated(q, studies.accumulate),
        growth=ABSENT if studies.sizes is None else growth(*studies.sizes, derivative),
        environment=environment(answered(outcomes)),
        derivative=derivative if shape(q.value) else "gradient",
        no_sweep=without,
        outputs=tuple(named_outputs(q.f.outputs)) if q.f.outputs and size(q.value) <= MAX_ENTRIES else ABSENT,
    )  # fmt: skip


def _status(outcomes: Mapping[str, Outcome], inconclusive: bool) -> int:
    if any(outcome.status == "unavailable" for outcome in outcomes.values()):
        return int(Exit.UNUSABLE)
    return int(Exit.INCONCLUSIVE if inconclusive else Exit.CONFIRMED)


def _findings(q: Question, right: Estimate | None) -> tuple[Finding, ...]:
    """Return findings on the function and the point; if one is inconclusive, digits cannot be compared."""
    found = [*noticed(q), *unsteady(q)]
    if any(f.severity == Severity.INCONCLUSIVE for f in found):
        return tuple(found)
    if q.not_finite is not None or not np.all(np.isfinite(q.value)):
        bad = q.not_finite
        says, hint = ("the value of f is not finite here", TO_FINITE) if bad is None else (bad.says, bad.hint)
        return (*found, finding(Kind.NON_FINITE, Severity.INCONCLUSIVE, says, hint=hint))
    if not q.entries or not size(q.value):
        return (*found, finding(Kind.NOTHING_TO_COMPARE, Severity.WARNING, "f has no entries to differentiate by"))
    found += [
        finding(kind, Severity.WARNING, mark.says)
        for kind, marks in ((Kind.KINK, q.kinks), (Kind.STAIRCASE, q.staircases))
        for mark in marks
    ]
    if right is not None:
        ray = common_ray(q, right.value)
        found += unexplained(q, ray, float(slope_along(q, right.value, ray)))
    return tuple(found)


def _row(q: Question, outcome: Outcome, right: Estimate | None, measured: bool) -> ModeRow:
    if outcome.estimate is None:
        error = outcome.error
        return ModeRow(outcome.status, message=error.what if error else ABSENT, hint=error.do if error else ABSENT)
    estimate = outcome.estimate
    vector = shape(q.value) != ()
    cost = estimate.cost
    found = _operations(q, outcome.mode.name, cost.evaluations)
    again = _recomputed(q, outcome.mode.name)
    peak = measured_bytes(q, outcome.mode.name) if measured else cost.peak_bytes
    seconds = least_seconds(q, outcome.mode.name, cost)
    return ModeRow(
        "ok", gradient=ABSENT if vector else estimate.value, jacobian=estimate.value if vector else ABSENT,
        right_digits=ABSENT if right is None else right_digits(q, estimate, right, own=outcome.mode.name != "claim"),
        bound=estimate.bound, proved=estimate.proved,
        bound_held=_held(q, estimate, right) if right is not None else ABSENT, reference=estimate is right or ABSENT,
        evaluations=cost.evaluations + again, recomputed=again or ABSENT, sweeps=_sweeps(q, outcome.mode.name),
        operations=cost.operations if found is None else found.total,
        additions=found.additions if found else ABSENT, multiplications=found.multiplications if found else ABSENT,
        transcendental=found.transcendental if found else ABSENT,
        formula=ABSENT if cost.formula is None else cost.formula, formula_shared=ABSENT if cost.shared is None else cost.shared,
        seconds=seconds, relative_time=seconds / q.seconds, peak_bytes=peak,
        ran_on=estimate.ran_on or ABSENT,
    )  # fmt: skip


def _sweeps(q: Question, mode: str) -> int | Absent:
    """Return how many sweeps a mode takes: one reverse sweep for each output, or one forward sweep for each input entry."""
    return {"reverse": size(q.value), "forward": q.entries}.get(mode, ABSENT)


def _recomputed(q: Question, mode: str) -> int:
    """Return the evaluations of f that reverse sweeps repeat if f is checkpointed, rounded up."""
    if mode != "reverse" or not q.checkpointed or len(q.lines) > MOST_LINES:
        return 0
    return -(-size(q.value) * recomputed(q).total // max(1, of_function(q).total))


def _operations(q: Question, mode: str, evaluations: int) -> Operations | None:
    """Return the operations of a mode, counted on recorded programs; None for modes that do not run in float64."""
    if q.untraced or not q.wrt or len(q.lines) > MOST_LINES:
        return None
    if mode == "reverse":
        return of_reverse(q)
    if mode == "forward":
        return of_forward(q).times(evaluations)
    return of_function(q).times(evaluations) if mode in ("finite-difference", "complex-step") else None


def _held(q: Question, estimate: Estimate, right: Estimate) -> bool | Absent:
    """Whether every entry differs from the reference by at most both bounds, plus one ulp for rounding the reference.

    The result is ABSENT if the estimate is the reference itself and not proved, or if it is not finite.
    """
    if estimate is right and not right.proved:
        return ABSENT
    excess = each(
        q, estimate, right,
        lambda name: np.abs(estimate.value[name] - right.value[name])
        - (np.asarray(estimate.bound[name]) + right.bound[name] + np.spacing(np.abs(right.value[name]))),
    )  # fmt: skip
    if np.any(excess > 0):
        return False
    return True if excess.size and not np.any(np.isnan(excess)) else ABSENT
