"""Check a framework's other derivatives beside its gradient, and each custom gradient inside the function alone."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np

from gradcli.checks.assumed_sets import gradient_along_surface
from gradcli.checks.causes import Cause, Verified
from gradcli.checks.evidence import error_ratios
from gradcli.checks.framework_claim import FrameworkClaim, with_function
from gradcli.checks.inner_gradients import OTHER_VALUE, check_custom_gradients, find_custom_calls
from gradcli.checks.kernel_scenarios import Reference, Side, compute_by_framework
from gradcli.checks.lost_digits import allowed_errors, compare_scaled_gradient, limit_of_wide, measure_exactness
from gradcli.checks.request import Request
from gradcli.errors import BadOption, FunctionFailed, GradcliError, NotSupported
from gradcli.frameworks.framework import EPS, CustomCall
from gradcli.frameworks.native import CUTS, MASKED, STOPPING_CUTS, Native, is_choice
from gradcli.modes.claim import FLOAT64
from gradcli.modes.difference_steps import Line, derivative, quick_derivative
from gradcli.modes.recording import MANY, Effort
from gradcli.report import numbers
from gradcli.report.check import CheckReport
from gradcli.report.common import ABSENT, Absent, Finding, finding
from gradcli.report.point_report import Aspect, Exactness, GradientCost, NativeReport, Part, PointReport
from gradcli.request.options import WAYS
from gradcli.targets.derived import original_function, random_direction, tangent_to_surfaces
from gradcli.targets.python import PythonFunction, message_of
from gradcli.tracing.provenance import place_of_position
from gradcli.words import Kind, Severity, Verdict

_SAME = 1e-9  # relative to the sum of |terms|: the difference of two float64 sums of the same terms in another order
_DECISIVE = 1e-6  # of a second derivative: the bound of a quick difference that is taken; a smaller mistake is not seen
_ULPS = 64  # of the narrowest format: the difference of two runs of the same code
_ULPS_NARROW = 4  # the same where an ulp is so large that a mistake could hide in many
_AS_INEXACT = 3.0  # times the error of the gradient itself: what that under loss scaling may be off
_NEAR = 1e-3  # relative to each entry: the distance of the second point of a batch from the first
_GRADIENTS = 40  # about how many evaluations of f the differences of a gradient take
_MOST_STEPS = 20_000  # operations of the framework that checks which the user did not request may take
_MAPPED = 20  # about how many evaluations of f two gradients take, computed both at once and one by one

_IGNORES = "does not change where the incoming gradient is doubled"
_UNREACHED = "in directions that the inputs of f do not reach"
_OTHERS = "second run, one input at a time, vmap, double backward"
_ALL_OTHERS = "other derivatives"  # than the gradient: the forward mode and those in _OTHERS


def examine_derivatives(
    request: Request, report: CheckReport, own: FrameworkClaim, verify: Callable[[Request], Verified]
) -> tuple[CheckReport, dict[int, Cause]]:
    """Return the report with the framework's other derivatives and custom gradients.

    The first point fails if a derivative is wrong; it is open where a custom gradient is, and the whole gradient is not.
    Also return how the cause of each wrong custom gradient is looked for, by its number.
    """
    native = own.native
    point = report.points[0]
    case = _make_case(request, point, own)
    calls: list[CustomCall] = []
    if case is None or not case.tests_framework or request.options.localise:
        calls = find_custom_calls(request, own, request.points[0].values)
    aspects = () if case is None else tuple(_compare_aspects(case, point, calls))
    parts, causes = check_custom_gradients(calls, request, own, point, verify)
    where = native.ran_on
    found = NativeReport(where.framework, where.version, where.device, where.dtype, aspects, parts)
    found = replace(found, declined=own.declined or ABSENT)
    if case is not None:
        found = replace(found, exactness=_exactness_of_claim(case, point), cost=_measure_cost(case))
    report = _add_cut_findings(replace(report, native=found), native)
    said: tuple[Finding, ...] = ()
    if report.verdict == Verdict.PASS:  # otherwise there is no correct gradient to compare with
        said = tuple(
            finding(Kind.OTHER_DERIVATIVE, Severity.ERROR, f"{a.name}: {a.message or 'it is wrong'}")
            for a in aspects
            if a.status == "wrong"
        )
    if report.verdict == Verdict.FAIL:
        return report, causes
    wrong = [part for part in parts if part.verdict == Verdict.FAIL and part.message != OTHER_VALUE]
    said += tuple(map(_report_inner_gradient, wrong))
    if not said:
        return report, causes
    parts = tuple(map(_part_beside_whole, parts))
    report = replace(report, native=replace(found, parts=parts))
    open_ = all(f.severity != Severity.ERROR for f in said)
    verdict = point.verdict if all(f.severity == Severity.INFO for f in said) else Verdict.INCONCLUSIVE
    point = replace(report.points[0], verdict=verdict if open_ else Verdict.FAIL)
    report = replace(report, points=(replace(point, findings=(*point.findings, *said)), *report.points[1:]))
    return report, {
        k: cause for k, cause in causes.items() if parts[k].verdict == Verdict.FAIL and parts[k].ignores is not True
    }


def _report_inner_gradient(part: Part) -> Finding:
    """Return the finding on a custom gradient that is not the derivative, where the whole gradient is not wrong.

    One that is the same for twice the cotangent is wrong: it is right for the cotangent that it got here alone.
    """
    if part.ignores is True:
        return finding(Kind.INNER_GRADIENT, Severity.ERROR, f"{part.name}: its own gradient {_IGNORES}")
    if part.reached is False:
        says = f"{part.name}: its own gradient differs from the derivative, but only {_UNREACHED}"
        return finding(Kind.INNER_GRADIENT, Severity.INFO, says)
    says = f"{part.name}: its own gradient is not the derivative of its forward"
    hint = "correct it, or accept it: --allow inner-gradient"
    return finding(Kind.INNER_GRADIENT, Severity.INCONCLUSIVE, says, hint=hint)


def _part_beside_whole(part: Part) -> Part:
    """Return a custom gradient that is not the derivative as it is reported beside a whole gradient that is not wrong."""
    if part.verdict != Verdict.FAIL or part.message == OTHER_VALUE:
        return part
    if part.ignores is True:
        return replace(part, message=f"it {_IGNORES}")
    unreached = f"it differs from the derivative, but only {_UNREACHED}"
    says = unreached if part.reached is False else "it is not the derivative of its forward"
    return replace(part, verdict=Verdict.INCONCLUSIVE, message=says)


def _add_cut_findings(report: CheckReport, native: Native) -> CheckReport:
    """Add findings that name the lines where a value left the framework's graph or a nan arose, unless the verdict is pass."""
    if report.verdict == Verdict.PASS:
        return report
    cuts = dict.fromkeys((kind, place_of_position(position)) for kind, position in native.cuts)
    says = f"what depends on it has no gradient for {native.framework.name}"
    meant = "if that is meant: --expect stop-gradient"
    said = [
        finding(
            Kind.CUT, Severity.WARNING, f"{CUTS[kind]}: {says}", at=where,
            hint=meant if kind in STOPPING_CUTS and native.program is not None else None,
        )
        for kind, where in cuts
    ]  # fmt: skip
    not_finite = any(not np.isfinite(entry.claimed) for point in report.points for entry in point.mismatches)
    if not_finite and native.program is not None:
        masks = dict.fromkeys(place_of_position(step.position) for step in native.program.steps if is_choice(step))
        hint = "make the masked side safe: where(x > 0, sqrt(where(x > 0, x, 1)), 0)"
        said += [finding(Kind.MASKED_NAN, Severity.WARNING, MASKED, at=where, hint=hint) for where in masks]
    return replace(report, points=tuple(replace(p, findings=(*p.findings, *said)) for p in report.points))


