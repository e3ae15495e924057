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
class _Node:
    """A part of the line: its first and its last token, and whether it is a name or a number alone."""

    first: int
    last: int
    bare: bool = False


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
    return LineReading(texts, lines[0].question if len(texts) > 1 or lines[0].is_refused else None, lines[0].asked)


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
    """One reading of a line, by recursive descent; of two readings of a part, `choice` takes the first or the second.

    The tokens stay in their places: `shown` is what each becomes, `gap` what stands before it, `before` and `after` what is
    put around it, such as brackets.
    """

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
        self.shown = [token.text for token in self.tokens]
        self.gap = [token.gap for token in self.tokens]
        self.before = [""] * len(self.tokens)
        self.after = [""] * len(self.tokens)
        named = _TOKEN.finditer(defined["inputs"]) if defined else ()
        self.inputs = {*shapes, *(match.group() for match in named if match.lastgroup == "name")}
        for k, token in enumerate(self.tokens):  # what stands somewhere without brackets after it, and is no function
            if token.kind == "name" and self._text_at(k + 1) != "(" and not _is_function(token.text):
                self.inputs.add(token.text)
        self.at, self.bars, self.depth, self.applied, self.summing = 0, 0, 0, 0, False
        self.is_refused = False
        self.turned: set[int] = set()  # the primes
        for k, token in enumerate(self.tokens):
            if hidden.get(token.start):
                self._note_refusal(k, "this is read as one name")
        self.nests = self._has_nested_bars()
        self._refuse_stars_with_primes()
        self._read_sequence(())
        if self.at < len(self.tokens):
            raise _NoReading
        text = self._rendered_text(_Node(0, len(self.tokens) - 1)).strip()
        self.text = _without_brackets(text) if self.shown[0] != "(" else text

    # The tokens.

    def _text_at(self, k: int) -> str:
        return self.tokens[k].text if k < len(self.tokens) else ""

    @property
    def _next_text(self) -> str:
        return self._text_at(self.at)

    def _kind_at(self, k: int) -> str:
        return self.tokens[k].kind if k < len(self.tokens) else ""

    def _rendered_text(self, node: _Node) -> str:
        """Return what a part has become."""
        span = range(node.first, node.last + 1)
        text = "".join(f"{self.gap[k]}{self.before[k]}{self.shown[k]}{self.after[k]}" for k in span)
        return text[len(self.gap[node.first]) :]

    def _put_around(self, node: _Node, opening: str, closing: str) -> None:
        self.before[node.first] = opening + self.before[node.first]
        self.after[node.last] += closing

    def _note_ambiguity(self, k: int, question: str) -> int:
        """Note that token `k` has two readings, and return which one is taken."""
        if self.question is None:
            self.question, self.asked = question, self.tokens[k].start
        return self.choice

    def _shape_of(self, node: _Node) -> Shape | None:
        """Return the shape of a part; None where it is not known."""
        try:
            f = self.program(self._rendered_text(node))
            others = () if any(self.shapes.values()) else None  # beside inputs with sizes, one without is a number
            known = {name: self.shapes.get(name, None if name.isupper() else others) for name in f.inputs}
            values = {name: np.ones(own)[()] for name, own in known.items() if own is not None}
            with np.errstate(all="ignore"):
                return shape(f.run(values)) if values.keys() == known.keys() else None
        except (GradcliError, ValueError, TypeError, ArithmeticError, np.linalg.LinAlgError):
            return None

    # The grammar: sequences of terms, products, powers, values.

    def _read_sequence(self, closing: Sequence[str]) -> None:
        """Read terms and what stands between them, up to a closing bracket or bar."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise _NoReading
        ended = "|" not in closing  # a bar where a value begins opens another pair
        statement = self.at
        while self.at < len(self.tokens) and not (ended and self._next_text in closing):
            ended = self._next_text not in _BETWEEN and self._next_text not in _WORDS
            if ended:
                self._read_term()
            else:
                if self._next_text == ";" and not closing:
                    defines = self._kind_at(statement) == "name" and self._text_at(statement + 1) == "="
                    if defines and statement + 2 < self.at:
                        own = self._shape_of(_Node(statement + 2, self.at - 1))
                        self.shapes |= {} if own is None else {self.tokens[statement].text: own}
                    statement = self.at + 1
                self._take_sign()
                ended = "|" not in closing
        self.depth -= 1

    def _take_sign(self) -> None:
        self.shown[self.at] = _SIGNS.get(self._next_text, self._next_text)
        self.at += 1

    def _read_term(self, before_functions: bool = False) -> _Node:
        """Read a product; `before_functions` ends it before a function that follows without a sign."""
        factor = self._read_factor()
        first, run = factor.first, factor
        divisor: _Node | None = None
        while True:
            k = self.at
            if self._next_text in _PRODUCTS:
                if self._next_text in ("×", "∗", "⋆") and any(self.shapes.values()):
                    raise _NoReading  # it means another product for arrays
                self._take_sign()
                self._skip_signs()
                run = self._read_factor()
                divisor = run if self.shown[k] in ("/", "//", "%") else None
            elif self._begins_value() and not (before_functions and self._is_applied(k)):
                question = "what follows a quotient without a sign can be read in two ways"
                if divisor is not None and self._note_ambiguity(k, question) == 0:
                    run = divisor
                    while self._begins_value() and not (before_functions and self._is_applied(self.at)):
                        run = self._read_implied_factor(run)
                    self._put_around(run, "(", ")")
                else:
                    run = self._read_implied_factor(run)
                divisor = None
            else:
                return _Node(first, self.at - 1)

    def _has_nested_bars(self) -> bool:
        """Whether bars are read as nested where values stand on both sides of one of several, as in |x|y|z|."""
        bars = [k for k, token in enumerate(self.tokens) if token.text == "|"]
        between = [k for k in bars[1:-1] if self._ends_value(k - 1) and self._kind_at(k + 1) in ("number", "name")]
        return bool(between) and self._note_ambiguity(between[0], "bars side by side can be read in two ways") == 1

    def _ends_value(self, k: int) -> bool:
        return self._kind_at(k) in ("number", "name", "value", "raised") or self._text_at(k) in (")", "]")

    def _read_implied_factor(self, left: _Node) -> _Node:
        """Read one factor that follows without a sign."""
        k = self.at
        token, before = self.tokens[k], self.tokens[left.last]
        if before.kind == "number" and not token.gap and (token.text in ("j", "J") or before.text == "0"):
            raise _NoReading  # a complex number, or one in another base
        if not token.gap and (token.text == "∞" or token.text.startswith("_")):
            raise _NoReading  # an index of what is before
        right = self._read_factor()
        between_names = before.kind == "name" and before.text not in _CONSTANTS and token.kind == "name" and token.gap
        is_power = right.last > k + 1 and self.shown[k + 1] in _POWERS
        question = "a power after names side by side can be read in two ways"
        if between_names and is_power and self._note_ambiguity(k, question) == 1:
            self.gap[k] = self._product_sign(left, _Node(k, k), k)
            self._put_around(_Node(left.first, k), "(", ")")
            return _Node(left.first, right.last)
        turned = right.last in self.turned or self.shown[right.last] in (".T", "ᵀ")
        row = replace(right, last=right.last - 1)
        same = self._rendered_text(row) == self._rendered_text(left)
        if turned and self._is_column(row, same) and self._is_column(left, same):
            self.shown[right.last], self.gap[k] = "", ", "
            self._put_around(_Node(left.first, right.last), "outer(", ")")
        else:
            self.gap[k] = self._product_sign(left, right, k)
        return _Node(left.first, right.last)

    def _is_column(self, node: _Node, twice: bool) -> bool:
        """Whether a part is a vector, or a single letter that may be one: x xᵀ is a matrix.

        Beside inputs with sizes a letter without one is a number, unless it stands there `twice`.
        """
        name = self.tokens[node.first].text
        letter = self._kind_at(node.first) == "name" and len(name) == 1 and not name.isupper()
        may = not any(self.shapes.values()) or (twice and name not in self.shapes)
        return (letter and may and self._rendered_text(node) == name) or len(self._shape_of(node) or ()) == 1

    def _product_sign(self, left: _Node, right: _Node, k: int) -> str:
        """Return the sign of the product of two parts, by their shapes."""
        if left.first == left.last and self._kind_at(left.first) in ("number", "value"):
            return "*"
        a, b = self._shape_of(left), self._shape_of(right)
        if a == () or b == ():
            return "*"
        ends = (".T", "ᵀ", "⁻¹")
        turned = any(node.last in self.turned or self._rendered_text(node).endswith(ends) for node in (left, right))
        if turned or "@" in self.gap[left.first + 1 : k]:
            return "@"
        if a is None or b is None:
            if not (a or b or self._is_matrix(left) or self._is_matrix(right)):
                return "*"
        elif a != b:
            return "@"
        elif self.summing:
            return "*"
        return ("@", "*")[self._note_ambiguity(k, "a product of arrays without a sign can be read in two ways")]

    def _is_matrix(self, node: _Node) -> bool:
        """Whether a part is a capital letter, which is a matrix more often than a number, and its shape is not known."""
        name = self.tokens[node.last].text
        return node.first == node.last and len(name) == 1 and name.isupper() and self.shapes.get(name) is None

    def _skip_signs(self) -> None:
        while self._next_text in _MINUS:
            self._take_sign()

    def _read_factor(self) -> _Node:
        """Read a value with its power."""
        base = self._read_value()
        if self._next_text not in _POWERS:
            return base
        k = self.at
        self.at += 1
        braced = [self._text_at(n) for n in range(self.at, self.at + 4)]
        if braced in (["{", sign, "1", "}"] for sign in _MINUS) and len(self._shape_of(base) or ()) == 2:  # X^{-1}
            for n in range(k, k + 5):
                self.shown[n] = self.gap[n] = ""
            self.shown[k] = "⁻¹"
            self.at += 4
            return self._read_postfixes(_Node(base.first, k + 4))
        if self._next_text in ("T", "⊤") and self._next_text not in self.shapes:
            ts = [n for n, token in enumerate(self.tokens) if token.text == self._next_text]
            if all(self._text_at(n - 1) in _POWERS for n in ts):  # it is no input
                self.shown[k], self.shown[k + 1], self.gap[k], self.gap[k + 1] = "", ".T", "", ""
                self.at += 1
                return self._read_postfixes(_Node(base.first, k + 1))
        self._skip_signs()
        self.depth += 1
        if self.depth > _DEEPEST:
            raise _NoReading
        exponent = self._read_factor()
        self.depth -= 1
        follows = exponent.bare and self._begins_value() and not self.tokens[self.at].gap
        asked = follows and not self._is_factor_of_power(base, exponent)
        question = "what follows an exponent without a blank can be read in two ways"
        if asked and self._note_ambiguity(self.at, question) == 0:
            while self._begins_value() and not self.tokens[self.at].gap:
                exponent = self._read_implied_factor(exponent)
            self._put_around(_Node(k + 1, exponent.last), "(", ")")
        return _Node(base.first, exponent.last)

    def _is_factor_of_power(self, base: _Node, exponent: _Node) -> bool:
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

    def _read_value(self) -> _Node:
        self._skip_signs()
        k, kind, text = self.at, self._kind_at(self.at), self._next_text
        self.at += 1
        if kind in ("number", "value", "string"):
            self.shown[k] = _SIGNS.get(text, text)
            return self._read_postfixes(_Node(k, k, True))
        if text in _CLOSED_BY:
            self._read_bracketed(_CLOSED_BY[text])
            if text == "{":
                self.shown[k], self.shown[self.at - 1] = "(", ")"
            return self._read_postfixes(_Node(k, self.at - 1))
        if text in ("|", *_NORM):
            return self._read_postfixes(self._read_bars(k, text))
        if text in _ROOTS:
            self.shown[k] = _ROOTS[text]
            return self._read_postfixes(self._read_application(k))
        if kind == "name" and text not in _WORDS:
            return self._read_postfixes(self._read_name(k))
        raise _NoReading

    def _read_bracketed(self, closing: str) -> None:
        """Read what stands in brackets, and the closing one."""
        bars, self.bars = self.bars, 0
        self._read_sequence((closing,))
        self.bars = bars
        self._expect_text(closing)

    def _expect_text(self, text: str) -> None:
        if self._next_text != text:
            raise _NoReading
        self.at += 1

    def _read_bars(self, k: int, text: str) -> _Node:
        """Read an absolute value, a determinant or a norm."""
        opening, closing = ("norm(" if text in _NORM else ""), ")"
        bars, self.bars = self.bars, 1
        self._read_sequence((text,))
        self.bars = bars
        self._expect_text(text)
        last = self.at - 1
        inside = _Node(k + 1, last - 1)
        if last == k + 1:
            raise _NoReading
        if not opening:
            own = self._shape_of(inside)
            capital = inside.first == inside.last and own is None and self._is_matrix(inside)
            words = ("det(", "abs(") if capital else ("norm(", "abs(") if own and len(own) == 1 else ()
            asked = words and words[self._note_ambiguity(k, "bars around an array can be read in two ways")]
            opening = asked or ("det(" if own and len(own) == 2 else "abs(")
        if text in _NORM and self._kind_at(self.at) == "name" and not self.tokens[self.at].gap:
            index = normalise_name(self._next_text).lstrip("_")
            if index not in _NORMS or (index == "1" and len(self._shape_of(inside) or ()) > 1):
                raise _NoReading
            opening, closing = _NORMS[index]
            self.shown[self.at], self.at = "", self.at + 1
        self.shown[k], self.shown[last], self.gap[k + 1], self.gap[last] = opening, closing, "", ""
        return _Node(k, self.at - 1)

    def _read_name(self, k: int) -> _Node:
        """Read a name: a function with what it is applied to, an input, or an attribute of a module."""
        name = self.tokens[k].text
        if self._begins_value() and self._next_text not in ("(", "{") and self._needs_brackets(name):
            raise _NoReading
        while self._next_text == "." and self._kind_at(self.at + 1) == "name" and not self.tokens[self.at].gap:
            if name not in PREFIXES:
                return _Node(k, k, True)  # a method of a value, which is read after it
            name = f"{name}.{self._text_at(self.at + 1)}"
            self.at += 2
        if name in _SUMS and name not in self.shapes:
            summing, self.summing = self.summing, True
            self.shown[k], inside = "sum", _Node(self.at, self._read_term().last)
            self.summing = summing
            self.gap[inside.first] = ""
            self._put_around(inside, "(", ")")
            return _Node(k, inside.last)
        if name == "π" and name not in self.shapes:
            self.shown[k] = "pi"
        if "." in name or self._next_text == "(":
            unknown = "." not in name and not _is_function(name)
            is_product = unknown and (name in self.inputs or name in _CONSTANTS)
            if unknown and not is_product and len(name) == 1 and name not in "fgh":
                self._note_refusal(k, f"'{name}' is no function of the language")
                is_product = True
            return _Node(k, k, True) if is_product or self._next_text != "(" else self._read_application(k)
        if self._next_text == "{" and _is_function(name) and name not in self.shapes:
            return self._read_application(k)
        powered = self._next_text in _POWERS or (self._kind_at(self.at) == "raised" and self._next_text != "ᵀ")
        if self._is_applied(k) and (powered or self._begins_value() or self._next_text in _MINUS):
            return self._read_powered_function(k) if powered else self._read_application(k)
        if not name.isidentifier():  # x₁
            if not _INDEXED.fullmatch(name):
                raise _NoReading
            self.shown[k] = normalise_name(name)
        return _Node(k, k, True)

    def _needs_brackets(self, name: str) -> bool:
        """Whether a name before a value means a function that is not applied without brackets: sum x, lg x, xlog x."""
        if name in self.shapes or name in _APPLIED or _base_of_logarithm(name) is not None or name in _SUMS:
            return False
        ends = name.endswith(("log", "ln", "sin", "cos", "tan", "exp", "sqrt"))
        known = name in _NEEDS_BRACKETS or (_is_function(name) and name not in _GREEK)
        return ends or known or _OVER_AN_INDEX.match(name) is not None

    def _read_powered_function(self, k: int) -> _Node:
        """Read a function with an exponent before what it is applied to: sin²(x), sin^2 x, sin⁻¹(x)."""
        start = self.at
        if self._next_text in _POWERS:
            self.at += 1
            sign = "-" if self._next_text in _MINUS else ""
            self.at += bool(sign)
            if self._kind_at(self.at) not in ("number", "name") and self._next_text not in ("(", "{"):
                raise _NoReading
            if self._kind_at(self.at) in ("number", "name"):
                exponent = sign + self._next_text
                self.at += 1
            else:
                exponent = self._rendered_text(self._read_value())
        else:
            exponent = _lower_exponent(self._next_text)
            self.at += 1
        if not self._begins_value() and self._next_text not in _MINUS:  # the function stands for itself: sin^2
            raise _NoReading
        for n in range(start, self.at):
            self.shown[n] = self.gap[n] = self.before[n] = self.after[n] = ""
        name = self.tokens[k].text
        node = self._read_application(k)
        question = f"{name} to the -1 can be read in two ways"
        if exponent != "-1":
            self.after[node.last] += f"^{exponent}"
        elif name in _INVERSE and self._note_ambiguity(start, question) == 0:
            self.shown[k] = _INVERSE[name]
        else:
            self._put_around(node, "(1/", ")")
        if self._next_text in _POWERS or self._kind_at(self.at) == "raised":
            self._put_around(node, "(", ")")
        return node

    def _read_application(self, k: int) -> _Node:
        """Read what the function at token `k` is applied to: in brackets, or the next value."""
        name = self.tokens[k].text
        if self._next_text in ("(", "{"):
            opened = self.at
            self.at += 1
            self._read_bracketed(_CLOSED_BY[self._text_at(opened)])
            self.shown[opened], self.shown[self.at - 1], self.gap[opened] = "(", ")", ""
            inside = _Node(opened, self.at - 1)
        else:
            inside = self._read_bare_argument()
            self.gap[inside.first] = ""
            self._put_around(inside, "(", ")")
        # The language has it under another name, or not at all.
        node, base = _Node(k, inside.last), _base_of_logarithm(name)
        if base is not None or (name in ("log", "ln") and (base := self._take_second_argument(inside)) is not None):
            self.shown[k] = _BASES.get(base, "log")
            if base not in _BASES:
                self._put_around(node, "(", f"/log({base}))")
        elif name in _ONE_OVER:
            self.shown[k] = _ONE_OVER[name]
            self._put_around(node, "(1/", ")")
        elif name in _OTHER_NAMES and name not in FUNCTIONS:
            self.shown[k] = _OTHER_NAMES[name]
        return node

    def _read_bare_argument(self) -> _Node:
        """Read what follows a function without brackets; what is more than one value can be read in two ways."""
        start = self.at
        kept = (self.shown[:], self.gap[:], self.before[:], self.after[:])
        self.applied += 1
        if self.applied > _MOST_APPLIED:
            raise _NoReading
        value = self._read_value()
        self.applied -= 1
        more = self._next_text in (*_POWERS, *_PRODUCTS) or (self._begins_value() and not self._is_applied(self.at))
        question = "what follows a function without brackets can be read in two ways"
        if not more or self._note_ambiguity(self.at, question) == 1:
            return _Node(start, value.last)
        self.shown, self.gap, self.before, self.after = kept
        self.at = start
        self._skip_signs()
        return _Node(start, self._read_term(before_functions=True).last)

    def _take_second_argument(self, inside: _Node) -> str | None:
        """Take the second argument out of brackets and return it; None if there is not exactly one more, without a name."""
        depth, commas = 0, []
        for k in range(inside.first + 1, inside.last):
            depth += (self.shown[k] in ("(", "[")) - (self.shown[k] in (")", "]"))
            commas += [k] if self.shown[k] == "," and depth == 0 else []
        if len(commas) != 1 or "=" in self.shown[inside.first : inside.last]:
            return None
        second = self._rendered_text(_Node(commas[0] + 1, inside.last - 1))
        for k in range(commas[0], inside.last):
            self.shown[k] = self.gap[k] = self.before[k] = self.after[k] = ""
        return second

    def _read_postfixes(self, node: _Node) -> _Node:
        """Read what follows a value: an index, a method, a superscript, a factorial, a prime."""
        while self.at < len(self.tokens):
            k, text = self.at, self._next_text
            if text == "[" and not self.tokens[k].gap:
                self.at += 1
                self._read_bracketed("]")
            elif text == "." and self._kind_at(k + 1) == "name" and not self.tokens[k].gap:
                self.at += 2
                if self._next_text == "(" and self._text_at(k + 1) in METHODS:
                    self.at += 1
                    self._read_bracketed(")")
            elif self._kind_at(k) == "raised":
                if text == "ᵀ" and self._kind_at(node.last) == "number":
                    raise _NoReading  # a vector of ones
                self.at += 1
                if _has_letters(text):
                    self.shown[k], self.gap[k] = f"^{_lower_exponent(text)}", ""
            elif text == "!":
                self.at += 1
                self.shown[k], self.gap[k] = "", ""
                self._put_around(node, "gamma(", " + 1)")
            elif text in _PRIMES:
                self.at += 1
                self._note_refusal(k, "a prime is not part of the language")
                self.turned.add(k)
                self.shown[k], self.gap[k] = "" if len(self._shape_of(node) or ()) == 1 else ".T", ""
            else:
                return node
            node = replace(node, last=self.at - 1, bare=False)
        return node

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
                self.shown[k] = "@"


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
