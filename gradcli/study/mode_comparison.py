"""The study behind `compare-modes`: the value, accuracy and cost of each mode, side by side."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from gradcli.arithmetic.dual import jacobian_from_rows, jvp
from gradcli.arithmetic.floats import FLOAT64, Format, Low, arithmetic_of_format, format_of
from gradcli.arithmetic.recorded_program import record, value_and_gradient, vjp
from gradcli.checks.check import Answers, check, with_values_at_smaller_tolerances
from gradcli.checks.evidence import Outcome
from gradcli.checks.framework_claim import describe_environment
from gradcli.checks.request import Request
from gradcli.checks.run_modes import answered_frameworks, choose_reference, report_missing_modes, run_modes
from gradcli.errors import BadOption, GradcliError, NotSupported
from gradcli.modes.claim import Claim
from gradcli.modes.finite_difference import SCHEMES
from gradcli.modes.kinks import TO_FINITE
from gradcli.modes.mode import Question
from gradcli.modes.recording import Effort, smaller_tolerances
from gradcli.modes.registry import MODES
from gradcli.modes.rounding import EPS
from gradcli.report import numbers
from gradcli.report.common import ABSENT, Absent, Finding, Target, finding
from gradcli.report.compare import (
    COST,
    EXACT,
    Accumulation,
    CompareReport,
    ModeRow,
    Precision,
    Product,
    RightDigits,
    SchemeSummary,
)
from gradcli.report.encode import MAX_ENTRIES
from gradcli.request.option_values import split_words
from gradcli.request.options import DEFAULTS
from gradcli.request.point import Estimate
from gradcli.study.outline import (
    MOST_COUNTED,
    least_seconds,
    measure_bytes,
    operations_of_forward,
    operations_of_function,
    operations_of_reverse,
    recomputed_operations,
    takes_at_most,
    time_runs,
)
from gradcli.study.rays import common_ray
from gradcli.study.sweep import (
    Study,
    calls_per_step,
    find_changed_value,
    find_unexplained_scatter,
    notices_as_findings,
    slope_along,
    step_sizes,
)
from gradcli.targets.derived import Gradient, original_function, random_direction
from gradcli.targets.python import output_entry_names
from gradcli.tracing.primitive import Operations
from gradcli.tracing.shapes import shape, size
from gradcli.words import Derivative, Exit, Kind, Severity


def compare_modes(request: Request) -> CompareReport:
    """Run the modes at the first point and compare them; the verdict on a claim is that of `check`.

    The options of the request say what is shown besides: costs, formats, micro-batches, a summary of error against step size.

    Raises  BadOption for a study that does not fit the function, such as a Jacobian of a scalar.
    """
    with smaller_tolerances(request.f):
        return _compare_at_point(with_values_at_smaller_tolerances(request))


# Gradient accumulation: compare the mean and the sum of micro-batch gradients with the full batch's gradient.

_ROUNDING = 1e-9  # relative: a larger difference is not rounding error


def compare_accumulation(q: Question, count: int) -> Accumulation:
    """Return how the mean and the sum of the gradients of `count` micro-batches differ from the full gradient.

    The batch is split along the first axis of all inputs that are not differentiated; these must have the same length.

    Raises  BadOption if f is no scalar, if there is no such axis, or if it has fewer than `count` rows.
    """
    if shape(q.value) != ():
        raise BadOption("--accumulate needs a scalar loss", do="reduce the result: mean(...)")
    batch = [name for name, x in q.point.values.items() if name not in q.wrt and isinstance(x, np.ndarray) and x.ndim]
    lengths = {len(q.point.values[name]) for name in batch}
    if len(lengths) != 1:
        what = "several lengths" if lengths else "no array"
        raise BadOption(
            f"--accumulate splits the inputs that are not differentiated along their first axis, and they have {what}",
            do='differentiate by the parameters alone: --wrt "w,b"',
        )
    rows = len(q.point.values[batch[0]])
    if not 1 < count <= rows:
        raise BadOption(f"--accumulate {count} does not fit a batch of {rows}", do=f"--accumulate 2 to {rows}")
    full = _gradient_at_changed(q, {})
    split = np.array_split(np.arange(rows), count)
    parts = [_gradient_at_changed(q, {name: q.point.values[name][some] for name in batch}) for some in split]
    sizes = [len(some) for some in split]
    shares = np.array(sizes) / rows
    mean = [sum((w * part[k] for w, part in zip(shares, parts, strict=True)), 0.0) for k in range(len(full))]
    total = [sum((part[k] for part in parts), 0.0) for k in range(len(full))]
    apart: dict[Literal["mean", "sum"], float]
    apart = {"mean": _relative_difference(mean, full), "sum": _relative_difference(total, full)}
    how = min(apart, key=lambda name: apart[name])
    spread = None
    if apart["mean"] <= _ROUNDING:
        norm = np.sqrt(sum(float(np.sum(x**2)) for x in full))
        off = [sum(float(np.sum((a - b) ** 2)) for a, b in zip(part, full, strict=True)) for part in parts]
        spread = float(np.sqrt(np.average(off, weights=shares)) / norm) if norm else None
    return Accumulation(
        count, tuple(batch), rows, how if apart[how] <= _ROUNDING else None, apart["mean"], apart["sum"],
        len(set(sizes)) > 1, spread,
    )  # fmt: skip


def _gradient_at_changed(q: Question, changed: dict[str, Any]) -> list[Any]:
    part = replace(q, point=replace(q.point, values={**q.point.values, **changed}, value=None))
    with np.errstate(all="ignore"):
        _, xbars = value_and_gradient(part.g, part.xs, lambda y: np.float64(1))
    return [np.asarray(xbar, dtype=np.float64) for xbar in xbars]


def _relative_difference(found: list[Any], full: list[Any]) -> float:
    """Return the largest difference, relative to the largest entry of the full gradient."""
    size = max((float(np.max(np.abs(x), initial=0.0)) for x in full), default=0.0) or 1.0
    apart = (float(np.max(np.abs(a - b), initial=0.0)) for a, b in zip(found, full, strict=True))
    return max(apart, default=0.0) / size


# Compare ways to compute a Hessian-vector product: forward over reverse, reverse over reverse, differences.

_H = np.cbrt(np.finfo(float).eps)
_TIMES = 3


def hessian_products(q: Question, right: Estimate | None) -> tuple[Product, ...]:
    """Return each way to compute H v, with its right digits and its time; empty if f is no gradient, or untraced.

    Units  seconds, and times one evaluation of the gradient.
    """
    if not isinstance(q.f, Gradient) or q.untraced:
        return ()
    vs = [random_direction(q.seed, name, x) for name, x in zip(q.wrt, q.xs, strict=True)]
    truth = None if right is None else _reference_product(right, q, vs)

    def gradient_at(h: float) -> Any:
        return q.g(*[x + h * v for x, v in zip(q.xs, vs, strict=True)])

    ways: dict[str, tuple[Callable[[], Any], int]] = {
        "forward over reverse": (lambda: jvp(q.g, q.xs, vs)[1], 1),
        "reverse over reverse": (lambda: _product_by_reverse(q, vs), 1),
        "differences of gradients": (lambda: (gradient_at(_H) - gradient_at(-_H)) / (2 * _H), 2),
    }
    found = []
    digits: float | None
    at_least: bool | Absent
    with np.errstate(all="ignore"):
        for name, (way, calls) in ways.items():
            try:
                value, seconds = time_runs(way, _TIMES)
            except NotSupported:
                continue
            digits, at_least = None, ABSENT
            if truth is not None:
                of_entries, lower = digits_against(value, *truth)
                digits, at_least = float(np.min(of_entries, initial=FULL)), bool(np.any(lower)) or ABSENT
            found.append(Product(name, calls, seconds, seconds / q.seconds, digits, at_least))
    return tuple(found)


# Count the right digits of an estimate, as far as the accuracy of the reference allows.

FULL = 16.0  # digits of a float64
_RESOLVED = 0.1  # times an error: a reference with a smaller bound measures this error


def right_digits(q: Question, estimate: Estimate, right: Estimate, *, own: bool = True) -> RightDigits | Absent:
    """Return the number of right digits of an estimate, in the worst and in the median entry.

    If the reference is not known better than the two differ, the number is a lower bound: from the difference plus the
    reference's bound or, if `own` is set and it gives more digits, from the estimate's own bound.

    Units  decimal digits, relative to the size of each reference entry.
    """
    if estimate is right:

        def by_bound(name: str) -> Any:
            value, bound = np.asarray(right.value[name]), np.asarray(right.bound[name])
            scale = np.where(value == 0, 1.0, np.abs(value))
            return np.where(bound == 0, EXACT, -np.log10(np.where(bound == 0, 1.0, bound) / scale))

        digits = measure_entries(q, right, right, by_bound)
        return _summarise_digits(digits if right.proved else np.clip(digits, 0.0, FULL), at_least=not right.proved)
    digits = measure_entries(q, estimate, right, lambda name: _digits_of_input(estimate, right, name, own))
    lower = measure_entries(
        q, estimate, right, lambda name: digits_against(estimate.value[name], right.value[name], right.bound[name])[1]
    )
    return _summarise_digits(digits, at_least=bool(np.any(lower.astype(bool) & (digits < FULL))))


def digits_against(x: Any, reference: Any, bound: Any) -> tuple[Any, Any]:
    """Return the number of right digits of each entry, and a mask of the entries where it is only a lower bound.

    Shapes  all arguments and both results have the same shape.
    Units   decimal digits relative to the reference, whose error is at most `bound`.
    """
    error, room = _relative_errors(x, reference, bound)
    with np.errstate(all="ignore"):
        lower = ~(room <= _RESOLVED * error)
        digits = -np.log10(np.where(lower, error + room, error))
    digits = np.where(np.isnan(digits), 0.0, np.clip(digits, 0.0, FULL) + 0.0)
    return digits, lower & (digits < FULL)


def measure_entries(q: Question, estimate: Estimate, right: Estimate, measure: Any) -> Any:
    """Return `measure` of every entry, as one vector; entries that a kink or a staircase leaves undecided are left out."""
    found = [
        np.ravel(measure(name))[~np.ravel(np.broadcast_to(open_, shape(right.value[name])))]
        for name, open_ in zip(q.wrt, q.undecided, strict=True)
        if name in estimate.value and name in right.value
    ]
    return np.concatenate(found) if found else np.zeros(0)


def _digits_of_input(estimate: Estimate, right: Estimate, name: str, own: bool) -> Any:
    x, reference, bound = estimate.value[name], right.value[name], right.bound[name]
    digits, lower = digits_against(x, reference, bound)
    if not own:
        return digits
    error, room = _relative_errors(x, reference, bound)
    _, claimed = _relative_errors(x, reference, estimate.bound[name])
    with np.errstate(all="ignore"):
        better = lower & (error <= room + claimed)  # the estimate's bound is not violated
        by_own = np.clip(-np.log10(claimed), 0.0, FULL)
    return np.where(better & (by_own > digits), by_own, digits)


def _relative_errors(x: Any, reference: Any, bound: Any) -> tuple[Any, Any]:
    """Return the distance of two values, and a bound, both relative to the reference."""
    reference = np.asarray(reference, dtype=float)
    scale = np.where(reference == 0, 1.0, np.abs(reference))
    with np.errstate(all="ignore"):
        return np.abs(np.asarray(x, dtype=float) - reference) / scale, np.asarray(bound, dtype=float) / scale


def _summarise_digits(digits: Any, at_least: bool) -> RightDigits | Absent:
    if not digits.size:
        return ABSENT
    return RightDigits(float(np.min(digits)), float(np.median(digits)), at_least or ABSENT)


def _reference_product(right: Estimate, q: Question, vs: list[Any]) -> tuple[Any, Any]:
    """Return H v by the reference Hessian, and its bound: that of H, and the rounding error of the sum."""
    rows = [(right.value[name], right.bound[name], v) for name, v in zip(q.wrt, vs, strict=True)]
    values = sum(np.reshape(np.tensordot(h, v, np.ndim(v)), -1) for h, _, v in rows)
    wide = [np.reshape(np.tensordot(b + q.entries * EPS * np.abs(h), np.abs(v), np.ndim(v)), -1) for h, b, v in rows]
    return values, sum(wide)


def _product_by_reverse(q: Question, vs: list[Any]) -> Any:
    """Return v H, which equals H v, by one reverse sweep over the gradient."""
    y, pull = vjp(q.g, q.xs)
    whole = np.concatenate([np.reshape(v, -1) for v in vs])
    if shape(y) != shape(whole):
        raise NotSupported("the gradient is taken by other inputs than the Hessian")
    rows = [jacobian_from_rows([[bar]], np.float64(0), 0, x) for bar, x in zip(pull(whole), q.xs, strict=True)]
    return np.concatenate([np.reshape(row, -1) for row in rows])


# Measure gradients in low precision: errors in ulps, underflow and overflow, and the effect of loss scaling.

_HEADROOM = 2  # powers of two that an automatic loss scale leaves below the largest number
MOST_SCALE = 120  # the largest power of two by which float32 can be scaled back


def measure_in_format(q: Question, right: Estimate, form: Format, scale: int | None) -> Precision:
    """Return the accuracy of a reverse sweep in a format, plain and with the loss scaled by 2^scale.

    Without `scale`, the loss is scaled only if something underflows, by the largest power of two without overflow.

    Units   errors in ulps of the format; `scale` is an exponent of two.
    Raises  NotSupported for second derivatives, and for functions that are no scalars.
    """
    if isinstance(q.f, Gradient):
        raise NotSupported("low precision is for first derivatives", do="leave --order 2 out")
    if shape(q.value) != ():
        raise NotSupported("a loss is scaled, and this result is not a scalar", do="reduce it: sum(...)")
    plain, events = _sweep_in_format(q, form, 0)
    lost = {name: (x == 0) & (right.value[name] != 0) for name, x in plain.items()}
    small = events["underflow"] + events["subnormal"]
    k = scale
    if k is None and small:  # the largest power of two by which no adjoint overflows
        most = np.floor(np.log2(form.largest / max(q.largest_adjoint, 1.0))) - _HEADROOM
        k = int(np.clip(most, 0, MOST_SCALE)) or None
    worst, median, infinite = _errors_in_ulps(plain, right, form)
    found = Precision(
        dtype=form.name, ulps_worst=worst, ulps_median=median, zeros=_count_marked(lost), not_finite=infinite,
        underflows=events["underflow"], subnormals=events["subnormal"], overflows=events["overflow"],
    )  # fmt: skip
    if k is None:
        return found
    scaled, scaled_events = _sweep_in_format(q, form, k)
    worst, median, infinite = _errors_in_ulps(scaled, right, form)
    restored = {name: was & (scaled[name] != 0) & np.isfinite(scaled[name]) for name, was in lost.items()}
    return replace(
        found, loss_scale=k, restored=_count_marked(restored), scaled_ulps_worst=worst, scaled_ulps_median=median,
        scaled_overflows=scaled_events["overflow"], scaled_not_finite=infinite,
    )  # fmt: skip


def _sweep_in_format(q: Question, form: Format, k: int) -> tuple[dict[str, Any], Mapping[str, int]]:
    """Return the gradient of 2^k f in a format, divided by 2^k, and the counts of underflow and overflow."""
    kind: type[Low] = arithmetic_of_format(form)
    kind.events.clear()
    with np.errstate(all="ignore"):
        try:
            y, inputs, tape = record(q.g, [kind.lift(x) for x in q.xs])
            bars = tape.pull(y, kind.lift(2.0**k), inputs)
        except (GradcliError, np.linalg.LinAlgError) as error:
            if not isinstance(error.__cause__ or error, np.linalg.LinAlgError):
                raise
            bars = [np.full(shape(x), np.nan) for x in q.xs]  # a matrix that is singular after rounding
        plain = [np.asarray(bar.value if isinstance(bar, Low) else bar, dtype=np.float64) for bar in bars]
        found = {name: bar / 2.0**k for name, bar in zip(q.wrt, plain, strict=True)}
    return found, dict(kind.events) | {key: kind.events[key] for key in ("underflow", "subnormal", "overflow")}


def _count_marked(which: dict[str, Any]) -> int:
    return sum(int(np.count_nonzero(x)) for x in which.values())


def _errors_in_ulps(found: dict[str, Any], right: Estimate, form: Format) -> tuple[float, float, int]:
    """Return the worst and the median error in ulps of the format, and the number of entries that are not finite.

    An ulp is relative to the size of the right entry, as if the exponent had no limits; for an entry of zero it is that
    of the smallest normal number. An entry that is not finite has an infinite error.
    """
    errors, infinite = [np.zeros(0)], 0
    for name, x in found.items():
        g = np.abs(np.asarray(right.value[name]))
        exponent = np.floor(np.log2(np.where(g == 0, form.tiny, np.maximum(g, np.finfo(float).tiny))))
        ulps = np.abs(x - right.value[name]) / (form.eps * 2.0**exponent)
        infinite += int(np.count_nonzero(~np.isfinite(x)))
        errors.append(np.ravel(np.where(np.isfinite(x), ulps, np.inf)))
    every = np.concatenate(errors)
    return (float(np.max(every, initial=0.0)), float(np.median(every)) if len(every) else 0.0, infinite)


# A summary of error against step size for `compare-modes`: a few schemes along one ray.

_IN_SUMMARY = ("forward", "central", "5-point", "complex")
_MOST_WORK = 2 * 10**9  # operations of all evaluations of the summary in `compare-modes`
_MOST_CALLS = 100  # of the summary for a function without a trace, whose operations cannot be counted


def left_out_of_summary(q: Question) -> str | None:
    """Return why there is no summary: no input, too much work, or no higher derivatives; None if there is a summary."""
    calls = calls_per_step([scheme for scheme in SCHEMES if scheme.name in _IN_SUMMARY]) * len(step_sizes(EPS))
    if not q.wrt or not q.entries:
        return "there is no input to step in"
    if q.solvers:
        return "solvers in f have rules for first derivatives only"
    if not q.untraced and not takes_at_most(q, _MOST_WORK, calls):
        return f"it would take {calls:,} evaluations of f, about {numbers.write_figure(calls * q.work)} operations"
    return None


def summarise_schemes(q: Question, found: Mapping[str, Outcome], imaginary: bool) -> tuple[SchemeSummary, ...]:
    """Return the order, best step and error of a few schemes along one ray; outcomes in `found` are reused."""
    schemes = [scheme for scheme in SCHEMES if scheme.name in _IN_SUMMARY and (imaginary or not scheme.imaginary)]
    if q.untraced:
        q = replace(q, stepping=replace(q.stepping, budget=min(_MOST_CALLS, q.stepping.budget or _MOST_CALLS)))
    study = Study(q, schemes, DEFAULTS, found=found)
    curves, _ = study.curves([FLOAT64], ())
    return tuple(
        SchemeSummary(
            c.scheme, c.order, c.best.h, c.best.relative_error, c.best.digits,
            *((c.predicted.h, c.predicted.relative_error) if c.predicted else (None, None)),
        )
        for c in curves
    )  # fmt: skip


def _compare_at_point(request: Request) -> CompareReport:
    point, options = request.points[0], request.options
    q = request.question(point, request.budget.at_least(Effort.ALL))
    formats = [format_of(name) for name in options.formats]
    if options.jacobian and shape(q.value) == ():
        raise BadOption("--jacobian is for a vector result, and this one is a scalar", do="for its Hessian: --order 2")
    cost = (*COST, "sweeps") if shape(q.value) else COST
    columns = split_words(options.columns) or (cost if options.cost else ())
    measured = options.cost or bool(set(columns) & {"adds", "mults", "fn", "memory"})
    with np.errstate(all="ignore"):
        modes = [MODES[name] for name in request.modes]
        outcomes = run_modes(q, [*([Claim(request.claim)] if request.claim else []), *modes])
        reference = choose_reference({name: o for name, o in outcomes.items() if name != "claim"})
        right = outcomes[reference].estimate if reference else None
        told = (*_findings(q, right), *report_missing_modes(outcomes))
        open_ = {f.kind for f in told if f.severity == Severity.INCONCLUSIVE}
        smooth = not open_ and not q.kinks
        imaginary = "complex-step" not in outcomes or outcomes["complex-step"].status == "ok"
        steps: tuple[SchemeSummary, ...] = ()
        without: str | Absent = ABSENT
        if options.steps and (right is None or not smooth):
            without = "there is no smooth derivative here to compare with"
        elif options.steps:
            without = left_out_of_summary(q) or ABSENT
            steps = () if without else summarise_schemes(q, outcomes, imaginary)
        rows = {name: _mode_row(q, outcome, None if open_ else right, measured) for name, outcome in outcomes.items()}
        found = hessian_products(q, right)
        lows = [measure_in_format(q, right, form, options.loss_scale) for form in formats if right is not None]
    if request.own is not None and rows["claim"].status == "ok":
        rows["claim"] = replace(rows["claim"], ran_on=request.own.native.ran_on)
    judged = check(request, answers=Answers(q, outcomes)) if request.claim else None
    status = Exit.INCONCLUSIVE if open_ else Exit.CONFIRMED
    if any(outcome.status == "unavailable" for outcome in outcomes.values()):
        status = Exit.UNUSABLE
    derivative: Derivative = "Hessian" if isinstance(q.f, Gradient) else "Jacobian"
    return CompareReport(
        target=Target(q.f.kind, original_function(q.f).text), at=point.values, drawn=point.drawn, seed=request.seed,
        value=q.own_value,
        f_seconds=q.seconds,
        reference=reference, modes=rows, sweep=steps, findings=told,
        exit_status=int(status) if judged is None else judged.exit_status,
        verdict=ABSENT if judged is None else judged.verdict, message=ABSENT if judged is None else judged.sentence(),
        function=ABSENT if original_function(q.f) is q.f else q.f.text, columns=columns or ABSENT,
        precision=tuple(lows) or ABSENT, products=found or ABSENT,
        accumulation=ABSENT if options.accumulate is None else compare_accumulation(q, options.accumulate),
        environment=describe_environment(answered_frameworks(outcomes)),
        derivative=derivative if shape(q.value) else "gradient",
        no_sweep=without,
        outputs=tuple(output_entry_names(q.f.outputs)) if q.f.outputs and size(q.value) <= MAX_ENTRIES else ABSENT,
    )  # fmt: skip


def _findings(q: Question, right: Estimate | None) -> tuple[Finding, ...]:
    """Return findings on the function and the point; if one is inconclusive, digits cannot be compared."""
    found = [*notices_as_findings(q), *find_changed_value(q)]
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
        found += find_unexplained_scatter(q, ray, float(slope_along(q, right.value, ray)))
    return tuple(found)


def _mode_row(q: Question, outcome: Outcome, right: Estimate | None, measured: bool) -> ModeRow:
    if outcome.estimate is None:
        error = outcome.error
        return ModeRow(outcome.status, message=error.what if error else ABSENT, hint=error.do if error else ABSENT)
    estimate = outcome.estimate
    vector = shape(q.value) != ()
    cost = estimate.cost
    mode = outcome.mode.name
    found = _count_operations(q, mode, cost.evaluations)
    again = 0  # the evaluations of f that reverse sweeps repeat if f is checkpointed, rounded up
    if mode == "reverse" and q.checkpointed and len(q.lines) <= MOST_COUNTED:
        again = -(-size(q.value) * recomputed_operations(q).total // max(1, operations_of_function(q).total))
    peak = measure_bytes(q, mode) if measured else cost.peak_bytes
    seconds = least_seconds(q, mode, cost)
    return ModeRow(
        "ok", gradient=ABSENT if vector else estimate.value, jacobian=estimate.value if vector else ABSENT,
        right_digits=ABSENT if right is None else right_digits(q, estimate, right, own=mode != "claim"),
        bound=estimate.bound, proved=estimate.proved,
        bound_held=_is_within_bounds(q, estimate, right) if right is not None else ABSENT, reference=estimate is right or ABSENT,
        evaluations=cost.evaluations + again, recomputed=again or ABSENT,
        sweeps={"reverse": size(q.value), "forward": q.entries}.get(mode, ABSENT),
        operations=cost.operations if found is None else found.total,
        additions=found.additions if found else ABSENT, multiplications=found.multiplications if found else ABSENT,
        transcendental=found.transcendental if found else ABSENT,
        formula=ABSENT if cost.formula is None else cost.formula, formula_shared=ABSENT if cost.shared is None else cost.shared,
        seconds=seconds, relative_time=seconds / q.seconds, peak_bytes=peak,
        ran_on=estimate.ran_on or ABSENT,
    )  # fmt: skip


def _count_operations(q: Question, mode: str, evaluations: int) -> Operations | None:
    """Return the operations of a mode, counted on recorded programs; None for modes that do not run in float64."""
    if q.untraced or not q.wrt or len(q.lines) > MOST_COUNTED:
        return None
    if mode == "reverse":
        return operations_of_reverse(q)
    if mode == "forward":
        return operations_of_forward(q).times(evaluations)
    return operations_of_function(q).times(evaluations) if mode in ("finite-difference", "complex-step") else None


def _is_within_bounds(q: Question, estimate: Estimate, right: Estimate) -> bool | Absent:
    """Whether every entry differs from the reference by at most both bounds, plus one ulp for rounding the reference.

    The result is ABSENT if the estimate is the reference itself and not proved, or if it is not finite.
    """
    if estimate is right and not right.proved:
        return ABSENT
    excess = measure_entries(
        q, estimate, right,
        lambda name: np.abs(estimate.value[name] - right.value[name])
        - (np.asarray(estimate.bound[name]) + right.bound[name] + np.spacing(np.abs(right.value[name]))),
    )  # fmt: skip
    if np.any(excess > 0):
        return False
    return True if excess.size and not np.any(np.isnan(excess)) else ABSENT
