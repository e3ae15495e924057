"""Evidence written as text, for tables: `cert:a rev:a fd:? claim:d`, a letter for each entry, inputs x and y apart by `/`."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from gradcli.checks.decide import Decision, decide
from gradcli.checks.evidence import (
    AGREE,
    CANNOT_TELL,
    DISAGREE,
    Cause,
    ClaimRounding,
    DirectionalCheck,
    Evidence,
    EvidenceKind,
    FormatEvidence,
    HullDistance,
    MutationResult,
    OmittedConstant,
    Outcome,
    Projections,
)
from gradcli.errors import GradcliError, NotSupported, TraceDiffers
from gradcli.modes.claim import Claim
from gradcli.modes.mode import Contradiction
from gradcli.modes.recording import NotRun, OverBudget
from gradcli.modes.registry import MODES
from gradcli.report.common import Finding, finding
from gradcli.report.point_report import Entries
from gradcli.request.point import Estimate, Slopes
from gradcli.words import Kind, Severity, Verdict

_LETTERS = {"a": AGREE, "?": CANNOT_TELL, "d": DISAGREE, "n": DISAGREE}
_STATUSES: dict[str, tuple[str, GradcliError]] = {
    "not-run": ("not run", NotRun("it takes too much", do="--modes all")),
    "over-budget": ("not run", OverBudget("the budget is 10 evaluations", do="--budget 100")),
    "timeout": ("timeout", GradcliError("stopped after 1 s")),
    "unsupported": ("unsupported", NotSupported("sympy lacks it")),
    "unavailable": ("unavailable", NotSupported("torch is not installed")),
    "contradicts": ("failed", Contradiction("two runs differ", do="report it")),
    "differs": ("failed", TraceDiffers("the trace differs")),
}
SHORT = {
    "cert": "certified",
    "rev": "reverse",
    "fwd": "forward",
    "fd": "finite-difference",
    "sym": "symbolic",
    "cs": "complex-step",
}
_REFERENCES = ("certified", "reverse", "forward", "symbolic", "complex-step", "finite-difference")
CHANGED = finding(Kind.NOT_DETERMINISTIC, Severity.ERROR, "a second call gives another gradient")
MOVED = finding(Kind.EARLIER_CALLS, Severity.INCONCLUSIVE, "the value has changed")
COVERAGE = finding(Kind.COVERAGE, Severity.INFO, "20 projections")

# What is seen where a row says nothing of it: nothing amiss.
CALM: dict[EvidenceKind, Any] = {
    EvidenceKind.DIRECTION: DirectionalCheck(True, 1e-9, 6, 1e-9, {"x": np.ones(1)}),
    EvidenceKind.BLAME: Cause(),
    EvidenceKind.CLAIM_AGAIN: (),
    EvidenceKind.CLAIM_ROUNDING: ClaimRounding(),
    EvidenceKind.LEFT_OUT: OmittedConstant(),
    EvidenceKind.PIECES: HullDistance(),
    EvidenceKind.FUNCTION_AGAIN: (),
    EvidenceKind.MUTANTS: MutationResult(()),
    EvidenceKind.PROJECTIONS: Projections(True, COVERAGE, Entries(9000, 0, 0)),
    EvidenceKind.FORMAT: FormatEvidence("bfloat16", 2.0**45),
}


def scene(modes: str, value: float = 2.0, bound: float = 1e-12, **more: Any) -> Evidence:
    """Return the evidence that a line of text states; `value` and `bound` are those of every entry."""
    outcomes, agreement = {}, {}
    for part in modes.split():
        name, letters = part.split(":")
        name = SHORT.get(name, name)
        mode = Claim(None) if name == "claim" else MODES[name]  # type: ignore[arg-type]
        if letters in _STATUSES:
            status, error = _STATUSES[letters]
            outcomes[name] = Outcome(mode, status, error=error)
            continue
        inputs = dict(zip("xy", letters.split("/"), strict=False))
        off = {"d": 1.001, "n": 1 + 1e-6} if name == "claim" else {}
        entries = {n: np.array([value * off.get(letter, 1.0) for letter in word]) for n, word in inputs.items()}
        outcomes[name] = Outcome(mode, "ok", Estimate(entries, {n: np.full(len(g), bound) for n, g in entries.items()}))
        agreement[name] = {n: np.array([_LETTERS[letter] for letter in word]) for n, word in inputs.items()}
    reference = next((name for name in _REFERENCES if name in agreement), None)
    inputs = tuple("xy"[: max((len(word) for word in agreement.values()), default=1)])
    given: dict[str, Any] = {
        "undecided": {name: np.zeros(1, dtype=bool) for name in inputs},
        "claimed": inputs if "claim" in outcomes else None,
    }
    return Evidence(inputs, outcomes, reference, agreement if reference else {}, **{**given, **more})


def found(kind: Kind, severity: Severity = Severity.INCONCLUSIVE) -> tuple[Finding, ...]:
    """Return one finding, as the evidence holds them."""
    return (finding(kind, severity, "seen at the point", hint="move it"),)


def narrow(seen: Evidence, off: float = 0.0) -> Evidence:
    """Return the evidence with a claim in a narrow format that is off by so many typical errors of the format."""
    outcome = seen.outcomes["claim"]
    assert outcome.estimate is not None
    typical = {name: np.full(np.shape(x), 0.01) for name, x in outcome.estimate.value.items()}
    value = {name: x + off * typical[name] for name, x in outcome.estimate.value.items()}
    estimate = replace(outcome.estimate, narrow=True, typical=typical, value=value)
    return replace(seen, outcomes={**seen.outcomes, "claim": replace(outcome, estimate=estimate)})


def two_slopes(seen: Evidence) -> Evidence:
    """Return the evidence with a second slope over wider steps, seen by differences."""
    nan, other = np.full(1, np.nan), np.ones(1)
    return _with_estimates(seen, slopes={"x": Slopes(other, nan, nan, other, other, other, np.zeros(1, dtype=bool))})


def _with_estimates(seen: Evidence, **change: Any) -> Evidence:
    changed = {
        name: o if o.estimate is None else replace(o, estimate=replace(o.estimate, **change))
        for name, o in seen.outcomes.items()
    }
    return replace(seen, outcomes=changed)


def settled(seen: Evidence, gathered: Mapping[EvidenceKind, Any]) -> tuple[Decision | None, list[str]]:
    """Return the decision, and what was looked at for it; None where the trace is given up."""
    asked = []
    while isinstance(decision := decide(seen), EvidenceKind):
        asked.append(decision.value)
        assert asked.count(decision.value) == 1, "it was looked at already"
        if decision is EvidenceKind.VALUES_ALONE:
            return None, asked
        seen = replace(seen, **{decision.value: {**CALM, **gathered}[decision]})
    return decision, asked


def in_words(seen: Evidence, gathered: Mapping[EvidenceKind, Any]) -> str:
    """Return a decision as tables state it: `inconclusive: noise < direction`, the kinds that are new, and what was gathered."""
    decision, asked = settled(seen, gathered)
    if decision is None:
        return f"give up the trace < {', '.join(asked)}"
    new = [str(f.kind) for f in decision.findings if f not in seen.findings]
    if decision.verdict == Verdict.FAIL and decision.diagnosis is not None:
        new.append(f"[{decision.diagnosis.kind}]")
    if decision.unexplained:
        new.append("[unexplained]")
    return str(decision.verdict) + (f": {', '.join(new)}" if new else "") + (f" < {', '.join(asked)}" if asked else "")


HULL = HullDistance(distance=0.0, piece_count=2, limit=1e-8)
