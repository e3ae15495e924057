"""Judge entries by differences at several scales, which show kinks, and slopes that change with the step size."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from gradcli.checks.entries import AGREE, CANNOT_TELL, DISAGREE, DOUBT, USEFUL
from gradcli.checks.point_check import PointCheck
from gradcli.checks.zero_slopes import at_rest
from gradcli.report.common import Finding, finding
from gradcli.request.point import Slopes
from gradcli.tracing.shapes import shape
from gradcli.words import Kind, Severity

_MOST = 10  # entries that get a finding
_CLEAR = 10.0  # times the bounds: a claim must differ by this much where the bounds are wide compared with the slope


def by_scales(case: PointCheck, mode: str, name: str, word: Any) -> Any:
    """Return the verdicts of one input's entries if differences are one of the two compared modes.

    A mode is not wrong, but undecided, if it differs from the slope over the smaller steps and fits the slope over the
    wider ones, if the bound of the slope is too wide to contradict anything, or if f has a kink. A mode that fits only the wider
    steps is not confirmed if f jumps and has a slope between its jumps.

    Shapes  `word` and the result have the shape of the Jacobian with respect to this input: of the output, then of the input.
    """
    found = case.outcomes["finite-difference"].estimate
    against = case.outcomes[str(case.reference) if mode == "finite-difference" else mode].estimate
    if found is None or against is None or name not in found.value or name not in against.value:
        return word
    x, bound, slopes = np.asarray(against.value[name]), np.asarray(against.bound[name]), found.slopes.get(name)
    # what the tolerances of solvers make of a bound is granted, and is no doubt of the differences
    blunt = _wide(found.value[name], found.bound[name] - np.asarray(found.solvers.get(name, 0.0)))
    if slopes is not None:
        apart, room = np.abs(x - slopes.other), slopes.other_bound + bound
        fits = apart <= DOUBT * room
        clear = np.abs(x - found.value[name]) > _CLEAR * (found.bound[name] + bound)
        blunt = blunt & ~(clear & ~_wide(slopes.other, slopes.other_bound))
        teeth = slopes.jumps & (np.abs(slopes.other) > DOUBT * slopes.other_bound)  # f may be constant between them
        open_ = (word == DISAGREE) & fits | (word == AGREE) & teeth & ~(apart <= room) | kinked(slopes)
        word = np.where(open_, CANNOT_TELL, word)
    if mode == "claim" and not np.any(found.value[name]) and np.any((word == DISAGREE) & blunt):
        blunt = blunt & ~at_rest(case, name, np.where(word == DISAGREE, x, 0.0))
    return np.where((word == DISAGREE) & blunt, CANNOT_TELL, word)


def _wide(value: Any, bound: Any) -> Any:
    """Return a mask of the slopes whose bounds are too wide, relative to the largest slope, to contradict anything."""
    size = float(np.max(np.abs(value), initial=0.0, where=np.isfinite(value)))
    return np.asarray(~(np.asarray(bound) <= USEFUL * size))


def kinked(slopes: Slopes) -> Any:
    """Return a mask of the entries at which the one-sided slopes differ."""
    return np.isfinite(slopes.left) & np.isfinite(slopes.right)


def scale_findings(case: PointCheck) -> list[Finding]:
    """Return findings on the undecided entries at which differences show a kink or a second slope."""
    outcome = case.outcomes.get("finite-difference")
    if outcome is None or outcome.estimate is None:
        return []
    found = []
    for name, slopes in outcome.estimate.slopes.items():
        open_ = np.zeros(np.shape(slopes.h), dtype=bool)
        for mode, words in case.agreement.items():
            if name in words and (mode == "claim" or (case.claimed is None and mode == "finite-difference")):
                open_ |= words[name] == CANNOT_TELL
        both = kinked(slopes)
        found += [_kink(case, name, k, slopes) for k in _first(open_ & both)]
        found += [_two(case, name, k, slopes) for k in _first(open_ & ~both & np.isfinite(slopes.other))]
    return found


def _first(mask: Any) -> Iterator[tuple[int, ...]]:
    return (tuple(int(i) for i in k) for k in np.argwhere(mask)[:_MOST])


def _entry(case: PointCheck, name: str, k: tuple[int, ...]) -> str:
    """Return an entry in words: `x[1]` if f is a scalar, else `output [0] by x[1]`."""
    outputs = len(shape(case.q.value))
    entry = name + (f"[{','.join(map(str, k[outputs:]))}]" if k[outputs:] else "")
    return f"output [{','.join(map(str, k[:outputs]))}] by {entry}" if outputs else entry


def _kink(case: PointCheck, name: str, k: tuple[int, ...], slopes: Slopes) -> Finding:
    left, right = float(slopes.left[k]), float(slopes.right[k])
    says = (
        f"f has a kink at {_entry(case, name, k)}: its slope is {left:.5g} from the left and {right:.5g} from the right"
    )
    return finding(Kind.KINK, Severity.INCONCLUSIVE, says, hint="move the point, or accept it: --allow kink")


def _two(case: PointCheck, name: str, k: tuple[int, ...], slopes: Slopes) -> Finding:
    """Return a finding that an entry has two slopes: a staircase if f jumps between their scales, else fine structure."""
    found = case.estimate("finite-difference")
    value, bound = (float(np.asarray(part[name])[k]) for part in (found.value, found.bound))
    here, there = f"{value:.5g}", f"{float(np.asarray(slopes.other)[k]):.5g}"
    h, other_h = (f"{float(np.asarray(x)[k]):.0e}" for x in (slopes.h, slopes.other_h))
    at, slope = _entry(case, name, k), f"its slope is {here} over steps of {h}"
    if np.asarray(slopes.jumps)[k]:
        says = f"f is a staircase at {at}: {slope} and {there} between its jumps"
        return finding(Kind.STAIRCASE, Severity.INCONCLUSIVE, says, hint="accept it: --allow staircase")
    says = f"f has fine structure at {at}: {slope} and {there} over steps of {other_h}"
    if abs(value - float(np.asarray(slopes.other)[k])) <= bound:
        says = f"f has fine structure at {at}: {slope}; over smaller ones, which rounding hides, it may be {bound:.1e} off that"
    hint = "smaller steps are closer to the derivative: claim their slope, or accept it: --allow fine-structure"
    return finding(Kind.FINE_STRUCTURE, Severity.INCONCLUSIVE, says, hint=hint)
