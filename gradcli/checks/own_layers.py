"""The layers that a network of one's own holds, each checked alone at what it got in a run of the network."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from gradcli.checks.build import request_for
from gradcli.checks.causes import Cause, Verified
from gradcli.checks.probe import locate_function
from gradcli.checks.request import Request
from gradcli.errors import GradcliError
from gradcli.report.check import CheckReport
from gradcli.report.common import ABSENT
from gradcli.report.framework_gradient import Part
from gradcli.request.options import Options
from gradcli.targets.derived import original_function
from gradcli.targets.layers import InnerCall, chain_layers
from gradcli.targets.nesting import put_together
from gradcli.targets.python import PythonFunction
from gradcli.tracing.provenance import place_of_definition
from gradcli.words import Verdict

_MOST = 50  # layers


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
    causes = {number: cause for number, (_, cause) in enumerate(found) if cause is not None}
    return replace(report, layers=tuple(part for part, _ in found) or ABSENT), causes


def request_of_layer(request: Request, name: str, values: Mapping[str, Any] | None = None) -> Request | None:
    """Return the check of one layer that the object holds, at what it got in a run of the object, or at other values."""
    f = original_function(request.f)
    if request.layer is None or not isinstance(f, PythonFunction):
        return None
    arguments = {key: put_together(node, request.points[0].values) for key, node in f.arguments.items()}
    call = next((call for call in request.layer.inner_calls(arguments) if call.name == name), None)
    return None if call is None else _request_for_call(call, request, values)


def _request_for_call(call: InnerCall, request: Request, values: Mapping[str, Any] | None = None) -> Request:
    given = dict(call.arguments) if values is None else dict(values)
    options = Options(seed=request.seed)
    located = locate_function(call.layer, call.name, [given], options)
    return replace(request_for(located, None, options), layer=None)


def _check_layer_alone(
    call: InnerCall, request: Request, verify: Callable[[Request], Verified]
) -> tuple[Part, Cause | None]:
    """Return the verdict on one layer, with the line of its backward pass, and how the cause is looked for if it is wrong."""
    at = place_of_definition(call.backward)
    part = Part(call.name, Verdict.INCONCLUSIVE)
    if at is not None:
        part = replace(part, file=at.file, line=at.line, source=at.source)
    try:
        verified = verify(_request_for_call(call, request))
    except GradcliError as error:
        return replace(part, message=error.what), None
    report = verified.report
    part = replace(part, verdict=report.verdict)
    if report.verdict == Verdict.PASS:
        seen = report.detects.relative
        return replace(part, detects=ABSENT if seen is None else seen), None
    return replace(part, message=report.sentence()), verified.first_cause
