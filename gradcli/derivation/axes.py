"""Operations that move, join and sum entries, as tensors: axes have indices, and a broadcast operand lacks some of them."""

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

from gradcli.arithmetic.value_graph import GraphNode
from gradcli.classes import dataclass
from gradcli.derivation.algebra import (
    HALF,
    absolute,
    exponential,
    identity,
    inverse,
    logarithm,
    multiply,
    power,
    product,
    sum_over,
)
from gradcli.derivation.index import (
    Index,
    IndexedFactor,
    IndexedTerm,
    Tensor,
    add,
    apply_matrix_function,
    fresh_index,
    scalar,
    subtract,
)
from gradcli.derivation.units import complement_of_triangle
from gradcli.errors import NotSupported
from gradcli.rules.linalg import DET, EINSUM, INV, LOGDET, MATMUL, SOLVE
from gradcli.rules.reductions import LOGSUMEXP, NORM, SUM
from gradcli.rules.shaping import BROADCAST, RESHAPE, SELECT, TRANSPOSE
from gradcli.tracing.primitive import Primitive


class JoinedAxis(NamedTuple):
    """An axis along which several indices run, the last one fastest, as in a flattened matrix or a Kronecker product."""

    parts: tuple[Index, ...]


Axis = Index | JoinedAxis | None  # an axis of length 1 has no index


@dataclass(frozen=True)
class Value:
    """A tensor and the index of each axis."""

    axes: tuple[Axis, ...]
    tensor: Tensor

    @property
    def singles(self) -> tuple[Index | None, ...]:
        """The axes, none of which is joined. Raises NotSupported."""
        return tuple(map(single_index, self.axes))


class Sized(Protocol):
    """What can turn lengths at several sizes into sizes with names, and back."""

    def dim(self, sizes: Sequence[int]) -> str: ...

    def lengths(self, dim: str) -> Sequence[int]: ...

    def axes(self, shapes: Sequence[tuple[int, ...]]) -> tuple[Axis, ...]: ...

    def constant(self, arrays: Sequence[Any]) -> "Value": ...


def align_to_axes(x: Value, axes: Sequence[Axis]) -> Tensor:
    """Return a value with the indices of a result that it is broadcast to; axes are aligned from the right."""
    return x.tensor.renamed(match_indices(x.axes[::-1], axes[::-1]))


def indices_of_axes(*axes: Axis) -> tuple[Index, ...]:
    """Return the indices that run along axes, in order."""
    found = (() if a is None else a.parts if isinstance(a, JoinedAxis) else (a,) for a in axes)
    return tuple(dict.fromkeys(i for parts in found for i in parts))


def single_index(axis: Axis) -> Index | None:
    """Return the index of an axis that has at most one. Raises NotSupported."""
    if isinstance(axis, JoinedAxis):
        raise NotSupported("this function of an array whose axes were joined has no formula")
    return axis


def fresh_axis_like(axis: Axis) -> Axis:
    """Return an axis of the same sizes with fresh indices."""
    if isinstance(axis, JoinedAxis):
        return JoinedAxis(tuple(fresh_index(i.dim) for i in axis.parts))
    return None if axis is None else fresh_index(axis.dim)


def match_indices(mine: Sequence[Axis], theirs: Sequence[Axis]) -> dict[Index, Index]:
    """Return the indices of axes by those of others that have the same lengths. Raises NotSupported."""
    names: dict[Index, Index] = {}
    for a, b in zip(mine, theirs, strict=False):
        if a is None or b is None:
            continue
        own, other = indices_of_axes(a), indices_of_axes(b)
        if any(map(_is_product_of_sizes, (*own, *other))):  # of a constant, which has no index there
            continue
        if [i.dim for i in own] != [i.dim for i in other] and len(own) + len(other) > 2:
            raise NotSupported("an axis is one size in one place, and a product of sizes in another")
        names |= dict(zip(own, other, strict=True))
    return names


def broadcast_axes(reader: Sized, xs: Sequence[Value], graphs: Sequence[GraphNode]) -> tuple[Axis, ...]:
    """Return the axes, with fresh indices, of an operation entry by entry."""

    def has_product_index(axis: Axis) -> bool:
        return any(map(_is_product_of_sizes, indices_of_axes(axis)))

    axes: list[Axis] = []
    rank = len(graphs[0].shape)
    for k in range(rank):
        own = [x.axes[k - rank] for x in xs if len(x.axes) >= rank - k]
        here = min((a for a in own if a is not None), key=has_product_index, default=None)
        axes.append(reader.axes([g.shape[k : k + 1] for g in graphs])[0] if here is None else fresh_axis_like(here))
    return tuple(axes)


