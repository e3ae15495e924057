"""What a tensor is at a point, by einsum and nothing else: the judge of rules that rewrite tensors."""

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from scipy import special, stats

from gradcli.derivation.index import Atom, Index, IndexedFactor, IndexedTerm, Tensor, apply_function, bracket, slot

SIZES = {"n": 3, "m": 4}
ONE = Fraction(1)


def length(dim: str) -> int:
    """Return a size: of a name, or a number, or `n - 1`."""
    return int(eval(dim, {}, SIZES))


def at_point(x: Tensor, values: Mapping[str, Any], order: Sequence[Index] | None = None) -> Any:
    """Return the array of a tensor, its axes in an order; an index that a term lacks is broadcast."""
    axes = tuple(x.free if order is None else order)
    total = np.zeros([length(i.dim) for i in axes])
    for term in x.terms:
        ids = {i: k for k, i in enumerate(dict.fromkeys((*axes, *(j for f in term.factors for j in f.at))))}
        operands: list[Any] = []
        for f in term.factors:
            operands += [_atom(f.atom, values) ** float(f.power), [ids[i] for i in f.at]]
        for i in axes:
            operands += [np.ones(length(i.dim)), [ids[i]]]
        total = total + float(term.coef) * np.einsum(*operands, [ids[i] for i in axes]) if operands else total + float(term.coef)  # fmt: skip
    return total


def _atom(atom: Atom, values: Mapping[str, Any]) -> Any:
    if atom.op == "input":
        return np.asarray(values[atom.name], dtype=float)
    if atom.op == "delta":
        return np.eye(length(atom.dims[0]))
    if atom.op == "unit":
        return np.eye(length(atom.dims[0]))[int(atom.name)]
    if atom.op == "tri":
        return np.tri(*(length(d) for d in atom.dims), k=int(atom.name))
    if atom.op == "slice":
        spans = [atom.name if k == atom.axes[0] else ":" for k in range(len(atom.dims))]
        return eval(f"whole[{', '.join(spans)}]", {"whole": at_point(atom.args[0], values)}, SIZES)
    if atom.op in ("size", "number", "pi"):
        return np.asarray({"size": SIZES.get(atom.name), "pi": np.pi}.get(atom.op) or float(atom.name))
    if atom.op == "inf":  # times 0 it is 0, as in a choice
        return np.float64(1e300)
    if atom.op in _WHOLE:
        return _WHOLE[atom.op](at_point(atom.args[0], values))
    slots = [slot(k, d) for k, d in enumerate(atom.dims)]
    args = [at_point(a, values, slots) for a in atom.args]
    if atom.op in ("group", "inv"):
        return args[0] if atom.op == "group" else np.linalg.inv(args[0])
    if atom.op == "softmax":
        return special.softmax(*args, axis=atom.axes)
    if atom.op == "normal_density":
        return stats.norm.pdf(*args)
    made = getattr(np, atom.op, None) or getattr(special, atom.op)
    return np.asarray(made(*args), dtype=float)


_WHOLE = {  # functions of a whole array
    "det": np.linalg.det, "max": np.max, "cholesky": np.linalg.cholesky, "eigvalsh": np.linalg.eigvalsh, "svdvals": np.linalg.svdvals,
    "eigenvectors": lambda s: np.linalg.eigh(s)[1], "left_vectors": lambda x: np.linalg.svd(x, full_matrices=False)[0],
    "right_vectors": lambda x: np.linalg.svd(x, full_matrices=False)[2].T,
}  # fmt: skip


def known(name: str, dims: str = "", *facts: str) -> Atom:
    """Return an input as an atom."""
    return Atom("input", name, dims=tuple(dims.split()), facts=frozenset(facts))


def factor(atom: Atom, *at: Index, power: int | Fraction = 1) -> IndexedFactor:
    return IndexedFactor(atom, at, Fraction(power))


def tensor(free: Sequence[Index], *terms: tuple[Any, ...]) -> Tensor:
    """Return a sum of products as it is written, nothing tidied: each a number and its factors."""
    return Tensor(tuple(free), tuple(IndexedTerm(Fraction(coef), tuple(factors)) for coef, *factors in terms))


def of(op: str, *args: Tensor, over: Sequence[Index] = ()) -> IndexedFactor:
    """Return a function of tensors as a factor."""
    free = tuple(dict.fromkeys(i for a in args for i in a.free))
    return apply_function(op, args, free, axes=over).terms[0].factors[0]


def sum_of(x: Tensor, power: int | Fraction = 1) -> tuple[Any, IndexedFactor]:
    """Return a sum as a factor in brackets, and the number before it."""
    made = bracket(x)
    return made.coef, made.factors[0]._replace(power=Fraction(power))
