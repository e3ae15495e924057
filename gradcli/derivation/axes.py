"""Operations as tensors: axes have indices, and a broadcast operand lacks some of them; functions of whole arrays."""

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple, Protocol

import numpy as np

from gradcli.arithmetic.value_graph import GraphNode
from gradcli.classes import dataclass
from gradcli.derivation.algebra import (
    HALF,
    ONE,
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
    Atom,
    Index,
    IndexedFactor,
    IndexedTerm,
    Tensor,
    add,
    add_terms,
    apply_function,
    apply_matrix_function,
    fresh_index,
    multiply_term,
    scalar,
    scale_tensor,
    slot,
    subtract,
    tensor_of_atom,
)
from gradcli.derivation.units import complement_of_triangle, cut_span, triangle_of_ones
from gradcli.errors import NotSupported
from gradcli.rules.linalg import DET, EINSUM, INV, LOGDET, MATMUL, SOLVE
from gradcli.rules.reductions import LOGSUMEXP, NORM, SUM
from gradcli.rules.shaping import BROADCAST, RESHAPE, SELECT, TRANSPOSE
from gradcli.tracing.primitive import table_by_name


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
    axes: list[Axis] = []
    rank = len(graphs[0].shape)
    for k in range(rank):
        own = [x.axes[k - rank] for x in xs if len(x.axes) >= rank - k]
        known = (a for a in own if a is not None)
        here = min(known, key=lambda a: any(map(_is_product_of_sizes, indices_of_axes(a))), default=None)
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
    found = x.singles
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


# Functions of whole arrays: factorisations, functions of matrices, convolutions, the largest entry.
#
# Such a function has no formula by entries, so it stays a function of its argument. Where its adjoint simplifies, that is done
# here: the adjoint of expm in direction I is expm, and that of cholesky needs no mask where L.T @ Lbar is symmetric.

EXTREMES = frozenset({"max", "min"})


def opaque_function(op: str, operands: Sequence[Value], dims: Sequence[str]) -> Value:
    """Return a function of whole arrays whose value has axes of these sizes; its operands keep indices of their own."""
    at = tuple(fresh_index(d) for d in dims)
    args, used = [], len(at)
    for x in operands:
        own = x.singles
        if None in own or len(set(own)) < len(own):
            raise NotSupported(f"{op} of an array with an axis of length 1 has no formula here")
        slots = {i: slot(used + k, i.dim) for k, i in enumerate(own) if i is not None}
        args.append(Tensor(tuple(slots.values()), x.tensor.renamed(slots).terms))
        used += len(own)
    return Value(at, tensor_of_atom(Atom(op, args=tuple(args), dims=tuple(dims)), at))


def _read_opaque(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[GraphNode]) -> Value:
    """Return a function of arrays of fixed sizes."""
    op = graphs[0].op
    if max(len(x.axes) for x in xs) > 2:
        raise NotSupported(f"{op} of a stack of matrices has no formula here")
    return opaque_function(op, xs, [reader.dim(lengths) for lengths in zip(*(g.shape for g in graphs), strict=True)])


def _read_bilinear(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[GraphNode]) -> Value:
    """Return a convolution or correlation: numbers are taken out, and one with a constant is a sum."""
    op, number = graphs[0].op, scalar(ONE)
    operands = []
    for x in xs:
        if len(x.tensor.terms) == 1:
            (term,) = x.tensor.terms
            apart = [f for f in term.factors if not f.at]
            number = multiply(number, Tensor((), (IndexedTerm(term.coef, tuple(apart)),)))
            x = Value(x.axes, Tensor(x.tensor.free, (IndexedTerm(ONE, tuple(f for f in term.factors if f.at)),)))
        operands.append(x)
    axes = reader.axes([g.shape for g in graphs])
    if op == "correlate" and operands[0].tensor.number == 1:
        total = sum_over(operands[1].tensor, indices_of_axes(*operands[1].axes))
        return value_with_axes(axes, multiply(number, total))
    y = opaque_function(op, operands, [i.dim for i in indices_of_axes(*axes)])
    return Value(y.axes, multiply(number, y.tensor))


