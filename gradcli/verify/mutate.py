"""Mistakes planted in the gradient under test: which of them would this check have caught?"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gradcli.core.shapes import shape
from gradcli.point import Array, Estimate, Witness
from gradcli.report.common import Finding, finding
from gradcli.report.point_report import Mutant
from gradcli.verify.case import Case
from gradcli.verify.compare import DISAGREE, entrywise, scale_of
from gradcli.verify.gather import witnessed
from gradcli.words import Kind, Severity

_SIZES = tuple(10.0**-k for k in range(16))  # relative errors, the largest first
_GROSS = 0.01  # relative: entries that a mistake without a size changes by less are as good as unchanged
Makes = Callable[[Array], Array]


def mutants(case: Case) -> tuple[tuple[Mutant, ...], Finding | None]:
    """Return what became of each planted mistake, and a finding where a gross one goes unseen or none was planted.

    The gradient under test is the claim, or gradcli's own where there is none; no mode is run again.
    """
    tested, right = _tested(case)
    if tested is None or right is None:
        return (), _unplanted("no other mode stands against the gradient entry by entry")
    if case.diagnosis is not None or any(np.any(word == DISAGREE) for word in case.verdicts.get("claim", {}).values()):
        return (), _unplanted("the claim disagrees as it stands")
    trial = _Trial(case, tested, right, witnessed(case))
    found = [
        _by_size(trial, "one entry off by a relative error", lambda g, s: g * (1 + s)),
        _by_size(trial, "one entry off by a part of the largest", lambda g, s: g + s * _largest(g)),
        _once(trial, "the sign of one entry flipped", lambda g: -g),
        _once(trial, "one entry zero", np.zeros_like),
        _once(trial, "one entry doubled", lambda g: 2 * g),
        _once(trial, "the entries shifted by one", lambda g: np.roll(g, 1)),
    ]
    survived = [m for m in found if m.sizeless and m.caught < m.planted]
    if not survived:
        return tuple(found), None
    first = survived[0]
    says = f"{first.planted - first.caught} of {first.planted} planted mistakes would go unseen: {first.mistake}"
    return tuple(found), finding(
        Kind.MUTANT, Severity.INCONCLUSIVE, says, hint="the bounds of the modes are too wide for these entries"
    )


def _unplanted(why: str) -> Finding:
    return finding(Kind.MUTANT, Severity.INFO, f"no mistake was planted: {why}")


def _tested(case: Case) -> tuple[Estimate | None, Estimate | None]:
    """Return the gradient under test, and what it is compared with: for our own, a mode that rests on function values."""
    if case.reference is None:
        return None, None
    if case.claimed is not None and case.outcomes["claim"].estimate is not None:
        return case.estimate("claim"), case.estimate(case.reference)
    own = case.estimate(case.reference)
    for mode, outcome in case.outcomes.items():
        if (
            outcome.estimate is not None
            and outcome.mode.rests_on == {Witness.FUNCTION_VALUES}
            and mode != case.reference
        ):
            return own, outcome.estimate
    return None, None


def _largest(g: Array) -> float:
    return float(np.max(np.abs(g), initial=0.0))


@dataclass(frozen=True, slots=True)
class _Trial:
    """The gradient under test, what it is compared with, and the entries that two witnesses confirm."""

    case: Case
    tested: Estimate
    right: Estimate
    confirmed: dict[str, Any]


def _caught(trial: _Trial, makes: Makes, least: float = 0.0) -> tuple[int, int]:
    """Return how many entries, each wrong alone, would be caught, of how many that the mistake changes.

    Nothing is planted where a kink leaves the gradient open; `least` is the relative change that counts as one.
    """
    case, tested, right = trial.case, trial.tested, trial.right
    caught = planted = 0
    scale = scale_of(case.q, right)
    open_ = dict(zip(case.q.wrt, case.q.undecided, strict=True))
    for name, g in tested.value.items():
        made = np.asarray(makes(np.asarray(g)))
        changed = (np.abs(made - g) > least * np.abs(g)) & (np.asarray(right.value[name]) != 0) & ~open_[name]
        moved = replace(tested, value={**tested.value, name: made})
        words = np.broadcast_to(np.asarray(entrywise(moved, right, name, scale, case.fixed)), shape(g))
        seen = (words == DISAGREE) & (trial.confirmed[name] if case.claimed is not None else True)
        planted += int(np.sum(changed))
        caught += int(np.sum(changed & seen))
    return caught, planted


def _by_size(trial: _Trial, says: str, makes: Callable[[Array, float], Array]) -> Mutant:
    """Return the smallest size at which every entry would be caught, and the smallest for at least one."""
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
