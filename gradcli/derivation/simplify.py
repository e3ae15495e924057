"""Simplification: opens brackets and takes out common factors if that makes a sum smaller; every change is a step."""

import itertools
import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import cache, reduce
from typing import TYPE_CHECKING, Any

from gradcli.derivation import matrix_expression as ex
from gradcli.derivation.algebra import (
    ONE,
    absolute,
    apply_rules,
    exponential,
    is_positive,
    is_truth_factor,
    join_exponentials,
    multiply,
    power,
)
from gradcli.derivation.index import (
    Index,
    IndexedFactor,
    IndexedTerm,
    Tensor,
    add,
    add_terms,
    apply_function,
    argument_of_factor,
    as_one_term,
    fresh_index,
    multiply_term,
    refresh_bound_indices,
    scale_tensor,
)
from gradcli.derivation.matrix_expression import E, Op, call, expression_text, mul, name, neg, number
from gradcli.derivation.sized_problem import MOST_SIMPLIFYING, TooLong, limited_work, spend_work

if TYPE_CHECKING:
    import sympy as sp


SAYS = "sigmoid(-t) is 1 - sigmoid(t)"
_FEW = 3  # terms at most, of a bracket that is opened beside a sigmoid: 1 - y, not a layer


def write_sigmoid_complements(x: Tensor) -> Iterator[Tensor]:
    """Yield the sum with a sigmoid(-t) as 1 - sigmoid(t), for each that another term has as sigmoid(t), brackets opened."""
    for term in x.terms:
        for f in (f for f in term.factors if f.atom.op == "expit" and f.power == 1):
            (turned,) = apply_function("expit", [scale_tensor(argument_of_factor(f), -ONE)], f.at).terms
            (other,) = turned.factors
            beside = [t for t in x.terms if t is not term and any(g.atom == other.atom for g in t.factors)]
            if beside:
                left = term.without(f)
                parts = [left, left.times(other, number=-1), *beside]
                rest = [t for t in x.terms if t is not term and not any(t is b for b in beside)]
                yield add_terms([*rest, *(t for p in parts for t in _open_small_brackets(p, x.free).terms)], x.free)


def _open_small_brackets(term: IndexedTerm, free: tuple[Index, ...]) -> Tensor:
    brackets = (f for f in term.factors if f.atom.op == "group" and f.power == 1)
    f = next((f for f in brackets if 1 < len(f.atom.args[0].terms) <= _FEW), None)
    if f is None:
        return Tensor(free, (term,))
    return add([_open_small_brackets(part, free) for part in open_bracket(term, f, free).terms], free)


_ROUNDS = 60
_MATCHES = 10  # comparisons of two factors that take the work of putting one in order
Step = tuple[str, Tensor]  # the name of a rule, and what it made


def size_of_tensor(x: Tensor) -> int:
    """Return the size of a tensor: its factors, and their arguments."""
    factors = [f for t in x.terms for f in t.factors]
    own = sum(1 + sum(map(size_of_tensor, f.atom.args)) + (f.power not in (1, -1)) for f in factors)
    return 2 * len(x.terms) + own


Measure = Callable[[Tensor], int]


def simplified(x: Tensor, cost: Measure, steps: list[Step] | None = None) -> Tensor:
    """Return the smallest form found by opening brackets and collecting factors; add each change to `steps`.

    The work is limited: what is left is the smallest form found until then.
    """
    best = x
    cost = cache(cost)
    with limited_work(MOST_SIMPLIFYING), suppress(TooLong):
        for _ in range(_ROUNDS):
            smaller = min(_possible_moves(best, cost), key=lambda pair: cost(pair[1]), default=None)
            if smaller is None or cost(smaller[1]) >= cost(best):
                return best
            best = smaller[1]
            if steps is not None:
                steps.append(smaller)
    return best


