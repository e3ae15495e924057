"""How large a value would be, computed before it is allocated."""

import inspect
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradcli.errors import TooLarge
from gradcli.rules import linalg
from gradcli.rules.linalg import explicit
from gradcli.targets import growth
from gradcli.targets.constructors import CONSTRUCTORS, constructed_entries
from gradcli.targets.memory import memory_bytes
from gradcli.targets.names import arity
from gradcli.tracing.primitive import Primitive
from gradcli.tracing.shapes import shape

MAX_ENTRIES = 2**27
MAX_TOTAL = 2**30
_SMALL = 2**22  # entries: the free memory is not looked up for smaller values
MAX_EXPONENT = 10**6
MAX_NODES = 20_000
MAX_STEPS = 2_000  # operations that one call runs one after the other; each is recorded
MAX_PRODUCTS = 2**38  # multiply-adds of one call: about a minute

Shape = tuple[int, ...]
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


def entries(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> int:
    """Return an upper bound on the entries of `function(*args, **kwargs)`; 0 if the shapes do not fit."""
    name = _CONSTRUCTOR_NAMES.get(function)
    if name is not None:
        return constructed_entries(name, inspect.signature(function).bind(*args, **kwargs).arguments)
    shapes = [shape(x) for x in _flat([*args, *kwargs.values()])]
    special = _SPECIAL.get(function)
    if special is not None:
        try:
            return special(*args, **kwargs)
        except (ValueError, IndexError, TypeError):
            return 0
    if function in growth.ENTRIES:
        return counted(growth.ENTRIES, function, args, kwargs)
    if function in _BROADCASTING or isinstance(function, Primitive | np.ufunc):
        return _broadcast(*shapes)
    return max(_broadcast(*shapes), sum(math.prod(s) for s in shapes))


def counted(
    table: dict[Any, growth.Count], function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> int:
    """Return what a table of `growth` says of a call; 0 for a function that is not there, and for arguments that do not fit."""
    count, signature = table.get(function), arity(function) if function in table else None
    if count is None or signature is None:
        return 0
    try:
        bound = signature.bind(*args, **kwargs)
        if any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values()):
            return count(*bound.args, **bound.kwargs)
        return count(**bound.arguments)
    except (ValueError, IndexError, TypeError, OverflowError):
        return 0


def _broadcast(*shapes: Shape) -> int:
    try:
        return math.prod(np.broadcast_shapes(*shapes))
    except ValueError:
        return 0


def _matmul(a: Any, b: Any) -> int:
    rows, columns = (shape(a)[-2:-1] or (1,))[0], shape(b)[-1] if len(shape(b)) > 1 else 1
    return _broadcast(shape(a)[:-2], shape(b)[:-2]) * rows * columns


def _dot(a: Any, b: Any) -> int:
    if not shape(a) or not shape(b):
        return _broadcast(shape(a), shape(b))
    return math.prod(shape(a)[:-1]) * math.prod(shape(b)[:-2]) * (shape(b)[-1] if len(shape(b)) > 1 else 1)


def _inner(a: Any, b: Any) -> int:
    return math.prod(shape(a)[:-1]) * math.prod(shape(b)[:-1])


def _outer(a: Any, b: Any) -> int:
    return math.prod(shape(a)) * math.prod(shape(b))


def _tensordot(a: Any, b: Any, axes: Any = 2) -> int:
    summed = range(len(shape(a)) - axes, len(shape(a))) if isinstance(axes, int) else np.atleast_1d(axes[0])
    shared = math.prod(shape(a)[int(k)] for k in summed)
    return _outer(a, b) // max(1, shared) ** 2


def _einsum(subscripts: str, *operands: Any, **options: Any) -> int:
    """Return the entries of the output; numpy does not store the products that it sums."""
    inputs, output = explicit(subscripts, [len(shape(x)) for x in operands]).split("->")
    sizes: dict[str, int] = {}
    for part, x in zip(inputs.split(","), operands, strict=True):
        for letter, n in zip(part, shape(x), strict=True):
            sizes[letter] = max(n, sizes.get(letter, 1))
    return math.prod(sizes[letter] for letter in output)


def _triangle(m: Any, k: int = 0) -> int:
    return math.prod(shape(m)) ** 2 if len(shape(m)) == 1 else math.prod(shape(m))


def _diag(v: Any, k: int = 0) -> int:
    return (shape(v)[0] + abs(int(k))) ** 2 if len(shape(v)) == 1 else math.prod(shape(v))


def _repeat(a: Any, repeats: Any, axis: Any = None) -> int:
    return math.prod(shape(a)) * int(np.max(repeats))


def _broadcast_to(array: Any, shape: Any) -> int:
    return math.prod(int(n) for n in np.atleast_1d(shape))


def indexed(x: Any, index: Any) -> Any:
    """Return x[index]."""
    return x[index]


def _indexed(x: Any, index: Any) -> int:
    parts = index if isinstance(index, tuple) else (index,)
    lists = [len(part) for part in parts if isinstance(part, list)]
    sizes = iter(shape(x))
    kept = 1
    for part in parts:
        if part is None or part is Ellipsis:
            continue
        n = next(sizes, 1)
        kept *= len(range(*part.indices(n))) if isinstance(part, slice) else 1
    return kept * math.prod(sizes) * max(lists, default=1)


_SPECIAL: dict[Any, Callable[..., int]] = {
    operator.matmul: _matmul, np.matmul: _matmul, np.dot: _dot, np.inner: _inner, np.outer: _outer, np.tensordot: _tensordot,
    np.einsum: _einsum, linalg.einsum: _einsum, np.tril: _triangle, np.triu: _triangle, np.diag: _diag, np.repeat: _repeat,
    np.broadcast_to: _broadcast_to, indexed: _indexed,
}  # fmt: skip


def _flat(values: Sequence[Any]) -> list[Any]:
    return [x for value in values for x in (_flat(value) if isinstance(value, list | tuple) else [value])]


class Ledger:
    """Counts the entries of all values of one run; refuses a value, or a total, that is over the limit."""

    def __init__(self) -> None:
        self.total = 0

    def admit(self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> None:
        """Refuse a call whose result would be too large, or that would take too long. Raises TooLarge."""
        self.enter(entries(function, args, kwargs))
        steps = counted(growth.STEPS, function, args, kwargs)
        if steps > MAX_STEPS:
            raise TooLarge(
                f"this call would take {steps:,} steps; the limit is {MAX_STEPS:,}", do="use fewer terms, or arrays"
            )
        products = counted(growth.PRODUCTS, function, args, kwargs)
        if products > MAX_PRODUCTS:
            raise TooLarge(
                f"this call would take {products:,} multiply-adds; the limit is {MAX_PRODUCTS:,}",
                do="use smaller arrays",
            )

    def enter(self, count: int) -> None:
        """Count a value of `count` entries; refuse it if it, or the total, would be too large. Raises TooLarge."""
        self.total += count
        if count > MAX_ENTRIES:
            raise TooLarge(
                f"the result would have {count:,} entries; the limit is {MAX_ENTRIES:,}", do="use smaller arrays"
            )
        if count > _SMALL and 8 * count > memory_bytes():
            raise TooLarge(
                f"an array of {count:,} entries does not fit into the memory that is free", do="use smaller arrays"
            )
        if self.total > MAX_TOTAL:
            raise TooLarge(f"all values together would have over {MAX_TOTAL:,} entries", do="use smaller arrays")
