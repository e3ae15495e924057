"""Sums of products with indices: the form in which derivatives are simplified.

`A @ x` is A[i,j] x[j], summed over j; `outer(x, y)` is x[i] y[j]; a transpose exchanges indices; a broadcast operand lacks
one. So transposes, arrays of ones and the order of factors need no rules, and like terms are those with the same key.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import NamedTuple

from gradcli.classes import dataclass
from gradcli.derivation.sized_problem import CHARACTERS, spend_work

Number = Fraction | float
_fresh = itertools.count(1)
_STARTS = 6  # starting factors to try, for the canonical order of a term of equal factors


SINGLE = "single "  # followed by a number: the fact that this axis of an input has length 1, and so no index


class Index(NamedTuple):
    """An index and the size it runs over; inside the arguments of an atom, its indices are slots, with ids -1, -2, ..."""

    id: int
    dim: str


def fresh_index(dim: str) -> Index:
    """Return a new index, which is used nowhere else."""
    return Index(next(_fresh), dim)


def slot(k: int, dim: str) -> Index:
    """Return the slot that stands for an atom's k-th index inside its arguments."""
    return Index(-1 - k, dim)


@dataclass(frozen=True)
class Atom:
    """An indivisible factor: an input, a function of tensors, a sum in brackets, the identity, or a size.

    `args` refer to the atom's own indices by slots; `axes` are the slots over which a function normalises or reduces.
    """

    op: str
    name: str = ""
    args: tuple["Tensor", ...] = ()
    dims: tuple[str, ...] = ()
    facts: frozenset[str] = frozenset()
    axes: tuple[int, ...] = ()
    param: float | None = None

    @cached_property
    def key(self) -> str:
        """A string that is equal for equal atoms."""
        if self.op == "input" and self.param is not None:
            return f"input:{int(self.param):03}:{self.name}"
        inside = ",".join(arg.key for arg in self.args)
        spend_work(len(inside) // CHARACTERS)
        rest = f"{self.axes}" if self.axes else ""
        return f"{self.op}:{self.name}({inside}){rest}{'' if self.param is None else self.param}"

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and self.key == other.key

    @cached_property
    def symmetric(self) -> bool:
        """Whether exchanging its two indices changes nothing."""
        if len(self.dims) != 2 or self.dims[0] != self.dims[1]:
            return False
        if self.op in ("mirrored", "delta"):
            return True
        if self.op == "input":
            return bool(self.facts & {"symmetric", "spd", "diagonal", "tied"})
        if self.op not in ("group", "inv") and self.axes:
            return False
        if any(-1 - i.id >= len(self.dims) for arg in self.args for i in arg.free):  # a function of a whole array
            return False
        swap = {slot(0, self.dims[0]): slot(1, self.dims[0]), slot(1, self.dims[0]): slot(0, self.dims[0])}
        return bool(self.args) and all(arg.renamed(swap).key == arg.key for arg in self.args)


class IndexedFactor(NamedTuple):
    """An atom with indices, raised to a power entry by entry."""

    atom: Atom
    at: tuple[Index, ...]
    power: Fraction = Fraction(1)


@dataclass(frozen=True)
class IndexedTerm:
    """A number times factors; an index that is not free is summed over."""

    coef: Number
    factors: tuple[IndexedFactor, ...] = ()

    @property
    def indices(self) -> Set[Index]:
        """All indices of the factors, in order of occurrence; the order of a plain set differs from run to run."""
        return {i: None for f in self.factors for i in f.at}.keys()

    def renamed(self, names: Mapping[Index, Index]) -> "IndexedTerm":
        """Return the term with its indices renamed."""
        return replace(self, factors=tuple(f._replace(at=tuple(names.get(i, i) for i in f.at)) for f in self.factors))

    def count(self, i: Index) -> int:
        """Return how often an index occurs."""
        return sum(f.at.count(i) for f in self.factors)

    def like(self, f: IndexedFactor) -> IndexedFactor | None:
        """Return the factor that is a power of the same atom with the same indices, if there is one."""
        return next((g for g in self.factors if g.atom == f.atom and g.at == f.at), None)

    def without(self, *gone: IndexedFactor) -> "IndexedTerm":
        """Return the term without some of its factors, which are compared by identity."""
        return replace(self, factors=tuple(f for f in self.factors if not any(f is g for g in gone)))

    def times(self, *factors: IndexedFactor, number: Number = 1) -> "IndexedTerm":
        """Return the term with further factors at its end."""
        return IndexedTerm(self.coef * number, (*self.factors, *factors))

    def to_power(self, f: IndexedFactor, p: Fraction | int) -> "IndexedTerm":
        """Return the term with one of its factors, compared by identity, to another power; without it where that is 0."""
        return self.without(f).times(*([f._replace(power=Fraction(p))] if p else []))


@dataclass(frozen=True)
class Tensor:
    """A sum of terms; `free` are its indices, in the order of its axes."""

    free: tuple[Index, ...]
    terms: tuple[IndexedTerm, ...]

    @cached_property
    def key(self) -> str:
        """A string that is equal for equal tensors, whatever the names of their bound indices."""
        names = {i: f"_{n}" for n, i in enumerate(self.free)} | {i: f"s{-i.id}" for i in self.indices if i.id < 0}
        by_key = {key_of_term(t, names): t for t in self.terms}
        return " + ".join(f"{t.coef}*{k}" for k, t in sorted(by_key.items())) or "0"

    def renamed(self, names: Mapping[Index, Index]) -> "Tensor":
        """Return the tensor with its free indices renamed, and its bound ones fresh."""
        return Tensor(
            tuple(names.get(i, i) for i in self.free),
            tuple(refresh_bound_indices(t, self.free).renamed(names) for t in self.terms),
        )

    @property
    def number(self) -> Number | None:
        """The number it is, if it is one."""
        if not self.terms:
            return Fraction(0)
        return self.terms[0].coef if len(self.terms) == 1 and not self.terms[0].factors else None

    @property
    def factor(self) -> IndexedFactor | None:
        """The factor it is, if it is a single one without a number before it; its power may be any."""
        alone = len(self.terms) == 1 and len(self.terms[0].factors) == 1 and self.terms[0].coef == 1
        return self.terms[0].factors[0] if alone else None

    @cached_property
    def inputs(self) -> frozenset[str]:
        """The names of the inputs in it."""
        atoms = [f.atom for t in self.terms for f in t.factors]
        inside = (arg.inputs for atom in atoms for arg in atom.args)
        return frozenset(atom.name for atom in atoms if atom.op == "input").union(*inside)

    @property
    def indices(self) -> set[Index]:
        """All indices in it."""
        return {i for t in self.terms for i in t.indices}


def refresh_bound_indices(term: IndexedTerm, free: Iterable[Index]) -> IndexedTerm:
    """Return a term with fresh bound indices."""
    kept = set(free)
    return term.renamed({i: fresh_index(i.dim) for i in term.indices if i not in kept and i.id >= 0})


def key_of_term(term: IndexedTerm, names: Mapping[Index, str]) -> str:
    """Return a string that is equal for terms that differ only in the names of bound indices and the order of factors."""
    return "*".join(text for text, _ in _canonical_factors(term, dict(names)))


def _canonical_factors(term: IndexedTerm, names: dict[Index, str]) -> list[tuple[str, IndexedFactor]]:
    """Return the factors in canonical order, with their strings; bound indices are named by the factors they connect."""
    spend_work(len(term.factors))
    bound = [i for i in dict.fromkeys(i for f in term.factors for i in f.at) if i not in names]
    marks = {i: f"b{i.dim}" for i in bound}
    heads = [(f"{f.atom.key}^{f.power}@", f) for f in term.factors] if bound else []
    holders = {i: [(head, f) for head, f in heads if i in f.at] for i in bound}
    for _ in range(3 if bound else 0):
        marks = {i: _mark_of_index(i, holders[i], names, marks) for i in bound}
        short = {text: f"m{k:03}" for k, text in enumerate(sorted(set(marks.values())))}
        marks = {i: short[text] for i, text in marks.items()}
        if len(set(marks.values())) == len(marks):
            break
    if len(set(marks.values())) == len(marks):
        return _strings_of_factors(sorted(term.factors, key=lambda f: _string_of_factor(f, names, marks)), names, marks)
    texts = [_string_of_factor(f, names, marks) for f in term.factors]
    starts = [f for f, text in zip(term.factors, texts, strict=True) if text == min(texts)][:_STARTS]
    walks = [_strings_of_factors(_follow_shared_indices(f, term.factors, names, marks), names, marks) for f in starts]
    return min(walks, key=lambda walk: [text for text, _ in walk])


def _strings_of_factors(
    factors: Sequence[IndexedFactor], names: Mapping[Index, str], marks: Mapping[Index, str]
) -> list[tuple[str, IndexedFactor]]:
    """Return the factors with their strings, in order; bound indices are named in the order in which they are met."""
    named = dict(names)
    for f in factors:
        for i in _canonical_indices(f, named, marks):
            if i not in named:
                named[i] = f"k{len(named)}{i.dim}"
    return sorted(((_string_of_factor(f, named, {}), f) for f in factors), key=lambda pair: pair[0])


def _follow_shared_indices(
    start: IndexedFactor, factors: Sequence[IndexedFactor], names: Mapping[Index, str], marks: Mapping[Index, str]
) -> list[IndexedFactor]:
    """Return the factors ordered from one on along shared indices, because a cycle of equal factors has no first one."""
    named = dict(names)
    way, left = [start], [f for f in factors if f is not start]
    while True:
        for i in _canonical_indices(way[-1], named, marks):
            named.setdefault(i, f"k{len(named)}{i.dim}")
        if not left:
            return way
        way.append(min(left, key=lambda f: _string_of_factor(f, named, marks)))
        left = [f for f in left if f is not way[-1]]


def _mark_of_index(
    i: Index, holders: Sequence[tuple[str, IndexedFactor]], names: Mapping[Index, str], marks: Mapping[Index, str]
) -> str:
    found = []
    for head, f in holders:
        where = "" if f.atom.symmetric else str([k for k, j in enumerate(f.at) if j == i])
        others = sorted(names.get(j, marks.get(j, "")) for j in f.at if j != i)
        found.append(f"{head}{where}{others}")
    return f"{i.dim}|{sorted(found)}"


def _canonical_indices(f: IndexedFactor, names: Mapping[Index, str], marks: Mapping[Index, str]) -> Sequence[Index]:
    if f.atom.symmetric:
        return sorted(f.at, key=lambda i: names.get(i, "~" + marks.get(i, "")))
    return f.at


def _string_of_factor(f: IndexedFactor, names: Mapping[Index, str], marks: Mapping[Index, str]) -> str:
    at = [names.get(i, "~" + marks.get(i, "")) for i in f.at]
    return f"{f.atom.key}[{','.join(sorted(at) if f.atom.symmetric else at)}]^{f.power}"


def magnitude(x: Number) -> Number:
    """Return |x|."""
    return -x if x < 0 else x


def scalar(x: Number) -> Tensor:
    """Return a number as a tensor."""
    return Tensor((), (IndexedTerm(x),) if x != 0 else ())


def tensor_of_atom(atom: Atom, at: Sequence[Index]) -> Tensor:
    """Return an atom as a tensor; an index that occurs twice is one free index."""
    return Tensor(tuple(dict.fromkeys(at)), (IndexedTerm(Fraction(1), (IndexedFactor(atom, tuple(at)),)),))


def tensor_of_size(dim: str) -> Tensor:
    """Return a size, such as n, n - 1 or n*m, as a number."""
    if "*" in dim:
        factors = tuple(IndexedFactor(Atom("size", name), ()) for name in dim.split("*"))
        return Tensor((), (IndexedTerm(Fraction(1), factors),))
    parts = [scalar(Fraction(w)) if w.isdecimal() else tensor_of_atom(Atom("size", w), ()) for w in dim.split()[::2]]
    signs = [1, *(-1 if w == "-" else 1 for w in dim.split()[1::2])]
    return parts[0] if len(parts) == 1 else add([scale_tensor(x, sign) for x, sign in zip(parts, signs, strict=True)])


def add(parts: Sequence[Tensor], free: tuple[Index, ...] | None = None) -> Tensor:
    """Return a sum of tensors, with like terms combined; a bracket that is a whole term is opened."""
    free = tuple(dict.fromkeys(i for part in parts for i in part.free)) if free is None else free
    return add_terms((t for part in parts for t in part.terms), free)


def add_terms(terms: Iterable[IndexedTerm], free: tuple[Index, ...]) -> Tensor:
    """Return a sum of terms, with like ones combined; a bracket that is a whole term is opened."""
    found: dict[str, IndexedTerm] = {}
    names = {i: f"_{n}" for n, i in enumerate(free)}
    for term in (t for whole in terms for t in open_lone_bracket(whole, free)):
        key = key_of_term(term, names | {i: f"s{-i.id}" for i in term.indices if i.id < 0 and i not in names})
        seen = found.get(key)
        found[key] = term if seen is None else replace(term, coef=term.coef + seen.coef)
    return Tensor(free, tuple(t for t in found.values() if t.coef != 0))


def open_lone_bracket(term: IndexedTerm, free: tuple[Index, ...]) -> Iterator[IndexedTerm]:
    """Yield the terms of a bracket that is the only factor of a term; else the term itself.

    A term that lacks a summed index of the bracket is multiplied by the index's size.
    """
    if len(term.factors) == 1 and term.factors[0].atom.op == "group" and term.factors[0].power == 1:
        f = term.factors[0]
        inside = f.atom.args[0].renamed(dict(zip(f.atom.args[0].free, f.at, strict=True)))
        for part in inside.terms:
            whole = replace(part, coef=term.coef * part.coef)
            for i in (i for i in f.at if i.id >= 0 and i not in free and i not in part.indices):
                whole = multiply_term(whole, tensor_of_size(i.dim))
            yield whole
    else:
        yield term


def subtract(a: Tensor, b: Tensor, free: tuple[Index, ...] | None = None) -> Tensor:
    """Return the difference of two tensors."""
    return add([a, scale_tensor(b, -1)], free)


def scale_tensor(x: Tensor, c: Number) -> Tensor:
    """Return a tensor times a number."""
    return Tensor(x.free, tuple(replace(t, coef=t.coef * c) for t in x.terms)) if c != 0 else Tensor(x.free, ())


def multiply_term(term: IndexedTerm, x: Tensor) -> IndexedTerm:
    """Return a term times a tensor; a sum as a bracket."""
    whole = as_one_term(x)
    return term.times(*whole.factors, number=whole.coef)


def as_one_term(x: Tensor) -> IndexedTerm:
    """Return a tensor as one term: a sum as a bracket."""
    return x.terms[0] if len(x.terms) == 1 else bracket(x)


def indices_by_appearance(tensors: Sequence[Tensor]) -> tuple[Index, ...]:
    """Return the free indices of tensors in an order that does not depend on that of their axes."""
    found: dict[Index, None] = {}
    for tensor in tensors:
        wild = dict.fromkeys(tensor.free, "?")
        ways = [(_canonical_factors(t, dict(wild)), str(t.coef)) for t in tensor.terms]
        for way, _ in sorted(ways, key=lambda pair: ("*".join(text for text, _ in pair[0]), pair[1])):
            for _, f in way:
                for i in f.at:
                    if i in wild:
                        found.setdefault(i)
    return tuple(found)


def apply_function(
    op: str, args: Sequence[Tensor], free: Sequence[Index], axes: Iterable[Index] = (), **own: object
) -> Tensor:
    """Return a function of tensors as an atom, whose indices are those of its arguments."""
    at = indices_by_appearance(args)
    slots = {i: slot(k, i.dim) for k, i in enumerate(at)}
    inside = tuple(_argument_with_slots(arg, slots) for arg in args)
    over = tuple(sorted(at.index(i) for i in axes if i in at))
    atom = Atom(op, args=inside, dims=tuple(i.dim for i in at), axes=over, **own)  # type: ignore[arg-type]
    return Tensor(tuple(free), (IndexedTerm(Fraction(1), (IndexedFactor(atom, at),)),))


def apply_matrix_function(op: str, x: Tensor, i: Index, j: Index) -> Tensor:
    """Return a scalar function of a matrix x[i,j], such as its determinant, as an atom without indices."""
    at = indices_by_appearance([x]) if set(indices_by_appearance([x])) == {i, j} else (i, j)
    slots = {k: slot(n, k.dim) for n, k in enumerate(at)}
    return tensor_of_atom(Atom(op, args=(_argument_with_slots(x, slots),)), ())


def _argument_with_slots(arg: Tensor, slots: Mapping[Index, Index]) -> Tensor:
    renamed = arg.renamed(slots)
    used = [i for i in sorted(set(slots.values()), reverse=True) if i in renamed.free]
    return Tensor(tuple(used), renamed.terms)


def argument_of_factor(factor: IndexedFactor, k: int = 0) -> Tensor:
    """Return an argument of a factor's atom, with its slots replaced by the factor's indices."""
    arg = factor.atom.args[k]
    return arg.renamed({i: factor.at[-1 - i.id] for i in arg.free})


def bracket(x: Tensor) -> IndexedTerm:
    """Return a sum as a term with one bracket: a number common to all terms is taken out, and the first term is positive."""
    sizes = {magnitude(t.coef) for t in x.terms}
    share: Number = sizes.pop() if len(sizes) == 1 else Fraction(1)
    at = indices_by_appearance([x])
    names = {i: f"_{n}" for n, i in enumerate(at)}
    first = min(x.terms, key=lambda t: key_of_term(t, names))
    share = -share if first.coef < 0 else share
    inner = scale_tensor(x, 1 / share)
    at = indices_by_appearance([inner]) if share != 1 else at
    arg = _argument_with_slots(Tensor(at, inner.terms), {i: slot(k, i.dim) for k, i in enumerate(at)})
    return IndexedTerm(share, (IndexedFactor(Atom("group", args=(arg,), dims=tuple(i.dim for i in at)), at),))
