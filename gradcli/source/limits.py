"""How large a value would be, computed before it is allocated."""

import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.core.primitive import Primitive
from gradcli.core.shapes import shape
from gradcli.errors import TooLarge
from gradcli.source.names import CONSTRUCTORS, constructed_entries

MAX_ENTRIES = 2**27
MAX_TOTAL = 2**30
MAX_EXPONENT = 10**6
MAX_NODES = 20_000

_CONSTRUCTOR_NAMES = {function: name for name, function in CONSTRUCTORS.items()}
_BROADCASTING = {
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.pow,
    operator.mod,
    operator.floordiv,
}
_PRODUCTS = {operator.matmul, np.matmul, np.dot}


def entries(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> int:
    """Return an upper bound on the entries of `function(*args, **kwargs)`; shapes that do not fit count as 0 here."""
    name = _CONSTRUCTOR_NAMES.get(function)
    if name is not None:
        return constructed_entries(name, (*args, *kwargs.values()))
    shapes = [shape(x) for x in _flat(args) + _flat(list(kwargs.values()))]
    if function in _BROADCASTING or isinstance(function, Primitive | np.ufunc):
        return _broadcast(shapes)
    if function in _PRODUCTS and len(shapes) >= 2:
        rows, columns = (
            math.prod(shapes[0][:-1]),
            math.prod(shapes[1][:-2]) * (shapes[1][-1] if len(shapes[1]) > 1 else 1),
        )
        return rows * columns
    if function in (np.outer, np.tensordot, np.inner, np.einsum):
        return math.prod(math.prod(s) for s in shapes[:4]) if function is not np.einsum else _einsum(args)
    if function is np.broadcast_to:
        return math.prod(int(n) for n in np.atleast_1d(args[1]))
    if function is np.repeat:
        return math.prod(shapes[0]) * int(np.max(args[1] if len(args) > 1 else kwargs.get("repeats", 1)))
    if function is np.diag and len(shapes[0]) == 1:
        return (shapes[0][0] + abs(int(args[1] if len(args) > 1 else kwargs.get("k", 0)))) ** 2
    return max(_broadcast(shapes), sum(math.prod(s) for s in shapes))


def _broadcast(shapes: Sequence[tuple[int, ...]]) -> int:
    try:
        return math.prod(np.broadcast_shapes(*shapes))
    except ValueError:
        return 0


def _einsum(args: Sequence[Any]) -> int:
    """Entries of the output, and of the loop behind it, which numpy runs without storing it."""
    inputs, arrow, output = str(args[0]).replace(" ", "").partition("->")
    sizes: dict[str, int] = {}
    for part, x in zip(inputs.split(","), args[1:], strict=False):
        if "." not in part:
            sizes |= dict(zip(part, shape(x), strict=False))
    letters = output if arrow else [c for c in inputs if inputs.count(c) == 1]
    return math.prod(sizes.get(c, 1) for c in letters)


def _flat(values: Sequence[Any]) -> list[Any]:
    return [x for value in values for x in (_flat(value) if isinstance(value, list | tuple) else [value])]


class Ledger:
    """Counts the entries of all values of one run; refuses a value, or a total, over the limit."""

    def __init__(self) -> None:
        self.total = 0

    def admit(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Refuse a call whose result would be too large. Raises TooLarge."""
        count = entries(function, args, kwargs)
        self.total += count
        if count > MAX_ENTRIES:
            raise TooLarge(
                f"the result would have {count:,} entries; the limit is {MAX_ENTRIES:,}", do="use smaller arrays"
            )
        if self.total > MAX_TOTAL:
            raise TooLarge(f"all values together would have over {MAX_TOTAL:,} entries", do="use smaller arrays")


__all__ = ["MAX_ENTRIES", "MAX_EXPONENT", "MAX_NODES", "MAX_TOTAL", "Ledger", "entries"]
