"""From what the modes said at one point to a verdict, and to the reason where there is none."""

from dataclasses import replace
from typing import Any

import numpy as np

from gradcli.core.provenance import place
from gradcli.diagnosis.diagnose import diagnose
from gradcli.diagnosis.wrong import Wrong
from gradcli.errors import TraceDiffers
from gradcli.modes.mode import Contradiction, OverBudget
from gradcli.point import Array, Estimate, Witness
from gradcli.report.common import finding
from gradcli.report.point_report import Detects
from gradcli.verify.blame import on_a_flat_kink, wrong_rule
from gradcli.verify.case import Case
from gradcli.verify.compare import AGREE, DISAGREE, allowed
from gradcli.verify.gather import independent, unsteady, witnessed
from gradcli.verify.scales import findings_of, has_two_slopes
from gradcli.verify.subgradient import hull
from gradcli.verify.witness import directional
from gradcli.words import Kind, Severity, Verdict

_TRACED = ("certified", "reverse", "forward")
_BY_VALUES = ("finite-difference",)
_UNANSWERED = (Kind.NO_SECOND_WITNESS, "no mode answered", "--modes all")


def _needs_a_guard(case: Case) -> bool:
    """Whether the reference was traced, and differences entry by entry were not to be had for their price."""
    differences = case.outcomes.get("finite-difference")
    too_dear = differences is not None and differences.status == "not run"
    return case.reference == "certified" or (case.reference in ("reverse", "forward") and too_dear)


def _guarded(case: Case, confirmed: dict[str, Any]) -> None:
    """Where a traced value has no second witness entry by entry, something must confirm all entries at once.

    For a certified value that is the test of the trace; else it is one direction of the untouched function.
    """
    settled = all(np.all(mask | u) for mask, u in zip(confirmed.values(), case.q.undecided, strict=True))
    if case.reference is None or settled or not _needs_a_guard(case):
        return
    if case.reference == "certified" and case.q.trace_test.agrees:  # its rules are confirmed by values of the program
        for name, word in case.verdicts[case.reference].items():
            confirmed[name] = confirmed[name] | (word == AGREE)
        return
    direction = directional(case.q, case.estimate(case.reference))
    if direction.agrees is False and not has_two_slopes(case):
        _blamed(case, "a difference of the untouched function contradicts the traced gradient")
    elif direction.agrees:
        for name, word in case.verdicts[case.reference].items():
            confirmed[name] = confirmed[name] | (word == AGREE)
        case.direction = direction
        case.findings.append(
            finding(
                Kind.DIRECTION,
                Severity.INFO,
                f"the untouched function confirms one random direction to {direction.relative:.0e}",
            )
        )


def verdict_of(case: Case) -> Verdict:
    """Return pass, fail or inconclusive, the reason added to the findings."""
    if case.diagnosis is None and any(f.kind in (Kind.NON_FINITE, Kind.NOTHING_TO_CHECK) for f in case.findings):
        return Verdict.INCONCLUSIVE
    differs = [o for o in case.outcomes.values() if isinstance(o.error, TraceDiffers)]
    if differs:
        case.inconclusive(Kind.TRACE, str(differs[0].error), hint="please report it, with the function")
        return Verdict.INCONCLUSIVE
    contradictions = [o.error for o in case.outcomes.values() if isinstance(o.error, Contradiction)]
    if contradictions:
        return _contradiction(case, contradictions[0])
    if case.diagnosis is not None:
        return Verdict.FAIL
    for name, outcome in case.outcomes.items():
        if outcome.status == "timeout":
            case.findings.append(finding(Kind.TIMEOUT, Severity.INFO, f"{name}: {outcome.error}"))
    if case.reference is None:
        spent = next((o.error for o in case.outcomes.values() if isinstance(o.error, OverBudget)), None)
        kind, says, hint = (Kind.BUDGET, spent.what, spent.do) if spent else _UNANSWERED
        case.inconclusive(kind, says, hint=hint)
        return Verdict.INCONCLUSIVE
    confirmed = witnessed(case)
    _guarded(case, confirmed)
    return _claim_verdict(case, confirmed) if case.claimed is not None else _own_verdict(case, confirmed)


def _claim_verdict(case: Case, confirmed: dict[str, Any]) -> Verdict:
    words = case.verdicts["claim"]
    wrong = [name for name, word in words.items() if np.any((word == DISAGREE) & confirmed[name])]
    if wrong:
        changing = unsteady(case)
        case.findings += [changing] if changing else []
        case.diagnosis = None if changing else diagnose(_wrong(case, confirmed))
        return Verdict.FAIL
    open_ = beside_kinks(case)
    _contradicted(case)
    right = all(np.all(((word == AGREE) & confirmed[name]) | open_.get(name, False)) for name, word in words.items())
    if right and not _blocked(case):
        changing = unsteady(case)
        if changing is not None:
            case.findings.append(changing)
            return Verdict.FAIL
        _weak_evidence(case)
        return Verdict.PASS
    _why_not(case, confirmed, words)
    return Verdict.INCONCLUSIVE


