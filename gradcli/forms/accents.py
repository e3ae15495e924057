"""Accents of names in documents: xhat is x with a hat. A bar is left to adjoints."""

import re

_SIGNS = {"hat": "^", "tilde": "~", "dot": "&#729;"}
_WORDS = "|".join(_SIGNS)
_LATEX = re.compile(rf"\\mathrm\{{([A-Za-z])({_WORDS})\}}")
_MATHML = re.compile(rf"<mi>([A-Za-z])({_WORDS})</mi>")


def in_latex(formula: str) -> str:
    """Return a formula in LaTeX with accents for the names that end in one."""
    return _LATEX.sub(r"\\\2{\1}", formula)


def in_mathml(formula: str) -> str:
    """Return a formula in MathML with accents for the names that end in one."""
    return _MATHML.sub(
        lambda found: f'<mover accent="true"><mi>{found[1]}</mi><mo>{_SIGNS[found[2]]}</mo></mover>', formula
    )
