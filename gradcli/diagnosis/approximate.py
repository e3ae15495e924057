"""Recognise claims that are approximations: differences with a fixed step, lower precision, a solver's tolerance."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from gradcli.core.shapes import end_to_end, shape
from gradcli.diagnosis.wrong import Wrong
from gradcli.numerics.noise import EPS
from gradcli.reports.point_report import Diagnosis
from gradcli.words import DiagnosisKind

_SAMPLES = 4  # wrong entries at which difference quotients are tried
_STEPS = (*(10.0**-k for k in range(1, 13)), *(5 * 10.0**-k for k in range(1, 9)), EPS**0.5, EPS ** (1 / 3), EPS**0.25)
_ALMOST = 3e-5  # relative to the largest entry: larger errors come from no rounding and no solver's tolerance
_ROUNDINGS = 16  # roundings of f, divided by h: the allowed distance of two runs of the same difference
_SAME = 1e-11  # relative: the allowed distance of two computations of one difference quotient
_GAIN = 0.05  # the largest part of the claim's error that a difference quotient may leave unexplained
_LAWS = {"forward": "h", "backward": "h", "central": "h**2"}


def lower_precision(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if every entry of the claim is a number of a lower precision, near the right value."""
    a, b = end_to_end(wrong.claimed.values()), end_to_end(wrong.right.values())
    scale = float(np.max(np.abs(b), initial=0.0))
    if a.size < 2 or not np.all(np.isfinite(a)):
        return None
    for dtype, digits, room in ((np.float16, 3, 0.01), (np.float32, 7, 1e-5)):
        if np.array_equal(a, a.astype(dtype).astype(float)) and np.all(np.abs(a - b) <= room * scale):
            name = np.dtype(dtype).name
            says = (
                f"every entry is a {name} number, right to about {digits} digits: computed in {name}; {_accepts(wrong)}"
            )
            return wrong.says(DiagnosisKind.APPROXIMATION, says)
    return None


def by_differences(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis with the step, if the claim is a difference quotient of the function with a fixed step.

    Cost  a few hundred evaluations of f, within the budget. Raises BudgetSpent.
    """
    q = wrong.q
    sampled, others = list(_sampled(wrong)), list(_right_ones(wrong))
    if len(sampled) + len(others) < 2 or shape(q.value) != ():
        return None
    value = float(q.value)
    with np.errstate(all="ignore"):
        for relative in (False, True):
            for h in _STEPS:
                for scheme in _LAWS:
                    if all(_matches(wrong, name, at, h, scheme, relative, value) for name, at in (*sampled, *others)):
                        whose = " times |x|" if relative else ""
                        right = (
                            "rounding" if _rounded(wrong, value, h) else f"proportional to {_LAWS[scheme]}: truncation"
                        )
                        says = (
                            f"the claim is a {scheme} difference with the step h = {h:.3g}{whose}; its error is {right}"
                        )
                        return wrong.says(DiagnosisKind.APPROXIMATION, says)
    return None


def _sampled(wrong: Wrong) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the wrong entries with the largest errors, largest first."""
    found = []
    for name in wrong.names:
        error = np.where(wrong.masks[name], np.abs(wrong.claimed[name] - wrong.right[name]), -1.0)
        found += [(float(error[at]), name, at) for at in _first(-error) if error[at] > 0 and np.isfinite(error[at])]
    for _, name, at in sorted(found, reverse=True)[:_SAMPLES]:
        yield name, at


def _right_ones(wrong: Wrong) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield the largest right entries: in a difference quotient, these are the ones without truncation error."""
    found = []
    for name, claim in wrong.claimed.items():
        size = np.where(wrong.masks[name], -1.0, np.abs(claim))
        found += [(float(size[at]), name, at) for at in _first(-size) if size[at] > 0]
    for _, name, at in sorted(found, reverse=True)[: _SAMPLES // 2]:
        yield name, at


def _first(x: Any) -> Iterator[tuple[int, ...]]:
    for k in np.argsort(np.ravel(x))[:_SAMPLES]:
        yield tuple(int(i) for i in np.unravel_index(k, shape(x))) if shape(x) else ()


def _matches(wrong: Wrong, name: str, at: tuple[int, ...], h: float, scheme: str, relative: bool, value: float) -> bool:
    q = wrong.q
    k = q.wrt.index(name)
    x = float(np.asarray(q.xs[k])[at])
    step = h * abs(x) if relative else h
    if step == 0:
        return False

    def f(t: float) -> float:
        wrong.budget.spend(1)
        moved = np.array(q.xs[k])
        moved[at] += t
        return float(q.near(*q.xs[:k], moved[()], *q.xs[k + 1 :]))

    if scheme == "central":
        made = (f(step) - f(-step)) / (2 * step)
    else:
        sign = 1.0 if scheme == "forward" else -1.0
        made = (f(sign * step) - value) / (sign * step)
    claimed, right = float(np.asarray(wrong.claimed[name])[at]), float(np.asarray(wrong.right[name])[at])
    room = _ROUNDINGS * EPS * abs(value) / step + 1e-9 * abs(claimed)
    if not np.asarray(wrong.masks[name])[at]:
        return abs(claimed - made) <= room
    again = abs(claimed - made) <= _SAME * abs(claimed)  # the same difference quotient, however large its error
    return again or abs(claimed - made) <= room <= _GAIN * abs(claimed - right)


def _rounded(wrong: Wrong, value: float, h: float) -> bool:
    """Whether the error is as small as the rounding error of f divided by h."""
    errors = np.abs(end_to_end(wrong.claimed.values()) - end_to_end(wrong.right.values()))
    return bool(np.median(errors[errors > 0]) < _ROUNDINGS * EPS * abs(value) / h)


def nearly(wrong: Wrong) -> Diagnosis | None:
    """Return a diagnosis if every entry is nearly right, with small errors that differ between entries."""
    errors = [
        np.ravel(np.abs(wrong.claimed[name] - wrong.right[name]))
        / max(float(np.max(np.abs(wrong.right[name]), initial=0.0)), 1e-300)
        for name in wrong.names
    ]
    relative = np.concatenate(errors)
    worst = float(np.max(relative, initial=0.0))
    if not 0 < worst < _ALMOST or (relative.size > 1 and np.median(relative) < 1e-3 * worst):
        return None
    says = (
        f"the claim agrees to {-np.log10(worst):.0f} digits in every entry: the function or the claim is an approximation (a "
        f"solver's tolerance, differences), or a small constant such as eps is missing; "
        f"{_accepts(wrong)}"
    )
    return wrong.says(DiagnosisKind.APPROXIMATION, says)


def _accepts(wrong: Wrong) -> str:
    """Return in words the fixed tolerances that would accept the claim."""
    claimed, right = end_to_end(wrong.claimed.values()), end_to_end(wrong.right.values())
    used = right != 0
    relative = float(np.max(np.abs(claimed - right)[used] / np.abs(right[used]), initial=0.0))
    also = (
        "" if np.all(claimed[~used] == 0) else f" --atol {10 ** np.ceil(np.log10(np.max(np.abs(claimed[~used])))):.0e}"
    )
    return f"--rtol {10 ** np.ceil(np.log10(max(relative, 1e-16))):.0e}{also} accepts it"
