"""Functions of tensors: powers, exponentials and logarithms, inverses, and the cancellations between them."""

import math
from collections.abc import Callable, Iterator
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
    fresh,
    function,
    of_atom,
    outside,
    scalar,
    scaled,
    unbound,
)  # fmt: skip
from gradcli.derivation.products import multiply, positive, power, without
from gradcli.errors import NotSupported

HALF = Fraction(1, 2)


def number_of(x: float) -> Tensor:
    """Return a float as a simple fraction, or as the square root of one, if it equals that; else as it is."""
    nice = exact(x)
    square = Fraction(x * x).limit_denominator(1_000) if math.isfinite(x * x) else Fraction(0)
    if isinstance(nice, float) and square and abs(float(square) / (x * x) - 1) < 1e-15:
        return scaled(power(scalar(square), HALF), 1 if x > 0 else -1)
    return scalar(nice)


def exact(x: float) -> Number:
    """Return a float as a fraction if it equals a simple one, else as it is. Raises NotSupported for inf and nan."""
    if not math.isfinite(x):
        raise NotSupported(f"a part of f is {x}, whatever its inputs are")
    nice = Fraction(x).limit_denominator(10_000)
    return nice if float(nice) == x else x


def of_numbers(op: str, xs: list[float], y: float) -> Tensor:
    """Return the value `y` of a function of numbers as a tensor; arctan(1) is pi/4."""
    if op == "arctan" and xs == [1.0]:
        return scaled(of_atom(Atom("pi", "pi"), ()), Fraction(1, 4))
    return number_of(y)


def absolute(x: Tensor) -> Tensor:
    """Return |x|, or x itself if it is known to be positive."""
    if len(x.terms) == 1 and x.terms[0].coef > 0 and all(positive(f) for f in x.terms[0].factors):
        return x
    return function("absolute", [x], x.free)


def _exponent(x: Tensor, p: Tensor) -> Tensor:
    if p.number is not None and isinstance(p.number, Fraction):
        return power(x, p.number)
    return function("power", [x, p], tuple(dict.fromkeys((*x.free, *p.free))))


def logarithm(x: Tensor) -> Tensor:
    """Return log(x); log(exp(u)) is u, and log(1) is 0."""
    f = x.terms[0].factors[0] if len(x.terms) == 1 and len(x.terms[0].factors) == 1 else None
    if f is not None and f.atom.op == "exp" and f.power == 1 and x.terms[0].coef == 1 and set(f.at) <= set(x.free):
        return f.atom.args[0].renamed({s: f.at[-1 - s.id] for s in f.atom.args[0].free})
    return scalar(Fraction(0)) if x.number == 1 else function("log", [x], x.free)


def exponential(x: Tensor) -> Tensor:
    """Return exp(x); if the first term of x is negative, as 1/exp(-x), so that exp(x) and exp(-x) share one function."""
    if not x.terms:
        return scalar(Fraction(1))
    if (odds := _logistic(x)) is not None:
        return odds
    if (odds := _logistic(scaled(x, -1))) is not None:
        return power(odds, Fraction(-1))
    if bracket(x).coef < 0:
        return power(function("exp", [scaled(x, -1)], x.free), Fraction(-1))
    return function("exp", [x], x.free)


def _logistic(x: Tensor) -> Tensor | None:
    """Return exp(a - logaddexp(a, b)) as sigmoid(a - b), for either of the two; None for other exponents."""
    for term in x.terms:
        f = term.factors[0] if len(term.factors) == 1 else None
        if f is None or f.atom.op != "logaddexp" or f.power != 1 or term.coef != -1:
            continue
        rest = Tensor(x.free, tuple(t for t in x.terms if t is not term))
        a, b = outside(f), outside(f, 1)
        for this, other in ((a, b), (b, a)):
            if not add([rest, scaled(this, -1)], x.free).terms:
                return function("expit", [add([this, scaled(other, -1)], x.free)], x.free)
    return None


def inverse(x: Tensor, i: Index, j: Index) -> Tensor:
    """Return the inverse of a matrix x[i,j]; a numeric factor is taken out, and the inverse of an inverse is undone."""
    if len(x.terms) == 1:
        term = x.terms[0]
        f = term.factors[0] if len(term.factors) == 1 else None
        if f is not None and f.atom.op == "inv" and f.power == 1:
            inner = f.atom.args[0].renamed({s: f.at[-1 - s.id] for s in f.atom.args[0].free})
            return Tensor((i, j), scaled(inner.renamed({i: j, j: i}) if f.at == (j, i) else inner, 1 / term.coef).terms)
        if term.coef != 1:
            return scaled(inverse(Tensor(x.free, (Term(Fraction(1), term.factors),)), i, j), 1 / term.coef)
    return function("inv", [x], (i, j))


ALGEBRA: dict[str, Callable[..., Tensor]] = {
    "positive": lambda x: x, "real": lambda x: x,
    "add": lambda a, b: add([a, b]), "subtract": lambda a, b: add([a, scaled(b, -1)]), "negative": lambda a: scaled(a, -1),
    "multiply": multiply, "divide": lambda a, b: multiply(a, power(b, Fraction(-1))),
    "square": lambda a: power(a, Fraction(2)), "reciprocal": lambda a: power(a, Fraction(-1)),
    "sqrt": lambda a: power(a, HALF), "integer_power": lambda a, n: power(a, Fraction(n)), "power": _exponent,
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


def inverse_of_product(term: Term, free: tuple[Index, ...]) -> Term | None:
    """Rewrite inv(A B) A as inv(B), and B inv(A B) as inv(A), for square A and B: both are invertible if A B is."""
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
    """Cancel the first factor of X in inv(X) with an equal factor next to inv(X); return None if there is none.

    X is A[first, middle] R[middle, last]. An equal factor is next to inv(X) if it shares the index `last` of inv(X).
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
    """Cancel a sum of products with a bracket of negative power that holds the same sum."""
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
                for rest in _matches(tuple(others), _but(given, g), found):
                    yield [g, *rest]


def _but(given: tuple[Factor, ...], gone: Factor) -> tuple[Factor, ...]:
    return tuple(g for g in given if g is not gone)
