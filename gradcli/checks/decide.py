"""Decide the verdict on one point, with its reasons, as a pure and total function of the evidence."""

from dataclasses import replace
from typing import Any

import numpy as np

from gradcli.checks.evidence import (
    AGREE,
    CANNOT_TELL,
    DISAGREE,
    LESS_EXACT,
    LESS_EXACT_ENTRY,
    NEAR_ZERO,
    SMALL_CONSTANT,
    USEFUL,
    USEFUL_SOLVER,
    ClaimRounding,
    Evidence,
    EvidenceKind,
    FormatEvidence,
    HullDistance,
    MissingEvidence,
    OmittedConstant,
    PerEntry,
    SetLeft,
    describe_open_entries,
    error_ratios,
    find_detection_limit,
    find_undecided_entry,
    has_no_right_digit,
    largest_relative_error,
    require_evidence,
    resolution_of,
)
from gradcli.classes import dataclass
from gradcli.errors import TraceDiffers
from gradcli.modes.mode import Contradiction
from gradcli.modes.recording import OverBudget, ValueChanged
from gradcli.report import numbers
from gradcli.report.check import LESS_EXACT_WORDS
from gradcli.report.common import Finding, finding
from gradcli.report.point_report import NO_SIZE, Detects, Diagnosis, as_exact_as
from gradcli.request.point import Witness
from gradcli.words import DiagnosisKind, Kind, Severity, Verdict

