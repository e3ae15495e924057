"""Run several modes on one question."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from gradcli.checks.evidence import Evidence, Outcome
from gradcli.classes import dataclass
from gradcli.errors import BadExpression, GradcliError, NotSupported, OutOfTime, TraceDiffers, Undecided
from gradcli.modes.claim import Claimed
from gradcli.modes.mode import Contradiction, Mode, Question
from gradcli.modes.recording import Effort, NotRun, compute_with_deadline
from gradcli.modes.registry import FRAMEWORKS, MODES, Asked, Symbolic
from gradcli.report.common import Finding, finding
from gradcli.report.point_report import Diagnosis
from gradcli.request.point import Estimate
from gradcli.words import Kind, ModeStatus, Severity

# What a verdict does not need beside a gradient by rules: a process of its own, and evaluations of f for each entry.
_COSTLY = ("symbolic", "forward", "complex-step", "finite-difference")
_STATUS: dict[type[GradcliError], ModeStatus] = {
    NotRun: "not run", OutOfTime: "timeout", NotSupported: "unsupported",
    Contradiction: "failed", TraceDiffers: "failed", Undecided: "failed", BadExpression: "failed",
}  # fmt: skip
_ENDINGS = tuple(_STATUS)


def run_modes(
    q: Question,
    modes: Sequence[Mode],
    heard: Callable[[dict[str, Outcome]], None] | None = None,
    answered: Mapping[str, Outcome] = MappingProxyType({}),
    for_verdict: bool = False,
) -> dict[str, Outcome]:
    """Run the modes that have no outcome in `answered` yet, and return the outcomes of all modes by name.

    The symbolic mode runs in a process of its own, beside the others. `heard` is called with the outcomes so far after each
    mode. With `for_verdict`, modes that add no witness are left out, unless the user chose the modes.
    """
    q.prepare()
    found, asked = dict(answered), dict[str, Asked]()
    may_leave_out = for_verdict and q.budget.by_default
    first = [] if may_leave_out else [mode for mode in modes if isinstance(mode, Symbolic)]  # its process takes longest
    try:
        for mode in dict.fromkeys([*first, *modes]):
            if mode.name in found:
                continue
            why = _reason_to_skip(mode, found, q) if may_leave_out else None
            if why is not None:
                found[mode.name] = Outcome(mode, "not run", error=NotRun(why, do="--modes all"))
            elif isinstance(mode, Symbolic) and not q.crowded:
                try:
                    asked[mode.name] = mode.begin(q)
                    continue
                except _ENDINGS as error:
                    found[mode.name] = _outcome_of_error(mode, error)
            else:
                found[mode.name] = run_mode(mode, q)
            if heard is not None:
                heard(found)
        for mode in modes:
            if mode.name in asked:
                found[mode.name] = _outcome_of(mode, asked[mode.name].result, None)
    except BaseException:
        for waiting in asked.values():
            waiting.cancel()
        raise
    return {mode.name: found[mode.name] for mode in modes}


def _reason_to_skip(mode: Mode, found: Mapping[str, Outcome], q: Question) -> str | None:
    """Return why a verdict needs no outcome of a mode, which takes long; None if it may."""
    if is_without_balls(q) and mode.name in ("certified", *_COSTLY):
        return "reverse and function values decide"
    if mode.name not in _COSTLY or "certified" not in found:
        return None
    is_certified = found["certified"].status == "ok" and not any(map(np.any, q.undecided))
    return "every entry is certified" if is_certified else None


def is_without_balls(q: Question) -> bool:
    """Whether this is a quick look at a claim, of a program for which balls would take too long."""
    return q.budget.effort is Effort.QUICK and q.untraced is None and q.ball_work > Effort.QUICK.value


def run_mode(mode: Mode, q: Question) -> Outcome:
    """Run one mode; if it gives no estimate, the status of the outcome says why."""
    available = mode.available()
    if not available.yes:
        return Outcome(mode, "unavailable", error=NotSupported(available.why, do=available.install))
    return _outcome_of(mode, lambda: mode.gradient(q), q.budget.mode_timeout)


def _outcome_of(mode: Mode, work: Callable[[], Estimate], timeout: float | None) -> Outcome:
    try:
        return Outcome(mode, "ok", compute_with_deadline(work, timeout))
    except _ENDINGS as error:
        return _outcome_of_error(mode, error)


def _outcome_of_error(mode: Mode, error: GradcliError) -> Outcome:
    """Return the outcome of a mode that gives no estimate; the frames of the error, which may hold large arrays, are dropped."""
    error.__traceback__ = None
    return Outcome(mode, next(word for kind, word in _STATUS.items() if isinstance(error, kind)), error=error)


def answered_frameworks(outcomes: Mapping[str, Outcome]) -> tuple[str, ...]:
    """Return the names of the framework modes that gave an estimate."""
    return tuple(name for name in FRAMEWORKS if name in outcomes and outcomes[name].status == "ok")


def report_missing_modes(outcomes: Mapping[str, Outcome]) -> tuple[Finding, ...]:
    """Return a finding for each mode that was requested but is not installed."""
    errors = [outcome.error for outcome in outcomes.values() if outcome.status == "unavailable" and outcome.error]
    return tuple(finding(Kind.UNAVAILABLE, Severity.WARNING, error.what, hint=error.do) for error in errors)


def choose_reference(outcomes: dict[str, Outcome]) -> str | None:
    """Return the mode that the others are compared with: certified if it answered, else rules, else differences; or None."""
    for name in ("certified", "reverse", "forward", "symbolic", "complex-step", "finite-difference"):
        if name in outcomes and outcomes[name].status == "ok":
            return name
    return next((name for name, outcome in outcomes.items() if outcome.status == "ok" and name in MODES), None)


@dataclass(kw_only=True)
class PointCheck(Evidence):
    """The evidence gathered at one point so far, with what more is gathered from: the question and the claim."""

    q: Question
    claim: Claimed | None = None
    not_claimed: tuple[str, ...] = ()
    wide_cause: Callable[[Any], Diagnosis | None] | None = None  # looks for a mistake that a wider format alone shows

    def inconclusive(self, kind: Kind, message: str, **where: Any) -> None:
        """Add a finding that prevents a verdict unless the user allows it."""
        self.findings += (finding(kind, Severity.INCONCLUSIVE, message, **where),)
