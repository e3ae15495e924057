"""Operations that move, join and sum entries, as tensors: axes have indices, and a broadcast operand lacks some of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Protocol

from gradcli.core.primitive import Primitive
from gradcli.derivation.algebra import HALF, absolute, inverse, logarithm
from gradcli.derivation.index import Index, Tensor, add, fresh, function, of_matrix, scalar, scaled  # fmt: skip
from gradcli.derivation.products import multiply, power, product, sum_over
from gradcli.derivation.units import complement
from gradcli.errors import NotSupported
from gradcli.interpreters.graph import Graph
from gradcli.primitives.linalg import DET, EINSUM, INV, LOGDET, MATMUL, SOLVE
from gradcli.primitives.reductions import LOGSUMEXP, NORM, SUM
from gradcli.primitives.shaping import BROADCAST, RESHAPE, SELECT, TRANSPOSE

Axis = Index | None  # an axis of length 1 has no index


@dataclass(frozen=True)
class Value:
    """A tensor and the index of each axis."""

    axes: tuple[Axis, ...]
    tensor: Tensor


class Sized(Protocol):
    """What can turn lengths at several sizes into sizes with names."""

    def dim(self, sizes: Sequence[int]) -> str: ...

    def axes(self, shapes: Sequence[tuple[int, ...]]) -> tuple[Axis, ...]: ...


def placed(x: Value, axes: Sequence[Axis]) -> Tensor:
    """Return a value with the indices of a result that it is broadcast to; axes are aligned from the right."""
    names = {
        mine: theirs
        for mine, theirs in zip(reversed(x.axes), reversed(axes), strict=False)
        if mine is not None and theirs is not None
    }
    return x.tensor.renamed(names)


def _renamed(x: Value) -> Value:
    """Return a value with fresh indices, so that it can be multiplied by itself."""
    names = {i: fresh(i.dim) for i in dict.fromkeys(x.axes) if i is not None}
    return Value(tuple(names[i] if i is not None else None for i in x.axes), x.tensor.renamed(names))


def ordered(axes: Sequence[Axis], tensor: Tensor) -> Value:
    """Return a tensor as a value whose axes have these indices."""
    return Value(tuple(axes), Tensor(tuple(dict.fromkeys(i for i in axes if i is not None)), tensor.terms))


def _sum(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    gone = params[0]["axis"]
    axes = [a for k, a in enumerate(xs[0].axes) if k not in gone]
    over = [xs[0].axes[k] for k in gone]
    return ordered(axes, sum_over(xs[0].tensor, [i for i in over if i is not None]))


def _reshape(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    """Return a reshape that only adds or removes axes of length 1. Raises NotSupported for any other."""
    dims = [reader.dim(lengths) for lengths in zip(*(g.shape for g in graphs), strict=True)]
    kept = [a for a in xs[0].axes if a is not None]
    if [d for d in dims if d != "1"] != [i.dim for i in kept]:
        raise NotSupported("a reshape that joins or parts axes has no formula", do="leave the axes as they are")
    rest = iter(kept)
    return ordered([None if d == "1" else next(rest) for d in dims], xs[0].tensor)


def _transpose(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    return ordered([xs[0].axes[k] for k in params[0]["axes"]], xs[0].tensor)


def _broadcast_to(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    axes = list(reader.axes([g.shape for g in graphs]))
    for k, mine in enumerate(reversed(xs[0].axes), 1):
        if mine is not None:
            axes[-k] = mine
    return ordered(axes, xs[0].tensor)


def _matmul(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    a, b = _renamed(xs[0]), _renamed(xs[1])
    if len(a.axes) != 2 or len(b.axes) != 2:
        raise NotSupported("a product of stacks of matrices has no formula here", do="use einsum")
    inner, other = a.axes[1], b.axes[0]
    right = b.tensor.renamed({other: inner}) if inner is not None and other is not None else b.tensor
    whole = multiply(a.tensor, right)
    return ordered([a.axes[0], b.axes[1]], sum_over(whole, [inner]) if inner is not None else whole)


def _einsum(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    inside, _, out = params[0]["subscripts"].partition("->")
    letters: dict[str, Axis] = {}
    parts = []
    for x, names in zip(xs, inside.split(","), strict=True):
        own = _renamed(x)
        renaming: dict[Index, Index] = {}
        for axis, letter in zip(own.axes, names, strict=True):
            if axis is None:
                letters.setdefault(letter, None)
            elif letters.get(letter) is None:
                letters[letter] = axis
            else:
                renaming[axis] = letters[letter]  # type: ignore[assignment]
        tensor = own.tensor.renamed(renaming)
        parts.append(Tensor(tuple(dict.fromkeys(tensor.free)), tensor.terms))
    gone = [i for letter, i in letters.items() if letter not in out and i is not None]
    return ordered([letters[letter] for letter in out], sum_over(product(parts), gone))


def _inv(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    return Value(xs[0].axes, inverse(xs[0].tensor, *_square(xs[0])))


def _square(x: Value) -> tuple[Index, Index]:
    if len(x.axes) != 2 or x.axes[0] is None or x.axes[1] is None:
        raise NotSupported("a matrix of one entry, or a stack of matrices, has no formula here")
    return x.axes[0], x.axes[1]


def _det(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    i, j = _square(xs[0])
    if graphs[0].op == "logdet":
        return Value((), logarithm(absolute(of_matrix("det", xs[0].tensor, i, j))))
    return Value((), of_matrix("det", xs[0].tensor, i, j))


def _solve(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    a, b = _renamed(xs[0]), _renamed(xs[1])
    i, j = _square(a)
    found = inverse(a.tensor, i, j)
    if b.axes[0] is None:
        raise NotSupported("solve of a single equation has no formula here")
    return ordered([i, *b.axes[1:]], sum_over(multiply(found, b.tensor.renamed({b.axes[0]: j})), [j]))


def _logsumexp(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    gone = params[0]["axis"]
    axes = [a for k, a in enumerate(xs[0].axes) if k not in gone]
    free = tuple(i for i in xs[0].axes if i is not None)
    total = sum_over(function("exp", [xs[0].tensor], free), [i for k in gone if (i := xs[0].axes[k]) is not None])
    return ordered(axes, function("log", [total], tuple(i for i in axes if i is not None)))


def _norm(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    squares = multiply(xs[0].tensor, xs[0].tensor)
    return Value((), power(sum_over(squares, [i for i in xs[0].axes if i is not None]), HALF))


def _where(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    axes = reader.axes([g.shape for g in graphs])
    free = tuple(i for i in axes if i is not None)
    condition, a, b = (placed(x, axes) for x in xs)
    rest = complement(condition) or add([scalar(Fraction(1)), scaled(condition, -1)], free)
    return Value(axes, Tensor(free, add([multiply(condition, a), multiply(rest, b)], free).terms))


STRUCTURE: dict[Primitive, Callable[[Sized, list[Value], list[Any], Sequence[Graph]], Value]] = {
    SUM: _sum, RESHAPE: _reshape, TRANSPOSE: _transpose, BROADCAST: _broadcast_to,
    MATMUL: _matmul, EINSUM: _einsum, INV: _inv, DET: _det, LOGDET: _det, SOLVE: _solve,
    LOGSUMEXP: _logsumexp, NORM: _norm, SELECT: _where,
}  # fmt: skip
