"""Handlers of the options and methods of every ufunc: where=, out=, reduce, accumulate, outer, at, reduceat."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.errors import NoRule
from gradcli.rules.options import given, real_dtype, truth, with_last
from gradcli.rules.shaping import GETITEM, as_value
from gradcli.tracing import shapes
from gradcli.tracing.bind import bind, handles_method
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape
from gradcli.tracing.storage import write
from gradcli.tracing.tracer import Tracer, frozen, store

_REDUCTIONS: dict[Any, Callable[..., Any]] = {
    np.add: np.sum, np.multiply: np.prod, np.maximum: np.max, np.minimum: np.min, np.logical_or: np.any, np.logical_and: np.all,
}  # fmt: skip
_ACCUMULATIONS: dict[Any, Callable[..., Any]] = {np.add: np.cumsum, np.multiply: np.cumprod}
_IGNORED = ("casting", "order", "subok")
Options = dict[str, Any]


def _taken(ufunc: Any, options: Options, *names: str) -> list[Any]:
    """Return the named options, None where one is not given.

    Raises  NoRule if any other option is given.
    """
    found = {name: value for name, value in options.items() if given(value) and name not in _IGNORED}
    real_dtype(ufunc.__name__, found.pop("dtype", None))
    taken = [found.pop(name, None) for name in names]
    if found:
        raise NoRule(f"np.{ufunc.__name__} with {', '.join(sorted(found))}= has no derivative rule", do="leave it out")
    return taken


def _stored(out: Any, y: Value) -> Value:
    return y if out is None or (isinstance(out, tuple) and out[0] is None) else store(out, y)


@handles_method("__call__")
def called(ufunc: Any, inputs: Sequence[Value], options: Options) -> Value:
    """Return the ufunc of the entries that where= selects; other entries keep their values in out=.

    Raises  NoRule for where= without out=, or for an option that has no rule.
    """
    if ufunc.signature is not None:
        out, *rest = _taken(ufunc, options, "out", "axis", "axes", "keepdims")
        names = {name: value for name, value in zip(("axis", "axes", "keepdims"), rest, strict=True) if given(value)}
        return _stored(out, bind(ufunc, *inputs, **names))
    out, where = _taken(ufunc, options, "out", "where")
    if where is None or where is True:
        return _stored(out, bind(ufunc, *inputs))
    if out is None or len(out) != 1:
        raise NoRule(
            f"np.{ufunc.__name__} with where= and no out= leaves entries undefined", do="add out=np.zeros_like(x)"
        )
    target = out[0]
    where = np.broadcast_to(truth(where), shape(target))
    parts = [np.broadcast_to(x, shape(target))[where] for x in inputs]  # excluded entries must not affect slopes
    write(target, where, bind(ufunc, *parts))
    return target


@handles_method("reduce")
def reduced(ufunc: Any, inputs: Sequence[Value], options: Options) -> Value:
    """Return the reduction by the ufunc along an axis, by default the first, from left to right.

    Raises  ValueError for several axes if the ufunc is not reorderable; NoRule for where= without a rule.
    """
    a, *positional = inputs
    names = ("axis", "dtype", "out", "keepdims", "initial", "where")
    options = {"axis": 0} | options | dict(zip(names, positional, strict=False))
    axis = options.pop("axis")
    out, keepdims, initial, where = _taken(ufunc, options, "out", "keepdims", "initial", "where")
    known = {"keepdims": bool(keepdims), "initial": initial, "where": where}
    if ufunc in _REDUCTIONS:
        wanted = {name: value for name, value in known.items() if value is not None}
        return _stored(out, bind(_REDUCTIONS[ufunc], a, axis=axis, **wanted))
    if where is not None and where is not True:
        raise NoRule(f"np.{ufunc.__name__}.reduce with where= has no derivative rule", do="select the entries first")
    over = shapes.axes(axis, len(shape(a)))
    if len(over) > 1 and ufunc.identity is None:
        raise ValueError(
            f"reduction operation '{ufunc.__name__}' is not reorderable, so at most one axis may be specified"
        )
    rows = with_last(a, over)
    start = initial if initial is not None else ufunc.identity if not shape(rows)[-1] or ufunc is np.hypot else None
    y = _folded(ufunc, rows, start)
    return _stored(out, shapes.with_kept(y, over, a) if keepdims else y)


def _folded(ufunc: Any, rows: Value, start: Any) -> Value:
    """Return the reduction by the ufunc along the last axis of `rows`, from left to right."""
    columns = [rows[..., k] for k in range(shape(rows)[-1])]
    if start is not None:
        columns.insert(
            0, np.broadcast_to(np.float64(start), shape(rows)[:-1]) if shape(rows)[:-1] else np.float64(start)
        )
    if not columns:
        raise ValueError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity")
    y = columns[0]
    for column in columns[1:]:
        y = bind(ufunc, y, column)
    return y


@handles_method("accumulate")
def accumulated(ufunc: Any, inputs: Sequence[Value], options: Options) -> Value:
    """Return all partial results of the reduction along an axis, by default the first."""
    a, *positional = inputs
    options = {"axis": 0} | options | dict(zip(("axis", "dtype", "out"), positional, strict=False))
    axis = options.pop("axis")
    (out,) = _taken(ufunc, options, "out")
    if ufunc in _ACCUMULATIONS:
        return _stored(out, bind(_ACCUMULATIONS[ufunc], a, axis=axis))
    rows = np.moveaxis(a, axis, 0)
    parts = [rows[0]] if shape(rows)[0] else []
    for k in range(1, shape(rows)[0]):
        parts.append(bind(ufunc, parts[-1], rows[k]))
    return _stored(out, np.moveaxis(np.stack(parts), 0, axis) if parts else np.positive(a))


@handles_method("outer")
def outer(ufunc: Any, inputs: Sequence[Value], options: Options) -> Value:
    """Return the ufunc of every pair of entries."""
    a, b = inputs
    grown = np.reshape(a, shape(a) + (1,) * len(shape(b))) if shape(b) else a
    return called(ufunc, (grown, b), options) if options else bind(ufunc, grown, b)


@handles_method("at")
def at(ufunc: Any, inputs: Sequence[Value], options: Options) -> None:
    """Apply the ufunc in place at positions, once for each time a position occurs."""
    a, index, *others = inputs
    if not isinstance(a, Tracer):
        write(a, index, None)
    flat = np.arange(shapes.size(a)).reshape(shape(a))[frozen(index)]
    spread = [np.reshape(np.broadcast_to(as_value(b), np.shape(flat)), -1) for b in others]
    where = np.ravel(flat)
    order = np.argsort(where, kind="stable")
    turn = np.empty(where.size, dtype=int)
    turn[order] = np.arange(where.size) - np.searchsorted(where[order], where[order])  # earlier occurrences
    for number in range(turn.max(initial=-1) + 1):
        now = np.flatnonzero(turn == number)
        places = np.unravel_index(where[now], shape(a))
        write(a, places, bind(ufunc, GETITEM(a, index=places), *(GETITEM(b, index=now) for b in spread)))


@handles_method("reduceat")
def reduced_at(ufunc: Any, inputs: Sequence[Value], options: Options) -> Value:
    """Return reductions of the slices that begin at each index and end at the next."""
    a, indices, *positional = inputs
    options = {"axis": 0} | options | dict(zip(("axis", "dtype", "out"), positional, strict=False))
    axis = options.pop("axis")
    (out,) = _taken(ufunc, options, "out")
    rows, starts = np.moveaxis(a, axis, 0), [int(k) for k in indices]
    ends = [*starts[1:], shape(rows)[0]]
    parts = [
        reduced(ufunc, (rows[start:end],), {}) if start < end else rows[start]
        for start, end in zip(starts, ends, strict=True)
    ]
    return _stored(out, np.moveaxis(np.stack(parts), 0, axis))
