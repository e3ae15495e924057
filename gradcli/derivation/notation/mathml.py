"""Formulas in presentation MathML."""

from collections.abc import Sequence
from typing import ClassVar
from xml.sax.saxutils import escape

from gradcli.derivation.expression import written
from gradcli.derivation.notation.base import ATOM, ENTRYWISE, LINE, SUM, Letters, Notation
from gradcli.derivation.signs import M, Sign
from gradcli.report.names import GREEK, parts_of

_BESIDE = '<mo rspace="0.17em">&#8290;</mo>'  # a product of neighbours, with a thin space between them
_SIGNS = {"+": "+", "-": "&#8722;"}


class Mathml(Notation):
    """Presentation MathML."""

    line, root = LINE, ATOM
    _marks: ClassVar = {
        "T": "<mo>&#8868;</mo>",
        "-T": "<mrow><mo>&#8722;</mo><mo>&#8868;</mo></mrow>",
        "-1": "<mrow><mo>&#8722;</mo><mn>1</mn></mrow>",
    }
    _comparisons: ClassVar = {">=": "≥", "<=": "≤", "==": "=", "!=": "≠"}

    def number_level(self, m: M) -> int:
        return LINE if "/" in written(m.number) else super().number_level(m)

    def bracketed(self, shown: str) -> str:
        return f"<mrow><mo>(</mo>{shown}<mo>)</mo></mrow>"

    def name(self, text: str) -> str:
        stem, digits = parts_of(text)
        shown = f"<mi>{escape(GREEK.get(stem, stem))}</mi>"
        return f"<msub>{shown}<mn>{digits}</mn></msub>" if digits else shown

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

    def entrywise(self, parts: Sequence[str]) -> str:
        return f"<mrow>{'<mo>&#8728;</mo>'.join(parts)}</mrow>"

    def cross(self, parts: Sequence[str]) -> str:
        return f"<mrow>{'<mo>&#215;</mo>'.join(parts)}</mrow>"

    def beside(self, parts: Sequence[str]) -> str:
        return f"<mrow>{_BESIDE.join(parts)}</mrow>"

    def raised(self, base: M, what: str) -> str:
        return f"<msup>{self.write(base, ATOM)}{self._marks[what]}</msup>"

    def total(self, what: str, letters: Letters, body: str) -> str:
        sign = "&#8721;" if what == "sum" else "&#8719;"
        return f"<mrow><munder><mo>{sign}</mo>{self._letters(letters, '<mo>,</mo>')}</munder>{body}</mrow>"

    def _letters(self, letters: Sequence[str], between: str = "") -> str:
        return f"<mrow>{between.join(f'<mi>{escape(GREEK.get(c, c))}</mi>' for c in letters)}</mrow>"

    def other(self, m: M) -> str:
        args = [self.write(a) for a in m.args]
        inside = "<mo>,</mo>".join(args)
        match m.sign:
            case Sign.ONES:
                return "<mi>𝟏</mi>"
            case Sign.IDENTITY:
                return f"<mi>{self.identity}</mi>"
            case Sign.UNIT:
                return f"<msub><mi>e</mi>{inside or f'<mn>{escape(m.text)}</mn>'}</msub>"
            case Sign.DIFFERENTIAL:
                return f'<mrow><mi mathvariant="normal">d</mi>{inside}</mrow>'
            case Sign.ADJOINT:
                return f"<mover>{inside}<mo>&#175;</mo></mover>"
            case Sign.OVER:
                return f"<mfrac>{args[0]}{args[1]}</mfrac>"
            case Sign.POWER | Sign.ENTRY_POWER:
                power = self.exponent(m.args[1])
                power = f"<mrow><mo>&#8728;</mo>{power}</mrow>" if m.sign is Sign.ENTRY_POWER else power
                return f"<msup>{self.write(m.args[0], ATOM)}{power}</msup>"
            case Sign.NORM:
                return f"<mrow><mo>‖</mo>{inside}<mo>‖</mo></mrow>"
            case Sign.ABSOLUTE:
                return f"<mrow><mo>|</mo>{inside}<mo>|</mo></mrow>"
            case Sign.ROOT:
                return f"<msqrt>{inside}</msqrt>"
            case Sign.TRUTH:
                sign = escape(self._comparisons.get(m.text, m.text))
                left, right = self.write(m.args[0], SUM), self.write(m.args[1], SUM)
                return f"<mrow><mi>𝟏</mi><mo>[</mo>{left}<mo>{sign}</mo>{right}<mo>]</mo></mrow>"
            case Sign.AT:
                return f"<msub>{self.write(m.args[0], ATOM)}<mi>{escape(m.text)}</mi></msub>"
            case Sign.ENTRY:
                base = self.write(m.args[0], ATOM)
                return f"<msub>{base}{self._letters(m.letters, '<mo>,</mo>')}</msub>" if m.letters else base
            case Sign.JOINED:
                ends = [f"<mn>{escape(x)}</mn>" if x else "" for x in m.text.split("|")]
                return f"<mrow><mo>[</mo>{'<mo>,</mo>'.join(filter(None, [ends[0], inside, ends[1]]))}<mo>]</mo></mrow>"
        head = f"<mi>{escape(m.text)}</mi>"
        low = f"<mtext>{m.along}</mtext>" if m.along else self._letters(m.letters, "<mo>,</mo>") if m.letters else ""
        head = f"<msub>{head}{low}</msub>" if low else head
        return f"<mrow>{head}<mo>(</mo>{inside}<mo>)</mo></mrow>"

    def statements(self, lines: Sequence[tuple[str, str]]) -> str:
        shown = [f"{left}<mo>=</mo>{right}" for left, right in lines]
        body = (
            shown[0] if len(shown) == 1 else f"<mtable>{''.join(f'<mtr><mtd>{x}</mtd></mtr>' for x in shown)}</mtable>"
        )
        return f'<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">{body}</math>'

    def derivative(self, wrt: str, order: int, above: Letters = (), below: Letters = ()) -> str:
        d = "<mo>&#8706;</mo>"
        if order == 1:
            return (
                f"<mfrac><mrow>{d}{self.indexed('f', above)}</mrow><mrow>{d}{self.indexed(wrt, below)}</mrow></mfrac>"
            )
        half = len(below) // 2
        twice = f"{d}{self.indexed(wrt, below[:half])}{d}{self.indexed(wrt, below[half:])}"
        once = f"{d}<msup>{self.name(wrt)}<mn>2</mn></msup>"
        return (
            f"<mfrac><mrow><msup>{d}<mn>2</mn></msup><mi>f</mi></mrow><mrow>{twice if below else once}</mrow></mfrac>"
        )

    def indexed(self, name: str, letters: Letters) -> str:
        return f"<msub>{self.name(name)}{self._letters(letters, '<mo>,</mo>')}</msub>" if letters else self.name(name)

    def product(self, name: str, direction: str, letters: Letters) -> str:
        shown = f"<mrow>{self.name(name)}<mo>[</mo>{self.name(direction)}<mo>]</mo></mrow>"
        return f"<msub>{shown}{self._letters(letters, '<mo>,</mo>')}</msub>" if letters else shown
