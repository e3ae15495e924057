"""The table of aten operations, and what its rows are written with: torch's ways of naming axes.

A row takes an operation's arguments as torch records them, with gradcli values in place of tensors, and runs numpy. It
knows nothing of torch. Names are those of the operations without their overloads: `add.Tensor` and `add.Scalar` are one row.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from gradcli.core import shapes
from gradcli.core.primitive import Value
from gradcli.core.shapes import shape
from gradcli.errors import NoRule

Row = Callable[..., Any]
TABLE: dict[str, Row] = {}
Axes = tuple[int, ...]


def add(rows: dict[str, Row]) -> None:
    """Add rows to the table; a name is declared once."""
    for name, row in rows.items():
        if name in TABLE:
            raise ValueError(f"{name} is declared twice")
        TABLE[name] = _unboxed(row)


def aten(*names: str) -> Callable[[Row], Row]:
    """Declare that the decorated function stands for the operations of these names, or of its own."""

    def declare(row: Row) -> Row:
        add(dict.fromkeys(names or (row.__name__,), row))
        return row

    return declare


def _unboxed(row: Row) -> Row:
    """Return a row that gives numbers where it gave arrays without axes."""

    @wraps(row)
    def run(*args: Any, **kwargs: Any) -> Any:
        y = row(*args, **kwargs)
        return tuple(map(number, y)) if isinstance(y, tuple | list) else number(y)

    return run


def number(y: Any) -> Any:
    """Return an array without axes as the number it holds, anything else as it is."""
    return y[()] if type(y) is np.ndarray and not y.ndim else y


def axis(dim: int, ndim: int) -> int:
    """Return an axis counted from 0; that of a scalar is 0, as if it had one."""
    return shapes.axes(int(dim), max(ndim, 1))[0]


def axes(dim: Any, x: Value) -> Axes:
    """Return the axes to reduce over: all of them for None and for an empty list, none of a scalar."""
    ndim = len(shape(x))
    if dim is None or not ndim or (not isinstance(dim, int) and not len(dim)):
        return tuple(range(ndim))
    return shapes.axes(dim, ndim)


def along(row: Row) -> Row:
    """Return a row `f(x, axis, ...)` that takes a scalar as one entry in a row, and gives scalars back."""

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


def scaled(x: Value, factor: Any) -> Value:
    """Return factor * x, without a step where that is x."""
    return x if isinstance(factor, int | float) and factor == 1 else factor * x


def reduced(x: Value, reduction: int) -> Value:
    """Return losses as they are (0), their mean (1) or their sum (2)."""
    return x if reduction == 0 else np.mean(x) if reduction == 1 else np.sum(x)


def refuse(what: str, do: str = "write it with operations that have one") -> NoRule:
    """Return the error for an operation, or an option of one, that is not replayed."""
    return NoRule(f"{what} has no derivative rule", do=do)


LAID_OUT = frozenset({"squeeze", "unsqueeze", "t", "transpose", "swapaxes", "as_strided", "detach"})
"""Operations whose in-place form (`squeeze_`) changes how a tensor lies and writes no entry: it becomes what the row gives."""
UP_TO_SIGN = frozenset({"_linalg_eigh", "_linalg_svd", "linalg_qr"})
"""Operations whose columns may have another sign in another library; what is made of them rightly has not."""
