"""Split the text of an expression into statements for Python's parser, keeping the column of every character.

The limits that protect Python's parser are checked here, on tokens, before anything is parsed. `^` becomes `**` here.
"""

import keyword
import re
from collections.abc import Iterator

from gradcli.classes import dataclass
from gradcli.errors import BadExpression, Span, TooLarge

MAX_CHARACTERS = 100_000
MAX_NESTING = 500  # nested brackets
DEEP = 150  # nested brackets that are passed to Python's parser at once: it accepts 200
MAX_CHAIN = 2_500  # operators in a row: Python's parser accepts 2,900
MAX_DIGITS = 400


_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
SUPERSCRIPT = "⁰¹²³⁴-⁹"
BAR, TRANSPOSE, INVERSE = "‖", "ᵀ", "⁻¹"
DOTS = ("·", "⋅")
_SIGNS = {"−": "-", "≤": "<=", "≥": ">=", "≠": "!=", "^": "**", **dict.fromkeys(DOTS, "@")}

# Notation that is refused, with what to write instead; what people write by hand is read, or advised, as a whole line.
_ALONE = "write the function alone: gradcli differentiates it"
_BY_HAND = "write a product with *, a quotient with /, roots as sqrt(x)"
CHARACTERS = {
    **dict.fromkeys("×∗÷–√∛∘⊙∞", _BY_HAND), "“": "write '", "”": "write '", "…": "write ...", "⊗": "write kron(A, B)",
    "∑": "write sum(...)", "∏": "write prod(...)", "∂": _ALONE, "∇": _ALONE, "∫": "write its value: gradcli does not integrate",
}  # fmt: skip
WORDS = {
    "&": "write 'and' or multiply the comparisons", "~": "write 'not'", "!": "write != or not",
    "?": "write a if x > 0 else b", "{": "sets and dicts are not part of the language", ":=": "write u = ...; ...",
    "->": "write u = ...; ...", "$": "names have letters, digits and _", "`": "names have letters, digits and _",
    "&&": "write 'and'", **dict.fromkeys(("|", "||"), "write 'or', or abs(x), norm(x) and det(A)"),
}  # fmt: skip
FUNCTION_NAMES = {"σ": "sigmoid", "Φ": "ndtr", "Γ": "gamma", "Tr": "trace", "E": "mean", "Σ": "sum", "Π": "prod"}


def python_spelling(text: str) -> str:
    """Return the text of a token in Python's syntax."""
    if text == TRANSPOSE:
        return " .T"
    if text == INVERSE:
        return " .I"
    if text[:1] and text.translate(_DIGITS) != text:
        return "**" + text.translate(_DIGITS)
    return _SIGNS.get(text, text)


_MARKS = SUPERSCRIPT + TRANSPOSE
_TOKEN = re.compile(
    r"(?P<space>[ \t\r\f]+|\#[^\n]*)|(?P<newline>\n)"
    r"|(?P<number>(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?)"
    rf"|(?P<postfix>⁻?[{SUPERSCRIPT}]+|{TRANSPOSE})"
    rf"|(?P<name>[^\W\d{_MARKS}][^\W{_MARKS}]*)|(?P<string>'[^'\n]*'|\"[^\"\n]*\")"
    rf"|(?P<op>[{BAR}{''.join(DOTS)}−≤≥≠]"
    r"|\*\*=?|//=?|<=|>=|==|!=|:=|->|\.\.\.|[-+*/%@&|^<>=]=?|[()\[\]{},:;.~!?$`'\"])"
)
_PRIME = re.compile(r"(?<=[\w)\]ᵀ])['′’]")
_PAIRS = {")": "(", "]": "[", "}": "{"}
_OPERATORS = set("+ - * / // % @ ^ ** < > <= >= == != if and or not .".split())  # noqa: SIM905
_AFTER_VALUE = {"if", "else", "and", "or", "in", "is", "for", "not"}


