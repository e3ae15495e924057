"""Equations in LaTeX and in MathML: several lines of a formula under each other, their signs of equality, too."""

import re
from collections.abc import Sequence

BREAK = r" \\ "  # between the lines of a formula


def align_equations(lines: Sequence[str]) -> str:
    """Return equations under each other, their signs of equality, too."""
    shown = [line if line.startswith("&") else line.replace(" = ", " &= ", 1) for line in lines]
    return rf"\begin{{aligned}} {BREAK.join(shown)} \end{{aligned}}"


def mathml_lines(lines: Sequence[tuple[str, str]]) -> str:
    """Return equations in MathML, each with its left and its right side; several stand under each other at their signs."""
    if len(lines) == 1:
        body = "<mo>=</mo>".join(lines[0])
    else:
        rows = (f"<mtr><mtd>{left}</mtd>{_EQUALS}<mtd>{right}</mtd></mtr>" for left, right in lines)
        body = f'<mtable columnalign="right center left">{"".join(rows)}</mtable>'
    return f'<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">{body}</math>'


_EQUALS = "<mtd><mo>=</mo></mtd>"
_ROW = re.compile(  # the rows of a table in a formula have no sign of equality in a cell of their own
    rf"<mtr><mtd>((?:(?!<mtr>).)*?)</mtd>{_EQUALS}<mtd>(.*?)</mtd></mtr>(?=<mtr><mtd>(?:(?!</mtr>).)*?{_EQUALS}|</mtable></math>)"
)


def mathml_rows(mathml: str) -> list[tuple[str, str]]:
    """Return the two sides of each equation of such an element."""
    left, _, right = mathml.partition(">")[2].removesuffix("</math>").partition("<mo>=</mo>")
    return _ROW.findall(mathml) or [(left, right)]
