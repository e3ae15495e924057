"""Mathematical notation: the spellings that the language accepts, and advice for those that it refuses."""

import itertools
import re
from collections.abc import Callable, Sequence
from typing import Protocol

_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
SUPERSCRIPT = "⁰¹²³⁴-⁹"
BAR, TRANSPOSE, INVERSE = "‖", "ᵀ", "⁻¹"
DOTS = ("·", "⋅")
_SIGNS = {"−": "-", "≤": "<=", "≥": ">=", "≠": "!=", "^": "**", **dict.fromkeys(DOTS, "@")}

# Notation that is refused, with what to write instead.
_ENTRIES = "write * for the product of entries"
_ALONE = "write the function alone: gradcli differentiates it"
CHARACTERS = {
    "×": "write *, or outer or kron for another product", "∗": "write *", "–": "write -", "÷": "write /", "√": "write sqrt(...)",
    "∞": "write inf", "“": "write '", "”": "write '", "…": "write ...", "∘": _ENTRIES, "⊙": _ENTRIES, "⊗": "write kron(A, B)",
    "∑": "write sum(...)", "∏": "write prod(...)", "∂": _ALONE, "∇": _ALONE, "′": "write .T for a transpose",
    "∫": "write its value: gradcli does not integrate",
}  # fmt: skip
WORDS = {
    "&": "write 'and' or multiply the comparisons", "~": "write 'not'", "!": "write != or not",
    "?": "write a if x > 0 else b", "{": "sets and dicts are not part of the language", ":=": "write u = ...; ...",
    "->": "write u = ...; ...", "$": "names have letters, digits and _", "`": "names have letters, digits and _",
    "&&": "write 'and'",
}  # fmt: skip
FUNCTION_NAMES = {"σ": "sigmoid", "Φ": "ndtr", "Γ": "gamma", "Tr": "trace", "E": "mean", "Σ": "sum", "Π": "prod"}

_PRIME = re.compile(r"(?<=[\w)\]ᵀ])['′’]")


class Piece(Protocol):
    """The attributes of a token that this module needs."""

    @property
    def kind(self) -> str:
        """What kind of token it is."""

    @property
    def text(self) -> str:
        """Its characters."""

    @property
    def start(self) -> int:
        """Where it begins."""


def written(text: str) -> str:
    """Return the text of a token in Python's syntax."""
    if text == TRANSPOSE:
        return " .T"
    if text == INVERSE:
        return " .I"
    if text[:1] and text.translate(_DIGITS) != text:
        return "**" + text.translate(_DIGITS)
    return _SIGNS.get(text, text)


def is_power(piece: Piece) -> bool:
    """Whether a token is a power in superscript, as in `x²`; an inverse is not."""
    return piece.kind == "postfix" and piece.text not in (TRANSPOSE, INVERSE)


def after_power(pieces: Sequence[Piece], k: int) -> str:
    """Return what to write for token `k` after a power: the power in brackets."""
    base = pieces[k - 2].text if pieces[k - 2].kind in ("name", "number") else "(...)"
    return f"({base}{pieces[k - 1].text}){pieces[k].text}"


def is_prime(text: str, at: int) -> bool:
    """Whether a token that begins here is a prime after a value, as in `x'A x`."""
    return _PRIME.match(text, at) is not None


def without_primes(text: str) -> str:
    """Rewrite a product of matrices with primes for transposes in the language: `x'A x` becomes `x@A@x`.

    A name of one lower-case letter is taken to be a vector, whose transpose is left out.
    """
    pieces = re.findall(r"\d+\.?\d*|\w+|['′’]|[^\s\w]", text)
    found: list[str] = []
    for k, piece in enumerate(pieces):
        if piece in "'′’":
            if found and not re.fullmatch(r"[^\W\dA-Z_]", found[-1]):
                found.append(".T")
            continue
        value = re.match(r"[\w(]", piece)
        before = pieces[k - 1] if k else ""
        if value and before and re.match(r"[\w)\]'′’]", before):
            called = piece == "(" and re.match(r"\w", before) and len(before) > 1
            found.append("" if called else "*" if before[0].isdigit() else "@")
        number = before[:1].isdigit() or (k + 1 < len(pieces) and pieces[k + 1][:1].isdigit())
        found.append("@" if piece == "*" and not number else piece)
    return "".join(found)


def between_bars(text: str, pieces: Sequence[Piece], k: int) -> str:
    """Return what to write instead of the bar at token `k`: a norm, an absolute value, or `or`."""
    bars = [n for n, piece in enumerate(pieces) if piece.text == "|"]
    later = [n for n in bars if n > k + 1]
    if (k and _ends(pieces[k - 1])) or not later:
        return "write 'or', or abs(x) for an absolute value"
    if k + 1 in bars:
        return f"write norm({_between(text, pieces[k + 1], pieces[later[0]])})"
    return f"write abs({_between(text, pieces[k], pieces[later[0]])}), or det(...) for a determinant"


def _between(text: str, first: Piece, last: Piece) -> str:
    return text[first.start + 1 : last.start].strip()


def _ends(piece: Piece) -> bool:
    return piece.kind in ("name", "number") or piece.text in (")", "]")


def missing_operator(text: str, pieces: Sequence[Piece], k: int, is_function: Callable[[str], bool]) -> str:
    """Return what to write if token `k` follows a value without an operator."""
    before, rest = pieces[k - 1], text[pieces[k].start :].strip()
    if derivative(pieces[:k]):
        return f"write {_without_brackets(rest)}: gradcli differentiates it"
    if before.kind == "name" and re.match(r"(sum|Σ|prod)_", before.text):
        return "write sums over arrays: sum(x**2)"
    if before.kind == "name" and is_function(before.text):
        argument = [pieces[k].text]
        for left, right in zip(pieces[k:], pieces[k + 1 :], strict=False):
            if not (_ends(left) and _ends(right)):
                break
            argument += ["*", right.text]
        return f"write {before.text}({''.join(argument)})"
    function = pieces[k - 2].text if k > 1 and pieces[k - 2].kind == "name" else ""
    if is_power(before) and pieces[k].text == "(" and is_function(function):
        return f"write {function}{_bracketed(rest)}{written(before.text)}"
    if before.kind == "postfix":
        factor = _bracketed(rest) if pieces[k].text == "(" else pieces[k].text[:12]
        sign = "@" if before.text in (TRANSPOSE, INVERSE) else "*"
        return f"write {text[: before.start + len(before.text)].strip()[-12:]}{sign}{factor}"
    return f"write {before.text[-12:]}*{pieces[k].text[:12]}"


def _bracketed(text: str) -> str:
    """Return the bracketed part at the beginning of a string."""
    depths = list(itertools.accumulate((c == "(") - (c == ")") for c in text))
    return text[: depths.index(0) + 1] if 0 in depths else text


def _without_brackets(text: str) -> str:
    """Return a string without the pair of brackets that encloses all of it, if there is one."""
    return text[1:-1] if text.startswith("(") and _bracketed(text) == text and text.endswith(")") else text


def derivative(pieces: Sequence[Piece]) -> bool:
    """Whether tokens end with `d/dx`."""
    last = [piece.text for piece in pieces[-3:]]
    return len(last) == 3 and last[:2] == ["d", "/"] and re.fullmatch(r"d[^\W\d]\w*", last[2]) is not None
