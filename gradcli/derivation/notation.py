"""The signs of formulas: a tree of what textbooks write, and the sums, products and numbers that are made of them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from fractions import Fraction
from typing import ClassVar
from xml.sax.saxutils import escape

from gradcli.classes import dataclass
from gradcli.derivation.matrix_expression import Number, formula_number, is_fraction, match_known_constant
from gradcli.report.derive import GREEK, greek_name, latex_name, mathml_name, split_subscript
from gradcli.report.equations import mathml_lines

_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_LOWERED = str.maketrans("0123456789-", "₀₁₂₃₄₅₆₇₈₉₋")


_BESIDE = '<mo rspace="0.17em">&#8290;</mo>'  # a product of neighbours, with a thin space between them
_SIGNS = {"+": "+", "-": "&#8722;"}


_PLAIN_FUNCTIONS = frozenset("exp log sin cos tan tanh sinh cosh det max min arctan arcsin arccos".split())  # noqa: SIM905


# how tightly signs bind, from comparisons to what needs no brackets
# (LINE is a quotient with a line, which is as good as brackets)
COMPARE, SUM, ENTRYWISE, BESIDE, LINE, RAISED, ATOM = range(7)


_BELOW = ";\u00a0"  # between arrays below each other; "; " is between the lines of a formula


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
    CASES = auto()  # the first where a comparison of the last two holds, else the second
    AT = auto()  # entries of an array, `text` the places
    ENTRY = auto()  # one entry, `letters` its indices
    TOTAL = auto()  # a sum over `letters`
    DIFFERENTIAL = auto()  # dx, of a name
    ADJOINT = auto()  # of a name, in a reverse sweep
    JOINED = auto()  # one array beside the other, or one below the other along rows


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
_E, _PI, _TWO = M(Sign.NAME, text="e"), M(Sign.NAME, text="pi"), M(Sign.NUMBER, number=Fraction(2))
_CONSTANTS = {
    "e": _E,
    "pi": _PI,
    "(e - 1)": M(Sign.SUM, (_E, M(Sign.MINUS, (ONE,)))),
    "(pi - 1)": M(Sign.SUM, (_PI, M(Sign.MINUS, (ONE,)))),
    "sqrt(pi)": M(Sign.ROOT, (_PI,)),
    "sqrt(2)": M(Sign.ROOT, (_TWO,)),
    "sqrt(2*pi)": M(Sign.ROOT, (M(Sign.BESIDE, (_TWO, _PI)),)),
    "log(2)": M(Sign.FUNCTION, (_TWO,), "log"),
}


def multiply_neighbours(parts: Sequence[M], brackets: Sequence[M] = ()) -> M:
    """Return a product of neighbours, without ones and in one row; those with `brackets` stay products of their own."""
    minus = sum(p.sign is Sign.MINUS for p in parts) % 2
    bare = [p.args[0] if p.sign is Sign.MINUS else p for p in parts]
    own = [id(p) for p in brackets]
    flat = [x for p in bare for x in (p.args if p.sign is Sign.BESIDE and id(p) not in own else (p,)) if x != ONE]
    y = ONE if not flat else flat[0] if len(flat) == 1 else M(Sign.BESIDE, tuple(flat))
    return M(Sign.MINUS, (y,)) if minus else y


def place_among_factors(factor: M) -> int:
    """Return where a number stands among the factors of a product: coefficients, then names and their powers, then the rest."""
    if factor.sign is Sign.POWER and factor.args[1].sign is not Sign.NUMBER:  # x^(n - 1)
        return 2
    base = factor.args[0] if factor.sign in (Sign.POWER, Sign.BESIDE) else factor  # 2 pi is a number, too
    return {Sign.NUMBER: 0, Sign.NAME: 1}.get(base.sign, 2)


def _degree_of_monomial(term: M) -> Fraction | None:
    """Return the degree of a monomial, a product of numbers and powers of names; None for any other term."""
    if term.sign in (Sign.MINUS, Sign.BESIDE):
        parts = [_degree_of_monomial(a) for a in term.args]
        return None if any(d is None for d in parts) else sum((d for d in parts if d is not None), Fraction(0))
    if term.sign is Sign.POWER and term.args[0].sign is Sign.NAME and term.args[1].sign is Sign.NUMBER:
        return Fraction(term.args[1].number)
    if term.sign is Sign.FUNCTION and term.text == "log" and term.args[0].sign is Sign.NAME:
        return _SLOWER
    return {Sign.NUMBER: Fraction(0), Sign.NAME: Fraction(1)}.get(term.sign)


_SLOWER = Fraction(1, 100)  # the degree of a logarithm, so that 2 x log(x) is before x


def sort_by_degree(terms: list[M]) -> list[M]:
    """Return the terms of a polynomial by falling degree, unless a minus would come first; other sums as they are."""
    degrees = [_degree_of_monomial(t) for t in terms]
    scaled = any(d and place_among_factors(t) == 0 for t, d in zip(terms, degrees, strict=True))  # 2 x + 1, and 1 + x
    if any(d is None for d in degrees) or (sum(bool(d) for d in degrees) < 2 and not scaled):
        return terms
    order = sorted(range(len(terms)), key=lambda k: -(degrees[k] or 0))
    return terms if terms[order[0]].sign is Sign.MINUS else [terms[k] for k in order]


def transpose_formula(x: M) -> M:
    """Return a transpose."""
    return x.args[0] if x.sign is Sign.TRANSPOSE else M(Sign.TRANSPOSE, (x,))


def entrywise_product(parts: Sequence[M]) -> M:
    """Return a product entry by entry."""
    kept = [p for p in parts if p != ONES] or [ONES]
    return kept[0] if len(kept) == 1 else M(Sign.ENTRYWISE, tuple(kept))


def function_formula(name: str, *args: M, along: str = "") -> M:
    """Return the value of a function by its usual name; `along` says whether it is taken in rows or in columns."""
    return M(Sign.FUNCTION, args, _NAMES.get(name, name), along=along)


def density_formula(u: M) -> M:
    """Return the density of the normal distribution where the letter phi is an input's."""
    two, half = number_formula(Fraction(2)), Fraction(1, 2)
    square = M(Sign.POWER, (u, two))
    halved = M(Sign.OVER, (square, two)) if is_fraction(half) else multiply_neighbours([number_formula(half), square])
    return M(Sign.OVER, (function_formula("exp", M(Sign.MINUS, (halved,))), _CONSTANTS["sqrt(2*pi)"]))


