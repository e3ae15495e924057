"""`sweep`: error against step size for every difference scheme, in every format, against the certified derivative."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from flint import arb

from gradcli.core.shapes import shape
from gradcli.errors import BadOption, GradcliError, NotSupported, Undecided
from gradcli.exits import Exit
from gradcli.interpreters.ball import Ball, precision
from gradcli.interpreters.tape import Recorded, record
from gradcli.lowering.floats import FLOAT64, Format, format_of
from gradcli.modes.complex_step import ComplexStep
from gradcli.modes.mode import Question
from gradcli.modes.registry import MODES
from gradcli.numerics.jacobians import by_rows
from gradcli.numerics.noise import EPS, left_over, near
from gradcli.numerics.schemes import ONE_SIDED, SCHEMES, STENCILS, Scheme, schemes_of
from gradcli.report.common import Finding, Target, finding
from gradcli.report.compare import SchemeSummary
from gradcli.report.encode import ABSENT, Absent
from gradcli.report.sweep import Curve, SweepReport, Taylor
from gradcli.source.derived import root_of
from gradcli.study.curves import Numbers, Truth, curve, in_bits, in_format, steps
from gradcli.study.rays import Ray, Rays, common_ray, directions, entry_rays, in_balls, weights
from gradcli.study.taylor import along as slope_along
from gradcli.study.taylor import taylor
from gradcli.verify.check import Request, check
from gradcli.verify.compare import attempt
from gradcli.verify.environment import environment

FEWEST_BITS, MOST_BITS = 16, 800  # steps down to 2^-1024 are what float64 can write
_MEASURED = 16  # rays for which the derivatives of f are measured
_STENCIL_BITS, _STENCIL_STEP = 640, 2.0**-40
_ONE_SIDED_STEP_BITS = 400
_IN_SUMMARY = ("forward", "central", "5-point", "complex")
_MOST_SECONDS = 2.0  # of the summary in `compare-modes`
_FEWEST_STEPS = 8


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a sweep is asked for: schemes and formats by name, and whether every entry is looked at."""

    schemes: str | None = None
    dtypes: tuple[str, ...] = ("float64",)
    bits: tuple[int, ...] = ()
    each: bool = False


def sweep(request: Request, wanted: Wanted) -> SweepReport:
    """Return error against step size at the first point; with a claim, the Taylor remainder test and `check`'s status.

    Raises  BadOption for a dtype or scheme that is not known.
    """
    started = time.perf_counter()
    schemes = schemes_of(wanted.schemes)
    formats = list(dict.fromkeys(format_of(name) for name in wanted.dtypes))
    point = request.points[0]
    q = Question(request.f, point, request.wrt, request.seed, request.mode_timeout, stepping=request.stepping)
    with np.errstate(all="ignore"):
        study = _Study(q, schemes, wanted)
        curves, unsupported = study.curves(formats, tuple(dict.fromkeys(wanted.bits)))
        if (
            curves
            and np.isfinite(study.slope)
            and max((c.best.digits for c in curves if c.scheme != "complex"), default=9) < 1
        ):
            says = "no step gives a digit: the inputs' sizes say nothing of where f changes"
            study.findings.append(finding("scale", "warning", f"{says}; name a size: --scale {q.wrt[0]}=1"))
        judged = check(request) if request.claim else None
        remainders: Taylor | Absent = ABSENT
        if request.claim and study.ray is not None:
            remainders = taylor(q, request.claim(point.values), study.ray, study.slope)
    finite = np.all(np.isfinite(q.value)) and np.isfinite(study.slope)
    status = Exit.CONFIRMED if finite else Exit.INCONCLUSIVE
    return SweepReport(
        target=Target(q.f.kind, root_of(q.f).text), at=point.values, drawn=point.drawn, seed=request.seed, value=q.value,
        reference=study.reference, curves=tuple(curves), findings=tuple(study.findings), evaluations=study.evaluations,
        seconds=time.perf_counter() - started, taylor=remainders, h=ABSENT if q.stepping.h is None else q.stepping.h,
        exit_status=int(status) if judged is None else judged.exit_status, verdict=ABSENT if judged is None else judged.verdict,
        message=ABSENT if judged is None else judged.sentence(),
        function=ABSENT if root_of(q.f) is q.f else q.f.text, unsupported=unsupported or ABSENT, environment=environment(),
    )  # fmt: skip


