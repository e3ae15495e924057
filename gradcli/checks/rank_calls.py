"""What several ranks compute: the gradients of each, and the custom functions in them, each checked alone on all ranks."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gradcli.checks.causes import Cause, Verified
from gradcli.checks.request import Request
from gradcli.checks.wrong import CauseBudget
from gradcli.errors import GradcliError
from gradcli.frameworks.ranks import RankedCall, RankedFunction, RankedReference
from gradcli.modes.claim import ClaimedFunction
from gradcli.report.check import CheckReport
from gradcli.report.common import ABSENT
from gradcli.report.framework_gradient import Part
from gradcli.report.point_report import Diagnosis, RankReport
from gradcli.request.point import Point
from gradcli.targets.derived import original_function
from gradcli.tracing.shapes import size
from gradcli.words import Verdict

_ENTRIES = 400  # of all tensors that the calls which are checked alone got on all ranks


def with_ranks(
    request: Request, report: CheckReport, verify: Callable[[Request], Verified]
) -> tuple[CheckReport, dict[int, Cause]]:
    """Return the report with the gradients by rank, and with a verdict on each call of a custom function, in backward's order.

    Each is checked alone on all ranks in step, at the tensors and cotangents that it got, while they have few entries together.
    The causes of wrong ones are yet to be looked for.
    """
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
            entries = sum(size(x) for x in call.point.values())
            if entries > left:
                says = f"it was not checked alone, for all calls together have more than {_ENTRIES} entries"
                found.append((replace(_make_part(call), message=says), None))
                continue
            left -= entries
            found.append(_check_call_alone(call, request, verify))
    except GradcliError as error:
        return replace(report, layers=(Part("its custom functions", Verdict.INCONCLUSIVE, message=error.what),)), {}
    causes = {number: cause for number, (_, cause) in enumerate(found) if cause is not None}
    return replace(report, layers=tuple(part for part, _ in found) or ABSENT), causes


def _report_ranks(ranked: RankedFunction, report: CheckReport) -> tuple[RankReport, ...]:
    """Return the loss of each rank and what backward left there, by the user's names."""
    mode = report.points[0].modes.get("claim")
    left: Any = getattr(mode, "gradient", None) or {}
    return tuple(
        RankReport(
            rank, loss, {n: left[place.names[rank]] for n, place in ranked.by_rank.items() if place.names[rank] in left}
        )
        for rank, loss in enumerate(ranked.at_point)
    )


def _make_part(call: RankedCall) -> Part:
    """Return a call with the line of its backward, before it is checked."""
    at, part = call.calls[0].rule, Part(call.text, Verdict.INCONCLUSIVE)
    return part if at is None else replace(part, file=at.file, line=at.line, source=at.source)


def _check_call_alone(
    call: RankedCall, request: Request, verify: Callable[[Request], Verified]
) -> tuple[Part, Cause | None]:
    """Return the verdict on one call on all ranks, and how the cause is looked for."""
    part = _make_part(call)
    claim = ClaimedFunction("backward", lambda values: call.claimed(), lambda found: found, call.point)
    value, notices = call.survey(call.point)
    point = Point(call.point, (), 0, tuple(notices), value)
    alone = replace(
        request, f=call, points=(point,), wrt=call.inputs, claim=claim, notices=(), not_claimed=(),
        options=replace(request.options, mutate=False),
    )  # fmt: skip
    verified = verify(alone)
    part = replace(part, verdict=verified.report.verdict)
    if part.verdict == Verdict.PASS:
        seen = verified.report.detects.relative
        return replace(part, detects=ABSENT if seen is None else seen), None
    found = verified.first_cause
    cause = None if found is None else lambda budget: _place_on_line(found, part, budget)
    return replace(part, message=verified.report.sentence()), cause


def _place_on_line(cause: Cause, part: Part, budget: CauseBudget) -> Diagnosis | None:
    """Return the mistake with the line of the backward function that makes it."""
    found = cause(budget)
    if found is None or not isinstance(part.file, str) or not isinstance(part.line, int):
        return found
    return replace(found, file=part.file, line=part.line, source=part.source or None)