def _make_case(request: Request, point: PointReport, own: FrameworkClaim) -> "_Case | None":
    """Return what the aspects are compared with, or None if there is no claim or no reference."""
    reference = point.gradient if isinstance(point.gradient, dict) else {}
    result = point.modes.get("claim")
    claim = result.values if result is not None and result.status == "ok" else {}
    return _Case(request, own, claim, reference, point) if claim and not set(reference) < set(request.wrt) else None


def _exactness_of_claim(case: "_Case", point: PointReport) -> Exactness | Absent:
    dtype = case.native.narrowest
    if dtype == "float64" or point.reference == "finite-difference":  # which is less exact than the gradient
        return ABSENT
    found = measure_exactness(dtype, case.claim, case.reference, allowed_errors(point))
    precision = FLOAT64 if case.request.claim is None else case.request.claim.precision
    typical = precision.typical(case.request.points[0].values)
    if typical is None:
        return found
    ratio, largest = error_ratios(case.claim, case.reference, typical, case.native.coarseness)
    return replace(found, ratio=ratio, largest_ratio=largest)


def _measure_cost(case: "_Case") -> GradientCost | Absent:
    """Return the cost of a forward and a backward pass; many entries on a CPU are only measured on request."""
    if (case.crowded and case.native.placed.device == "cpu") or case.tests_framework:
        return ABSENT
    found = case.framework.measured(case.flat, case.xs, case.own.w, case.native.seed)
    if found is None:
        return ABSENT
    return GradientCost(found.forward, found.backward, found.saved, ABSENT if found.peak is None else found.peak)