class _Study:
    """The rays, the true slopes along them, and the curves."""

    def __init__(self, q: Question, schemes: Sequence[Scheme], wanted: Wanted) -> None:
        self.q = q
        self.findings: list[Finding] = []
        self.evaluations = 0
        self.rays: list[Ray] = []
        self.slopes: dict[str, Any] = {}
        self.ray: Ray | None = None
        self.slope = 0.0
        self.reference: str | None = None
        self.schemes = list(schemes)
        if not q.wrt or not q.entries:
            raise BadOption("there is no input to differentiate by", do="name one: --wrt x")
        if not np.all(np.isfinite(q.value)):
            says = q.not_finite.says if q.not_finite is not None else "f is not finite here"
            self.findings.append(finding("non-finite", "warning", says, hint="move the point into the domain"))
            return
        self._prepare(wanted)

    def _prepare(self, wanted: Wanted) -> None:
        q = self.q
        self.slopes = slopes = self._slopes()
        entries = q.entries == 1 or wanted.each
        self.rays = entry_rays(q) if entries else [common_ray(q, slopes)]
        self.ray = self.rays[0] if q.entries == 1 else common_ray(q, slopes)
        self.slope = slope_along(q, slopes, self.ray)
        for mark in q.staircases:
            self.findings.append(finding("staircase", "warning", mark.says))
        if not all(np.all(np.isfinite(g)) for g in slopes.values()):
            says = "the slope is not finite here: there is nothing to measure errors against"
            self.findings.append(finding("infinite slope", "warning", says, hint="move the point into the domain"))
        if self.slope == 0:
            says = "the slope is 0 here: errors are absolute, in units of f per step"
            self.findings.append(finding("zero slope", "info", says))
        if q.kinks:
            self._at_a_kink()
        elif any(scheme.imaginary for scheme in self.schemes):
            self._analytic()

    def _slopes(self) -> dict[str, Any]:
        """Return the gradient that errors are measured against, in float64, and say which it is."""
        for name in ("certified", "reverse", "finite-difference"):
            outcome = attempt(MODES[name], self.q)
            if outcome.estimate is not None:
                self.reference = name
                if name == "finite-difference":
                    says = "f cannot be traced: errors are those against extrapolated differences, good to their bound"
                    self.findings.append(finding("reference", "warning", says))
                return outcome.estimate.value
            if name == "certified" and outcome.error is not None and not self.q.kinks and not self.q.untraced:
                says = f"no certified derivative ({outcome.error.what}): errors below 1e-15 are not resolved"
                self.findings.append(finding("reference", "warning", says))
        raise NotSupported("there is no derivative to compare with", do="gradcli check says why")

    def _at_a_kink(self) -> None:
        says = "; ".join(mark.says for mark in self.q.kinks)
        self.findings.append(finding("kink", "warning", f"{says}: one-sided curves, against one-sided slopes"))
        self.schemes = [scheme for scheme in SCHEMES if scheme.name in ONE_SIDED]
        self.reference = "one-sided"

    def _analytic(self) -> None:
        try:
            self.q.refuse_untraced()
            ComplexStep().refuse_if_not_analytic(self.q)
        except NotSupported as error:
            self.schemes = [scheme for scheme in self.schemes if not scheme.imaginary]
            self.findings.append(finding("complex", "info", f"no complex step: {error.what}"))

    def curves(self, formats: Sequence[Format], bits: Sequence[int]) -> tuple[list[Curve], dict[str, str]]:
        """Return the curves in every format, and why there are none in some."""
        found: list[Curve] = []
        unsupported: dict[str, str] = {}
        if not self.rays:
            return found, unsupported
        for form in formats:
            try:
                found += self._in(form)
            except NotSupported as error:
                unsupported[form.name] = error.what
        for count in bits:
            try:
                found += self._with(count)
            except (NotSupported, Undecided) as error:
                unsupported[f"{count} bits"] = error.what
        return found, unsupported

    def _in(self, form: Format) -> list[Curve]:
        along = Rays(self.q, form)
        if form is not FLOAT64:
            along.q.refuse_untraced()
        schemes = [scheme for scheme in self.schemes if not scheme.imaginary or form.complex is not None]
        _refuse_none(schemes, self.schemes, form.name)
        hs = self._steps(form.eps, schemes)
        truth = self._truth(along.q, 128)
        errors = in_format(along, self.rays, schemes, truth, hs)
        still = [along.stands_still(ray, hs) for ray in self.rays]
        self.evaluations += len(hs) * len(self.rays) * _calls(schemes)
        drawn = self._drawn(along.q, Numbers.of(form), schemes, hs, errors, still, truth)
        return self._at_h(along, drawn, schemes, truth)

    def _with(self, bits: int) -> list[Curve]:
        if not FEWEST_BITS <= bits <= MOST_BITS:
            raise BadOption(
                f"--bits takes {FEWEST_BITS} to {MOST_BITS}, not {bits}", do="--bits 113 is quadruple precision"
            )
        self.q.refuse_untraced()
        if len(self.rays) > _MEASURED:
            raise NotSupported(f"{len(self.rays):,} entries are too many for {bits} bits", do="leave out --each")
        kind = Numbers(f"{bits} bits", 2.0 ** (1 - bits))
        schemes = [scheme for scheme in self.schemes if not scheme.imaginary]
        _refuse_none(schemes, self.schemes, kind.name)
        hs = self._steps(kind.eps, schemes)
        self.q.affordable(_calls(schemes) * len(hs) * len(self.rays) * self.q.ball_seconds, essential=True)
        truth = self._truth(self.q, 2 * bits)
        found = []
        for k, ray in enumerate(self.rays):
            own = {side: [slopes[k]] for side, slopes in truth.items()}
            errors = [[e] for e in in_bits(Rays(self.q), ray, schemes, own, hs, bits)]
            still = [_lost_in(self.q, ray, hs, bits)]
            found += self._drawn(self.q, kind, schemes, hs, errors, still, own, [ray])
        self.evaluations += len(hs) * len(self.rays) * _calls(schemes)
        return found

    def _steps(self, eps: float, schemes: Sequence[Scheme]) -> Any:
        budget = self.q.stepping.budget
        if budget is None:
            return steps(eps)
        most = budget // (_calls(schemes) * len(self.rays))
        if most < _FEWEST_STEPS:
            need = _FEWEST_STEPS * _calls(schemes) * len(self.rays)
            raise BadOption(
                f"--budget {budget} is not enough for {_FEWEST_STEPS} steps", do=f"--budget {need}, or fewer --schemes"
            )
        return steps(eps, most)

    def _truth(self, q: Question, bits: int) -> Truth:
        """Return the slopes along all rays, in so many bits or, where balls do not run, in float64."""
        if q.kinks:
            return _one_sided(q, self.rays)
        if self.reference == "certified":
            try:
                return {"both": _slopes_in_balls(q, self.rays, max(128, bits))}
            except (Undecided, NotSupported):
                pass
        return {"both": [arb(slope_along(q, self.slopes if q.untraced else q.slopes, ray)) for ray in self.rays]}

    def _drawn(
        self, q: Question, kind: Numbers, schemes: Sequence[Scheme], hs: Any, errors: Any, still: Any, truth: Truth,
        rays: Sequence[Ray] | None = None,
    ) -> list[Curve]:  # fmt: skip
        found = []
        for k, ray in enumerate(rays or self.rays):
            derivatives = self._derivatives(q, ray)
            for scheme, of_rays in zip(schemes, errors, strict=True):
                slope = float((truth.get(scheme.name) or truth["both"])[k])
                e = _rounding(q, kind.eps, slope)
                lost = still[k] & (not scheme.imaginary)  # an imaginary step is added to nothing
                found.append(curve(kind, ray, scheme, hs, of_rays[k], lost, e, derivatives, slope))
        return found

    def _at_h(self, along: Rays, found: list[Curve], schemes: Sequence[Scheme], truth: Truth) -> list[Curve]:
        """Add the errors at the step the user asked for, in units of the input."""
        if self.q.stepping.h is None:
            return found
        at: dict[tuple[str | None, tuple[int, ...], str], float] = {}
        for k, ray in enumerate(self.rays):
            own = {side: [slopes[k]] for side, slopes in truth.items()}
            errors = in_format(along, [ray], schemes, own, np.array([self.q.stepping.h / ray.scale]))
            at |= {(ray.name, ray.index, scheme.name): e[0][0] for scheme, e in zip(schemes, errors, strict=True)}
        return [replace(c, error_at_h=float(at[(c.input, c.index, c.scheme)])) for c in found]

    def _derivatives(self, q: Question, ray: Ray) -> dict[int, float]:
        """Return the sizes of the derivatives along a ray that decide truncation; none where balls cannot or may not run."""
        if len(self.rays) > _MEASURED or q.kinks or q.untraced or 9 * q.ball_seconds > q.mode_timeout / 4:
            return {}
        try:
            return derivatives(q, ray)
        except (GradcliError, ValueError):
            return {}