def with_fresh_indices(x: Value) -> Value:
    """Return a value with fresh indices, so that it can be multiplied by itself."""
    found: dict[Axis, Axis] = {a: fresh_axis_like(a) for a in x.axes}
    axes = tuple(found[a] for a in x.axes)
    return Value(axes, x.tensor.renamed(match_indices(x.axes, axes)))


def value_with_axes(axes: Sequence[Axis], tensor: Tensor) -> Value:
    """Return a tensor as a value whose axes have these indices."""
    return Value(tuple(axes), Tensor(indices_of_axes(*axes), tensor.terms))


def _sum(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[GraphNode]) -> Value:
    """Return a sum along axes; for logsumexp, the logarithm of that of the exponentials."""
    (x,), gone, of_exponentials = xs, params[0]["axis"], graphs[0].op == "logsumexp"
    kept = [a for k, a in enumerate(x.axes) if k not in gone]
    entries = exponential(x.tensor) if of_exponentials else x.tensor
    total = sum_over(entries, indices_of_axes(*(x.axes[k] for k in gone)))
    return value_with_axes(kept, logarithm(total) if of_exponentials else total)


def _reshape(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[GraphNode]) -> Value:
    """Return a reshape that adds or removes axes of length 1, joins axes, or parts joined ones. Raises NotSupported."""
    rest = list(indices_of_axes(*xs[0].axes))
    if not set(rest) & set(xs[0].tensor.indices):  # a constant, whose axes are as they are wanted
        return value_with_axes(reader.axes([g.shape for g in graphs]), xs[0].tensor)
    shapes = list(zip(*(g.shape for g in graphs), strict=True))
    tensor = xs[0].tensor
    if any(_is_product_of_sizes(i) for i in rest):
        dims = [d for lengths in shapes if (d := reader.dim(lengths)) != "1"]
        tensor, rest = _split_joined_axes(tensor, rest, dims)
    axes: list[Axis] = []
    for lengths in shapes:
        parts: list[Index] = []
        so_far = [1] * len(lengths)
        while so_far != list(lengths) and rest:
            parts.append(rest.pop(0))
            so_far = [n * own for n, own in zip(so_far, reader.lengths(parts[-1].dim), strict=True)]
        if so_far != list(lengths):
            raise NotSupported("a reshape that parts an axis has no formula", do="leave the axes as they are")
        axes.append(None if not parts else parts[0] if len(parts) == 1 else JoinedAxis(tuple(parts)))
    return value_with_axes(axes, tensor)


def _is_product_of_sizes(i: Index) -> bool:
    """Whether an index runs over a product of sizes, as those of ones and of identities can."""
    return "*" in i.dim


def _split_joined_axes(x: Tensor, axes: Sequence[Index], dims: Sequence[str]) -> tuple[Tensor, list[Index]]:
    """Return ones and identities with their indices over products of sizes parted, and the indices of all axes.

    Raises  NotSupported for other arrays.
    """
    rest = list(dims)
    parts: dict[Index, list[Index]] = {}
    for i in axes:
        own = len(i.dim.split("*"))
        parts[i] = [fresh_index(d) for d in rest[:own]] if _is_product_of_sizes(i) else [i]
        rest = rest[own:]
        if sorted(p.dim for p in parts[i]) != sorted(i.dim.split("*")):
            raise NotSupported("a reshape that parts an axis has no formula", do="leave the axes as they are")
    terms = []
    for term in x.terms:
        factors: list[IndexedFactor] = []
        for f in term.factors:
            if not any(map(_is_product_of_sizes, f.at)):
                factors.append(f)
                continue
            if f.atom.op != "delta":
                raise NotSupported("an array along a product of sizes has no formula here")
            pairs = zip(*(parts[i] for i in f.at), strict=True)
            factors += [IndexedFactor(identity(one.dim), (one, other)) for one, other in pairs]
        terms.append(IndexedTerm(term.coef, tuple(factors)))
    every = [p for i in axes for p in parts[i]]
    return Tensor(tuple(every), tuple(terms)), every


def _transpose(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[GraphNode]) -> Value:
    return value_with_axes([xs[0].axes[k] for k in params[0]["axes"]], xs[0].tensor)