def _compare_aspects(case: "_Case", point: PointReport, calls: Sequence[CustomCall]) -> list[Aspect]:
    """Return the comparisons of the framework's other derivatives with its gradient and the reference.

    `calls` are those of custom gradients in a run of f.
    """
    looks: list[Callable[[_Case], list[Aspect]]] = []
    if not case.tests_framework:
        looks += [lambda case: _compare_forward_mode(case, calls), _compare_adjoint]
    if case.native.narrowest == "float16":
        looks.append(lambda case: [_compare_loss_scaling(case, point)])
    few = not case.crowded and not case.tests_framework
    if few:
        looks += [_compare_second_run, _compare_variants]
    if few and point.verdict != Verdict.FAIL:  # these are compared with the gradient itself
        looks += [_compare_double_backward] if _asks_for_vmap(case) else [_compare_vmap, _compare_double_backward]
    looks.append(_compare_requested_ways)
    found = [aspect for look in looks for aspect in look(case)]
    if case.tests_framework:
        says = f"all operations are {case.framework.name}'s own; --modes all compares them"
        return [*found, Aspect(_ALL_OTHERS, "not run", message=says)]
    return [*found, Aspect(_OTHERS, "not run", message="--modes all runs them")] if case.crowded else found


def _compare_loss_scaling(case: "_Case", point: PointReport) -> Aspect:
    """Compare the gradient under loss scaling, which may be as inexact as the gradient itself is where that is right."""
    room = allowed_errors(point)
    plain = measure_exactness(case.native.narrowest, case.claim, case.reference, room).share
    most = max(1.0, _AS_INEXACT * plain) if point.verdict == Verdict.PASS else 1.0
    return compare_scaled_gradient(case.own, case.values, case.reference, room, most)