def _refuse_none(schemes: Sequence[Scheme], asked: Sequence[Scheme], name: str) -> None:
    if asked and not schemes:
        raise NotSupported(f"there are no complex numbers in {name}, and no complex step")


def _calls(schemes: Sequence[Scheme]) -> int:
    """Return the evaluations of f a step takes."""
    return (
        len({o for scheme in schemes for o in scheme.offsets if o}) + sum(scheme.imaginary for scheme in schemes) or 1
    )


def _rounding(q: Question, eps: float, slope: float) -> float:
    """Return the rounding error of one value of f in a format, that of its moved argument included."""
    size = float(np.sum(np.abs(weights(q) * q.value)))
    if q.untraced:
        ray = common_ray(q, {name: np.ones(shape(q.value) + shape(x)) for name, x in zip(q.wrt, q.xs, strict=True)})
        value = float(left_over(near(1.0), Rays(q).values([ray], np.array(near(1.0)))[0]))
    else:
        value = max(eps / 2 * size, q.noise_floor * eps / EPS)
    return float(np.hypot(value, eps / 2 * slope))


def derivatives(q: Question, ray: Ray) -> dict[int, float]:
    """Return |f(k)| along a ray for the orders that difference schemes need, by stencils in balls.

    Error  relative 1e-24 and less for tame functions. Cost: 9 evaluations in balls.
    """
    h = arb(_STENCIL_STEP)
    values = in_balls(q, ray, [arb(k) * h for k in range(-4, 5)], _STENCIL_BITS)
    with precision(_STENCIL_BITS):
        found = {
            k: float(abs(sum((w * x for w, x in zip(ws, values, strict=True)), arb(0)) / h**k))
            for k, ws in STENCILS.items()
        }
    return {k: x for k, x in found.items() if np.isfinite(x) and x > 1e-20}


