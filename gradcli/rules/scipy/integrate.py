"""scipy.integrate: rules on samples. What is not here, such as trapezoid and simpson, is traced through scipy's own lines."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.rules.scipy.linear import linear_stand_in
from gradcli.rules.shaping import as_value
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape


def cumulative_trapezoid(y: Value, x: Value | None = None, dx: Any = 1.0, axis: int = -1, initial: Any = None) -> Value:
    y = np.moveaxis(as_value(y), axis, -1)
    if x is None:
        steps = dx
    else:
        x = as_value(x)
        steps = np.diff(x if len(shape(x)) == 1 else np.moveaxis(x, axis, -1), axis=-1)
    found = np.cumsum(steps * (y[..., 1:] + y[..., :-1]) / 2, axis=-1)
    if initial is not None:
        first = np.broadcast_to(np.float64(initial), (*shape(found)[:-1], 1))
        found = np.concatenate([first, found], axis=-1)
    return np.moveaxis(found, -1, axis)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cumulative_trapezoid": cumulative_trapezoid,
    "cumulative_simpson": linear_stand_in("scipy.integrate", "cumulative_simpson", "y"),
}
