"""What cancels: a factor beside the inverse of a product that it begins, a sum of products beside what divides by it."""

from collections.abc import Iterator

from gradcli.derivation.algebra import inverse
from gradcli.derivation.index import Factor, Index, Tensor, Term, fresh, outside, unbound
from gradcli.derivation.products import without

_MOST = 4  # factors of a sum of products that is looked for among others


def inverse_of_product(term: Term, free: tuple[Index, ...]) -> Term | None:
    """inv(A B) A is inv(B), and B inv(A B) is inv(A), where A and B are square: then both are invertible, as A B is."""
    for f in term.factors:
        if f.atom.op != "inv" or f.power != 1 or len(set(f.at)) != 2:
            continue
        whole = outside(f)
        if len(whole.terms) == 1 and len(whole.terms[0].factors) > 1:
            for ends in (f.at, f.at[::-1]):
                found = _peeled(term, f, whole.terms[0], ends, free)
                if found is not None:
                    return found
    return None


def _peeled(term: Term, f: Factor, inner: Term, ends: tuple[Index, ...], free: tuple[Index, ...]) -> Term | None:
    """Return the term without the first factor of X, and without what equals it beside inv(X); None where it has none.

    X is A[first, middle] R[middle, last], so that inv(X) has an index for each of its ends: its `last` is what meets A.
    """
    first, last = ends
    a = next((g for g in inner.factors if first in g.at), None)
    if a is None or not _square(a) or last in a.at:
        return None
    near = a.at.index(first)
    middle = a.at[1 - near]
    rest = tuple(g for g in inner.factors if g is not a)
    if any(first in g.at for g in rest) or _uses(rest, middle) != 1 or _uses(rest, last) != 1:
        return None
    for other in term.factors:
        if other is f or other.atom != a.atom or not _square(other) or last in free or _uses(term.factors, last) != 2:
            continue
        for k in (near, 1 - near) if a.atom.symmetric else (near,):
            if other.at[k] == last:
                u, v = fresh(first.dim), fresh(first.dim)
                own = Term(inner.coef, rest).renamed({middle: u, last: v})
                smaller = inverse(Tensor((u, v), (own,)), u, v).renamed({u: first, v: other.at[1 - k]}).terms[0]
                return Term(term.coef * smaller.coef, (*without(term, f, other), *smaller.factors))
    return None


def _square(f: Factor) -> bool:
    return f.power == 1 and len(set(f.at)) == 2 and f.at[0].dim == f.at[1].dim


def _uses(factors: tuple[Factor, ...], i: Index) -> int:
    return sum(f.at.count(i) for f in factors)


def over_itself(term: Term, free: tuple[Index, ...]) -> Term | None:
    """A sum of products over the bracket that holds the same sum is one, times what powers are left of the bracket."""
    for f in term.factors:
        if f.atom.op != "group" or f.power >= 0 or len(f.atom.args[0].terms) != 1:
            continue
        inner = unbound(outside(f).terms[0], f.at)
        if not 1 < len(inner.factors) <= _MOST or not inner.indices - set(f.at):
            continue
        kept = {*free, *f.at}
        for same in _matches(inner.factors, without(term, f), {i: i for i in f.at}):
            rest = without(term, f, *same)
            own = {i for g in same for i in g.at} - set(f.at)
            if not own & kept and not own & {i for g in rest for i in g.at}:
                left = (f._replace(power=f.power + 1),) if f.power != -1 else ()
                lost = [i for i in f.at if i not in free and not any(i in g.at for g in (*rest, *left))]
                if not lost:
                    return Term(term.coef / inner.coef, (*rest, *left))
    return None


def _matches(
    wanted: tuple[Factor, ...], given: tuple[Factor, ...], names: dict[Index, Index]
) -> Iterator[list[Factor]]:
    """Yield factors equal to those that are wanted, up to one renaming of indices that maps no two to one."""
    if not wanted:
        yield []
        return
    first, *others = wanted
    for g in given:
        if g.atom != first.atom or g.power != first.power:
            continue
        for at in (g.at, g.at[::-1]) if g.atom.symmetric else (g.at,):
            found = dict(names)
            fits = all(found.setdefault(a, b) == b for a, b in zip(first.at, at, strict=True))
            if fits and len(set(found.values())) == len(found):
                for rest in _matches(tuple(others), _but(given, g), found):
                    yield [g, *rest]


def _but(given: tuple[Factor, ...], gone: Factor) -> tuple[Factor, ...]:
    return tuple(g for g in given if g is not gone)