def _read_matrix_function(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[GraphNode]) -> Value:
    """Return a function of a matrix for which f(X.T) is f(X).T."""
    turned = xs[0].axes[::-1] if graphs[0].op == "pinv" else xs[0].axes
    return value_with_axes(turned, apply_function(graphs[0].op, [xs[0].tensor], matrix_indices(xs[0])))


def _read_expm_frechet(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[GraphNode]) -> Value:
    """Return the derivative of expm in a direction: expm itself times the direction, where that commutes with the matrix."""
    at = matrix_indices(xs[0])
    if not _has_commuting_pairs(graphs):
        return _read_opaque(reader, xs, params, graphs)
    return _times_direction(apply_function("expm", [xs[0].tensor], at), at, xs[1])


_SHARES = {"sqrtm_adjoint": HALF, "logm_adjoint": ONE}


def _read_adjoint(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[GraphNode]) -> Value:
    """Return an adjoint that is simple in a direction that commutes with the matrix: a share, an inverse, it."""
    i, j = matrix_indices(xs[0])
    if not _has_commuting_pairs(graphs):
        of = graphs[0].op.removesuffix("_adjoint")
        says = f"{of} has no closed form here unless what it is multiplied with is a function of the same matrix"
        raise NotSupported(says, do="gradcli check verifies its gradient")
    return _times_direction(scale_tensor(inverse(xs[0].tensor, i, j), _SHARES[graphs[0].op]), (i, j), xs[1])


def _has_commuting_pairs(graphs: Sequence[GraphNode]) -> bool:
    """Whether a matrix and a direction commute at random points, as those of functions of one matrix do."""
    for g in graphs:
        a, d = (np.asarray(getattr(v, "value", v), dtype=float) for v in g.args)
        if not np.allclose(a @ d, d @ a, rtol=1e-9, atol=1e-9 * np.linalg.norm(a) * np.linalg.norm(d)):
            return False
    return True


def _times_direction(x: Tensor, at: tuple[Index, Index], direction: Value) -> Value:
    """Return the product of a matrix and a direction; a number times the matrix where the direction is an identity."""
    ends = set(direction.singles)
    for term in direction.tensor.terms if len(direction.tensor.terms) == 1 and len(ends) == 2 else ():
        for f in (f for f in term.factors if f.atom.op == "delta" and set(f.at) == ends and f.power == 1):
            number = term.without(f)
            if not ends & number.indices:
                return value_with_axes(at, multiply(Tensor((), (number,)), x))
    own = with_fresh_indices(direction)
    (k, j) = matrix_indices(own)
    return value_with_axes((at[0], j), sum_over(multiply(x, own.tensor.renamed({k: at[1]})), [at[1]]))


def _cholesky_adjoint(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[GraphNode]) -> Value:
    """Return inv(L).T @ M @ inv(L) / 2, where M has the lower triangle of L.T @ Lbar, and is symmetric.

    Source  Murray (2016), arXiv 1602.07527.
    """
    factor, adjoint = xs[0], with_fresh_indices(xs[1])
    (k, i), (m, j) = matrix_indices(factor), matrix_indices(adjoint)
    lower, bar = factor.tensor, adjoint.tensor.renamed({m: k})
    inside = sum_over(multiply(lower, bar), [k])
    turned = inside.renamed({i: j, j: i})  # the transpose
    if inside.key == Tensor(inside.free, turned.terms).key:
        both = scale_tensor(inside, HALF)
    else:
        low = multiply(tensor_of_atom(triangle_of_ones((i.dim, i.dim), 0), (i, j)), inside)
        diagonal = tensor_of_atom(identity(i.dim), (i, j))
        both = add([low, low.renamed({i: j, j: i}), scale_tensor(multiply(diagonal, inside), -1)], (i, j))
        if any(f.atom.op == "tri" for term in low.terms for f in term.factors):
            mirrored = opaque_function("mirrored", [Value((i, j), inside)], (i.dim, i.dim))
            both = mirrored.tensor.renamed(match_indices(mirrored.axes, (i, j)))
        both = scale_tensor(both, HALF)
    a, b = fresh_index(i.dim), fresh_index(i.dim)
    inverted = inverse(lower, k, i)
    left, right = inverted.renamed({k: i, i: a}), inverted.renamed({k: j, i: b})
    return value_with_axes((a, b), sum_over(product([left, both, right]), [i, j]))


