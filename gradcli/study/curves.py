"""Curves of error against step size, for each scheme, ray and format, with the order and the best step."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from flint import arb

from gradcli.arithmetic.ball import Ball, precision
from gradcli.arithmetic.floats import GUARD, arithmetic_of_bits, round_to_bits
from gradcli.arithmetic.recorded_program import record
from gradcli.arithmetic.tape import Recorded
from gradcli.errors import Undecided
from gradcli.modes.difference_steps import noise_sample_places, residual_deviation
from gradcli.modes.jacobians import cotangent_rows
from gradcli.modes.mode import Question
from gradcli.modes.schemes import STENCILS, Scheme, log_slope, median_of_neighbours
from gradcli.report.common import ABSENT, Absent, Finding, finding
from gradcli.report.sweep import Best, Curve, Predicted, Useless, Why
from gradcli.study.mode_cost import takes_at_most
from gradcli.study.rays import Ray, Rays, directions, output_weights, values_in_balls
from gradcli.tracing.shapes import shape
from gradcli.words import Kind, Severity

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
