"""What the error of a claim looks like that no single mistake explains."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.core.shapes import shape
from gradcli.diagnosis.wrong import Wrong
from gradcli.report import numbers
from gradcli.report.check import Diagnosis

_ALIKE = 1e-6  # relative: a pattern explains an error that it leaves less of
_LAWS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("proportional to {}", lambda x, g: x),
    ("proportional to {}**2", lambda x, g: x * x),
    ("proportional to the sign of {}", lambda x, g: np.sign(x)),
    ("proportional to 1/{}", lambda x, g: 1 / x),
    ("proportional to the square of its gradient", lambda x, g: g * g),
)


def pattern(wrong: Wrong) -> Diagnosis:
    """Return what is known of the error: a law it follows, which entries it is in, its sign and size."""
    notes = "".join(f" ({note})" for note in wrong.notes)
    says = f"no mistake that gradcli knows explains the claim{notes}; its error{_law(wrong) or _shape(wrong)}"
    return wrong.says("unknown", says)


def _law(wrong: Wrong) -> str | None:
    for name in wrong.names:
        x = wrong.q.point.values[name]
        error, g = np.asarray(wrong.claimed[name] - wrong.right[name]), np.asarray(wrong.right[name])
        if len(wrong.names) > 1 or shape(error) != shape(x) or np.size(error) < 3:
            return None
        for says, makes in _LAWS:
            with np.errstate(all="ignore"):
                basis = np.where(np.isfinite(makes(x, g)), makes(x, g), 0.0)
                factor = float(np.sum(error * basis) / max(float(np.sum(basis * basis)), 1e-300))
                left = float(np.max(np.abs(error - factor * basis)))
            if left <= _ALIKE * float(np.max(np.abs(error))):
                return f" is {factor:.6g} times {says.removeprefix('proportional to ').format(name)}"
    return None


def _shape(wrong: Wrong) -> str:
    parts = []
    for name in wrong.names:
        error = np.asarray(wrong.claimed[name] - wrong.right[name])
        mask = np.asarray(wrong.masks[name])
        signs = np.sign(error[mask])
        word = "positive" if np.all(signs > 0) else "negative" if np.all(signs < 0) else "of both signs"
        size = float(np.max(np.abs(error[mask]))) / max(float(np.max(np.abs(wrong.right[name]), initial=0.0)), 1e-300)
        where = wrong.alone(name).where() or f" in every entry of {name}"
        rank = ", of rank one" if _rank_one(error) else ""
        parts.append(f"{where.removeprefix(' in ')} ({word}{rank}, up to {numbers.power(size)} of the largest entry)")
    return " is in " + " and ".join(parts)


def _rank_one(error: Any) -> bool:
    if np.ndim(error) != 2 or min(error.shape) < 2 or not np.all(np.isfinite(error)):
        return False
    values = np.linalg.svd(error, compute_uv=False)
    return bool(values[1] < _ALIKE * values[0])
