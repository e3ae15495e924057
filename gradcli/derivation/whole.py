"""Functions of whole arrays as tensors: factorisations, functions of matrices, convolutions, the largest entry.

Such a function has no formula by entries, so it stays a function of its argument. Where its adjoint simplifies, that is done
here: the adjoint of expm in direction I is expm, and that of cholesky needs no mask where L.T @ Lbar is symmetric.
"""

import itertools
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from gradcli.arithmetic.value_graph import GraphNode
from gradcli.derivation.algebra import HALF, ONE, identity, inverse, multiply, product, sum_over
from gradcli.derivation.axes import (
    Sized,
    Value,
    indices_of_axes,
    match_indices,
    matrix_indices,
    value_with_axes,
    with_fresh_indices,
)
from gradcli.derivation.index import (
    Atom,
    Index,
    IndexedFactor,
    IndexedTerm,
    Tensor,
    add,
    apply_function,
    fresh_index,
    multiply_term,
    scalar,
    scale_tensor,
    slot,
    subtract,
    tensor_of_atom,
)
from gradcli.derivation.units import cut_span, triangle_of_ones
from gradcli.errors import NotSupported

Read = Callable[[Sized, list[Value], list[Any], Sequence[GraphNode]], Value]
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
    number = _multiple_of_identity(direction)
    if number is not None:
        return value_with_axes(at, multiply(number, x))
    own = with_fresh_indices(direction)
    (k, j) = matrix_indices(own)
    return value_with_axes((at[0], j), sum_over(multiply(x, own.tensor.renamed({k: at[1]})), [at[1]]))


def _multiple_of_identity(x: Value) -> Tensor | None:
    """Return c where a matrix is c times the identity, else None."""
    axes = set(x.singles)
    if len(x.tensor.terms) != 1 or len(axes) != 2:
        return None
    (term,) = x.tensor.terms
    eye = next((f for f in term.factors if f.atom.op == "delta" and set(f.at) == axes and f.power == 1), None)
    rest = term if eye is None else term.without(eye)
    return None if eye is None or axes & rest.indices else Tensor((), (rest,))


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
            rest = [t for t in x.terms if t is not one and t is not other]
            found = _cross_product_of_terms(one, other) if one.coef == -other.coef and one.coef > 0 else None
            if found is not None:
                parts = [*(Tensor(x.free, (t,)) for t in rest), Tensor(x.free, found.terms)]
                return write_cross_products(add(parts, x.free))
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
WHOLE: dict[str, Read] = {
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
