"""Functions of tensors: powers, exponentials and logarithms, inverses, and the cancellations between them."""

import math
import operator
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from math import isqrt

from gradcli.classes import dataclass
from gradcli.derivation.index import (  # fmt: skip
    Atom,
    Index,
    IndexedFactor,
    IndexedTerm,
    Number,
    Tensor,
    add,
    add_terms,
    apply_function,
    argument_of_factor,
    as_one_term,
    bracket,
    fresh_index,
    magnitude,
    multiply_term,
    refresh_bound_indices,
    scalar,
    scale_tensor,
    subtract,
    tensor_of_atom,
    tensor_of_size,
)  # fmt: skip
from gradcli.errors import NotSupported

HALF = Fraction(1, 2)


# Products, powers and sums of tensors, simplified by rules as they are made.

POSITIVE = {"exp", "softmax", "expit", "cosh", "size", "pi", "number"}
ONE = Fraction(1)


@dataclass(frozen=True)
class ProductRule:
    """A rule for products: what it makes of a term with a factor of one of these operations, or with any where there are none.

    A `counting` rule accounts for the indices that it removes.
    """

    rewrite: Callable[[IndexedTerm, IndexedFactor, tuple[Index, ...]], IndexedTerm | None]
    ops: Collection[str] = ()
    counting: bool = False

    def apply(self, term: IndexedTerm, free: tuple[Index, ...]) -> IndexedTerm | None:
        """Return a term as the rule writes it; None where it does not apply."""
        for f in term.factors:
            if not self.ops or f.atom.op in self.ops:
                found = self.rewrite(term, f, free)
                if found is not None:
                    return found if self.counting else restore_lost_sums(term, found, free)
        return None


RULES: list[ProductRule] = []  # in the order in which they are tried; `convert.py` fills it


def multiply(a: Tensor, b: Tensor) -> Tensor:
    """Return the product of tensors, which share the indices that both have; a sum becomes a bracket."""
    free = tuple(dict.fromkeys((*a.free, *b.free)))
    if not a.terms or not b.terms:
        return Tensor(free, ())
    for x, y in ((a, b), (b, a)):
        if x.number is not None:
            return Tensor(free, scale_tensor(y, x.number).terms)
    left, right = (refresh_bound_indices(as_one_term(x), x.free) for x in (a, b))
    return Tensor(free, (apply_rules(left.times(*right.factors, number=right.coef), free),))


def product(parts: Sequence[Tensor]) -> Tensor:
    """Return the product of several tensors."""
    found = scalar(ONE)
    for part in parts:
        found = multiply(found, part)
    return found


def is_exp_of_logs(atom: Atom) -> bool:
    """Whether an atom is the exponential of sums of logarithms, which stands for a product of any sign."""
    inner = atom.args[0].terms if atom.op == "exp" else ()
    logs = [t.factors[0].power for t in inner if len(t.factors) == 1 and t.factors[0].atom.op == "log"]
    return bool(inner) and len(logs) == len(inner) and all(t.coef == 1 for t in inner) and set(logs) == {1}


def is_positive(f: IndexedFactor) -> bool:
    """Whether an atom is known to be positive, entry by entry."""
    atom = f.atom
    if is_exp_of_logs(atom):
        return False
    if atom.op in POSITIVE or "positive" in atom.facts:
        return True
    if atom.op == "det":
        inner = atom.args[0].terms
        return len(inner) == 1 and len(inner[0].factors) == 1 and "spd" in inner[0].factors[0].atom.facts
    if atom.op == "group":
        terms = argument_of_factor(f).terms
        return all(t.coef > 0 and all(is_positive(g) or g.power % 2 == 0 for g in t.factors) for t in terms)
    return False


ORDERS: dict[str, Callable[[Number, Number], bool]] = {  # comparisons by order
    "greater": operator.gt, "greater_equal": operator.ge, "less": operator.lt, "less_equal": operator.le,
}  # fmt: skip
COMPARISONS = {*ORDERS, "equal", "not_equal"}