@dataclass(frozen=True, slots=True)
class Token:
    """A piece of the text: its kind (number, name, string, op, postfix, newline, part), its characters, where it begins.

    `width` is the token's width in the user's text, where that differs; 0 means the same width.
    """

    kind: str
    text: str
    start: int
    width: int = 0


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement as source for Python's parser, its name if it has one, and the column each character comes from."""

    text: str
    name: Token | None
    source: str
    columns: tuple[int, ...]
    inner: "tuple[Statement, ...]" = ()  # deeply nested parts that were taken out, innermost first

    def span(self, start: int, end: int) -> Span:
        """Return the span of the user's text that characters `start` to `end` of `source` come from."""
        first = self.columns[min(start, len(self.columns) - 1)]
        last = self.columns[min(max(end - 1, start), len(self.columns) - 1)]
        return Span(self.text, first, max(1, last - first + 1))


def tokenise(text: str) -> list[Token]:
    """Split the text into tokens.

    Raises  BadExpression for a character that no expression can contain; TooLarge for strings, numbers and names too long.
    """
    if len(text) > MAX_CHARACTERS:
        says = f"the expression has {len(text):,} characters; the limit is {MAX_CHARACTERS:,}"
        raise TooLarge(says, do="give data as files: --at x=@x.npy")
    found: list[Token] = []
    at = 0
    while at < len(text):
        if _PRIME.match(text, at):
            do = "write .T for a transpose and @ for a product of matrices"
            raise BadExpression("a prime is not part of the language", where=Span(text, at), do=do)
        match = _TOKEN.match(text, at)
        if match is None:
            raise _character_error(text, at)
        kind = match.lastgroup or ""
        if kind in ("number", "name") and len(match.group()) > MAX_DIGITS:
            says = f"a {kind} of {len(match.group()):,} characters; the limit is {MAX_DIGITS}"
            raise TooLarge(says, where=Span(text, at))
        if kind == "name" and not match.group().isidentifier():
            raise _character_error(text, next(k for k in range(at, match.end()) if not text[at : k + 1].isidentifier()))
        if kind != "space":
            found.append(Token(kind, match.group(), at))
        at = match.end()
    return _rewrite_norms(text, found)


def _rewrite_norms(text: str, found: list[Token]) -> list[Token]:
    """Return the tokens with `‖x‖` written as a call."""
    opened: list[Token] = []
    made: list[Token] = []
    for token in found:
        if token.text != BAR:
            made.append(token)
        elif made and _ends_value(made[-1]):
            if not opened:
                raise BadExpression(f"this {BAR} closes nothing", where=Span(text, token.start), do="write norm(x)")
            opened.pop()
            made.append(Token("op", ")", token.start, 1))
        else:
            opened.append(token)
            made += [Token("name", "norm", token.start, 1), Token("op", "(", token.start, 1)]
    if opened:
        raise BadExpression(f"this {BAR} was never closed", where=Span(text, opened[-1].start), do="write norm(x)")
    return made


def _character_error(text: str, at: int) -> BadExpression:
    shown = f"'{text[at]}'" if text[at] in CHARACTERS else f"the character {text[at]!a}"
    do = CHARACTERS.get(text[at], "leave it out")
    return BadExpression(f"{shown} is not part of the language", where=Span(text, at), do=do)


def split_statements(text: str) -> list[Statement]:
    """Return the statements of an expression, in order.

    Raises  BadExpression, TooLarge.
    """
    made = [_make_statement(text, part) for part in _split_at(text, tokenise(text), (";", "\n"))]
    if not made:
        raise BadExpression("the expression is empty", do='write one, for example "sin(x*y) + exp(-x**2)"')
    return made


def split_parts(text: str, separators: tuple[str, ...] = (",", ";", "\n")) -> list[Statement]:
    """Return the comma-separated values of a point: `x=0.5, y=1.2`."""
    return [_make_statement(text, part, ",") for part in _split_at(text, tokenise(text), separators)]