def _broadcast_to(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[GraphNode]) -> Value:
    own = (*[None] * (len(graphs[0].shape) - len(xs[0].axes)), *xs[0].axes)
    axes = [reader.axes([g.shape[k : k + 1] for g in graphs])[0] if i is None else i for k, i in enumerate(own)]
    return value_with_axes(axes, xs[0].tensor)


def _matmul(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[GraphNode]) -> Value:
    a, b = with_fresh_indices(xs[0]), with_fresh_indices(xs[1])
    inner, other = a.axes[-1], b.axes[-2]
    stacks, others = a.axes[-3::-1], b.axes[-3::-1]  # the axes before those of the matrices, from the right
    names = match_indices([other], [inner]) | match_indices(others, stacks)
    right = b.tensor.renamed(names)
    shared = [mine or theirs for mine, theirs in itertools.zip_longest(stacks, others)]
    whole = multiply(a.tensor, Tensor(tuple(dict.fromkeys(right.free)), right.terms))
    return value_with_axes([*shared[::-1], a.axes[-2], b.axes[-1]], sum_over(whole, indices_of_axes(inner)))


def _einsum(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[GraphNode]) -> Value:
    inside, _, out = params[0]["subscripts"].partition("->")
    letters: dict[str, Axis] = {}
    parts = []
    for x, names in zip(xs, inside.split(","), strict=True):
        own = with_fresh_indices(x)
        renaming: dict[Index, Index] = {}
        for axis, letter in zip(own.axes, names, strict=True):
            if letters.get(letter) is None:
                letters[letter] = axis
            else:
                renaming |= match_indices([axis], [letters[letter]])
        tensor = own.tensor.renamed(renaming)
        parts.append(Tensor(tuple(dict.fromkeys(tensor.free)), tensor.terms))
    gone = [axis for letter, axis in letters.items() if letter not in out]
    return value_with_axes([letters[letter] for letter in out], sum_over(product(parts), indices_of_axes(*gone)))


def matrix_indices(x: Value) -> tuple[Index, Index]:
    """Return the indices of the rows and of the columns of a matrix. Raises NotSupported for anything else."""
    found = tuple(map(single_index, x.axes))
    if len(found) != 2 or found[0] is None or found[1] is None:
        raise NotSupported("a matrix of one entry, or a stack of matrices, has no formula here")
    return found[0], found[1]


def _det(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[GraphNode]) -> Value:
    det = apply_matrix_function("det", xs[0].tensor, *matrix_indices(xs[0]))
    return Value((), logarithm(absolute(det)) if graphs[0].op == "logdet" else det)


def _solve(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[GraphNode]) -> Value:
    a, b = with_fresh_indices(xs[0]), with_fresh_indices(xs[1])
    i, j = matrix_indices(a)
    found = inverse(a.tensor, i, j)
    if b.axes[0] is None:
        raise NotSupported("solve of a single equation has no formula here")
    right = b.tensor.renamed(match_indices(b.axes[:1], [j]))
    return value_with_axes([i, *b.axes[1:]], sum_over(multiply(found, right), [j]))


def _norm(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[GraphNode]) -> Value:
    squares = multiply(xs[0].tensor, xs[0].tensor)
    return Value((), power(sum_over(squares, indices_of_axes(*xs[0].axes)), HALF))


def _where(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[GraphNode]) -> Value:
    axes = broadcast_axes(reader, xs, graphs)
    free = indices_of_axes(*axes)
    condition, a, b = (align_to_axes(x, axes) for x in xs)
    rest = complement_of_triangle(condition) or subtract(scalar(Fraction(1)), condition, free)
    return Value(axes, add([multiply(condition, a), multiply(rest, b)], free))


STRUCTURE: dict[Primitive, Callable[[Sized, list[Value], list[Any], Sequence[GraphNode]], Value]] = {
    SUM: _sum, RESHAPE: _reshape, TRANSPOSE: _transpose, BROADCAST: _broadcast_to,
    INV: lambda reader, xs, params, graphs: Value(xs[0].axes, inverse(xs[0].tensor, *matrix_indices(xs[0]))),
    MATMUL: _matmul, EINSUM: _einsum, DET: _det, LOGDET: _det, SOLVE: _solve,
    LOGSUMEXP: _sum, NORM: _norm, SELECT: _where,
}  # fmt: skip
