"""The signs of formulas: a tree of what textbooks write, and the sums, products and numbers that are made of them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from fractions import Fraction
from typing import ClassVar

from gradcli.classes import dataclass
from gradcli.derivation.matrix_expression import Number, formula_number, is_fraction, match_known_constant
from gradcli.report.derive import GREEK, greek_name, latex_name, mathml_lines, mathml_name, split_subscript

_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_LOWERED = str.maketrans("0123456789-", "₀₁₂₃₄₅₆₇₈₉₋")


_PLAIN_FUNCTIONS = frozenset("exp log sin cos tan tanh sinh cosh det max min arctan arcsin arccos".split())  # noqa: SIM905


# how tightly signs bind, from comparisons to what needs no brackets
# (LINE is a quotient with a line, which is as good as brackets)
COMPARE, SUM, ENTRYWISE, BESIDE, LINE, RAISED, ATOM = range(7)


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
    """A way to write formulas. `names` are those of inputs, sizes and parts, which no other sign may look like.

    `_forms` is the text of each sign, with places for its parts; `_within` is how tightly each part must bind to need no
    brackets, and `_between` what stands between parts of one kind.
    """

    line: int  # how tightly a quotient binds
    root: int  # how tightly a root binds
    _forms: ClassVar[Mapping[Sign | str, str]]
    _within: ClassVar[Mapping[Sign, tuple[int, ...]]] = {
        Sign.MINUS: (ENTRYWISE,), Sign.TOTAL: (ENTRYWISE,), Sign.ENTRY: (ATOM,), Sign.AT: (ATOM,), Sign.TRUTH: (SUM, SUM),
    }  # fmt: skip
    _between: ClassVar[Mapping[Sign | str, str]]
    _words: ClassVar[Mapping[str, str]] = {}  # what is written for comparisons, `sum` and `prod`, and some functions

    def __init__(self, names: Sequence[str] = ()) -> None:
        self.names = frozenset(names)

    def write(self, m: M, within: int = COMPARE) -> str:
        """Return a formula, in brackets if it binds less than what is around it."""
        shown = self.sign(m)
        return self._forms["brackets"].format(shown) if self.level(m) < within else shown

    def level(self, m: M) -> int:
        """Return how tightly a formula binds: a fraction as a quotient, a number with a power of ten as a product."""
        number = formula_number(m.number) if m.sign is Sign.NUMBER else ""
        if m.sign is Sign.OVER or "/" in number:
            return self.line
        if "e" in number:
            return RAISED if number.startswith("1e") else ENTRYWISE
        return self.root if m.sign is Sign.ROOT else _LEVELS.get(m.sign, ATOM)

    @property
    def has_sigma(self) -> bool:
        """Whether an input has the letter of the sigmoid, also with a number as in sigma1."""
        return any(split_subscript(name)[0] in ("sigma", "σ") for name in self.names)

    def sign(self, m: M) -> str:
        """Return a formula without brackets around it."""
        s = m.sign
        if s is Sign.NUMBER:
            return self.number(formula_number(m.number))
        if s is Sign.SUM:
            return self.sum(m.args)
        if s in (Sign.ENTRYWISE, Sign.CROSS, Sign.BESIDE):
            levels = [self.entrywise_level(a) if s is Sign.ENTRYWISE else LINE for a in m.args]
            return self._forms["row"].format(self.factors(s, list(map(self.write, m.args, levels))))
        if s in (Sign.TRANSPOSE, Sign.INVERSE):
            inner, mark = m.args[0], "T" if s is Sign.TRANSPOSE else "-1"
            if s is Sign.TRANSPOSE and inner.sign is Sign.INVERSE:
                inner, mark = inner.args[0], "-T"
            return self._forms["raised"].format(self.write(inner, ATOM), self._forms[mark])
        if s in (Sign.POWER, Sign.ENTRY_POWER):
            return self.power(s, self.write(m.args[0], ATOM), self.exponent(m.args[1]))
        within = self._within.get(s, ())
        args = [self.write(a, *within[k : k + 1]) for k, a in enumerate(m.args)]
        match s:
            case Sign.NAME:
                return self.name(m.text)
            case Sign.MINUS:
                return self.minus(args[0])
            case Sign.IDENTITY:
                name = next(sign for sign in ("I", "Id", "Eye") if sign not in self.names or sign == "Eye")
                return self._forms.get(name, self._forms[s]).format(name)
            case Sign.UNIT:
                return self._forms[s].format(args[0] if args else self._forms["place"].format(m.text))
            case Sign.TOTAL:
                what = m.text or "sum"
                return self._forms[s].format(self._words.get(what, what), self.join_letters(m.letters), args[0])
            case Sign.ENTRY:
                return self.write_subscript(args[0], m.letters)
            case Sign.AT:
                return self._forms[s].format(args[0], m.text)
            case Sign.TRUTH | Sign.CASES:
                return self._forms[s].format(*args, self._words.get(m.text, m.text))
            case Sign.FUNCTION:
                head = self.head(m.text)
                if m.along or m.letters:
                    low = self._forms["along"].format(m.along) if m.along else self.join_letters(m.letters)
                    head = self._forms["low"].format(head, low)
                return self._forms[s].format(head, self._between[s].join(args))
            case Sign.JOINED:
                way: Sign | str = m.along or s
                return self._forms[way].format(self._between[way].join(args))
        return self._forms[s].format(*args)

    @staticmethod
    def entrywise_level(a: M) -> int:
        """Return how tightly a factor of an elementwise product must bind: a product of matrices is put in brackets."""
        arrays = [x for x in a.args if x.sign is not Sign.NUMBER] if a.sign is Sign.BESIDE else []
        return LINE if len(arrays) > 1 else BESIDE

    @abstractmethod
    def name(self, text: str) -> str: ...
    @abstractmethod
    def head(self, name: str) -> str:
        """Return a function's name as it stands before its arguments."""

    @abstractmethod
    def join_letters(self, letters: Letters) -> str:
        """Return the indices of an entry, as they stand below it."""

    def number(self, text: str) -> str:
        """Return a number: digits, a fraction, or a multiple of a power of ten."""
        if "/" in text:
            return self._forms["fraction"].format(*text.split("/"))
        mantissa, e, exponent = text.partition("e")
        if not e:
            return self._forms[Sign.NUMBER].format(text)
        power = self._forms[Sign.NUMBER].format(abs(int(exponent)))
        ten = self._forms["ten"].format(self.minus(power) if int(exponent) < 0 else power)
        return ten if mantissa == "1" else self._forms["multiple"].format(mantissa, ten)

    def exponent(self, m: M) -> str:
        """Return an exponent; 1/3 as one, and not as a quotient."""
        if m.sign is Sign.MINUS:
            return self.minus(self.exponent(m.args[0]))
        x = m.number
        if m.sign is Sign.NUMBER and isinstance(x, Fraction) and is_fraction(x):
            return self._forms["ratio"].format(x.numerator, x.denominator)
        return self.write(m)

    def power(self, kind: Sign, base: str, exponent: str) -> str:
        """Return a power, of a number or entry by entry."""
        return self._forms[kind].format(base, exponent)

    def sum(self, terms: Sequence[M]) -> str:
        """Return a sum of terms, each with its sign."""
        shown = ""
        for m in terms:
            negative = m.sign is Sign.MINUS
            part = self.write(m.args[0] if negative else m, ENTRYWISE if shown or negative else SUM)
            sign = self._between["-" if negative else "+"] if shown else self._forms["-"] if negative else ""
            shown += sign + part
        return self._forms["row"].format(shown)

    def minus(self, shown: str) -> str:
        """Return a formula with a minus before it."""
        return self._forms["row"].format(self._forms["-"] + shown)

    def factors(self, kind: Sign, parts: Sequence[str]) -> str:
        """Return a product of this kind."""
        return self._between[kind].join(parts)

    def statements(self, lines: Sequence[tuple[str, str]]) -> str:
        """Return several formulas, each with its left side."""
        return self._between["lines"].join(f"{left} = {right}" for left, right in lines)

    def derivative(self, wrt: str, order: int, above: Letters = (), below: Letters = ()) -> str:
        """Return the left side of a derivative, df/dx; with the indices of an entry of f and of the input, if there are any."""
        if order == 1:
            return self._forms["slope"].format(self.indexed("f", above), self.indexed(wrt, below))
        half = len(below) // 2
        pair = self.indexed(wrt, below[:half]), self.indexed(wrt, below[half:])
        return self._forms["curvature by two" if below else "curvature"].format(*pair)

    def write_subscript(self, shown: str, letters: Letters) -> str:
        """Return a formula with the indices of an entry; without them if there are none, as of a number."""
        return self._forms[Sign.ENTRY].format(shown, self.join_letters(letters)) if letters else shown

    def indexed(self, name: str, letters: Letters) -> str:
        """Return a name with the indices of an entry."""
        return self.write_subscript(self.name(name), letters)

    def product(self, name: str, direction: str, letters: Letters) -> str:
        """Return the left side of the product of a Hessian and a direction, H[V], with the indices of an entry."""
        return self.write_subscript(self._forms["product"].format(self.name(name), self.name(direction)), letters)


