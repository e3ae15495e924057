"""The study behind `sweep`: error against step size for difference schemes and formats, against the true slope."""

import contextlib
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from flint import arb

from gradcli.arithmetic.ball import Ball, precision
from gradcli.arithmetic.dual import cotangent_rows
from gradcli.arithmetic.floats import FLOAT64, GUARD, Format, arithmetic_of_bits, format_of, round_to_bits
from gradcli.arithmetic.recorded_program import record
from gradcli.arithmetic.tape import Recorded
from gradcli.checks.check import Answers, check
from gradcli.checks.evidence import Outcome
from gradcli.checks.framework_claim import describe_environment
from gradcli.checks.request import Request
from gradcli.checks.run_modes import run_mode
from gradcli.errors import BadOption, GradcliError, NotSupported, Undecided
from gradcli.modes.difference_steps import noise_sample_places, residual_deviation
from gradcli.modes.finite_difference import (
    ONE_SIDED,
    SCHEMES,
    STENCILS,
    ComplexStep,
    Scheme,
    log_slope,
    median_of_neighbours,
    parse_schemes,
)
from gradcli.modes.kinks import TO_FINITE
from gradcli.modes.mode import Question
from gradcli.modes.recording import Effort
from gradcli.modes.registry import MODES
from gradcli.modes.rounding import EPS
from gradcli.report import numbers
from gradcli.report.common import ABSENT, Absent, Finding, Target, finding
from gradcli.report.sweep import Best, Curve, Noise, NoisyStep, Predicted, SweepReport, Taylor, Useless, Why
from gradcli.request.options import Options
from gradcli.study.outline import takes_at_most
from gradcli.study.rays import (
    Ray,
    Rays,
    common_ray,
    directions,
    entry_rays,
    output_weights,
    round_point,
    values_in_balls,
)
from gradcli.targets.derived import original_function
from gradcli.tracing.shapes import shape
from gradcli.words import Exit, Kind, Remains, Severity, Verdict

FEWEST_BITS, MOST_BITS = 16, 800  # float64 holds steps down to about 2^-1024
_MEASURED = 16  # rays, at most, for which the higher derivatives of f are computed
_FEWEST_STEPS = 8
_ROUNDING = 1e3  # times one rounding: larger noise has another cause
_LONG = 10**10  # operations of all evaluations: longer sweeps are announced first
_MANY = 1_000  # the same in evaluations, for a function without a trace


# Curves of error against step size, for each scheme, ray and format, with the order and the best step.

_STENCIL_BITS, _STENCIL_STEP = 640, 2.0**-40
_ONE_SIDED_STEP_BITS = 400


def slope_along(q: Question, gradient: dict[str, Any], ray: Ray, *, sizes: bool = False) -> arb:
    """Return <g, v>, with the rows of a Jacobian summed by weights; with `sizes`, <g, |v|>, to add up error bounds."""
    w = output_weights(q)
    total = arb(0)
    for name, v in zip(q.wrt, directions(q, ray), strict=True):
        if v is not None and name in gradient:
            g = np.tensordot(w, np.asarray(gradient[name]), np.ndim(w)) if shape(w) else np.asarray(gradient[name])
            (g, a), (v, b) = _scale_to_one(g), _scale_to_one(np.abs(v) if sizes else v)
            total += arb(float(np.sum(g * v))) * arb(2) ** (a + b)
    return total.mid()


def _scale_to_one(x: Any) -> tuple[Any, int]:
    """Return numbers divided by a power of two, so that the largest is about 1, and the exponent."""
    largest = float(np.max(np.abs(x), initial=0.0))
    k = int(np.frexp(largest)[1]) if np.isfinite(largest) else 0
    return np.ldexp(x, -k), k


def higher_derivatives(q: Question, ray: Ray) -> dict[int, float]:
    """Return the absolute values of the higher derivatives along a ray, by order, from stencils in balls.

    Error  about 1e-24 relative for smooth functions, not bounded.
    Cost   9 evaluations of f in balls.
    """
    h = arb(_STENCIL_STEP)
    values = values_in_balls(q, ray, [arb(k) * h for k in range(-4, 5)], _STENCIL_BITS)
    with precision(_STENCIL_BITS):
        found = {
            k: float(abs(sum((w * x for w, x in zip(ws, values, strict=True)), arb(0)) / h**k))
            for k, ws in STENCILS.items()
        }
    return {k: x for k, x in found.items() if np.isfinite(x) and x > 1e-20}


