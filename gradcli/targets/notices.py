"""Warnings about calls that run but may not mean what the user intended; they depend on the values of a run."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape

Notice = Callable[[Sequence[Value], Mapping[str, Value]], str | None]


def _first(args: Sequence[Value], kwargs: Mapping[str, Value]) -> Value:
    return args[0] if args else next(iter(kwargs.values()))


def transposed(args: Any, kwargs: Any) -> str | None:
    """Warn of `.T` of a vector."""
    return (
        ".T of a vector does nothing: for the product of a column and a row write outer(a, b)"
        if len(shape(_first(args, kwargs))) == 1
        else None
    )


def axisless(args: Any, kwargs: Any) -> str | None:
    """Warn of a softmax or logsumexp over all entries of a matrix."""
    if len(shape(_first(args, kwargs))) < 2 or len(args) > 1 or "axis" in kwargs:
        return None
    return "without axis, all entries of the matrix are taken together: write axis=-1 for rows, axis=0 for columns"


def doubled(args: Any, kwargs: Any) -> str | None:
    """Warn of logits that look like the result of a softmax."""
    z = np.asarray(_first(args, kwargs))
    axis = kwargs.get("axis", -1)
    if z.ndim and np.all(z >= 0) and np.allclose(np.sum(z, axis=axis), 1):
        return "these logits look like probabilities: cross_entropy takes the softmax itself"
    return None


NOTICES: dict[str, Notice] = {
    "softmax": axisless,
    "log_softmax": axisless,
    "logsumexp": axisless,
    "cross_entropy": doubled,
}