class Latex(Notation):
    """LaTeX with amsmath; names are escaped."""

    line, root = LINE, ATOM
    _forms: ClassVar = {
        "brackets": r"\left({}\right)", "row": "{}", "-": "-", "raised": "{}^{{{}}}",
        "T": r"\top", "-T": r"-\top", "-1": "-1",
        Sign.NUMBER: "{}", "fraction": r"\tfrac{{{}}}{{{}}}", "ratio": "{}/{}", "ten": "10^{{{}}}", "multiple": r"{} \cdot {}",
        Sign.ONES: r"\mathbf{{1}}", Sign.IDENTITY: r"\mathrm{{{}}}", "I": "I", Sign.UNIT: "e_{{{}}}", "place": "{}",
        Sign.OVER: r"\frac{{{}}}{{{}}}", Sign.POWER: "{}^{{{}}}", Sign.ENTRY_POWER: r"{}^{{\circ {}}}",
        Sign.ROOT: r"\sqrt{{{}}}", Sign.NORM: r"\left\lVert {} \right\rVert", Sign.ABSOLUTE: r"\left|{}\right|",
        Sign.FUNCTION: r"{}\left({}\right)", "low": "{}_{{{}}}", "along": r"\mathrm{{{}}}",
        Sign.TRUTH: r"\mathbf{{1}}\left[{0} {2} {1}\right]",
        Sign.CASES: r"\begin{{cases}} {0} & \text{{if }} {2} {4} {3} \\[2pt] {1} & \text{{otherwise}} \end{{cases}}",
        Sign.AT: "{}_{{{}}}", Sign.ENTRY: "{{{}}}_{{{}}}", Sign.TOTAL: r"\{}_{{{}}} {}",
        Sign.JOINED: r"\left[{}\right]", "rows": r"\begin{{bmatrix}} {} \end{{bmatrix}}",
        Sign.DIFFERENTIAL: r"\mathrm{{d}}{}", Sign.ADJOINT: r"\bar{{{}}}",
        "slope": r"\frac{{\partial {}}}{{\partial {}}}", "curvature": r"\frac{{\partial^{{2}} f}}{{\partial {}^{{2}}}}",
        "curvature by two": r"\frac{{\partial^{{2}} f}}{{\partial {} \, \partial {}}}",
    }  # fmt: skip
    _between: ClassVar = {
        Sign.ENTRYWISE: r" \circ ", Sign.CROSS: r" \times ", Sign.BESIDE: r" \, ", Sign.FUNCTION: ", ", Sign.JOINED: ", ",
        "rows": r" \\[2pt] ", "+": " + ", "-": " - ", "lines": r" \\ ",
    }  # fmt: skip
    _words: ClassVar = {
        ">=": r"\geq", "<=": r"\leq", "==": "=", "!=": r"\neq", "sigmoid": r"\sigma", "Φ": r"\Phi", "φ": r"\phi",
        "tr": r"\operatorname{tr}",
    }  # fmt: skip

    def sign(self, m: M) -> str:
        if m.sign is Sign.AT and "_" in (base := self.write(m.args[0], ATOM)):
            return rf"{{{base}}}_{{{m.text}}}"
        return super().sign(m)

    def name(self, text: str) -> str:
        return r"\infty" if text == "inf" else latex_name(text)

    def head(self, name: str) -> str:
        if name in _PLAIN_FUNCTIONS:
            return f"\\{name}"
        escaped = name.replace("_", r"\_")
        operator = rf"\operatorname{{{escaped}}}"
        return operator if name == "sigmoid" and self.has_sigma else self._words.get(name, operator)

    def join_letters(self, letters: Letters) -> str:
        return ", ".join(map(self.name, letters))

    def factors(self, kind: Sign, parts: Sequence[str]) -> str:
        first, *rest = parts
        if kind is Sign.BESIDE and first[0].isdigit() and rest:
            return f"{first} {self.factors(kind, rest)}"
        return super().factors(kind, parts)

    def product(self, name: str, direction: str, letters: Letters) -> str:
        return f"{self.name(name)}[{self.name(direction)}]" + (f"_{{{self.join_letters(letters)}}}" if letters else "")