def is_truth(x: Tensor) -> bool:
    """Whether every entry of a tensor is known to be 0 or 1: a product of comparisons and masks, or 1 minus one."""
    return _is_product_of_truths(x) or _is_product_of_truths(subtract(scalar(ONE), x, x.free))


def _is_product_of_truths(x: Tensor) -> bool:
    if len(x.terms) != 1 or x.terms[0].coef != 1 or set(x.terms[0].indices) - set(x.free):
        return False
    return all(is_truth_factor(f) for f in x.terms[0].factors)


def is_truth_factor(f: IndexedFactor) -> bool:
    """Whether every entry of a factor is known to be 0 or 1."""
    if f.power < 1:
        return False
    if f.atom.op == "group":
        return is_truth(argument_of_factor(f))
    return f.atom.op in ("tri", *COMPARISONS) or (f.atom.op == "input" and "mask" in f.atom.facts)


def power(x: Tensor, p: Fraction) -> Tensor:
    """Return x**p entry by entry; the power is distributed over a product if that is valid."""
    if p == 0:
        return Tensor(x.free, (IndexedTerm(ONE),))
    if not x.terms:
        return x if p > 0 else Tensor(x.free, (IndexedTerm(float("inf")),))
    term = refresh_bound_indices(as_one_term(x), x.free)
    summed = term.indices - set(x.free)
    whole = p.denominator == 1
    alone = len(term.factors) == 1
    known = all(is_positive(f) or (f.power == 1 and f.atom.op == "group" and alone) for f in term.factors)
    if not summed and (whole or (term.coef > 0 and known)):
        inner = [f._replace(power=f.power * p) for f in term.factors]
        return Tensor(x.free, (apply_rules(_multiply_by_power(IndexedTerm(ONE, tuple(inner)), term.coef, p), x.free),))
    # a bracket, which keeps sums over bound indices inside
    share = magnitude(term.coef)
    inside = bracket(Tensor(x.free, (replace(term, coef=term.coef / share),)))
    (group,) = inside.factors
    if inside.coef != 1:
        group = group._replace(atom=replace(group.atom, args=(scale_tensor(group.atom.args[0], inside.coef),)))
    made = _multiply_by_power(IndexedTerm(ONE, (group._replace(power=p),)), share, p)
    return Tensor(x.free, (apply_rules(made, x.free),))


def _multiply_by_power(term: IndexedTerm, c: Number, p: Fraction) -> IndexedTerm:
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
            roots.append(IndexedFactor(Atom("number", str(n)), (), p * sign))
    return IndexedTerm(coef, (*term.factors, *roots))


def sum_over(x: Tensor, axes: Iterable[Index]) -> Tensor:
    """Return the sum over indices; a term that lacks an index is multiplied by the index's size."""
    gone = tuple(axes)
    free = tuple(i for i in x.free if i not in gone)
    parts = []
    for term in x.terms:
        lacking = [i for i in gone if i not in term.indices]
        one = Tensor(free, (apply_rules(refresh_bound_indices(term, free), free),))
        parts.append(product([one, *(tensor_of_size(i.dim) for i in lacking)]))
    return add(parts, free)


def apply_rules(term: IndexedTerm, free: Sequence[Index]) -> IndexedTerm:
    """Return a product with equal factors joined and the rules applied, until nothing changes.

    If no factor has a summed index any more, the term is multiplied by the index's size.
    """
    kept = tuple(free)
    for _ in range(200):
        term = restore_lost_sums(term, _join_equal_factors(term), kept)
        found = next(filter(None, (rule.apply(term, kept) for rule in RULES)), None)
        if found is None:
            break
        term = found
    return term


def restore_lost_sums(before: IndexedTerm, after: IndexedTerm, free: tuple[Index, ...]) -> IndexedTerm:
    """Return a rewritten term times the sizes of the bound indices that it lost, because it is still summed over them."""
    lost = [i for i in before.indices - after.indices if i not in free and i.id >= 0]
    for i in sorted(lost) if after.coef != 0 else ():
        after = multiply_term(after, tensor_of_size(i.dim))
    return after