def _slopes_in_balls(q: Question, rays: Sequence[Ray], bits: int) -> list[arb]:
    """Return the slopes along rays by one reverse sweep in balls. Raises Undecided where they come out too wide."""
    with precision(bits + 32):
        y, inputs, tape = record(q.g, [Ball.lift(x) for x in q.xs])
        w = np.reshape(weights(q), -1)
        if not isinstance(y, Recorded):  # it stands still: a floor
            return [arb(0)] * len(rays)
        rows = by_rows(y, inputs, tape, Ball.lift(1))
        totals = [
            sum((row[k] * float(part) for row, part in zip(rows, w, strict=True)), Ball.lift(0))
            for k in range(len(q.xs))
        ]
        found = []
        for ray in rays:
            parts = [np.sum(g * v) for g, v in zip(totals, directions(q, ray), strict=True) if v is not None]
            slope = sum(parts, Ball.lift(0)).value
            if not slope.is_finite() or slope.rad() > abs(slope) * arb(2) ** (-bits // 2) + arb(2) ** -bits:
                raise Undecided("the slope comes out too wide in balls")
            found.append(slope.mid())
    return found


def _one_sided(q: Question, rays: Sequence[Ray]) -> Truth:
    """Return the slopes to the right and to the left along rays, by differences in high precision."""
    bits = 4 * _ONE_SIDED_STEP_BITS
    found: dict[str, list[arb]] = {"forward": [], "backward": []}
    for ray in rays:
        with precision(bits):
            h = arb(2) ** -_ONE_SIDED_STEP_BITS
            down, at, up = in_balls(q, ray, [-h, arb(0), h], bits)
            found["forward"].append(((up - at) / h).mid())
            found["backward"].append(((at - down) / h).mid())
    return found


def _lost_in(q: Question, ray: Ray, hs: Any, bits: int) -> Any:
    """Return at which steps x + h v is x, with numbers of so many bits."""
    with precision(bits):
        pairs = [(arb(float(x)), arb(float(s))) for x, v in zip(q.xs, directions(q, ray), strict=True) if v is not None
                 for x, s in zip(np.ravel(x), np.ravel(v), strict=True) if s]  # fmt: skip
        return np.array([all((x + arb(float(h)) * s).mid() == x for x, s in pairs) for h in hs])


def summary(q: Question) -> tuple[SchemeSummary, ...]:
    """Return how a few schemes do along one ray; none if it would take more than two seconds."""
    schemes = [scheme for scheme in SCHEMES if scheme.name in _IN_SUMMARY]
    if q.seconds * _calls(schemes) * len(steps(EPS)) > _MOST_SECONDS or not q.wrt or not q.entries:
        return ()
    study = _Study(q, schemes, Wanted())
    curves, _ = study.curves([FLOAT64], ())
    return tuple(
        SchemeSummary(
            c.scheme, c.order, c.best.h, c.best.relative_error, c.best.digits,
            *((c.predicted.h, c.predicted.relative_error) if c.predicted else (None, None)),
        )
        for c in curves
    )  # fmt: skip
