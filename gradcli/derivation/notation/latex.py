"""Formulas in LaTeX."""

from collections.abc import Sequence
from typing import ClassVar

from gradcli.derivation.notation.base import ATOM, LINE, SUM, Letters, Notation
from gradcli.derivation.signs import M, Sign
from gradcli.report.names import latex_name, parts_of

_PLAIN_FUNCTIONS = frozenset("exp log sin cos tan tanh sinh cosh det max min arctan arcsin arccos".split())  # noqa: SIM905


class Latex(Notation):
    """LaTeX with amsmath; names are escaped."""

    line, root = LINE, ATOM
    _marks: ClassVar = {"T": r"\top", "-T": r"-\top", "-1": "-1"}
    _comparisons: ClassVar = {">=": r"\geq", "<=": r"\leq", "==": "=", "!=": r"\neq"}
    _words: ClassVar = {"sigmoid": r"\sigma", "Φ": r"\Phi", "φ": r"\phi", "tr": r"\operatorname{tr}"}

    def bracketed(self, shown: str) -> str:
        return rf"\left({shown}\right)"

    def name(self, text: str) -> str:
        return latex_name(text)

    def number(self, text: str) -> str:
        if "/" in text:
            above, below = text.split("/")
            return rf"\tfrac{{{above}}}{{{below}}}"
        mantissa, e, exponent = text.partition("e")
        ten = f"10^{{{int(exponent)}}}" if e else ""
        return text if not e else ten if mantissa == "1" else rf"{mantissa} \cdot {ten}"

    def entrywise(self, parts: Sequence[str]) -> str:
        return r" \circ ".join(parts)

    def cross(self, parts: Sequence[str]) -> str:
        return r" \times ".join(parts)

    def beside(self, parts: Sequence[str]) -> str:
        first, *rest = parts
        return f"{first} {self.beside(rest)}" if first[0].isdigit() and rest else r" \, ".join(parts)

    def raised(self, base: M, what: str) -> str:
        return rf"{self.write(base, ATOM)}^{{{self._marks[what]}}}"

    def total(self, what: str, letters: Letters, body: str) -> str:
        return rf"\{what}_{{{self._letters(letters)}}} {body}"

    def other(self, m: M) -> str:
        args = [self.write(a) for a in m.args]
        inside = ", ".join(args)
        match m.sign:
            case Sign.ONES:
                return r"\mathbf{1}"
            case Sign.IDENTITY:
                return "I" if self.identity == "I" else r"\mathrm{Id}"
            case Sign.UNIT:
                return rf"e_{{{inside or m.text}}}"
            case Sign.DIFFERENTIAL:
                return rf"\mathrm{{d}}{inside}"
            case Sign.ADJOINT:
                return rf"\bar{{{inside}}}"
            case Sign.OVER:
                return rf"\frac{{{args[0]}}}{{{args[1]}}}"
            case Sign.POWER | Sign.ENTRY_POWER:
                by_entry = r"\circ " if m.sign is Sign.ENTRY_POWER else ""
                return rf"{self.write(m.args[0], ATOM)}^{{{by_entry}{self.exponent(m.args[1])}}}"
            case Sign.NORM:
                return rf"\left\lVert {inside} \right\rVert"
            case Sign.ABSOLUTE:
                return rf"\left|{inside}\right|"
            case Sign.ROOT:
                return rf"\sqrt{{{inside}}}"
            case Sign.TRUTH:
                sign = self._comparisons.get(m.text, m.text)
                return rf"\mathbf{{1}}\left[{self.write(m.args[0], SUM)} {sign} {self.write(m.args[1], SUM)}\right]"
            case Sign.AT:
                base = self.write(m.args[0], ATOM)
                return rf"{{{base}}}_{{{m.text}}}" if "_" in base else rf"{base}_{{{m.text}}}"
            case Sign.ENTRY:
                base = self.write(m.args[0], ATOM)
                return rf"{{{base}}}_{{{self._letters(m.letters)}}}" if m.letters else base
            case Sign.JOINED:
                before, after = m.text.split("|")
                return rf"\left[{', '.join(filter(None, [before, inside, after]))}\right]"
        escaped = m.text.replace("_", r"\_")
        usual = rf"\operatorname{{{escaped}}}" if m.text == "sigmoid" and self._has_sigma else self._words.get(m.text)
        head = f"\\{m.text}" if m.text in _PLAIN_FUNCTIONS else usual or rf"\operatorname{{{escaped}}}"
        along = rf"_{{\mathrm{{{m.along}}}}}" if m.along else f"_{{{self._letters(m.letters)}}}" if m.letters else ""
        return rf"{head}{along}\left({inside}\right)"

    @property
    def _has_sigma(self) -> bool:
        """Whether an input has the letter of the sigmoid, also with a number as in sigma1."""
        return any(parts_of(name)[0] in ("sigma", "σ") for name in self.names)

    def _letters(self, letters: Letters) -> str:
        return ", ".join(map(self.name, letters))

    def statements(self, lines: Sequence[tuple[str, str]]) -> str:
        return r" \\ ".join(f"{left} = {right}" for left, right in lines)

    def derivative(self, wrt: str, order: int, above: Letters = (), below: Letters = ()) -> str:
        if order == 1:
            return rf"\frac{{\partial {self.indexed('f', above)}}}{{\partial {self.indexed(wrt, below)}}}"
        half = len(below) // 2
        twice = rf"{self.indexed(wrt, below[:half])} \, \partial {self.indexed(wrt, below[half:])}"
        return rf"\frac{{\partial^{{2}} f}}{{\partial {twice if below else self.name(wrt) + '^{2}'}}}"

    def indexed(self, name: str, letters: Letters) -> str:
        shown = self.name(name)
        return f"{{{shown}}}_{{{self._letters(letters)}}}" if letters else shown

    def product(self, name: str, direction: str, letters: Letters) -> str:
        return f"{self.name(name)}[{self.name(direction)}]" + (f"_{{{self._letters(letters)}}}" if letters else "")
