"""The evidence gathered at one point so far: the outcomes of the modes, and the findings."""

from dataclasses import dataclass, field
from typing import Any

from gradcli.checks.entries import Tolerance
from gradcli.checks.evidence import Outcome
from gradcli.modes.claim import Claimed
from gradcli.modes.mode import Question
from gradcli.report.common import Finding, finding
from gradcli.report.point_report import Diagnosis
from gradcli.request.point import Estimate
from gradcli.words import Kind, Severity


@dataclass
class PointCheck:
    """The evidence gathered at one point so far; `agreement` is that of each entry with the reference, by mode and input."""

    q: Question
    outcomes: dict[str, Outcome]
    reference: str | None
    fixed: Tolerance | None
    claimed: tuple[str, ...] | None = None
    claim: Claimed | None = None
    not_claimed: tuple[str, ...] = ()
    findings: list[Finding] = field(default_factory=list)
    agreement: dict[str, dict[str, Any]] = field(default_factory=dict)
    wrong_shape: Diagnosis | None = None

    def estimate(self, mode: str) -> Estimate:
        """The estimate of a mode. Raises KeyError if the mode gave none."""
        found = self.outcomes[mode].estimate
        if found is None:
            raise KeyError(mode)
        return found

    def inconclusive(self, kind: Kind, message: str, **where: Any) -> None:
        """Add a finding that prevents a verdict unless the user allows it."""
        self.findings.append(finding(kind, Severity.INCONCLUSIVE, message, **where))
