"""Describe the error of a claim that no single mistake explains."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.core.shapes import end_to_end, shape
from gradcli.diagnosis.wrong import Wrong
from gradcli.reports import numbers
from gradcli.reports.point_report import Diagnosis
from gradcli.words import DiagnosisKind

_ALIKE = 1e-6  # relative to the first singular value: smaller ones are rounding errors
_FEWEST = 3  # entries whose errors must follow a law
_LAWS: tuple[tuple[str, Callable[..., Any]], ...] = (
    ("{}", lambda x, g: x),
    ("{}**2", lambda x, g: x * x),
    ("the sign of {}", lambda x, g: np.sign(x)),
    ("1/{}", lambda x, g: 1 / x),
    ("the square of its gradient", lambda x, g: g * g),
)
_PENALTIES = {"{}": "a quadratic", "the sign of {}": "an absolute"}


def by_law(wrong: Wrong) -> Diagnosis | None:
    """Return the law that the error follows: one number times a function of the inputs or their gradients; or None."""
    names, values = wrong.names, wrong.q.point.values
    error = end_to_end(wrong.claimed[name] - wrong.right[name] for name in names)
    if shape(wrong.q.value) != () or error.size < _FEWEST:
        return None
    for says, makes in _LAWS:
        with np.errstate(all="ignore"):
            bases = {name: np.asarray(makes(values[name], wrong.right[name])) for name in names}
        basis = end_to_end(bases.values())
        if not np.all(np.isfinite(basis)) or not np.any(basis):
            continue
        factor = float(error @ basis / (basis @ basis))
        if wrong.explained({name: wrong.right[name] + factor * bases[name] for name in names}):
            if says in _PENALTIES:
                lost = "is missing" if factor < 0 else "is too much"
                term = f"{abs(factor):.6g} times {says.format(' and '.join(names))}"
                return wrong.says(
                    DiagnosisKind.TERM, f"a term {lost}: {term}, the gradient of {_PENALTIES[says]} penalty"
                )
            return _unknown(wrong, f" is {factor:.6g} times {says.format(' and '.join(names))}")
    return None


def pattern(wrong: Wrong) -> Diagnosis:
    """Return a diagnosis that describes an unexplained error: the entries it is in, its sign and its size."""
    return _unknown(wrong, _shape(wrong))


def _unknown(wrong: Wrong, says: str) -> Diagnosis:
    notes = "".join(f" ({note})" for note in wrong.notes)
    return wrong.says(
        DiagnosisKind.UNKNOWN, f"no mistake that gradcli knows explains the claim{notes}; its error{says}"
    )


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