def number_formula(x: Number) -> M:
    """Return a number; a multiple of a known constant, such as pi, as a product or a quotient."""
    if x < 0:
        return M(Sign.MINUS, (number_formula(-x),))
    found = None if isinstance(x, Fraction) else match_known_constant(x)
    if found is None:
        return M(Sign.NUMBER, number=x)
    ratio, name, below = found
    parts = (M(Sign.NUMBER, number=ratio), _CONSTANTS[name])
    return M(Sign.OVER, parts) if below else multiply_neighbours(parts)


# What every notation of formulas shares: the brackets, and which sign is written by what.


_LEVELS = {
    Sign.SUM: SUM, Sign.MINUS: SUM, Sign.TOTAL: ENTRYWISE, Sign.ENTRYWISE: ENTRYWISE, Sign.CROSS: ENTRYWISE,
    Sign.CASES: COMPARE,
    Sign.BESIDE: BESIDE, Sign.POWER: RAISED, Sign.ENTRY_POWER: RAISED, Sign.TRANSPOSE: RAISED, Sign.INVERSE: RAISED,
}  # fmt: skip

Letters = Sequence[str]


class Notation(ABC):
    """A way to write formulas. `names` are those of inputs, sizes and parts, which no other sign may look like."""

    line: int  # how tightly a quotient binds
    root: int  # how tightly a root binds
    _between: ClassVar[Mapping[Sign, str]]  # what stands between the factors of each kind of product
    _templates: ClassVar[Mapping[Sign, str]]  # for what holds its parts in one way, whatever they are

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
        text = formula_number(m.number)
        if "/" in text:
            return self.line
        if "e" not in text:
            return ATOM
        return RAISED if text.startswith("1e") else ENTRYWISE

    @property
    def has_sigma(self) -> bool:
        """Whether an input has the letter of the sigmoid, also with a number as in sigma1."""
        return any(split_subscript(name)[0] in ("sigma", "σ") for name in self.names)

    @property
    def identity(self) -> str:
        return next(sign for sign in ("I", "Id", "Eye") if sign not in self.names or sign == "Eye")

    def sign(self, m: M) -> str:
        """Return a formula without brackets around it."""
        s = m.sign
        if s is Sign.NAME:
            return self.name(m.text)
        if s is Sign.NUMBER:
            return self.number(formula_number(m.number))
        if s is Sign.SUM:
            return self.sum([(("-", a.args[0]) if a.sign is Sign.MINUS else ("+", a)) for a in m.args])
        if s is Sign.MINUS:
            return self.minus(self.write(m.args[0], ENTRYWISE))
        if s in self._between:
            levels = [self.entrywise_level(a) if s is Sign.ENTRYWISE else LINE for a in m.args]
            return self.factors(s, list(map(self.write, m.args, levels)))
        if s is Sign.TRANSPOSE:
            inner = m.args[0]
            return self.raised(inner.args[0], "-T") if inner.sign is Sign.INVERSE else self.raised(inner, "T")
        if s is Sign.INVERSE:
            return self.raised(m.args[0], "-1")
        if s is Sign.TOTAL:
            return self.total(m.text or "sum", m.letters, self.write(m.args[0], ENTRYWISE))
        if s is Sign.ENTRY:
            return self.write_subscript(self.write(m.args[0], ATOM), m.letters)
        return self._templates[s].format(*map(self.write, m.args)) if s in self._templates else self.other(m)

    @staticmethod
    def entrywise_level(a: M) -> int:
        """Return how tightly a factor of an elementwise product must bind: a product of matrices is put in brackets."""
        arrays = [x for x in a.args if x.sign is not Sign.NUMBER] if a.sign is Sign.BESIDE else []
        return LINE if len(arrays) > 1 else BESIDE

    def exponent(self, m: M) -> str:
        """Return an exponent; 1/3 as one, and not as a quotient."""
        if m.sign is Sign.MINUS:
            return self.minus(self.exponent(m.args[0]))
        x = m.number
        if m.sign is Sign.NUMBER and isinstance(x, Fraction) and is_fraction(x):
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

    def factors(self, kind: Sign, parts: Sequence[str]) -> str:
        """Return a product of this kind."""
        return self._between[kind].join(parts)

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
    def write_subscript(self, shown: str, letters: Letters) -> str:
        """Return a formula with the indices of an entry; without them if there are none, as of a number."""

    def indexed(self, name: str, letters: Letters) -> str:
        """Return a name with the indices of an entry."""
        return self.write_subscript(self.name(name), letters)

    @abstractmethod
    def product(self, name: str, direction: str, letters: Letters) -> str:
        """Return the left side of the product of a Hessian and a direction, H[V], with the indices of an entry."""