def _read_largest_entries(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[GraphNode]) -> Value:
    """Return the largest entries along axes; that of -x is -min(x)."""
    (x,), gone, sign = xs, params[0]["axis"], _sign_of_terms(xs[0].tensor)
    kept = [a for k, a in enumerate(x.singles) if k not in gone]
    own, every = ([i for i in axes if i is not None] for axes in (kept, x.singles))
    slots = {i: slot(n, i.dim) for n, i in enumerate([*own, *(i for i in every if i not in own)])}
    arg = Tensor(tuple(slots[i] for i in every), scale_tensor(x.tensor.renamed(slots), sign).terms)
    found = tensor_of_atom(Atom("min" if sign < 0 else "max", args=(arg,), dims=tuple(i.dim for i in own)), own)
    return value_with_axes(kept, scale_tensor(found, sign))


def _sign_of_terms(x: Tensor) -> int:
    """Return -1 where all terms are negative, else 1."""
    return -1 if x.terms and all(t.coef < 0 for t in x.terms) else 1


def _read_peaks(reader: Sized, xs: list[Value], params: list[Any], graphs: Sequence[GraphNode]) -> Value:
    """Return 1 where an entry is the largest along axes, and 0 elsewhere."""
    sign = _sign_of_terms(xs[0].tensor)
    ends = [scale_tensor(x.tensor, sign) for x in (xs[0], _read_largest_entries(reader, xs, params, graphs))]
    return value_with_axes(xs[0].axes, apply_function("equal", ends, tuple(i for i in xs[0].singles if i is not None)))


_TURNS = ("[1, 2, 0]", "[2, 0, 1]")  # how the entries of the operands of a cross product are chosen


def write_cross_products(x: Tensor) -> Tensor:
    """Return a sum with u[[1, 2, 0]] v[[2, 0, 1]] - u[[2, 0, 1]] v[[1, 2, 0]] as the cross product of u and v."""
    for one in x.terms:
        for other in x.terms:
            found = _cross_product_of_terms(one, other) if one.coef == -other.coef and one.coef > 0 else None
            if found is not None:
                rest = (t for t in x.terms if t is not one and t is not other)
                return write_cross_products(add_terms([*rest, *found.terms], x.free))
    return x


def open_cross_product(f: IndexedFactor) -> Tensor:
    """Return a cross product by the entries of its operands."""
    (i,) = f.at
    u, v = (arg.renamed({arg.free[0]: i}) for arg in f.atom.args)
    chosen = [[cut_span(x, i, (k := fresh_index(i.dim)), turn).renamed({k: i}) for x, turn in zip((u, v), turns, strict=True)]
              for turns in (_TURNS, _TURNS[::-1])]  # fmt: skip
    return subtract(product(chosen[0]), product(chosen[1]), (i,))


