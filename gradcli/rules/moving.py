"""Functions that only move entries: numpy is called on an array of positions to find where each entry goes."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.errors import NoRule
from gradcli.rules.shaping import GETITEM, RESHAPE, as_value
from gradcli.tracing import shapes
from gradcli.tracing.bind import handles
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import Tracer, frozen

# numpy's function, and which argument the array is, by position and by name
MOVES: dict[Callable[..., Any], tuple[int, str]] = {
    np.roll:            (0, "a"),
    np.tile:            (0, "A"),
    np.repeat:          (0, "a"),
    np.resize:          (0, "a"),
    np.take:            (0, "a"),
    np.take_along_axis: (0, "arr"),
    np.delete:          (0, "arr"),
    np.compress:        (1, "a"),
    np.extract:         (1, "arr"),
    np.lib.stride_tricks.sliding_window_view: (0, "x"),
}  # fmt: skip


def positions(x: Value, first: int = 0) -> Any:
    """Return the positions of the entries of `x` in C order, counted from `first`, in the shape of `x`."""
    return np.arange(first, first + shapes.size(x)).reshape(shape(x))


def flat(x: Value) -> Value:
    """Return a copy of the entries of `x` as a vector."""
    return RESHAPE(x, to=(shapes.size(x),))


def _moved(function: Callable[..., Any], place: int, name: str) -> Callable[..., Value]:
    def move(*args: Any, **kwargs: Any) -> Value:
        given: dict[Any, Any] = dict(enumerate(args)) | kwargs
        key = name if name in given else place
        x = as_value(given[key])
        given[key] = positions(x)
        rest: dict[Any, Any] = {k: given[k] if k == key else frozen(given[k]) for k in given}
        places = [rest.pop(k) for k in range(len(args))]
        return GETITEM(flat(x), index=function(*places, **rest))

    move.__wrapped__ = function  # type: ignore[attr-defined]  # its signature is numpy's
    move.__doc__ = f"Return what np.{function.__name__} returns, by moving entries."
    return move


for moving, (argument, called) in MOVES.items():
    handles(moving)(_moved(moving, argument, called))


@handles(np.insert)
def insert(arr: Value, obj: Any, values: Value, axis: int | None = None) -> Value:
    a, v = as_value(arr), as_value(values)
    at = np.insert(positions(a), frozen(obj), positions(v, shapes.size(a)), axis)
    return GETITEM(np.concatenate([flat(a), flat(v)]), index=at)


@handles(np.append)
def append(arr: Value, values: Value, axis: int | None = None) -> Value:
    return np.concatenate([as_value(arr), as_value(values)], axis=axis)


_PAD_MODES = ("edge", "reflect", "symmetric", "wrap")


@handles(np.pad)
def pad(array: Value, pad_width: Any, mode: Any = "constant", **options: Any) -> Value:
    """Return the array padded with constants, or with its own entries.

    Raises  NoRule for modes other than 'constant', 'edge', 'reflect', 'symmetric' and 'wrap', and for odd reflections.
    """
    x = as_value(array)
    if mode == "constant":
        v = as_value(options.pop("constant_values", 0.0))
        outside = positions(v, shapes.size(x))
        at = np.pad(positions(x), frozen(pad_width), mode, constant_values=outside, **options)
        return GETITEM(np.concatenate([flat(x), flat(v)]), index=at)
    if mode not in _PAD_MODES or options.get("reflect_type", "even") != "even":
        said = f"mode={mode!r}" if mode not in _PAD_MODES else f"reflect_type={options['reflect_type']!r}"
        raise NoRule(
            f"pad with {said} has no derivative rule",
            do="modes with one: 'constant', " + ", ".join(map(repr, _PAD_MODES)),
        )
    return GETITEM(flat(x), index=np.pad(positions(x), frozen(pad_width), mode, **options))


def _cut(ary: Value, parts: Sequence[Any], axis: int) -> list[Value]:
    """Return slices along an axis, one for each run of consecutive positions."""
    lead = (slice(None),) * axis
    return [ary[(*lead, slice(int(part[0]), int(part[-1]) + 1) if len(part) else slice(0, 0))] for part in parts]


@handles(np.array_split)
def array_split(ary: Value, indices_or_sections: Any, axis: int = 0) -> list[Value]:
    k = shapes.axes(axis, len(shape(ary)))[0]
    return _cut(ary, np.array_split(np.arange(shape(ary)[k]), frozen(indices_or_sections)), k)


@handles(np.split)
def split(ary: Value, indices_or_sections: Any, axis: int = 0) -> list[Value]:
    k = shapes.axes(axis, len(shape(ary)))[0]
    return _cut(ary, np.split(np.arange(shape(ary)[k]), frozen(indices_or_sections)), k)


@handles(np.hsplit)
def hsplit(ary: Value, indices_or_sections: Any) -> Any:
    return split(ary, indices_or_sections, 1 if len(shape(ary)) > 1 else 0)


@handles(np.vsplit)
def vsplit(ary: Value, indices_or_sections: Any) -> Any:
    if len(shape(ary)) < 2:
        raise ValueError("vsplit only works on arrays of 2 or more dimensions")
    return split(ary, indices_or_sections, 0)


@handles(np.dsplit)
def dsplit(ary: Value, indices_or_sections: Any) -> Any:
    if len(shape(ary)) < 3:
        raise ValueError("dsplit only works on arrays of 3 or more dimensions")
    return split(ary, indices_or_sections, 2)


@handles(getattr(np, "unstack", None))
def unstack(x: Value, /, *, axis: int = 0) -> tuple[Value, ...]:
    k = shapes.axes(axis, len(shape(x)))[0]
    return tuple(x[(*(slice(None),) * k, n)] for n in range(shape(x)[k]))


@handles(np.rollaxis)
def rollaxis(a: Value, axis: int, start: int = 0) -> Value:
    ndim = len(shape(a))
    labels = np.rollaxis(np.empty(tuple(range(1, ndim + 1))), axis, start).shape  # axis k has length k + 1
    return np.transpose(a, tuple(n - 1 for n in labels))


@handles(np.fliplr)
def fliplr(m: Value) -> Value:
    return np.flip(m, 1)


@handles(np.flipud)
def flipud(m: Value) -> Value:
    return np.flip(m, 0)


@handles(np.rot90)
def rot90(m: Value, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Value:
    i, j = (shapes.axes(axis, len(shape(m)))[0] for axis in axes)
    if i == j:
        raise ValueError("Axes must be different.")
    turns = k % 4
    if turns in (0, 2):
        return m[...] if turns == 0 else np.flip(np.flip(m, i), j)
    order = list(range(len(shape(m))))
    order[i], order[j] = order[j], order[i]
    return np.transpose(np.flip(m, j), order) if turns == 1 else np.flip(np.transpose(m, order), j)


@handles(np.broadcast_arrays)
def broadcast_arrays(*args: Value, subok: bool = False) -> tuple[Value, ...]:
    values = [as_value(x) for x in args]
    to = np.broadcast_shapes(*(shape(x) for x in values))
    return tuple(x if shape(x) == to else np.broadcast_to(x, to) for x in values)


@handles(np.meshgrid)
def meshgrid(*xi: Value, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> tuple[Value, ...]:
    if indexing not in ("xy", "ij"):
        raise ValueError("Valid values for `indexing` are 'xy' and 'ij'.")
    rows = [np.reshape(as_value(x), -1) for x in xi]
    axes = list(range(len(rows)))
    if indexing == "xy" and len(rows) > 1:
        axes[0], axes[1] = 1, 0
    grown = [
        np.reshape(row, tuple(-1 if k == axis else 1 for k in range(len(rows))))
        for row, axis in zip(rows, axes, strict=True)
    ]
    spread = grown if sparse else broadcast_arrays(*grown)
    return tuple(np.positive(x) if copy else x for x in spread)


@handles(np.block)
def block(arrays: Any) -> Value:
    """Return nested lists of blocks as one array: the innermost lists are joined along the last axis."""
    depth = _depth(arrays)
    ndim = max([depth, *(len(shape(x)) for x in _leaves(arrays))])
    return np.positive(_block(arrays, depth, ndim))


def _depth(arrays: Any) -> int:
    return 1 + _depth(arrays[0]) if isinstance(arrays, list) else 0


def _leaves(arrays: Any) -> list[Any]:
    return [leaf for part in arrays for leaf in _leaves(part)] if isinstance(arrays, list) else [arrays]


def _block(arrays: Any, depth: int, ndim: int) -> Value:
    if not isinstance(arrays, list):
        have = shape(arrays)
        return np.reshape(arrays, (1,) * (ndim - len(have)) + have)
    return np.concatenate([_block(part, depth - 1, ndim) for part in arrays], axis=ndim - depth)


@handles(np.kron)
def kron(a: Value, b: Value) -> Value:
    a, b = as_value(a), as_value(b)
    ndim = max(len(shape(a)), len(shape(b)))
    left, right = ((1,) * (ndim - len(shape(x))) + shape(x) for x in (a, b))
    spread_left = tuple(n for size in left for n in (size, 1))
    spread_right = tuple(n for size in right for n in (1, size))
    product = np.reshape(a, spread_left) * np.reshape(b, spread_right)
    return np.reshape(product, tuple(m * n for m, n in zip(left, right, strict=True)))


def is_traced(x: Any) -> bool:
    """Return whether a value, or any value in nested lists, is traced."""
    return any(map(is_traced, x)) if isinstance(x, list | tuple) else isinstance(x, Tracer)
