"""Naming the mistake in a wrong gradient, by trying mistakes: each row of the table is one."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradcli.point import Array
from gradcli.report.check import Diagnosis

_APPROXIMATE = 1e-3  # of the largest entry: larger errors are no rounding and no solver's tolerance
_CLOSE = 1e-7  # a mistake explains a claim if what it makes of the right gradient is this near, relative to its size


@dataclass(frozen=True, slots=True)
class Slip:
    """A mistake: what it makes of the right gradient, and how to say it."""

    kind: str
    makes: Callable[[Array], Array | None]
    says: str


def _factor(kind: str, factor: float, says: str) -> Slip:
    return Slip(kind, lambda g: factor * g, says)


def _transposed(g: Array) -> Array | None:
    return np.swapaxes(g, -1, -2) if np.ndim(g) >= 2 and g.shape[-1] == g.shape[-2] else None


def _symmetric_part(g: Array) -> Array | None:
    return (g + np.swapaxes(g, -1, -2)) / 2 if np.ndim(g) == 2 and g.shape[0] == g.shape[1] else None


def _shifted(step: int) -> Callable[[Array], Array | None]:
    return lambda g: np.roll(g, step) if np.ndim(g) == 1 and np.size(g) > 2 else None


_TRIANGLE = "the claim is the symmetric part of the right gradient: the function reads one triangle of the matrix"
# fmt: off
SIGN   = _factor("sign",   -1.0, "the sign is flipped")
DOUBLE = _factor("factor",  2.0, "a factor 2 too large")
HALF   = _factor("factor",  0.5, "a factor 2 too small")
ZERO   = Slip("detached", np.zeros_like, "the gradient is zero: something on the way is detached or treated as a constant")
TURNED = Slip("transposed", _transposed, "the gradient is transposed")
SYMMETRIC = Slip("one triangle", _symmetric_part, _TRIANGLE)
LEFT   = Slip("shifted", _shifted(-1), "the entries are shifted by one")
RIGHT  = Slip("shifted", _shifted(1), "the entries are shifted by one")
# fmt: on
SLIPS = (SIGN, DOUBLE, HALF, ZERO, TURNED, SYMMETRIC, LEFT, RIGHT)


def _counted(sizes: dict[str, int]) -> Iterator[Slip]:
    for what, n in sizes.items():
        if n > 2:
            yield _factor("factor", float(n), f"a factor {n} too large: a mean over {what} became a sum")
            yield _factor("factor", 1.0 / n, f"a factor {n} too small: a sum over {what} became a mean")


def diagnose(claimed: dict[str, Array], right: dict[str, Array], wrong: list[str]) -> Diagnosis | None:
    """Return the one mistake that turns the right gradient into the claimed one in the inputs `wrong`, if one does."""
    sizes = {f"the entries of {name}": int(np.size(right[name])) for name in wrong}
    sizes |= {f"axis {k} of {name}": n for name in wrong for k, n in enumerate(np.shape(right[name]))}
    for slip in (*SLIPS, *_counted(sizes)):
        if wrong and all(_explains(slip, claimed[name], right[name]) for name in wrong):
            return Diagnosis(slip.kind, slip.says + ("" if len(wrong) == len(claimed) else f" ({', '.join(wrong)})"))
    return (
        _swapped(claimed, right, wrong)
        or _permuted(claimed, right, wrong)
        or _constant_ratio(claimed, right, wrong)
        or _nearly(claimed, right, wrong)
    )


def _explains(slip: Slip, claimed: Array, right: Array) -> bool:
    made = slip.makes(np.asarray(right))
    return made is not None and not _same(made, right) and _same(claimed, made)


def _same(a: Any, b: Any) -> bool:
    a, b = np.asarray(a), np.asarray(b)
    scale = max(float(np.max(np.abs(b), initial=0.0)), 1e-300)
    return a.shape == b.shape and bool(np.all(np.abs(a - b) <= _CLOSE * np.maximum(np.abs(b), 1e-3 * scale)))


def _nearly(claimed: dict[str, Array], right: dict[str, Array], wrong: list[str]) -> Diagnosis | None:
    """Return that every entry is nearly right, by differing small errors: an approximation, not a mistake in a formula."""
    errors = []
    for name in wrong:
        g, c = np.asarray(right[name]), np.asarray(claimed[name])
        errors.append(np.abs(c - g).reshape(-1) / max(float(np.max(np.abs(g), initial=0.0)), 1e-300))
    relative = np.concatenate(errors) if errors else np.zeros(0)
    worst = float(np.max(relative, initial=0.0))
    if not 0 < worst < _APPROXIMATE or (relative.size > 1 and np.median(relative) < 1e-3 * worst):
        return None
    says = (
        f"the claim agrees to {-np.log10(worst):.0f} digits in every entry, too near for a slip in a formula: the function or "
        f"the claim is an approximation (a solver's tolerance, float32); --rtol {10 ** np.ceil(np.log10(worst)):.0e} accepts it"
    )
    return Diagnosis("approximation", says)


def _swapped(claimed: dict[str, Array], right: dict[str, Array], wrong: list[str]) -> Diagnosis | None:
    if len(wrong) == 2 and _same(claimed[wrong[0]], right[wrong[1]]) and _same(claimed[wrong[1]], right[wrong[0]]):
        return Diagnosis("swapped", f"the gradients of {wrong[0]} and {wrong[1]} are exchanged")
    return None


def _permuted(claimed: dict[str, Array], right: dict[str, Array], wrong: list[str]) -> Diagnosis | None:
    if len(wrong) == 1 and np.ndim(right[wrong[0]]) == 1 and np.size(right[wrong[0]]) > 1:
        a, b = np.sort(claimed[wrong[0]]), np.sort(right[wrong[0]])
        if _same(a, b) and not _same(claimed[wrong[0]], right[wrong[0]]):
            return Diagnosis("permuted", f"the entries of {wrong[0]} are right but in another order")
    return None


def _constant_ratio(claimed: dict[str, Array], right: dict[str, Array], wrong: list[str]) -> Diagnosis | None:
    ratios = []
    for name in wrong:
        used = np.asarray(right[name]) != 0
        ratios.append((np.asarray(claimed[name])[used] / np.asarray(right[name])[used]).reshape(-1))
        if np.any(np.asarray(claimed[name])[~used] != 0):
            return None
    ratio = np.concatenate(ratios) if ratios else np.zeros(0)
    if ratio.size > 1 and np.all(np.isfinite(ratio)) and np.ptp(ratio) <= 1e-3 * abs(ratio[0] - 1):
        return Diagnosis("factor", f"every wrong entry is {ratio[0]:.10g} times the right one")
    return None