def _cross_product_of_terms(one: IndexedTerm, other: IndexedTerm) -> Tensor | None:
    shared = [f for f in one.factors if f in other.factors]
    parts = [[f for f in t.factors if f not in shared] for t in (one, other)]
    turns = [{f.atom.name: f for f in own} for own in parts]
    single = all(f.atom.op == "slice" and f.power == 1 and [i.dim for i in f.at] == ["3"] for own in parts for f in own)
    if not single or any(len(own) != 2 for own in parts) or any(set(t) != {*_TURNS} for t in turns):
        return None
    (u, v), (w, z) = (
        [t[turn].atom.args[0].terms[0].factors[0].atom for turn in order]
        for t, order in zip(turns, (_TURNS, _TURNS[::-1]), strict=True)
    )
    places = {f.at for own in parts for f in own}
    if u != w or v != z or len(places) != 1:
        return None
    (i,) = places.pop()
    vectors = [Value((k := fresh_index(i.dim),), tensor_of_atom(atom, (k,))) for atom in (u, v)]
    found = opaque_function("cross", vectors, [i.dim])
    rest = Tensor(tuple(one.indices), (IndexedTerm(one.coef, tuple(shared)),))
    return multiply(rest, found.tensor.renamed({indices_of_axes(*found.axes)[0]: i}))


_OF_FIXED_SIZES = (
    "eigvalsh", "eigenvectors", "svdvals", "left_vectors", "right_vectors", "cholesky", "lower_half",
)  # fmt: skip
Read = Callable[[Sized, list[Value], list[Any], Sequence[GraphNode]], Value]
READERS: dict[str, Read] = table_by_name({
    SUM: _sum, RESHAPE: _reshape, BROADCAST: _broadcast_to, MATMUL: _matmul, EINSUM: _einsum, DET: _det, LOGDET: _det,
    TRANSPOSE: lambda reader, xs, params, graphs: value_with_axes([xs[0].axes[k] for k in params[0]["axes"]], xs[0].tensor),
    INV: lambda reader, xs, params, graphs: Value(xs[0].axes, inverse(xs[0].tensor, *matrix_indices(xs[0]))),
    SOLVE: _solve, LOGSUMEXP: _sum, NORM: _norm, SELECT: _where,
}) | {
    **dict.fromkeys(_OF_FIXED_SIZES, _read_opaque), **dict.fromkeys(("convolve", "correlate"), _read_bilinear),
    **dict.fromkeys(("expm", "sqrtm", "logm", "pinv"), _read_matrix_function), **dict.fromkeys(_SHARES, _read_adjoint),
    "expm_frechet": _read_expm_frechet, "cholesky_adjoint": _cholesky_adjoint,
    "max": _read_largest_entries, "peaks": _read_peaks,
}  # fmt: skip
OPAQUE = frozenset({
    *_OF_FIXED_SIZES, "convolve", "correlate", "expm_frechet", "max", "min", "mirrored", "cross", "sort",
})  # fmt: skip


