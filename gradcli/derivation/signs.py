"""The signs of formulas: a tree of what textbooks write, and the sums, products and numbers that are made of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from fractions import Fraction

from gradcli.derivation.expression import Number, constant


class Sign(Enum):
    """What a node of a formula is."""

    NAME = auto()
    NUMBER = auto()
    ONES = auto()  # the vector of ones, as long as it must be
    IDENTITY = auto()
    UNIT = auto()  # a unit vector, `text` the place of its one
    SUM = auto()
    MINUS = auto()
    BESIDE = auto()  # a number times something, or a matrix product
    ENTRYWISE = auto()  # the product entry by entry
    CROSS = auto()  # of two vectors
    OVER = auto()
    POWER = auto()
    ENTRY_POWER = auto()  # of a matrix, entry by entry
    TRANSPOSE = auto()
    INVERSE = auto()
    FUNCTION = auto()  # `text` its name, `along` what it normalises or reduces
    NORM = auto()
    ABSOLUTE = auto()
    ROOT = auto()
    TRUTH = auto()  # 1 where a comparison holds, else 0
    AT = auto()  # entries of an array, `text` the places
    ENTRY = auto()  # one entry, `letters` its indices
    TOTAL = auto()  # a sum over `letters`
    DIFFERENTIAL = auto()  # dx, of a name
    ADJOINT = auto()  # of a name, in a reverse sweep
    JOINED = auto()  # a vector with zeros at its ends


@dataclass(frozen=True, slots=True)
class M:
    """A node of a formula."""

    sign: Sign
    args: tuple["M", ...] = ()
    text: str = ""
    number: Number = Fraction(0)
    along: str = ""  # rows or columns
    letters: tuple[str, ...] = ()


ONES, IDENTITY, ZERO, ONE = M(Sign.ONES), M(Sign.IDENTITY), M(Sign.NUMBER), M(Sign.NUMBER, number=Fraction(1))
_NAMES = {"trace": "tr"}
_CONSTANTS = {
    "pi": M(Sign.NAME, text="pi"),
    "sqrt(pi)": M(Sign.ROOT, (M(Sign.NAME, text="pi"),)),
    "sqrt(2)": M(Sign.ROOT, (M(Sign.NUMBER, number=Fraction(2)),)),
    "sqrt(2*pi)": M(Sign.ROOT, (M(Sign.BESIDE, (M(Sign.NUMBER, number=Fraction(2)), M(Sign.NAME, text="pi"))),)),
    "log(2)": M(Sign.FUNCTION, (M(Sign.NUMBER, number=Fraction(2)),), "log"),
}


def beside(parts: Sequence[M], brackets: Sequence[M] = ()) -> M:
    """Return a product of neighbours, without ones and in one row; those with `brackets` stay products of their own."""
    minus = sum(p.sign is Sign.MINUS for p in parts) % 2
    bare = [p.args[0] if p.sign is Sign.MINUS else p for p in parts]
    own = [id(p) for p in brackets]
    flat = [x for p in bare for x in (p.args if p.sign is Sign.BESIDE and id(p) not in own else (p,)) if x != ONE]
    y = ONE if not flat else flat[0] if len(flat) == 1 else M(Sign.BESIDE, tuple(flat))
    return M(Sign.MINUS, (y,)) if minus else y


def number_place(factor: M) -> int:
    """Return where a number stands among the factors of a product: coefficients, then powers of names, then the rest."""
    base = factor.args[0] if factor.sign is Sign.POWER else factor
    return {Sign.NUMBER: 0, Sign.NAME: 1}.get(base.sign, 2)


def _degree(term: M) -> Fraction | None:
    """Return the degree of a monomial, a product of numbers and powers of names; None for any other term."""
    if term.sign in (Sign.MINUS, Sign.BESIDE):
        parts = [_degree(a) for a in term.args]
        return None if any(d is None for d in parts) else sum((d for d in parts if d is not None), Fraction(0))
    if term.sign is Sign.POWER and term.args[0].sign is Sign.NAME and term.args[1].sign is Sign.NUMBER:
        return Fraction(term.args[1].number)
    if term.sign is Sign.FUNCTION and term.text == "log" and term.args[0].sign is Sign.NAME:
        return _SLOWER
    return {Sign.NUMBER: Fraction(0), Sign.NAME: Fraction(1)}.get(term.sign)


_SLOWER = Fraction(1, 100)  # the degree of a logarithm, so that 2 x log(x) is before x


def by_degree(terms: list[M]) -> list[M]:
    """Return the terms of a polynomial by falling degree, unless a minus would come first; other sums as they are."""
    degrees = [_degree(t) for t in terms]
    if any(d is None for d in degrees) or sum(bool(d) for d in degrees) < 2:
        return terms
    order = sorted(range(len(terms)), key=lambda k: -(degrees[k] or 0))
    return terms if terms[order[0]].sign is Sign.MINUS else [terms[k] for k in order]


def transposed(x: M) -> M:
    """Return a transpose."""
    return x.args[0] if x.sign is Sign.TRANSPOSE else M(Sign.TRANSPOSE, (x,))


def entrywise(parts: Sequence[M]) -> M:
    """Return a product entry by entry."""
    kept = [p for p in parts if p != ONES] or [ONES]
    return kept[0] if len(kept) == 1 else M(Sign.ENTRYWISE, tuple(kept))


def function(name: str, *args: M, along: str = "") -> M:
    """Return the value of a function by its usual name; `along` says whether it is taken in rows or in columns."""
    return M(Sign.FUNCTION, args, _NAMES.get(name, name), along=along)


def density_at(u: M) -> M:
    """Return the density of the normal distribution where the letter phi is an input's."""
    square = M(Sign.POWER, (u, constant_of(Fraction(2))))
    bell = function("exp", M(Sign.MINUS, (beside([constant_of(Fraction(1, 2)), square]),)))
    return M(Sign.OVER, (bell, _CONSTANTS["sqrt(2*pi)"]))


def constant_of(x: Number) -> M:
    """Return a number; a multiple of a known constant, such as pi, as a product or a quotient."""
    if x < 0:
        return M(Sign.MINUS, (constant_of(-x),))
    found = None if isinstance(x, Fraction) else constant(x)
    if found is None:
        return M(Sign.NUMBER, number=x)
    ratio, name, below = found
    value = _CONSTANTS[name]
    if not below:
        return beside([M(Sign.NUMBER, number=ratio), value])
    return M(Sign.OVER, (M(Sign.NUMBER, number=ratio), value))
