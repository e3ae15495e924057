"""Decide on a claim in a narrow format: whether it is wrong, right but less exact than it need be, or right."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.reports import numbers
from gradcli.reports.common import Finding, finding
from gradcli.reports.point_report import Diagnosis
from gradcli.verdict.entries import AGREE, CANNOT_TELL, DISAGREE
from gradcli.verdict.evidence import Evidence, FormatEvidence
from gradcli.verdict.exactness import LESS_EXACT, LESS_EXACT_ENTRY, has_no_right_digit, ratios
from gradcli.words import DiagnosisKind, Kind, Severity, Verdict


@dataclass(frozen=True, slots=True)
class Mistake:
    """A mistake in a narrow format, with the findings that say why it is none of rounding.

    `explained_by_entries` says that the wrong entries tell which mistake it is. `agreement` replaces that of the evidence.
    """

    findings: tuple[Finding, ...] = ()
    diagnosis: Diagnosis | None = None
    agreement: dict[str, Any] | None = None
    explained_by_entries: bool = False


def mistake_in_format(seen: Evidence, wrong: dict[str, Any], found: FormatEvidence) -> Mistake | None:
    """Return why a claim in a narrow format is wrong; None if its errors are those of rounding."""
    any_wrong = any(bool(np.any(mask)) for mask in wrong.values())
    claim, right = seen.estimate("claim"), seen.estimate(str(seen.reference)).value
    if found.wide == Verdict.FAIL:
        size = "" if found.wide_error is None else f" by {numbers.power(found.wide_error)} of the largest entry"
        if any_wrong:
            says = f"wrong, not just inexact in {found.dtype}: in a wider format it is off{size} too"
            return Mistake((finding(Kind.PRECISION, Severity.INFO, says),), explained_by_entries=True)
        says = (
            f"the gradient is wrong: in a wider format it is off{size}, which {found.dtype} has too few digits to show"
        )
        return Mistake((finding(Kind.OTHER_DERIVATIVE, Severity.ERROR, says),), found.wide_mistake)
    if found.underflows:
        says = f"every entry underflows to 0 in {found.dtype}: scale the loss"
        words = {name: np.where(np.asarray(x) != 0, DISAGREE, AGREE) for name, x in right.items()}
        return Mistake(diagnosis=Diagnosis(DiagnosisKind.TOO_INEXACT, says), agreement=words)
    if not any_wrong:
        return None
    if not found.changes:
        says = f"wrong, not just inexact in {found.dtype}: at nearby points it is off by the same amounts"
        said = (finding(Kind.PRECISION, Severity.INFO, says),) if found.changes is False else ()
        return Mistake(said, explained_by_entries=True)
    if has_no_right_digit(claim.value, right):
        says = f"too inexact in {found.dtype}, not wrong: rounding errors are as large as the gradient"
        return Mistake(diagnosis=Diagnosis(DiagnosisKind.TOO_INEXACT, says))
    return None


def without_rounding(seen: Evidence, found: FormatEvidence) -> dict[str, Any]:
    """Return the agreement of a claim that has no mistake, by input: an entry that differs by rounding agrees.

    An entry whose bound is wider than the slopes agrees if the same code is right in a wider format. What a kink leaves
    undecided stays so.
    """
    agreement = {}
    for name, word in seen.agreement["claim"].items():
        accepted = word == DISAGREE
        if found.wide == Verdict.PASS:
            accepted = accepted | ((word == CANNOT_TELL) & ~np.asarray(seen.undecided.get(name, False)))
        agreement[name] = np.where(accepted, AGREE, word)
    return agreement


def less_exact(seen: Evidence, found: FormatEvidence) -> tuple[Finding, ...]:
    """Return a finding if the claim is clearly less exact than the same formula in its format."""
    claim = seen.estimate("claim")
    if claim.typical is None:
        return ()
    right = seen.estimate(str(seen.reference)).value
    ratio, largest = ratios(claim.value, right, claim.typical, found.coarseness)
    if ratio <= LESS_EXACT and largest <= LESS_EXACT_ENTRY:
        return ()
    both = f"{numbers.two(ratio)} times its error, {numbers.two(largest)} times in the worst entry"
    says = f"right, but less exact than the same formula in {found.dtype}: {both}"
    hint = "sum in float32, and round the result once"
    return (finding(Kind.INACCURATE, Severity.WARNING, says, hint=hint),)
