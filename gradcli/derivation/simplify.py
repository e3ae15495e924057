"""Simplification: opens brackets and takes out common factors if that makes a sum smaller; every change is a step."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from fractions import Fraction
from functools import cache

from gradcli.derivation.exponentials import one_exponential
from gradcli.derivation.identities import clipped, completed, logistic_slope, over_one
from gradcli.derivation.index import (
    Factor,
    Index,
    Tensor,
    Term,
    add,
    bracket,
    fresh,
    function,
    outside,
    scaled,
    unbound,
)
from gradcli.derivation.products import tidied
from gradcli.derivation.work import MOST_SIMPLIFYING, TooLong, limited_work, spend_work

SAYS = "sigmoid(-t) is 1 - sigmoid(t)"
_FEW = 3  # terms at most, of a bracket that is opened beside a sigmoid: 1 - y, not a layer
Expand = Callable[[Term, Factor, tuple[Index, ...]], Tensor]


def complemented(x: Tensor, expand: Expand) -> Iterator[Tensor]:
    """Yield the sum with a sigmoid(-t) as 1 - sigmoid(t), for each that another term has as sigmoid(t), brackets opened."""
    for k, term in enumerate(x.terms):
        for f in term.factors:
            if f.atom.op != "expit" or f.power != 1:
                continue
            other = function("expit", [scaled(outside(f), Fraction(-1))], f.at).terms[0].factors[0]
            beside = [j for j, t in enumerate(x.terms) if j != k and any(g.atom == other.atom for g in t.factors)]
            if beside:
                left = tuple(g for g in term.factors if g is not f)
                parts = [Term(term.coef, left), Term(-term.coef, (*left, other)), *(x.terms[j] for j in beside)]
                rest = [Tensor(x.free, (t,)) for j, t in enumerate(x.terms) if j != k and j not in beside]
                yield add([*rest, *(_opened(part, x, expand) for part in parts)], x.free)


def _opened(term: Term, x: Tensor, expand: Expand) -> Tensor:
    f = next((f for f in term.factors if f.atom.op == "group" and f.power == 1 and _small(f)), None)
    if f is None:
        return Tensor(x.free, (term,))
    return add([_opened(part, x, expand) for part in expand(term, f, x.free).terms], x.free)


def _small(f: Factor) -> bool:
    return 1 < len(f.atom.args[0].terms) <= _FEW


ONE = Fraction(1)
_ROUNDS = 60
_MATCHES = 10  # comparisons of two factors that take the work of putting one in order
Step = tuple[str, Tensor]  # the name of a rule, and what it made


def bulk(x: Tensor) -> int:
    """Return the size of a tensor: its factors, and their arguments."""
    return sum(2 + sum(_of_factor(f) for f in t.factors) for t in x.terms)


def _of_factor(f: Factor) -> int:
    own = 1 if f.atom.op in ("input", "size", "delta", "pi", "number") else 1 + sum(bulk(a) for a in f.atom.args)
    return own + (f.power not in (1, -1))


Measure = Callable[[Tensor], int]


def simplified(x: Tensor, cost: Measure, steps: list[Step] | None = None) -> Tensor:
    """Return the smallest form found by opening brackets and collecting factors; add each change to `steps`.

    The work is limited: what is left is the smallest form found until then.
    """
    best = x
    cost = cache(cost)
    with limited_work(MOST_SIMPLIFYING), suppress(TooLong):
        for _ in range(_ROUNDS):
            smaller = min(_candidates(best, cost), key=lambda pair: cost(pair[1]), default=None)
            if smaller is None or cost(smaller[1]) >= cost(best):
                return best
            best = smaller[1]
            if steps is not None:
                steps.append(smaller)
    return best


def _candidates(x: Tensor, cost: Measure) -> Iterator[Step]:
    for k, term in enumerate(x.terms):
        rest = [Tensor(x.free, (t,)) for j, t in enumerate(x.terms) if j != k]
        for f in term.factors:
            if f.atom.op == "group" and f.power == 1:
                inner = collected(outside(f), cost)
                if len(inner.terms) == 1:
                    others = tuple(g for g in term.factors if g is not f)
                    own = unbound(inner.terms[0], f.at)
                    whole = tidied(Term(term.coef * own.coef, (*others, *own.factors)), x.free)
                    yield "take out a common factor", add([*rest, Tensor(x.free, (whole,))], x.free)
                for rule, other in _rewritten(outside(f)):
                    inside = collected(other, cost)
                    if not inside.terms:
                        yield rule, add(rest, x.free)
                        continue
                    whole = inside.terms[0] if len(inside.terms) == 1 else bracket(inside)
                    others = tuple(g for g in term.factors if g is not f)
                    made = tidied(Term(term.coef * whole.coef, (*others, *unbound(whole, f.at).factors)), x.free)
                    yield rule, add([*rest, Tensor(x.free, (made,))], x.free)
                opened = expanded(term, f, x.free)
                yield "distribute", add([*rest, opened], x.free)
                yield "distribute and collect", collected(add([*rest, opened], x.free), cost)
    if len(x.terms) > 1:
        yield "collect like terms", collected(x, cost)
        yield from ((rule, collected(other, cost)) for rule, other in _rewritten(x))


def _rewritten(x: Tensor) -> Iterator[Step]:
    """Yield a sum with several of its terms as one function, or over one denominator, with the names of the rules."""
    yield from ((SAYS, other) for other in complemented(x, expanded))
    yield from (("1 + erf(u/sqrt(2)) is 2 ndtr(u)", other) for other in completed(x))
    yield from (("take out a common factor", other) for other in logistic_slope(x))
    yield from (("u within d, d sign(u) beyond", other) for other in clipped(x, expanded))
    yield from (("one exponential is a multiple of the other", other) for other in one_exponential(x))
    over = over_one(x) if len(x.terms) > 1 else None
    if over is not None:
        yield "common denominator", over


def expanded(term: Term, f: Factor, free: tuple[Index, ...]) -> Tensor:
    """Return a term with one bracket opened into a sum."""
    others = tuple(g for g in term.factors if g is not f)
    inner = outside(f)
    parts = []
    for part in inner.terms:
        own = unbound(part, f.at)
        parts.append(Tensor(free, (tidied(Term(term.coef * own.coef, (*others, *own.factors)), free),)))
    return add([_fresh(p) for p in parts], free)


def _fresh(x: Tensor) -> Tensor:
    return Tensor(x.free, tuple(unbound(t, x.free) for t in x.terms))


def collected(x: Tensor, cost: Measure) -> Tensor:
    """Return a sum with common factors of several terms taken out, while that makes it smaller."""
    best = x
    for _ in range(_ROUNDS):
        found = min((_taken_out(best, f, k) for k, f in _shared(best)), key=cost, default=None)
        if found is None or cost(found) >= cost(best):
            return best
        best = found
    return best


def _shared(x: Tensor) -> Iterator[tuple[int, Factor]]:
    """Yield each factor that a later term has too, unless an earlier term has yielded it already."""
    factors = sum(len(t.factors) for t in x.terms)
    for k, term in enumerate(x.terms):
        for f in term.factors:
            spend_work(factors // _MATCHES)
            found = [sum(_match(f, g, x.free) for g in t.factors) for t in x.terms]
            if any(found[k + 1 :]) and not (found[k] == 1 and 1 in found[:k]):
                yield k, f


def _match(f: Factor, g: Factor, free: tuple[Index, ...]) -> bool:
    """Whether two factors are the same up to the names of bound indices."""
    if f.atom != g.atom or f.power != g.power:
        return False
    names: dict[Index, Index] = {}
    same = all(
        i == j if i in free or j in free else names.setdefault(j, i) == i for i, j in zip(f.at, g.at, strict=True)
    )
    return same and len({*names.values()}) == len(names)  # P[i,j] is not P[k,k]


def _taken_out(x: Tensor, f: Factor, k: int) -> Tensor:
    """Return f times the sum of its cofactors, plus the terms without f."""
    inside: list[Tensor] = []
    outside_: list[Tensor] = []
    bound = [i for i in f.at if i not in x.free]
    kept = tuple(dict.fromkeys((*x.free, *bound)))
    for j, term in enumerate(x.terms):
        g = f if j == k else next((g for g in term.factors if _match(f, g, x.free)), None)
        if g is None:
            outside_.append(Tensor(x.free, (term,)))
            continue
        names = {b: a for a, b in zip(f.at, g.at, strict=True) if a != b}
        clash = {i: fresh(i.dim) for i in term.indices if i in f.at and i not in x.free and i not in names and j != k}
        rest = Term(term.coef, tuple(h for h in term.factors if h is not g)).renamed(clash | names)
        inside.append(Tensor(kept, (unbound(rest, kept),)))
    total = add(inside, kept)
    if not total.terms:
        return add(outside_, x.free) if outside_ else Tensor(x.free, ())
    one = total.terms[0] if len(total.terms) == 1 else bracket(total)
    whole = tidied(Term(one.coef, (*one.factors, f)), x.free)
    return add([*outside_, Tensor(x.free, (whole,))], x.free)
