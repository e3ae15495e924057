"""The options that numpy's functions share: dtype=, out=, where=, keepdims=, initial=."""

from typing import Any

import numpy as np

from gradcli.errors import NoRule
from gradcli.tracing import shapes
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import Tracer, store

_UNSET: Any = getattr(np, "_NoValue", None)
Axes = tuple[int, ...]


def given(value: Any) -> bool:
    """Return whether an option is given: it is neither None nor numpy's placeholder for no value."""
    return value is not None and value is not _UNSET


def given_or(value: Any, default: Any) -> Any:
    """Return an option, or its default where it is not given."""
    return value if given(value) else default


def real_dtype(name: str, dtype: Any) -> None:
    """Check that a dtype, if it is given, is float64.

    Raises  NoRule for any other dtype.
    """
    if given(dtype) and np.dtype(dtype) != np.float64:
        raise NoRule(f"{name} with dtype={np.dtype(dtype).name} has no derivative rule", do="leave out dtype=")


def refuse(name: str, **options: Any) -> None:
    """Raise NoRule for any option that is given."""
    for option, value in options.items():
        if given(value):
            raise NoRule(f"{name} with {option}= has no derivative rule", do=f"leave out {option}=")


def truth(x: Value) -> Any:
    """Return a value as plain booleans; for a traced value, the comparison with 0 is recorded."""
    return np.not_equal(x, 0) if isinstance(x, Tracer) else np.asarray(x, dtype=bool)


def stored(out: Any, y: Value) -> Value:
    """Return a result, written into `out` if that is given."""
    return store(out, y) if given(out) else y


def kept(y: Value, keepdims: Any, over: Axes, x: Value) -> Value:
    """Return a reduced value; with `keepdims`, the reduced axes are put back with length 1."""
    return shapes.with_kept(y, over, x) if given(keepdims) and keepdims else y


def masked(a: Value, where: Any, filling: float) -> Value:
    """Return `a` with the entries that `where` excludes replaced by `filling`."""
    return np.where(truth(where), a, filling) if given(where) and where is not True else a


def with_last(x: Value, over: Axes) -> Value:
    """Return `x` with the axes `over` moved to the end, as one axis."""
    kept_axes = tuple(k for k in range(len(shape(x))) if k not in over)
    moved = np.transpose(x, (*kept_axes, *over)) if shape(x) else x
    return np.reshape(moved, (*(shape(x)[k] for k in kept_axes), -1 if shapes.size(x) else _length(x, over)))


def _length(x: Value, over: Axes) -> int:
    length = 1
    for k in over:
        length *= shape(x)[k]
    return length


def reduced_over(a: Value, axis: Any) -> Axes:
    """Return the axes of a ufunc's reduction; for a scalar, axis 0 and axis -1 are accepted and mean no axes."""
    return () if not shape(a) and isinstance(axis, int) and axis in (0, -1) else shapes.axes(axis, len(shape(a)))


def counted(a: Value, over: Axes, where: Any = None) -> Any:
    """Return the number of entries in each reduction over the axes `over`: a number, or an array if `where` is given."""
    if not given(where) or where is True:
        return np.float64(_length(a, over))
    chosen = np.broadcast_to(truth(where), shape(a))
    return np.sum(chosen, axis=over).astype(float)[()]