def slopes_in_balls(q: Question, rays: Sequence[Ray], bits: int) -> list[arb]:
    """Return the slopes along rays by one reverse sweep in balls for each output.

    Raises  Undecided if the balls are too wide for half of `bits`.
    """
    with precision(bits + 32):
        program = record(q.g, [Ball.lift(x) for x in q.xs])
        w = np.reshape(output_weights(q), -1)
        if not isinstance(program.y, Recorded):  # f is constant, as a floor is
            return [arb(0)] * len(rays)
        rows = cotangent_rows(program, Ball.lift(1))
        totals = [
            sum((row[k] * float(part) for row, part in zip(rows, w, strict=True)), Ball.lift(0))
            for k in range(len(q.xs))
        ]
        found = []
        for ray in rays:
            parts = [np.sum(g * v) for g, v in zip(totals, directions(q, ray), strict=True) if v is not None]
            slope = sum(parts, Ball.lift(0)).value
            if not slope.is_finite() or slope.rad() > abs(slope) * arb(2) ** (-bits // 2) + arb(2) ** -bits:
                raise Undecided("ball arithmetic gives too wide an interval for the slope")
            found.append(slope.mid())
    return found


DECADES = 20  # steps go from 1 down to 1e-20 of the input's size
PER_DECADE = 3
_FAR = 10.0  # times the best error: above it, only one of truncation and rounding matters
_LAW = 0.1  # relative error: with larger errors a scheme is not in its asymptotic range
# divided by (order + 1): how many of the smallest steps where truncation dominates the order is fitted to
_ASYMPTOTIC = 18
_NOTHING = 0.5  # relative error above which no digit is right
_UNSEEN = 1e-31  # relative: the resolution of a slope held as the sum of two float64 numbers
_TYPICAL = 0.05  # of the rounding error of the law: no neighbourhood of steps errs less, though single steps may
_AS_GOOD = 2.0  # times the least error: errors up to this count as equally good
_RANGE = 1e290  # slopes beyond it, or below its inverse, may over- or underflow float64
_STRAIGHT = 0.1, 0.05  # absolute and relative: the allowed scatter of local slopes of a power law about its exponent

Truth = Mapping[str, arb]  # the slope along a ray by the name of the scheme, since it is one-sided at a kink


def step_sizes(eps: float, most: int | None = None) -> Any:
    """Return the step sizes of a curve, largest first: from 1 to 1e-20, or smaller if eps requires it; `most` at most.

    Units  relative to the size of the input.
    """
    decades = max(DECADES, int(np.ceil(-1.25 * np.log10(eps))))
    count = PER_DECADE * decades + 1
    if most is None or most >= count:
        return 10.0 ** (-np.arange(count) / PER_DECADE)
    return 10.0 ** np.linspace(0, -decades, most)


def errors_in_format(
    along: Rays, rays: Sequence[Ray], schemes: Sequence[Scheme], truths: Sequence[Truth], hs: Any
) -> list[list[Any]]:
    """Return the relative errors of every scheme along each ray in a floating-point format: [ray][scheme][step]."""
    form = along.form
    offsets = sorted({o for scheme in schemes for o in scheme.offsets})
    values = {o: along.values(rays, o * hs if o else np.zeros(1)) for o in offsets}
    found = []
    for scheme in schemes:
        slopes = [truth[scheme.name] for truth in truths]
        units = [1.0] * len(rays)  # the power of two that steps are multiplied by
        for k, (ray, slope) in enumerate(zip(rays, slopes, strict=True)):
            if not is_in_range(slope):  # the ray's size
                size = max(float(np.max(np.abs(v), initial=0.0)) for v in directions(along.q, ray) if v is not None)
                units[k] = float(np.exp2(np.ceil(np.log2(size)))) if size else 1.0
        h = form.rounded(form.rounded(hs) * np.array(units)[:, None])
        if scheme.imaginary:
            estimate = form.rounded(np.imag(along.values(rays, 1j * hs)) / h)
        else:
            estimate = scheme.quotient(values, h, form.rounded)
        found.append([_relative_error(estimate[k], slope, units[k]) for k, slope in enumerate(slopes)])
    return [list(errors) for errors in zip(*found, strict=True)]


# The true slopes along rays, also beyond the range of float64, and the derivatives that truncation depends on.


def is_in_range(slope: arb) -> bool:
    """Whether a slope along a ray is zero, or far from the limits of the float64 range."""
    return slope == 0 or 1 / _RANGE < abs(float(slope)) < _RANGE


def _relative_error(estimate: Any, slope: arb, unit: float) -> Any:
    """Return |estimate - slope| / |slope|, with the slope in twice the digits of float64; absolute if the slope is 0.

    Units  the estimate is of slope / unit, with `unit` a power of two.
    """
    with precision(256):
        slope = slope / arb(unit)
    high = float(slope)
    low = float(slope - arb(high))
    estimate = np.asarray(estimate)
    # else numpy rounds the slope to a narrow format
    estimate = estimate.astype(np.promote_types(estimate.dtype, np.float64))
    error = np.asarray(np.abs((estimate - high) - low) / (abs(high) or 1.0), dtype=np.float64)
    return np.where(error < _UNSEEN, 0.0, error)


def errors_in_bits(q: Question, ray: Ray, schemes: Sequence[Scheme], truth: Truth, hs: Any, bits: int) -> list[Any]:
    """Return the relative errors of every scheme along one ray, in arithmetic of `bits` bits: [scheme][step]."""
    rounded = np.frompyfunc(lambda x: round_to_bits(x, bits), 1, 1)
    offsets = sorted({o for scheme in schemes for o in scheme.offsets})
    with precision(bits + GUARD):
        h = np.array([round_to_bits(arb(float(x)), bits) for x in hs], dtype=object)
        places = {o: [t * arb(o) for t in h] if o else [arb(0)] for o in offsets}
        values = {
            o: np.array(values_in_balls(q, ray, ts, bits + GUARD, arithmetic_of_bits(bits)), dtype=object)
            for o, ts in places.items()
        }
        estimates = [scheme.quotient(values, h, rounded) for scheme in schemes]
    with precision(2 * bits):
        return [
            np.array([float(abs(x - slope) / (abs(slope) if slope != 0 else arb(1))) for x in estimate])
            for estimate, slope in zip(estimates, (truth[scheme.name] for scheme in schemes), strict=True)
        ]


def make_curve(
    form: str, eps: float, ray: Ray, scheme: Scheme, hs: Any, errors: Any, still: Any, *, slope: arb, known_to: float,
    derivatives: Mapping[int, float], e: float,
) -> Curve:  # fmt: skip
    """Return one curve with its observed order and best step, and with the best step that theory predicts.

    `eps` is the spacing of a format's numbers at 1, `still` a mask of the steps that are lost in rounding: x + h v is x.
    `known_to` is the relative bound of the slope: smaller errors are not resolved. `e` is the rounding error of one value.
    """
    most_digits = float(-np.log10(eps / 2))  # of a correctly rounded number
    known = np.where(np.isfinite(errors), errors, np.inf)
    nowhere = still & (slope == 0)  # f(x) - f(x) is no estimate of 0
    smooth = np.maximum(median_of_neighbours(np.where(nowhere, np.inf, known)), known_to)
    law = _TYPICAL * scheme.r * e / (hs * (abs(float(slope)) or 1.0)) if is_in_range(slope) else np.zeros(len(hs))
    likely = np.maximum(smooth, law)
    likely[0], likely[-1] = max(likely[:2]), max(likely[-2:])  # an end has a neighbour on one side alone
    k = int(np.argmin(likely))
    if scheme.imaginary:
        k = int(np.argmax(likely <= _AS_GOOD * max(float(likely[k]), eps / 2)))
    least = float(likely[k])
    digits = most_digits if least == 0 else float(np.clip(-np.log10(least), 0.0, most_digits)) + 0.0
    floor = max(least, eps / 2)
    right = (np.arange(len(hs)) < k) & (smooth > 3 * _FAR * floor) & (smooth < _LAW)
    some = max(4, _ASYMPTOTIC // (scheme.order + 1))
    left = (np.arange(len(hs)) > k) & (smooth > _FAR * floor) & (smooth < _NOTHING) & ~still
    order, back = _fit_order(hs[right][-some:], smooth[right][-some:]), log_slope(hs[left], smooth[left])
    return Curve(
        scheme=scheme.name, dtype=form, input=ray.name, index=ray.index, scale=ray.scale, slope=float(slope),
        rounding=eps / 2, h=tuple(map(float, hs)), relative_error=tuple(map(float, errors)),
        order=order, rounding_slope=back,
        best=Best(float(hs[k]), least, digits, in_input_units(float(hs[k]), ray)),
        predicted=_predict_best_step(eps, scheme, ray, e, derivatives, float(slope)),
        useless=tuple(_useless_ranges(hs, known, smooth, still, k)), absolute=bool(slope == 0), known_to=known_to or ABSENT,
        h_absolute=ABSENT if ray.name is None else tuple(map(float, hs * ray.scale)),
        truncation_steps=_range_of_power_law(order, hs[:k], smooth[:k], right[:k], 2.0),
        rounding_steps=_range_of_power_law(back, hs[k + 1 :], np.where(still, np.inf, smooth)[k + 1 :], left[k + 1 :], 10.0),
    )  # fmt: skip


def _range_of_power_law(
    power: float | None, hs: Any, errors: Any, fitted: Any, factor: float
) -> tuple[float, float] | Absent:
    """Return the smallest and the largest step of the longest run in which errors follow a power of h, up to a factor.

    The `fitted` steps, a mask, tell the constant. ABSENT where fewer than three steps in a row follow the power.
    """
    if power is None:
        return ABSENT
    with np.errstate(all="ignore"):
        off = np.log10(errors) - power * np.log10(hs)
        follows = (np.abs(off - np.median(off[fitted])) <= np.log10(factor)) & (errors < _NOTHING)
    runs = [
        [k for k, _ in run] for good, run in itertools.groupby(enumerate(follows), key=lambda step: step[1]) if good
    ]
    run = max(runs, key=len, default=[])
    return (float(hs[run[-1]]), float(hs[run[0]])) if len(run) > 2 else ABSENT


def in_input_units(h: float, ray: Ray) -> float | Absent:
    """Return a step in the units of the input; ABSENT along all inputs, where it differs between entries."""
    return ABSENT if ray.name is None else h * ray.scale


def _fit_order(hs: Any, errors: Any) -> float | None:
    """Return the exponent of h in the error; None if the errors follow no power law."""
    order = log_slope(hs, errors)
    if order is None:
        return None
    with np.errstate(all="ignore"):
        apart = np.median(np.abs(np.diff(np.log(errors)) / np.diff(np.log(hs)) - order))
    return order if apart <= max(_STRAIGHT[0], _STRAIGHT[1] * order) else None


def _predict_best_step(
    eps: float, scheme: Scheme, ray: Ray, e: float, derivatives: Mapping[int, float], slope: float
) -> Predicted | None:
    """Return the best step in theory, with a formula in units of the input; along all inputs, relative to their size."""
    unit = 1.0 if ray.name is None else ray.scale
    if scheme.imaginary:
        third = derivatives.get(scheme.derivative, 0.0)
        if not third or not slope:
            return None
        h = float(np.sqrt(eps / 2 * abs(slope) / (scheme.c * third)))
        given = f"6 x {eps / 2:.2g} x {abs(slope) / unit:.3g} / {_per_unit(third, unit, 3):.3g}"
        says = f"h < sqrt(6 u |f'| / |{scheme.symbol}|) = sqrt({given}) = {h * unit:.2g}"
        return Predicted(h, eps / 2, says, in_input_units(h, ray))
    found = scheme.predicted(e, derivatives)
    if found is None or not slope:
        return None
    size = f"{_per_unit(derivatives[scheme.derivative], unit, scheme.derivative):.3g}"
    numbers = scheme.law().replace(" e/", f" x {e:.2g}/").replace(f"|{scheme.symbol}|", size)
    says = f"h = {scheme.law()} = {numbers} = {found[0] * unit:.2g}"
    return Predicted(found[0], found[1] / abs(slope), says, in_input_units(found[0], ray))


def _per_unit(derivative: float, unit: float, order: int) -> float:
    """Return a derivative of some order per unit of the input, also where the power of the unit is beyond float64."""
    for _ in range(order):
        derivative /= unit
    return derivative


def _useless_ranges(hs: Any, errors: Any, smooth: Any, still: Any, best: int) -> list[Useless]:
    """Return the ranges of step sizes in which no digit is right, each with its cause."""

    def why(k: int) -> Why | None:
        if still[k]:
            return "below one ulp"
        if not np.isfinite(errors[k]):
            return "no value"
        if smooth[k] >= _NOTHING and errors[k] >= _NOTHING / 5:
            return "truncation" if k < best else "cancellation"
        return None

    runs = [(cause, list(steps)) for cause, steps in itertools.groupby(range(len(hs)), key=why)]
    return [Useless(float(hs[ks[-1]]), float(hs[ks[0]]), cause) for cause, ks in runs if cause is not None]


def one_sided_slopes(q: Question, rays: Sequence[Ray]) -> list[Truth]:
    """Return the one-sided slopes along each ray, `forward` and `backward`, by differences in high precision."""
    bits = 4 * _ONE_SIDED_STEP_BITS
    found: list[Truth] = []
    for ray in rays:
        with precision(bits):
            h = arb(2) ** -_ONE_SIDED_STEP_BITS
            down, at, up = values_in_balls(q, ray, [-h, arb(0), h], bits)
            found.append({"forward": ((up - at) / h).mid(), "backward": ((at - down) / h).mid()})
    return found


# Test whether a function returns the same value twice, and whether its values scatter more than rounding explains.

_FINER = 0.01  # times the first spacing: smooth changes vanish over so short distances, noise does not
_UNEXPLAINED = 1e3  # times the rounding error: larger scatter is noise
_MOST_WORK = 2 * 10**9  # operations that the search for noise may take


def notices_as_findings(q: Question) -> list[Finding]:
    """Return the notices of the first calls of the function as findings."""
    return [finding(n.kind, n.severity, n.message, at=n.at, hint=n.hint) for n in q.point.notices]


def find_changed_value(q: Question) -> list[Finding]:
    """Return a finding if a Python function returns a different value when called again."""
    if q.f.kind != "python" or any(notice.kind == Kind.NOT_DETERMINISTIC for notice in q.point.notices):
        return []
    if np.array_equal(np.asarray(q.near(*q.xs)), np.asarray(q.value), equal_nan=True):
        return []
    says = "the function's value at this point has changed since the first call: the function keeps state"
    return [finding(Kind.NOT_DETERMINISTIC, Severity.INCONCLUSIVE, says, hint="let it depend on its arguments alone")]


def function_along(q: Question, ray: Ray) -> Callable[[float], float]:
    """Return f, or the weighted sum of its outputs, at x + t v, as a function of t."""
    w, vs = output_weights(q), directions(q, ray)

    def f(t: float) -> float:
        return float(np.sum(w * q.near(*(x if v is None else x + t * v for x, v in zip(q.xs, vs, strict=True)))))

    return f


def find_unexplained_scatter(q: Question, ray: Ray, slope: float) -> list[Finding]:
    """Return a finding if values of a Python function near the point scatter by more than rounding explains.

    Cost  18 evaluations of f.
    """
    if q.f.kind != "python" or q.kinks or q.staircases or q.stepping.budget is not None:
        return []
    if not q.untraced and not takes_at_most(q, _MOST_WORK, 2 * len(noise_sample_places(1.0))):
        return []
    f, found = function_along(q, ray), []
    for spacing in (1.0, _FINER):
        places = noise_sample_places(spacing)
        found.append(float(residual_deviation(places, np.array([f(t) for t in places]))))
    size = float(np.sum(np.abs(output_weights(q) * q.value))) if shape(q.value) else abs(float(q.value))
    explained = np.finfo(float).eps * (size + abs(slope)) + q.noise_floor
    if not min(found) > _UNEXPLAINED * explained:
        return []
    says = f"values of f near the point scatter by {min(found):.1e}, but rounding explains only {explained:.1e}"
    return [finding(Kind.NOISE, Severity.WARNING, f"{says}: no step can be more accurate than this noise allows")]


# The Taylor remainder test of a gradient: |f(x + h v) - f(x) - h <g, v>| falls as h^2 if g is right, else as h.

H = 10.0 ** (-np.arange(0, 40) / 4)  # from 1 to about 1e-10, relative to the size of the inputs
_ABOVE_NOISE = 10.0
_POINTS = 9  # the slope is fitted to this many of the smallest steps above the noise: two decades
_SECOND, _FIRST = 1.7, 1.3  # a steeper slope counts as 2, a flatter one as 1


def taylor_test(q: Question, claim: dict[str, Any], ray: Ray, slope: float) -> Taylor:
    """Return the Taylor remainders of a claim along a ray, and the verdict that follows from their slope.

    Units  `slope` is the true <g, v>; steps are relative to the size of the inputs.
    Cost   about 50 evaluations of f.
    """
    claimed = float(slope_along(q, claim, ray))
    rays = Rays(q)
    with np.errstate(all="ignore"):
        values = rays.values([ray], np.concatenate([[0.0], H, noise_sample_places(1.0)]))[0]
        at, moved, close = values[0], values[1 : len(H) + 1], values[len(H) + 1 :]
        noise = float(residual_deviation(noise_sample_places(1.0), close))
        remainder = np.abs(moved - at - H * claimed)
        floor = _ABOVE_NOISE * (noise + np.finfo(float).eps * np.abs(H * claimed))
    seen = np.flatnonzero((remainder > floor) & np.isfinite(remainder))[-_POINTS:]
    order = log_slope(H[seen], remainder[seen])
    curvature = float(np.max(remainder[seen] / H[seen] ** 2, initial=0.0))
    sees_at = np.maximum(remainder, floor) / H + curvature * H
    verdict, message = _taylor_verdict(claimed, slope, order, remainder, sees_at)
    if q.kinks:
        verdict, message = "cannot tell", "f has a kink here: remainders fall with slope 1 whatever the gradient is"
    return Taylor(verdict, message, order, claimed, slope, tuple(map(float, H)), tuple(map(float, remainder)))


def _taylor_verdict(
    claimed: float, slope: float, order: float | None, remainder: Any, sees_at: Any
) -> tuple[Remains, str]:
    """Return the verdict on a claim; `sees_at` is, for each step, the largest error that its remainder can hide.

    An error e leaves a remainder e h, from which the curvature of f can take away as much as it adds:
    e <= remainder / h + curvature h.
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


def sweep(request: Request, heard: Callable[[str], None] | None = None) -> SweepReport:
    """Return error against step size at the first point; with a claim, also its Taylor remainder test and its check.

    The options of the request name the schemes, the formats and the bits, and say whether each entry is swept.
    `heard` is called with a sentence before work that takes long.

    Raises  BadOption for an unknown dtype or scheme, or no input; NotSupported if no mode gives a derivative.
    """
    started = time.perf_counter()
    options = request.options
    schemes = parse_schemes(options.schemes)
    formats = list(dict.fromkeys(format_of(name) for name in options.formats))
    point = request.points[0]
    q = request.question(point, replace(request.budget, effort=Effort.ALL))
    with np.errstate(all="ignore"):
        study = Study(q, schemes, options, heard)
        curves, unsupported = study.curves(formats, tuple(dict.fromkeys(options.bits)))
        changing = find_changed_value(q)
        study.findings += [] if study.noise or changing else _explain_no_digits(q, study.slope, curves)
        within = q.within(request.budget)
        judged = (
            check(request, answers=Answers(within, {} if within.crowded else study.found)) if request.claim else None
        )
        remainders: Taylor | Absent = ABSENT
        if request.claim and study.ray is not None:
            remainders = taylor_test(q, request.claim(point.values), study.ray, float(study.slope))
            if judged is not None and judged.verdict == Verdict.FAIL and remainders.verdict == "right":
                remainders = replace(remainders, verdict="cannot tell")  # the error is too small, or not along v
        study.findings += changing
    finite = np.all(np.isfinite(q.value)) and study.slope.is_finite()
    steady = all(f.kind != Kind.NOT_DETERMINISTIC for f in study.findings) or (study.noise and study.noise.random)
    status = Exit.CONFIRMED if finite and steady and FLOAT64.name not in unsupported else Exit.INCONCLUSIVE
    return SweepReport(
        target=Target(q.f.kind, original_function(q.f).text), at=point.values, drawn=point.drawn, seed=request.seed,
        value=q.value,
        reference=study.reference, curves=tuple(curves), findings=tuple(study.findings), evaluations=study.evaluations,
        seconds=time.perf_counter() - started, taylor=remainders, h=ABSENT if q.stepping.h is None else q.stepping.h,
        exit_status=int(status) if judged is None else judged.exit_status, verdict=ABSENT if judged is None else judged.verdict,
        message=ABSENT if judged is None else judged.sentence(),
        function=ABSENT if original_function(q.f) is q.f else q.f.text, unsupported=unsupported or ABSENT,
        environment=describe_environment(),
        weights=output_weights(q) if shape(q.value) else ABSENT, noise=study.noise or ABSENT,
    )  # fmt: skip


def _explain_no_digits(q: Question, slope: arb, curves: Sequence[Curve]) -> list[Finding]:
    """Return a finding that says why no difference quotient has a right digit, if none has."""
    best = max((c.best.digits for c in curves if c.scheme != "complex"), default=9.0)
    if not slope.is_finite() or (best >= 1 and is_in_range(slope)):
        return []
    if not is_in_range(slope):
        says = f"the slope by one step of the inputs' size is {slope.str(3, radius=False)}, which float64 does not hold"
        return [finding(Kind.RANGE, Severity.WARNING, f"{says}: values of f overflow or underflow nearby")]
    if q.stepping.scales:
        says = "no difference quotient gives a right digit, not even with steps of the sizes named"
        return [finding(Kind.SCALE, Severity.WARNING, says, hint="--bits 113")]
    says = "no difference quotient gives a right digit: f changes on another scale than its inputs' sizes, or rounding hides it"
    return [finding(Kind.SCALE, Severity.WARNING, f"{says}; name a size: --scale {q.wrt[0]}=1")]


# Choose the step for a function whose values are rounded, noisy or random, from the measured size of the noise.

_WIDER = 10.0 ** np.arange(8)  # times the first spacing at which noise is measured
_DISTINCT = 5  # of the nine values: with fewer, the spacing lies inside one stair
_SAME = 4.0  # noise levels at two spacings that differ by less than this factor are the same noise
_WIDE = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)  # steps for derivatives, relative to the size of the inputs
_SEEN = 10.0  # times its own noise: a derivative this large is resolved
_MEAN = 8  # values of a random function that are averaged at one point
_SHOWN = ("forward", "central")
NOT_RANDOM = "f gives the same value at each call: --samples changes nothing"

Along = Callable[[float], float]


def ray_of(q: Question) -> Ray:
    """Return the ray along the only entry, or along all inputs in proportion to their entries."""
    if q.entries == 1:
        return entry_rays(q)[0]
    return common_ray(q, {name: np.ones(shape(q.value) + shape(x)) for name, x in zip(q.wrt, q.xs, strict=True)})


def noise_from_neighbours(q: Question) -> Noise | None:
    """Return the noise of a rounded or noisy function and the best steps, from its values near the point; None if none.

    Cost    9 evaluations of f for each of up to 8 spacings, and about 50 for the derivatives.
    Source  Moré and Wild (2011), Estimating computational noise: the spacing grows until the values differ.
    """
    ray = ray_of(q)
    f = function_along(q, ray)
    seen: list[float] = []
    for wider in _WIDER:
        places = noise_sample_places(float(wider))
        values = np.array([f(t) for t in places])
        if not np.all(np.isfinite(values)):
            break
        if len(np.unique(values)) >= _DISTINCT:
            seen.append(float(residual_deviation(places, values)))
            if len(seen) > 1 and seen[-1] < _SAME * seen[-2]:
                break
    return _noise_with_steps(q, ray, f, min(seen), len(noise_sample_places(1.0)), random=False) if seen else None


def noise_from_samples(q: Question, samples: int) -> Noise:
    """Return the noise of a random function and the best steps, from the spread of `samples` values at the point."""
    ray = ray_of(q)
    f = function_along(q, ray)
    values = [f(0.0) for _ in range(samples)]
    level = float(np.std(values, ddof=1))
    return _noise_with_steps(
        q, ray, lambda t: float(np.mean([f(t) for _ in range(_MEAN)])), level, samples, random=True
    )


def _noise_with_steps(q: Question, ray: Ray, f: Along, level: float, samples: int, random: bool) -> Noise:
    """Return the noise with the best step and error of each scheme, which follow from the noise and the derivatives."""
    spread = level / np.sqrt(_MEAN) if random else level
    derivatives = {
        2: _resolved_derivative(lambda h: f(h) - 2 * f(0.0) + f(-h), np.sqrt(6.0) * spread, 2),
        3: _resolved_derivative(lambda h: (f(2 * h) - 2 * f(h) + 2 * f(-h) - f(-2 * h)) / 2, np.sqrt(2.5) * spread, 3),
    }
    found = []
    for scheme in (scheme for scheme in SCHEMES if scheme.name in _SHOWN):
        predicted = scheme.predicted(level, derivatives)
        if predicted is not None:
            h, error = predicted
            slope = abs((f(h) - f(-h)) / (2 * h))
            relative = error / slope if slope > error else None
            found.append(NoisyStep(scheme.name, h, error, relative, in_input_units(h, ray)))
    return Noise(level, samples, random, ray.name, ray.index, tuple(found))


def _resolved_derivative(difference: Along, noise: float, order: int) -> float:
    """Return the size of a derivative by the smallest step at which it exceeds its noise, or else by the widest step."""
    sizes = [(abs(difference(h)) / h**order, h) for h in _WIDE]
    finite = [(size, h) for size, h in sizes if np.isfinite(size)]
    return next((size for size, h in finite if size > _SEEN * noise / h**order), finite[-1][0] if finite else 0.0)


def is_rounded(q: Question, slope: Any) -> bool:
    """Whether f has stairs: marked in the trace, or suspected because all values near the point are the same."""
    if q.staircases:
        return True
    f: Any = function_along(q, ray_of(q))
    unseen = q.f.kind == "python" and (slope == 0 or q.untraced is not None)
    return unseen and len({f(t) for t in noise_sample_places(1.0)}) == 1


class Study:
    """The rays of a sweep, the true slopes along them, the findings, and the curves."""

    def __init__(
        self, q: Question, schemes: Sequence[Scheme], options: Options, heard: Callable[[str], None] | None = None,
        found: Mapping[str, Outcome] | None = None,
    ) -> None:  # fmt: skip
        self.q = q
        self.found = dict(found or {})  # outcomes of modes that have run already
        self.heard = heard or (lambda says: None)
        self.findings: list[Finding] = notices_as_findings(q)
        self.evaluations = 0
        self.rays: list[Ray] = []
        self.slopes: dict[str, Any] = {}
        self.ray: Ray | None = None
        self.slope = arb(0)
        self.reference: str | None = None
        self.bound: dict[str, Any] | None = None  # of the slopes, if they are not certified
        self.schemes = list(schemes)
        self.noise: Noise | None = None
        if not q.wrt or not q.entries:
            raise BadOption("there is no input to differentiate by", do="name one: --wrt x")
        if not np.all(np.isfinite(q.value)):
            bad = q.not_finite
            says, hint = ("f is not finite here", TO_FINITE) if bad is None else (bad.says, bad.hint)
            self.findings.append(finding(Kind.NON_FINITE, Severity.WARNING, says, hint=hint))
            return
        if any(f.kind == Kind.NOT_DETERMINISTIC for f in self.findings):
            self.noise = noise_from_samples(q, options.samples) if options.samples else None
            return
        self.slopes = slopes = self._reference_slopes()
        self.rays = entry_rays(q) if q.entries == 1 or options.each else [common_ray(q, slopes)]
        self.ray = self.rays[0] if q.entries == 1 else common_ray(q, slopes)
        self.slope = slope_along(q, slopes, self.ray)
        if self.bound is not None and q.untraced:
            good = numbers.write_bound(self._reference_bound(self.ray, self.slope))
            says = f"f cannot be traced: errors are those against extrapolated differences, whose bound is {good} of the slope"
            self.findings.append(finding(Kind.REFERENCE, Severity.WARNING, f"{says}; best steps are not predicted"))
        for mark in q.staircases:
            self.findings.append(finding(Kind.STAIRCASE, Severity.WARNING, mark.says))
        if not all(np.all(np.isfinite(g)) for g in slopes.values()):
            says = "the slope is not finite here: there is nothing to measure errors against"
            self.findings.append(finding(Kind.INFINITE_SLOPE, Severity.WARNING, says, hint=TO_FINITE))
        if self.slope == 0 and not q.kinks:
            says = "the slope is 0 here: errors are absolute, in units of f per step"
            self.findings.append(finding(Kind.ZERO_SLOPE, Severity.INFO, says))
        self.findings += find_unexplained_scatter(q, self.ray, float(self.slope))
        if q.kinks:
            says = f"{'; '.join(mark.says for mark in q.kinks)}: one-sided curves, against one-sided slopes"
            self.findings.append(finding(Kind.KINK, Severity.WARNING, says))
            self.schemes = [scheme for scheme in SCHEMES if scheme.name in ONE_SIDED]
            self.reference = "one-sided"
        elif any(scheme.imaginary for scheme in self.schemes):
            try:
                q.refuse_untraced()
                ComplexStep().refuse_if_not_analytic(q)
            except NotSupported as error:
                self.schemes = [scheme for scheme in self.schemes if not scheme.imaginary]
                self.findings.append(finding(Kind.COMPLEX, Severity.INFO, f"no complex step: {error.what}"))
        self.noise = self._find_noise(options.samples)

    def _reference_slopes(self) -> dict[str, Any]:
        """Return the gradient in float64 that errors are measured against, and note its mode as the reference."""
        for name in ("certified", "reverse", "finite-difference"):
            outcome = self.found[name] = self.found.get(name) or run_mode(MODES[name], self.q)
            if outcome.estimate is not None:
                self.reference = name
                if name != "certified":
                    self.bound = outcome.estimate.bound
                return outcome.estimate.value
            if name == "certified" and outcome.error is not None and not self.q.kinks and not self.q.untraced:
                says = f"no certified derivative ({outcome.error.what}): errors below 1e-15 are not resolved"
                self.findings.append(finding(Kind.REFERENCE, Severity.WARNING, says))
        raise NotSupported("there is no derivative to compare with", do="gradcli check says why")

    def _find_noise(self, samples: int | None) -> Noise | None:
        """Return the noise of f if it is rounded, noisy or random, else None; a rounded f has flat stairs and no curves."""
        q = self.q
        if q.stepping.budget is not None or not self.rays:
            return None
        if samples:
            self.findings.append(finding(Kind.DETERMINISTIC, Severity.INFO, NOT_RANDOM))
        rounded = is_rounded(q, self.slope)
        found = noise_from_neighbours(q) if rounded or any(f.kind == Kind.NOISE for f in self.findings) else None
        if found is not None and not q.staircases and found.level <= _ROUNDING * EPS * float(np.max(np.abs(q.value))):
            return None  # f is flat, as at an extremum
        if found is not None and rounded:
            self.rays, self.findings = [], [f for f in self.findings if f.kind != Kind.ZERO_SLOPE]
        return found

    def curves(self, formats: Sequence[Format], bits: Sequence[int]) -> tuple[list[Curve], dict[str, str]]:
        """Return the curves in all formats, and the reason for each format that has none."""
        found: list[Curve] = []
        unsupported: dict[str, str] = {}
        if not self.rays:
            return found, unsupported
        for form in formats:
            try:
                found += self._curves_in_format(form)
            except NotSupported as error:
                unsupported[form.name] = error.what
        for count in bits:
            try:
                found += self._curves_in_bits(count)
            except (NotSupported, Undecided) as error:
                unsupported[f"{count} bits"] = error.what
        return found, unsupported

    def _curves_in_format(self, form: Format) -> list[Curve]:
        along = Rays(self.q, form)
        if form is not FLOAT64:
            along.q.refuse_untraced()
        schemes = self._schemes_in(form.name, has_complex=form.complex is not None)
        hs = self._step_sizes(form.eps, schemes)
        calls = len(hs) * len(self.rays) * calls_per_step(schemes)
        if calls > _MANY if self.q.untraced else not takes_at_most(self.q, _LONG, calls):
            seconds = numbers.write_seconds(calls * self.q.seconds)
            self.heard(f"{form.name}: about {calls:,} evaluations of f, {seconds}; --budget N limits them")
        truth = self._true_slopes(along.q, 128)
        errors = errors_in_format(along, self.rays, schemes, truth, hs)
        still = [along.stands_still(ray, hs) for ray in self.rays]
        self.evaluations += calls
        drawn = self._make_curves(along.q, form.name, form.eps, schemes, hs, errors, still, truth)
        h = self.q.stepping.h  # the step that the user requested, in units of the input
        if h is not None:
            by_ray = zip(self.rays, truth, strict=True)
            at_h = [errors_in_format(along, [ray], schemes, [t], np.array([h / ray.scale]))[0] for ray, t in by_ray]
            errors_at_h = itertools.chain.from_iterable(at_h)
            drawn = [replace(c, error_at_h=float(e[0])) for c, e in zip(drawn, errors_at_h, strict=True)]
        return drawn

    def _curves_in_bits(self, bits: int) -> list[Curve]:
        if not FEWEST_BITS <= bits <= MOST_BITS:
            what = f"--bits takes {FEWEST_BITS} to {MOST_BITS}, not {bits}"
            raise BadOption(what, do="--bits 113 is quadruple precision")
        self.q.refuse_untraced()
        if len(self.rays) > _MEASURED:
            raise NotSupported(f"{len(self.rays):,} entries are too many for {bits} bits", do="leave out --each")
        name, eps = f"{bits} bits", 2.0 ** (1 - bits)
        schemes = self._schemes_in(name, has_complex=False)
        hs = self._step_sizes(eps, schemes)
        evaluations = calls_per_step(schemes) * len(hs) * len(self.rays)
        self.q.budget.admit(evaluations * self.q.ball_work, f"{evaluations:,} evaluations in balls", essential=True)
        rounded = np.vectorize(lambda x: float(round_to_bits(arb(float(x)), bits))) if bits < 53 else np.asarray
        q = round_point(self.q, rounded)
        truth = self._true_slopes(q, 2 * bits)
        errors = [errors_in_bits(q, ray, schemes, t, hs, bits) for ray, t in zip(self.rays, truth, strict=True)]
        still = [_lost_steps(q, ray, hs, bits) for ray in self.rays]
        self.evaluations += evaluations
        return self._make_curves(q, name, eps, schemes, hs, errors, still, truth)

    def _schemes_in(self, name: str, *, has_complex: bool) -> list[Scheme]:
        """Return the schemes that a format has numbers for, and say in a finding what it lacks.

        Raises  NotSupported if none is left.
        """
        schemes = [scheme for scheme in self.schemes if not scheme.imaginary or has_complex]
        if self.schemes and not schemes:
            raise NotSupported(f"there are no complex numbers in {name}, and no complex step")
        if len(schemes) < len(self.schemes):
            says = f"no complex step in {name}: it has no complex numbers"
            self.findings.append(finding(Kind.COMPLEX, Severity.INFO, says))
        return schemes

    def _step_sizes(self, eps: float, schemes: Sequence[Scheme]) -> Any:
        budget, calls = self.q.stepping.budget, calls_per_step(schemes) * len(self.rays)
        if budget is not None and budget // calls < _FEWEST_STEPS:
            what = f"--budget {budget} is not enough for {_FEWEST_STEPS} steps"
            raise BadOption(what, do=f"--budget {_FEWEST_STEPS * calls}, or fewer --schemes")
        return step_sizes(eps, None if budget is None else budget // calls)

    def _true_slopes(self, q: Question, bits: int) -> list[Truth]:
        """Return the slopes along each ray, in `bits` bits, or in float64 if balls cannot run."""
        if q.kinks:
            return one_sided_slopes(q, self.rays)
        slopes: list[arb] | None = None
        if self.reference == "certified":
            with contextlib.suppress(Undecided, NotSupported):
                slopes = slopes_in_balls(q, self.rays, max(128, bits))
        if slopes is None:
            slopes = [slope_along(q, self.slopes if q.untraced else q.slopes, ray) for ray in self.rays]
        return [dict.fromkeys([scheme.name for scheme in self.schemes], slope) for slope in slopes]

    def _reference_bound(self, ray: Ray, slope: arb) -> float:
        """Return the relative bound of the reference slope; 0 if it is certified, one-sided or not finite."""
        if self.bound is None or self.q.kinks or not slope.is_finite():
            return 0.0
        return float(slope_along(self.q, self.bound, ray, sizes=True) / (abs(slope) if slope != 0 else arb(1)))

    def _make_curves(
        self, q: Question, name: str, eps: float, schemes: Sequence[Scheme], hs: Any, errors: Any, stills: Any,
        truths: Sequence[Truth],
    ) -> list[Curve]:  # fmt: skip
        found = []
        for ray, of_ray, still, truth in zip(self.rays, errors, stills, truths, strict=True):
            sizes: dict[int, float] = {}  # of the derivatives that determine the truncation error
            if len(self.rays) <= _MEASURED and not q.kinks and not q.untraced and 9 * q.ball_work <= 2.5e9:
                with contextlib.suppress(GradcliError, ValueError):  # balls cannot run
                    sizes = higher_derivatives(q, ray)
            for scheme, of_scheme in zip(schemes, of_ray, strict=True):
                slope = truth[scheme.name]
                lost = still & (not scheme.imaginary)  # an imaginary step is not added to x, so it is never lost
                found.append(make_curve(
                    name, eps, ray, scheme, hs, of_scheme, lost, slope=slope, known_to=self._reference_bound(ray, slope),
                    derivatives=sizes if is_in_range(slope) else {}, e=_rounding_of_value(q, eps, float(slope)),
                ))  # fmt: skip
        return found


def calls_per_step(schemes: Sequence[Scheme]) -> int:
    """Return the evaluations of f that one step of all schemes takes together."""
    offsets = {o for scheme in schemes for o in scheme.offsets if o}
    return len(offsets) + sum(scheme.imaginary for scheme in schemes) or 1


def _rounding_of_value(q: Question, eps: float, slope: float) -> float:
    """Return the rounding error of one value of f in a format, including that of its moved argument."""
    size = float(np.sum(np.abs(output_weights(q) * q.value)))
    if q.untraced:
        places = noise_sample_places(1.0)
        value = float(residual_deviation(places, Rays(q).values([ray_of(q)], np.array(places))[0]))
    else:
        value = max(eps / 2 * size, q.noise_floor * eps / EPS)
    return float(np.hypot(value, eps / 2 * slope))


def _lost_steps(q: Question, ray: Ray, hs: Any, bits: int) -> Any:
    """Return a mask of the steps that are lost in rounding to `bits` bits: x + h v is x."""
    with precision(bits + GUARD):
        pairs = [(arb(float(x)), arb(float(s))) for x, v in zip(q.xs, directions(q, ray), strict=True) if v is not None
                 for x, s in zip(np.ravel(x), np.ravel(v), strict=True) if s]  # fmt: skip
        return np.array([all(round_to_bits(x + arb(float(h)) * s, bits) == x for x, s in pairs) for h in hs])