class _Case:
    """What the aspects are compared with: the claim and the reference at the first point, with their bounds."""

    def __init__(self, request: Request, own: FrameworkClaim, claim: Any, reference: Any, point: PointReport) -> None:
        self.request, self.own, self.claim, self.reference = request, own, claim, reference
        self.values = dict(request.points[0].values)
        self.native, self.passes = own.native, point.verdict == Verdict.PASS
        self.tangent: float | None = None  # <u, J v> by the forward mode, once it is computed
        self.framework = own.native.framework
        self.bounds: Any = point.modes["claim"].bound
        self.right: Any = point.modes[point.reference].bound if point.reference else {}

    @cached_property
    def room(self) -> dict[str, Any]:
        """How far two computations of the claim may be apart, entry by entry."""
        bounds = {name: 2 * np.asarray(self.bounds[name]) for name in self.claim}
        return {name: _fill_unknown_room(bound, self.reference.get(name)) for name, bound in bounds.items()}

    @cached_property
    def open(self) -> dict[str, Any]:
        """The same of the claim and the reference."""
        return {name: room + np.asarray(self.right.get(name, 0.0)) for name, room in self.room.items()}

    @cached_property
    def xs(self) -> list[Any]:
        """The differentiated inputs as tensors."""
        return self.own.tensors(self.values)

    @cached_property
    def flat(self) -> Any:
        """The function of these tensors."""
        return self.own.flat(self.values)

    @cached_property
    def v(self) -> dict[str, Any]:
        """A random direction, along the sets that inputs are assumed to lie on."""
        v = {name: random_direction(self.request.seed, name, self.values[name]) for name in self.request.wrt}
        return tangent_to_surfaces(self.request.surfaces, self.values, v)

    @property
    def vs(self) -> list[Any]:
        """The direction's part for each differentiated input."""
        return [self.v[name] for name in self.request.wrt]

    def on_surfaces(self, gradient: Mapping[str, Any]) -> dict[str, Any]:
        """Return a gradient along the sets that inputs are assumed to lie on, as the claim is compared."""
        surfaces = self.request.surfaces
        return {
            n: gradient_along_surface(surfaces[n], x, self.values[n]) if n in surfaces else x
            for n, x in gradient.items()
        }

    def along(self, gradient: Mapping[str, Any], room: Mapping[str, Any]) -> tuple[float, float]:
        """Return a gradient's slope along v and a bound on its error."""
        slope = sum(float(np.sum(np.asarray(gradient[name]) * self.v[name])) for name in self.request.wrt)
        size = sum(float(np.sum(np.abs(np.asarray(gradient[name]) * self.v[name]))) for name in self.request.wrt)
        loose = sum(float(np.sum(room[name] * np.abs(self.v[name]))) for name in self.request.wrt)
        return slope, loose + self.same * size

    @property
    def same(self) -> float:
        """The allowed difference of two computations of the same sum, relative to the sum of |terms|."""
        return max(_SAME, self.ulps)

    @property
    def ulps(self) -> float:
        """The allowed difference of two runs of the same code, relative to the largest entry."""
        eps = EPS[self.native.narrowest]
        return (_ULPS if eps <= EPS["float32"] else _ULPS_NARROW) * eps

    @property
    def crowded(self) -> bool:
        """Whether there are so many entries that the expensive comparisons are only made on request."""
        entries = sum(np.size(self.values[name]) for name in self.request.wrt)
        return self.request.budget.effort is Effort.DEFAULT and entries > MANY

    @property
    def tests_framework(self) -> bool:
        """Whether other derivatives than a right gradient would test the framework, not f: all operations are its own.

        They are compared all the same on request, and on a GPU, where two runs of an operation may differ.
        """
        native = self.native
        own = native.program is not None and not native.program.has_custom_gradients
        return self.passes and own and native.placed.device == "cpu" and self.request.budget.effort is Effort.DEFAULT

    def affords(self, evaluations: int) -> bool:
        """Whether this many evaluations stay within the limit of operations; an unrecorded program counts as within it."""
        program = self.native.program
        return program is None or evaluations * len(program.steps) <= _MOST_STEPS


def _fill_unknown_room(room: Any, right: Any) -> Any:
    """Return the room of each entry; where the claim is not finite, and so its bound, the largest relative room of the others."""
    known = np.isfinite(room)
    if known.all() or right is None:
        return np.where(known, room, 0.0)
    size = np.abs(np.asarray(right))
    relative = np.divide(room, size, out=np.zeros(np.shape(room)), where=known & (size > 0))
    return np.where(known, room, np.max(relative, initial=0.0) * size)


def _ask_framework(
    name: str, compute: Callable[[], Any], failed: Literal["wrong", "unavailable"] = "unavailable"
) -> Any:
    """Return what the framework computes, or a row that says why it does not; it is called `failed` where it tried."""
    try:
        return compute()
    except NotSupported as error:
        return Aspect(name, "unavailable", message=_shorten_text(error.what))
    except (RuntimeError, TypeError, ValueError, FunctionFailed) as error:
        return Aspect(name, failed, message=_shorten_text(message_of(error)))


def _compare_forward_mode(case: _Case, calls: Sequence[CustomCall]) -> list[Aspect]:
    """Compare the framework's forward mode with the reference, unless a call of a custom gradient rules it out."""
    name = "forward (jvp)"
    refusals = [call.no_forward for call in calls if call.no_forward]
    if refusals:
        return [Aspect(name, "unavailable", message=refusals[0])]
    ydot = _ask_framework(name, lambda: case.framework.tangent(case.flat, case.xs, case.vs, case.native.seed), "wrong")
    if isinstance(ydot, Aspect):
        return [ydot]
    case.tangent = float(np.sum(np.ravel(case.own.w) * np.ravel(ydot)))
    aspect = _judge_difference(name, case.tangent, *case.along(case.reference, case.open))
    if aspect.status == "wrong" and Kind.STOP_GRADIENT in case.request.options.expect:
        case.tangent = None
        return [
            replace(aspect, status="differs", message="the forward mode goes through what the reverse mode stops at")
        ]
    return [aspect]


