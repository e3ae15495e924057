"""A derivation, the walkthrough at a point and the check of the gradient there, as one document for people."""

from dataclasses import dataclass

from gradcli.report.blocks import Block, Figure, Heading
from gradcli.report.check import CheckReport
from gradcli.report.common import Printed, Target
from gradcli.report.derive import DeriveReport
from gradcli.report.trace import TraceReport


@dataclass(frozen=True, slots=True, repr=False)
class Lecture(Printed):
    """What `derive` writes into a document where values are given.

    derivation   The closed forms with their steps and code.
    walkthrough  The forward values and the adjoints at the point.
    check        What all modes say of the gradient at the point.
    """

    derivation: DeriveReport
    walkthrough: TraceReport
    check: CheckReport

    @property
    def target(self) -> Target:
        """What was differentiated."""
        return self.derivation.target

    def blocks(self) -> tuple[Block, ...]:
        """Return the three parts, each under its heading."""
        return (
            Heading(self.target.text.strip(), 1), Heading("Derivation"), *self.derivation.blocks(), *self.at_the_point(),
        )  # fmt: skip

    def page_blocks(self) -> tuple[Block | Figure, ...]:
        """Return the derivation, the computation as a graph with its steps, and the check."""
        return (
            Heading(self.target.text.strip(), 1), Heading("Derivation"), *self.derivation.blocks(),
            Heading("Forward and backward at the point"), *self.walkthrough.page_blocks(),
            Heading("Check"), *self.check.blocks(),
        )  # fmt: skip

    def gist(self) -> str:
        """Return what the check at the point says."""
        return self.check.gist()

    def at_the_point(self) -> tuple[Block, ...]:
        """Return the parts that need values."""
        return (
            Heading("Forward and backward at the point"), *self.walkthrough.blocks(), Heading("Check"), *self.check.blocks(),
        )  # fmt: skip
