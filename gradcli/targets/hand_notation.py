"""Mathematics as people type it, read as the language: `x^2 sin(x)` is x^2*sin(x), `sin²x` is sin(x)², `|x|` is abs(x).

What is in the language already is left as it is. What can be read in two ways is refused, with both readings whole.

A product without a sign is `*` where one factor is a number, and `@` where the shapes of its factors allow that alone.
"""

import contextlib
import itertools
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import BadExpression, GradcliError, Span
from gradcli.request.target_text import normalise_name
from gradcli.targets.instructions import Instructions
from gradcli.targets.names import CONSTANTS, FUNCTIONS, METHODS, PREFIXES
from gradcli.targets.tokens import FUNCTION_NAMES
from gradcli.tracing.shapes import shape

Shape = tuple[int, ...]
Shapes = Mapping[str, Shape | None]  # of the inputs that are given; None where the shape is not known
Program = Callable[[str], Instructions]  # of an expression

_MOST_CHARACTERS = 2_000  # nobody types more by hand
_MOST_TOKENS = 400
_DEEPEST = 40  # nested brackets and powers
_MOST_APPLIED = 5  # functions without brackets, each applied to the next

_CONSTANTS = frozenset((*CONSTANTS, "π"))
# Functions that are applied to what follows without brackets: sin x. Others may be the names of inputs: gamma x.
_APPLIED = frozenset(
    "sin cos tan arcsin arccos arctan asin acos atan sinh cosh tanh arcsinh arccosh arctanh asinh acosh atanh exp log ln "  # noqa: SIM905
    "log2 log10 sqrt cbrt det tr trace sec csc cot sech csch coth cosec tg ctg".split()
)
_INVERSE = {name: f"arc{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")}
_ONE_OVER = {
    "sec": "cos", "csc": "sin", "cosec": "sin", "cot": "tan", "ctg": "tan",
    "sech": "cosh", "csch": "sinh", "coth": "tanh",
}  # fmt: skip
_OTHER_NAMES = {"tg": "tan", "arctg": "arctan", "∑": "sum", **{n: f for n, f in FUNCTION_NAMES.items() if n != "E"}}
_SIGNS = {
    "×": "*", "∗": "*", "⋆": "*", "∘": "*", "⊙": "*", "÷": "/", "∕": "/", "–": "-", "∞": "inf",
    **{sign: f"({a}/{b})" for sign, a, b in (
        ("½", 1, 2), ("⅓", 1, 3), ("⅔", 2, 3), ("¼", 1, 4), ("¾", 3, 4), ("⅕", 1, 5), ("⅙", 1, 6), ("⅛", 1, 8),
    )},
}  # fmt: skip
_ROOTS = {"√": "sqrt", "∛": "cbrt"}
_BASES = {"2": "log2", "10": "log10"}
_GREEK = frozenset("gamma beta zeta psi eta chi Γ Φ σ".split())  # noqa: SIM905 - functions that are inputs more often
_NEEDS_BRACKETS = frozenset("lg lb ld arsinh arcosh artanh arccot arcsec arccsc".split())  # noqa: SIM905
_USUAL_NAMES = frozenset("mu nu xi eta phi psi chi tau rho lam eps dx dy dz dt dr ds lr tr".split())  # noqa: SIM905
_LOG = re.compile(r"log_?(\w+)")
_INDEXED = re.compile(r"[^\W\d]+[₀-₉]+")
_OVER_AN_INDEX = re.compile(r"(sum|prod|Σ|Π|∑|lim|max|min)_")  # sums over an index are written over arrays
_DERIVATIVE = re.compile(r"\s*d\s*/\s*d\s*[^\W\d]\w*\s*(?P<rest>.+)", re.DOTALL)
_DEFINED = re.compile(r"\s*[^\W\d]\w*\s*\(\s*(?P<inputs>[^\W\d]\w*(?:\s*,\s*[^\W\d]\w*)*)\s*\)\s*=(?!=)")  # f(x, y) =
_FRACTIONS = "".join(sign for sign, shown in _SIGNS.items() if shown.startswith("("))

