"""A check with all that the options ask for beside it: hard points, digits, and the repair of a wrong claim."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from gradcli.checks.causes import Verified, drop_late_causes, with_causes
from gradcli.checks.check import Progress, verify
from gradcli.checks.request import Request
from gradcli.checks.wrong import SECONDS, CauseBudget
from gradcli.frameworks.native import native_of
from gradcli.report.check import CheckReport
from gradcli.report.common import ABSENT, Absent, SourceLine
from gradcli.request.options import Options
from gradcli.request.point import Point
from gradcli.targets.derived import original_function
from gradcli.targets.points import numbers_of_sizes
from gradcli.targets.target_request import TargetRequest, checked_point_texts
from gradcli.words import OUTLINE, Kind, Verdict

RightAnswer = Callable[[Point, tuple[str, ...], str, Request], tuple[dict[str, str], str | Absent]]  # of derivation


def full_check(
    request: Request, ask: TargetRequest, right_answer: RightAnswer, progress: Progress | None = None
) -> CheckReport:
    """Return the report of a check, of the hard points that were asked for, and the cause and repair of a claim that is wrong.

    `right_answer` derives what is shown where no edit repairs the claim.

    Raises  GradcliError as `verify` does; BadOption where there is no claim to look for hard points of.
    """
    return with_cause_and_repair(verify_with_options(request, ask, progress), request, ask, right_answer)


def verify_with_options(request: Request, ask: TargetRequest, progress: Progress | None = None) -> Verified:
    """Return the verdict of a check, at hard points too where that was asked for; causes are yet to be looked for.

    Raises  as `full_check`.
    """
    options, sizes = ask.options, ask.sizes
    if options.sizes_check:
        sizes = numbers_of_sizes(options.shapes, checked_point_texts(ask), options.seed, sizes, ask.points_of)
    found = check_hard_points(verify(request, progress), request, sizes)
    if progress is not None:
        progress(OUTLINE, found.report)
    return found


def budget_for(found: Verified, options: Options) -> CauseBudget:
    """Return what the search for the cause of a FAIL may take; nothing with --no-diagnose."""
    return CauseBudget(0 if options.no_diagnose else found.calls, options.diagnose or SECONDS)


def with_cause_and_repair(
    found: Verified, request: Request, ask: TargetRequest, right_answer: RightAnswer, tell: Callable[[str], None] | None = None
) -> CheckReport:  # fmt: skip
    """Return the report of a wrong claim with the likely mistake, and the edit that repairs it or the right gradient.

    All of it shares one budget, counted in calls, and a time limit as a safety net. `tell` is told what is looked at.
    """
    if found.report.verdict != Verdict.FAIL:
        return found.report
    budget = budget_for(found, request.options)
    tell = tell or (lambda says: None)
    tell("looking for the cause, 1 of 2: known mistakes")
    with budget.keeping(budget.left // 2):
        report = with_causes(found, budget)
    if request.options.no_diagnose:
        why = "it was not looked for (--no-diagnose)"
        found_at = [
            p if p.diagnosis is None else replace(p, diagnosis=replace(p.diagnosis, no_patch=why))
            for p in report.points
        ]
        return replace(report, points=tuple(found_at))
    if not budget.late and not hasattr(original_function(request.f), "by_rank"):  # no edit is tried on several ranks
        report = with_repair(report, request, ask, right_answer, budget, tell)
    return drop_late_causes(report, budget)


def with_repair(
    report: CheckReport, request: Request, ask: TargetRequest, right_answer: RightAnswer, budget: CauseBudget,
    tell: Callable[[str], None],
) -> CheckReport:  # fmt: skip
    """Return the report of a wrong claim with the edit that repairs it or, where there is none, the right gradient."""
    from gradcli.repair.repair import repair_claim

    number = next((k for k, p in enumerate(report.points) if p.diagnosis is not None), None)
    if number is None:  # no point's mistake was looked for
        return report
    point = report.points[number]
    names = tuple(dict.fromkeys(m.input for m in point.mismatches)) or point.differentiated
    native = native_of(request.f)
    language = "expression" if request.f.kind == "expression" else native.framework.name if native else "numpy"
    edited = report.claimed_at.file if isinstance(report.claimed_at, SourceLine) else None
    tell(f"looking for the cause, 2 of 2: edits of {edited or 'the claim'}, else the closed form")
    is_traced = all(found.kind != Kind.UNTRACED for found in point.findings)  # else the trace is not f
    closed_form = partial(right_answer, Point(dict(point.at)), names, language) if is_traced else _no_closed_form
    return repair_claim(report, number, request, ask, budget, closed_form)


def _no_closed_form(request: Request) -> tuple[dict[str, str], str | Absent]:
    return {}, ABSENT


def check_hard_points(found: Verified, request: Request, sizes: Mapping[str, int] | None = None) -> Verified:
    """Return the verdict on a claim that passed, after hard points were looked at and its digits counted, if that was asked for.

    `sizes` maps the names of sizes to the lengths that they have at the point.

    Raises  BadOption where there is no claim, or it is no gradient; BadClaim if the claim raises where f is smooth.
    """
    options = request.options
    if options.looks_at_hard_points:
        from gradcli.repair.stress import search_hard_points

        return search_hard_points(found, request, sizes)
    if options.digits is not None:
        from gradcli.repair.stress import require_digits

        return replace(found, report=require_digits(found.report, request, options.digits))
    return found


def patch_in(report: CheckReport) -> str | None:
    """Return the patch that a report holds, or None."""
    return next((p.diagnosis.patch for p in report.points if p.diagnosis is not None and p.diagnosis.patch), None)


def reason_in(report: CheckReport) -> str:
    """Return why a report holds no patch."""
    found = [p.diagnosis for p in report.points if p.diagnosis is not None]
    if not found:
        return "nothing is wrong"
    if found[0].replacement is not ABSENT:
        return "the claim is an expression; the report shows what is right"
    return found[0].no_patch or "no edit was found"