def _possible_moves(x: Tensor, cost: Measure) -> Iterator[Step]:
    for term in x.terms:
        rest = [t for t in x.terms if t is not term]
        for f in (f for f in term.factors if f.atom.op == "group" and f.power == 1):
            if (whole := _take_out_of_bracket(term, f, x.free, cost)) is not None:
                yield "take out a common factor", add_terms([*rest, whole], x.free)
            for rule, other in _rewrite_sum(argument_of_factor(f)):
                inside = collect_factors(other, cost)
                made = [_put_into_term(term, f, as_one_term(inside), x.free)] if inside.terms else []
                yield rule, add_terms([*rest, *made], x.free)
            opened = add_terms([*rest, *open_bracket(term, f, x.free).terms], x.free)
            yield "distribute", opened
            both = collect_factors(opened, cost)
            yield "distribute and collect", both
            own = [
                next(filter(None, (_take_out_of_bracket(t, g, x.free, cost) for g in t.factors)), t) for t in both.terms
            ]
            if any(new is not t for new, t in zip(own, both.terms, strict=True)):
                yield "distribute and collect", add_terms(own, x.free)
    if len(x.terms) > 1:
        yield "collect like terms", collect_factors(x, cost)
        yield from ((rule, collect_factors(other, cost)) for rule, other in _rewrite_sum(x))


def _put_into_term(term: IndexedTerm, f: IndexedFactor, new: IndexedTerm, free: tuple[Index, ...]) -> IndexedTerm:
    """Return a term with another term in place of one of its factors."""
    own = refresh_bound_indices(new, f.at)
    return apply_rules(term.without(f).times(*own.factors, number=own.coef), free)


def _take_out_of_bracket(
    term: IndexedTerm, f: IndexedFactor, free: tuple[Index, ...], cost: Measure
) -> IndexedTerm | None:
    """Return a term with what all terms of its bracket have in common taken out of that; None where they have nothing."""
    inner = collect_factors(argument_of_factor(f), cost) if f.atom.op == "group" and f.power == 1 else None
    return None if inner is None or len(inner.terms) != 1 else _put_into_term(term, f, inner.terms[0], free)


# Identities of functions entry by entry: powers of one base, the normal distribution, the sign of what it multiplies.


