"""Functions of tensors: those that are powers, and those that know when they undo each other."""

import math
from collections.abc import Callable
from fractions import Fraction

from gradcli.derivation.index import (
    Atom,
    Index,
    Number,
    Tensor,
    Term,
    add,
    bracket,
    function,
    of_atom,
    outside,
    scalar,
    scaled,
)  # fmt: skip
from gradcli.derivation.products import multiply, positive, power
from gradcli.errors import NotSupported

HALF = Fraction(1, 2)


def number_of(x: float) -> Tensor:
    """Return a float as the fraction it is, or as a root of one."""
    nice = exact(x)
    square = Fraction(x * x).limit_denominator(1_000) if math.isfinite(x * x) else Fraction(0)
    if isinstance(nice, float) and square and abs(float(square) / (x * x) - 1) < 1e-15:
        return scaled(power(scalar(square), HALF), 1 if x > 0 else -1)
    return scalar(nice)


def exact(x: float) -> Number:
    """Return a float as the fraction it is, where that is a simple one. Raises NotSupported for inf and nan."""
    if not math.isfinite(x):
        raise NotSupported(f"a part of f is {x}, whatever its inputs are")
    nice = Fraction(x).limit_denominator(10_000)
    return nice if float(nice) == x else x


def of_numbers(op: str, xs: list[float], y: float) -> Tensor:
    """Return a function of numbers, which is a number; four arctan(1) are pi."""
    if op == "arctan" and xs == [1.0]:
        return scaled(of_atom(Atom("pi", "pi"), ()), Fraction(1, 4))
    return number_of(y)


def absolute(x: Tensor) -> Tensor:
    """Return |x|: x itself where it is known to be positive."""
    if len(x.terms) == 1 and x.terms[0].coef > 0 and all(positive(f) for f in x.terms[0].factors):
        return x
    return function("absolute", [x], x.free)


def _exponent(x: Tensor, p: Tensor) -> Tensor:
    if p.number is not None and isinstance(p.number, Fraction):
        return power(x, p.number)
    return function("power", [x, p], tuple(dict.fromkeys((*x.free, *p.free))))


def logarithm(x: Tensor) -> Tensor:
    f = x.terms[0].factors[0] if len(x.terms) == 1 and len(x.terms[0].factors) == 1 else None
    if f is not None and f.atom.op == "exp" and f.power == 1 and x.terms[0].coef == 1:
        return f.atom.args[0].renamed({s: f.at[-1 - s.id] for s in f.atom.args[0].free})
    return scalar(Fraction(0)) if x.number == 1 else function("log", [x], x.free)


def exponential(x: Tensor) -> Tensor:
    """Return exp(x): of a sum whose first term is negative, the reciprocal of exp(-x), so that both are one function."""
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
    """Return the inverse of a matrix x[i,j]: the number before it is taken out, a double inverse undone."""
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
}  # fmt: skip
