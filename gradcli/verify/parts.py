"""The custom gradients in a framework's function, each checked alone at the values it was called with."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcli.errors import BadClaim, GradcliError
from gradcli.frameworks.framework import Call, Framework, Placed, Prepared
from gradcli.frameworks.native import Native
from gradcli.reports.absent import Absent
from gradcli.reports.native import Part
from gradcli.reports.point_report import Detects, PointReport
from gradcli.source.python import signature_of
from gradcli.source.structure import taken_apart
from gradcli.verify.causes import Cause, Verified
from gradcli.verify.narrow_formats import in_float64
from gradcli.verify.native import FrameworkClaim, own_gradient
from gradcli.verify.probe import Located, LocateOptions, function_at
from gradcli.verify.request import Request
from gradcli.words import Verdict


def checked_parts(
    request: Request, own: FrameworkClaim, whole: PointReport, verify: Callable[[Request], Verified]
) -> tuple[tuple[Part, ...], dict[int, Cause]]:
    """Return what a check of each custom gradient in a run of the function found, given the function's own report.

    Also return how the cause of each wrong one is looked for, by its number.
    """
    found = [_part(call, request, own, whole, verify) for call in _calls(request, own)]
    causes = {k: cause for k, (_, cause) in enumerate(found) if cause is not None}
    return tuple(part for part, _ in found), causes


def _calls(request: Request, own: FrameworkClaim) -> list[Call]:
    """Return the calls of custom gradients in one run (the target's own only if its result is a scalar); none if it raises."""
    values = request.points[0].values
    try:
        found = own.native.framework.calls(
            own.flat(values), own.tensors(values), own.native.seed, request.framework_options.localises
        )
    except (GradcliError, RuntimeError, TypeError, ValueError):
        return []  # the check of the gradient reports this error
    return [call for call in found if call.name != own.native.inner or np.ndim(own.w) == 0]


def _part(
    call: Call, request: Request, own: FrameworkClaim, whole: PointReport, verify: Callable[[Request], Verified]
) -> tuple[Part, Cause | None]:
    """Check one custom gradient alone, at the values it was called with; also return how the cause of a failure is looked for."""
    part = Part(call.name, Verdict.INCONCLUSIVE)
    if call.rule is not None:
        part = replace(part, file=call.rule.file, line=call.rule.line, source=call.rule.source)
    try:
        alone = _alone(call, request, own.native)
        if alone is None:
            return replace(part, message="it gets no floats"), None
        if _is_the_function(alone, request, own, whole):
            return _right(part, whole.detects), None
        verified = verify(replace(alone, own=None))
    except GradcliError as error:
        verdict = Verdict.FAIL if isinstance(error, BadClaim) else Verdict.INCONCLUSIVE
        return replace(part, verdict=verdict, message=error.what), None
    report = verified.report
    part = replace(part, verdict=report.verdict)
    if report.verdict == Verdict.PASS:
        return _right(part, report.detects), None
    return replace(part, message=report.sentence()), verified.first_cause


def _right(part: Part, detects: Detects) -> Part:
    """Return the result of a gradient that is right, with the smallest relative error that would have been seen."""
    seen = part.detects if detects.relative is None else detects.relative
    return replace(part, verdict=Verdict.PASS, detects=seen)


def _is_the_function(alone: Request, request: Request, own: FrameworkClaim, whole: PointReport) -> bool:
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


def _alone(call: Call, request: Request, native: Native) -> Request | None:
    """Return the request to check the custom gradient of a call; None if it takes no floats."""
    found = located_call(call, native.framework, native.placed, request.seed)
    alone = with_cotangent(request, found) if found.wrt else None
    if alone is None:
        return None
    return replace(alone, notices=(), derivative="gradient", command=(), implementation=None)


def with_cotangent(request: Request, found: Located) -> Request | None:
    """Return the request to check a custom gradient with a random cotangent, also where its result is a scalar.

    None if the function is not one of a framework.
    """
    made = own_gradient(found, request.seed, 1, request.framework_options.expect, weighted=True)
    if made is None:
        return None
    located, claim, own = made
    wider = lambda alone: in_float64(alone, own)
    return replace(request, f=located.f, points=located.points, wrt=located.wrt, claim=claim, own=own, wider=wider)


def located_call(call: Call, framework: Framework, placed: Placed, seed: int) -> Located:
    """Return a custom gradient at the values it was called with, differentiated by those that carry a derivative."""

    def native(placed: Placed) -> Native:
        prepared = Prepared(call.function, call.name, {})
        if framework.owns(call.function):
            prepared = framework.prepared(call.function, placed, seed)
        return Native(prepared, framework, placed, seed)

    alone = native(placed)
    alone.run_with = lambda *, dtype, autocast: native(replace(placed, dtype=dtype))
    held = [framework.array(a) if framework.holds(a) else a for a in call.args]
    point = _by_name(held, alone.function) | {
        n: framework.array(a) if framework.holds(a) else a for n, a in call.kwargs.items()
    }
    found = function_at(alone, call.name, [point], LocateOptions(seed))
    constants = _constants(call, framework, _by_name(range(len(call.args)), alone.function))
    return replace(found, wrt=tuple(path for path in found.wrt if _parameter(path) not in constants))


def _constants(call: Call, framework: Framework, places: Mapping[str, Any]) -> set[str]:
    """Return the parameters of a call that carry no derivative: constants of its trace, and numbers of Python.

    `places` has the position of each argument that is passed by position, and the positions of `*args`.
    """

    def is_constant(key: int | str, x: Any) -> bool:
        leaves = taken_apart("", x)[1].values()
        return key in call.constants or not any(framework.holds(leaf) or framework.owns(leaf) for leaf in leaves)

    fixed = {key for key, x in (dict(enumerate(call.args)) | call.kwargs).items() if is_constant(key, x)}
    by_position = {name for name, k in places.items() if {k} <= fixed or (isinstance(k, tuple) and set(k) <= fixed)}
    return by_position | {key for key in fixed if isinstance(key, str)}


def _parameter(path: str) -> str:
    """Return the parameter that holds a leaf: its path up to the first member."""
    return path.partition(".")[0].partition("[")[0]


def _by_name(args: Sequence[Any], function: Callable[..., Any]) -> dict[str, Any]:
    """Return the positional arguments of a call by parameter name; extra ones under the name of `*args`."""
    signature = signature_of(function)
    parameters = list(signature.parameters.values()) if signature else []
    names = [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    rest = {p.name: tuple(args[len(names) :]) for p in parameters if p.kind is p.VAR_POSITIONAL}
    return dict(zip(names, args, strict=False)) | rest