_RAISED = "⁰¹²³⁴⁵⁶⁷⁸⁹⁻"
_RAISED_LETTERS = {"⁺": "+", "⁽": "(", "⁾": ")", **dict(zip("ᵃᵇᶜᵈᵉᵏᵐⁿᵖᵗˣʸᶻⁱʲ", "abcdekmnptxyzij", strict=True))}
_LOWERED = str.maketrans(dict(zip(_RAISED, "0123456789-", strict=True)) | _RAISED_LETTERS)
_MARKS = _RAISED + "".join(_RAISED_LETTERS)
_TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<number>(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)"
    rf"|(?P<value>[{_FRACTIONS}∞])"
    rf"|(?P<raised>[{_MARKS}]+|ᵀ)"
    rf"|(?P<name>[^\W\d{_MARKS}{_FRACTIONS}ᵀ][^\W{_MARKS}{_FRACTIONS}ᵀ]*(?:(?<=_)\{{\w+\}})?)"
    r"|(?P<string>'[^'\n]*(?<=\w)'(?=\s*[,)\]=])|\"[^\"\n]*\")"
    r"|(?P<op>\*\*|//|<=|>=|==|!=|\.\.\.|\|\||.)"
)
_PRODUCTS = frozenset("* / @ // % · ⋅ × ∗ ⋆ ∘ ⊙ ÷ ∕".split())  # noqa: SIM905
_BETWEEN = frozenset("+ - − – < > <= >= == != ≤ ≥ ≠ = , ; : ± ...".split())  # noqa: SIM905
_MINUS = frozenset("+-−–")
_WORDS = frozenset(("if", "else", "and", "or", "not", "in", "is", "for", "lambda", "import"))
_POWERS = ("^", "**")
_NORM = ("||", "‖")
_NORMS = {"F": ("norm(", ")"), "2": ("norm(", ")"), "1": ("sum(abs(", "))")}  # by their index
_PRIMES = "'′’"
_SUMS = ("Σ", "∑")  # of all that follows in the product
_CLOSED_BY = {"(": ")", "[": "]", "{": "}"}


class _NoReading(Exception):
    """The line has no reading."""


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    start: int
    gap: str = ""  # the blanks before it


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the line: what it becomes, its first and its last token, and whether it is a name or a number alone.

    `stem` is what is before the sign of a transpose, if the part ends with one; `base` is the base of a power, if that is one
    token.
    """

    text: str
    first: int
    last: int
    bare: bool = False
    stem: str | None = None
    base: str | None = None


@dataclass(frozen=True, slots=True)
class LineReading:
    """How a line is read: the `texts` in the language, of which the first counts if it is no question.

    `question` says what is to be decided where the line is refused, and `at` is its place.
    """

    texts: tuple[str, ...]
    question: str | None = None
    at: int = 0

    @property
    def advice(self) -> str:
        """What to write: the readings, whole."""
        return f"write {', or '.join(self.texts)}"

    def refusal(self, typed: str) -> BadExpression:
        """Return the error for a line that is not read."""
        return BadExpression(self.question or "this is not in the language", where=Span(typed, self.at), do=self.advice)


def read_notation(
    typed: str, shapes: Shapes, program: Program, check: Callable[[str], object] | None = None
) -> LineReading | None:
    """Return how a line is read that is not in the language, or means something else there; None for any other line.

    `shapes` are those of the inputs that are given by name; `program` returns the program of an expression. What `check` raises
    GradcliError for is not in the language, and no reading; without it, that is what has no program.
    """
    check = check or program
    if len(typed) > _MOST_CHARACTERS or (_is_in_language(typed, check) and not _is_misread(typed, shapes)):
        return None
    derived = _DERIVATIVE.fullmatch(typed)
    if derived is not None:
        rest = _without_brackets(derived["rest"])
        inner = read_notation(rest, shapes, program, check)
        if inner is None and not _is_in_language(rest, check):
            return None
        says = "d/dx is not part of the language: gradcli differentiates what it is given"
        return LineReading(inner.texts if inner else (rest,), says)
    lines: list[_Line] = []
    for choice in (0, 1):
        with contextlib.suppress(_NoReading):
            lines.append(_Line(typed, shapes, program, choice))
    lines = [line for line in lines if _is_in_language(line.text, check)]
    texts = tuple(dict.fromkeys(line.text for line in lines))
    if texts in ((), (typed.strip(),)):
        return None
    if len(texts) == 1 and not lines[0].is_refused:
        return LineReading(texts)
    return LineReading(tuple(_write_matrix_powers(text, shapes) for text in texts), lines[0].question, lines[0].asked)


_POWER_OF_NAME = re.compile(r"\b([^\W\d_]\w*?)(?:(?:\^|\*\*)(?:(-?\d+|-T)|\((-?\d+|-T)\))|([²³]))(?![\w.])")


def _write_matrix_powers(text: str, shapes: Shapes) -> str:
    """Return a text to show, with powers of matrices in a product of matrices as the language has them: inv(A) for A^-1."""

    def written(found: re.Match[str]) -> str:
        name, exponent = found[1], found[2] or found[3] or found[4].translate(_LOWERED)
        known = shapes.get(name)
        if len(known) != 2 if known is not None else not (len(name) == 1 and name.isupper()):
            return found[0]
        transposed = ".T" if exponent == "-T" else ""
        return f"inv({name}){transposed}" if transposed or exponent == "-1" else f"matrix_power({name}, {exponent})"

    return _POWER_OF_NAME.sub(written, text) if "@" in text else text


def _is_in_language(text: str, check: Callable[[str], object]) -> bool:
    try:
        check(text)
    except GradcliError:
        return False
    return True


def _is_misread(text: str, shapes: Shapes) -> bool:
    """Whether names in the language's sense are something else by hand: products of inputs, π, xⁿ, and the sine in sin -x."""
    found = list(_tokenise_line(text, 0))
    negated = zip(found, found[1:], found[2:], strict=False)
    return (
        any(token.text == "π" and "π" not in shapes for token in found)
        or any(token.kind == "raised" and _has_letters(token.text) for token in found)
        or len(list(_split_names(found, shapes))) > len(found)
        or any(_hidden_input(token, found, shapes) for token in found)
        or any(
            f.text in _APPLIED and f.text not in shapes and sign.text == "-" and sign.gap > x.gap
            for f, sign, x in negated
        )
    )


