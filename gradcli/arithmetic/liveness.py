"""Liveness: which values a rule reads, so that the tape need not keep the others until the reverse sweep.

The rules of elementwise primitives are small functions of `(y, *xs)`; their byte code shows which parameters they load.
Rules of linear primitives never read the result.
"""

import dis
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gradcli.rules.kinds import Factor, Partial
from gradcli.tracing.primitive import Primitive, Value
from gradcli.tracing.shapes import Forgotten

_LARGE = 512  # entries; a smaller value is always kept
_VARIADIC = 0x04 | 0x08  # flags of code with *args or **kwargs


def without(primitive: Primitive, slots: Sequence[int], xs: Sequence[Value], y: Value) -> tuple[Sequence[Value], Value]:
    """Return a line's operands and result, with large arrays that its rules do not read replaced by their shapes."""
    if type(y) is not np.ndarray or y.size < _LARGE:
        return xs, y
    if len(xs) == 1:
        read_y, read = _read_of_one(primitive)
        return (xs if read else (_forgotten(xs[0]),)), (y if read_y else _shape_alone(y.shape))
    if len(xs) == 2:
        read_y, first, second = _read_of_two(primitive, slots[0] >= 0, slots[1] >= 0)
        a, b = xs
        xs = (a if first else _forgotten(a), b if second else _forgotten(b))
        return xs, (y if read_y else _shape_alone(y.shape))
    return xs, y


def _forgotten(x: Value) -> Value:
    return _shape_alone(x.shape) if type(x) is np.ndarray else x


_shape_alone = lru_cache(maxsize=256)(Forgotten)


@lru_cache(maxsize=1024)
def _read_of_one(primitive: Primitive) -> tuple[bool, bool]:
    read = read_by_rules(primitive, (True,))
    return 0 in read, 1 in read


@lru_cache(maxsize=1024)
def _read_of_two(primitive: Primitive, first: bool, second: bool) -> tuple[bool, bool, bool]:
    read = read_by_rules(primitive, (first, second))
    return 0 in read, 1 in read, 2 in read


@lru_cache(maxsize=1024)
def read_by_rules(primitive: Primitive, moving: tuple[bool, ...]) -> frozenset[int]:
    """Return the positions in `(y, *xs)` that are read by the rules of the operands marked in `moving`."""
    everything = frozenset(range(1 + len(moving)))
    if primitive.kind in ("linear", "bilinear"):
        return everything - {0}
    if primitive.kind != "elementwise":
        return everything
    read: set[int] = set()
    for i in (i for i, moves in enumerate(moving) if moves):
        rule = primitive.rule(i)
        loaded = _loaded(rule.kernel or rule.partial) if isinstance(rule, Partial) else set()
        if loaded is None or not isinstance(rule, Partial | Factor):
            return everything
        read |= loaded
    return frozenset(read)


def _loaded(function: Callable[..., Any]) -> set[int] | None:
    """Return the positions of the parameters that a function's code loads; None if that cannot be determined."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_flags & _VARIADIC or code.co_cellvars:
        return None
    names = code.co_varnames[: code.co_argcount]
    loads = [step.argval for step in dis.get_instructions(code) if "LOAD_FAST" in step.opname]
    used = {name for load in loads for name in (load if isinstance(load, tuple) else (load,))}
    return {k for k, name in enumerate(names) if name in used}
