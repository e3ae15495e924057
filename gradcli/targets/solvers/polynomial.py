"""np.roots: the roots of a polynomial by its coefficients, which solve the equation p(r) = 0."""

from typing import Any

import numpy as np

from gradcli.errors import NoRule
from gradcli.rules.shaping import as_value
from gradcli.targets.solvers.optimize import Root
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import plain


def roots(p: Value) -> Value:
    """Return the roots in numpy's order, real if all of them are real.

    Raises  NoRule where the first or the last coefficient is 0: the number of the other roots depends on it.
    """
    coefficients = as_value(p)
    first = plain(coefficients)
    if len(shape(coefficients)) != 1 or len(first) < 2 or first[0] == 0 or first[-1] == 0:
        raise NoRule("np.roots has a rule where neither the first nor the last coefficient is 0", do="leave them out")
    count = len(first) - 1

    def solver(parts: Any) -> Any:
        found = np.roots(parts)
        return np.concatenate([np.real(found), np.imag(found)])

    def residual(parts: Any, x: Value) -> Value:
        r = x[:count] + x[count:] * np.complex128(1j)
        y: Any = 0.0
        for k in range(count + 1):
            y = y * r + parts[k]
        return np.concatenate([np.real(y), np.imag(y)])

    both = Root("np.roots", coefficients, solver, residual).traced()
    if not np.iscomplexobj(np.roots(first)):
        return both[:count]
    return both[:count] + both[count:] * np.complex128(1j)