def _contradiction(case: Case, error: Contradiction) -> Verdict:
    """A mode's own witness contradicts it: a rule is wrong, or the trace is not the function."""
    wrong = wrong_rule(case.q)
    values = case.outcomes.get("finite-difference")
    against = values is not None and values.estimate is not None and _disagrees(case, "finite-difference")
    if wrong is None and (against or on_a_flat_kink(case.q)):
        _blamed(case, "function values contradict the traced gradient")
        return Verdict.INCONCLUSIVE
    own = case.claimed is None
    severity = Severity.ERROR if own else Severity.INCONCLUSIVE
    whose = "" if wrong is None else f": the rule of {wrong[0].name}"
    at = None if wrong is None else place(wrong[1])
    case.findings.append(finding(Kind.CONTRADICTION, severity, f"{error}{whose}", at=at, hint=error.do))
    return Verdict.FAIL if own else Verdict.INCONCLUSIVE


def _disagrees(case: Case, mode: str) -> bool:
    return any(np.any(word == DISAGREE) for word in case.verdicts.get(mode, {}).values())


def _blamed(case: Case, says: str) -> None:
    """Say what is to blame where function values contradict a traced gradient: a rule, a kink nearby, or the trace."""
    wrong = wrong_rule(case.q)
    if wrong is not None:
        primitive, position = wrong
        whose = f"the rules disagree with function values: the rule of {primitive.name} is wrong"
        case.inconclusive(Kind.CONTRADICTION, whose, at=place(position), hint="please report it, with the function")
    elif (
        any(f.kind in (Kind.KINK_NEARBY, Kind.BRANCH) for f in case.findings)
        or case.q.untraced
        or on_a_flat_kink(case.q)
    ):
        case.inconclusive(Kind.CONTRADICTION, f"{says}: a kink or a branch may lie nearer than its steps")
    else:
        case.inconclusive(
            Kind.TRACE,
            f"the trace differs from the function: {says}, and every rule on the way is right",
            hint="a value that depends on the inputs was taken for a constant while tracing",
        )


def _wrong(case: Case, confirmed: dict[str, Any]) -> Wrong:
    """Return what the diagnosis has to explain."""
    claim, right = case.estimate("claim"), case.estimate(str(case.reference))
    words = case.verdicts["claim"]
    masks = {name: np.asarray((word == DISAGREE) & confirmed[name]) for name, word in words.items()}
    room = {name: np.asarray(allowed(claim, right, name, case.fixed)) for name in words}
    return Wrong(case.q, {n: claim.value[n] for n in words}, {n: right.value[n] for n in words}, masks, room)


def beside_kinks(case: Case) -> dict[str, Any]:
    """Return the entries at kinks that may pass: all of them where the claim is a subgradient.

    It then is a finding; where the claim is none, that is one, and there is no verdict.
    """
    kinks = [f for f in case.findings if f.kind == Kind.KINK and f.severity == Severity.INCONCLUSIVE]
    if not kinks or any(f.severity == Severity.INCONCLUSIVE and f.kind != Kind.KINK for f in case.findings):
        return {}
    found = hull(case.q, case.estimate("claim"))
    if found is None:
        return {}
    if not found.holds:
        why = (
            "function values contradict the pieces that meet there"
            if found.contradicted
            else f"an entry is {found.distance:.1e} of its largest slope away from every mean of the gradients of the "
            f"{found.pieces} pieces"
        )
        case.inconclusive(Kind.NOT_A_SUBGRADIENT, f"the claim at the kink is no subgradient: {why}")
        return {}
    case.findings = [replace(f, severity=Severity.WARNING, hint=None) if f in kinks else f for f in case.findings]
    says = f"at the kink the claim is a subgradient: a mean of the gradients of the {found.pieces} smooth pieces that meet there"
    case.findings.append(finding(Kind.SUBGRADIENT, Severity.WARNING, says))
    case.hull = found
    return dict(zip(case.q.wrt, case.q.undecided, strict=True))


def _own_verdict(case: Case, confirmed: dict[str, Any]) -> Verdict:
    _contradicted(case)
    if all(np.all(mask) for mask in confirmed.values()) and not _blocked(case):
        _weak_evidence(case)
        return Verdict.PASS
    _why_not(case, confirmed, {})
    return Verdict.INCONCLUSIVE


def _blocked(case: Case) -> bool:
    return any(f.severity == Severity.INCONCLUSIVE for f in case.findings)


def _contradicted(case: Case) -> None:
    """Say which modes disagree with the reference; where function values do, what is to blame."""
    if case.reference in _TRACED and any(_disagrees(case, mode) for mode in _BY_VALUES):
        _blamed(case, f"function values contradict {case.reference}")
        return
    for mode in case.verdicts:
        if mode != "claim" and _disagrees(case, mode):
            case.inconclusive(
                Kind.DISAGREEMENT, f"{mode} disagrees with {case.reference}", hint="compare-modes shows both"
            )


