"""The derivative of a function of numbers as a book prints it: the shortest of the forms that sympy's simplifications find."""

import itertools
import math
import operator
import re
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import reduce
from typing import TYPE_CHECKING, Any

from gradcli.derivation import matrix_expression as ex
from gradcli.derivation.matrix_expression import E, Op, call, expression_text, mul, name, neg, number

if TYPE_CHECKING:
    import sympy as sp

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


_COUNTS_FOR_MORE: dict[str, int] = {Op.ADD: 2, Op.DIV: 1}


def reading_length(e: E) -> int:
    """Return how long a form is for a reader: names, numbers, signs, brackets; two more for a sum, one for a quotient."""
    return len(_TOKEN.findall(expression_text(e))) + sum(_COUNTS_FOR_MORE.get(a.op, 0) for a in e.walk())


def shorter_forms(e: E, f: E, typed: str, wrt: str) -> Iterator[tuple[str, E]]:
    """Yield forms of the derivative `e` of `f` by `wrt` that are shorter for a reader, the shortest first, each with its rule.

    A sum of f as it is `typed` counts for less, and comes first of forms of one length: 3*x - 2, and not 2 - 3*x.
    """
    usual = _names_of_functions(e) | _names_of_functions(f)

    def place(form: E, strange: int = 0) -> tuple[int, int]:
        as_typed, as_printed = (_count_typed_sums(form, text) for text in (typed, expression_text(f)))
        return reading_length(form) + _STRANGE * strange - _KEPT * max(as_typed, as_printed), -as_typed

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


def _count_typed_sums(e: E, typed: str) -> int:
    """Return how many sums and differences of a form stand in f as it is typed."""
    own = typed.replace(" ", "").replace("^", "**")
    return sum(expression_text(a).replace(" ", "") in own for a in e.walk() if a.op == Op.ADD)


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
