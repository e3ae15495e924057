"""One trial of the search for a slip: change a line of the recorded program, and compare its gradient with the claim.

Lines from one place in the source, as a loop records them, are changed together: a slip in the code is in every iteration.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcli.arithmetic.program import Program
from gradcli.arithmetic.tape import CONSTANT
from gradcli.checks.wrong import Gradient, Wrong
from gradcli.errors import GradcliError, Place, Span
from gradcli.modes.jacobians import directions, stacked
from gradcli.report.point_report import Diagnosis
from gradcli.tracing.primitive import Primitive, Rule
from gradcli.tracing.provenance import place
from gradcli.words import DiagnosisKind

Changed = dict[int, dict[int, Rule]]


@dataclass(frozen=True, slots=True)
class Edge:
    """Argument `i` of one operation in the source, the lines that recorded it, and its position."""

    primitive: Primitive
    i: int
    lines: tuple[int, ...]
    position: Any


@dataclass
class Search:
    """A search for the slip in a wrong claim."""

    wrong: Wrong
    partly: bool = False  # whether a slip need only explain the gradients of the wrong inputs
    lacking: dict[int, Gradient | None] = field(default_factory=dict)  # the gradient without each edge, by its number

    def made(self, program: Program) -> Gradient | None:
        """Return the gradient of a changed program; None if it cannot be pulled back. Raises BudgetSpent."""
        q = self.wrong.q
        seeds = list(directions(q.value))
        self.wrong.budget.spend(len(seeds))
        try:
            rows = [program.pull(seed) for seed in seeds]
        except (GradcliError, ValueError, IndexError, NotImplementedError, np.linalg.LinAlgError):
            return None  # this slip does not fit the shapes
        return {name: stacked(rows, q.value, k, q.xs[k]) for k, name in enumerate(q.wrt) if name in self.wrong.claimed}

    def tried(self, program: Program) -> str | None:
        """Return in words where the gradient of a changed program equals the claim, as `explains`; keep a program that does."""
        whose = self.explains(self.made(program))
        if whose is not None:
            self.wrong.slipped.append(program)
        return whose

    def explains(self, made: Gradient | None) -> str | None:
        """Return in words where a changed gradient equals the claim: empty if everywhere; None if it does not."""
        if made is None:
            return None
        if self.wrong.explained(made):
            return ""
        if self.partly and self.wrong.explained({n: made[n] for n in self.wrong.names}):
            return f", in the gradient of {' and '.join(self.wrong.names)}"
        return None


def edges_of(program: Program) -> Iterable[Edge]:
    """Return the edges of the program, where slips are tried, the last in the program first."""
    grouped: dict[Any, list[int]] = {}
    for k, (primitive, slots, _, _, _, position) in enumerate(program.lines):
        for i, slot in enumerate(slots):
            if slot != CONSTANT and primitive is not None:
                grouped.setdefault((key_of(position, k), primitive.name, i), []).append(k)
    found = []
    for (_, _, i), lines in grouped.items():
        primitive, slots, _, _, _, position = program.lines[lines[-1]]
        if primitive is not None:
            found.append(Edge(primitive, i, tuple(lines), position))
    return sorted(found, key=lambda edge: -edge.lines[-1])


def key_of(position: Any, k: int) -> Any:
    """Return a key shared by lines from one place in the user's source; a line without a place has its own key."""
    if position is None or place(position) is None:
        return k
    return position if isinstance(position, tuple) else id(position)


def changed(program: Program, edge: Edge, rule: Any) -> Program:
    """Return the program with another rule on an edge; `rule` is a rule, or a function from the right rule to one."""
    own = edge.primitive.rule(edge.i)
    return program.with_rules({k: {edge.i: rule(own) if callable(rule) else rule} for k in edge.lines})


def said(search: Search, kind: DiagnosisKind, says: str, position: Any) -> Diagnosis:
    """Return a diagnosis that quotes the source line, and the operation if the line holds more."""
    at = place(position)
    if isinstance(at, Place):
        whole = at.operation == at.source
        piece = "" if whole else f", in {at.operation}"
        return search.wrong.says(kind, says + piece, file=at.file, line=at.line, source=at.source)
    if isinstance(at, Span):
        return search.wrong.says(kind, f"{says}, in {at.source}", line=at.line, source=at.source)
    return search.wrong.says(kind, says)


def through(search: Search, kind: DiagnosisKind, says: str, position: Any) -> Diagnosis:
    """Return a diagnosis in which `{}` becomes the operation as the user wrote it, such as `1 - p`."""
    at = place(position)
    if isinstance(at, Place):
        code = "this line" if at.operation == at.source else f"`{at.operation}`"
        return search.wrong.says(kind, says.replace("{}", code), file=at.file, line=at.line, source=at.source)
    if isinstance(at, Span):
        return search.wrong.says(kind, says.replace("{}", f"`{at.source}`"), line=at.line, source=at.source)
    return search.wrong.says(kind, says.replace("{}", "one operation"))