def _compare_adjoint(case: _Case) -> list[Aspect]:
    """Compare <u, J v> by the forward mode with <J^T u, v> by the reverse mode."""
    if case.tangent is None:
        return []
    aspect = _judge_difference(
        "adjoint identity <u, J v> = <J^T u, v>", case.tangent, *case.along(case.claim, case.room)
    )
    if aspect.status != "wrong" or case.native.program is not None or case.native.coarseness == 1.0:
        return [aspect]
    off = _mismatch_in_float64(case)  # a sum of many terms may lose more digits than the room has
    if off is not None and off <= limit_of_wide(case.native.narrowest):
        says = f"as {case.native.narrowest} rounds: in float64 by {numbers.write_bound(off)}"
        return [replace(aspect, status="differs", message=says)]
    return [aspect]


def _mismatch_in_float64(case: _Case) -> float | None:
    """Return how far <u, J v> and <J^T u, v> are apart in float64, relative to all terms; None if it takes no float64."""
    wide = case.native.wide()
    if wide is None:
        return None
    own = FrameworkClaim(with_function(case.own.f, wide), wide, case.own.wrt, case.own.w)
    try:
        ydot = case.framework.tangent(own.flat(case.values), own.tensors(case.values), case.vs, wide.seed)
        found = case.on_surfaces(own(case.values))
    except (GradcliError, RuntimeError, TypeError, ValueError):
        return None
    terms = np.concatenate([np.ravel(np.asarray(found[name]) * case.v[name]) for name in case.request.wrt])
    size = float(np.sum(np.abs(terms)))
    return abs(float(np.sum(np.ravel(own.w) * np.ravel(ydot))) - float(np.sum(terms))) / size if size else None


def _compare_second_run(case: _Case) -> list[Aspect]:
    """Compare a second run of the same gradient with the first."""
    again = case.on_surfaces(case.own(dict(case.values)))
    worst, most = _largest_difference(again, case.claim, case.room, case.ulps)
    if worst == 0:
        found = [Aspect("second run", "agrees", message="bit by bit")]
    else:
        found = [Aspect("second run", "differs" if worst <= most else "wrong", worst, most, "not deterministic")]
    return found if worst == 0 and case.native.placed.device == "cpu" else [*found, *_compare_deterministic_runs(case)]


def _compare_deterministic_runs(case: _Case) -> list[Aspect]:
    """Compare two runs of the gradient by deterministic algorithms: does the difference between runs disappear?"""
    name = "deterministic algorithms"
    settled = partial(case.framework.settled, case.flat, case.xs, case.own.w, case.native.seed)
    runs = _ask_framework(name, lambda: [settled(), settled()])
    if isinstance(runs, Aspect):
        return [runs]
    first, second = (case.on_surfaces(dict(zip(case.request.wrt, run, strict=True))) for run in runs)
    worst, most = _largest_difference(second, first, case.room, case.ulps)
    if worst:
        return [Aspect(name, "differs", worst, most, "still not deterministic")]
    apart, most = _largest_difference(first, case.claim, case.room, case.ulps)
    says = "two runs agree bit by bit" + (
        f"; {numbers.write_bound(apart)} from the gradient without them" if apart else ""
    )
    return [Aspect(name, "agrees" if apart <= most else "wrong", message=says)]


