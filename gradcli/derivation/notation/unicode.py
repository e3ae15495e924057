"""Formulas in Unicode for a terminal, and on a line of plain text."""

from collections.abc import Sequence
from typing import ClassVar

from gradcli.derivation.notation.base import ATOM, BESIDE, ENTRYWISE, RAISED, SUM, Letters, Notation
from gradcli.derivation.signs import M, Sign
from gradcli.report.names import printed

_RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
_LOWERED = str.maketrans("0123456789-", "₀₁₂₃₄₅₆₇₈₉₋")


def _at(letters: Letters) -> str:
    """Return indices in brackets; nothing for a number, which has none."""
    return f"[{','.join(letters)}]" if letters else ""


class Unicode(Notation):
    """Superscripts for transposes, inverses and powers: `A.T @ (A @ x - b)` as `Aᵀ (A x - b)`."""

    line, root = ENTRYWISE, RAISED
    _marks: ClassVar = {"T": "ᵀ", "-T": "⁻ᵀ", "-1": "⁻¹"}

    def bracketed(self, shown: str) -> str:
        return f"({shown})"

    def name(self, text: str) -> str:
        return printed(text)

    def number(self, text: str) -> str:
        mantissa, e, exponent = text.partition("e")
        ten = f"10{str(int(exponent)).translate(_RAISED)}" if e else ""
        return text if not e else ten if mantissa == "1" else f"{mantissa}·{ten}"

    def entrywise(self, parts: Sequence[str]) -> str:
        return " ∘ ".join(parts)

    def cross(self, parts: Sequence[str]) -> str:
        return " × ".join(parts)

    def beside(self, parts: Sequence[str]) -> str:
        return " ".join(parts)

    def raised(self, base: M, what: str) -> str:
        return f"{self.write(base, ATOM)}{self._marks[what]}"

    def total(self, what: str, letters: Letters, body: str) -> str:
        return f"{what}_{','.join(letters)} {body}"

    def other(self, m: M) -> str:
        args = [self.write(a) for a in m.args]
        inside = ", ".join(args)
        match m.sign:
            case Sign.ONES:
                return "𝟏"
            case Sign.IDENTITY:
                return self.identity
            case Sign.UNIT:
                return f"e_{inside}" if args else f"e{m.text.translate(_LOWERED)}"
            case Sign.DIFFERENTIAL:
                return f"d{inside}"
            case Sign.ADJOINT:
                return f"{inside}_bar"
            case Sign.OVER:
                return f"{self.write(m.args[0], BESIDE)} / {self.write(m.args[1], RAISED)}"
            case Sign.POWER | Sign.ENTRY_POWER:
                return self._power(m)
            case Sign.NORM:
                return f"‖{inside}‖"
            case Sign.ABSOLUTE:
                return f"|{inside}|"
            case Sign.ROOT:
                return f"√{self.write(m.args[0], ATOM)}"
            case Sign.TRUTH:
                return f"𝟏[{self.write(m.args[0], SUM)} {m.text} {self.write(m.args[1], SUM)}]"
            case Sign.AT:
                return f"{self.write(m.args[0], ATOM)}[{m.text}]"
            case Sign.ENTRY:
                return f"{self.write(m.args[0], ATOM)}{_at(m.letters)}"
            case Sign.JOINED:
                before, after = m.text.split("|")
                return f"[{', '.join(filter(None, [before, inside, after]))}]"
        low = m.along or ",".join(m.letters)
        return f"{m.text}{f'_{low}' if low else ''}({inside})"

    def _power(self, m: M) -> str:
        base, p = m.args
        by_entry = "∘" if m.sign is Sign.ENTRY_POWER else ""
        shown = self.exponent(p)
        if shown.isdigit() and not by_entry:
            return f"{self.write(base, ATOM)}{shown.translate(_RAISED)}"
        return f"{self.write(base, ATOM)}^{by_entry}{shown if shown.isalnum() else f'({shown})'}"

    def statements(self, lines: Sequence[tuple[str, str]]) -> str:
        return "; ".join(f"{left} = {right}" for left, right in lines)

    def derivative(self, wrt: str, order: int, above: Letters = (), below: Letters = ()) -> str:
        if order == 1:
            return f"∂{self.indexed('f', above)}/∂{self.indexed(wrt, below)}"
        half = len(below) // 2
        return (
            f"∂²f/∂{self.indexed(wrt, below[:half])}∂{self.indexed(wrt, below[half:])}"
            if below
            else f"∂²f/∂{self.name(wrt)}²"
        )

    def indexed(self, name: str, letters: Letters) -> str:
        return self.name(name) + (f"[{','.join(letters)}]" if letters else "")

    def product(self, name: str, direction: str, letters: Letters) -> str:
        return f"{self.name(name)}[{self.name(direction)}]" + (f"[{','.join(letters)}]" if letters else "")


class Plain(Unicode):
    """Formulas with indices on a line of ASCII: sum_k A[i,k]*B[k,j]."""

    def name(self, text: str) -> str:
        return text

    def number(self, text: str) -> str:
        mantissa, e, exponent = text.partition("e")
        ten = f"10^{int(exponent)}" if e else ""
        return text if not e else ten if mantissa == "1" else f"{mantissa}*{ten}"

    def beside(self, parts: Sequence[str]) -> str:
        return "*".join(parts)

    def other(self, m: M) -> str:
        if m.sign is Sign.TRUTH:
            return super().other(m)[1:]
        if m.sign is Sign.ENTRY and m.args[0].sign is Sign.NAME:
            return f"{m.args[0].text}{_at(m.letters)}"
        if m.sign is Sign.ENTRY:
            return f"{Unicode([*self.names]).write(m.args[0], ATOM)}{_at(m.letters)}"
        if m.sign is Sign.POWER:
            shown = self.exponent(m.args[1])
            return f"{self.write(m.args[0], ATOM)}^{shown if shown.lstrip('-').isalnum() else f'({shown})'}"
        return super().other(m)