def shared_and_parts(text: str) -> tuple[list[Statement], list[Statement]]:
    """Return a claim's shared statements, and its comma-separated parts (`p = softmax(z); z=p-y, y=-log(p)`)."""
    *shared, last = list(_split_at(text, tokenise(text), (";", "\n"))) or [[]]
    parts = _split_at(text, last, (",",))
    return [_make_statement(text, one) for one in shared], [_make_statement(text, part, ",") for part in parts]


def _split_at(text: str, found: list[Token], separators: tuple[str, ...]) -> Iterator[list[Token]]:
    current: list[Token] = []
    open_brackets: list[Token] = []
    chains = [0]
    for token in found:
        if token.kind == "op" and token.text in "([{":
            open_brackets.append(token)
            chains.append(0)
            if len(open_brackets) > MAX_NESTING:
                do = "name the inner part: u = ...; ..."
                raise TooLarge(f"nested deeper than {MAX_NESTING} brackets", where=Span(text, token.start), do=do)
        elif token.text in _PAIRS:
            if not open_brackets:
                do = "remove it, or open a bracket before"
                raise BadExpression(f"'{token.text}' closes nothing", where=Span(text, token.start), do=do)
            if open_brackets[-1].text != _PAIRS[token.text]:
                says = f"'{token.text}' does not close '{open_brackets[-1].text}'"
                raise BadExpression(says, where=Span(text, token.start), do="close the inner bracket first")
            open_brackets.pop()
            chains.pop()
        elif not open_brackets and token.text in separators:
            if current:
                yield current
            current, chains = [], [0]
            continue
        elif token.text in _OPERATORS:
            chains[-1] += 1
            if sum(chains) > MAX_CHAIN:
                do = "name parts of it: u = ...; u + ...; or use sum(x)"
                raise TooLarge(f"more than {MAX_CHAIN:,} operators in a row", where=Span(text, token.start), do=do)
        elif token.text == ",":
            chains[-1] = 0
        if token.kind != "newline":
            current.append(token)
    if open_brackets:
        last = open_brackets[-1]
        closing = next(close for close, opening in _PAIRS.items() if opening == last.text)
        raise BadExpression(f"'{last.text}' was never closed", where=Span(text, last.start), do=f"add '{closing}'")
    if current:
        yield current


def _make_statement(text: str, found: list[Token], separator: str = ";") -> Statement:
    name, body = None, found
    if len(found) > 1 and found[0].kind == "name" and found[1].text == "=":
        name, body = found[0], found[2:]
        if not body:
            where = Span(text, found[1].start)
            raise BadExpression(f"'{name.text} =' has no value", where=where, do=f"write {name.text} = ...")
        if keyword.iskeyword(name.text):
            raise _keyword_error(text, name)
    _refuse_implausible(text, body, separator)
    shallow, inner = _hoist_deep_parts(text, body)
    return _render_statement(text, name, shallow, tuple(inner))


def _hoist_deep_parts(text: str, body: list[Token]) -> tuple[list[Token], list[Statement]]:
    """Replace the parts nested too deeply for Python's parser by names; return the tokens left, and the parts."""
    kept: list[Token] = []
    starts = [0]
    inner: list[Statement] = []

    def end_part() -> None:
        start = starts[-1]
        if [token.text for token in kept[start + 1 : start + 2]] == ["="]:
            start += 2  # the name of a keyword argument stays
        part = kept[start:]
        texts, depth = {token.text for token in part}, len(starts) - 1
        if depth and depth % DEEP == 0 and texts & {"(", "["} and ":" not in texts:
            name = Token("part", f"__part{part[0].start}__", part[0].start, 1)
            inner.append(_render_statement(text, name, part, ()))
            kept[start:] = [name]

    for token in body:
        if token.text in (")", "]"):
            end_part()
            starts.pop()
        elif token.text == ",":
            end_part()
        kept.append(token)
        if token.text in ("(", "["):
            starts.append(len(kept))
        elif token.text == ",":
            starts[-1] = len(kept)
    return kept, inner


