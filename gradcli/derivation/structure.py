"""Operations that move, join and sum entries, as tensors: axes have indices, and what is broadcast lacks them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from gradcli.derivation.algebra import HALF, absolute, inverse, logarithm
from gradcli.derivation.index import (
    Atom,
    Index,
    Tensor,
    Term,
    add,
    fresh,
    function,
    of_atom,
    of_matrix,
    scalar,
    scaled,
    slot,
)  # fmt: skip
from gradcli.derivation.products import identity, multiply, power, product, sum_over
from gradcli.errors import NotSupported
from gradcli.interpreters.graph import Graph

if TYPE_CHECKING:
    from gradcli.derivation.convert import Reader

Axis = Index | None  # an axis of length 1 has no index


@dataclass(frozen=True)
class Value:
    """A tensor and the index of each axis."""

    axes: tuple[Axis, ...]
    tensor: Tensor


def placed(x: Value, axes: Sequence[Axis]) -> Tensor:
    """Return a value at the indices of a result that it is broadcast to: axes stand under each other from the right."""
    names = {
        mine: theirs
        for mine, theirs in zip(reversed(x.axes), reversed(axes), strict=False)
        if mine is not None and theirs is not None
    }
    return x.tensor.renamed(names)


def _renamed(x: Value) -> Value:
    """Return a value with indices of its own, so that it can stand beside itself."""
    names = {i: fresh(i.dim) for i in dict.fromkeys(x.axes) if i is not None}
    return Value(tuple(names[i] if i is not None else None for i in x.axes), x.tensor.renamed(names))


def _ordered(axes: Sequence[Axis], tensor: Tensor) -> Value:
    return Value(tuple(axes), Tensor(tuple(dict.fromkeys(i for i in axes if i is not None)), tensor.terms))


def _sum(reader: "Reader", xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    gone = params[0]["axis"]
    axes = [a for k, a in enumerate(xs[0].axes) if k not in gone]
    over = [xs[0].axes[k] for k in gone]
    return _ordered(axes, sum_over(xs[0].tensor, [i for i in over if i is not None]))


def _reshape(reader: "Reader", xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    """Axes of length 1 come and go; anything else has no indices."""
    dims = [reader.dim(lengths) for lengths in zip(*(g.shape for g in graphs), strict=True)]
    kept = [a for a in xs[0].axes if a is not None]
    if [d for d in dims if d != "1"] != [i.dim for i in kept]:
        raise NotSupported("a reshape that joins or parts axes has no formula", do="leave the axes as they are")
    rest = iter(kept)
    return _ordered([None if d == "1" else next(rest) for d in dims], xs[0].tensor)


def _transpose(reader: "Reader", xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    return _ordered([xs[0].axes[k] for k in params[0]["axes"]], xs[0].tensor)


def _broadcast_to(reader: "Reader", xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    axes = list(reader.axes([g.shape for g in graphs]))
    for k, mine in enumerate(reversed(xs[0].axes), 1):
        if mine is not None:
            axes[-k] = mine
    return _ordered(axes, xs[0].tensor)


def _getitem(reader: "Reader", xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    index = params[0]["index"]
    parts = list(index) if isinstance(index, tuple) else [index]
    rank = len(xs[0].axes)
    taken = sum(p is not None and p is not Ellipsis for p in parts)
    if Ellipsis in [p for p in parts if not isinstance(p, np.ndarray)]:
        k = next(k for k, p in enumerate(parts) if p is Ellipsis)
        parts[k : k + 1] = [slice(None)] * (rank - taken)
    parts += [slice(None)] * (rank - sum(p is not None for p in parts))
    if any(isinstance(p, slice) and p != slice(None) for p in parts):
        return _sliced(reader, xs[0], parts, graphs)
    counting = [k for k, p in enumerate(parts) if _counts(p)]
    axes: list[Axis] = []
    own = iter(xs[0].axes)
    joined: dict[Index, Index] = {}
    diagonal: Axis = None
    for k, part in enumerate(parts):
        if part is None:
            axes.append(None)
            continue
        axis = next(own)
        if isinstance(part, slice) and part == slice(None):
            axes.append(axis)
        elif k in counting and len(counting) == 2 and axis is not None:
            if diagonal is None:
                diagonal = axis
                axes.append(axis)
            else:
                joined[axis] = diagonal
        else:
            raise NotSupported("an index has no formula here", do="write sums and products of whole arrays")
    tensor = xs[0].tensor.renamed(joined) if joined else xs[0].tensor
    return _ordered(axes, Tensor(tuple(dict.fromkeys(tensor.free)), tensor.terms))


def _sliced(reader: "Reader", x: Value, parts: list[Any], graphs: Sequence[Graph]) -> Value:
    """Return x[start:stop] along one axis: every factor that has its index is sliced."""
    k = next(k for k, p in enumerate(parts) if isinstance(p, slice) and p != slice(None))
    others = [p for j, p in enumerate(parts) if j != k]
    i = x.axes[k] if k < len(x.axes) else None
    part = parts[k]
    start = part.start or 0
    if any(p != slice(None) for p in others) or i is None or part.step not in (None, 1) or start < 0:
        raise NotSupported("an index has no formula here", do="write sums and products of whole arrays")
    new = reader.axes([g.shape for g in graphs])[k]
    if new is None:
        raise NotSupported("a slice of one entry has no formula here")
    terms = []
    for term in x.tensor.terms:
        factors = []
        for f in term.factors:
            if i not in f.at:
                factors.append(f)
                continue
            slots = tuple(slot(n, j.dim) for n, j in enumerate(f.at))
            inner = Tensor(slots, (Term(Fraction(1), (f._replace(at=slots, power=Fraction(1)),)),))
            at = tuple(new if j == i else j for j in f.at)
            atom = Atom(
                "slice", args=(inner,), dims=tuple(j.dim for j in at), axes=(f.at.index(i),), param=float(start)
            )
            factors.append(f._replace(atom=atom, at=at))
        terms.append(Term(term.coef, tuple(factors)))
    axes = [new if j == k else a for j, a in enumerate(x.axes)]
    return _ordered(axes, Tensor(tuple(a for a in axes if a is not None), tuple(terms)))


def _padded(reader: "Reader", x: Value, part: slice, graphs: Sequence[Graph]) -> Value:
    """Return the transpose of a slice of a vector: its entries among zeros."""
    i = x.axes[0]
    new = reader.axes([g.shape for g in graphs])[0]
    if len(x.axes) != 1 or i is None or new is None or part.step not in (None, 1) or (part.start or 0) < 0:
        raise NotSupported("an index has no formula here", do="write sums and products of whole arrays")
    inner = x.tensor.renamed({i: slot(0, i.dim)})
    atom = Atom("pad", args=(inner,), dims=(new.dim,), axes=(0,), param=float(part.start or 0))
    return Value((new,), of_atom(atom, (new,)))


def _counts(part: Any) -> bool:
    return isinstance(part, np.ndarray) and part.ndim == 1 and np.array_equal(part, np.arange(len(part)))


def _scatter(reader: "Reader", xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    """The transpose of taking a diagonal, or of adding axes."""
    index = params[0]["index"]
    parts = [p for p in (index if isinstance(index, tuple) else (index,)) if p is not Ellipsis]
    if len(parts) == 1 and isinstance(parts[0], slice) and parts[0] != slice(None):
        return _padded(reader, xs[0], parts[0], graphs)
    if len(parts) == 2 and all(map(_counts, parts)) and len(xs[0].axes) == 1 and xs[0].axes[0] is not None:
        i = xs[0].axes[0]
        j = fresh(i.dim)
        return _ordered([i, j], multiply(xs[0].tensor, of_atom(identity(i.dim), (i, j))))
    if all(p is None or p == slice(None) for p in parts if not isinstance(p, np.ndarray)) and not any(
        isinstance(p, np.ndarray) for p in parts
    ):
        kept = [
            a for a, p in zip(xs[0].axes, [*parts, *[slice(None)] * len(xs[0].axes)], strict=False) if p is not None
        ]
        return _ordered(kept, xs[0].tensor)
    raise NotSupported("an index has no formula here", do="write sums and products of whole arrays")


def _matmul(reader: "Reader", xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    a, b = _renamed(xs[0]), _renamed(xs[1])
    if len(a.axes) != 2 or len(b.axes) != 2:
        raise NotSupported("a product of stacks of matrices has no formula here", do="use einsum")
    inner, other = a.axes[1], b.axes[0]
    right = b.tensor.renamed({other: inner}) if inner is not None and other is not None else b.tensor
    whole = multiply(a.tensor, right)
    return _ordered([a.axes[0], b.axes[1]], sum_over(whole, [inner]) if inner is not None else whole)


def _einsum(reader: "Reader", xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
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
    return _ordered([letters[letter] for letter in out], sum_over(product(parts), gone))


def _inv(reader: "Reader", xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    return Value(xs[0].axes, inverse(xs[0].tensor, *_square(xs[0])))


def _square(x: Value) -> tuple[Index, Index]:
    if len(x.axes) != 2 or x.axes[0] is None or x.axes[1] is None:
        raise NotSupported("a matrix of one entry, or a stack of matrices, has no formula here")
    return x.axes[0], x.axes[1]


def _det(reader: "Reader", xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    i, j = _square(xs[0])
    if graphs[0].op == "logdet":
        return Value((), logarithm(absolute(of_matrix("det", xs[0].tensor, i, j))))
    return Value((), of_matrix("det", xs[0].tensor, i, j))


def _solve(reader: "Reader", xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    a, b = _renamed(xs[0]), _renamed(xs[1])
    i, j = _square(a)
    found = inverse(a.tensor, i, j)
    if b.axes[0] is None:
        raise NotSupported("solve of a single equation has no formula here")
    return _ordered([i, *b.axes[1:]], sum_over(multiply(found, b.tensor.renamed({b.axes[0]: j})), [j]))


def _logsumexp(reader: "Reader", xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    gone = params[0]["axis"]
    axes = [a for k, a in enumerate(xs[0].axes) if k not in gone]
    free = tuple(i for i in xs[0].axes if i is not None)
    total = sum_over(function("exp", [xs[0].tensor], free), [i for k in gone if (i := xs[0].axes[k]) is not None])
    return _ordered(axes, function("log", [total], tuple(i for i in axes if i is not None)))


def _norm(reader: "Reader", xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    squares = multiply(xs[0].tensor, xs[0].tensor)
    return Value((), power(sum_over(squares, [i for i in xs[0].axes if i is not None]), HALF))


def _where(reader: "Reader", xs: list[Value], params: list[Any], graphs: Sequence[Graph]) -> Value:
    axes = reader.axes([g.shape for g in graphs])
    free = tuple(i for i in axes if i is not None)
    condition, a, b = (placed(x, axes) for x in xs)
    rest = add([scalar(Fraction(1)), scaled(condition, -1)], free)
    return Value(axes, Tensor(free, add([multiply(condition, a), multiply(rest, b)], free).terms))


STRUCTURE: dict[str, Callable[["Reader", list[Value], list[Any], Sequence[Graph]], Value]] = {
    "sum": _sum, "reshape": _reshape, "transpose": _transpose, "broadcast_to": _broadcast_to, "getitem": _getitem,
    "scatter": _scatter, "matmul": _matmul, "einsum": _einsum, "inv": _inv, "det": _det, "logdet": _det, "solve": _solve,
    "logsumexp": _logsumexp, "norm": _norm, "where": _where,
}  # fmt: skip
