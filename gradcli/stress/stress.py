"""Look for hard points where a claim is wrong or loses digits, and add what was found to the report of a check."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gradcli.errors import BadOption
from gradcli.point import Point
from gradcli.reports.check import CheckReport
from gradcli.reports.common import Finding
from gradcli.reports.point_report import FewestDigits, StressReport
from gradcli.source.derived import is_target, root_of
from gradcli.source.facts import dims_of_values, facts_of
from gradcli.source.python import PythonFunction
from gradcli.stress.critical import critical_numbers
from gradcli.stress.exact import function_of
from gradcli.stress.hard_points import Around, hard_points
from gradcli.stress.inaccurate import FEW_DIGITS, inaccurate
from gradcli.stress.look import Look, Word, look
from gradcli.stress.margins import beyond_branches
from gradcli.stress.measure import BY_RULES, VALUE, measured
from gradcli.stress.narrow import MOST, look_in_float32, takes_float32
from gradcli.stress.shrink import shrunk
from gradcli.verify.causes import Verified
from gradcli.verify.check import verify
from gradcli.verify.request import Request
from gradcli.words import Exit, Severity, Verdict, worst

POINTS = 400  # that are looked at, unless the user asks for another number
_MOST_CALLS = 15_000  # of f, after which no further point is looked at
_WITHOUT = frozenset({"symbolic"})  # modes that a wrong point need not run
_CONFIRMED = 3  # wrong points that are checked in full, before the search goes on without a verdict
_LOST = 2.0  # digits that are lost beside those that the inputs leave open; fewer are no finding


@dataclass(frozen=True, slots=True)
class StressOptions:
    """How many points are looked at, at which sizes, and how many digits must be right; None for no demand."""

    points: int = POINTS
    sizes: Mapping[str, tuple[int, ...]] | None = None
    named: Mapping[str, int] | None = None
    digits: float | None = None
    assume: tuple[str, ...] = ()


def stressed(given: Verified, request: Request, options: StressOptions) -> Verified:
    """Return the verdict with what was seen at hard points.

    Of a claim that passed: the point where it is wrong, or where it keeps the fewest digits. Without a claim: where f and
    its gradient by each mode keep the fewest.

    Raises  BadOption where the claim is no gradient; BadClaim if the claim raises where f is smooth.
    """
    if not is_target(request.f) and request.own is None:
        raise BadOption("--stress is for gradients and Jacobians", do="check the gradient: --grad")
    report = given.report
    if report.verdict == Verdict.FAIL:
        return given
    if request.claim is None:
        return replace(given, report=_without_claim(report, request, options))
    found = _searched(request, options)
    report = replace(report, stress=found.report)
    if found.wrong is not None:
        failed = replace(found.wrong.report.points[0], name="hard point")
        causes = {len(report.points): cause for cause in found.wrong.causes.values()}
        points = (*report.points, failed)
        report = replace(report, points=points, verdict=Verdict.FAIL, exit_status=int(Exit.WRONG))
        return Verified(report, causes, calls=found.wrong.calls)
    report = _with_fewest(report, request, found.fewest, options.digits)
    if found.in_float32 is not None:
        seen = found.in_float32
        what = f"on float32 inputs the claim of {seen.name}"
        report = _with_findings(report, [inaccurate(what, seen.digits, seen.values, None, request.wrt, None)])
    return replace(given, report=report)


def with_digits(report: CheckReport, request: Request, digits: float) -> CheckReport:
    """Return the report, wrong if the claim keeps fewer digits at a given point than are asked for."""
    if request.claim is None or not is_target(request.f):
        raise BadOption("--digits counts the right digits of a claimed gradient", do="give one: --grad g")
    looks = [look(request, point.values, conditioned=False) for point in request.points]
    fewest = min(looks, key=lambda seen: seen.digits)
    return _with_fewest(report, request, fewest if fewest.word is Word.RIGHT else None, digits)


@dataclass(frozen=True, slots=True)
class _Found:
    report: StressReport
    wrong: Verified | None
    fewest: Look | None
    in_float32: Look | None  # where the claim loses the most digits on float32 inputs


def _points(request: Request, options: StressOptions) -> Iterator[dict[str, Any]]:
    """Yield hard points, as many as are wanted, until f was called too often."""
    given = request.points[0]
    around = Around(
        given.values, request.wrt, request.stepping, critical_numbers(request.f, request.claim), request.seed, options.sizes,
        options.named, facts_of(list(options.assume), dims_of_values(given.values)),
    )  # fmt: skip
    last = _calls(request) + _MOST_CALLS
    for number, values in enumerate(hard_points(around, beyond_branches(request, given))):
        if number >= options.points or _calls(request) > last:
            return
        yield values


def _searched(request: Request, options: StressOptions) -> _Found:
    counts = dict.fromkeys(Word, 0)
    fewest: Look | None = None
    in_float32: Look | None = None
    wrong: Verified | None = None
    confirmed = 0
    narrow = MOST if takes_float32(request) else 0
    for values in _points(request, options):
        seen = look(request, values)
        counts[seen.word] += 1
        if seen.word is Word.WRONG and confirmed < _CONFIRMED:
            confirmed += 1
            wrong = _confirmed(request, seen.values, request.points[0])
            if wrong is not None:
                break
        if seen.word is Word.RIGHT and _fewer(seen, fewest):
            fewest = seen
        if seen.word is Word.RIGHT and narrow > 0:
            narrow -= 1
            other = look_in_float32(request, seen)
            in_float32 = other if other is not None and _fewer(other, in_float32) else in_float32
    report = StressReport(sum(counts.values()), counts[Word.RIGHT], counts[Word.SKIPPED], counts[Word.WRONG])
    return _Found(report, wrong, fewest, in_float32)


def _fewer(seen: Look, fewest: Look | None) -> bool:
    return seen.lost > _LOST and (fewest is None or seen.digits < fewest.digits)


def _without_claim(report: CheckReport, request: Request, options: StressOptions) -> CheckReport:
    """Return the report with the points where f, and its gradient by each mode, keep the fewest digits."""
    if request.question(request.points[0]).untraced is not None:
        raise BadOption(
            "--stress without a claim compares with certified values, and f is not traced",
            do="give a claim, which needs values of f alone: --grad g",
        )
    tried = known = 0
    fewest: dict[str, Look] = {}
    for values in _points(request, options):
        tried += 1
        seen = measured(request, request.question(Point(values)))
        known += bool(seen)
        for what, each in seen.items():
            if _fewer(each, fewest.get(what)):
                fewest[what] = each
    listed = tuple(FewestDigits(what, x.digits, dict(x.values)) for what, x in fewest.items())
    report = replace(report, stress=StressReport(tried, known, tried - known, 0, listed))
    found = []
    for what, x in fewest.items():
        if what in (VALUE, *BY_RULES) and x.digits < max(FEW_DIGITS, options.digits or 0.0):
            name = "f" if what == VALUE else f"the gradient by {what}"
            found.append(inaccurate(name, x.digits, x.values, request.f, request.wrt, options.digits))
    return _with_findings(report, found)


def _calls(request: Request) -> int:
    """Return how often the function was called; 0 for an expression, whose calls cost little."""
    root = root_of(request.f)
    return root.calls if isinstance(root, PythonFunction) else 0


def _confirmed(request: Request, values: Mapping[str, Any], given: Point) -> Verified | None:
    """Return the verdict at the simplest point near these values where the whole check says fail; None if it says otherwise."""
    fails: Callable[[Any], bool] = lambda at: look(request, at, conditioned=False).word is Word.WRONG
    for at in (shrunk(values, given.values, request.wrt, fails), values):
        alone = replace(
            request, points=(Point(dict(at), number=len(request.points)),), mutate=False, own=None,
            modes=tuple(mode for mode in request.modes if mode not in _WITHOUT),
        )  # fmt: skip
        found = verify(alone)
        if found.report.verdict == Verdict.FAIL:
            return found
    return None


def _with_fewest(report: CheckReport, request: Request, fewest: Look | None, wanted: float | None) -> CheckReport:
    if fewest is None or fewest.digits >= max(FEW_DIGITS, wanted or 0.0):
        return report
    what = f"the claim of {fewest.name}"
    return _with_findings(
        report, [inaccurate(what, fewest.digits, fewest.values, function_of(request.claim), request.wrt, wanted)]
    )


def _with_findings(report: CheckReport, found: list[Finding]) -> CheckReport:
    """Return the report with some findings at its first point, which fails if one of them is an error."""
    first = replace(report.points[0], findings=(*report.points[0].findings, *found))
    if not any(each.severity == Severity.ERROR for each in found):
        return replace(report, points=(first, *report.points[1:]))
    points = (replace(first, verdict=Verdict.FAIL), *report.points[1:])
    return replace(
        report, points=points, verdict=Verdict.FAIL, exit_status=int(worst([Exit(report.exit_status), Exit.WRONG]))
    )