def _is_product_of_inputs(name: str, given: Shapes) -> bool:
    """Whether a name is a product of inputs: it is not given, and every letter of it is."""
    if len(name) < 2 or name in given or name in CONSTANTS or _is_function(name):
        return False
    return all(letter in given for letter in name)


def _hidden_input(token: _Token, found: Sequence[_Token], given: Shapes) -> str:
    """Return the letter of a short name that is given as an input, and stands nowhere alone: the x of `ax` under --wrt x."""
    name = token.text
    if token.kind != "name" or name in given or not 1 < len(name) < 4 or not name.isalpha() or _is_function(name):
        return ""
    if _is_product_of_inputs(name, given):
        return ""
    alone = {other.text for other in found}
    return next((letter for letter in name if letter in given and letter not in alone), "")


def explain_joined_names(typed: str, given: Container[str]) -> Iterator[str]:
    """Yield a sentence for each name that may be meant as several: `sinx`, and `xe` beside x."""
    try:
        found = list(_tokenise_line(typed, 0))
    except _NoReading:
        return
    called = {name.text for name, after in itertools.pairwise(found) if after.text in ("(", "=")}  # or defined here
    names = dict.fromkeys(token.text for token in found if token.kind == "name")
    for name in [name for name in names if name not in given and name not in called and name not in CONSTANTS]:
        function = next((f for f in sorted(_APPLIED, key=len, reverse=True) if name.startswith(f) and name != f), "")
        rest = name.removeprefix(function)
        if _is_function(name) or not name.isalpha() or name in _USUAL_NAMES:
            continue
        if function and len(rest) == 1:
            yield f"{name} is one name here; for the function write {function}({rest})"
        elif 1 < len(name) < 4 and any(t.text in name and t.text != name for t in found if t.kind == "name"):
            yield f"{name} is one name here; for a product write {'*'.join(name)}"


def _is_function(name: str) -> bool:
    return name in FUNCTIONS or name in _ONE_OVER or name in _OTHER_NAMES or _base_of_logarithm(name) is not None


def _base_of_logarithm(name: str) -> str | None:
    """Return the base in `log_2`, `log₂` and `log_b`; None for any other name."""
    found = _LOG.fullmatch(normalise_name(name))
    return None if found is None or name in FUNCTIONS or not (found[1].isdecimal() or "_" in name) else found[1]


def _has_letters(raised: str) -> bool:
    """Whether a superscript has more than digits, which the language would take for a part of the name: xⁿ."""
    return any(mark in _RAISED_LETTERS for mark in raised)


def _lower_exponent(raised: str) -> str:
    text = raised.translate(_LOWERED)
    return text if text.isalnum() or not _has_letters(raised) else f"({text})"


def _put_around(part: _Part, opening: str, closing: str) -> _Part:
    return _Part(f"{opening}{part.text}{closing}", part.first, part.last)


def _without_brackets(text: str) -> str:
    """Return a string without the pair of brackets that encloses all of it, if there is one."""
    stripped = text.strip()
    depth = 0
    for k, character in enumerate(stripped):
        depth += (character == "(") - (character == ")")
        if depth == 0 and k < len(stripped) - 1:
            return stripped
    return stripped[1:-1] if stripped.startswith("(") and stripped.endswith(")") else stripped


