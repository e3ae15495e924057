"""A check with all that the options ask for beside it: hard points, digits, and the repair of a wrong claim."""

from collections.abc import Mapping
from dataclasses import replace

from gradcli.errors import BadOption
from gradcli.frameworks.native import native_of
from gradcli.options import Options
from gradcli.point import Point
from gradcli.reports.absent import ABSENT
from gradcli.reports.check import CheckReport
from gradcli.source.sizes import numbers
from gradcli.source.target_request import TargetRequest, checked_point_texts
from gradcli.verify.asked import CheckOptions
from gradcli.verify.check import Progress, check
from gradcli.verify.request import Request
from gradcli.words import Verdict


def full_check(
    request: Request, ask: TargetRequest, wanted: CheckOptions, progress: Progress | None = None
) -> CheckReport:
    """Return the report of a check, of the hard points that were asked for, and the repair of a claim that is wrong.

    Raises  GradcliError as `check` does; BadOption where there is no claim to look for hard points of.
    """
    options = wanted.settings.options
    sizes: Mapping[str, int] = {}
    if options.sizes_check:
        sizes = numbers(options.shapes, checked_point_texts(ask), options.seed, wanted.sizes, ask.points_of)
    report = at_hard_points(check(request, progress), request, options, sizes)
    return with_repair(report, request, ask, wanted) if report.verdict == Verdict.FAIL else report


def with_repair(report: CheckReport, request: Request, ask: TargetRequest, wanted: CheckOptions) -> CheckReport:
    """Return the report of a wrong claim with the edit that repairs it or, where there is none, the right gradient."""
    from gradcli.repair.repair import repaired

    return _with_closed_form(repaired(report, request, ask, wanted), request)


def _with_closed_form(report: CheckReport, request: Request) -> CheckReport:
    """Return the report with the right gradient as code, where the claim is wrong and no edit repairs it."""
    number = next((k for k, p in enumerate(report.points) if p.diagnosis is not None), None)
    if number is None or request.claim is None:
        return report
    point, diagnosis = report.points[number], report.points[number].diagnosis
    if diagnosis is None or diagnosis.patch or diagnosis.replacement is not ABSENT:
        return report
    from gradcli.derivation.right_answer import right_answer

    names = tuple(dict.fromkeys(m.input for m in point.mismatches)) or point.differentiated
    native = native_of(request.f)
    language = "expression" if request.f.kind == "expression" else native.framework.name if native else "numpy"
    found, shapes = right_answer(request, Point(dict(point.at)), names, language)
    if not found:
        return report
    points = list(report.points)
    points[number] = replace(point, diagnosis=replace(diagnosis, closed_form=found, closed_form_shapes=shapes))
    return replace(report, points=tuple(points))


def at_hard_points(
    report: CheckReport, request: Request, options: Options, sizes: Mapping[str, int] | None = None
) -> CheckReport:
    """Return the report of a claim that passed, after hard points were looked at and its digits counted, if that was asked for.

    `sizes` maps the names of sizes to the lengths that they have at the point.

    Raises  BadOption where there is no claim, or it is no gradient; BadClaim if the claim raises where f is smooth.
    """
    stress = options.stress or options.stress_points is not None or options.sizes_check is not None
    if options.assume and not stress:
        raise BadOption("--assume is for the points of --stress", do="add --stress, or leave it out")
    if stress:
        from gradcli.stress.stress import StressOptions, stressed

        chosen = StressOptions(sizes=options.sizes_check, named=sizes, digits=options.digits, assume=options.assume)
        if options.stress_points is not None:
            chosen = replace(chosen, points=options.stress_points)
        return stressed(report, request, chosen)
    if options.digits is not None:
        from gradcli.stress.stress import with_digits

        return with_digits(report, request, options.digits)
    return report


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
