"""The table of aten operations, and what its rows are written with, such as torch's conventions for axes.

A row takes an operation's arguments as torch records them, with gradcli values in place of tensors, and runs numpy. It
does not use torch. Names leave out the overload: `add.Tensor` and `add.Scalar` are one row.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from gradcli.errors import NoRule
from gradcli.tracing import shapes
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape

Row = Callable[..., Any]
TABLE: dict[str, Row] = {}
Axes = tuple[int, ...]


def register(rows: dict[str, Row]) -> None:
    """Add rows to the table. Raises ValueError for a name that is in it already."""
    for name, row in rows.items():
        if name in TABLE:
            raise ValueError(f"{name} is declared twice")
        TABLE[name] = _with_plain_numbers(row)


def aten(*names: str) -> Callable[[Row], Row]:
    """Return a decorator that adds a function to the table under these names, or under its own."""

    def declare(row: Row) -> Row:
        register(dict.fromkeys(names or (row.__name__,), row))
        return row

    return declare


def _with_plain_numbers(row: Row) -> Row:
    """Return a row that returns numbers in place of arrays without axes."""

    @wraps(row)
    def run(*args: Any, **kwargs: Any) -> Any:
        y = row(*args, **kwargs)
        return tuple(map(as_number, y)) if isinstance(y, tuple | list) else as_number(y)

    return run


def as_number(y: Any) -> Any:
    """Return an array without axes as the number it holds, anything else as it is."""
    return y[()] if type(y) is np.ndarray and not y.ndim else y


def axis(dim: int, ndim: int) -> int:
    """Return an axis counted from 0; a scalar is treated as a vector."""
    return shapes.normalise_axes(int(dim), max(ndim, 1))[0]


def axes(dim: Any, x: Value) -> Axes:
    """Return the axes to reduce over: all for None and for an empty list, none for a scalar."""
    ndim = len(shape(x))
    if dim is None or not ndim or (not isinstance(dim, int) and not len(dim)):
        return tuple(range(ndim))
    return shapes.normalise_axes(dim, ndim)


def allow_scalars(row: Row) -> Row:
    """Return a row `f(x, axis, ...)` that treats a scalar as a vector of one entry, and returns scalars for it."""

    @wraps(row)
    def run(x: Value, dim: int, *args: Any, **kwargs: Any) -> Any:
        if shape(x):
            return row(x, axis(dim, len(shape(x))), *args, **kwargs)
        y = row(np.reshape(x, (1,)), 0, *args, **kwargs)
        return tuple(np.reshape(part, ()) for part in y) if isinstance(y, tuple) else np.reshape(y, ())

    return run


def at_axis(k: int, *index: Any) -> tuple[Any, ...]:
    """Return an index that takes every axis before `k` whole, and then `index`."""
    return (slice(None),) * k + index


def scale_by(x: Value, factor: Any) -> Value:
    """Return factor * x, without a multiplication if the factor is 1."""
    return x if isinstance(factor, int | float) and factor == 1 else factor * x


def reduce_loss(x: Value, reduction: int) -> Value:
    """Return losses as they are (0), their mean (1) or their sum (2)."""
    return x if reduction == 0 else np.mean(x) if reduction == 1 else np.sum(x)


def missing_rule(what: str, do: str = "write it with operations that have one") -> NoRule:
    """Return the error for an operation, or an option of one, that is not replayed."""
    return NoRule(f"{what} has no derivative rule", do=do)


ROUNDED_BETWEEN = frozenset({  # of several operations, each rounded: in a narrow format torch's decomposition is recorded
    "mse_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "binary_cross_entropy", "nll_loss_forward",
    "nll_loss2d_forward", "glu", "hardswish", "native_layer_norm", "native_group_norm",
})  # fmt: skip
UP_TO_SIGN = frozenset({"_linalg_eigh", "_linalg_svd", "linalg_qr"})  # the columns' signs differ between libraries