def _why_not(case: Case, confirmed: dict[str, Any], words: dict[str, Any]) -> None:
    """Say why there is no verdict, if nothing said it yet."""
    if _blocked(case):
        return
    seen = findings_of(case)
    if seen:
        case.findings += seen
        return
    if case.q.untraced is not None and case.claimed is None:
        says = f"function values alone have no second witness: {case.q.untraced.what}"
        case.inconclusive(
            Kind.NO_SECOND_WITNESS, says, at=case.q.untraced.where, hint="claim a gradient of your own: --grad"
        )
        return
    answered = [o.mode for name, o in case.outcomes.items() if o.estimate is not None and name != "claim"]
    rests = [mode.rests_on for mode in answered]
    if case.q.untraced is None and not any(not (a & b) for a in rests for b in rests):
        values = any(rest == {Witness.FUNCTION_VALUES} for rest in rests)
        missing = "forward or certified" if values else "finite-difference"
        case.inconclusive(
            Kind.NO_SECOND_WITNESS,
            f"{' and '.join(m.name for m in answered)} share what they rest on",
            hint=f"add {missing} to --modes",
        )
        return
    open_entries = sum(int(np.sum(~mask)) for mask in confirmed.values())
    doubtful = sum(int(np.sum(word != AGREE)) for word in words.values())
    count = max(open_entries, doubtful)
    narrow = any(o.estimate is not None and o.estimate.narrow for o in case.outcomes.values())
    case.inconclusive(
        Kind.NOISE,
        f"the bounds of the modes are too wide to decide {count} entr{'y' if count == 1 else 'ies'}",
        hint="a wider format can: --dtype float32" if narrow else "compare-modes shows the bounds",
    )


def _weak_evidence(case: Case) -> None:
    """A gradient of zero everywhere proves little: many wrong gradients are zero there too."""
    value = case.estimate(str(case.reference)).value
    if case.q.wrt and all(np.all(np.asarray(v) == 0) for v in value.values()):
        case.findings.append(
            finding(
                Kind.WEAK,
                Severity.WARNING,
                "every entry of the gradient is zero here, which proves little",
                hint="check at another point too",
            )
        )


def detects_of(case: Case, verdict: Verdict) -> Detects:
    """Return the largest relative error that could have stayed unseen, over the entries that are not zero.

    An entry's is the largest of the claim's bound, the reference's bound and what could be lost in tracing: the limit of the
    trace test, or the bound of function values where that is less. At a kink it is the limit of the test for subgradients.
    """
    if case.reference is None or verdict == Verdict.INCONCLUSIVE:
        return Detects(None, None)
    right = case.estimate(case.reference)
    smallest, at = -1.0, None
    limit = limit_of_trace(case)
    for name in case.claimed or case.q.wrt:
        room = _room(case, right, name, limit)
        g = np.abs(np.asarray(right.value[name]))
        if case.hull is not None:  # which has a limit of its own
            g = np.where(case.q.undecided[case.q.wrt.index(name)], 0.0, g)
        if room is None or not np.any(g > 0):
            continue
        relative = np.divide(room, g, out=np.zeros(np.shape(g)), where=g > 0)
        k = np.unravel_index(int(np.argmax(relative)), relative.shape) if relative.ndim else ()
        if float(relative[k]) > smallest:
            smallest, at = float(relative[k]), f"{name}[{','.join(map(str, k))}]" if k else name
    if case.hull is not None and case.hull.limit > smallest:
        smallest, at = case.hull.limit, None
    return Detects(smallest, at) if 0 <= smallest < 1 else Detects(None, None)


def limit_of_trace(case: Case) -> float | None:
    """Return the size of a term that the trace could have lost unseen, relative to all slopes; None without a test."""
    test = case.q.trace_test
    if not test.agrees or not case.q.affords_slopes:
        return None
    return test.detects([case.q.slopes[name] for name in case.q.wrt])


def _room(case: Case, right: Estimate, name: str, limit: float | None) -> Array | None:
    """Return how wrong each entry of one input could be unseen; `limit` is that of the trace test."""
    claim = case.outcomes["claim"].estimate if case.claimed is not None else None
    if case.claimed is not None and (claim is None or name not in claim.value):
        return None
    own = np.asarray(right.bound[name] if claim is None else allowed(claim, right, name, case.fixed))
    if claim is not None and limit is None and not case.q.trace_test.why:
        return own  # nothing is traced, or every operation is compared as it is recorded
    lost = _by_function_values(case, name)
    if limit is not None:
        by_test = limit * np.abs(np.asarray(right.value[name]))
        lost = by_test if lost is None else np.minimum(lost, by_test)
    if lost is None:
        return None if claim is None else own
    return np.maximum(own, lost)


def _by_function_values(case: Case, name: str) -> Array | None:
    """Return how wrong a value could be that the best independent pair of modes, or one direction, confirms."""
    if case.q.untraced is not None:
        return None
    rooms = []
    names = [mode for mode in case.verdicts if mode != "claim"]
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            if independent(case.outcomes[a], case.outcomes[b]):
                both = (case.verdicts[a][name] == AGREE) & (case.verdicts[b][name] == AGREE)
                rooms.append(np.where(both, allowed(case.estimate(a), case.estimate(b), name, None), np.inf))
    if not rooms and case.direction is not None:
        return case.direction.room_of(name)
    return np.min(np.stack(rooms), axis=0) if rooms else None
