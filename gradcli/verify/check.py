"""`check`: is the gradient right, and how small an error would have been seen?"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcli.core.shapes import shape
from gradcli.exits import Exit, worst
from gradcli.modes.claim import ClaimedExpressions
from gradcli.modes.mode import Question
from gradcli.modes.registry import MODES
from gradcli.point import Point, Witness
from gradcli.report.check import CheckReport, Entries, Mismatch, ModeResult, PointReport
from gradcli.report.common import Target, finding
from gradcli.report.encode import ABSENT
from gradcli.source.function import Function
from gradcli.verify.case import Case, add_claim, compare_all, place_findings
from gradcli.verify.compare import AGREE, CANNOT_TELL, DISAGREE, Outcome, Tolerance, allowed, reference_of, run
from gradcli.verify.environment import environment
from gradcli.verify.verdict import detects_of, verdict_of

_STATUS = {"pass": Exit.CONFIRMED, "fail": Exit.WRONG, "inconclusive": Exit.INCONCLUSIVE}
_NEAR_ZERO = 1e-6  # of the largest entry: smaller ones are compared as if they were this large


@dataclass(frozen=True, slots=True)
class Request:
    """What `check` was asked."""

    f: Function
    points: tuple[Point, ...]
    wrt: tuple[str, ...]
    modes: tuple[str, ...]
    claim: ClaimedExpressions | None = None
    seed: int = 0
    fixed: Tolerance | None = None
    mode_timeout: float = 10.0
    allow: frozenset[str] = frozenset()
    allow_inconclusive: bool = False
    command: tuple[str, ...] = ()


def check(request: Request) -> CheckReport:
    """Verify the gradient at each point and return everything found."""
    with np.errstate(all="ignore"):
        points = tuple(_point(request, point) for point in request.points)
    status = worst(_STATUS[point.verdict] for point in points)
    verdict = next(word for word, exit_ in _STATUS.items() if exit_ == status)
    return CheckReport(
        target=Target(request.f.kind, request.f.text),
        claim=request.claim.text if request.claim else None,
        seed=request.seed,
        command=request.command,
        exit_status=_excused(request, status, points),
        verdict=verdict,
        detects=max((point.detects for point in points), key=lambda d: -1.0 if d.relative is None else d.relative),
        points=points,
        environment=environment(),
    )


def _excused(request: Request, status: Exit, points: Sequence[PointReport]) -> int:
    """`--allow` turns the findings it names into success; never a timeout unless it is named."""
    if status is not Exit.INCONCLUSIVE:
        return int(status)
    kinds = {f.kind for point in points for f in point.findings if f.severity == "inconclusive"}
    excused = kinds <= request.allow or (request.allow_inconclusive and "timeout" not in kinds)
    return int(Exit.CONFIRMED if kinds and excused else status)


def _point(request: Request, point: Point) -> PointReport:
    q = Question(request.f, point, request.wrt, request.seed, request.mode_timeout)
    modes = [MODES[name] for name in request.modes]
    outcomes = run(q, modes)
    case = Case(q, outcomes, reference_of(outcomes), request.fixed)
    for message, span in request.f.survey(point.values)[1]:
        case.findings.append(finding("notice", "warning", message, at=span))
    place_findings(case)
    if request.claim is not None:
        add_claim(case, request.claim)
    compare_all(case)
    verdict = verdict_of(case)
    return _report(case, verdict)


def _report(case: Case, verdict: str) -> PointReport:
    q = case.q
    reference = None if case.reference is None else case.estimate(case.reference)
    values = ABSENT if reference is None else reference.value
    vector = shape(q.value) != ()
    mismatches = _mismatches(case) if verdict == "fail" else ()
    judged = case.verdicts.get("claim") or (case.verdicts.get(case.reference) if case.reference else None) or {}
    wrong = sum(int(np.sum(word == DISAGREE)) for word in judged.values())
    doubtful = sum(int(np.sum(word == CANNOT_TELL)) for word in judged.values())
    return PointReport(
        at=q.point.values, drawn=q.point.drawn, differentiated=q.wrt,
        constant=tuple(name for name in q.point.values if name not in q.wrt),
        value=q.value, verdict=verdict, reference=case.reference,
        gradient=ABSENT if vector else values, jacobian=values if vector else ABSENT,
        entries=Entries(sum(int(np.size(word)) for word in judged.values()), wrong, doubtful),
        mismatches=mismatches, modes={name: mode_result(o, case.verdicts.get(name), vector) for name, o in case.outcomes.items()},
        findings=tuple(case.findings), diagnosis=case.diagnosis, detects=detects_of(case, verdict),
    )  # fmt: skip


def mode_result(outcome: Outcome, words: dict[str, Any] | None, vector: bool) -> ModeResult:
    """Return one mode's outcome as it is reported."""
    rests = tuple(witness.value for witness in Witness if witness in outcome.mode.rests_on)
    if outcome.estimate is None:
        error = outcome.error
        return ModeResult(
            outcome.status, rests_on=rests, message=error.what if error else ABSENT, hint=error.do if error else ABSENT
        )
    estimate = outcome.estimate
    result = ModeResult(
        "ok", bound=estimate.bound, decimals=estimate.decimals or ABSENT, proved=estimate.proved,
        verdict=_overall(words) if words is not None else ABSENT,
        evaluations=estimate.cost.evaluations, seconds=estimate.cost.seconds, rests_on=rests,
    )  # fmt: skip
    return replace(result, jacobian=estimate.value) if vector else replace(result, gradient=estimate.value)


def _overall(words: dict[str, Any]) -> str:
    flat = [word for array in words.values() for word in np.ravel(array)]
    return DISAGREE if DISAGREE in flat else CANNOT_TELL if CANNOT_TELL in flat else AGREE


def _mismatches(case: Case) -> tuple[Mismatch, ...]:
    """Return the wrong entries, the largest ratio of difference to bound first."""
    if "claim" not in case.verdicts or case.reference is None:
        return ()
    claim, right = case.estimate("claim"), case.estimate(case.reference)
    found = []
    for name, word in case.verdicts["claim"].items():
        room = np.broadcast_to(allowed(claim, right, name, case.fixed), word.shape)
        outputs = len(shape(case.q.value))
        for where in np.argwhere(word == DISAGREE)[:1000]:
            k = tuple(int(n) for n in where)
            a, b = float(np.asarray(claim.value[name])[k]), float(np.asarray(right.value[name])[k])
            ratio = a / b if b else float("inf")
            output = k[:outputs] if outputs else ABSENT
            found.append(Mismatch(name, k[outputs:], a, b, a - b, float(room[k]), ratio, output))
    return tuple(sorted(found, key=lambda m: -abs(m.difference) / max(m.bound, 1e-320)))
