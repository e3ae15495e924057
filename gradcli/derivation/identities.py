"""Identities of functions entry by entry: powers of one base, the normal distribution, the sign of what it multiplies."""

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction

from gradcli.derivation.algebra import absolute
from gradcli.derivation.index import Factor, Index, Tensor, Term, add, bracket, function, outside, scaled
from gradcli.derivation.products import ONE, multiply, one, positive, power, times, without


def one_base(term: Term, free: tuple[Index, ...]) -> Term | None:
    """Write u**p times a power of u as one power: x * x**(x - 1) is x**x."""
    for f in term.factors:
        if f.atom.op != "power" or f.power != 1 or (alone := outside(f).factor) is None:
            continue
        base, p = outside(f), outside(f, 1)
        for g in term.factors:
            same = g is not f and g.atom == alone.atom and set(g.at) == set(alone.at) <= set(f.at)
            if not same or (g.power / alone.power).denominator != 1:
                continue
            more = add([p, Tensor((), (Term(g.power / alone.power),))], p.free)
            whole = (
                power(base, Fraction(more.number)) if more.number is not None else function("power", [base, more], f.at)
            )
            return times(Term(term.coef, without(term, f, g)), whole)
    return None


def normal(term: Term, free: tuple[Index, ...]) -> Term | None:
    """Write erfc(-u/sqrt(2)) and 1 + erf(u/sqrt(2)) as twice the normal distribution function, and 1 minus it at -u."""
    for f in (f for f in term.factors if f.power.denominator == 1):
        whole = None
        if f.atom.op == "erfc" and (u := _over_root(outside(f))) is not None:
            whole = scaled(function("ndtr", [scaled(u, -1)], f.at), 2)
        elif f.atom.op == "group":
            whole = _complement(outside(f), f.at)
        if whole is not None:
            return times(Term(term.coef, without(term, f)), power(whole, f.power))
    return None


def _over_root(x: Tensor) -> Tensor | None:
    """Return u of u / sqrt(2); None for anything else."""
    terms = []
    for t in x.terms:
        root = next(
            (f for f in t.factors if f.atom.op == "number" and f.atom.name == "2" and f.power == Fraction(-1, 2)), None
        )
        if root is None:
            return None
        terms.append(Term(t.coef, without(t, root)))
    return Tensor(x.free, tuple(terms)) if terms else None


def _complement(x: Tensor, at: tuple[Index, ...]) -> Tensor | None:
    """Return what 1 + erf(u/sqrt(2)), 1 - erf(u/sqrt(2)) or 1 - ndtr(u) is as a single function; None for other sums."""
    unit = next((t for t in x.terms if not t.factors), None)
    other = next((t for t in x.terms if len(t.factors) == 1), None)
    if len(x.terms) != 2 or unit is None or other is None or abs(other.coef) != abs(unit.coef):
        return None
    (f,) = other.factors
    if f.power != 1 or f.atom.op not in ("erf", "ndtr") or set(f.at) - set(at):
        return None
    sign = Fraction(other.coef / unit.coef)
    u = _over_root(outside(f)) if f.atom.op == "erf" else outside(f)
    if u is None or (f.atom.op == "ndtr" and sign != -1):
        return None
    share = 2 if f.atom.op == "erf" else 1
    return scaled(function("ndtr", [scaled(u, sign)], f.at), unit.coef * share)


def completed(x: Tensor) -> Iterator[Tensor]:
    """Yield the sum with two of its terms, c and c erf(u/sqrt(2)) or -c ndtr(u), as one with the normal distribution."""
    for term in x.terms:
        for f in (f for f in term.factors if f.power == 1 and f.atom.op in ("erf", "ndtr")):
            rest = Term(term.coef, without(term, f))
            for other in x.terms:
                if abs(other.coef) != abs(term.coef) or other is term or not _alike(other, rest):
                    continue
                pair = Tensor(f.at, (Term(Fraction(1)), Term(Fraction(term.coef / other.coef), (f,))))
                whole = _complement(pair, f.at)
                if whole is not None:
                    kept = [Tensor(x.free, (t,)) for t in x.terms if t is not term and t is not other]
                    yield add([*kept, Tensor(x.free, multiply(Tensor(x.free, (other,)), whole).terms)], x.free)


def logistic_slope(x: Tensor) -> Iterator[Tensor]:
    """Yield the sum with c s - c s**2 as c s (1 - s), for a sigmoid s."""
    for term in x.terms:
        for f in (f for f in term.factors if f.power == 1 and f.atom.op == "expit"):
            square = Term(-term.coef, (*without(term, f), f._replace(power=Fraction(2))))
            left = _without_terms(x.terms, [term, square], x.free)
            if left is not None:
                rest = add([Tensor((), (Term(ONE),)), Tensor(f.at, (Term(-ONE, (f,)),))], f.at)
                yield add([*left, multiply(Tensor(x.free, (term,)), rest)], x.free)


def _alike(a: Term, b: Term) -> bool:
    """Whether two terms have the same factors at the same places."""
    return len(a.factors) == len(b.factors) and all(f in b.factors for f in a.factors)


