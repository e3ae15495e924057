"""Check claims of a zero slope for functions that can only be called, where finite differences may mislead.

A central difference is zero wherever f is even about the point, even if f has a kink there. A function that rounds
internally has the slope 0 almost everywhere, although its differences over wider steps are not 0.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcli.checks.evidence import AGREE, CANNOT_TELL, DISAGREE
from gradcli.checks.run_modes import PointCheck
from gradcli.frameworks.native import native_of
from gradcli.modes.rounding import EPS
from gradcli.modes.stairs import WIDTHS
from gradcli.targets.derived import root_of
from gradcli.tracing.shapes import shape
from gradcli.words import Kind

_ZERO_SLOPES_MOST = 50  # entries that are examined
_STEPS = 10.0 ** -np.array(
    [2.0, 2.5, 5.0, 5.5, 6.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0]
)  # relative to the size of the entry
_WIDE, _SMALLEST = 2, 2  # the number of steps that count as wide, and of the smallest steps that are compared with them
_BESIDE = 1e-6  # relative to a step: the distance of a second value from the first
_ZERO_SLOPES_SHRINKS = (
    0.1  # times the slopes over wide steps: if f is smooth and even, slopes over small steps are smaller
)
_SEEN = 8.0  # roundings of f: a smaller change of f shows nothing


def settled_zeros(case: PointCheck, name: str, word: Any) -> Any:
    """Return the verdicts of a claim for one input; undecided where the evidence for or against a zero is too weak.

    Shapes  `word` and the result have the shape of the input.
    Cost    up to 40 evaluations of f for each entry that is claimed to be zero.
    """
    claim, right = case.estimate("claim").value[name], case.estimate(str(case.reference)).value[name]
    if case.q.untraced is None or shape(case.q.value) != ():
        return word
    word = np.array(word)
    for at in map(tuple, np.argwhere(np.asarray(claim) == 0)[:_ZERO_SLOPES_MOST]):
        slopes = _one_sided(case, name, at)
        entry = f"{name}[{','.join(map(str, at))}]" if at else name
        if word[at] == AGREE and _by_symmetry(case, slopes, _size(case, name, at)):
            word[at] = CANNOT_TELL
            says = f"f is symmetric about {entry}, but its slopes do not tend to 0 as the steps shrink: it may have a kink there"
            case.inconclusive(Kind.KINK, says, hint="move the point, or accept it: --allow kink")
        if word[at] == AGREE and not np.any(slopes) and _moves_in_steps(case, name, at):
            word[at] = CANNOT_TELL
            says = f"f changes with {entry} in steps alone: its slope is 0 although its value changes"
            case.inconclusive(Kind.STAIRCASE, says, hint="accept it: --allow staircase")
        if word[at] == DISAGREE and _is_level(case, slopes, float(np.asarray(right)[at]), name, at):
            word[at] = CANNOT_TELL
            says = f"f is a step function at {entry}: it is constant over small steps and changes over wider ones"
            case.inconclusive(Kind.STAIRCASE, says, hint="accept it: --allow staircase")
    return word[()]


def at_rest(case: PointCheck, name: str, claimed: Any) -> Any:
    """Return a mask of the entries where f changes, but over small steps much less than claimed: the slope there is 0.

    Shapes  the mask has the shape of `claimed`.
    Cost    up to 24 evaluations of f for each entry.
    """
    found = np.zeros(shape(claimed), dtype=bool)
    if shape(case.q.value) != ():
        return found
    for at in map(tuple, np.argwhere(np.asarray(claimed) != 0)[:_ZERO_SLOPES_MOST]):
        slopes = _one_sided(case, name, at)
        largest = np.max(np.abs(slopes), axis=1)
        wide, most = float(np.max(largest[:_WIDE])), _ZERO_SLOPES_SHRINKS * abs(float(np.asarray(claimed)[at]))
        fine = largest[_visible(case, wide, _size(case, name, at))][_WIDE:]
        shrinks = bool(fine.size) and float(np.max(fine)) <= _ZERO_SLOPES_SHRINKS * wide
        moves = np.all(np.isfinite(slopes)) and np.all(slopes[:_WIDE] != 0)
        found[at] = bool(moves) and shrinks and not float(np.min(fine[fine > 0], initial=wide)) > most
    return found


def _one_sided(case: PointCheck, name: str, at: tuple[int, ...]) -> Any:
    """Return the difference quotients of f to the right and to the left, one row for each step."""
    q = case.q
    k = q.wrt.index(name)
    found = []
    for h in _size(case, name, at) * _STEPS:
        sides = []
        for sign in (1.0, -1.0):
            moved = np.array(q.xs[k])
            moved[at] += sign * h
            sides.append((float(q.near(*q.xs[:k], moved[()], *q.xs[k + 1 :])) - float(q.value)) / h)
        found.append(sides)
    return np.array(found)


def _moves_in_steps(case: PointCheck, name: str, at: tuple[int, ...]) -> bool:
    """Whether f has other values further away, but is locally constant there too."""
    q = case.q
    k, levels = q.wrt.index(name), []
    for step in _size(case, name, at) * np.outer(WIDTHS, (1.0, -1.0)).ravel():
        there = []
        for t in (step, step * (1 + _BESIDE)):
            moved = np.array(q.xs[k])
            moved[at] += t
            there.append(float(q.near(*q.xs[:k], moved[()], *q.xs[k + 1 :])))
        if np.all(np.isfinite(there)) and there[0] != float(q.value):
            levels.append(there[0] == there[1])
    return bool(levels) and all(levels)


def _by_symmetry(case: PointCheck, slopes: Any, size: float) -> bool:
    """Whether f is even about the point, and its slopes do not shrink with the steps, as at a kink."""
    if not np.all(np.isfinite(slopes)) or not np.any(slopes):
        return False
    even = np.all(np.abs(slopes[:, 0] - slopes[:, 1]) <= _ZERO_SLOPES_SHRINKS * np.max(np.abs(slopes), axis=1))
    wide = float(np.max(np.abs(slopes[:_WIDE])))
    smallest = np.abs(slopes[_visible(case, wide, size)])[_WIDE:][-_SMALLEST:]
    return bool(even and smallest.size and np.max(smallest) > _ZERO_SLOPES_SHRINKS * wide)


def _visible(case: PointCheck, slope: float, size: float) -> Any:
    """Return a mask of the steps over which a slope would show above the rounding of f and of its inputs."""
    native = native_of(root_of(case.q.f))
    eps = EPS * (1.0 if native is None else native.coarseness)
    return slope * size * _STEPS > _SEEN * eps * max(abs(float(case.q.value)), slope * size, np.finfo(float).tiny)


def _size(case: PointCheck, name: str, at: Sequence[int]) -> float:
    x = case.q.xs[case.q.wrt.index(name)]
    return float(np.asarray(case.q.stepping.sizes(name, x))[tuple(at)])


def _is_level(case: PointCheck, slopes: Any, slope: float, name: str, at: Sequence[int]) -> bool:
    """Whether f does not change at all over some step over which the slope would show."""
    level = np.all(slopes == 0, axis=1)
    return bool(np.any(level & _visible(case, abs(slope), _size(case, name, at))))
