"""What was met on the way, each checked alone: custom gradients in a framework's function, layers, functions on several ranks."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcli.checks.build import request_for
from gradcli.checks.causes import Cause, Verified, open_part
from gradcli.checks.framework_claim import FrameworkClaim, draw_output_weights, own_gradient
from gradcli.checks.probe import Located, locate_function
from gradcli.checks.request import Request
from gradcli.checks.wrong import CauseBudget
from gradcli.errors import BadClaim, GradcliError
from gradcli.frameworks.framework import EPS, KNOWN, CustomCall, Framework, Placed, Prepared
from gradcli.frameworks.native import Native
from gradcli.modes.claim import ClaimedFunction
from gradcli.modes.difference_steps import Line, derivative
from gradcli.report.check import CheckReport
from gradcli.report.common import ABSENT, Absent
from gradcli.report.point_report import Diagnosis, Part, PointReport, RankReport
from gradcli.request.options import Options
from gradcli.request.point import Point
from gradcli.targets.arguments import bind_arguments
from gradcli.targets.derived import original_function, random_direction, tangent_to_surfaces
from gradcli.targets.layers import InnerCall, chain_layers
from gradcli.targets.nesting import put_together, take_apart
from gradcli.targets.python import PythonFunction, signature_of
from gradcli.tracing.provenance import place_of_definition
from gradcli.tracing.shapes import size
from gradcli.words import Verdict

if TYPE_CHECKING:
    from gradcli.frameworks.ranks import RankedCall, RankedFunction


OTHER_VALUE = "its rule returns another value than the function"
_OTHER = 1e4  # machine epsilons by which two ways to compute a value may differ
_DIRECTIONS = 2  # random ones, in which the inputs are moved
_VANISHED = 1e-5  # relative to the sum of |terms|: a slope that is 0 but for the errors of differences


def check_custom_gradients(
    calls: Sequence[CustomCall], request: Request, own: FrameworkClaim, whole: PointReport,
    verify: Callable[[Request], Verified],
) -> tuple[tuple[Part, ...], dict[int, Cause]]:  # fmt: skip
    """Return what a check of each of these calls of custom gradients found, given the function's own report.

    The target's own is checked as a part only if its result is a scalar. Also return how the cause of each wrong one is looked
    for, by its number.
    """
    calls = _calls_inside(calls, own)
    found = [_check_custom_gradient(calls, number, request, own, whole, verify) for number in range(len(calls))]
    causes = {k: cause for k, (_, cause) in enumerate(found) if cause is not None}
    return tuple(part for part, _ in found), causes


def find_custom_calls(request: Request, own: FrameworkClaim, values: Mapping[str, Any]) -> list[CustomCall]:
    """Return the calls of custom gradients in one run; none if it raises."""
    try:
        return own.native.framework.calls(
            own.flat(values), own.tensors(values), own.native.seed, request.options.localise
        )
    except (GradcliError, RuntimeError, TypeError, ValueError):
        return []  # the check of the gradient reports this error


def _calls_inside(calls: Sequence[CustomCall], own: FrameworkClaim) -> list[CustomCall]:
    return [call for call in calls if call.name != own.native.inner or np.ndim(own.w) == 0]


def _check_custom_gradient(
    calls: Sequence[CustomCall], number: int, request: Request, own: FrameworkClaim, whole: PointReport,
    verify: Callable[[Request], Verified],
) -> tuple[Part, Cause | None]:  # fmt: skip
    """Check one custom gradient alone, at the values it was called with; also return how the cause of a failure is looked for."""
    call = calls[number]
    part = open_part(call.name, call.rule)
    try:
        is_whole = _is_whole_function(call, request, own, whole)
        alone = None if is_whole else _request_for_call(call, request, own.native)
        tested = request if is_whole else alone
        if tested is not None and tested.own is not None and _has_other_value(tested.own, tested.points[0].values):
            return replace(part, verdict=Verdict.FAIL, message=OTHER_VALUE), None
        if is_whole:
            seen = whole.detects.relative
            return replace(part, verdict=Verdict.PASS, detects=ABSENT if seen is None else seen), None
        if alone is None:
            return replace(part, message="it gets no floats"), None
        verified = verify(replace(alone, own=None))
    except GradcliError as error:
        verdict = Verdict.FAIL if isinstance(error, BadClaim) else Verdict.INCONCLUSIVE
        return replace(part, verdict=verdict, message=error.what), None
    report, part = verified.report, verified.judge(part)
    if report.verdict == Verdict.FAIL and whole.verdict != Verdict.FAIL:
        ignores = _ignores_cotangent(alone)
        reached = ABSENT if ignores else _is_difference_reached(report.points[0], number, len(calls), request, own)
        part = replace(part, ignores=ignores, reached=reached)
    return part, verified.first_cause


def _has_other_value(own: FrameworkClaim, values: Mapping[str, Any]) -> bool:
    """Whether a custom rule returns another value than its function, as the fwd of a custom_vjp of JAX may."""
    framework, seed = own.native.framework, own.native.seed
    if not framework.rules_return_values:
        return False
    run = own.flat(values), own.tensors(values)
    try:
        plain, (made, _) = framework.value(*run, seed), framework.pulled(*run, own.w, seed)
    except (GradcliError, RuntimeError, TypeError, ValueError):
        return False  # the check of the gradient reports this error
    size = float(np.max(np.abs(plain), initial=0.0))
    return bool(np.max(np.abs(made - plain), initial=0.0) > _OTHER * EPS[own.native.narrowest] * size)


def _ignores_cotangent(alone: Request) -> bool:
    """Whether a custom gradient is the same for twice the cotangent, though it is not 0."""
    if alone.own is None:
        return False
    double, values = copy.copy(alone.own), dict(alone.points[0].values)
    double.w = 2 * alone.own.w
    try:
        first, second = alone.own(values), double(values)
    except GradcliError:
        return False
    return all(np.array_equal(x, second[name]) for name, x in first.items()) and any(map(np.any, first.values()))


def _is_difference_reached(
    alone: PointReport, number: int, count: int, request: Request, own: FrameworkClaim
) -> bool | Absent:
    """Return whether the inputs move a call's arguments in directions in which its gradient is not the derivative.

    Measured: the product of the difference with the Jacobian of what comes before the call, along random directions.
    ABSENT where it cannot be measured: a moved run has other calls, or differences are too inexact.
    """
    claim, right = alone.modes["claim"].values, alone.modes[str(alone.reference)].values if alone.reference else {}
    apart = {name: np.asarray(x) - np.asarray(right[name]) for name, x in claim.items() if name in right}
    if not apart or set(apart) != set(claim) or not all(np.all(np.isfinite(d)) for d in apart.values()):
        return ABSENT
    values = request.points[0].values

    def terms(t: float, v: Mapping[str, Any]) -> Any:
        """Return the differences times the arguments of the call, at the inputs moved by t along v."""
        at = {**values, **{name: values[name] + t * v[name] for name in v}}
        calls = _calls_inside(find_custom_calls(request, own, at), own)
        moved = _arrays_in_arguments(calls[number], own.native.framework) if len(calls) == count else {}
        if not all(name in moved and np.shape(moved[name]) == np.shape(d) for name, d in apart.items()):
            return np.full(sum(d.size for d in apart.values()), np.nan)
        return np.concatenate([np.ravel(d * moved[name]) for name, d in apart.items()])

    for k in range(_DIRECTIONS):
        v = {name: random_direction(request.seed + k, name, values[name]) for name in request.wrt}
        v = tangent_to_surfaces(request.surfaces, values, v)
        slopes = derivative(Line(lambda t, v=v: terms(t, v), at=terms(0.0, v)), looks=False)  # type: ignore[misc]
        size, total = float(np.sum(np.abs(slopes.value))), abs(float(np.sum(slopes.value)))
        loose = float(np.sum(slopes.bound))
        if not loose <= _VANISHED * size:
            return ABSENT if size or not np.isfinite(loose) else False
        if total > _VANISHED * size:
            return True
    return False


def _arrays_in_arguments(call: CustomCall, framework: Framework) -> dict[str, Any]:
    """Return the arrays among the arguments of a call, by path."""
    named = _arguments_by_name(call.args, call.function) | call.kwargs
    leaves = {path: x for name, arg in named.items() for path, x in take_apart(name, arg)[1].items()}
    return {path: framework.array(x) for path, x in leaves.items() if framework.holds(x)}


def _is_whole_function(call: CustomCall, request: Request, own: FrameworkClaim, whole: PointReport) -> bool:
    """Whether a custom gradient is that of the whole function, which is right: at the same inputs, for the same cotangent.

    The gradient of a scalar function is compared for another cotangent than one, in proportion. In narrow formats, whose
    bounds are wide, a custom gradient is always checked alone.
    """
    result = whole.modes.get("claim")
    bound = ABSENT if result is None else result.bound
    if own.native.coarseness > 1.0 or whole.verdict != Verdict.PASS or result is None or isinstance(bound, Absent):
        return False
    alone = _native_of_call(call, own.native.framework, own.native.placed, request.seed)
    f, values, _ = bind_arguments(alone, call.name, _point_of_call(call, alone))
    inputs, given = _inputs_of_call(f.inputs, call, alone), request.points[0].values
    pairs = list(zip(inputs, request.wrt, strict=False))
    if len(inputs) != len(request.wrt) or not all(np.array_equal(values[a], given[b]) for a, b in pairs):
        return False
    w = draw_output_weights(request.seed, own.w) if np.ndim(own.w) == 0 else own.w
    ratio = w / own.w if np.ndim(own.w) == 0 else 1.0
    try:
        claim = FrameworkClaim(f, alone, inputs, w)(values)
    except GradcliError:
        return False
    return all(
        np.shape(claim[a]) == np.shape(result.values[b])
        and bool(np.all(np.abs(claim[a] - ratio * result.values[b]) <= np.abs(ratio) * bound[b]))
        for a, b in pairs
    )


def _request_for_call(call: CustomCall, request: Request, native: Native) -> Request | None:
    """Return the request to check the custom gradient of a call; None if it takes no floats."""
    found = locate_call(call, native.framework, native.placed, request.seed)
    alone = with_cotangent(request, found) if found.wrt else None
    if alone is None:
        return None
    return replace(alone, notices=(), derivative="gradient", command=(), implementation=None)


def with_cotangent(request: Request, found: Located) -> Request | None:
    """Return the request to check a custom gradient with a random cotangent, also where its result is a scalar.

    None if the function is not one of a framework.
    """
    made = own_gradient(found, request.seed, 1, request.options.expect, weighted=True)
    if made is None:
        return None
    located, claim, own = made
    return replace(
        request, f=located.f, points=located.points, wrt=located.wrt, claim=claim, own=own, to_widen=own, surfaces={}
    )


def locate_call(call: CustomCall, framework: Framework, placed: Placed, seed: int) -> Located:
    """Return a custom gradient at the values it was called with, differentiated by those that carry a derivative."""
    alone = _native_of_call(call, framework, placed, seed)
    found = locate_function(alone, call.name, [_point_of_call(call, alone)], Options(seed=seed))
    return replace(found, wrt=_inputs_of_call(found.wrt, call, alone))


def _native_of_call(call: CustomCall, framework: Framework, placed: Placed, seed: int) -> Native:
    """Return the function of a call alone, which takes and returns arrays."""

    def native(placed: Placed) -> Native:
        prepared = Prepared(call.function, call.name, {})
        if framework.owns(call.function) or KNOWN[framework.name].inexact:  # which has float64 on the CPU alone
            prepared = framework.prepared(call.function, placed, seed)
        return Native(prepared, framework, placed, seed)

    alone = native(placed)
    alone.run_with = lambda *, dtype, autocast: native(replace(placed, dtype=dtype))
    alone.run_at = native
    return alone


def _point_of_call(call: CustomCall, alone: Native) -> dict[str, Any]:
    """Return the arguments of a call by parameter name, tensors as arrays."""

    def plain(a: Any) -> Any:
        return alone.framework.array(a) if alone.framework.holds(a) else a

    return _arguments_by_name(list(map(plain, call.args)), alone.function) | {
        name: plain(a) for name, a in call.kwargs.items()
    }


def _inputs_of_call(paths: Sequence[str], call: CustomCall, alone: Native) -> tuple[str, ...]:
    """Return those of the float inputs of a call that carry a derivative."""
    places = _arguments_by_name(range(len(call.args)), alone.function)
    constants = _constant_parameters(call, alone.framework, places)
    return tuple(path for path in paths if _parameter_of_path(path) not in constants)


def _constant_parameters(call: CustomCall, framework: Framework, places: Mapping[str, Any]) -> set[str]:
    """Return the parameters of a call that carry no derivative: constants of its trace, and numbers of Python.

    `places` has the position of each argument that is passed by position, and the positions of `*args`.
    """

    def is_constant(key: int | str, x: Any) -> bool:
        leaves = take_apart("", x)[1].values()
        return key in call.constants or not any(framework.holds(leaf) or framework.owns(leaf) for leaf in leaves)

    fixed = {key for key, x in (dict(enumerate(call.args)) | call.kwargs).items() if is_constant(key, x)}
    by_position = {name for name, k in places.items() if {k} <= fixed or (isinstance(k, tuple) and set(k) <= fixed)}
    return by_position | {key for key in fixed if isinstance(key, str)}


def _parameter_of_path(path: str) -> str:
    """Return the parameter that holds a leaf: its path up to the first member."""
    return path.partition(".")[0].partition("[")[0]


def _arguments_by_name(args: Sequence[Any], function: Callable[..., Any]) -> dict[str, Any]:
    """Return the positional arguments of a call by parameter name; extra ones under the name of `*args`."""
    signature = signature_of(function)
    parameters = list(signature.parameters.values()) if signature else []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = {p.name: tuple(args[len(names) :]) for p in parameters if p.kind is p.VAR_POSITIONAL}
    return dict(zip(names, args, strict=False)) | rest


# What was met on the way, checked alone: the layers of a network of one's own, and custom functions on several ranks.

_MOST = 50  # layers
_ENTRIES = 400  # of all tensors that the calls which are checked alone got on all ranks


def _add_parts(report: CheckReport, found: Sequence[tuple[Part, Cause | None]]) -> tuple[CheckReport, dict[int, Cause]]:
    causes = {number: cause for number, (_, cause) in enumerate(found) if cause is not None}
    return replace(report, layers=tuple(part for part, _ in found) or ABSENT), causes


def with_layers(
    request: Request, report: CheckReport, verify: Callable[[Request], Verified]
) -> tuple[CheckReport, dict[int, Cause]]:
    """Return the report with a verdict on each layer that the object holds, and how the cause of a wrong one is looked for.

    The layers are in the order of the backward pass. Each is checked at the arguments and in the state of its first call.
    """
    f = original_function(request.f)
    if request.layer is None or request.layer.fresh.held is None or not isinstance(f, PythonFunction):
        return report, {}
    values = request.points[0].values
    try:
        arguments = {name: put_together(node, values) for name, node in f.arguments.items()}
        calls = request.layer.inner_calls(arguments)[-_MOST:][::-1]
    except GradcliError as error:
        return replace(report, layers=(Part("its layers", Verdict.INCONCLUSIVE, message=error.what),)), {}
    found = [_check_layer_alone(call, request, verify) for call in calls]
    # Softmax may leave its slope to the loss after it: neither is right alone, and both together are.
    for k in range(len(calls) - 1):
        if all(part.verdict == Verdict.FAIL for part, _ in found[k : k + 2]):
            both = chain_layers(calls[k + 1], calls[k])
            if both is not None and _check_layer_alone(both, request, verify)[0].verdict == Verdict.PASS:
                says = "not the derivative of its forward pass alone; right together with "
                pairs = zip(found[k : k + 2], (calls[k + 1], calls[k]), strict=True)
                found[k : k + 2] = [
                    (replace(part, verdict=Verdict.INCONCLUSIVE, message=f"{says}{other.name}"), None)
                    for (part, _), other in pairs
                ]
    return _add_parts(report, found)


def request_of_layer(request: Request, name: str, values: Mapping[str, Any] | None = None) -> Request | None:
    """Return the check of one layer that the object holds, at what it got in a run of the object, or at other values."""
    f = original_function(request.f)
    if request.layer is None or not isinstance(f, PythonFunction):
        return None
    arguments = {key: put_together(node, request.points[0].values) for key, node in f.arguments.items()}
    call = next((call for call in request.layer.inner_calls(arguments) if call.name == name), None)
    return None if call is None else _request_for_layer(call, request, values)


def _request_for_layer(call: InnerCall, request: Request, values: Mapping[str, Any] | None = None) -> Request:
    given = dict(call.arguments) if values is None else dict(values)
    options = Options(seed=request.seed)
    located = locate_function(call.layer, call.name, [given], options)
    return replace(request_for(located, None, options), layer=None)


def _check_layer_alone(
    call: InnerCall, request: Request, verify: Callable[[Request], Verified]
) -> tuple[Part, Cause | None]:
    """Return the verdict on one layer, with the line of its backward pass, and how the cause is looked for if it is wrong."""
    part = open_part(call.name, place_of_definition(call.backward))
    try:
        verified = verify(_request_for_layer(call, request))
    except GradcliError as error:
        return replace(part, message=error.what), None
    return verified.judge(part), verified.first_cause


# What several ranks compute: the gradients of each, and the custom functions in them, each checked alone on all ranks.


def with_ranks(
    request: Request, report: CheckReport, verify: Callable[[Request], Verified]
) -> tuple[CheckReport, dict[int, Cause]]:
    """Return the report with the gradients by rank, and with a verdict on each call of a custom function, in backward's order.

    Each is checked alone on all ranks in step, at the tensors and cotangents that it got, while they have few entries together.
    The causes of wrong ones are yet to be looked for.
    """
    from gradcli.frameworks.ranks import RankedCall, RankedFunction, RankedReference

    f = original_function(request.f)
    ranked = f.ranked if isinstance(f, RankedReference) else f
    if not isinstance(ranked, RankedFunction):
        return report, {}
    wholes = {name: np.asarray(x)[()] for name, x in ranked.joined(ranked.point).items() if name in ranked.by_rank}
    report = replace(report, points=(replace(report.points[0], at=wholes, ranks=_report_ranks(ranked, report)),))
    try:
        shared = ranked.shared_in_calls(request.wrt)
        # The point comes last: the ranks keep the calls that they saw, for what is asked of them.
        ranks = ranked.custom_calls(ranked.point, request.wrt)
        in_step = len({tuple((call.name, len(call.xs)) for call in calls) for calls in ranks}) == 1
        made = zip(zip(*ranks, strict=False), shared, strict=False) if in_step and len(shared) == len(ranks[0]) else ()
        calls = [RankedCall(ranked, one, number, held) for number, (one, held) in enumerate(made)]
        found: list[tuple[Part, Cause | None]] = []
        left = _ENTRIES
        for call in reversed([call for call in calls if call.inputs]):
            part = open_part(call.text, call.calls[0].rule)
            entries = sum(size(x) for x in call.point.values())
            if entries > left:
                says = f"it was not checked alone, for all calls together have more than {_ENTRIES} entries"
                found.append((replace(part, message=says), None))
                continue
            left -= entries
            found.append(_check_call_alone(call, part, request, verify))
    except GradcliError as error:
        return replace(report, layers=(Part("its custom functions", Verdict.INCONCLUSIVE, message=error.what),)), {}
    return _add_parts(report, found)


def _report_ranks(ranked: "RankedFunction", report: CheckReport) -> tuple[RankReport, ...]:
    """Return the loss of each rank and what backward left there, by the user's names."""
    mode = report.points[0].modes.get("claim")
    left: Any = getattr(mode, "gradient", None) or {}
    return tuple(
        RankReport(
            rank, loss, {n: left[place.names[rank]] for n, place in ranked.by_rank.items() if place.names[rank] in left}
        )
        for rank, loss in enumerate(ranked.at_point)
    )


def _check_call_alone(
    call: "RankedCall", part: Part, request: Request, verify: Callable[[Request], Verified]
) -> tuple[Part, Cause | None]:
    """Return the part with the verdict on one call on all ranks, and how the cause is looked for."""
    claim = ClaimedFunction("backward", lambda values: call.claimed(), lambda found: found, call.point)
    value, notices = call.survey(call.point)
    point = Point(call.point, (), 0, tuple(notices), value)
    alone = replace(
        request, f=call, points=(point,), wrt=call.inputs, claim=claim, notices=(), not_claimed=(),
        options=replace(request.options, mutate=False),
    )  # fmt: skip
    verified = verify(alone)
    cause = verified.first_cause

    def on_line(budget: CauseBudget) -> Diagnosis | None:
        """Return the mistake with the line of the backward function that makes it."""
        found, at = None if cause is None else cause(budget), call.calls[0].rule
        if found is None or at is None:
            return found
        return replace(found, file=at.file, line=at.line, source=at.source or None)

    return verified.judge(part), None if cause is None else on_line
