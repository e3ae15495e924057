"""Look for hard points where a claim is wrong or loses digits, and add what was found to the report of a check."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcli.errors import BadOption, Place
from gradcli.point import Point
from gradcli.reports.check import CheckReport
from gradcli.reports.common import Finding, finding
from gradcli.reports.point_report import PointReport, StressReport
from gradcli.source.derived import root_of
from gradcli.source.facts import facts_of
from gradcli.source.python import PythonFunction
from gradcli.stress.advice import advice
from gradcli.stress.critical import critical_numbers
from gradcli.stress.exact import loss
from gradcli.stress.hard_points import Around, hard_points
from gradcli.stress.look import Look, Word, look
from gradcli.stress.margins import beyond_branches
from gradcli.stress.shrink import shrunk
from gradcli.verify.check import check
from gradcli.verify.request import Request
from gradcli.words import Exit, Kind, Severity, Verdict, worst

POINTS = 400  # that are looked at, unless the user asks for another number
_MOST_CALLS = 15_000  # of f, after which no further point is looked at
_FEW_DIGITS = 6.0  # fewer are reported
_WITHOUT = frozenset({"symbolic"})  # modes that a wrong point need not run
_CONFIRMED = 3  # wrong points that are checked in full, before the search goes on without a verdict


@dataclass(frozen=True, slots=True)
class StressOptions:
    """How many points are looked at, at which sizes, and how many digits the claim must keep; None for no demand."""

    points: int = POINTS
    sizes: Mapping[str, tuple[int, ...]] | None = None
    named: Mapping[str, int] | None = None
    digits: float | None = None
    assume: tuple[str, ...] = ()


def stressed(report: CheckReport, request: Request, options: StressOptions) -> CheckReport:
    """Return the report of a claim that passed, with the hard point where it is wrong, or where it keeps the fewest digits.

    Raises  BadOption where there is no claim, or it is no gradient; BadClaim if the claim raises where f is smooth.
    """
    if request.claim is None:
        raise BadOption(
            "--stress looks for points where a claim is wrong, and there is no claim", do="give one: --grad g"
        )
    if request.f is not root_of(request.f) and request.own is None:
        raise BadOption("--stress is for gradients and Jacobians", do="check the gradient: --grad")
    if report.verdict == Verdict.FAIL:
        return report
    found = _searched(request, options)
    report = replace(report, stress=found.report)
    if found.wrong is not None:
        failed = replace(found.wrong, name="hard point")
        return replace(report, points=(*report.points, failed), verdict=Verdict.FAIL, exit_status=int(Exit.WRONG))
    return _with_digits(report, request, found.fewest, options.digits)


def with_digits(report: CheckReport, request: Request, digits: float) -> CheckReport:
    """Return the report, wrong if the claim keeps fewer digits at a given point than are asked for."""
    if request.claim is None or request.f is not root_of(request.f):
        raise BadOption("--digits counts the right digits of a claimed gradient", do="give one: --grad g")
    looks = [look(request, point.values, conditioned=False) for point in request.points]
    fewest = min(looks, key=lambda seen: seen.digits)
    return _with_digits(report, request, fewest if fewest.word is Word.RIGHT else None, digits)


@dataclass(frozen=True, slots=True)
class _Found:
    report: StressReport
    wrong: PointReport | None
    fewest: Look | None


def _searched(request: Request, options: StressOptions) -> _Found:
    given = request.points[0]
    around = Around(
        given.values, request.wrt, request.stepping, critical_numbers(request.f, request.claim), request.seed, options.sizes,
        options.named, facts_of(list(options.assume), _dims(given.values)),
    )  # fmt: skip
    counts = dict.fromkeys(Word, 0)
    fewest: Look | None = None
    wrong: PointReport | None = None
    tried = confirmed = 0
    last = _calls(request) + _MOST_CALLS
    for values in hard_points(around, beyond_branches(request, given)):
        if tried >= options.points or _calls(request) > last:
            break
        tried += 1
        seen = look(request, values)
        counts[seen.word] += 1
        if seen.word is Word.WRONG and confirmed < _CONFIRMED:
            confirmed += 1
            wrong = _confirmed(request, seen.values, given)
            if wrong is not None:
                break
        if seen.word is Word.RIGHT and seen.lost > 2.0 and (fewest is None or seen.digits < fewest.digits):
            fewest = seen
    return _Found(StressReport(tried, counts[Word.RIGHT], counts[Word.SKIPPED], counts[Word.WRONG]), wrong, fewest)


def _calls(request: Request) -> int:
    """Return how often the function was called; 0 for an expression, whose calls cost little."""
    root = root_of(request.f)
    return root.calls if isinstance(root, PythonFunction) else 0


def _dims(values: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return the lengths of each input's axes as texts, as assumptions read them."""
    return {name: tuple(map(str, np.shape(x))) for name, x in values.items() if isinstance(x, np.ndarray | np.floating)}


def _confirmed(request: Request, values: Mapping[str, Any], given: Point) -> PointReport | None:
    """Return the report of the simplest point near these values where the whole check says fail; None if it says otherwise."""
    fails: Callable[[Any], bool] = lambda at: look(request, at, conditioned=False).word is Word.WRONG
    for at in (shrunk(values, given.values, request.wrt, fails), values):
        alone = replace(
            request, points=(Point(dict(at), number=len(request.points)),), mutate=False, own=None,
            modes=tuple(mode for mode in request.modes if mode not in _WITHOUT),
        )  # fmt: skip
        report = check(alone)
        if report.verdict == Verdict.FAIL:
            return report.points[0]
    return None


def _with_digits(report: CheckReport, request: Request, fewest: Look | None, wanted: float | None) -> CheckReport:
    if fewest is None or fewest.digits >= max(_FEW_DIGITS, wanted or 0.0):
        return report
    few = wanted is not None and fewest.digits < wanted
    said = _inaccurate(request, fewest, few, wanted)
    first = replace(report.points[0], findings=(*report.points[0].findings, said))
    points = (replace(first, verdict=Verdict.FAIL) if few else first, *report.points[1:])
    status = int(worst([Exit(report.exit_status), Exit.WRONG])) if few else report.exit_status
    return replace(report, points=points, exit_status=status, verdict=Verdict.FAIL if few else report.verdict)


def _inaccurate(request: Request, seen: Look, few: bool, wanted: float | None) -> Finding:
    """Return the finding that names the point where the claim keeps the fewest digits, and the line that loses them."""
    from gradcli.reports import numbers

    at = ", ".join(f"{name} = {numbers.value(x)}" for name, x in seen.values.items())
    kept = math.floor(seen.digits * 10) / 10
    says = f"the claim of {seen.name} keeps {kept:.1f} right digits at {at}"
    lost = loss(request, seen.values)
    hint, where = None, None
    if lost is not None:
        where = lost.where
        line = where.source if where is not None else ""
        reason, better = advice(line, lost.name)
        says += f"; {reason}"
        hint = None if better is None else f"write {better}"
        if isinstance(where, Place) and where.operation != where.source:
            says += f", in {where.operation}"
    if few:
        says += f"; --digits asks for {wanted:g}"
    severity = Severity.ERROR if few else Severity.WARNING
    return finding(Kind.INACCURATE, severity, says, at=where, hint=hint)