def _join_equal_factors(term: IndexedTerm) -> IndexedTerm:
    """Return a term with equal factors joined, and those of power 0 left out."""
    powers: dict[tuple[Atom, tuple[Index, ...]], Fraction] = {}
    for atom, at, p in term.factors:
        place = tuple(sorted(at)) if atom.symmetric else at
        powers[atom, place] = powers.get((atom, place), Fraction(0)) + p
    return IndexedTerm(term.coef, tuple(IndexedFactor(atom, at, p) for (atom, at), p in powers.items() if p != 0))


def identity(dim: str) -> Atom:
    """Return the identity matrix as an atom."""
    return Atom("delta", dims=(dim, dim))


def tensor_of_number(x: float) -> Tensor:
    """Return a float as a simple fraction, or as the square root of one, if it equals that; else as it is.

    Infinity, the negative logit of what is masked, has a name. Raises NotSupported for nan.
    """
    if math.isinf(x):
        return scale_tensor(tensor_of_atom(Atom("inf", "inf"), ()), 1 if x > 0 else -1)
    nice = exact_number(x)
    square = Fraction(x * x).limit_denominator(1_000) if math.isfinite(x * x) else Fraction(0)
    if isinstance(nice, float) and square and abs(float(square) / (x * x) - 1) < 1e-15:
        return scale_tensor(power(scalar(square), HALF), 1 if x > 0 else -1)
    return scalar(nice)


_HUGE = 1e15  # from here on a number is shown by its power of ten


def exact_number(x: float) -> Number:
    """Return a float as a fraction if it equals a simple one, else as it is. Raises NotSupported for inf and nan."""
    if not math.isfinite(x):
        raise NotSupported(f"a part of f is {x}, whatever its inputs are")
    nice = Fraction(x).limit_denominator(10_000)
    return nice if float(nice) == x and abs(x) < _HUGE else x


def tensor_of_value(op: str, xs: list[float], y: float) -> Tensor:
    """Return the value `y` of a function of numbers as a tensor; arctan(1) is pi/4."""
    if op == "arctan" and xs == [1.0]:
        return scale_tensor(tensor_of_atom(Atom("pi", "pi"), ()), Fraction(1, 4))
    return tensor_of_number(y)


def absolute(x: Tensor) -> Tensor:
    """Return |x|, or x itself if it is known to be positive."""
    if len(x.terms) == 1 and x.terms[0].coef > 0 and all(is_positive(f) for f in x.terms[0].factors):
        return x
    return apply_function("absolute", [x], x.free)


def _power_of_tensors(x: Tensor, p: Tensor) -> Tensor:
    if p.number is not None and isinstance(p.number, Fraction):
        return power(x, p.number)
    base = Tensor(x.free, (apply_rules(as_one_term(x), x.free),)) if x.terms else x
    return apply_function("power", [base, p], tuple(dict.fromkeys((*x.free, *p.free))))


def logarithm(x: Tensor) -> Tensor:
    """Return log(x); log(exp(u)) is u, and log(1) is 0."""
    f = x.factor
    if f is not None and f.atom.op == "exp" and f.power == 1 and set(f.at) <= set(x.free):
        return argument_of_factor(f)
    return scalar(Fraction(0)) if x.number == 1 else apply_function("log", [x], x.free)


def exponential(x: Tensor) -> Tensor:
    """Return exp(x); if the first term of x is negative, as 1/exp(-x), so that exp(x) and exp(-x) share one function."""
    if not x.terms:
        return scalar(Fraction(1))
    if (odds := _match_logistic(x)) is not None:
        return odds
    if (odds := _match_logistic(scale_tensor(x, -1))) is not None:
        return power(odds, Fraction(-1))
    if bracket(x).coef < 0:
        return power(apply_function("exp", [scale_tensor(x, -1)], x.free), Fraction(-1))
    return apply_function("exp", [x], x.free)


def _match_logistic(x: Tensor) -> Tensor | None:
    """Return exp(a - logaddexp(a, b)) as sigmoid(a - b), for either of the two; None for other exponents."""
    for term in x.terms:
        f = term.factors[0] if len(term.factors) == 1 else None
        if f is None or f.atom.op != "logaddexp" or f.power != 1 or term.coef != -1:
            continue
        rest = Tensor(x.free, tuple(t for t in x.terms if t is not term))
        a, b = argument_of_factor(f), argument_of_factor(f, 1)
        for this, other in ((a, b), (b, a)):
            if not subtract(rest, this, x.free).terms:
                return apply_function("expit", [subtract(this, other, x.free)], x.free)
    return None