# Formulas in LaTeX.


class Latex(Notation):
    """LaTeX with amsmath; names are escaped."""

    line, root = LINE, ATOM
    _between: ClassVar = {Sign.ENTRYWISE: r" \circ ", Sign.CROSS: r" \times ", Sign.BESIDE: r" \, "}
    _templates: ClassVar = {
        Sign.ONES: r"\mathbf{{1}}", Sign.DIFFERENTIAL: r"\mathrm{{d}}{}", Sign.ADJOINT: r"\bar{{{}}}",
        Sign.OVER: r"\frac{{{}}}{{{}}}", Sign.ROOT: r"\sqrt{{{}}}", Sign.NORM: r"\left\lVert {} \right\rVert",
        Sign.ABSOLUTE: r"\left|{}\right|",
    }  # fmt: skip
    _marks: ClassVar = {"T": r"\top", "-T": r"-\top", "-1": "-1"}
    _comparisons: ClassVar = {">=": r"\geq", "<=": r"\leq", "==": "=", "!=": r"\neq"}
    _words: ClassVar = {"sigmoid": r"\sigma", "Φ": r"\Phi", "φ": r"\phi", "tr": r"\operatorname{tr}"}

    def bracketed(self, shown: str) -> str:
        return rf"\left({shown}\right)"

    def name(self, text: str) -> str:
        return r"\infty" if text == "inf" else latex_name(text)

    def number(self, text: str) -> str:
        if "/" in text:
            above, below = text.split("/")
            return rf"\tfrac{{{above}}}{{{below}}}"
        mantissa, e, exponent = text.partition("e")
        ten = f"10^{{{int(exponent)}}}" if e else ""
        return text if not e else ten if mantissa == "1" else rf"{mantissa} \cdot {ten}"

    def factors(self, kind: Sign, parts: Sequence[str]) -> str:
        first, *rest = parts
        if kind is Sign.BESIDE and first[0].isdigit() and rest:
            return f"{first} {self.factors(kind, rest)}"
        return super().factors(kind, parts)

    def raised(self, base: M, what: str) -> str:
        return rf"{self.write(base, ATOM)}^{{{self._marks[what]}}}"

    def total(self, what: str, letters: Letters, body: str) -> str:
        return rf"\{what}_{{{self._join_letters(letters)}}} {body}"

    def other(self, m: M) -> str:
        args = [self.write(a) for a in m.args]
        inside = ", ".join(args)
        match m.sign:
            case Sign.IDENTITY:
                return "I" if self.identity == "I" else r"\mathrm{Id}"
            case Sign.UNIT:
                return rf"e_{{{inside or m.text}}}"
            case Sign.POWER | Sign.ENTRY_POWER:
                by_entry = r"\circ " if m.sign is Sign.ENTRY_POWER else ""
                return rf"{self.write(m.args[0], ATOM)}^{{{by_entry}{self.exponent(m.args[1])}}}"
            case Sign.TRUTH:
                sign = self._comparisons.get(m.text, m.text)
                return rf"\mathbf{{1}}\left[{self.write(m.args[0], SUM)} {sign} {self.write(m.args[1], SUM)}\right]"
            case Sign.CASES:
                yes, no, left, right = args
                condition = f"{left} {self._comparisons.get(m.text, m.text)} {right}"
                rows = rf"{yes} & \text{{if }} {condition} \\[2pt] {no} & \text{{otherwise}}"
                return rf"\begin{{cases}} {rows} \end{{cases}}"
            case Sign.AT:
                base = self.write(m.args[0], ATOM)
                return rf"{{{base}}}_{{{m.text}}}" if "_" in base else rf"{base}_{{{m.text}}}"
            case Sign.JOINED:
                rows = r" \\[2pt] ".join(args)
                return rf"\begin{{bmatrix}} {rows} \end{{bmatrix}}" if m.along else rf"\left[{inside}\right]"
        escaped = m.text.replace("_", r"\_")
        head = rf"\operatorname{{{escaped}}}"
        if m.text in _PLAIN_FUNCTIONS:
            head = f"\\{m.text}"
        elif m.text != "sigmoid" or not self.has_sigma:
            head = self._words.get(m.text, head)
        low = rf"\mathrm{{{m.along}}}" if m.along else self._join_letters(m.letters)
        return rf"{head}{f'_{{{low}}}' if low else ''}\left({inside}\right)"

    def _join_letters(self, letters: Letters) -> str:
        return ", ".join(map(self.name, letters))

    def statements(self, lines: Sequence[tuple[str, str]]) -> str:
        return r" \\ ".join(f"{left} = {right}" for left, right in lines)

    def derivative(self, wrt: str, order: int, above: Letters = (), below: Letters = ()) -> str:
        if order == 1:
            return rf"\frac{{\partial {self.indexed('f', above)}}}{{\partial {self.indexed(wrt, below)}}}"
        half = len(below) // 2
        twice = rf"{self.indexed(wrt, below[:half])} \, \partial {self.indexed(wrt, below[half:])}"
        return rf"\frac{{\partial^{{2}} f}}{{\partial {twice if below else self.name(wrt) + '^{2}'}}}"

    def write_subscript(self, shown: str, letters: Letters) -> str:
        return f"{{{shown}}}_{{{self._join_letters(letters)}}}" if letters else shown

    def product(self, name: str, direction: str, letters: Letters) -> str:
        return f"{self.name(name)}[{self.name(direction)}]" + (f"_{{{self._join_letters(letters)}}}" if letters else "")


