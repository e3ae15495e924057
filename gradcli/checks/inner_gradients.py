"""The custom gradients in a framework's function, each checked alone at the values it was called with."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcli.checks.causes import Cause, Verified
from gradcli.checks.framework_claim import FrameworkClaim, own_gradient
from gradcli.checks.narrow_formats import request_in_float64
from gradcli.checks.probe import Located, locate_function
from gradcli.checks.request import Request
from gradcli.errors import BadClaim, GradcliError
from gradcli.frameworks.framework import KNOWN, CustomCall, Framework, Placed, Prepared
from gradcli.frameworks.native import Native
from gradcli.modes.difference_steps import Line, derivative
from gradcli.report.common import ABSENT, Absent
from gradcli.report.framework_gradient import Part
from gradcli.report.point_report import Detects, PointReport
from gradcli.request.options import Options
from gradcli.targets.derived import random_direction, tangent_to_surfaces
from gradcli.targets.nesting import take_apart
from gradcli.targets.python import signature_of
from gradcli.words import Verdict

_DIRECTIONS = 2  # random ones, in which the inputs are moved
_VANISHED = 1e-5  # relative to the sum of |terms|: a slope that is 0 but for the errors of differences


def check_custom_gradients(
    request: Request, own: FrameworkClaim, whole: PointReport, verify: Callable[[Request], Verified]
) -> tuple[tuple[Part, ...], dict[int, Cause]]:
    """Return what a check of each custom gradient in a run of the function found, given the function's own report.

    Also return how the cause of each wrong one is looked for, by its number.
    """
    calls = _find_custom_calls(request, own, request.points[0].values)
    found = [_check_custom_gradient(calls, number, request, own, whole, verify) for number in range(len(calls))]
    causes = {k: cause for k, (_, cause) in enumerate(found) if cause is not None}
    return tuple(part for part, _ in found), causes


def _find_custom_calls(request: Request, own: FrameworkClaim, values: Mapping[str, Any]) -> list[CustomCall]:
    """Return the calls of custom gradients in one run (the target's own only if its result is a scalar); none if it raises."""
    try:
        found = own.native.framework.calls(
            own.flat(values), own.tensors(values), own.native.seed, request.options.localise
        )
    except (GradcliError, RuntimeError, TypeError, ValueError):
        return []  # the check of the gradient reports this error
    return [call for call in found if call.name != own.native.inner or np.ndim(own.w) == 0]


def _check_custom_gradient(
    calls: Sequence[CustomCall], number: int, request: Request, own: FrameworkClaim, whole: PointReport,
    verify: Callable[[Request], Verified],
) -> tuple[Part, Cause | None]:  # fmt: skip
    """Check one custom gradient alone, at the values it was called with; also return how the cause of a failure is looked for."""
    call = calls[number]
    part = Part(call.name, Verdict.INCONCLUSIVE)
    if call.rule is not None:
        part = replace(part, file=call.rule.file, line=call.rule.line, source=call.rule.source)
    try:
        alone = _request_for_call(call, request, own.native)
        if alone is None:
            return replace(part, message="it gets no floats"), None
        if _is_whole_function(alone, request, own, whole):
            return _pass_part(part, whole.detects), None
        verified = verify(replace(alone, own=None))
    except GradcliError as error:
        verdict = Verdict.FAIL if isinstance(error, BadClaim) else Verdict.INCONCLUSIVE
        return replace(part, verdict=verdict, message=error.what), None
    report = verified.report
    part = replace(part, verdict=report.verdict)
    if report.verdict == Verdict.PASS:
        return _pass_part(part, report.detects), None
    part = replace(part, message=report.sentence())
    if report.verdict == Verdict.FAIL and whole.verdict != Verdict.FAIL:
        ignores = _ignores_cotangent(alone)
        reached = ABSENT if ignores else _is_difference_reached(report.points[0], number, len(calls), request, own)
        part = replace(part, ignores=ignores, reached=reached)
    return part, verified.first_cause


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
        calls = _find_custom_calls(request, own, {**values, **{name: values[name] + t * v[name] for name in v}})
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


def _pass_part(part: Part, detects: Detects) -> Part:
    """Return the result of a gradient that is right, with the smallest relative error that would have been seen."""
    seen = part.detects if detects.relative is None else detects.relative
    return replace(part, verdict=Verdict.PASS, detects=seen)


def _is_whole_function(alone: Request, request: Request, own: FrameworkClaim, whole: PointReport) -> bool:
    """Whether a custom gradient is that of the whole function, which is right: at the same inputs, for the same cotangent.

    The gradient of a scalar function is compared for another cotangent than one, in proportion. In narrow formats, whose
    bounds are wide, a custom gradient is always checked alone.
    """
    if own.native.coarseness > 1.0:
        return False
    if whole.verdict != Verdict.PASS or alone.own is None or alone.claim is None or not alone.claim.names:
        return False
    ratio = alone.own.w if np.ndim(own.w) == 0 else 1.0
    if np.shape(alone.own.w) != np.shape(own.w) or not np.array_equal(alone.own.w, own.w * ratio):
        return False
    values, given = alone.points[0].values, request.points[0].values
    pairs = list(zip(alone.wrt, request.wrt, strict=False))
    if len(alone.wrt) != len(request.wrt) or not all(np.array_equal(values[a], given[b]) for a, b in pairs):
        return False
    claim, result = alone.claim(values), whole.modes["claim"]
    if set(claim) != set(alone.wrt) or isinstance(result.bound, Absent):
        return False
    return all(
        bool(np.all(np.abs(claim[a] - ratio * result.values[b]) <= np.abs(ratio) * result.bound[b])) for a, b in pairs
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
    wider = lambda alone: request_in_float64(alone, own)
    return replace(
        request, f=located.f, points=located.points, wrt=located.wrt, claim=claim, own=own, wider=wider, surfaces={}
    )


def locate_call(call: CustomCall, framework: Framework, placed: Placed, seed: int) -> Located:
    """Return a custom gradient at the values it was called with, differentiated by those that carry a derivative."""

    def native(placed: Placed) -> Native:
        prepared = Prepared(call.function, call.name, {})
        if framework.owns(call.function) or KNOWN[framework.name].inexact:  # which has float64 on the CPU alone
            prepared = framework.prepared(call.function, placed, seed)
        return Native(prepared, framework, placed, seed)

    alone = native(placed)
    alone.run_with = lambda *, dtype, autocast: native(replace(placed, dtype=dtype))
    alone.run_at = native
    held = [framework.array(a) if framework.holds(a) else a for a in call.args]
    point = _arguments_by_name(held, alone.function) | {
        n: framework.array(a) if framework.holds(a) else a for n, a in call.kwargs.items()
    }
    found = locate_function(alone, call.name, [point], Options(seed=seed))
    constants = _constant_parameters(call, framework, _arguments_by_name(range(len(call.args)), alone.function))
    return replace(found, wrt=tuple(path for path in found.wrt if _parameter_of_path(path) not in constants))


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
