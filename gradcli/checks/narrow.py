"""Decide on a claim in a narrow format: whether it is wrong, right but less exact than it need be, or right."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.checks.entries import AGREE, CANNOT_TELL, DISAGREE
from gradcli.checks.evidence import Evidence, FormatEvidence
from gradcli.checks.exactness import LESS_EXACT, LESS_EXACT_ENTRY, has_no_right_digit, ratios
from gradcli.report import numbers
from gradcli.report.check import LESS_EXACT as SAID_LESS_EXACT
from gradcli.report.common import Finding, finding
from gradcli.report.point_report import Diagnosis
from gradcli.words import DiagnosisKind, Kind, Severity, Verdict

_FEW = 0.05  # of all entries: so many may have a bound wider than the slopes


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
        return Mistake((finding(Kind.OTHER_DERIVATIVE, Severity.ERROR, says),))
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

    An entry whose bound is wider than the slopes agrees if the same code is right in a wider format, or if there are few such
    entries, which a finding counts. What a kink leaves undecided stays so.
    """
    accepts = found.wide == Verdict.PASS or 0 < _open_entries(seen) <= _FEW * _entries(seen)
    agreement = {}
    for name, word in seen.agreement["claim"].items():
        accepted = (word == DISAGREE) | (_open(seen, name) if accepts else False)
        agreement[name] = np.where(accepted, AGREE, word)
    return agreement


def _open(seen: Evidence, name: str) -> Any:
    """Return a mask of the entries whose bound is wider than the slopes; those at a kink are open for another reason."""
    return (seen.agreement["claim"][name] == CANNOT_TELL) & ~np.asarray(seen.undecided.get(name, False))


def _open_entries(seen: Evidence) -> int:
    return sum(int(np.sum(_open(seen, name))) for name in seen.agreement["claim"])


def _entries(seen: Evidence) -> int:
    return sum(int(np.size(word)) for word in seen.agreement["claim"].values())


def too_few_digits(seen: Evidence, found: FormatEvidence) -> tuple[Finding, ...]:
    """Return a finding if the format has too few digits to see errors in a few entries, and no wider one was looked at."""
    count = _open_entries(seen)
    if found.wide == Verdict.PASS or not 0 < count <= _FEW * _entries(seen):
        return ()
    says = f"{found.dtype} has too few digits to see errors in {count} of {_entries(seen):,} entries"
    return (finding(Kind.PRECISION, Severity.WARNING, says, hint=found.wider),)


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
    says = f"{SAID_LESS_EXACT} in {found.dtype}: {both}"
    hint = "sum in float32, and round the result once"
    return (finding(Kind.INACCURATE, Severity.WARNING, says, hint=hint),)
