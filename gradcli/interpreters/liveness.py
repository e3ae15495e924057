"""Which values a rule reads: what no rule on a tape will read need not be kept until the way back.

The rules of elementwise primitives are small functions of `(y, *xs)`: which of their parameters they load is read off their
code. Rules that are linear never read the result.
"""

import dis
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from gradcli.core.primitive import Primitive, Value
from gradcli.core.shapes import Forgotten
from gradcli.primitives.kinds import Factor, Partial

_LARGE = 512  # entries, from which on a value is worth forgetting
_VARIADIC = 0x04 | 0x08  # flags of code with *args or **kwargs


def without(primitive: Primitive, slots: Sequence[int], xs: Sequence[Value], y: Value) -> tuple[Sequence[Value], Value]:
    """Return a line's operands and result, where large ones that its rules do not read are shapes alone."""
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
    """Return the positions in `(y, *xs)` that the rules of the operands that move read."""
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
    """Return the positions of the parameters that a function's code loads; None where that cannot be told."""
    code = getattr(function, "__code__", None)
    if code is None or code.co_flags & _VARIADIC or code.co_cellvars:
        return None
    names = code.co_varnames[: code.co_argcount]
    loads = [step.argval for step in dis.get_instructions(code) if "LOAD_FAST" in step.opname]
    used = {name for load in loads for name in (load if isinstance(load, tuple) else (load,))}
    return {k for k, name in enumerate(names) if name in used}
