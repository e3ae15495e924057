"""An a priori bound of the rounding in LAPACK's factorisations, whose kernels differ between processors."""

from collections.abc import Iterable, Sequence

import numpy as np

from gradcli.arithmetic.arb import MATRICES
from gradcli.arithmetic.tape import Line
from gradcli.modes.rounding import EPS
from gradcli.tracing.primitive import Primitive, Value

_SOLVES = frozenset({"det", "logdet", "inv", "solve", "cholesky"})  # operations whose slopes divide by the matrix
_LOST = 1e-2  # n times the condition number, in roundings of one: above it errors no longer grow with the perturbation
_SINGULAR = 1e12  # roundings, at most: for a singular matrix nothing is known


def factored(lines: Iterable[Line]) -> bool:
    """Whether LAPACK factors a matrix in one of the lines: balls use other algorithms, and do not bound its rounding."""
    return any(p is not None and p.kind == "differential" and p.name in MATRICES for p, *_ in lines)


def solves_singular(lines: Iterable[Line]) -> bool:
    """Whether a matrix that one of the lines solves with is singular up to rounding: no run shows how far off its result is."""
    return any(
        primitive is not None and primitive.name in _SOLVES and EPS * _condition_times_size(xs[0]) > _LOST
        for primitive, _, xs, *_ in lines
    )


def roundings_of(primitive: Primitive, xs: Sequence[Value]) -> float:
    """Return by how many roundings the result of an operation may be off: one, or for LAPACK n times the condition number."""
    if primitive.kind != "differential" or primitive.name not in MATRICES:
        return 1.0
    return min(_condition_times_size(xs[0]), _SINGULAR)


def _condition_times_size(a: Value) -> float:
    """Return n times the condition number of a matrix, the largest of several; 1 for what is no matrix of numbers."""
    if not isinstance(a, np.ndarray) or a.ndim < 2 or not a.size or not np.all(np.isfinite(a)):
        return 1.0
    return float(max(a.shape[-2:]) * np.max(np.linalg.cond(a)))
