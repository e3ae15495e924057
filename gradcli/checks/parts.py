"""What was met on the way, checked alone: the layers of a network of one's own, and custom functions on several ranks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcli.checks.build import request_for
from gradcli.checks.causes import Cause, Verified, open_part
from gradcli.checks.probe import locate_function
from gradcli.checks.request import Request
from gradcli.checks.wrong import CauseBudget
from gradcli.errors import GradcliError
from gradcli.modes.claim import ClaimedFunction
from gradcli.report.check import CheckReport
from gradcli.report.common import ABSENT
from gradcli.report.framework_gradient import Part
from gradcli.report.point_report import Diagnosis, RankReport
from gradcli.request.options import Options
from gradcli.request.point import Point
from gradcli.targets.derived import original_function
from gradcli.targets.layers import InnerCall, chain_layers
from gradcli.targets.nesting import put_together
from gradcli.targets.python import PythonFunction
from gradcli.tracing.provenance import place_of_definition
from gradcli.tracing.shapes import size
from gradcli.words import Verdict

if TYPE_CHECKING:  # code without ranks loads none of this
    from gradcli.frameworks.ranks import RankedCall, RankedFunction

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
    part = open_part(call.name, place_of_definition(call.backward))
    try:
        verified = verify(_request_for_call(call, request))
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
