"""An a priori bound of the rounding in LAPACK's factorisations, whose kernels differ between processors."""

from collections.abc import Iterable, Sequence

import numpy as np

from gradcli.core.primitive import Primitive, Value
from gradcli.interpreters.tape import Line
from gradcli.lowering.arb_matrices import MATRICES

_SINGULAR = 1e12  # roundings, at most: for a singular matrix nothing is known


def factored(lines: Iterable[Line]) -> bool:
    """Whether LAPACK factors a matrix in one of the lines: balls use other algorithms, and do not bound its rounding."""
    return any(p is not None and p.kind == "differential" and p.name in MATRICES for p, *_ in lines)


def roundings_of(primitive: Primitive, xs: Sequence[Value]) -> float:
    """Return by how many roundings the result of an operation may be off: one, or for LAPACK n times the condition number."""
    if primitive.kind != "differential" or primitive.name not in MATRICES:
        return 1.0
    if not isinstance(xs[0], np.ndarray) or xs[0].ndim < 2 or not xs[0].size or not np.all(np.isfinite(xs[0])):
        return 1.0
    condition = float(np.max(np.linalg.cond(xs[0])))
    return float(min(max(xs[0].shape[-2:]) * condition, _SINGULAR))
