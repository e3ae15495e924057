"""What every notation of formulas shares: the brackets, and which sign is written by what."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from fractions import Fraction

from gradcli.derivation.expression import written
from gradcli.derivation.signs import M, Sign

# how tightly signs bind, from comparisons to what needs no brackets
# (LINE is a quotient with a line, which is as good as brackets)
COMPARE, SUM, ENTRYWISE, BESIDE, LINE, RAISED, ATOM = range(7)
_LEVELS = {
    Sign.SUM: SUM, Sign.MINUS: SUM, Sign.TOTAL: ENTRYWISE, Sign.ENTRYWISE: ENTRYWISE, Sign.CROSS: ENTRYWISE,
    Sign.BESIDE: BESIDE, Sign.POWER: RAISED, Sign.ENTRY_POWER: RAISED, Sign.TRANSPOSE: RAISED, Sign.INVERSE: RAISED,
}  # fmt: skip

Letters = Sequence[str]


class Notation(ABC):
    """A way to write formulas. `names` are those of inputs, sizes and parts, which no other sign may look like."""

    line: int  # how tightly a quotient binds
    root: int  # how tightly a root binds

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = frozenset(names)

    def write(self, m: M, within: int = COMPARE) -> str:
        """Return a formula, in brackets if it binds less than what is around it."""
        shown = self.sign(m)
        return self.bracketed(shown) if self.level(m) < within else shown

    def level(self, m: M) -> int:
        """Return how tightly a formula binds."""
        if m.sign is Sign.OVER:
            return self.line
        if m.sign is Sign.ROOT:
            return self.root
        if m.sign is Sign.NUMBER:
            return self.number_level(m)
        return _LEVELS.get(m.sign, ATOM)

    def number_level(self, m: M) -> int:
        """Return how tightly a number binds: a fraction as a quotient, one with a power of ten as a product."""
        shown = written(m.number)
        if "/" in shown:
            return self.line
        if "e" not in shown:
            return ATOM
        return RAISED if shown.startswith("1e") else ENTRYWISE

    @property
    def identity(self) -> str:
        return next(sign for sign in ("I", "Id", "Eye") if sign not in self.names or sign == "Eye")

    def sign(self, m: M) -> str:
        """Return a formula without brackets around it."""
        s = m.sign
        if s is Sign.NAME:
            return self.name(m.text)
        if s is Sign.NUMBER:
            return self.number(written(m.number))
        if s is Sign.SUM:
            return self.sum([(("-", a.args[0]) if a.sign is Sign.MINUS else ("+", a)) for a in m.args])
        if s is Sign.MINUS:
            return self.minus(self.write(m.args[0], ENTRYWISE))
        if s is Sign.ENTRYWISE:
            return self.entrywise([self.write(a, self.entrywise_level(a)) for a in m.args])
        if s is Sign.CROSS:
            return self.cross([self.write(a, LINE) for a in m.args])
        if s is Sign.BESIDE:
            return self.beside([self.write(a, LINE) for a in m.args])
        if s is Sign.TRANSPOSE:
            inner = m.args[0]
            return self.raised(inner.args[0], "-T") if inner.sign is Sign.INVERSE else self.raised(inner, "T")
        if s is Sign.INVERSE:
            return self.raised(m.args[0], "-1")
        if s is Sign.TOTAL:
            return self.total(m.text or "sum", m.letters, self.write(m.args[0], ENTRYWISE))
        return self.other(m)

    @staticmethod
    def entrywise_level(a: M) -> int:
        """Return how tightly a factor of an elementwise product must bind: a product of matrices is put in brackets."""
        arrays = [x for x in a.args if x.sign is not Sign.NUMBER] if a.sign is Sign.BESIDE else []
        return LINE if len(arrays) > 1 else BESIDE

    def exponent(self, m: M) -> str:
        """Return an exponent; 1.5 as 3/2."""
        if m.sign is Sign.MINUS:
            return self.minus(self.exponent(m.args[0]))
        x = m.number
        if m.sign is Sign.NUMBER and isinstance(x, Fraction) and x.denominator != 1:
            return self.ratio(str(x.numerator), str(x.denominator))
        return self.write(m)

    def ratio(self, above: str, below: str) -> str:
        """Return a quotient of whole numbers on one line."""
        return f"{above}/{below}"

    @abstractmethod
    def bracketed(self, shown: str) -> str: ...
    @abstractmethod
    def name(self, text: str) -> str: ...
    @abstractmethod
    def number(self, text: str) -> str: ...

    def sum(self, terms: Sequence[tuple[str, M]]) -> str:
        """Return a sum of terms, each with its sign."""
        shown = ""
        for sign, m in terms:
            part = self.write(m, ENTRYWISE if shown or sign == "-" else SUM)
            shown += f" {sign} {part}" if shown else f"-{part}" if sign == "-" else part
        return shown

    def minus(self, shown: str) -> str:
        """Return a formula with a minus before it."""
        return f"-{shown}"

    @abstractmethod
    def entrywise(self, parts: Sequence[str]) -> str: ...
    @abstractmethod
    def cross(self, parts: Sequence[str]) -> str: ...
    @abstractmethod
    def beside(self, parts: Sequence[str]) -> str: ...
    @abstractmethod
    def raised(self, base: M, what: str) -> str: ...
    @abstractmethod
    def total(self, what: str, letters: Letters, body: str) -> str:
        """Return a sum, or a product (`prod`), over indices."""

    @abstractmethod
    def other(self, m: M) -> str:
        """Return a quotient, a power, a function or a part of an array."""

    @abstractmethod
    def statements(self, lines: Sequence[tuple[str, str]]) -> str:
        """Return several formulas, each with its left side."""

    @abstractmethod
    def derivative(self, wrt: str, order: int, above: Letters = (), below: Letters = ()) -> str:
        """Return the left side of a derivative, df/dx; with the indices of an entry of f and of the input, if there are any."""

    @abstractmethod
    def indexed(self, name: str, letters: Letters) -> str:
        """Return a name with the indices of an entry."""

    @abstractmethod
    def product(self, name: str, direction: str, letters: Letters) -> str:
        """Return the left side of the product of a Hessian and a direction, H[V], with the indices of an entry."""