# Formulas in presentation MathML.


class Mathml(Notation):
    """Presentation MathML."""

    line, root = LINE, ATOM
    _between: ClassVar = {Sign.ENTRYWISE: "<mo>&#8728;</mo>", Sign.CROSS: "<mo>&#215;</mo>", Sign.BESIDE: _BESIDE}
    _templates: ClassVar = {
        Sign.ONES: "<mi>𝟏</mi>",
        Sign.DIFFERENTIAL: '<mrow><mi mathvariant="normal">d</mi>{}</mrow>',
        Sign.ADJOINT: "<mover>{}<mo>&#175;</mo></mover>",
        Sign.OVER: "<mfrac>{}{}</mfrac>",
        Sign.ROOT: "<msqrt>{}</msqrt>",
        Sign.NORM: "<mrow><mo>‖</mo>{}<mo>‖</mo></mrow>",
        Sign.ABSOLUTE: "<mrow><mo>|</mo>{}<mo>|</mo></mrow>",
    }
    _marks: ClassVar = {
        "T": "<mo>&#8868;</mo>",
        "-T": "<mrow><mo>&#8722;</mo><mo>&#8868;</mo></mrow>",
        "-1": "<mrow><mo>&#8722;</mo><mn>1</mn></mrow>",
    }
    _comparisons: ClassVar = {">=": "≥", "<=": "≤", "==": "=", "!=": "≠"}

    def number_level(self, m: M) -> int:
        return LINE if "/" in formula_number(m.number) else super().number_level(m)

    def bracketed(self, shown: str) -> str:
        return f"<mrow><mo>(</mo>{shown}<mo>)</mo></mrow>"

    def name(self, text: str) -> str:
        return "<mi>∞</mi>" if text == "inf" else mathml_name(text)

    def number(self, text: str) -> str:
        if "/" in text:
            above, below = text.split("/")
            return f"<mfrac><mn>{above}</mn><mn>{below}</mn></mfrac>"
        mantissa, e, exponent = text.partition("e")
        if not e:
            return f"<mn>{text}</mn>"
        power = int(exponent)
        shown = f"<mn>{power}</mn>" if power >= 0 else f"<mrow><mo>&#8722;</mo><mn>{-power}</mn></mrow>"
        ten = f"<msup><mn>10</mn>{shown}</msup>"
        return ten if mantissa == "1" else f"<mrow><mn>{mantissa}</mn><mo>&#8901;</mo>{ten}</mrow>"

    def ratio(self, above: str, below: str) -> str:
        return f"<mrow><mn>{above}</mn><mo>/</mo><mn>{below}</mn></mrow>"

    def sum(self, terms: Sequence[tuple[str, M]]) -> str:
        shown = ""
        for sign, m in terms:
            part = self.write(m, ENTRYWISE if shown or sign == "-" else SUM)
            shown += f"<mo>{_SIGNS[sign]}</mo>{part}" if shown or sign == "-" else part
        return f"<mrow>{shown}</mrow>"

    def minus(self, shown: str) -> str:
        return f"<mrow><mo>&#8722;</mo>{shown}</mrow>"

    def factors(self, kind: Sign, parts: Sequence[str]) -> str:
        return f"<mrow>{super().factors(kind, parts)}</mrow>"

    def raised(self, base: M, what: str) -> str:
        return f"<msup>{self.write(base, ATOM)}{self._marks[what]}</msup>"

    def total(self, what: str, letters: Letters, body: str) -> str:
        sign = "&#8721;" if what == "sum" else "&#8719;"
        return f"<mrow><munder><mo>{sign}</mo>{self._join_letters(letters)}</munder>{body}</mrow>"

    def _join_letters(self, letters: Sequence[str]) -> str:
        return f"<mrow>{'<mo>,</mo>'.join(f'<mi>{escape(GREEK.get(c, c))}</mi>' for c in letters)}</mrow>"

    def other(self, m: M) -> str:
        args = [self.write(a) for a in m.args]
        inside = "<mo>,</mo>".join(args)
        match m.sign:
            case Sign.IDENTITY:
                return f"<mi>{self.identity}</mi>"
            case Sign.UNIT:
                return f"<msub><mi>e</mi>{inside or f'<mn>{escape(m.text)}</mn>'}</msub>"
            case Sign.POWER | Sign.ENTRY_POWER:
                power = self.exponent(m.args[1])
                power = f"<mrow><mo>&#8728;</mo>{power}</mrow>" if m.sign is Sign.ENTRY_POWER else power
                return f"<msup>{self.write(m.args[0], ATOM)}{power}</msup>"
            case Sign.TRUTH:
                sign = escape(self._comparisons.get(m.text, m.text))
                left, right = self.write(m.args[0], SUM), self.write(m.args[1], SUM)
                return f"<mrow><mi>𝟏</mi><mo>[</mo>{left}<mo>{sign}</mo>{right}<mo>]</mo></mrow>"
            case Sign.CASES:
                yes, no, left, right = args
                sign = escape(self._comparisons.get(m.text, m.text))
                condition = f"<mtext>if&#160;</mtext>{left}<mo>{sign}</mo>{right}"
                branches = ((yes, condition), (no, "<mtext>otherwise</mtext>"))
                rows = "".join(f"<mtr><mtd>{x}</mtd><mtd><mrow>{when}</mrow></mtd></mtr>" for x, when in branches)
                return f'<mrow><mo>{{</mo><mtable columnalign="left left">{rows}</mtable></mrow>'
            case Sign.AT:
                return f"<msub>{self.write(m.args[0], ATOM)}<mi>{escape(m.text)}</mi></msub>"
            case Sign.JOINED:
                rows = f"<mtable>{''.join(f'<mtr><mtd>{x}</mtd></mtr>' for x in args)}</mtable>"
                return f"<mrow><mo>[</mo>{rows if m.along else inside}<mo>]</mo></mrow>"
        head = f"<mi>{'σ' if m.text == 'sigmoid' and not self.has_sigma else escape(m.text)}</mi>"
        along = f"<msub>{head}<mtext>{m.along}</mtext></msub>"
        head = along if m.along else self.write_subscript(head, m.letters)
        return f"<mrow>{head}<mo>(</mo>{inside}<mo>)</mo></mrow>"

    def statements(self, lines: Sequence[tuple[str, str]]) -> str:
        return mathml_lines(lines)

    def derivative(self, wrt: str, order: int, above: Letters = (), below: Letters = ()) -> str:
        d = "<mo>&#8706;</mo>"
        half = len(below) // 2
        if order == 1:
            top, low = f"{d}{self.indexed('f', above)}", f"{d}{self.indexed(wrt, below)}"
        elif below:
            top = f"<msup>{d}<mn>2</mn></msup><mi>f</mi>"
            low = f"{d}{self.indexed(wrt, below[:half])}{d}{self.indexed(wrt, below[half:])}"
        else:
            top, low = f"<msup>{d}<mn>2</mn></msup><mi>f</mi>", f"{d}<msup>{self.name(wrt)}<mn>2</mn></msup>"
        return f"<mfrac><mrow>{top}</mrow><mrow>{low}</mrow></mfrac>"

    def write_subscript(self, shown: str, letters: Letters) -> str:
        return f"<msub>{shown}{self._join_letters(letters)}</msub>" if letters else shown

    def product(self, name: str, direction: str, letters: Letters) -> str:
        shown = f"<mrow>{self.name(name)}<mo>[</mo>{self.name(direction)}<mo>]</mo></mrow>"
        return self.write_subscript(shown, letters)


