"""Values without their derivatives, for rules that depend on where a value is zero."""

from typing import Any

import numpy as np

from gradcli.tracing.primitive import Primitive, Value
from gradcli.tracing.tracer import Tracer

IS_ZERO = Primitive("is_zero", np.equal, (), kind="constant", on=())


def unmoving(x: Value) -> Value:
    """Return `x` without its derivative: the plain value, or an abstract one while a program is written."""
    while isinstance(x, Tracer):
        if x.detached is not None:
            return x.detached()
        x = x.primal
    return x


def is_zero(x: Value) -> Any:
    """Return where a value is zero, for a rule that has a separate formula there; a tape records the answer.

    This is not a branch of the user's code: both formulas compute the same function.
    """
    answer = np.equal(unmoving(x), 0)
    while isinstance(x, Tracer) and x.detached is None:
        x.note(IS_ZERO, np.float64(0), answer)
        x = x.primal
    return answer
