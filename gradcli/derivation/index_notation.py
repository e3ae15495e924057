"""Tensors written with indices: G[i,j] = sum_k A[i,k]*B[k,j]."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from gradcli.derivation.exponentials import DENSITY
from gradcli.derivation.index import Atom, Factor, Index, Tensor, Term, slot
from gradcli.derivation.mathematics import Writing
from gradcli.derivation.matrices import NAMES, SIGNS, Printer
from gradcli.derivation.notation import Plain
from gradcli.derivation.products import is_product
from gradcli.derivation.signs import M, Sign, beside, constant_of, density_at, function
from gradcli.derivation.sized import Shapes
from gradcli.derivation.whole import EXTREMES, OPAQUE
from gradcli.report.names import index_letters, printed

_PARTS = (
    {"slice", "pad", "inv", "det", "expm", "sqrtm", "logm", "pinv"} | OPAQUE
) - EXTREMES  # written as arrays, indices after them
Dims = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Entry:
    """One entry of a tensor as mathematics, and the letters of its indices, None for an axis of length 1."""

    letters: tuple[str, ...]
    formula: M


def indexed(x: Tensor, axes: Sequence[Index | None], name: str, dims: Dims) -> str:
    """Return a tensor as a line of text: G[i,j] = sum_k A[i,k]*B[k,j]."""
    entry = entry_of(x, axes, dims, name)
    notation = Plain([*dims])
    return notation.statements([(notation.indexed(name, entry.letters), notation.write(entry.formula))])


def entry_of(x: Tensor, axes: Sequence[Index | None], dims: Dims, *taken: str) -> Entry:
    """Return one entry of a tensor; no index has the letter of an input, of a size, or of what else is `taken`."""
    sizes = [d for own in dims.values() for d in own]
    own = [i for i in axes if i is not None]
    scope = _Scope({}, tuple(index_letters(frozenset((*taken, *dims, *sizes)))), Writing(Shapes(dims))).holding(own)
    return Entry(tuple(scope.names[i] for i in own), _sum(x, scope))


@dataclass(frozen=True)
class _Scope:
    """The letters of the indices that can be used at a place, and those that are free for further ones there."""

    names: Mapping[Index, str]
    letters: tuple[str, ...]
    writing: Writing

    def holding(self, more: Sequence[Index]) -> "_Scope":
        """Return the scope with letters for more indices."""
        names = dict(self.names)
        left = list(self.letters)
        for i in more:
            if i not in names:
                names[i] = left.pop(0) if left else f"z{len(names)}"
        return _Scope(names, tuple(left), self.writing)

    def at(self, names: Mapping[Index, str]) -> "_Scope":
        """Return the scope inside an atom, where other indices have the letters of this place."""
        return _Scope(names, self.letters, self.writing)


def _sum(x: Tensor, scope: _Scope) -> M:
    terms = [_term(t, scope) for t in x.terms] or [constant_of(Fraction(0))]
    return terms[0] if len(terms) == 1 else M(Sign.SUM, tuple(terms))


def _term(term: Term, scope: _Scope) -> M:
    every = [i for i in dict.fromkeys(i for f in term.factors for i in f.at) if i not in scope.names]
    picks = [f for f in term.factors if f.atom.op == "unit" and f.at[0] in every]
    scope = scope.at({**scope.names, **{f.at[0]: _place(f.atom) for f in picks}})
    bound = [i for i in every if i not in scope.names]
    scope = scope.holding(bound)
    shown = [_factor(f, scope) for f in term.factors if not any(f is p for p in picks)]
    product = beside([constant_of(-term.coef if term.coef < 0 else term.coef), *shown])
    total = M(Sign.TOTAL, (product,), letters=tuple(scope.names[i] for i in bound)) if bound else product
    return M(Sign.MINUS, (total,)) if term.coef < 0 else total


def _place(atom: Atom) -> str:
    """Return the position of the 1 in a unit vector: `0`, or `n-1` if it counts from the end."""
    return f"{atom.dims[0]}{atom.name}" if atom.name.startswith("-") else atom.name


def _factor(f: Factor, scope: _Scope) -> M:
    base = _atom(f.atom, tuple(scope.names[i] for i in f.at), scope)
    return base if f.power == 1 else M(Sign.POWER, (base, constant_of(f.power)))


def _atom(atom: Atom, own: tuple[str, ...], scope: _Scope) -> M:
    if atom.op == "number":
        return constant_of(Fraction(int(atom.name)))
    if atom.op in ("input", "size", "pi"):
        return _entry(M(Sign.NAME, text=atom.name), own)
    if atom.op == "arange":
        return M(Sign.NAME, text=own[0])
    if atom.op in ("delta", "unit"):
        known = {printed(n) for n in scope.writing.shapes.known}
        sign = next((word for word in ("delta", "I", "Id") if printed(word) not in known), "Eye")
        return _entry(M(Sign.NAME, text=sign), own if atom.op == "delta" else (own[0], _place(atom)))
    if atom.op in _PARTS:
        whole = scope.writing.formula(Printer({}).atom(atom, tuple(range(len(atom.dims)))))
        return M(Sign.ENTRY, (whole,), letters=own)
    if atom.op == "tri":
        before = M(Sign.SUM, (M(Sign.NAME, text=own[0]), constant_of(Fraction(atom.name))))
        row = before if atom.name != "0" else before.args[0]
        return M(Sign.TRUTH, (row, M(Sign.NAME, text=own[1])), ">=")
    if atom.op in EXTREMES:
        names = {slot(k, d): own[k] for k, d in enumerate(atom.dims)}
        over = [i for i in atom.args[0].free if i not in names]
        inner = scope.at(names).holding(over)
        return M(Sign.FUNCTION, (_sum(atom.args[0], inner),), atom.op, letters=tuple(inner.names[i] for i in over))
    if atom.op == "softmax":
        return _softmax(atom, own, scope)
    names = {slot(k, d): own[k] for k, d in enumerate(atom.dims)}
    inside = [_sum(arg, scope.at(names).holding(arg.free)) for arg in atom.args]
    if atom.op == "group":
        return inside[0]
    if atom.op == DENSITY:
        return density_at(inside[0])
    if atom.op in SIGNS:
        return M(Sign.TRUTH, tuple(inside), SIGNS[atom.op])
    if is_product(atom) and inside[0].sign is Sign.TOTAL:
        (log,) = inside[0].args
        return M(Sign.TOTAL, log.args, "prod", letters=inside[0].letters)
    return function(scope.writing.word(NAMES.get(atom.op, atom.op)), *inside)


def _entry(base: M, at: tuple[str, ...]) -> M:
    return M(Sign.ENTRY, (base,), letters=at) if at else base


def _softmax(atom: Atom, own: tuple[str, ...], scope: _Scope) -> M:
    """Return an entry of a softmax: softmax_j(Z[i,j]); at a place that has no letter, as a quotient of exponentials."""
    names = {slot(k, d): own[k] for k, d in enumerate(atom.dims)}
    (arg,) = atom.args
    over = [slot(k, atom.dims[k]) for k in atom.axes]
    here = _sum(arg, scope.at(names).holding(arg.free))
    if all(names[i].isalpha() for i in over):
        return M(Sign.FUNCTION, (here,), "softmax", letters=tuple(names[i] for i in over))
    there = scope.at({i: c for i, c in names.items() if i not in over}).holding(over)
    total = M(Sign.TOTAL, (function("exp", _sum(arg, there)),), letters=tuple(there.names[i] for i in over))
    return M(Sign.OVER, (function("exp", here), total))