def _compare_variants(case: _Case) -> list[Aspect]:
    """Compare the gradients for other memory layouts and other ways to request them with the first gradient."""
    found = []
    own = frozenset(k for k, name in enumerate(case.request.wrt) if name in case.native.parameters)
    for name, answer in case.framework.variants(case.flat, case.xs, case.own.w, case.native.seed, own).items():
        if isinstance(answer, NotSupported):
            found.append(Aspect(name, "unavailable", message=_shorten_text(answer.what)))
        elif isinstance(answer, str):
            found.append(Aspect(name, "wrong", message=answer))
        else:
            given = dict(zip(case.request.wrt, answer, strict=True))
            given = case.on_surfaces({n: g for n, g in given.items() if g is not None})
            worst, most = _largest_difference(given, case.claim, case.room, case.ulps)
            aspect = Aspect(name, "agrees" if worst <= most else "wrong", worst, most)
            if aspect.status == "wrong" and len(given) > 1:
                aspect = replace(aspect, message=f"the gradient by {_inputs_that_differ(case, given)} is wrong")
            found.append(aspect)
    return found


def _inputs_that_differ(case: _Case, given: Mapping[str, Any]) -> str:
    """Return the names of the inputs whose gradients differ from the claim by more than is allowed."""
    pairs = {n: _largest_difference({n: x}, case.claim, case.room, case.ulps) for n, x in given.items()}
    return " and ".join(n for n, (worst, most) in pairs.items() if worst > most)


def _asks_for_vmap(case: _Case) -> bool:
    return "vmap" in case.request.options.same_as


# The same gradient obtained in other ways: compiled, eager, under a checkpoint, in mixed precision.

_MIXED = "bfloat16"
_OPTIONS: dict[str, dict[str, Any]] = {
    "eager": {"compile": False, "way": "eager"},
    "compile": {"compile": True},
    "checkpoint": {"way": "checkpoint"},
    "autocast": {"autocast": _MIXED, "dtype": None},
}


def compare_other_ways(request: Request, own: FrameworkClaim) -> list[Aspect]:
    """Return a row for each way that --same-as names, except vmap, which computes gradients at several points."""
    named = request.options.same_as
    return [_compare_one_way(request, own, way) for way in WAYS if way in named and way in _OPTIONS]


def _compare_one_way(request: Request, own: FrameworkClaim, way: str) -> Aspect:
    name = f"autocast ({_MIXED})" if way == "autocast" else way
    try:
        native = own.native.run_with(same_as=frozenset(), **_OPTIONS[way])
        if native is None:
            return Aspect(name, "unavailable", message="the target cannot be made again")
        return _compare_with_right_values(request, own, native, name)
    except (NotSupported, BadOption) as error:
        return Aspect(name, "unavailable", message=error.what[:90])
    except GradcliError as error:
        return Aspect(name, "wrong", message=f"it raises {error.what[:90]}")
    except Exception as error:  # compilers raise errors of many types
        return Aspect(name, "unavailable", message=message_of(error)[:90])


def _compare_with_right_values(request: Request, own: FrameworkClaim, native: Native, name: str) -> Aspect:
    """Compare value and gradient with the right ones, within the rounding errors of the formats that this way uses."""
    values = dict(request.points[0].values)
    f, rounds_like = original_function(request.f), None
    if isinstance(f, PythonFunction) and native.placed != own.native.placed:
        values |= {key: native.numbers(values[key]) for key in request.wrt}
        rounds_like = with_function(own.f, native)
        rounds_like(values)  # recorded, so that its formats are known
    eps = max(EPS[native.narrowest], EPS[own.native.narrowest])
    reference = Reference(f, values, request.wrt, request.seed, eps, rounds_like)
    other = FrameworkClaim(with_function(own.f, native), native, own.wrt, own.w)
    side = Side(reference, compute_by_framework(other, reference), other, eps)
    with np.errstate(all="ignore"):
        return side.row(name, side.compute(values), values)


def _compare_requested_ways(case: _Case) -> list[Aspect]:
    """Compare the same gradient obtained in the ways that --same-as names."""
    names = case.request.options.same_as
    found = [] if not names - {"vmap"} else compare_other_ways(case.request, case.own)
    return found + (_compare_vmap(case) if "vmap" in names else [])