def spectral(term: IndexedTerm, f: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Write V diag(w)^p V.T as a power of the matrix, V diag(exp(w)) V.T as expm of it, and U diag(s) V.T as the matrix."""
    others = (g for g in term.factors if g is not f and f.power == 1)
    return next(filter(None, (_recompose_pair(term, f, g, free) for g in others)), None)


VECTORS = {"eigenvectors": "eigvalsh", "left_vectors": "svdvals", "right_vectors": "svdvals"}


def _recompose_pair(
    term: IndexedTerm, f: IndexedFactor, g: IndexedFactor, free: tuple[Index, ...]
) -> IndexedTerm | None:
    (i, k), (j, m) = f.at, g.at if len(g.at) == 2 else (None, None)
    if g.power != 1 or m != k or k in free or g.atom.op not in VECTORS or i is None or j is None:
        return None
    if not _is_of_same_matrix(f, g):
        return None
    values = [h for h in term.factors if h is not f and h is not g and k in h.at]
    rest = term.without(f, g, *values)
    (x,) = f.atom.args
    row, column = x.free
    if f.atom.op == g.atom.op == "eigenvectors" and len(values) == 1 and _is_exp_of_eigenvalues(values[0], f):
        return multiply_term(rest, apply_function("expm", [x], (row, column)).renamed({row: i, column: j}))
    if any(h.atom.op != VECTORS[f.atom.op] or not _is_of_same_matrix(f, h) for h in values) or len(values) > 1:
        return None
    p = values[0].power if values else Fraction(0)
    if f.atom.op == g.atom.op == "eigenvectors" and p.denominator == 1 and abs(p) <= _MOST:
        whole = _entry_of_power(x, int(p), i, j)
    elif {f.atom.op, g.atom.op} == {"left_vectors", "right_vectors"} and p == 1:
        left, right = (i, j) if f.atom.op == "left_vectors" else (j, i)
        whole = x.renamed({row: left, column: right})
    else:
        return None
    return multiply_term(rest, whole)


def _is_exp_of_eigenvalues(h: IndexedFactor, vectors: IndexedFactor) -> bool:
    """Whether a factor is the exponential of the eigenvalues that belong to eigenvectors."""
    w = h.atom.args[0].factor if h.atom.op == "exp" and h.power == 1 else None
    return w is not None and w.atom.op == "eigvalsh" and w.power == 1 and _is_of_same_matrix(vectors, w)


def _is_of_same_matrix(f: IndexedFactor, g: IndexedFactor) -> bool:
    """Whether two functions are of the same matrix."""
    row, column = fresh_index(""), fresh_index("")
    one, other = (h.atom.args[0].renamed(dict(zip(h.atom.args[0].free, (row, column), strict=True))) for h in (f, g))
    return one.key == other.key


_MOST = 3  # the highest power of a matrix that is written as a product


def _entry_of_power(x: Tensor, p: int, i: Index, j: Index) -> Tensor:
    """Return an entry of the p-th power of a matrix."""
    row, column = x.free
    if p == 0:
        return tensor_of_atom(identity(i.dim), (i, j))
    places = [i, *(fresh_index(i.dim) for _ in range(abs(p) - 1)), j]
    one = x if p > 0 else inverse(x, row, column)
    parts = [one.renamed({row: a, column: b}) for a, b in itertools.pairwise(places)]
    return sum_over(product(parts), places[1:-1])


def triangular(term: IndexedTerm, mask: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Use that a Cholesky factor is lower triangular: a mask keeps all of it, or only its diagonal."""
    for f in term.factors if mask.atom.name == "0" and mask.power == 1 else ():
        if f.atom.op == "cholesky" and f.power == 1 and f.at in (mask.at, mask.at[::-1]):
            diagonal = IndexedFactor(identity(f.at[0].dim), f.at)
            return term.without(mask).times(*([] if f.at == mask.at else [diagonal]))
    return None


def inverse_factors(term: IndexedTerm, f: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Write inv(L).T @ inv(L) as the inverse of the matrix whose Cholesky factor L is."""
    inner = f.atom.args[0].factor if f.power == 1 else None
    if inner is None or inner.atom.op != "cholesky" or inner.power != 1 or inner.at != f.atom.args[0].free:
        return None
    k, i = f.at
    for g in term.factors:
        alone = sum(k in h.at for h in term.factors) == 2 and k not in free
        if g is not f and g.atom == f.atom and g.power == 1 and g.at[0] == k and alone and k not in (i, g.at[1]):
            (x,) = inner.atom.args
            whole = inverse(x, *x.free).renamed(dict(zip(x.free, (i, g.at[1]), strict=True)))
            return multiply_term(term.without(f, g), whole)
    return None


def indices_summing_to_one(f: IndexedFactor) -> list[Index]:
    """Return the indices over which an indicator of the largest entry, or of an index, sums to one, if the factor is one."""
    if f.atom.op != "equal" or len(f.atom.args) != 2:
        return []
    for end, extreme in (f.atom.args, f.atom.args[::-1]):
        g = extreme.factor
        if g is not None and g.atom.op == "arange":
            return [f.at[-1 - i.id] for i in extreme.free]
        if g is not None and g.atom.op in EXTREMES and set(g.at) < set(end.free):
            return [f.at[-1 - i.id] for i in end.free if i not in g.at]
    return []