class Mathml(Notation):
    """Presentation MathML."""

    line, root = LINE, ATOM
    _forms: ClassVar = {
        "brackets": "<mrow><mo>(</mo>{}<mo>)</mo></mrow>", "row": "<mrow>{}</mrow>", "-": "<mo>&#8722;</mo>",
        "raised": "<msup>{}{}</msup>", "T": "<mo>&#8868;</mo>",
        "-T": "<mrow><mo>&#8722;</mo><mo>&#8868;</mo></mrow>", "-1": "<mrow><mo>&#8722;</mo><mn>1</mn></mrow>",
        Sign.NUMBER: "<mn>{}</mn>", "fraction": "<mfrac><mn>{}</mn><mn>{}</mn></mfrac>",
        "ratio": "<mrow><mn>{}</mn><mo>/</mo><mn>{}</mn></mrow>", "ten": "<msup><mn>10</mn>{}</msup>",
        "multiple": "<mrow><mn>{}</mn><mo>&#8901;</mo>{}</mrow>",
        Sign.ONES: "<mi>𝟏</mi>", Sign.IDENTITY: "<mi>{}</mi>", Sign.UNIT: "<msub><mi>e</mi>{}</msub>", "place": "<mn>{}</mn>",
        Sign.OVER: "<mfrac>{}{}</mfrac>", Sign.POWER: "<msup>{}{}</msup>",
        Sign.ENTRY_POWER: "<msup>{}<mrow><mo>&#8728;</mo>{}</mrow></msup>", Sign.ROOT: "<msqrt>{}</msqrt>",
        Sign.NORM: "<mrow><mo>‖</mo>{}<mo>‖</mo></mrow>", Sign.ABSOLUTE: "<mrow><mo>|</mo>{}<mo>|</mo></mrow>",
        Sign.FUNCTION: "<mrow>{}<mo>(</mo>{}<mo>)</mo></mrow>", "low": "<msub>{}{}</msub>", "along": "<mtext>{}</mtext>",
        Sign.TRUTH: "<mrow><mi>𝟏</mi><mo>[</mo>{0}<mo>{2}</mo>{1}<mo>]</mo></mrow>",
        Sign.CASES: (
            '<mrow><mo>{{</mo><mtable columnalign="left left">'
            "<mtr><mtd>{0}</mtd><mtd><mrow><mtext>if&#160;</mtext>{2}<mo>{4}</mo>{3}</mrow></mtd></mtr>"
            "<mtr><mtd>{1}</mtd><mtd><mrow><mtext>otherwise</mtext></mrow></mtd></mtr></mtable></mrow>"
        ),
        Sign.AT: "<msub>{}<mi>{}</mi></msub>", Sign.ENTRY: "<msub>{}{}</msub>",
        Sign.TOTAL: "<mrow><munder><mo>{}</mo>{}</munder>{}</mrow>",
        Sign.JOINED: "<mrow><mo>[</mo>{}<mo>]</mo></mrow>",
        "rows": "<mrow><mo>[</mo><mtable><mtr><mtd>{}</mtd></mtr></mtable><mo>]</mo></mrow>",
        Sign.DIFFERENTIAL: '<mrow><mi mathvariant="normal">d</mi>{}</mrow>', Sign.ADJOINT: "<mover>{}<mo>&#175;</mo></mover>",
        "slope": "<mfrac><mrow><mo>&#8706;</mo>{}</mrow><mrow><mo>&#8706;</mo>{}</mrow></mfrac>",
        "curvature": (
            "<mfrac><mrow><msup><mo>&#8706;</mo><mn>2</mn></msup><mi>f</mi></mrow>"
            "<mrow><mo>&#8706;</mo><msup>{}<mn>2</mn></msup></mrow></mfrac>"
        ),
        "curvature by two": (
            "<mfrac><mrow><msup><mo>&#8706;</mo><mn>2</mn></msup><mi>f</mi></mrow>"
            "<mrow><mo>&#8706;</mo>{}<mo>&#8706;</mo>{}</mrow></mfrac>"
        ),
        "product": "<mrow>{}<mo>[</mo>{}<mo>]</mo></mrow>",
    }  # fmt: skip
    _between: ClassVar = {
        Sign.ENTRYWISE: "<mo>&#8728;</mo>", Sign.CROSS: "<mo>&#215;</mo>",
        Sign.BESIDE: '<mo rspace="0.17em">&#8290;</mo>',  # with a thin space
        Sign.FUNCTION: "<mo>,</mo>", Sign.JOINED: "<mo>,</mo>", "rows": "</mtd></mtr><mtr><mtd>",
        "+": "<mo>+</mo>", "-": "<mo>&#8722;</mo>",
    }  # fmt: skip
    _words: ClassVar = {
        ">=": "≥", "<=": "≤", "==": "=", "!=": "≠", ">": "&gt;", "<": "&lt;", "sum": "&#8721;", "prod": "&#8719;",
    }  # fmt: skip

    def name(self, text: str) -> str:
        return "<mi>∞</mi>" if text == "inf" else mathml_name(text)

    def head(self, name: str) -> str:
        return f"<mi>{'σ' if name == 'sigmoid' and not self.has_sigma else name}</mi>"

    def join_letters(self, letters: Letters) -> str:
        return f"<mrow>{'<mo>,</mo>'.join(f'<mi>{GREEK.get(c, c)}</mi>' for c in letters)}</mrow>"

    def statements(self, lines: Sequence[tuple[str, str]]) -> str:
        return mathml_lines(lines)


