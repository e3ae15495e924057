"""Formulas in Unicode, in LaTeX, and in MathML: one tree, and for each notation a way to write each sign."""

from gradcli.derivation.notation.base import Notation
from gradcli.derivation.notation.latex import Latex
from gradcli.derivation.notation.mathml import Mathml
from gradcli.derivation.notation.unicode import Plain, Unicode

NOTATIONS: dict[str, type[Notation]] = {"unicode": Unicode, "latex": Latex, "mathml": Mathml}
__all__ = ["NOTATIONS", "Latex", "Mathml", "Notation", "Plain", "Unicode"]
