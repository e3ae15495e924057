"""Products, powers and sums of tensors, simplified by rules as they are made."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction

from gradcli.derivation.index import (
    Atom,
    Factor,
    Index,
    Number,
    Tensor,
    Term,
    add,
    bracket,
    magnitude,
    outside,
    scalar,
    scaled,
    size_of,
    unbound,
)  # fmt: skip

POSITIVE = {"exp", "softmax", "expit", "cosh", "size", "pi", "number"}
ONE = Fraction(1)
Rule = Callable[[Term, tuple[Index, ...]], Term | None]
COUNTING: set[Rule] = set()  # rules that account for the indices they remove
RULES: list[Rule] = []  # in the order in which they are tried; `rules.py` fills it


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """Return the product of tensors, which share the indices that both have; a sum becomes a bracket."""
    free = tuple(dict.fromkeys((*a.free, *b.free)))
    if not a.terms or not b.terms:
        return Tensor(free, ())
    for x, y in ((a, b), (b, a)):
        if x.number is not None:
            return Tensor(free, scaled(y, x.number).terms)
    left, right = (unbound(one(x), x.free) for x in (a, b))
    return Tensor(free, (tidied(Term(left.coef * right.coef, (*left.factors, *right.factors)), free),))


def product(parts: Sequence[Tensor]) -> Tensor:
    """Return the product of several tensors."""
    found = scalar(ONE)
    for part in parts:
        found = multiply(found, part)
    return found


def one(x: Tensor) -> Term:
    """Return a tensor as one term: a sum as a bracket."""
    return x.terms[0] if len(x.terms) == 1 else bracket(x)


def is_product(atom: Atom) -> bool:
    """Whether an atom is the exponential of a sum of logarithms, which stands for a product of any sign."""
    inner = atom.args[0].terms if atom.op == "exp" else ()
    logs = [f for t in inner for f in t.factors if f.atom.op == "log"]
    return len(inner) == len(logs) == 1 and len(inner[0].factors) == 1 and inner[0].coef == logs[0].power == 1


def positive(f: Factor) -> bool:
    """Whether an atom is known to be positive, entry by entry."""
    atom = f.atom
    if is_product(atom):
        return False
    if atom.op in POSITIVE or "positive" in atom.facts:
        return True
    if atom.op == "det":
        inner = atom.args[0].terms
        return len(inner) == 1 and len(inner[0].factors) == 1 and "spd" in inner[0].factors[0].atom.facts
    if atom.op == "group":
        return all(t.coef > 0 and all(positive(g) or g.power % 2 == 0 for g in t.factors) for t in outside(f).terms)
    return False


_COMPARISONS = {"greater", "greater_equal", "less", "less_equal", "equal", "not_equal"}


def is_truth(x: Tensor) -> bool:
    """Whether every entry of a tensor is known to be 0 or 1: a product of comparisons and masks, or 1 minus one."""
    return _is_product_of_truths(x) or _is_product_of_truths(add([scalar(ONE), scaled(x, -1)], x.free))


def _is_product_of_truths(x: Tensor) -> bool:
    if len(x.terms) != 1 or x.terms[0].coef != 1 or set(x.terms[0].indices) - set(x.free):
        return False
    return all(is_truth_factor(f) for f in x.terms[0].factors)


def is_truth_factor(f: Factor) -> bool:
    """Whether every entry of a factor is known to be 0 or 1."""
    if f.power < 1:
        return False
    if f.atom.op == "group":
        return is_truth(outside(f))
    return f.atom.op in _COMPARISONS or (f.atom.op == "input" and "mask" in f.atom.facts)


def power(x: Tensor, p: Fraction) -> Tensor:
    """Return x**p entry by entry; the power is distributed over a product if that is valid."""
    if p == 0:
        return Tensor(x.free, (Term(ONE),))
    if not x.terms:
        return x if p > 0 else Tensor(x.free, (Term(float("inf")),))
    term = unbound(one(x), x.free)
    summed = term.indices - set(x.free)
    whole = p.denominator == 1
    known = all(positive(f) or (f.power == 1 and f.atom.op == "group" and len(term.factors) == 1) for f in term.factors)
    if not summed and (whole or (term.coef > 0 and known)):
        inner = [f._replace(power=f.power * p) for f in term.factors]
        return Tensor(x.free, (tidied(_times_root(Term(ONE, tuple(inner)), term.coef, p), x.free),))
    share = magnitude(term.coef)
    group = _grouped(Tensor(x.free, (replace(term, coef=term.coef / share),)))
    return Tensor(x.free, (tidied(_times_root(Term(ONE, (group._replace(power=p),)), share, p), x.free),))


def _times_root(term: Term, c: Number, p: Fraction) -> Term:
    """Return a term times c**p, exactly: an irrational root is kept as a power of an integer."""
    if p.denominator == 1:
        return replace(term, coef=term.coef * c**p.numerator)
    if not isinstance(c, Fraction):
        return replace(term, coef=term.coef * float(c) ** float(p))
    coef, roots = term.coef, []
    for n, sign in ((c.numerator, 1), (c.denominator, -1)):
        root = round(n ** (1 / p.denominator))
        if root**p.denominator == n:
            coef = coef * Fraction(root) ** (p.numerator * sign)
        else:
            roots.append(Factor(Atom("number", str(n)), (), p * sign))
    return Term(coef, (*term.factors, *roots))


def _grouped(x: Tensor) -> Factor:
    """Return a single term as a bracket, which keeps sums over bound indices inside."""
    f = bracket(x)
    inner = f.factors[0]
    if f.coef == 1:
        return inner
    arg = scaled(inner.atom.args[0], f.coef)
    return inner._replace(atom=replace(inner.atom, args=(arg,)))


def sum_over(x: Tensor, axes: Iterable[Index]) -> Tensor:
    """Return the sum over indices; a term that lacks an index is multiplied by the index's size."""
    gone = tuple(axes)
    free = tuple(i for i in x.free if i not in gone)
    parts = []
    for term in x.terms:
        lacking = [i for i in gone if i not in term.indices]
        one = Tensor(free, (tidied(unbound(term, free), free),))
        parts.append(product([one, *(size_of(i.dim) for i in lacking)]))
    return add(parts, free) if parts else Tensor(free, ())


