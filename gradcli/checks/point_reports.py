"""Make the report of one point from the evidence and the decision."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcli.checks.decide import Decision
from gradcli.checks.entries import CANNOT_TELL, DISAGREE, allowed, word_of
from gradcli.checks.evidence import Evidence, Outcome, Projections
from gradcli.modes.mode import Question
from gradcli.report.absent import ABSENT, Absent
from gradcli.report.common import Finding
from gradcli.report.encode import MAX_ENTRIES
from gradcli.report.point_report import Entries, Mismatch, ModeResult, PointReport, TraceReport
from gradcli.report.shown_entries import worst_first
from gradcli.request.point import Witness
from gradcli.targets.derived import STEP
from gradcli.targets.python import named_outputs
from gradcli.tracing.shapes import shape
from gradcli.words import Kind, Verdict


def unfinished(q: Question, outcomes: Mapping[str, Outcome]) -> PointReport:
    """Return the report of the modes that have finished, without further evaluations of f."""
    return report_of(q, Evidence(q.wrt, dict(outcomes)), Decision(Verdict.INCONCLUSIVE, ()))


def report_of(q: Question, seen: Evidence, decision: Decision, not_claimed: tuple[str, ...] = ()) -> PointReport:
    """Return the report of a point, with the smallest error that would have been detected."""
    seen = seen if decision.agreement is None else replace(seen, agreement=decision.agreement)
    values = ABSENT if seen.reference is None else seen.estimate(seen.reference).value
    vector = shape(q.value) != ()
    compared = seen.agreement.get("claim") or (seen.agreement.get(seen.reference) if seen.reference else None) or {}
    report = PointReport(
        at={name: x for name, x in q.point.values.items() if name != STEP}, drawn=q.point.drawn,
        differentiated=seen.claimed or q.wrt,
        constant=tuple(name for name in q.point.values if name not in (*q.wrt, *not_claimed, STEP)),
        not_claimed=not_claimed or ABSENT,
        value=q.own_value, verdict=decision.verdict, reference=seen.reference,
        gradient=ABSENT if vector else values, jacobian=values if vector else ABSENT,
        entries=_counted(compared),
        mismatches=_mismatches(seen, len(shape(q.value))) if decision.verdict == Verdict.FAIL else (),
        modes={name: _of_mode(o, seen, vector, decision.findings) for name, o in seen.outcomes.items()},
        findings=decision.findings, diagnosis=decision.diagnosis, detects=decision.detects,
        outputs=tuple(named_outputs(q.f.outputs)) if q.f.outputs and np.size(q.value) <= MAX_ENTRIES else ABSENT,
        trace_test=_trace_report(seen), mutants=ABSENT if seen.mutants is None else seen.mutants.mutants,
    )  # fmt: skip
    return report if seen.projections is None else _projected(report, seen.projections)


def _counted(agreement: Mapping[str, Any]) -> Entries:
    """Return how many entries of all inputs were compared, and how many of them are wrong or undecided."""
    whole = [np.asarray(word) for word in agreement.values()]
    wrong, open_ = (sum(int(np.sum(word == what)) for word in whole) for what in (DISAGREE, CANNOT_TELL))
    return Entries(sum(word.size for word in whole), wrong, open_)


def _projected(report: PointReport, found: Projections) -> PointReport:
    """Return the report with the results of projections, where random projections of function values decide the verdict."""
    report = replace(report, entries=found.entries)
    if report.verdict == Verdict.INCONCLUSIVE:
        return report
    word = word_of([] if found.agrees else [DISAGREE])
    modes = report.modes | {"claim": replace(report.modes["claim"], verdict=word)}
    return replace(report, modes=modes, mismatches=() if found.agrees else sorted_mismatches(found.wrong))


def sorted_mismatches(found: Sequence[Mismatch]) -> tuple[Mismatch, ...]:
    """Return wrong entries of all inputs, the worst first."""
    claimed, right = (np.array([getattr(m, word) for m in found]) for word in ("claimed", "reference"))
    return tuple(found[k] for k in worst_first(claimed, right))


def _trace_report(seen: Evidence) -> TraceReport | Absent:
    """Return the result of the trace test, or ABSENT if none was made."""
    test = seen.trace
    if test.agrees is None and not test.untested_reason:
        return ABSENT
    return TraceReport(test.agrees, test.limit, test.evaluations, test.untested_reason or ABSENT)


def _of_mode(outcome: Outcome, seen: Evidence, vector: bool, findings: tuple[Finding, ...]) -> ModeResult:
    """Return the outcome of one mode; where f has no gradient its bound is one of a convention, and proves nothing."""
    result = mode_result(outcome, seen.agreement.get(outcome.mode.name), vector)
    open_ = any(np.any(mask) for mask in seen.undecided.values())
    if result.proved is True and open_ and any(f.kind in (Kind.KINK, Kind.JUMP, Kind.INFINITE_SLOPE) for f in findings):
        return replace(result, proved=False)
    return result


def mode_result(outcome: Outcome, agreement: Mapping[str, Any] | None, vector: bool) -> ModeResult:
    """Return the outcome of one mode in the form of the report; `vector` means that f is no scalar."""
    rests = tuple(witness.value for witness in Witness if witness in outcome.mode.rests_on)
    if outcome.estimate is None:
        error = outcome.error
        return ModeResult(
            outcome.status, rests_on=rests, message=error.what if error else ABSENT, hint=error.do if error else ABSENT
        )
    estimate = outcome.estimate
    result = ModeResult(
        "ok", bound=estimate.bound, decimals=estimate.decimals or ABSENT, proved=estimate.proved,
        verdict=word_of(agreement.values()) if agreement is not None else ABSENT,
        evaluations=estimate.cost.evaluations, seconds=estimate.cost.seconds, rests_on=rests,
        ran_on=estimate.ran_on or ABSENT,
    )  # fmt: skip
    return replace(result, jacobian=estimate.value) if vector else replace(result, gradient=estimate.value)


def _mismatches(seen: Evidence, outputs: int) -> tuple[Mismatch, ...]:
    """Return the wrong entries, the worst first, at most 1000 of each input; `outputs` is the number of output axes."""
    if "claim" not in seen.agreement or seen.reference is None:
        return ()
    claim, right = seen.estimate("claim"), seen.estimate(seen.reference)
    found = []
    for name, word in seen.agreement["claim"].items():
        room = np.broadcast_to(allowed(claim, right, name, seen.tolerance), word.shape)
        wrong = np.asarray(word == DISAGREE)
        order = worst_first(*(np.broadcast_to(of.value[name], wrong.shape)[wrong] for of in (claim, right)))
        for where in np.argwhere(wrong)[order[:1000]]:
            k = tuple(int(n) for n in where)
            a, b = float(np.asarray(claim.value[name])[k]), float(np.asarray(right.value[name])[k])
            ratio = a / b if b else float("inf")
            output = k[:outputs] if outputs else ABSENT
            found.append(Mismatch(name, k[outputs:], a, b, a - b, float(room[k]), ratio, output))
    return sorted_mismatches(found)
