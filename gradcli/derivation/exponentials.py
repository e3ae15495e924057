"""Exponentials in products: the density of the normal distribution, and two exponentials whose quotient has no exponential."""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import isqrt

from gradcli.derivation.index import (
    Factor,
    Index,
    Number,
    Tensor,
    Term,
    add,
    bracket,
    function,
    outside,
    scaled,
    unbound,
)
from gradcli.derivation.products import ONE, multiply, positive, power, product, tidied, times, without

DENSITY = "normal_density"
_MOST = 60  # terms of an exponent that has been multiplied out


def density(term: Term, free: tuple[Index, ...]) -> Term | None:
    """Write exp(-u**2/2)/sqrt(2*pi) as the density of the normal distribution at u."""
    root = next(
        (f for f in term.factors if f.atom.op == "number" and f.atom.name == "2" and abs(f.power) == _HALF), None
    )
    pi = next((f for f in term.factors if f.atom.op == "pi" and f.power == -_HALF), None)
    if root is None or pi is None:
        return None
    for f in term.factors:
        u = _root(scaled(outside(f), 2)) if f.atom.op == "exp" and f.power == -1 else None
        if u is not None:
            rest = Term(term.coef * (1 if root.power < 0 else 2), without(term, root, pi, f))
            return times(rest, function(DENSITY, [u], f.at))
    return None


_HALF = Fraction(1, 2)


def _root(x: Tensor) -> Tensor | None:
    """Return u of u**2, with its first term positive; None where x is not known to be a square."""
    if len(x.terms) != 1:
        return None
    (term,) = x.terms
    coef = _root_of_number(term.coef)
    if coef is None:
        return None
    found = [Tensor(x.free, (Term(coef),))]
    linked = _linked(term, x.free)
    for key in dict.fromkeys(part.key for part in linked):
        alike = [part for part in linked if part.key == key]
        factor = alike[0].factor
        if factor is not None and not alike[0].indices - set(x.free):
            half = factor.power * len(alike) / 2
            if half.denominator != 1 and not positive(factor):
                return None
            found.append(power(Tensor(x.free, (Term(ONE, (factor._replace(power=ONE),)),)), half))
        elif len(alike) % 2:
            return None
        else:
            found += alike[: len(alike) // 2]
    u = product(found)
    return Tensor(x.free, scaled(u, 1 if bracket(u).coef > 0 else -1).terms)


def _root_of_number(x: Number) -> Number | None:
    if x <= 0 or not isinstance(x, Fraction):
        return None
    root = Fraction(isqrt(x.numerator), isqrt(x.denominator))
    return root if root * root == x else None


def _linked(term: Term, free: Sequence[Index]) -> list[Tensor]:
    """Return the factors of a term in groups that share summed indices, each group as a tensor."""
    groups: list[list[Factor]] = []
    for f in term.factors:
        bound = set(f.at) - set(free)
        near = [g for g in groups if any(bound & set(h.at) for h in g)]
        groups = [g for g in groups if g not in near] + [[f, *(h for g in near for h in g)]]
    kept = tuple(free)
    return [Tensor(tuple(i for i in kept if any(i in f.at for f in g)), (Term(ONE, tuple(g)),)) for g in groups]


def one_exponential(x: Tensor) -> Iterator[Tensor]:
    """Yield the sum with the exponentials of one term written as a multiple of those of another.

    So S φ(d + s) is K exp(-r) φ(d) where the exponents differ by logarithms alone.
    """
    opened = _multiplied_out(x, 1)
    terms = opened.terms if opened is not None else ()
    for k, one in enumerate(terms):
        for other in terms[k + 1 :]:
            ratio = _ratio(one, other)
            if ratio is None:
                continue
            rest = Tensor(x.free, (Term(other.coef, tuple(f for f in other.factors if not _is_exponential(f))),))
            shared = Tensor(x.free, (Term(ONE, tuple(f for f in one.factors if _is_exponential(f))),))
            whole = product([rest, ratio, shared])
            yield add([*(Tensor(x.free, (t,)) for t in terms if t is not other), Tensor(x.free, whole.terms)], x.free)


def _is_exponential(f: Factor) -> bool:
    return f.atom.op in ("exp", DENSITY) and f.power.denominator == 1


def _ratio(one: Term, other: Term) -> Tensor | None:
    """Return the exponentials of a term over those of another; None where they are equal, or the quotient has exponentials."""
    exponents = [[f for f in t.factors if _is_exponential(f)] for t in (one, other)]
    counts = [sum(f.power for f in fs if f.atom.op == DENSITY) for fs in exponents]
    if not all(exponents) or set(exponents[0]) == set(exponents[1]) or counts[0] != counts[1]:
        return None
    parts = [_exponent(f) for f in exponents[1]] + [scaled(_exponent(f), -1) for f in exponents[0]]
    apart = _multiplied_out(add(parts))
    if apart is None:
        return None
    ratio = Tensor((), (Term(ONE),))
    for term in apart.terms:
        (f,) = term.factors if len(term.factors) == 1 else (None,)
        if f is None or f.atom.op != "log" or f.power != 1 or not isinstance(term.coef, Fraction):
            return None
        ratio = multiply(ratio, power(outside(f), term.coef))
    return ratio


def _exponent(f: Factor) -> Tensor:
    if f.atom.op == "exp":
        return scaled(outside(f), f.power)
    return scaled(power(outside(f), Fraction(2)), -f.power / 2)


def _multiplied_out(x: Tensor, deep: int = 99) -> Tensor | None:
    """Return a sum without brackets of whole positive powers, `deep` of them inside each other; None where it gets long."""
    pending = [(t, 0) for t in x.terms]
    done: list[Tensor] = []
    while pending:
        if len(pending) + len(done) > _MOST:
            return None
        term, depth = pending.pop(0)
        f = next((f for f in term.factors if f.atom.op == "group" and f.power.denominator == 1 and f.power > 0), None)
        if f is None or depth == deep:
            done.append(Tensor(x.free, (tidied(term, x.free),)))
            continue
        rest = (*without(term, f), *((f._replace(power=f.power - 1),) if f.power > 1 else ()))
        for part in outside(f).terms:
            own = unbound(part, f.at)
            pending.append((tidied(Term(term.coef * own.coef, (*rest, *own.factors)), x.free), depth + 1))
    return add(done, x.free)