def inverse(x: Tensor, i: Index, j: Index) -> Tensor:
    """Return the inverse of a matrix x[i,j]; a numeric factor is taken out, and the inverse of an inverse is undone."""
    if len(x.terms) == 1:
        term = x.terms[0]
        f = term.factors[0] if len(term.factors) == 1 else None
        if f is not None and f.atom.op == "inv" and f.power == 1:
            inner = argument_of_factor(f)
            inner = inner.renamed({i: j, j: i}) if f.at == (j, i) else inner
            return Tensor((i, j), scale_tensor(inner, 1 / term.coef).terms)
        if term.coef != 1:
            return scale_tensor(inverse(Tensor(x.free, (IndexedTerm(ONE, term.factors),)), i, j), 1 / term.coef)
    return apply_function("inv", [x], (i, j))


def elementwise_function(op: str, *xs: Tensor) -> Tensor:
    """Return a function of arrays entry by entry."""
    return apply_function(op, xs, tuple(dict.fromkeys(i for x in xs for i in x.free)))


ALGEBRA: dict[str, Callable[..., Tensor]] = {
    # where an array is positive, if the step is 0 at 0: the slope of relu
    "heaviside": lambda x, at_zero: apply_function("greater" if at_zero.number == 0 else "heaviside", [x, at_zero], x.free),
    "positive": lambda x: x, "real": lambda x: x,
    "add": lambda a, b: add([a, b]), "subtract": subtract,
    "negative": lambda a: scale_tensor(a, -1),
    "multiply": multiply, "divide": lambda a, b: multiply(a, power(b, Fraction(-1))),
    "square": lambda a: power(a, Fraction(2)), "reciprocal": lambda a: power(a, Fraction(-1)),
    "sqrt": lambda a: power(a, HALF), "integer_power": lambda a, n: power(a, Fraction(n)), "power": _power_of_tensors,
    "exp": exponential, "log": logarithm, "absolute": absolute,
}  # fmt: skip
FUNCTIONS = {
    "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "log1p", "expm1",
    "exp2", "log2", "log10", "cbrt", "sign", "maximum", "minimum", "relu", "expit", "erf", "erfc", "logaddexp",
    "heaviside", "greater", "greater_equal", "less", "less_equal", "equal", "not_equal", "hypot", "arctan2", "gammaln", "digamma",
    "log_expit", "logit", "ndtr", "log_ndtr", "xlogy", "entr", "floor", "ceil", "rint", "trunc",
    "gamma", "beta", "j0", "j1", "y0", "y1", "i0", "i1", "k0", "k1", "jv", "yv", "iv", "kv",
}  # fmt: skip


_MOST = 4  # factors at most, in a sum of products that `over_itself` looks for