# Formulas in Unicode for a terminal, and on a line of plain text.


class Unicode(Notation):
    """Superscripts for transposes, inverses and powers: `A.T @ (A @ x - b)` as `Aᵀ (A x - b)`."""

    line, root = ENTRYWISE, RAISED
    _between: ClassVar = {Sign.ENTRYWISE: " ∘ ", Sign.CROSS: " × ", Sign.BESIDE: " "}
    _templates: ClassVar = {
        Sign.ONES: "𝟏", Sign.DIFFERENTIAL: "d{}", Sign.ADJOINT: "{}_bar", Sign.NORM: "‖{}‖", Sign.ABSOLUTE: "|{}|",
    }  # fmt: skip
    _marks: ClassVar = {"T": "ᵀ", "-T": "⁻ᵀ", "-1": "⁻¹"}

    def bracketed(self, shown: str) -> str:
        return f"({shown})"

    def name(self, text: str) -> str:
        return "∞" if text == "inf" else greek_name(text)

    def number(self, text: str) -> str:
        mantissa, e, exponent = text.partition("e")
        ten = f"10{str(int(exponent)).translate(_RAISED)}" if e else ""
        return text if not e else ten if mantissa == "1" else f"{mantissa}·{ten}"

    def raised(self, base: M, what: str) -> str:
        return f"{self.write(base, ATOM)}{self._marks[what]}"

    def total(self, what: str, letters: Letters, body: str) -> str:
        return f"{what}_{','.join(letters)} {body}"

    def other(self, m: M) -> str:
        args = [self.write(a) for a in m.args]
        inside = ", ".join(args)
        match m.sign:
            case Sign.IDENTITY:
                return self.identity
            case Sign.UNIT:
                return f"e_{inside}" if args else f"e{m.text.translate(_LOWERED)}"
            case Sign.OVER:
                return f"{self.write(m.args[0], BESIDE)} / {self.write(m.args[1], RAISED)}"
            case Sign.POWER | Sign.ENTRY_POWER:
                by_entry, shown = "∘" if m.sign is Sign.ENTRY_POWER else "", self.exponent(m.args[1])
                raised = f"^{by_entry}{shown if shown.isalnum() else f'({shown})'}"
                if shown.isdigit() and not by_entry:
                    raised = shown.translate(_RAISED)
                return f"{self.write(m.args[0], ATOM)}{raised}"
            case Sign.ROOT:
                return f"√{self.write(m.args[0], ATOM)}"
            case Sign.TRUTH:
                return f"𝟏[{self.write(m.args[0], SUM)} {m.text} {self.write(m.args[1], SUM)}]"
            case Sign.CASES:
                yes, (no, left, right) = self.write(m.args[0], SUM), args[1:]  # cases in cases have brackets
                return f"{yes} if {left} {m.text} {right}, else {no}"
            case Sign.AT:
                return f"{self.write(m.args[0], ATOM)}[{m.text}]"
            case Sign.JOINED:
                return f"[{(_BELOW if m.along else ', ').join(args)}]"
        low = m.along or ",".join(m.letters)
        return f"{m.text}{f'_{low}' if low else ''}({inside})"

    def statements(self, lines: Sequence[tuple[str, str]]) -> str:
        return "; ".join(f"{left} = {right}" for left, right in lines)

    def derivative(self, wrt: str, order: int, above: Letters = (), below: Letters = ()) -> str:
        if order == 1:
            return f"∂{self.indexed('f', above)}/∂{self.indexed(wrt, below)}"
        half = len(below) // 2
        twice = f"{self.indexed(wrt, below[:half])}∂{self.indexed(wrt, below[half:])}"
        return f"∂²f/∂{twice if below else f'{self.name(wrt)}²'}"

    def write_subscript(self, shown: str, letters: Letters) -> str:
        return f"{shown}[{','.join(letters)}]" if letters else shown

    def product(self, name: str, direction: str, letters: Letters) -> str:
        return self.write_subscript(f"{self.name(name)}[{self.name(direction)}]", letters)


class Plain(Unicode):
    """Formulas with indices on a line of ASCII: sum_k A[i,k]*B[k,j]."""

    _between: ClassVar = {**Unicode._between, Sign.BESIDE: "*"}

    def name(self, text: str) -> str:
        return text

    def number(self, text: str) -> str:
        mantissa, e, exponent = text.partition("e")
        ten = f"10^{int(exponent)}" if e else ""
        return text if not e else ten if mantissa == "1" else f"{mantissa}*{ten}"

    def sign(self, m: M) -> str:
        if m.sign is Sign.ENTRY and m.args[0].sign is not Sign.NAME:  # a part that is an array
            return self.write_subscript(Unicode([*self.names]).write(m.args[0], ATOM), m.letters)
        return super().sign(m)

    def other(self, m: M) -> str:
        if m.sign is Sign.TRUTH:
            return super().other(m)[1:]
        if m.sign is Sign.POWER:
            shown = self.exponent(m.args[1])
            return f"{self.write(m.args[0], ATOM)}^{shown if shown.lstrip('-').isalnum() else f'({shown})'}"
        return super().other(m)


NOTATIONS: dict[str, type[Notation]] = {"unicode": Unicode, "latex": Latex, "mathml": Mathml}