class _Line:
    """One reading of a line, by recursive descent; of two readings of a part, `choice` takes the first or the second."""

    def __init__(self, typed: str, shapes: Shapes, program: Program, choice: int) -> None:
        self.shapes, self.program, self.choice = dict(shapes), program, choice
        self.question: str | None = None
        self.asked = 0
        defined = _DEFINED.match(typed)
        start = defined.end() if defined else 0
        found = list(_split_double_bars(list(_tokenise_line(typed, start))))
        hidden = {token.start: _hidden_input(token, found, shapes) for token in found}
        split = dict.fromkeys(letter for token in found if hidden[token.start] for letter in token.text)
        self.tokens = list(_split_names(found, {**split, **shapes}))
        if not self.tokens or len(self.tokens) > _MOST_TOKENS:
            raise _NoReading
        named = _TOKEN.finditer(defined["inputs"]) if defined else ()
        self.inputs = {*shapes, *(match.group() for match in named if match.lastgroup == "name")}
        for k, token in enumerate(self.tokens):  # what stands somewhere without brackets after it, and is no function
            if token.kind == "name" and self._text_at(k + 1) != "(" and not _is_function(token.text):
                self.inputs.add(token.text)
        self.at, self.bars, self.depth, self.applied, self.summing = 0, 0, 0, 0, False
        self.is_refused = False
        self.turned: set[int] = set()  # the primes
        # the tokens that are multiplied by @, without a sign, with what is before them
        self.matrix_products: set[int] = set()
        for k, token in enumerate(self.tokens):
            if hidden.get(token.start):
                self._note_refusal(k, "this is read as one name")
        self.nests = self._has_nested_bars()
        self._refuse_stars_with_primes()
        text = self._join(self._read_sequence(())).strip()
        if self.at < len(self.tokens):
            raise _NoReading
        self.text = text if self.tokens[0].text in ("(", "{") else _without_brackets(text)

    # The tokens.

    def _text_at(self, k: int) -> str:
        return self.tokens[k].text if k < len(self.tokens) else ""

    @property
    def _next_text(self) -> str:
        return self._text_at(self.at)

    def _kind_at(self, k: int) -> str:
        return self.tokens[k].kind if k < len(self.tokens) else ""

    def _join(self, parts: Sequence[_Part]) -> str:
        """Return the text of parts that follow each other, without the blanks before them."""
        text = "".join(self.tokens[part.first].gap + part.text for part in parts)
        return text[len(self.tokens[parts[0].first].gap) :] if parts else ""

    def _text_of_tokens(self, first: int) -> str:
        """Return the tokens that were read from one on, with the blanks before them."""
        return "".join(token.gap + token.text for token in self.tokens[first : self.at])

    def _note_ambiguity(self, k: int, question: str) -> int:
        """Note that token `k` has two readings, and return which one is taken."""
        if self.question is None:
            self.question, self.asked = question, self.tokens[k].start
        return self.choice

    def _shape_of(self, text: str) -> Shape | None:
        """Return the shape of a part; None where it is not known."""
        try:
            f = self.program(text)
            others = () if any(self.shapes.values()) else None  # beside inputs with sizes, one without is a number
            known = {name: self.shapes.get(name, None if name.isupper() else others) for name in f.inputs}
            values = {name: np.ones(own)[()] for name, own in known.items() if own is not None}
            with np.errstate(all="ignore"):
                return shape(f.run(values)) if values.keys() == known.keys() else None
        except (GradcliError, ValueError, TypeError, ArithmeticError, np.linalg.LinAlgError):
            return None

    # The grammar: sequences of terms, products, powers, values.

    def _read_sequence(self, closing: Sequence[str]) -> list[_Part]:
        """Read terms and what stands between them, up to a closing bracket or bar."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise _NoReading
        ended = "|" not in closing  # a bar where a value begins opens another pair
        parts: list[_Part] = []
        statement = self.at
        while self.at < len(self.tokens) and not (ended and self._next_text in closing):
            ended = self._next_text not in _BETWEEN and self._next_text not in _WORDS
            if ended:
                parts.append(self._read_term())
                continue
            if self._next_text == ";" and not closing:
                value = [part for part in parts if part.first >= statement + 2]
                if self._kind_at(statement) == "name" and self._text_at(statement + 1) == "=" and value:
                    own = self._shape_of(self._join(value))
                    self.shapes |= {} if own is None else {self.tokens[statement].text: own}
                statement = self.at + 1
            parts.append(self._take_sign())
            ended = "|" not in closing
        self.depth -= 1
        return parts

    def _take_sign(self) -> _Part:
        self.at += 1
        text = self.tokens[self.at - 1].text
        return _Part(_SIGNS.get(text, text), self.at - 1, self.at - 1)

    def _take_signs(self) -> list[_Part]:
        signs = []
        while self._next_text in _MINUS:
            signs.append(self._take_sign())
        return signs

    def _read_term(self, before_functions: bool = False) -> _Part:
        """Read a product; `before_functions` ends it before a function that follows without a sign."""
        parts = [self._read_factor()]
        is_divisor = False
        while True:
            if self._next_text in _PRODUCTS:
                if self._next_text in ("×", "∗", "⋆") and any(self.shapes.values()):
                    raise _NoReading  # it means another product for arrays
                sign = self._take_sign()
                parts += [sign, *self._take_signs(), self._read_factor()]
                is_divisor = sign.text in ("/", "//", "%")
            elif self._begins_value() and not (before_functions and self._is_applied(self.at)):
                question = "what follows a quotient without a sign can be read in two ways"
                below = is_divisor and self._note_ambiguity(self.at, question) == 0
                parts[-1] = self._read_implied_factor(parts[-1])
                while below and self._begins_value() and not (before_functions and self._is_applied(self.at)):
                    parts[-1] = self._read_implied_factor(parts[-1])
                parts[-1] = _put_around(parts[-1], "(", ")") if below else parts[-1]
                is_divisor = False
            else:
                return _Part(self._join(parts), parts[0].first, self.at - 1)

    def _has_nested_bars(self) -> bool:
        """Whether bars are read as nested where values stand on both sides of one of several, as in |x|y|z|."""
        bars = [k for k, token in enumerate(self.tokens) if token.text == "|"]
        between = [k for k in bars[1:-1] if self._ends_value(k - 1) and self._kind_at(k + 1) in ("number", "name")]
        return bool(between) and self._note_ambiguity(between[0], "bars side by side can be read in two ways") == 1

    def _ends_value(self, k: int) -> bool:
        return self._kind_at(k) in ("number", "name", "value", "raised") or self._text_at(k) in (")", "]")

    def _read_implied_factor(self, left: _Part) -> _Part:
        """Read one factor that follows without a sign."""
        k = self.at
        token, before = self.tokens[k], self.tokens[left.last]
        if before.kind == "number" and not token.gap and (token.text in ("j", "J") or before.text == "0"):
            raise _NoReading  # a complex number, or one in another base
        if not token.gap and (token.text == "∞" or token.text.startswith("_")):
            raise _NoReading  # an index of what is before
        right = self._read_factor()
        between_names = before.kind == "name" and before.text not in _CONSTANTS and token.kind == "name" and token.gap
        question = "a power after names side by side can be read in two ways"
        if between_names and right.base and self._note_ambiguity(k, question) == 1:
            base = _Part(right.base, k, k)
            power = right.text.removeprefix(right.base)
            return _Part(f"({self._multiply(left, base)}){power}", left.first, right.last)
        row = None if right.stem is None else replace(right, text=right.stem.rstrip())
        same = row is not None and row.text == left.text
        if row is not None and self._is_column(row, same) and self._is_column(left, same):
            text = f"outer({left.text}, {right.stem})"
        else:
            text = self._multiply(left, right)
        return _Part(text, left.first, right.last)

    def _is_column(self, part: _Part, twice: bool) -> bool:
        """Whether a part is a vector, or a single letter that may be one: x xᵀ is a matrix.

        Beside inputs with sizes a letter without one is a number, unless it stands there `twice`.
        """
        name = self.tokens[part.first].text
        letter = self._kind_at(part.first) == "name" and len(name) == 1 and not name.isupper()
        may = not any(self.shapes.values()) or (twice and name not in self.shapes)
        return (letter and may and part.text == name) or len(self._shape_of(part.text) or ()) == 1

    def _multiply(self, left: _Part, right: _Part) -> str:
        """Return the product of two parts, with the sign that their shapes allow."""
        sign = self._product_sign(left, right)
        self.matrix_products |= {right.first} if sign == "@" else set()
        return f"{left.text}{sign}{right.text}"

    def _product_sign(self, left: _Part, right: _Part) -> str:
        if left.first == left.last and self._kind_at(left.first) in ("number", "value"):
            return "*"
        a, b = self._shape_of(left.text), self._shape_of(right.text)
        if a == () or b == ():
            return "*"
        turned = any(part.last in self.turned or part.text.endswith((".T", "ᵀ", "⁻¹")) for part in (left, right))
        if turned or any(left.first < k < right.first for k in self.matrix_products):
            return "@"
        if a is None or b is None:
            if not (a or b or self._is_matrix(left) or self._is_matrix(right)):
                return "*"
        elif a != b:
            return "@"
        elif self.summing:
            return "*"
        question = "a product of arrays without a sign can be read in two ways"
        return ("@", "*")[self._note_ambiguity(right.first, question)]

    def _is_matrix(self, part: _Part) -> bool:
        """Whether a part is a capital letter, which is a matrix more often than a number, and its shape is not known."""
        name = self.tokens[part.last].text
        return part.first == part.last and len(name) == 1 and name.isupper() and self.shapes.get(name) is None

    def _read_factor(self) -> _Part:
        """Read a value with its power."""
        base = self._read_value()
        if self._next_text not in _POWERS:
            return base
        k = self.at
        self.at += 1
        braced = [self._text_at(n) for n in range(self.at, self.at + 4)]
        if braced in (["{", sign, "1", "}"] for sign in _MINUS) and len(self._shape_of(base.text) or ()) == 2:  # X^{-1}
            self.at += 4
            return self._read_postfixes(_Part(f"{base.text}⁻¹", base.first, k + 4))
        if self._next_text in ("T", "⊤") and self._next_text not in self.shapes:
            ts = [n for n, token in enumerate(self.tokens) if token.text == self._next_text]
            if all(self._text_at(n - 1) in _POWERS for n in ts):  # it is no input
                self.at += 1
                return self._read_postfixes(_Part(f"{base.text}.T", base.first, k + 1, stem=base.text))
        signs = self._take_signs()
        self.depth += 1
        if self.depth > _DEEPEST:
            raise _NoReading
        exponent = self._read_factor()
        self.depth -= 1
        follows = exponent.bare and self._begins_value() and not self.tokens[self.at].gap
        asked = follows and not self._is_factor_of_power(base, exponent)
        question = "what follows an exponent without a blank can be read in two ways"
        opening = closing = ""
        if asked and self._note_ambiguity(self.at, question) == 0:
            while self._begins_value() and not self.tokens[self.at].gap:
                exponent = self._read_implied_factor(exponent)
            opening, closing = "(", ")"
        power = f"{self.tokens[k].gap}{self.tokens[k].text}{self.tokens[k + 1].gap}{opening}"
        text = f"{base.text}{power}{self._join([*signs, exponent])}{closing}"
        stem = None if exponent.stem is None or closing else text[: len(text) - len(exponent.text)] + exponent.stem
        return _Part(text, base.first, exponent.last, stem=stem, base=base.text if k == base.first + 1 else None)

    def _is_factor_of_power(self, base: _Part, exponent: _Part) -> bool:
        """Whether what follows an exponent at once is a factor of the power: x^2(x+1), x^2sin(x)."""
        number = self._kind_at(exponent.first) == "number"
        growth = base.bare and (self._kind_at(base.first) == "number" or self.tokens[base.first].text == "e")
        return number and (self._next_text == "(" or (self._is_applied(self.at) and not growth))

    # Values.

    def _begins_value(self) -> bool:
        kind, text = self._kind_at(self.at), self._next_text
        if kind == "name":
            return text not in _WORDS
        if text in _NORM:
            return not self.bars
        if text == "|":  # after a value, it may open another pair
            return not self.bars or (self.nests and sum(t.text == "|" for t in self.tokens[self.at :]) > 2)
        return kind in ("number", "value") or text in ("(", "{", *_ROOTS)

    def _is_applied(self, k: int) -> bool:
        """Whether token `k` is a function that needs no brackets, or any function with brackets after it."""
        name = self._text_at(k)
        if self._kind_at(k) != "name" or name in self.shapes:
            return False
        return (
            name in _APPLIED
            or _base_of_logarithm(name) is not None
            or (_is_function(name) and self._text_at(k + 1) in ("(", "{"))
        )

    def _read_value(self) -> _Part:
        k, kind, text = self.at, self._kind_at(self.at), self._next_text
        self.at += 1
        if kind in ("number", "value", "string"):
            return self._read_postfixes(_Part(_SIGNS.get(text, text), k, k, True))
        if text in _CLOSED_BY:
            self.at = k
            return self._read_postfixes(_Part(self._join(self._read_bracketed()), k, self.at - 1))
        if text in ("|", *_NORM):
            return self._read_postfixes(self._read_bars(k, text))
        if text in _ROOTS:
            return self._read_postfixes(self._read_application(k, _ROOTS[text]))
        if kind == "name" and text not in _WORDS:
            return self._read_postfixes(self._read_name(k))
        raise _NoReading

    def _read_bracketed(self) -> list[_Part]:
        """Read brackets, which are the first and the last part, with what stands in them; braces are brackets."""
        opening = self._next_text
        shown, closing = "(" if opening == "{" else opening, _CLOSED_BY[opening]
        parts = [_Part(shown, self.at, self.at)]
        self.at += 1
        bars, self.bars = self.bars, 0
        parts += self._read_sequence((closing,))
        self.bars = bars
        self._expect_text(closing)
        return [*parts, _Part(_CLOSED_BY[shown], self.at - 1, self.at - 1)]

    def _expect_text(self, text: str) -> None:
        if self._next_text != text:
            raise _NoReading
        self.at += 1

    def _read_bars(self, k: int, text: str) -> _Part:
        """Read an absolute value, a determinant or a norm."""
        opening, closing = ("norm(" if text in _NORM else ""), ")"
        bars, self.bars = self.bars, 1
        parts = self._read_sequence((text,))
        self.bars = bars
        self._expect_text(text)
        inside = _Part(self._join(parts), k + 1, self.at - 2)
        if not parts:
            raise _NoReading
        if not opening:
            own = self._shape_of(inside.text)
            capital = inside.first == inside.last and own is None and self._is_matrix(inside)
            words = ("det(", "abs(") if capital else ("norm(", "abs(") if own and len(own) == 1 else ()
            asked = words and words[self._note_ambiguity(k, "bars around an array can be read in two ways")]
            opening = asked or ("det(" if own and len(own) == 2 else "abs(")
        if text in _NORM and self._kind_at(self.at) == "name" and not self.tokens[self.at].gap:
            index = normalise_name(self._next_text).lstrip("_")
            if index not in _NORMS or (index == "1" and len(self._shape_of(inside.text) or ()) > 1):
                raise _NoReading
            opening, closing = _NORMS[index]
            self.at += 1
        return _Part(f"{opening}{inside.text}{closing}", k, self.at - 1)

    def _read_name(self, k: int) -> _Part:
        """Read a name: a function with what it is applied to, an input, or an attribute of a module."""
        name = shown = self.tokens[k].text
        if self._begins_value() and self._next_text not in ("(", "{") and self._needs_brackets(name):
            raise _NoReading
        while self._next_text == "." and self._kind_at(self.at + 1) == "name" and not self.tokens[self.at].gap:
            if name not in PREFIXES:
                return _Part(shown, k, k, True)  # a method of a value, which is read after it
            name = f"{name}.{self._text_at(self.at + 1)}"
            self.at += 2
            shown += self._text_of_tokens(self.at - 2)
        if name in _SUMS and name not in self.shapes:
            summing, self.summing = self.summing, True
            signs, term = self._take_signs(), self._read_term()
            self.summing = summing
            return _Part(f"sum({self._join([*signs, term])})", k, term.last)
        if name == "π" and name not in self.shapes:
            shown = "pi"
        if "." in name or self._next_text == "(":
            unknown = "." not in name and not _is_function(name)
            is_product = unknown and (name in self.inputs or name in _CONSTANTS)
            if unknown and not is_product and len(name) == 1 and name not in "fgh":
                self._note_refusal(k, f"'{name}' is no function of the language")
                is_product = True
            is_value = is_product or self._next_text != "("
            return _Part(shown, k, k, True) if is_value else self._read_application(k, shown)
        if self._next_text == "{" and _is_function(name) and name not in self.shapes:
            return self._read_application(k, shown)
        powered = self._next_text in _POWERS or (self._kind_at(self.at) == "raised" and self._next_text != "ᵀ")
        if self._is_applied(k) and (powered or self._begins_value() or self._next_text in _MINUS):
            return self._read_powered_function(k) if powered else self._read_application(k, shown)
        if not name.isidentifier():  # x₁
            if not _INDEXED.fullmatch(name):
                raise _NoReading
            shown = normalise_name(name)
        return _Part(shown, k, k, True)

    def _needs_brackets(self, name: str) -> bool:
        """Whether a name before a value means a function that is not applied without brackets: sum x, lg x, xlog x."""
        if name in self.shapes or name in _APPLIED or _base_of_logarithm(name) is not None or name in _SUMS:
            return False
        ends = name.endswith(("log", "ln", "sin", "cos", "tan", "exp", "sqrt"))
        known = name in _NEEDS_BRACKETS or (_is_function(name) and name not in _GREEK)
        return ends or known or _OVER_AN_INDEX.match(name) is not None

    def _read_powered_function(self, k: int) -> _Part:
        """Read a function with an exponent before what it is applied to: sin²(x), sin^2 x, sin⁻¹(x)."""
        name, start = self.tokens[k].text, self.at
        self.at += 1
        if self._text_at(start) in _POWERS:
            exponent = "-" if self._next_text in _MINUS else ""
            self.at += len(exponent)
            if self._kind_at(self.at) in ("number", "name"):
                exponent += self._take_sign().text
            elif self._next_text in ("(", "{"):
                exponent += self._read_value().text
            else:
                raise _NoReading
        else:
            exponent = _lower_exponent(self._text_at(start))
        if not self._begins_value() and self._next_text not in _MINUS:  # the function stands for itself: sin^2
            raise _NoReading
        part = self._read_application(k, name)
        if exponent != "-1":
            part = _put_around(part, "", f"^{exponent}")
        elif name in _INVERSE and self._note_ambiguity(start, f"{name} to the -1 can be read in two ways") == 0:
            part = replace(part, text=_INVERSE[name] + part.text.removeprefix(name))
        else:
            part = _put_around(part, "(1/", ")")
        if self._next_text in _POWERS or self._kind_at(self.at) == "raised":
            part = _put_around(part, "(", ")")
        return part

    def _read_application(self, k: int, shown: str) -> _Part:
        """Read what the function at token `k` is applied to: in brackets, or the next value."""
        name = self.tokens[k].text
        base = _base_of_logarithm(name)
        if self._next_text in ("(", "{"):
            parts = self._read_bracketed()
            last = self.at - 1
            commas = [n for n, part in enumerate(parts) if part.text == ","]
            named = any(token.text == "=" for token in self.tokens[parts[0].first : last])
            if base is None and name in ("log", "ln") and len(commas) == 1 and not named:
                base = self._join(parts[commas[0] + 1 : -1])
                parts = [*parts[: commas[0]], parts[-1]]
            inside = self._join(parts)
        else:
            argument = self._read_bare_argument()
            inside, last = f"({argument.text})", argument.last
        # The language has it under another name, or not at all.
        if base is not None:
            text = f"{_BASES[base]}{inside}" if base in _BASES else f"(log{inside}/log({base}))"
        elif name in _ONE_OVER:
            text = f"(1/{_ONE_OVER[name]}{inside})"
        else:
            text = (_OTHER_NAMES.get(name, shown) if name not in FUNCTIONS else shown) + inside
        return _Part(text, k, last)

    def _read_bare_argument(self) -> _Part:
        """Read what follows a function without brackets; what is more than one value can be read in two ways."""
        start, products = self.at, set(self.matrix_products)
        self.applied += 1
        if self.applied > _MOST_APPLIED:
            raise _NoReading
        parts = [*self._take_signs(), self._read_value()]
        self.applied -= 1
        more = self._next_text in (*_POWERS, *_PRODUCTS) or (self._begins_value() and not self._is_applied(self.at))
        question = "what follows a function without brackets can be read in two ways"
        if more and self._note_ambiguity(self.at, question) == 0:
            self.at, self.matrix_products = start, products
            parts = [*self._take_signs(), self._read_term(before_functions=True)]
        return _Part(self._join(parts), start, parts[-1].last)

    def _read_postfixes(self, part: _Part) -> _Part:
        """Read what follows a value: an index, a method, a superscript, a factorial, a prime."""
        while self.at < len(self.tokens):
            k, text, gap = self.at, self._next_text, self.tokens[self.at].gap
            stem, before, after = None, "", ""
            if text == "[" and not gap:
                after = self._join(self._read_bracketed())
            elif text == "." and self._kind_at(k + 1) == "name" and not gap:
                self.at += 2
                after = self._text_of_tokens(k)
                if self._next_text == "(" and self._text_at(k + 1) in METHODS:
                    after += self.tokens[self.at].gap + self._join(self._read_bracketed())
            elif self._kind_at(k) == "raised":
                if text == "ᵀ" and self._kind_at(part.last) == "number":
                    raise _NoReading  # a vector of ones
                self.at += 1
                stem = part.text + gap if text == "ᵀ" else None
                after = f"^{_lower_exponent(text)}" if _has_letters(text) else gap + text
            elif text == "!":
                self.at += 1
                before, after = "gamma(", " + 1)"
            elif text in _PRIMES:
                self.at += 1
                self._note_refusal(k, "a prime is not part of the language")
                self.turned.add(k)
                stem, after = part.text, "" if len(self._shape_of(part.text) or ()) == 1 else ".T"
            else:
                return part
            part = _Part(f"{before}{part.text}{after}", part.first, self.at - 1, stem=stem)
        return part

    def _note_refusal(self, k: int, why: str) -> None:
        """Note that the line is refused although it has one reading, which is shown."""
        self._note_ambiguity(k, why)
        self.is_refused = True

    def _refuse_stars_with_primes(self) -> None:
        """Refuse `*` beside primes, which is the product of entries: the products of the line are those of matrices."""
        primes = [k for k, token in enumerate(self.tokens) if token.text in _PRIMES]
        kinds = ["", *(token.kind for token in self.tokens), ""]
        for k, token in enumerate(self.tokens) if primes else ():
            if token.text == "*" and "number" not in (kinds[k], kinds[k + 2]):
                self._note_refusal(primes[0], "a prime is not part of the language, and * is the product of entries")
                self.tokens[k] = replace(token, text="@")


def _tokenise_line(text: str, start: int) -> Iterator[_Token]:
    """Yield the tokens of a line from a place on."""
    gap, at = "", start
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _NoReading
        if match.lastgroup == "space":
            gap = match.group()
        else:
            shown = match.group().replace("_{", "_").removesuffix("}") if match.lastgroup == "name" else match.group()
            yield _Token(match.lastgroup or "", shown, at, gap)
            gap = ""
        at = match.end()


def _split_double_bars(found: list[_Token]) -> Iterator[_Token]:
    """Yield the tokens, with `||` as two bars where it does not open and close a norm."""
    alone = sum(token.text == "||" for token in found) == 1
    for token in found:
        yield replace(token, text="|") if alone and token.text == "||" else token
        if alone and token.text == "||":
            yield replace(token, text="|", start=token.start + 1, gap="")


def _split_names(found: Sequence[_Token], shapes: Shapes) -> Iterator[_Token]:
    """Yield the tokens, with the letters of a name apart that is a product of inputs, and not the name of anything else."""
    texts = ["", *(token.text for token in found), ""]
    named = {a for a, b in itertools.pairwise(texts) if b == "="}
    for token, before in zip(found, texts, strict=False):
        if token.kind != "name" or before == "." or token.text in named or token.text in shapes:
            yield token
            continue
        letters = list(token.text) if _is_product_of_inputs(token.text, shapes) else re.findall("π|[^π]+", token.text)
        at = token.start
        for letter in letters:
            yield replace(token, text=letter, start=at, gap=token.gap if at == token.start else "")
            at += len(letter)