class Unicode(Notation):
    """Superscripts for transposes, inverses and powers: `A.T @ (A @ x - b)` as `Aᵀ (A x - b)`."""

    line, root = ENTRYWISE, RAISED
    _forms: ClassVar = {
        "brackets": "({})", "row": "{}", "-": "-", "raised": "{}{}", "T": "ᵀ", "-T": "⁻ᵀ", "-1": "⁻¹",
        Sign.NUMBER: "{}", "fraction": "{}/{}", "ratio": "{}/{}", "ten": "10^{}", "multiple": "{}·{}",
        Sign.ONES: "𝟏", Sign.IDENTITY: "{}", Sign.UNIT: "e_{}", "place": "{}",
        Sign.OVER: "{} / {}", Sign.ROOT: "√{}", Sign.NORM: "‖{}‖", Sign.ABSOLUTE: "|{}|",
        Sign.FUNCTION: "{}({})", "low": "{}_{}", "along": "{}",
        Sign.TRUTH: "𝟏[{0} {2} {1}]", Sign.CASES: "{0} if {2} {4} {3}, else {1}",
        Sign.AT: "{}[{}]", Sign.ENTRY: "{}[{}]", Sign.TOTAL: "{}_{} {}", Sign.JOINED: "[{}]", "rows": "[{}]",
        Sign.DIFFERENTIAL: "d{}", Sign.ADJOINT: "{}_bar",
        "slope": "∂{}/∂{}", "curvature": "∂²f/∂{}²", "curvature by two": "∂²f/∂{}∂{}", "product": "{}[{}]",
    }  # fmt: skip
    _within: ClassVar = {
        **Notation._within, Sign.OVER: (BESIDE, RAISED), Sign.ROOT: (ATOM,), Sign.CASES: (SUM,),  # cases in cases have brackets
    }  # fmt: skip
    _between: ClassVar = {
        Sign.ENTRYWISE: " ∘ ", Sign.CROSS: " × ", Sign.BESIDE: " ", Sign.FUNCTION: ", ", Sign.JOINED: ", ",
        "rows": ";\u00a0",  # "; " is between the lines of a formula
        "+": " + ", "-": " - ", "lines": "; ",
    }  # fmt: skip

    def sign(self, m: M) -> str:
        return f"e{m.text.translate(_LOWERED)}" if m.sign is Sign.UNIT and not m.args else super().sign(m)

    def name(self, text: str) -> str:
        return "∞" if text == "inf" else greek_name(text)

    def head(self, name: str) -> str:
        return name

    def join_letters(self, letters: Letters) -> str:
        return ",".join(letters)

    def number(self, text: str) -> str:
        shown, _, power = super().number(text).partition("^")
        return shown + power.translate(_RAISED)

    def power(self, kind: Sign, base: str, exponent: str) -> str:
        if kind is Sign.POWER and exponent.isdigit():
            return base + exponent.translate(_RAISED)
        return f"{base}^{'∘' if kind is Sign.ENTRY_POWER else ''}{exponent if exponent.isalnum() else f'({exponent})'}"


class Plain(Unicode):
    """Formulas with indices on a line of ASCII: sum_k A[i,k]*B[k,j]."""

    _forms: ClassVar = {**Unicode._forms, "multiple": "{}*{}", Sign.TRUTH: "[{0} {2} {1}]"}
    _between: ClassVar = {**Unicode._between, Sign.BESIDE: "*"}

    def name(self, text: str) -> str:
        return text

    def number(self, text: str) -> str:
        return Notation.number(self, text)

    def sign(self, m: M) -> str:
        if m.sign is Sign.ENTRY and m.args[0].sign is not Sign.NAME:  # a part that is an array
            return self.write_subscript(Unicode([*self.names]).write(m.args[0], ATOM), m.letters)
        return super().sign(m)

    def power(self, kind: Sign, base: str, exponent: str) -> str:
        if kind is Sign.ENTRY_POWER:
            return super().power(kind, base, exponent)
        return f"{base}^{exponent if exponent.lstrip('-').isalnum() else f'({exponent})'}"


NOTATIONS: dict[str, type[Notation]] = {"unicode": Unicode, "latex": Latex, "mathml": Mathml}
