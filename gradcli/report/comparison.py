"""What a check found of an implementation beside its reference."""

from dataclasses import dataclass

from gradcli.report.blocks import Block, Paragraph, Table
from gradcli.report.escape import cut
from gradcli.report.native import Aspect, aspect_cell


@dataclass(frozen=True, slots=True)
class Comparison:
    """An implementation beside its reference, in circumstances in which kernels go wrong.

    reference  The reference, as it was given.
    rows       How value and gradient compare with those of the reference in each circumstance. The reference's error is the
               typical error of its formula in the same format.
    """

    reference: str
    rows: tuple[Aspect, ...]

    @property
    def agrees(self) -> bool:
        """Whether something was compared, and nothing of it is wrong."""
        states = {row.status for row in self.rows}
        return "agrees" in states and "wrong" not in states

    def blocks(self) -> list[Block]:
        """Return what people read of it."""
        rows = tuple((row.name, aspect_cell(row)) for row in self.rows)
        return [Paragraph(f"Beside {cut(self.reference)}:"), Table(("", ""), rows)]