Findings = tuple[Finding, ...]
_TRACED = ("certified", "reverse", "forward")
_BY_VALUES = ("finite-difference",)
_HOW_TO_RESOLVE = "check at a point where it changes f more, or accept it: --allow not-resolved"
_MOST_OPEN = 0.1  # relative: what solvers leave open beyond it is accepted with no tolerance
_REPORT_IT = "please report it, with the function"


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict on one point, with all findings; `hull` is set if the claim is a subgradient at a kink.

    `agreement` replaces that of the evidence if some entries differ by no more than rounding in a narrow format. The likely
    mistake is looked for after the verdict: `unexplained` says that it is to be.
    """

    verdict: Verdict
    findings: Findings
    diagnosis: Diagnosis | None = None
    unexplained: bool = False
    hull: HullDistance | None = None
    detects: Detects = NO_SIZE
    agreement: dict[str, PerEntry] | None = None


def decide(seen: Evidence) -> Decision | EvidenceKind:
    """Return the verdict, or the `EvidenceKind` that names the evidence needed before there can be a verdict."""
    try:
        decision = _decide_by_modes(seen)
        if decision.verdict == Verdict.INCONCLUSIVE and seen.may_retry_without_trace and seen.untraced is None:
            # the trace differs from the function in its value, or in slopes after a traced value was written as text
            kinds = _kinds_of_findings(decision.findings)
            contrary = bool(kinds & {Kind.CONTRADICTION, Kind.DISAGREEMENT})
            if Kind.TRACE in kinds or (seen.written_as_text and contrary):
                return EvidenceKind.VALUES_ALONE
        if seen.may_keep_state and seen.outcomes:
            changed = require_evidence(seen.function_again, EvidenceKind.FUNCTION_AGAIN)
            if changed:
                return Decision(Verdict.INCONCLUSIVE, (*decision.findings, *changed))
        if seen.wants_mutants and seen.outcomes:
            problem = require_evidence(seen.mutants, EvidenceKind.MUTANTS).problem
            if problem is not None:  # there is no pass if a planted mistake was not caught
                fails = decision.verdict == Verdict.PASS and problem.severity == Severity.INCONCLUSIVE
                verdict = Verdict.INCONCLUSIVE if fails else decision.verdict
                decision = replace(decision, verdict=verdict, findings=(*decision.findings, problem))
        if decision.verdict == Verdict.INCONCLUSIVE and seen.needs_projections:
            return _decide_by_projections(seen, decision)
    except MissingEvidence as missing:
        return missing.kind
    detects = find_detection_limit(seen, decision.verdict, decision.hull)
    if decision.verdict == Verdict.PASS:
        detects = _widen_limit(detects, seen)
    return replace(decision, detects=detects)


def _widen_limit(detects: Detects, seen: Evidence) -> Detects:
    """Return the limit of a pass, no smaller than the error that was accepted of the claim; none if no digit is right."""
    rounding = seen.claim_rounding or ClaimRounding()
    off = max(rounding.off, 0.0 if seen.left_out is None else seen.left_out.off)
    if off >= 1:
        return replace(detects, relative=None, at=None)
    if off <= (detects.relative or 0.0):
        return detects
    return replace(detects, relative=off, at=rounding.at if off == rounding.off else detects.at)


def _decide_by_modes(seen: Evidence) -> Decision:
    """Return the verdict that follows from the outcomes of the modes."""
    if not seen.outcomes and _has_inconclusive_finding(seen.findings):
        return Decision(Verdict.INCONCLUSIVE, seen.findings)
    if seen.wrong_shape is None and {Kind.NON_FINITE, Kind.NOTHING_TO_CHECK} & _kinds_of_findings(seen.findings):
        return Decision(Verdict.INCONCLUSIVE, seen.findings)
    errors = [outcome.error for outcome in seen.outcomes.values()]
    for error in errors:
        if isinstance(error, TraceDiffers):
            return _leave_undecided(seen.findings, _inconclusive_finding(Kind.TRACE, str(error), hint=_REPORT_IT))
    for error in errors:
        if isinstance(error, Contradiction):
            return _decide_contradiction(seen, error)
    if seen.wrong_shape is not None:
        return Decision(Verdict.FAIL, seen.findings, seen.wrong_shape)
    late = [
        finding(Kind.TIMEOUT, Severity.INFO, f"{name}: {outcome.error}")
        for name, outcome in seen.outcomes.items()
        if outcome.status == "timeout"
    ]
    findings = (*seen.findings, *late)
    if any(f.kind == Kind.FIRST_ORDER and f.severity == Severity.ERROR for f in findings):
        return Decision(Verdict.FAIL, findings)
    if seen.reference is None:
        spent = next((error for error in errors if isinstance(error, OverBudget)), None)
        changed = next((error for error in errors if isinstance(error, ValueChanged)), None)
        why = _inconclusive_finding(Kind.NO_SECOND_WITNESS, "no mode answered", "--modes all")
        if changed:
            why = _inconclusive_finding(Kind.NOT_DETERMINISTIC, changed.what, changed.do)
        if spent:
            why = _inconclusive_finding(Kind.BUDGET, spent.what, spent.do)
        return _leave_undecided(findings, why)
    confirmed, said = confirmed_entries(seen, findings)
    findings = (*findings, *said)
    if seen.claimed is not None:
        return _decide_claim(seen, findings, confirmed)
    findings = (*findings, *_report_disagreements(seen, findings))
    if all(np.all(mask) for mask in confirmed.values()) and not _has_inconclusive_finding(findings):
        return Decision(Verdict.PASS, (*findings, *_warn_of_zero_gradient(seen)))
    return _leave_undecided(findings, *_explain_inconclusive(seen, findings, confirmed))


def _inconclusive_finding(kind: Kind, message: str, hint: str | None = None, at: Any = None) -> Finding:
    return finding(kind, Severity.INCONCLUSIVE, message, hint=hint, at=at)


def _leave_undecided(findings: Findings, *why: Finding) -> Decision:
    return Decision(Verdict.INCONCLUSIVE, (*findings, *why))


def _has_inconclusive_finding(findings: Findings) -> bool:
    return any(f.severity == Severity.INCONCLUSIVE for f in findings)


def _kinds_of_findings(findings: Findings) -> set[str]:
    return {f.kind for f in findings}


def _decide_contradiction(seen: Evidence, error: Contradiction) -> Decision:
    """Return the decision where two witnesses inside one mode contradict each other: a rule or the trace is wrong."""
    blame = require_evidence(seen.blame, EvidenceKind.BLAME)
    values = seen.estimate_or_none("finite-difference") is not None and seen.contradicts("finite-difference")
    if blame.rule is None and (values or blame.operation_at_kink):
        says = "function values contradict the traced gradient"
        return _leave_undecided(seen.findings, _explain_contradiction(seen, seen.findings, says))
    own = seen.claimed is None
    severity = Severity.ERROR if own else Severity.INCONCLUSIVE
    whose = "" if blame.rule is None else f": the rule of {blame.rule}"
    said = finding(Kind.CONTRADICTION, severity, f"{error}{whose}", at=blame.at, hint=error.do)
    return Decision(Verdict.FAIL if own else Verdict.INCONCLUSIVE, (*seen.findings, said))


def _explain_contradiction(seen: Evidence, findings: Findings, says: str) -> Finding:
    """Return a finding with the cause if function values contradict a traced gradient: a rule, a kink nearby, or the trace."""
    blame = require_evidence(seen.blame, EvidenceKind.BLAME)
    if blame.rule is not None:
        whose = f"the rules disagree with function values: the rule of {blame.rule} is wrong"
        return _inconclusive_finding(Kind.CONTRADICTION, whose, _REPORT_IT, blame.at)
    if {Kind.KINK_NEARBY, Kind.BRANCH} & _kinds_of_findings(findings) or seen.untraced or blame.operation_at_kink:
        says = f"{says}: a kink or a branch may lie closer than the steps of the differences"
        return _inconclusive_finding(Kind.CONTRADICTION, says)
    if seen.solvers:
        says = f"{says}, beyond what smaller tolerances change: {' and '.join(seen.solvers)}"
        return _inconclusive_finding(Kind.CONTRADICTION, says, "give the solver smaller tolerances")
    says = f"the trace differs from the function: {says}, although every rule it uses is right"
    hint = "a value that depends on the inputs was treated as a constant while tracing"
    return _inconclusive_finding(Kind.TRACE, says, hint)


def confirmed_entries(seen: Evidence, findings: Findings = ()) -> tuple[dict[str, Any], Findings]:
    """Return the confirmed entries, and findings about a second witness that confirms all entries at once.

    It is needed if a traced gradient has no second witness for each entry. For a certified gradient it is the trace test;
    otherwise it is a difference along one direction, of the untouched function and, if asked for, in balls.
    """
    confirmed = seen.confirmed
    settled = all(np.all(mask | seen.undecided.get(name, False)) for name, mask in confirmed.items())
    # differences for each entry, or what else would be run where there are no balls, cost too much
    second = next((seen.outcomes[name] for name in ("finite-difference", "certified") if name in seen.outcomes), None)
    too_dear = second is not None and second.status == "not run"
    is_alone = seen.reference == "certified" or (seen.reference in ("reverse", "forward") and too_dear)
    if seen.reference is None or settled or not is_alone:
        return confirmed, ()
    agreed = {name: confirmed[name] | (word == AGREE) for name, word in seen.agreement[seen.reference].items()}
    if seen.reference == "certified" and seen.trace.agrees:  # values of the program confirm its rules
        return agreed, ()
    direction = require_evidence(seen.direction, EvidenceKind.DIRECTION)
    if direction.agrees:
        what = "f in balls of 128 bits" if direction.in_balls else "the untouched function"
        says = f"{what} confirms one random direction to {direction.relative_bound:.0e}"
        return agreed, (finding(Kind.DIRECTION, Severity.INFO, says),)
    differences = seen.estimate_or_none("finite-difference")
    slopes = (
        {} if differences is None else differences.slopes
    )  # a second one over wider steps contradicts no other mode
    has_two_slopes = any(bool(np.any(np.isfinite(part.other))) for part in slopes.values())
    if direction.agrees is False and not has_two_slopes:
        says = "a difference of the untouched function contradicts the traced gradient"
        return confirmed, (_explain_contradiction(seen, findings, says),)
    return confirmed, ()


def wrong_entries(seen: Evidence, confirmed: dict[str, Any]) -> dict[str, Any]:
    """Return a mask of the wrong entries of the claim, by input: they differ from a value that two modes confirm."""
    return {name: np.asarray((word == DISAGREE) & confirmed[name]) for name, word in seen.agreement["claim"].items()}


def entries_to_explain(seen: Evidence) -> dict[str, Any]:
    """Return a mask of the wrong entries of the claim, by input, for the search for the mistake."""
    return wrong_entries(seen, confirmed_entries(seen, ())[0])


# Decide on a claim in a narrow format: whether it is wrong, right but less exact than it need be, or right.

_FEW = 0.05  # of all entries: so many may have a bound wider than the slopes


def _mistake_in_format(
    seen: Evidence, findings: Findings, confirmed: dict[str, Any], found: FormatEvidence
) -> Decision | None:
    """Return the decision on a claim in a narrow format that is wrong; None if its errors are those of rounding."""
    any_wrong = any(bool(np.any(mask)) for mask in wrong_entries(seen, confirmed).values())
    claim, right = seen.estimate("claim"), seen.estimate(str(seen.reference)).value
    if found.wide == Verdict.FAIL:
        size = "" if found.wide_error is None else f" by {numbers.write_bound(found.wide_error)} of the largest entry"
        if any_wrong:
            says = f"wrong, not just inexact in {found.dtype}: in a wider format it is off{size} too"
            return _decide_by_agreement(seen, (*findings, finding(Kind.PRECISION, Severity.INFO, says)), confirmed)
        says = (
            f"the gradient is wrong: in a wider format it is off{size}, which {found.dtype} has too few digits to show"
        )
        said = finding(Kind.OTHER_DERIVATIVE, Severity.ERROR, says)
        return Decision(Verdict.FAIL, (*findings, said), unexplained=True)
    if found.underflows:
        says = f"every entry underflows to 0 in {found.dtype}: scale the loss"
        words = {name: np.where(np.asarray(x) != 0, DISAGREE, AGREE) for name, x in right.items()}
        too_inexact = Diagnosis(DiagnosisKind.TOO_INEXACT, says)
        return Decision(Verdict.FAIL, findings, too_inexact, agreement={**seen.agreement, "claim": words})
    if not any_wrong:
        return None
    if not found.changes:
        says = f"wrong, not just inexact in {found.dtype}: at nearby points it is off by the same amounts"
        if found.changes is False:
            findings = (*findings, finding(Kind.PRECISION, Severity.INFO, says))
        return _decide_by_agreement(seen, findings, confirmed)
    if has_no_right_digit(claim.value, right):
        says = f"too inexact in {found.dtype}, not wrong: rounding errors are as large as the gradient"
        if not found.predicted:
            says = (
                f"too inexact in {found.dtype}: errors as large as the gradient, which change from point to point, as those "
                "of rounding do, or of memory that is read before it is written"
            )
        return Decision(Verdict.FAIL, findings, Diagnosis(DiagnosisKind.TOO_INEXACT, says))
    return None


def _accept_rounding_errors(seen: Evidence, found: FormatEvidence) -> tuple[dict[str, Any], Findings]:
    """Return the agreement of a claim that has no mistake, by input: an entry that differs by rounding agrees.

    An entry whose bound is wider than the slopes agrees if the same code is right in a wider format, or if there are few such
    entries, which a finding counts. What a kink leaves undecided stays so.
    """
    words = seen.agreement["claim"]
    wide = {name: (word == CANNOT_TELL) & ~np.asarray(seen.undecided.get(name, False)) for name, word in words.items()}
    count, total = sum(int(np.sum(mask)) for mask in wide.values()), sum(int(np.size(word)) for word in words.values())
    few, right_in_wider = 0 < count <= _FEW * total, found.wide == Verdict.PASS
    accepted = {n: (word == DISAGREE) | (wide[n] if few or right_in_wider else False) for n, word in words.items()}
    agreement = {name: np.where(accepted[name], AGREE, word) for name, word in words.items()}
    if right_in_wider or not few:
        return agreement, ()
    says = f"{found.dtype} has too few digits to see errors in {count} of {total:,} entries"
    return agreement, (finding(Kind.PRECISION, Severity.WARNING, says, hint=found.wider),)


def _warn_of_inexactness(seen: Evidence, found: FormatEvidence) -> tuple[Finding, ...]:
    """Return a finding if the claim is clearly less exact than the same formula in its format."""
    claim = seen.estimate("claim")
    if claim.typical is None:
        return ()
    right = seen.estimate(str(seen.reference)).value
    ratio, largest = error_ratios(claim.value, right, claim.typical, found.coarseness)
    if ratio <= LESS_EXACT and largest <= LESS_EXACT_ENTRY:
        return ()
    both = f"{numbers.two_digits(ratio)} times its error, {numbers.two_digits(largest)} times in the worst entry"
    says = f"{LESS_EXACT_WORDS} in {found.dtype}: {both}"
    hint = "sum in float32, and round the result once"
    return (finding(Kind.INACCURATE, Severity.WARNING, says, hint=hint),)


def _decide_claim(seen: Evidence, findings: Findings, confirmed: dict[str, Any]) -> Decision:
    if seen.estimate("claim").narrow:
        found = require_evidence(seen.format, EvidenceKind.FORMAT)
        mistake = _mistake_in_format(seen, findings, confirmed, found)
        if mistake is not None:
            return mistake
        agreement, few_digits = _accept_rounding_errors(seen, found)
        findings = (*findings, *_warn_of_inexactness(seen, found), *few_digits)
        seen = replace(seen, agreement={**seen.agreement, "claim": agreement})
        return replace(_decide_by_agreement(seen, findings, confirmed), agreement=seen.agreement)
    return _decide_by_agreement(seen, findings, confirmed)


def _decide_by_agreement(seen: Evidence, findings: Findings, confirmed: dict[str, Any]) -> Decision:
    resolution = resolution_of(seen)
    agreement = {name: resolution.agreement(word, name) for name, word in seen.agreement["claim"].items()}
    wrong = [name for name, mask in wrong_entries(seen, confirmed).items() if np.any(mask)]
    left = {each.input: each for each in seen.sets_left if each.differs}
    if wrong and set(wrong) <= set(left):
        return _leave_undecided(findings, *(_report_right_on_set(left[name]) for name in wrong))
    if wrong:
        if changed := require_evidence(seen.claim_again, EvidenceKind.CLAIM_AGAIN):
            return Decision(Verdict.FAIL, (*findings, *changed))
        is_near = seen.untraced is None and largest_relative_error(seen) <= SMALL_CONSTANT
        rounding = require_evidence(seen.claim_rounding, EvidenceKind.CLAIM_ROUNDING) if is_near else ClaimRounding()
        if rounding.only_error is not None:
            findings = (*findings, rounding.only_error)
        else:
            without = require_evidence(seen.left_out, EvidenceKind.LEFT_OUT) if is_near else OmittedConstant()
            if without.constant is None:
                return Decision(Verdict.FAIL, findings, unexplained=True)
            says = f"leaves out {without.constant} in {without.operation}: {without.off:.0e} off"
            findings = (*findings, finding(Kind.APPROXIMATION, Severity.INFO, says))
        agreement = {name: np.where(word == DISAGREE, AGREE, word) for name, word in agreement.items()}
        seen = replace(seen, agreement={**seen.agreement, "claim": agreement})
    elif _is_hidden_by_rounding(seen, agreement, confirmed):
        rounding = require_evidence(seen.claim_rounding, EvidenceKind.CLAIM_ROUNDING)
        if rounding.only_error is not None:
            findings = (*findings, rounding.only_error)
            if largest_relative_error(seen) <= SMALL_CONSTANT:
                agreement = {name: np.full_like(word, AGREE) for name, word in agreement.items()}
    findings, hull = _judge_claim_at_kinks(seen, findings)
    at_kink = seen.undecided if hull is not None else {}
    findings = (*findings, *_report_disagreements(seen, findings))
    unresolved = describe_open_entries(seen, resolution)
    if unresolved is not None:
        findings = (*findings, _inconclusive_finding(Kind.NOT_RESOLVED, unresolved, _HOW_TO_RESOLVE))
    seen = replace(seen, agreement={**seen.agreement, "claim": agreement})
    agreed = {name: (word == AGREE) & confirmed[name] for name, word in agreement.items()}
    right = all(np.all(mask | at_kink.get(name, False)) for name, mask in agreed.items())
    verdict = Verdict.INCONCLUSIVE
    if not right or _has_inconclusive_finding(findings):
        why = _explain_inconclusive(seen, findings, confirmed)
    elif (relative := _error_left_by_solvers(seen, every=True)) > _MOST_OPEN:
        why = (_report_inexact_solvers(seen, "the worst entry", relative),)
    elif changed := require_evidence(seen.claim_again, EvidenceKind.CLAIM_AGAIN):
        verdict, why = Verdict.FAIL, changed
    else:
        verdict, why = Verdict.PASS, _warn_of_zero_gradient(seen)
    return Decision(verdict, (*findings, *why), hull=hull, agreement=seen.agreement)


def _is_hidden_by_rounding(seen: Evidence, agreement: PerEntry, confirmed: dict[str, Any]) -> bool:
    """Whether all that leaves entries open is the rounding granted to the claim, which is wide beside them."""
    if seen.untraced is not None or not any(np.any(word == CANNOT_TELL) for word in agreement.values()):
        return False
    claim, right = seen.estimate("claim"), seen.estimate(str(seen.reference))
    hidden = []
    for name, word in agreement.items():
        least = USEFUL * np.abs(right.value[name])
        hides = (claim.bound[name] > least) & (right.bound[name] <= least) & confirmed[name]
        hidden.append((hides & ~np.asarray(seen.undecided.get(name, False)))[word == CANNOT_TELL])
    return all(map(np.all, hidden))


def _report_right_on_set(left: SetLeft) -> Finding:
    along = f"the claim is right on {left.name}, and not by single entries"
    says = f"{left.why}: {along if left.differs else 'it has no derivative by single entries'}"
    hint = f'check it on {left.name}: --assume "{left.input}: {left.fact}"'
    return _inconclusive_finding(Kind.STRUCTURE, says, hint)


def _judge_claim_at_kinks(seen: Evidence, findings: Findings) -> tuple[Findings, HullDistance | None]:
    """Return the findings with one on the claim at kinks, and the hull if the claim is a subgradient there."""
    kinks = [f for f in findings if f.kind == Kind.KINK and f.severity == Severity.INCONCLUSIVE]
    if not kinks or any(f.severity == Severity.INCONCLUSIVE and f.kind != Kind.KINK for f in findings):
        return findings, None
    hull = require_evidence(seen.pieces, EvidenceKind.PIECES)
    if hull.piece_count == 0:
        return findings, None
    one = "the gradient of the one piece whose gradient is known" if hull.piece_count == 1 else ""
    if not hull.holds:
        away = one or f"every mean of the gradients of the {hull.piece_count} pieces"
        why = f"an entry is {hull.distance:.1e} of its largest slope away from {away}"
        if hull.contradicted_by_values:
            why = "function values contradict the pieces that meet there"
        says = f"the claim at the kink is not a subgradient: {why}"
        return (*findings, _inconclusive_finding(Kind.NOT_A_SUBGRADIENT, says)), None
    accepted = tuple(replace(f, severity=Severity.WARNING, hint=None) if f in kinks else f for f in findings)
    of = one or f"a mean of the gradients of the {hull.piece_count} smooth pieces that meet there"
    says = f"at the kink the claim is a subgradient: {of}"
    return (*accepted, finding(Kind.SUBGRADIENT, Severity.WARNING, says)), hull


def _report_disagreements(seen: Evidence, findings: Findings) -> Findings:
    """Return a finding for each mode that disagrees with the reference; if function values do, one with the cause."""
    if seen.reference in _TRACED and any(seen.contradicts(mode) for mode in _BY_VALUES):
        return (_explain_contradiction(seen, findings, f"function values contradict {seen.reference}"),)
    return tuple(
        _inconclusive_finding(Kind.DISAGREEMENT, f"{mode} disagrees with {seen.reference}", "compare-modes shows both")
        for mode in seen.modes_without_claim
        if seen.contradicts(mode)
    )


def _explain_inconclusive(seen: Evidence, findings: Findings, confirmed: dict[str, Any]) -> Findings:
    """Return findings that say why there is no verdict, if no finding says so yet."""
    if _has_inconclusive_finding(findings):
        return ()
    if seen.sets_left:
        return tuple(map(_report_right_on_set, seen.sets_left))
    if seen.scale_findings:
        return seen.scale_findings
    if seen.untraced is not None and seen.claimed is None:
        says = f"only function values are available, and nothing independent confirms them: {seen.untraced.what}"
        hint = "give a gradient of your own to check: --grad"
        return (_inconclusive_finding(Kind.NO_SECOND_WITNESS, says, hint, seen.untraced.where),)
    if seen.format is not None and all(np.all(mask) for mask in confirmed.values()):
        count = sum(int(np.sum(word != AGREE)) for word in seen.agreement["claim"].values())
        says = f"{seen.format.dtype} has too few digits to decide {count} entr{'y' if count == 1 else 'ies'}"
        hint = seen.format.wider or "compare it with another implementation: --reference"
        return (_inconclusive_finding(Kind.NOISE, says, hint),)
    answered = [name for name, o in seen.outcomes.items() if o.estimate is not None and name != "claim"]
    dependencies = [seen.dependencies(name) for name in answered]
    alone = all(a & b for a in dependencies for b in dependencies)
    if seen.untraced is None and alone and not all(np.all(mask) for mask in confirmed.values()):
        values = any(needed == {Witness.FUNCTION_VALUES} for needed in dependencies)
        missing = "forward or certified" if values else "finite-difference"
        why = "nothing independent confirms it" if len(answered) == 1 else "they are not independent"
        says = f"{' and '.join(answered)} alone cannot confirm a gradient: {why}"
        return (_inconclusive_finding(Kind.NO_SECOND_WITNESS, says, f"add {missing} to --modes"),)
    agreement = seen.agreement["claim"] if seen.claimed is not None else {}
    unconfirmed = sum(int(np.sum(~mask)) for mask in confirmed.values())
    doubtful = sum(int(np.sum(word != AGREE)) for word in agreement.values())
    count = max(unconfirmed, doubtful)
    entries = f"{count} entr{'y' if count == 1 else 'ies'}"
    open_by_solvers = _error_left_by_solvers(seen)
    if open_by_solvers >= USEFUL_SOLVER:
        return (_report_inexact_solvers(seen, entries, open_by_solvers),)
    says = f"the bounds of the modes are too wide to decide {entries}"
    hint = "compare-modes shows the bounds"
    undecided = find_undecided_entry(seen)
    if undecided is not None:
        in_words, option, outside = undecided
        if seen.claimed is not None and _is_hidden_by_rounding(seen, seen.agreement["claim"], confirmed):
            says = f"the rounding granted to the claim is too wide to decide {entries}"
            hint = f"check where the slope is larger; {option}"
        if outside and seen.reference == "finite-difference":
            says = f"differences of f are known to {outside:.0e} of the slope alone, too little to call an entry wrong"
            hint = "a wider step may decide it: gradcli sweep shows which, and --h takes it"
        says += f": {in_words}"
        hint = option if seen.tolerance is not None else hint
    return (_inconclusive_finding(Kind.NOISE, says, hint),)


def _error_left_by_solvers(seen: Evidence, every: bool = False) -> float:
    """Return what the tolerances of solvers leave open, relative to the entry where that is most; 0 without a solver.

    Only undecided entries count, or `every` one; entries that are 0 beside the largest are left out.
    """
    claim = seen.estimate_or_none("claim")
    worst = 0.0
    for name, granted in ({} if claim is None or seen.reference is None else claim.solvers).items():
        right = seen.estimate(str(seen.reference))
        size, room = np.abs(right.value[name]), granted + right.solvers.get(name, 0.0)
        used = (size > NEAR_ZERO * np.max(size, initial=0.0)) & (every | (seen.agreement["claim"][name] != AGREE))
        worst = max(worst, float(np.max(room / np.where(used, size, np.inf), initial=0.0)))
    return worst


def _report_inexact_solvers(seen: Evidence, entries: str, relative: float) -> Finding:
    """Return the finding that solvers in f are too inexact."""
    are = "are" if entries.endswith("entries") else "is"
    says = f"{entries} {are} known only to {relative:.0e}, {as_exact_as(seen.solvers)}"
    more = "" if relative > _MOST_OPEN else f", or accept the difference: --rtol {relative:.0e}"
    return _inconclusive_finding(Kind.NOISE, says, f"give the solver smaller tolerances{more}")


def _warn_of_zero_gradient(seen: Evidence) -> Findings:
    """Return a warning if every entry of the gradient is zero: many wrong gradients are zero there too."""
    value = seen.estimate(str(seen.reference)).value
    if not seen.inputs or any(np.any(np.asarray(v) != 0) for v in value.values()):
        return ()
    says = "every entry of the gradient is zero here, which proves little"
    return (finding(Kind.WEAK, Severity.WARNING, says, hint="check at another point too"),)


def _decide_by_projections(seen: Evidence, so_far: Decision) -> Decision:
    """Return the verdict that random projections give on a claim, with a finding that says how much they cover."""
    claim = seen.estimate("claim").value
    if not all(np.all(np.isfinite(g)) for g in claim.values()):
        return replace(so_far, verdict=Verdict.FAIL, unexplained=True)
    found = require_evidence(seen.projections, EvidenceKind.PROJECTIONS)
    every = (*so_far.findings, found.coverage, *found.undecided_because)
    findings = tuple(f for f in every if f.kind not in (Kind.NO_SECOND_WITNESS, Kind.BUDGET, Kind.NOISE))
    if found.undecided_because and (found.agrees is None or not found.wrong):
        return _leave_undecided(findings)
    if found.agrees is None and found.complete:
        says = "projections of function values are too noisy to decide the claim"
        return _leave_undecided(findings, _inconclusive_finding(Kind.NOISE, says))
    if found.agrees is None:
        says = f"{found.calls:,} evaluations of f are too few to decide the claim"
        return _leave_undecided(findings, _inconclusive_finding(Kind.BUDGET, says, f"--budget {10 * found.calls}"))
    if found.agrees and _has_inconclusive_finding(findings):
        return _leave_undecided(findings)
    if changed := require_evidence(seen.claim_again, EvidenceKind.CLAIM_AGAIN):
        return Decision(Verdict.FAIL, (*findings, *changed))
    if found.agrees:
        return Decision(Verdict.PASS, findings, detects=found.detects)
    return Decision(Verdict.FAIL, findings, unexplained=bool(found.wrong))