def sign_times(term: Term, free: tuple[Index, ...]) -> Term | None:
    """Write sign(u) u as |u|."""
    for f in term.factors:
        if f.atom.op != "sign" or f.power != 1 or (g := outside(f).factor) is None or g.power != 1:
            continue
        for h in term.factors:
            if h.atom == g.atom and h.at == g.at and h.power >= 1 and h.power % 2 == 1:
                rest = (h._replace(power=h.power - 1),) if h.power > 1 else ()
                return times(Term(term.coef, (*without(term, f, h), *rest)), absolute(outside(f)))
    return None


def clipped(x: Tensor, expand: Callable[[Term, Factor, tuple[Index, ...]], Tensor]) -> Iterator[Tensor]:
    """Yield the sum with u where |u| <= d, and d sign(u) elsewhere, as max(-d, min(u, d))."""
    parts = [_within(term, x.free, expand) for term in x.terms]
    terms = [t for part in parts for t in part]
    for inside in terms:
        for f in inside.factors:
            ends = _bounds(f)
            if ends is None:
                continue
            u, d = ends
            rest = Term(inside.coef, without(inside, f))
            beyond = multiply(d, function("sign", [u], f.at))
            whole = one(u)
            for g in (g for g in rest.factors if len(whole.factors) == 1 and g == whole.factors[0]):
                shared = Tensor(x.free, (Term(rest.coef / whole.coef, without(rest, g)),))
                outer = multiply(shared, beyond).terms
                if len(outer) != 1:
                    continue
                left = _without_terms(terms, [inside, outer[0], Term(-outer[0].coef, (*outer[0].factors, f))], x.free)
                if left is not None:
                    bound = function("minimum", [u, d], f.at)
                    found = multiply(shared, function("maximum", [scaled(d, -1), bound], f.at))
                    yield add([*left, Tensor(x.free, found.terms)], x.free)


def _within(
    term: Term, free: tuple[Index, ...], expand: Callable[[Term, Factor, tuple[Index, ...]], Tensor]
) -> list[Term]:
    """Return a term, with brackets opened that hold an indicator of |u| <= d, or are beside one and are not u itself."""
    ends = [end for f in term.factors if (end := _bounds(f)) is not None]
    kept = [one(u).factors[0] for u, _ in ends]
    for f in term.factors:
        if f.atom.op != "group" or f.power != 1 or f in kept:
            continue
        if ends or any(_bounds(g) is not None for t in outside(f).terms for g in t.factors):
            return [t for part in expand(term, f, free).terms for t in _within(part, free, expand)]
    return [term]


def _bounds(f: Factor) -> tuple[Tensor, Tensor] | None:
    """Return u and d of an indicator of |u| <= d, where d is positive; None for anything else."""
    if f.atom.op not in ("less", "less_equal") or f.power != 1:
        return None
    end, d = outside(f).factor, outside(f, 1)
    if end is None or end.atom.op != "absolute" or end.power != 1:
        return None
    known = len(d.terms) == 1 and d.terms[0].coef > 0 and all(positive(g) for g in d.terms[0].factors)
    return (outside(end), d) if known else None


def _without_terms(terms: Sequence[Term], gone: Sequence[Term], free: tuple[Index, ...]) -> list[Tensor] | None:
    """Return the terms without some, which are compared up to the order of factors; None if one is not there."""
    left = list(terms)
    for term in gone:
        same = next((t for t in left if t.coef == term.coef and _alike(t, term)), None)
        if same is None:
            return None
        left.remove(same)
    return [Tensor(free, (t,)) for t in left]


def over_one(x: Tensor) -> Tensor | None:
    """Return a sum over its common denominator, with the numerator opened and collected; None where there is none.

    The denominator is a factor that terms have with different powers, none of them above 0.
    """
    for f in (f for t in x.terms for f in t.factors if f.power < 0 and f.atom.op != "number"):
        powers = [next((g.power for g in t.factors if g.atom == f.atom and g.at == f.at), Fraction(0)) for t in x.terms]
        least = min(powers)
        known = all((p - least).denominator <= 2 and p <= 0 for p in powers)
        if least >= 0 or not known or len(set(powers)) == 1 or set(f.at) - set(x.free):
            continue
        base = Tensor(f.at, (Term(ONE, (f._replace(power=ONE),)),))
        parts = []
        for t, p in zip(x.terms, powers, strict=True):
            rest = Tensor(
                x.free, (Term(t.coef, tuple(g for g in t.factors if not (g.atom == f.atom and g.at == f.at))),)
            )
            whole, half = divmod(p - least, 1)
            for _ in range(whole):
                rest = _opened_times(rest, base)
            parts.append(multiply(rest, power(base, half)))
        above = add(parts, x.free)
        if not above.terms:
            return Tensor(x.free, ())
        top = above.terms[0] if len(above.terms) == 1 else bracket(above)
        return multiply(Tensor(x.free, (top,)), power(base, least))
    return None


def _opened_times(x: Tensor, base: Tensor) -> Tensor:
    """Return a tensor times another, whose bracket is opened."""
    f = base.terms[0].factors[0]
    inside = outside(f) if f.atom.op == "group" else base
    parts = [multiply(Tensor(x.free, (t,)), Tensor(inside.free, (u,))) for t in x.terms for u in inside.terms]
    return add(parts, x.free)
