"""The study behind `grad`: the gradient alone, with no digit that rounding has taken."""

import math
from typing import Any

import numpy as np

from gradcli.arithmetic.dual import jacobian_from_rows
from gradcli.checks.framework_claim import describe_environment
from gradcli.modes.mode import Question
from gradcli.report import numbers
from gradcli.report.common import ABSENT, Target
from gradcli.report.compare import GradReport
from gradcli.request.point import Array
from gradcli.tracing.shapes import shape
from gradcli.words import Exit

_WHOLE = 2.0**10 * float(np.finfo(np.float64).eps)  # relative: within such a bound an entry is printed with every digit
_ZERO = 1e-8  # of the largest entry, or of f over the size of its inputs: a bound below it leaves an entry that counts as zero
_NOTHING = 1e-300  # a bound below it is none


def gradient(q: Question) -> GradReport:
    """Return a report of the gradient by the reverse mode.

    Its status is inconclusive if f or the gradient is not finite, or no digit of an entry is right. Such entries, and those
    of a value that is not finite, are nan.

    Error   each entry is rounded to the last digit that its bound of rounding leaves.
    """
    with np.errstate(all="ignore"):
        slopes = {name: np.asarray(jacobian_from_rows(q.rows, q.value, k, q.xs[k])) for k, name in enumerate(q.wrt)}
    vector = shape(q.value) != ()
    finite = np.isfinite(np.asarray(q.value))
    known = q.affords_slopes and bool(np.all(finite))
    bounds = {name: np.asarray(q.rounding[name]) if known else np.full(g.shape, np.nan) for name, g in slopes.items()}
    notes = []
    if not np.all(finite):
        axes = {name: (1,) * (g.ndim - finite.ndim) for name, g in slopes.items()}
        slopes = {name: np.where(finite.reshape(finite.shape + axes[name]), g, np.nan) for name, g in slopes.items()}
    if not (np.all(finite) and all(np.all(np.isfinite(g)) for g in slopes.values())):
        why = "" if q.not_finite is None else f": {q.not_finite.says}; {q.not_finite.hint}"
        notes.append(f"{'the gradient' if np.all(finite) else 'f'} is not finite here{why}")
    zero = _ZERO * _natural_size(q, slopes)
    kept = {name: digits_kept(g, bounds[name], zero) for name, g in slopes.items()}
    unknown = [name for name, digits in kept.items() if np.any(digits < 1)]
    found = {name: _round_entries(slopes[name], bounds[name], digits) for name, digits in kept.items()}
    if any(np.any(digits < -math.log10(_WHOLE)) for digits in kept.values()):
        notes.append(_digits_note(q, kept))
    notes += [f"the gradient may be a convention here: {says}" for says in dict.fromkeys(mark.says for mark in q.kinks)]
    whole = not unknown and not any(np.any(~np.isfinite(g)) for g in found.values())
    return GradReport(
        Target(q.f.kind, q.f.text), q.point.values, q.point.drawn, q.seed, q.value,
        ABSENT if vector else found, found if vector else ABSENT,
        describe_environment(), exit_status=int(Exit.CONFIRMED if whole else Exit.INCONCLUSIVE), notes=tuple(notes),
        bound=bounds if known else ABSENT,
    )  # fmt: skip


def _natural_size(q: Question, slopes: dict[str, Array]) -> float:
    """Return the size that entries of the gradient have if they do not cancel: of the largest, or of f over its inputs."""

    def largest(xs: Any) -> float:
        sizes = (float(np.max(np.abs(x), initial=0.0, where=np.isfinite(x))) for x in map(np.asarray, xs))
        return max(sizes, default=0.0)

    return max(largest(slopes.values()), largest([q.value]) / max(largest(q.xs), 1.0))


def digits_kept(slopes: Array, bounds: Array, zero: float) -> Array:
    """Return how many decimal digits of each entry its bound leaves; infinite where none is left out, or no bound is known.

    Shapes  as the slopes.
    Units   `zero`, in units of the gradient, is the bound up to which an entry within its bound counts as zero.
    """
    size = np.abs(slopes)
    with np.errstate(all="ignore"):
        digits = np.maximum(np.log10(size) - np.log10(bounds), 0.0)
    whole = ~np.isfinite(size) | np.isnan(bounds)
    whole |= (bounds <= np.maximum(_WHOLE * size, _NOTHING)) | ((bounds >= size) & (bounds <= zero))
    return np.where(whole, np.inf, digits)


def _round_entries(slopes: Array, bounds: Array, digits: Array) -> Any:
    """Return the entries without the digits that rounding has taken: zero where it is all, nan where none is left."""
    made = np.where(digits < 1, np.nan, slopes)
    made = np.where(np.isinf(digits) & (bounds >= np.abs(slopes)) & (bounds > _NOTHING), 0.0, made)
    some = (digits >= 1) & np.isfinite(digits)
    made[some] = [float(f"{x:.{int(kept)}g}") for x, kept in zip(slopes[some], digits[some], strict=True)]
    return made[()]


def _digits_note(q: Question, kept: dict[str, Array]) -> str:
    """Return a sentence that says how many digits are right, of the worst entry."""
    name = min(kept, key=lambda one: float(np.min(kept[one], initial=np.inf)))
    at = np.unravel_index(int(np.argmin(kept[name])), kept[name].shape) if kept[name].ndim else ()
    output, index = tuple(map(int, at[: len(shape(q.value))])), tuple(map(int, at[len(shape(q.value)) :]))
    entry = f"d{numbers.entry_name('f', output)}/d{numbers.entry_name(name, index)}"
    digits = int(kept[name][at])
    if q.unbounded:
        return f"no digit of the gradient is known to be right: {q.unbounded}"
    if digits < 1:
        count = sum(int(np.sum(one < 1)) for one in kept.values())
        more = "" if count == 1 else f", and of {count - 1} other{'s' if count > 2 else ''}"
        return f"rounding leaves no right digit of {entry}{more}: printed as nan"
    return f"rounding leaves {digits} right digit{'' if digits == 1 else 's'} of {entry}, the worst; the others are not printed"