def one_base(term: IndexedTerm, f: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Write u**p times a power of u as one power: x * x**(x - 1) is x**x."""
    base, p = argument_of_factor(f), argument_of_factor(f, 1)
    alone = base.factor
    if f.power != 1 or alone is None:
        return None
    for whole_factor in (g for g in term.factors if g is not f):
        g = whole_factor
        if g.atom.op == "group" and g.power == 1:  # 1 - sigmoid(t), which stands beside sigmoid(t), is sigmoid(-t)
            once = apply_rules(IndexedTerm(ONE, (g,)), g.at)
            g = once.factors[0] if len(once.factors) == 1 and once.coef == 1 else g
        same = g.atom == alone.atom and set(g.at) == set(alone.at) <= set(f.at)
        if not same or (g.power / alone.power).denominator != 1:
            continue
        more = add([p, Tensor((), (IndexedTerm(g.power / alone.power),))], p.free)
        known = None if more.number is None else Fraction(more.number)
        whole = apply_function("power", [base, more], f.at) if known is None else power(base, known)
        return multiply_term(term.without(f, whole_factor), whole)
    return None


def normal(term: IndexedTerm, f: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Write erfc(-u/sqrt(2)) and 1 + erf(u/sqrt(2)) as twice the normal distribution function, and 1 minus it at -u."""
    if f.power.denominator != 1:
        return None
    if f.atom.op == "erfc":
        u = _numerator_over_root_two(argument_of_factor(f))
        whole = None if u is None else scale_tensor(apply_function("ndtr", [scale_tensor(u, -1)], f.at), 2)
    else:
        whole = _normal_complement(argument_of_factor(f), f.at)
    return None if whole is None else multiply_term(term.without(f), power(whole, f.power))


def _numerator_over_root_two(x: Tensor) -> Tensor | None:
    """Return u of u / sqrt(2); None for anything else."""
    terms = []
    for t in x.terms:
        twos = (f for f in t.factors if f.atom.op == "number" and f.atom.name == "2")
        root = next((f for f in twos if f.power == Fraction(-1, 2)), None)
        if root is None:
            return None
        terms.append(t.without(root))
    return Tensor(x.free, tuple(terms)) if terms else None


def _normal_complement(x: Tensor, at: tuple[Index, ...]) -> Tensor | None:
    """Return what 1 + erf(u/sqrt(2)), 1 - erf(u/sqrt(2)) or 1 - ndtr(u) is as a single function; None for other sums."""
    unit = next((t for t in x.terms if not t.factors), None)
    other = next((t for t in x.terms if len(t.factors) == 1), None)
    if len(x.terms) != 2 or unit is None or other is None or abs(other.coef) != abs(unit.coef):
        return None
    (f,) = other.factors
    if f.power != 1 or f.atom.op not in ("erf", "ndtr") or set(f.at) - set(at):
        return None
    sign = Fraction(other.coef / unit.coef)
    u = _numerator_over_root_two(argument_of_factor(f)) if f.atom.op == "erf" else argument_of_factor(f)
    if u is None or (f.atom.op == "ndtr" and sign != -1):
        return None
    share = 2 if f.atom.op == "erf" else 1
    return scale_tensor(apply_function("ndtr", [scale_tensor(u, sign)], f.at), unit.coef * share)


def join_normal_terms(x: Tensor) -> Iterator[Tensor]:
    """Yield the sum with two of its terms, c and c erf(u/sqrt(2)) or -c ndtr(u), as one with the normal distribution."""
    for term in x.terms:
        for f in (f for f in term.factors if f.power == 1 and f.atom.op in ("erf", "ndtr")):
            for other in x.terms:
                if abs(other.coef) != abs(term.coef) or other is term or not _has_same_factors(other, term.without(f)):
                    continue
                pair = Tensor(f.at, (IndexedTerm(Fraction(1)), IndexedTerm(Fraction(term.coef / other.coef), (f,))))
                whole = _normal_complement(pair, f.at)
                if whole is not None:
                    kept = (t for t in x.terms if t is not term and t is not other)
                    yield add_terms([*kept, *multiply(Tensor(x.free, (other,)), whole).terms], x.free)


def join_expm1_terms(x: Tensor) -> Iterator[Tensor]:
    """Yield the sum with c + c expm1(u) as c exp(u)."""
    for term in x.terms:
        for f in (f for f in term.factors if f.power == 1 and f.atom.op == "expm1"):
            rest = term.without(f)
            left = _remove_terms(x.terms, [term, rest])
            if left is not None:
                whole = multiply(Tensor(x.free, (rest,)), exponential(argument_of_factor(f)))
                yield add_terms([*left, *whole.terms], x.free)


def factor_logistic_slope(x: Tensor) -> Iterator[Tensor]:
    """Yield the sum with c s - c s**2 as c s (1 - s), for a sigmoid s."""
    for term in x.terms:
        for f in (f for f in term.factors if f.power == 1 and f.atom.op == "expit"):
            left = _remove_terms(x.terms, [term, term.to_power(f, 2).times(number=-1)])
            if left is not None:
                rest = add_terms([IndexedTerm(ONE), IndexedTerm(-ONE, (f,))], f.at)
                yield add_terms([*left, *multiply(Tensor(x.free, (term,)), rest).terms], x.free)


def _has_same_factors(a: IndexedTerm, b: IndexedTerm) -> bool:
    """Whether two terms have the same factors at the same places."""
    return len(a.factors) == len(b.factors) and all(f in b.factors for f in a.factors)


def sign_times(term: IndexedTerm, f: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Write sign(u) u as |u|."""
    g = argument_of_factor(f).factor if f.power == 1 else None
    if g is None or g.power != 1:
        return None
    for h in term.factors:
        if h.atom == g.atom and h.at == g.at and h.power >= 1 and h.power % 2 == 1:
            return multiply_term(term.without(f).to_power(h, h.power - 1), absolute(argument_of_factor(f)))
    return None


def write_clipped_values(x: Tensor) -> Iterator[Tensor]:
    """Yield the sum with u where |u| <= d, and d sign(u) elsewhere, as max(-d, min(u, d))."""
    terms = [t for term in x.terms for t in _open_clip_brackets(term, x.free)]
    for inside in terms:
        for f in inside.factors:
            ends = _bounds_of_clip(f)
            if ends is None:
                continue
            u, d = ends
            rest = inside.without(f)
            beyond = multiply(d, apply_function("sign", [u], f.at))
            whole = as_one_term(u)
            for g in (g for g in rest.factors if len(whole.factors) == 1 and g == whole.factors[0]):
                shared = Tensor(x.free, (IndexedTerm(rest.coef / whole.coef, rest.without(g).factors),))
                products = multiply(shared, beyond).terms
                if len(products) != 1:
                    continue
                (outer,) = products
                left = _remove_terms(terms, [inside, outer, outer.times(f, number=-1)])
                if left is not None:
                    bound = apply_function("minimum", [u, d], f.at)
                    found = multiply(shared, apply_function("maximum", [scale_tensor(d, -1), bound], f.at))
                    yield add_terms([*left, *found.terms], x.free)


def _open_clip_brackets(term: IndexedTerm, free: tuple[Index, ...]) -> list[IndexedTerm]:
    """Return a term, with brackets opened that hold an indicator of |u| <= d, or are beside one and are not u itself."""
    ends = [end for f in term.factors if (end := _bounds_of_clip(f)) is not None]
    kept = [as_one_term(u).factors[0] for u, _ in ends]
    for f in term.factors:
        if f.atom.op != "group" or f.power != 1 or f in kept:
            continue
        if ends or any(_bounds_of_clip(g) is not None for t in argument_of_factor(f).terms for g in t.factors):
            return [t for part in open_bracket(term, f, free).terms for t in _open_clip_brackets(part, free)]
    return [term]


def _bounds_of_clip(f: IndexedFactor) -> tuple[Tensor, Tensor] | None:
    """Return u and d of an indicator of |u| <= d, where d is positive; None for anything else."""
    if f.atom.op not in ("less", "less_equal") or f.power != 1:
        return None
    end, d = argument_of_factor(f).factor, argument_of_factor(f, 1)
    if end is None or end.atom.op != "absolute" or end.power != 1:
        return None
    known = len(d.terms) == 1 and d.terms[0].coef > 0 and all(is_positive(g) for g in d.terms[0].factors)
    return (argument_of_factor(end), d) if known else None


def _remove_terms(terms: Sequence[IndexedTerm], gone: Sequence[IndexedTerm]) -> list[IndexedTerm] | None:
    """Return the terms without some, which are compared up to the order of factors; None if one is not there."""
    left = list(terms)
    for term in gone:
        same = next((t for t in left if t.coef == term.coef and _has_same_factors(t, term)), None)
        if same is None:
            return None
        left.remove(same)
    return left


def over_common_denominator(x: Tensor) -> Tensor | None:
    """Return a sum over its common denominator, with the numerator opened and collected; None where there is none.

    The denominator is a factor that terms have with different powers, none of them above 0; beside indicators there is none,
    for what they hide may be 0.
    """
    if _has_indicators(x):
        return None
    for f in (f for t in x.terms for f in t.factors if f.power < 0 and f.atom.op != "number"):
        same = [t.like(f) for t in x.terms]
        powers = [Fraction(0) if g is None else g.power for g in same]
        least = min(powers)
        known = all((p - least).denominator <= 2 and p <= 0 for p in powers)
        if least >= 0 or not known or len(set(powers)) == 1 or set(f.at) - set(x.free):
            continue
        base = Tensor(f.at, (IndexedTerm(ONE, (f._replace(power=ONE),)),))
        parts = []
        for t, own, p in zip(x.terms, same, powers, strict=True):
            rest = Tensor(x.free, (t if own is None else t.without(own),))
            whole, half = divmod(p - least, 1)
            for _ in range(whole):  # with the bracket of the base opened
                inside = argument_of_factor(f) if f.atom.op == "group" else base
                opened = itertools.product(rest.terms, inside.terms)
                rest = add([multiply(Tensor(x.free, (u,)), Tensor(inside.free, (v,))) for u, v in opened], x.free)
            parts.append(multiply(rest, power(base, half)))
        above = add(parts, x.free)
        above = over_common_denominator(above) or above  # other denominators stand below, too: (p - y)/(p (1 - p))
        if not above.terms:
            return Tensor(x.free, ())
        top = as_one_term(above)
        return multiply(Tensor(x.free, (top,)), power(base, least))
    return None


def _has_indicators(x: Tensor) -> bool:
    return any(is_truth_factor(f) for t in x.terms for f in t.factors)


def take_out_denominator(x: Tensor) -> Iterator[Tensor]:
    """Yield a sum of arrays with what all terms are divided by outside, to the power that all have: (u - v/n)/n.

    That is u/n - v/n**2, as which books write it for numbers.
    """
    for f in x.terms[0].factors if len(x.terms) > 1 and x.free and not _has_indicators(x) else ():
        if f.power >= 0 or f.power.denominator > 1 or f.atom.op == "number" or set(f.at) - set(x.free):
            continue
        same = [t.like(f) for t in x.terms]
        powers = [Fraction(0) if g is None else g.power for g in same]
        shared = max(powers)
        if shared >= 0 or len(set(powers)) == 1:
            continue
        base = Tensor(f.at, (IndexedTerm(ONE, (f._replace(power=shared),)),))
        divided = (t if g is None else t.to_power(g, g.power - shared) for t, g in zip(x.terms, same, strict=True))
        inner = add_terms(divided, x.free)
        if inner.terms:
            yield multiply(Tensor(x.free, (as_one_term(inner),)), base)


def _rewrite_sum(x: Tensor) -> Iterator[Step]:
    """Yield a sum with several of its terms as one function, or over one denominator, with the names of the rules."""
    for rule, rewrite in _REWRITES:
        yield from ((rule, other) for other in rewrite(x))
    over = over_common_denominator(x) if len(x.terms) > 1 else None
    if over is not None:
        yield "common denominator", over


_REWRITES: tuple[tuple[str, Callable[[Tensor], Iterator[Tensor]]], ...] = (
    (SAYS, write_sigmoid_complements),
    ("1 + erf(u/sqrt(2)) is 2 ndtr(u)", join_normal_terms),
    ("take out a common factor", factor_logistic_slope),
    ("1 + expm1(u) is exp(u)", join_expm1_terms),
    ("u within d, d sign(u) beyond", write_clipped_values),
    ("one exponential is a multiple of the other", join_exponentials),
    ("take out a common factor", take_out_denominator),
)


def open_bracket(term: IndexedTerm, f: IndexedFactor, free: tuple[Index, ...]) -> Tensor:
    """Return a term with one bracket opened into a sum."""
    parts = (_put_into_term(term, f, part, free) for part in argument_of_factor(f).terms)
    return add_terms([refresh_bound_indices(part, free) for part in parts], free)


def collect_factors(x: Tensor, cost: Measure) -> Tensor:
    """Return a sum with common factors of several terms taken out, while that makes it smaller."""
    best = x
    for _ in range(_ROUNDS):
        found = min((_take_out_factor(best, f, k) for k, f in _factors_in_common(best)), key=cost, default=None)
        if found is None or cost(found) >= cost(best):
            return best
        best = found
    return best


def _factors_in_common(x: Tensor) -> Iterator[tuple[int, IndexedFactor]]:
    """Yield each factor that a later term has too, unless an earlier term has yielded it already."""
    factors = sum(len(t.factors) for t in x.terms)
    for k, term in enumerate(x.terms):
        for f in term.factors:
            spend_work(factors // _MATCHES)
            found = [sum(_is_same_factor(f, g, x.free) for g in t.factors) for t in x.terms]
            if any(found[k + 1 :]) and not (found[k] == 1 and 1 in found[:k]):
                yield k, f


def _is_same_factor(f: IndexedFactor, g: IndexedFactor, free: tuple[Index, ...]) -> bool:
    """Whether two factors are the same up to the names of bound indices."""
    if f.atom != g.atom or f.power != g.power:
        return False
    names: dict[Index, Index] = {}
    same = all(
        i == j if i in free or j in free else names.setdefault(j, i) == i for i, j in zip(f.at, g.at, strict=True)
    )
    return same and len({*names.values()}) == len(names)  # P[i,j] is not P[k,k]


def _take_out_factor(x: Tensor, f: IndexedFactor, k: int) -> Tensor:
    """Return f times the sum of its cofactors, plus the terms without f."""
    inside: list[IndexedTerm] = []
    outside: list[IndexedTerm] = []
    bound = [i for i in f.at if i not in x.free]
    kept = tuple(dict.fromkeys((*x.free, *bound)))
    for j, term in enumerate(x.terms):
        g = f if j == k else next((g for g in term.factors if _is_same_factor(f, g, x.free)), None)
        if g is None:
            outside.append(term)
            continue
        names = {b: a for a, b in zip(f.at, g.at, strict=True) if a != b}
        taken = [i for i in term.indices if i in bound and i not in names and j != k]
        clash = {i: fresh_index(i.dim) for i in taken}
        inside.append(refresh_bound_indices(term.without(g).renamed(clash | names), kept))
    total = add_terms(inside, kept)
    whole = [apply_rules(as_one_term(total).times(f), x.free)] if total.terms else []
    return add_terms([*outside, *whole], x.free)


# The derivative of a function of numbers as a book prints it: the shortest of the forms that sympy's simplifications find.

_LARGEST = 40  # operations of a form that is simplified
_KEPT = 2  # names and signs less that a sum counts for which stands in f
_STRANGE = 8  # names and signs that a further function counts for, which neither f nor its derivative has
_MOST_TERMS = 300  # of its sums with all brackets opened, as sympy may open them
_SYMPYS = {  # the language's names
    "sin": "sin", "cos": "cos", "tan": "tan", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "sinh": "sinh",
    "cosh": "cosh", "tanh": "tanh", "exp": "exp", "log": "log", "sqrt": "sqrt",
}  # fmt: skip
_NAMES = {sympys: own for own, sympys in _SYMPYS.items()} | {"Abs": "abs"}
_ONE_OVER = {"sec": "cos", "csc": "sin", "cot": "tan"}
_TOKEN = re.compile(r"\w+|\*\*|[^\s\w]")
_COUNTS_FOR_MORE: dict[str, int] = {Op.ADD: 2, Op.DIV: 1}  # than the names, numbers, signs and brackets of a form


def shorter_forms(e: E, f: E, typed: str, wrt: str) -> Iterator[tuple[str, E]]:
    """Yield forms of the derivative `e` of `f` by `wrt` that are shorter for a reader, the shortest first, each with its rule.

    A sum of f as it is `typed` counts for less, and comes first of forms of one length: 3*x - 2, and not 2 - 3*x.
    """
    usual = _names_of_functions(e) | _names_of_functions(f)
    texts_of_f = [text.replace(" ", "").replace("^", "**") for text in (typed, expression_text(f))]

    def place(form: E, strange: int = 0) -> tuple[int, int]:
        length = len(_TOKEN.findall(expression_text(form))) + sum(_COUNTS_FOR_MORE.get(a.op, 0) for a in form.walk())
        sums = [expression_text(a).replace(" ", "") for a in form.walk() if a.op == Op.ADD]
        as_typed, as_printed = (sum(text in own for text in sums) for own in texts_of_f)
        return length + _STRANGE * strange - _KEPT * max(as_typed, as_printed), -as_typed

    found: dict[E, tuple[str, int, int]] = {e: ("", *place(e))}
    for rule, form in _simplified_forms(e, f, wrt) if _can_be_simplified(e) and _can_be_simplified(f) else ():
        strange = len(_names_of_functions(form) - usual) if len(_names_of_functions(form)) > len(usual) else 0
        found.setdefault(form, (rule, *place(form, strange)))
    best = sorted(found, key=lambda form: found[form][1:])
    yield from ((found[form][0], form) for form in best[: best.index(e)])


def _names_of_functions(e: E) -> set[str]:
    return {a.text for a in e.walk() if a.op == "call"}


def _can_be_simplified(e: E) -> bool:
    """Whether a form is small, and made of numbers, names, powers with numbers as exponents and functions of sympy."""
    if e.size > _LARGEST or not all(a.op in (*_READ, Op.NEG, "name", "number") or a.text in _SYMPYS for a in e.walk()):
        return False
    numbers = [a.number for a in e.walk() if a.op == "number"]
    powers = [a.args[1] for a in e.walk() if a.op == Op.POW]
    exponents = [p.args[0] if p.op == Op.NEG else p for p in powers]
    known = all(isinstance(x, Fraction) for x in numbers) and all(p.op == "number" for p in exponents)
    return known and _count_opened_terms(e) <= _MOST_TERMS


def _count_opened_terms(e: E) -> int:
    """Return the number of terms of a form whose products and powers of sums are opened, above and below a line."""
    own = [_count_opened_terms(a) for a in e.args]
    if e.op == Op.ADD:
        return sum(own)
    if e.op == Op.POW:
        exponent = e.args[1].args[0] if e.args[1].op == Op.NEG else e.args[1]
        power = math.ceil(exponent.number)
        return math.comb(power + own[0] - 1, power) if own[0] > 1 and power <= _MOST_TERMS else power
    return math.prod(own)


def _simplified_forms(e: E, f: E, wrt: str) -> Iterator[tuple[str, E]]:
    import sympy as sp

    symbols = _Symbols()
    begun = [symbols.read(e), symbols.read(f).diff(symbols.read(name(wrt)))]
    rules: Sequence[tuple[str, tuple[Callable[[Any], Any], ...]]] = (  # and what is done, one after another
        ("simplify", ()),
        ("common denominator", (sp.together,)),
        ("cancel", (sp.cancel,)),
        ("factor", (sp.factor,)),
        ("trigonometric identities", (sp.trigsimp,)),
        ("rationalise", (sp.radsimp,)),
        ("factor", (sp.together, sp.factor)),
        ("trigonometric identities", (sp.together, sp.trigsimp)),
        ("trigonometric identities", (sp.trigsimp, sp.factor)),
        ("factor", (sp.factor, _multiply_conjugates)),
        ("factor", (sp.factor, _multiply_conjugates, _negate_two_sums)),
    )
    for start, (rule, simplifications) in itertools.product(begun, rules):
        try:
            yield rule, symbols.write(reduce(lambda s, simplify: simplify(s), simplifications, start))
        except (sp.PolynomialError, _NotWritten):
            continue


def _multiply_conjugates(s: "sp.Expr") -> "sp.Expr":
    """Return a product with pairs of its factors as differences of two squares: 1 - tanh(x)**2."""
    import sympy as sp

    factors = list(sp.Mul.make_args(s))
    for k, one in enumerate(factors):
        for n, other in enumerate(factors[k + 1 :], k + 1):
            whole = sp.expand(one * other) if one.is_Add and other.is_Add else None
            if whole is not None and whole.is_Add and len(whole.args) == 2:
                rest = [f for m, f in enumerate(factors) if m not in (k, n)]
                return _multiply_conjugates(sp.Mul(*rest, whole, evaluate=False))
    return s


def _negate_two_sums(s: "sp.Expr") -> "sp.Expr":
    """Return a product with two of its sums negated: (1 - u)*(1 - v) for (u - 1)*(v - 1)."""
    import sympy as sp

    factors = list(sp.Mul.make_args(s))
    sums = [k for k, f in enumerate(factors) if f.is_Add][:2]
    return sp.Mul(*(-f if k in sums and len(sums) == 2 else f for k, f in enumerate(factors)), evaluate=False)


class _NotWritten(Exception):
    """A sympy expression that the language does not have."""


class _Symbols:
    """Turns forms of numbers into sympy's expressions and back."""

    def __init__(self) -> None:
        self.names: dict[Any, E] = {}

    def read(self, e: E) -> "sp.Expr":
        import sympy as sp

        if e.op == "name":
            symbol = sp.pi if e.text == "pi" else sp.Symbol(e.text, real=True)
            self.names.setdefault(symbol, e)
            return symbol
        if e.op == "number":
            return sp.Rational(Fraction(e.number).numerator, Fraction(e.number).denominator)
        args = [self.read(a) for a in e.args]
        if e.op == Op.NEG:
            return -args[0]
        return reduce(_READ[e.op], args) if e.op in _READ else getattr(sp, _SYMPYS[e.text])(*args)

    def write(self, s: "sp.Expr") -> E:
        """Return a sympy expression as a form. Raises _NotWritten."""
        import sympy as sp

        if s.is_Rational:
            whole = number(Fraction(abs(int(s.p)), int(s.q)))
            return neg(whole) if s < 0 else whole
        if s in self.names:
            return self.names[s]
        if s.is_Add:
            terms = [self.write(term) for term in s.as_ordered_terms()]
            negative = all(term.op == Op.NEG for term in terms)
            return neg(ex.add([neg(term) for term in terms])) if negative else ex.add(terms)
        if s.is_Mul or (s.is_Pow and s.exp.could_extract_minus_sign()):
            return self._write_product(s)
        if isinstance(s, sp.exp):
            return call("exp", self.write(s.args[0]))
        if s.is_Pow:
            base = self.write(s.base)
            if s.exp.is_Rational:
                return ex.power(base, Fraction(int(s.exp.p), int(s.exp.q)))
            return E(Op.POW, (base, self.write(s.exp)))
        word = type(s).__name__
        if word not in (*_ONE_OVER, *_NAMES):
            raise _NotWritten
        args = [self.write(a) for a in s.args]
        return mul([], [call(_ONE_OVER[word], *args)]) if word in _ONE_OVER else call(_NAMES[word], *args)

    def _write_product(self, s: "sp.Expr") -> E:
        """Return a product, with the factors of negative powers below."""
        coef, factors = s.as_coeff_mul()
        if not coef.is_Rational:
            raise _NotWritten
        size = Fraction(abs(int(coef.p)), int(coef.q))
        apart = ex.is_fraction(size)
        above = [number(Fraction(size.numerator) if apart else size)]
        below = [number(Fraction(size.denominator))] if apart else []
        for factor in factors:
            if factor.is_Pow and factor.exp.could_extract_minus_sign():
                below.append(self.write(1 / factor))
            else:
                above.append(self.write(factor))
        minus = coef <= 0
        for own, k, e in [(side, k, e) for side in (below, above) for k, e in enumerate(side)]:
            if minus and e.op == Op.ADD and len(e.args) == 2 and e.args[1].op == Op.NEG:
                own[k], minus = ex.without_minus(neg(e)), False  # 2/(1 - x**2) for -2/(x**2 - 1)
        whole = mul(*(sorted(side, key=_place_in_product) for side in (above, below)))
        return neg(whole) if minus else whole


def _place_in_product(e: E) -> tuple[int, str]:
    """Return where a factor stands in a product: numbers, powers of names by the alphabet, roots and sums, functions."""
    base = e.args[0] if e.op == Op.POW else e
    place = {"number": 0, "name": 1, Op.ADD: 2}.get(base.op, 4 if base.text == "exp" else 3)
    return place, base.text if place == 1 else ""


_READ: dict[str, Callable[[Any, Any], Any]] = {
    Op.ADD: operator.add, Op.MUL: operator.mul, Op.DIV: operator.truediv, Op.POW: operator.pow,
}  # fmt: skip