def inverse_of_product(term: IndexedTerm, f: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Rewrite inv(A B) A as inv(B), and B inv(A B) as inv(A), for square A and B: both are invertible if A B is."""
    inside = argument_of_factor(f).terms
    if f.power != 1 or len(set(f.at)) != 2 or len(inside) != 1 or len(inside[0].factors) < 2:
        return None
    found = (_cancel_first_factor(term, f, inside[0], ends, free) for ends in (f.at, f.at[::-1]))
    return next(filter(None, found), None)


def _cancel_first_factor(
    term: IndexedTerm, f: IndexedFactor, inner: IndexedTerm, ends: tuple[Index, ...], free: tuple[Index, ...]
) -> IndexedTerm | None:
    """Cancel the first factor of X in inv(X) with an equal factor next to inv(X); return None if there is none.

    X is A[first, middle] R[middle, last]. An equal factor is next to inv(X) if it shares the index `last` of inv(X).
    """
    first, last = ends
    a = next((g for g in inner.factors if first in g.at), None)
    if a is None or not _is_square_matrix(a) or last in a.at:
        return None
    near = a.at.index(first)
    middle = a.at[1 - near]
    rest = inner.without(a)
    if first in rest.indices or rest.count(middle) != 1 or rest.count(last) != 1:
        return None
    for other in term.factors:
        if other is f or other.atom != a.atom or not _is_square_matrix(other):
            continue
        if last in free or term.count(last) != 2:
            continue
        for k in (near, 1 - near) if a.atom.symmetric else (near,):
            if other.at[k] == last:
                u, v = fresh_index(first.dim), fresh_index(first.dim)
                own = rest.renamed({middle: u, last: v})
                smaller = inverse(Tensor((u, v), (own,)), u, v).renamed({u: first, v: other.at[1 - k]}).terms[0]
                return term.without(f, other).times(*smaller.factors, number=smaller.coef)
    return None


def _is_square_matrix(f: IndexedFactor) -> bool:
    return f.power == 1 and len(set(f.at)) == 2 and f.at[0].dim == f.at[1].dim


def over_itself(term: IndexedTerm, f: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Cancel a sum of products with a bracket of negative power that holds the same sum."""
    if f.power >= 0 or len(f.atom.args[0].terms) != 1:
        return None
    inner = refresh_bound_indices(argument_of_factor(f).terms[0], f.at)
    if not 1 < len(inner.factors) <= _MOST or not inner.indices - set(f.at):
        return None
    for same in _match_factors(inner.factors, term.without(f).factors, {i: i for i in f.at}):
        others = term.without(f, *same).indices
        left = term.without(*same).to_power(f, f.power + 1)
        own = {i for g in same for i in g.at} - set(f.at)
        lost = [i for i in f.at if i not in free and i not in left.indices]
        if not own & {*free, *f.at, *others} and not lost:
            return replace(left, coef=term.coef / inner.coef)
    return None


def _match_factors(
    wanted: tuple[IndexedFactor, ...], given: tuple[IndexedFactor, ...], names: dict[Index, Index]
) -> Iterator[list[IndexedFactor]]:
    """Yield lists of factors that are equal to the wanted ones, up to a one-to-one renaming of indices."""
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
                for rest in _match_factors(tuple(others), tuple(h for h in given if h is not g), found):
                    yield [g, *rest]


# Exponentials in products: the density of the normal distribution, and two exponentials whose quotient has no exponential.

DENSITY = "normal_density"
_MOST_EXPONENTIALS = 60  # terms of an exponent that has been multiplied out


def density(term: IndexedTerm, f: IndexedFactor, free: tuple[Index, ...]) -> IndexedTerm | None:
    """Write exp(-u**2/2)/sqrt(2*pi) as the density of the normal distribution at u."""
    twos = (g for g in term.factors if g.atom.op == "number" and g.atom.name == "2")
    root = next((g for g in twos if abs(g.power) == HALF), None)
    pi = next((g for g in term.factors if g.atom.op == "pi" and g.power == -HALF), None)
    if root is None or pi is None or f.power != -1:
        return None
    u = _exact_square_root(scale_tensor(argument_of_factor(f), 2))
    rest = term.without(root, pi, f).times(number=1 if root.power < 0 else 2)
    return None if u is None else multiply_term(rest, apply_function(DENSITY, [u], f.at))


def _exact_square_root(x: Tensor) -> Tensor | None:
    """Return u of u**2, with its first term positive; None where x is not known to be a square."""
    if len(x.terms) != 1:
        return None
    (term,) = x.terms
    if term.coef <= 0 or not isinstance(term.coef, Fraction):
        return None
    root = Fraction(isqrt(term.coef.numerator), isqrt(term.coef.denominator))
    if root * root != term.coef:
        return None
    found = [Tensor(x.free, (IndexedTerm(root),))]
    groups: list[list[IndexedFactor]] = []  # the factors that share summed indices
    for f in term.factors:
        bound = set(f.at) - set(x.free)
        near = [g for g in groups if any(bound & set(h.at) for h in g)]
        groups = [g for g in groups if g not in near] + [[f, *(h for g in near for h in g)]]
    linked = [
        Tensor(tuple(i for i in x.free if any(i in f.at for f in g)), (IndexedTerm(ONE, tuple(g)),)) for g in groups
    ]
    for key in dict.fromkeys(part.key for part in linked):
        alike = [part for part in linked if part.key == key]
        factor = alike[0].factor
        if factor is not None and not alike[0].indices - set(x.free):
            half = factor.power * len(alike) / 2
            if half.denominator != 1 and not is_positive(factor):
                return None
            found.append(power(Tensor(x.free, (IndexedTerm(ONE, (factor._replace(power=ONE),)),)), half))
        elif len(alike) % 2:
            return None
        else:
            found += alike[: len(alike) // 2]
    u = product(found)
    return Tensor(x.free, scale_tensor(u, 1 if bracket(u).coef > 0 else -1).terms)


def join_exponentials(x: Tensor) -> Iterator[Tensor]:
    """Yield the sum with the exponentials of one term written as a multiple of those of another.

    So S φ(d + s) is K exp(-r) φ(d) where the exponents differ by logarithms alone.
    """
    opened = _multiply_out(x, 1)
    terms = opened.terms if opened is not None else ()
    for k, one in enumerate(terms):
        for other in terms[k + 1 :]:
            ratio = _ratio_of_exponentials(one, other)
            if ratio is None:
                continue
            rest = Tensor(x.free, (other.without(*filter(_is_exponential, other.factors)),))
            shared = Tensor(x.free, (IndexedTerm(ONE, tuple(filter(_is_exponential, one.factors))),))
            whole = product([rest, ratio, shared])
            yield add_terms([*(t for t in terms if t is not other), *whole.terms], x.free)


def _is_exponential(f: IndexedFactor) -> bool:
    return f.atom.op in ("exp", DENSITY) and f.power.denominator == 1


def _ratio_of_exponentials(one: IndexedTerm, other: IndexedTerm) -> Tensor | None:
    """Return the exponentials of a term over those of another; None where they are equal, or the quotient has exponentials."""
    exponents = [[f for f in t.factors if _is_exponential(f)] for t in (one, other)]
    counts = [sum(f.power for f in fs if f.atom.op == DENSITY) for fs in exponents]
    if not all(exponents) or set(exponents[0]) == set(exponents[1]) or counts[0] != counts[1]:
        return None
    of_one, of_other = ([_exponent_of_exponential(f) for f in fs] for fs in exponents)
    apart = _multiply_out(add([*of_other, *(scale_tensor(x, -1) for x in of_one)]))
    if apart is None:
        return None
    ratio = Tensor((), (IndexedTerm(ONE),))
    for term in apart.terms:
        (f,) = term.factors if len(term.factors) == 1 else (None,)
        if f is None or f.atom.op != "log" or f.power != 1 or not isinstance(term.coef, Fraction):
            return None
        ratio = multiply(ratio, power(argument_of_factor(f), term.coef))
    return ratio


def _exponent_of_exponential(f: IndexedFactor) -> Tensor:
    if f.atom.op == "exp":
        return scale_tensor(argument_of_factor(f), f.power)
    return scale_tensor(power(argument_of_factor(f), Fraction(2)), -f.power / 2)


def _multiply_out(x: Tensor, deep: int = 99) -> Tensor | None:
    """Return a sum without brackets of whole positive powers, `deep` of them inside each other; None where it gets long."""
    pending = [(t, 0) for t in x.terms]
    done: list[Tensor] = []
    while pending:
        if len(pending) + len(done) > _MOST_EXPONENTIALS:
            return None
        term, depth = pending.pop(0)
        f = next((f for f in term.factors if f.atom.op == "group" and f.power.denominator == 1 and f.power > 0), None)
        if f is None or depth == deep:
            done.append(Tensor(x.free, (apply_rules(term, x.free),)))
            continue
        rest = term.to_power(f, f.power - 1)
        for part in argument_of_factor(f).terms:
            own = refresh_bound_indices(part, f.at)
            pending.append((apply_rules(rest.times(*own.factors, number=own.coef), x.free), depth + 1))
    return add(done, x.free)