def _compare_vmap(case: _Case) -> list[Aspect]:
    """Compare the gradients at two points computed at once (vmap) with those computed one by one."""
    name = "vmap of the gradient"
    if not case.affords(_MAPPED) and not _asks_for_vmap(case):
        return [Aspect(name, "not run", message="it would take many operations")]
    other = {n: case.values[n] * (1 + _NEAR) for n in case.request.wrt}
    others = case.own.tensors({**case.values, **other})
    mapped = partial(case.framework.mapped, case.flat, case.xs, others, case.own.w, case.native.seed)
    both = _ask_framework(name, mapped)
    if isinstance(both, Aspect):
        return [both]
    alone = case.on_surfaces(case.own({**case.values, **other}))
    pairs = [
        _largest_difference(
            case.on_surfaces({n: g[k] for n, g in zip(case.request.wrt, both, strict=True)}),
            right,
            case.room,
            case.ulps,
        )
        for k, right in enumerate((case.claim, alone))
    ]
    worst, most = max(pairs)
    agrees = all(apart <= room for apart, room in pairs)
    return [Aspect(name, "agrees" if agrees else "wrong", worst, most)]


def _compare_double_backward(case: _Case) -> list[Aspect]:
    """Compare the framework's second derivative along v with differences of its gradient.

    A difference does not fail the check: a correct backward pass need not be differentiable itself.
    """
    name = "double backward"
    if Kind.STOP_GRADIENT in case.request.options.expect:
        return [Aspect(name, "not run", message="it stops where the gradient does")]
    if not case.affords(_GRADIENTS):
        return [Aspect(name, "not run", message="--order 2 checks it")]
    if EPS[case.native.narrowest] > EPS["float32"]:
        return [
            Aspect(name, "not run", message=f"differences of a gradient in {case.native.narrowest} are too inexact")
        ]
    curvature = partial(case.framework.curvature, case.flat, case.xs, case.own.w, case.vs, case.native.seed)
    found = _ask_framework(name, curvature)
    if isinstance(found, Aspect):
        return [found]
    theirs = sum(float(np.sum(np.asarray(h) * v)) for h, v in zip(found, case.vs, strict=True))
    size = sum(float(np.sum(np.abs(np.asarray(h) * v))) for h, v in zip(found, case.vs, strict=True))

    def slope(t: float) -> float:
        moved = {n: case.values[n] + t * case.v[n] for n in case.request.wrt}
        return case.along(case.own({**case.values, **moved}), case.room)[0]

    at, noise = slope(0.0), case.ulps * sum(float(np.sum(np.abs(x))) for x in case.claim.values())
    right = quick_derivative(slope, noise, at)
    near = abs(theirs - right.value) <= 3 * right.bound + case.same * size
    if not (near and 3 * right.bound <= _DECISIVE * abs(theirs)):
        right = derivative(Line(slope, at=at))
    aspect = _judge_difference(name, theirs, float(right.value), 3 * float(right.bound) + case.same * size)
    if aspect.status == "wrong":
        says = "second derivatives through this backward are wrong"
        if case.framework.name == "torch":
            says += "; if you never need them, mark it @once_differentiable"
        return [replace(aspect, status="differs", message=says)]
    return [aspect]


def _judge_difference(name: str, theirs: float, right: float, room: float) -> Aspect:
    scale = max(abs(right), abs(theirs), 1e-300)
    apart = abs(theirs - right)
    return Aspect(name, "agrees" if apart <= room else "wrong", apart / scale, room / scale)


def _largest_difference(
    found: Mapping[str, Any], claim: Mapping[str, Any], room: Mapping[str, Any], ulps: float
) -> tuple[float, float]:
    """Return the largest difference of two gradients, and the largest that is allowed, relative to the largest entry.

    Their bounds are allowed, and `ulps` of the largest entry: one that is zero but for rounding has a bound of zero.
    """
    size = max((float(np.max(np.abs(x), initial=0.0)) for x in claim.values()), default=0.0) or 1.0
    worst, most = 0.0, 0.0
    for name, x in found.items():
        with np.errstate(invalid="ignore"):  # two infinities
            apart = np.abs(np.asarray(x) - np.asarray(claim[name]))
        apart = np.where(np.isnan(x) & np.isnan(claim[name]), 0.0, np.nan_to_num(apart, nan=np.inf))
        beyond = bool(np.any(apart > np.maximum(room[name], ulps * size)))
        worst = max(worst, float(np.max(apart, initial=0.0)) / size)
        most = max(most, 0.0 if beyond else float(np.max(apart, initial=0.0)) / size)
    return worst, most


def _shorten_text(text: str) -> str:
    return text if len(text) < 90 else text[:87] + "..."
