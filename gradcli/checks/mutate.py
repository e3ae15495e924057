"""Plant mistakes in the gradient under test, and count which of them the check would have caught."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcli.checks.decide import confirmed_entries
from gradcli.checks.detects import resolution_of
from gradcli.checks.evidence import DISAGREE, Evidence, MutationResult, entrywise, scale_of
from gradcli.checks.run_modes import PointCheck
from gradcli.modes.mode import Question
from gradcli.report.common import Finding, finding
from gradcli.report.point_report import Mutant
from gradcli.request.point import Array, Estimate, Witness
from gradcli.tracing.shapes import shape
from gradcli.words import Kind, Severity

_SIZES = tuple(10.0**-k for k in range(16))  # relative errors, the largest first
_GROSS = 0.01  # relative: entries that a mistake without a size changes by less than this count as unchanged
Makes = Callable[[Array], Array]
_GROSS_MISTAKES: dict[str, Makes] = {
    "the sign of one entry flipped": lambda g: -g,
    "one entry zero": np.zeros_like,
    "one entry doubled": lambda g: 2 * g,
    "the entries shifted by one": lambda g: np.roll(g, 1),
}


def plant_mistakes(case: PointCheck, seen: Evidence) -> MutationResult:
    """Return how many planted mistakes would be caught, and a finding if a gross one is missed or none was planted.

    The gradient under test is the claim, or gradcli's own gradient if there is no claim. No mode is run again.
    """
    tested, right = _tested(seen)
    if tested is None or right is None:
        return MutationResult((), _unplanted("no other mode checks the gradient entry by entry"))
    if seen.wrong_shape is not None or seen.contradicts("claim"):
        return MutationResult((), _unplanted("the claim already disagrees without a planted mistake"))
    trial = _Trial(case.q, seen, tested, right, confirmed_entries(seen)[0])
    found = [
        _by_size(trial, "one entry off by a relative error", lambda g, s: g * (1 + s)),
        _by_size(trial, "one entry off by a part of the largest", lambda g, s: g + s * _largest(g)),
        *(_once(trial, says, makes) for says, makes in _GROSS_MISTAKES.items()),
    ]
    survived = [m for m in found if m.sizeless and m.caught < m.planted]
    if not survived:
        return MutationResult(tuple(found), _at_kinks(seen))
    first = survived[0]
    says = f"{first.planted - first.caught} of {first.planted} planted mistakes would not be found: {first.mistake}"
    if all(
        m.mistake in _GROSS_MISTAKES and m.planted - m.caught <= trial.unresolved(_GROSS_MISTAKES[m.mistake])
        for m in survived
    ):
        says += "; they are in entries that were not resolved"
        return MutationResult(tuple(found), finding(Kind.MUTANT, Severity.WARNING, says))
    hint = "the bounds of the modes are too wide for these entries"
    return MutationResult(tuple(found), finding(Kind.MUTANT, Severity.INCONCLUSIVE, says, hint=hint))


def _at_kinks(seen: Evidence) -> Finding | None:
    """Return a finding that says how many entries no mistake was planted in, since other values are right there, too."""
    count = sum(int(np.sum(mask)) for mask in seen.undecided.values())
    if not count:
        return None
    entries = "1 entry" if count == 1 else f"{count} entries"
    says = f"no mistake was planted in {entries} at a kink: other subgradients are right there, too"
    return finding(Kind.MUTANT, Severity.INFO, says)


def _unplanted(why: str) -> Finding:
    return finding(Kind.MUTANT, Severity.INFO, f"no mistake was planted: {why}")


def _tested(seen: Evidence) -> tuple[Estimate | None, Estimate | None]:
    """Return the gradient under test and its reference; for gradcli's own, a mode that depends on function values alone."""
    if seen.reference is None:
        return None, None
    own = seen.estimate(seen.reference)
    if seen.claimed is not None and seen.estimate_or_none("claim") is not None:
        return seen.estimate_or_none("claim"), own
    for mode, outcome in seen.outcomes.items():
        by_values = outcome.mode.rests_on == {Witness.FUNCTION_VALUES}
        if outcome.estimate is not None and by_values and mode != seen.reference:
            return own, outcome.estimate
    return None, None


def _largest(g: Array) -> float:
    return float(np.max(np.abs(g), initial=0.0))


@dataclass(frozen=True, slots=True)
class _Trial:
    """The gradient under test, the estimate that it is compared with, and the entries that two modes confirm."""

    q: Question
    seen: Evidence
    tested: Estimate
    right: Estimate
    confirmed: dict[str, Any]

    def missed(self, makes: Makes, least: float = 0.0) -> dict[str, tuple[Any, Any]]:
        """Return masks of the entries that a mistake changes and of those where it is not caught, each wrong alone.

        Entries at a kink are left out; an entry counts as changed if its relative change is more than `least`.
        """
        seen, tested, right = self.seen, self.tested, self.right
        scale = scale_of(right, self.q.xs, self.q.value)
        found = {}
        for name, g in tested.value.items():
            made = np.asarray(makes(np.asarray(g)))
            changed = (np.abs(made - g) > least * np.abs(g)) & ~seen.undecided[name]
            moved = replace(tested, value={**tested.value, name: made})
            words = np.broadcast_to(np.asarray(entrywise(moved, right, name, scale, seen.tolerance)), shape(g))
            shown = (words == DISAGREE) & (self.confirmed[name] if seen.claimed is not None else True)
            found[name] = changed, changed & ~shown
        return found

    def unresolved(self, makes: Makes) -> int:
        """Return in how many entries that were not resolved a gross mistake is not caught."""
        accepted = resolution_of(self.seen).accepted
        missed = self.missed(makes, _GROSS)
        return sum(int(np.sum(missed[name][1] & mask)) for name, mask in accepted.items() if name in missed)


def _caught(trial: _Trial, makes: Makes, least: float = 0.0) -> tuple[int, int]:
    """Return how many entries, each wrong alone, would be caught, and how many the mistake changes."""
    masks = trial.missed(makes, least).values()
    planted = sum(int(np.sum(changed)) for changed, _ in masks)
    return planted - sum(int(np.sum(missed)) for _, missed in masks), planted


def _by_size(trial: _Trial, says: str, makes: Callable[[Array, float], Array]) -> Mutant:
    """Return the mutant with the smallest size caught in every entry, and the smallest caught in at least one."""
    every = some = None
    planted = caught = 0
    for size in _SIZES:
        caught, planted = _caught(trial, lambda g, s=size: makes(g, s))  # type: ignore[misc]
        if planted and caught == planted:
            every = size
        if caught:
            some = size
        else:
            break
    return Mutant(says, planted, planted if every else 0, every, some)


def _once(trial: _Trial, says: str, makes: Any) -> Mutant:
    caught, planted = _caught(trial, makes, _GROSS)
    return Mutant(says, planted, caught, None, None)
