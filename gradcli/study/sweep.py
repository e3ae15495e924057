"""The study behind `sweep`: error against step size for difference schemes and formats, against the true slope."""

import contextlib
import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from flint import arb

from gradcli.arithmetic.ball import precision
from gradcli.arithmetic.floats import FLOAT64, GUARD, Format, format_of, round_to_bits
from gradcli.checks.check import Answers, check
from gradcli.checks.evidence import Outcome
from gradcli.checks.implementation import describe_environment
from gradcli.checks.request import Request
from gradcli.checks.run_modes import run_mode
from gradcli.errors import BadOption, GradcliError, NotSupported, Undecided
from gradcli.modes.complex_step import ComplexStep
from gradcli.modes.difference_steps import noise_sample_places, residual_deviation
from gradcli.modes.kinks import TO_FINITE
from gradcli.modes.mode import Question
from gradcli.modes.problem import Effort
from gradcli.modes.registry import MODES
from gradcli.modes.rounding import EPS
from gradcli.modes.schemes import ONE_SIDED, SCHEMES, Scheme, log_slope, parse_schemes
from gradcli.report import numbers
from gradcli.report.common import ABSENT, Absent, Finding, Target, finding
from gradcli.report.sweep import Curve, Noise, NoisyStep, SweepReport, Taylor
from gradcli.request.options import Options
from gradcli.study.curves import (
    Truth,
    errors_in_bits,
    errors_in_format,
    find_changed_value,
    find_unexplained_scatter,
    function_along,
    higher_derivatives,
    in_input_units,
    is_in_range,
    make_curve,
    notices_as_findings,
    one_sided_slopes,
    slope_along,
    slopes_in_balls,
    step_sizes,
)
from gradcli.study.mode_cost import takes_at_most
from gradcli.study.rays import Ray, Rays, common_ray, directions, entry_rays, output_weights, round_point
from gradcli.targets.derived import original_function
from gradcli.tracing.shapes import shape
from gradcli.words import Exit, Kind, Remains, Severity, Verdict

FEWEST_BITS, MOST_BITS = 16, 800  # float64 holds steps down to about 2^-1024
_MEASURED = 16  # rays, at most, for which the higher derivatives of f are computed
_FEWEST_STEPS = 8
_ROUNDING = 1e3  # times one rounding: larger noise has another cause
_LONG = 10**10  # operations of all evaluations: longer sweeps are announced first
_MANY = 1_000  # the same in evaluations, for a function without a trace


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
