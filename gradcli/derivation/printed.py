"""A closed form as it is printed: in gradcli's language, in Unicode, in LaTeX and in MathML, each with its left sides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradcli.derivation.expression import E
from gradcli.derivation.index import Index, Tensor
from gradcli.derivation.index_notation import entry_of
from gradcli.derivation.mathematics import Writing
from gradcli.derivation.notation import NOTATIONS, Latex, Notation
from gradcli.derivation.signs import M
from gradcli.derivation.sized import Shapes
from gradcli.derivation.statements import Statements
from gradcli.errors import NotSupported
from gradcli.reports.derive import Formula

Line = tuple[str, M, tuple[str, ...]]  # a name, what it is, and the letters if that is one entry


@dataclass(frozen=True)
class Derivative:
    """What a closed form is: the derivative of f, with `outputs` axes, by an input.

    `tensor` is the same closed form, with its axes, for what can only be written with indices. A `product` H[V] has these two
    letters. A `row` is the gradient by a vector in numerator layout.
    """

    wrt: str
    order: int
    tensor: Tensor
    axes: Sequence[Index | None]
    outputs: int = 0
    product: tuple[str, str] | None = None
    row: bool = False


def formula(made: Statements, of: Derivative, dims: Mapping[str, Sequence[str]]) -> Formula:
    """Return a program in every notation; `dims` are the sizes of the inputs by their names."""
    try:
        lines = _matrices(made, dims, row=of.row)
    except NotSupported:
        entry = entry_of(of.tensor, of.axes, dims)
        lines = [("", entry.formula, entry.letters)]
    taken = [*dims, *(d for own in dims.values() for d in own), *(n for n, _ in made.parts)]
    shown = {key: _written(kind(taken), lines, of) for key, kind in NOTATIONS.items()}
    return Formula(made.text(), shown["unicode"], shown["latex"], shown["mathml"])


def in_latex(name: str, e: E, dims: Mapping[str, Sequence[str]]) -> str:
    """Return an expression in LaTeX with its name. Raises NotSupported for what only indices can write."""
    notation = Latex([*dims])
    return notation.statements([(notation.name(name), notation.write(Writing(Shapes(dims)).formula(e)))])


def _matrices(made: Statements, dims: Mapping[str, Sequence[str]], *, row: bool) -> list[Line]:
    """Return a program in matrix notation. Raises NotSupported for what only indices can write."""
    shapes = Shapes(dims)
    writing = Writing(shapes)
    lines: list[Line] = []
    for n, e in (*made.parts, ("", made.result)):
        lines.append((n, writing.formula(e) if n or not row else writing.row(e), ()))
        if n:
            shapes.add(n, e)
    return lines


def _written(notation: Notation, lines: Sequence[Line], of: Derivative) -> str:
    shown = []
    for n, m, letters in lines:
        if n:
            left = notation.indexed(n, letters)
        elif of.product is not None:
            left = notation.product(*of.product, letters)
        else:
            left = notation.derivative(of.wrt, of.order, letters[: of.outputs], letters[of.outputs :])
        shown.append((left, notation.write(m)))
    return notation.statements(shown)