def _render_statement(text: str, name: Token | None, body: list[Token], inner: tuple[Statement, ...]) -> Statement:
    """Return tokens as a statement for Python's parser, with the column that each character comes from."""
    source, columns = [], []
    end = body[0].start
    for token in body:
        gap = 1 if token.start > end else 0
        shown = python_spelling(token.text) if token.kind in ("op", "postfix") else token.text
        width = token.width or len(token.text)
        source.append(" " * gap + shown)
        columns += [token.start - 1] * gap
        columns += [token.start + min(k, width - 1) for k in range(len(shown))]
        end = token.start + width
    return Statement(text, name, "".join(source), tuple(columns), inner)


def _refuse_implausible(text: str, body: list[Token], separator: str) -> None:
    """Refuse, with advice, what Python's parser would only call invalid syntax; `separator` separates statements."""
    depth = 0
    before = Token("", "", 0)
    for k, token in enumerate(body):
        word, where = token.text, Span(text, token.start, len(token.text))
        depth += (word in "([") - (word in ")]") if token.kind == "op" else 0
        if token.kind == "name" and keyword.iskeyword(word) and word not in _WORDS:
            raise _keyword_error(text, token)
        if word in WORDS:
            raise BadExpression(f"'{word}' is not part of the language", where=where, do=WORDS[word])
        if word in ("'", '"'):
            raise BadExpression("a string was never closed", where=where, do="add the closing quote")
        if word.endswith("=") and len(word) > 1 and word not in ("==", "!=", "<=", ">="):
            do = "write u = u + ... under a new name"
            raise BadExpression(f"'{word}' is not part of the language", where=where, do=do)
        if word == "=" and depth == 0:
            says = "'=' names one value, at the beginning of a statement"
            raise BadExpression(says, where=where, do="write u = ...; or == to compare")
        if before.kind == "number" and word in ("j", "J"):
            raise BadExpression("complex numbers are not supported", where=where, do="write real and imaginary parts")
        if before.kind == token.kind == "postfix" and before.text not in (TRANSPOSE, INVERSE):
            says = f"'{word}' after a power can be read in two ways"
            raise BadExpression(says, where=where, do="write brackets, as in (x²)ᵀ")
        if (word == "(" and before.kind == "postfix") or (_ends_value(before) and _begins_value(token)):
            raise _missing_operator_error(text, body, k, separator)
        before = token
    if not _ends_value(before) and before.text not in (".", "..."):
        where = Span(text, before.start, len(before.text))
        raise BadExpression(f"something is missing after '{before.text}'", where=where, do="complete the expression")


_WORDS = {"if", "else", "and", "or", "not", "None", "True", "False"}


def _ends_value(token: Token) -> bool:
    if token.kind == "name":
        return token.text not in _AFTER_VALUE
    return token.kind in ("number", "string", "postfix") or token.text in (")", "]", "...")


def _begins_value(token: Token) -> bool:
    return token.kind in ("number", "string") or (token.kind == "name" and token.text not in _AFTER_VALUE)


def _missing_operator_error(text: str, body: list[Token], k: int, separator: str) -> BadExpression:
    """Return the error for a value that follows another one."""
    where = Span(text, body[k].start, len(body[k].text))
    if [token.text for token in body[k + 1 : k + 2]] == ["="]:
        mark = {",": "comma", ";": "semicolon"}[separator]
        before, after = text[: body[k].start].rstrip(), text[body[k].start :]
        says = f"write {before[-40:]}{separator} {after[:40]}"
        return BadExpression(f"a {mark} is missing here", where=where, do=says)
    do = "write 2*x for a product, sin(x) for a function, sum(x) for a sum"
    return BadExpression("an operator is missing here", where=where, do=do)


def _keyword_error(text: str, token: Token) -> BadExpression:
    advice = {
        "lambda": "write lam", "for": "write sums over arrays: sum(x**2)",
        "import": "functions are there without importing",
    }  # fmt: skip
    do = advice.get(token.text, f"choose another name: {token.text}_")
    where = Span(text, token.start, len(token.text))
    return BadExpression(f"'{token.text}' is a Python keyword", where=where, do=do)