def tidied(term: Term, free: Sequence[Index]) -> Term:
    """Return a product with equal factors joined and the rules applied, until nothing changes.

    If no factor has a summed index any more, the term is multiplied by the index's size.
    """
    kept = tuple(free)
    for _ in range(200):
        term = summed_still(term, _joined(term), kept)
        for rule in RULES:
            found = rule(term, kept)
            if found is not None:
                term = found if rule in COUNTING else summed_still(term, found, kept)
                break
        else:
            return term
    return term


def summed_still(before: Term, after: Term, free: tuple[Index, ...]) -> Term:
    """Return a rewritten term times the sizes of the bound indices that it lost, because it is still summed over them."""
    lost = [i for i in before.indices - after.indices if i not in free and i.id >= 0]
    if not lost or after.coef == 0:
        return after
    sizes = [one(size_of(i.dim)) for i in sorted(lost)]
    coef = after.coef
    for size in sizes:
        coef = coef * size.coef
    return Term(coef, (*after.factors, *(f for size in sizes for f in size.factors)))


def _joined(term: Term) -> Term:
    """Return a term with equal factors joined, and those of power 0 left out."""
    powers: dict[tuple[Atom, tuple[Index, ...]], Fraction] = {}
    coef = term.coef
    for atom, at, p in term.factors:
        place = tuple(sorted(at)) if atom.symmetric else at
        powers[atom, place] = powers.get((atom, place), Fraction(0)) + p
    return Term(coef, tuple(Factor(atom, at, p) for (atom, at), p in powers.items() if p != 0))


def times(term: Term, x: Tensor) -> Term:
    """Return a term times a tensor; a sum as a bracket."""
    whole = one(x)
    return Term(term.coef * whole.coef, (*term.factors, *whole.factors))


def without(term: Term, *gone: Factor) -> tuple[Factor, ...]:
    """Return the factors of a term except those given, which are compared by identity."""
    return tuple(f for f in term.factors if not any(f is g for g in gone))


def identity(dim: str) -> Atom:
    """Return the identity matrix as an atom."""
    return Atom("delta", dims=(dim, dim))
