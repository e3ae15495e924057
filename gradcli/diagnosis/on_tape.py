"""Mistakes in one line of the recorded program: its partial left out, negated or replaced, or one path overwritten.

Lines of one place in the source, as a loop records them, are changed together: a slip in the code is in every turn.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcli.core.primitive import Primitive, Rule
from gradcli.core.provenance import place
from gradcli.core.shapes import shape, size
from gradcli.diagnosis.blocks import block_slips
from gradcli.diagnosis.factors import named_factor
from gradcli.diagnosis.local import evaluated_at, negated, omitted, replacements
from gradcli.diagnosis.wrong import Gradient, Wrong
from gradcli.errors import GradcliError, Place, Span
from gradcli.interpreters.replay import pulled, with_rules
from gradcli.interpreters.tape import CONSTANT, Tape
from gradcli.numerics.jacobians import stacked
from gradcli.primitives.kinds import Linear, Partial
from gradcli.report.check import Diagnosis

PATIENCE = 3.0  # seconds that the search may take, by the time of one reverse sweep
_FEWEST = 3  # entries that must move together before a factor of no known meaning explains anything
_MOST_OUTPUTS = 64

Changed = dict[int, dict[int, Rule]]


@dataclass(frozen=True, slots=True)
class Edge:
    """One argument of one operation in the source: the lines it stands for, and what it reads."""

    primitive: Primitive
    i: int
    lines: tuple[int, ...]
    position: Any


@dataclass
class Search:
    """The trials that are still affordable, and what a changed tape makes of the gradient."""

    wrong: Wrong
    left: int = 0
    cut: bool = False
    gradients: dict[Any, Gradient] = field(default_factory=dict)

    def made(self, tape: Tape) -> Gradient | None:
        """Return the gradient that a changed tape gives, or None where it cannot be swept or no trial is left."""
        q = self.wrong.q
        if self.left <= 0:
            self.cut = True
            return None
        self.left -= 1
        y, inputs, _ = q.recording
        n, output = size(q.value), shape(q.value)
        seeds = [np.float64(1)] if output == () else [np.eye(1, n, k).reshape(output) for k in range(n)]
        try:
            rows = [pulled(tape, y, seed, inputs) for seed in seeds]
        except (GradcliError, ValueError, IndexError, NotImplementedError, np.linalg.LinAlgError):
            return None  # a slip that does not fit these shapes is none
        return {name: stacked(rows, q.value, k, q.xs[k]) for k, name in enumerate(q.wrt) if name in self.wrong.claimed}

    def explains(self, made: Gradient | None) -> str | None:
        """Return where a changed gradient is the claim: everywhere, or only in the wrong inputs; None where it is not."""
        if made is None:
            return None
        if self.wrong.explained(made):
            return ""
        if len(self.wrong.names) < len(self.wrong.claimed) and self.wrong.explained(
            {n: made[n] for n in self.wrong.names}
        ):
            return f", in the gradient of {' and '.join(self.wrong.names)}"
        return None


def on_tape(wrong: Wrong) -> Diagnosis | None:
    """Return the one line whose slip makes the claim of the right gradient."""
    q = wrong.q
    if q.untraced is not None or size(q.value) > _MOST_OUTPUTS:
        return None
    search = Search(wrong, int(PATIENCE / max(q.reverse_seconds, 1e-4)))
    edges = list(edges_of(q.recording[2], len(q.xs)))
    with np.errstate(all="ignore"):
        for find in (_known_slips, _contributions, _one_use_alone, _other_turns, _in_blocks):
            found = find(search, edges)
            if found is not None:
                return found
    return None


def edges_of(tape: Tape, inputs: int) -> Iterable[Edge]:
    """Return the arguments through which a slip could have gone, the last in the program first."""
    grouped: dict[Any, list[int]] = {}
    for k, (primitive, slots, _, _, _, position) in enumerate(tape.lines[inputs:], inputs):
        for i, slot in enumerate(slots):
            if slot != CONSTANT and primitive is not None:
                grouped.setdefault((_key(position, k), primitive.name, i), []).append(k)
    found = []
    for (_, _, i), lines in grouped.items():
        primitive, slots, _, _, _, position = tape.lines[lines[-1]]
        if primitive is not None:
            found.append(Edge(primitive, i, tuple(lines), position))
    return sorted(found, key=lambda edge: -edge.lines[-1])


def _key(position: Any, k: int) -> Any:
    return k if position is None else id(position) if not isinstance(position, tuple) else position


def changed(tape: Tape, edge: Edge, rule: Any) -> Tape:
    """Return the tape with another rule on an edge; `rule` is one, or makes one of the right one."""
    own = edge.primitive.rule(edge.i)
    return with_rules(tape, {k: {edge.i: rule(own) if callable(rule) else rule} for k in edge.lines})


def said(search: Search, kind: str, says: str, position: Any) -> Diagnosis:
    """Return a diagnosis that quotes the source."""
    at = place(position)
    if isinstance(at, Place):
        whole = at.operation == at.source
        piece = "" if whole else f", in {at.operation}"
        return search.wrong.says(kind, says + piece, file=at.file, line=at.line, source=at.source)
    if isinstance(at, Span):
        return search.wrong.says(kind, f"{says}, in {at.source}", line=at.line, source=at.source)
    return search.wrong.says(kind, says)


def _known_slips(search: Search, edges: list[Edge]) -> Diagnosis | None:
    """Try each slip in the tables: a wrong partial, a forgotten transpose, a wrong axis."""
    tape = search.wrong.q.recording[2]
    for edge in edges:
        _, _, xs, y, _, _ = tape.lines[edge.lines[-1]]
        for kind, says, rule in replacements(edge.primitive, edge.i, y, xs):
            whose = search.explains(search.made(changed(tape, edge, rule)))
            if whose is not None:
                return said(search, kind, says + whose, edge.position)
    return None


def _contributions(search: Search, edges: list[Edge]) -> Diagnosis | None:
    """Find the edge whose contribution the claim holds zero, minus one, two, ... times instead of once."""
    tape, wrong = search.wrong.q.recording[2], search.wrong
    unnamed = None
    for edge in edges:
        without = search.made(changed(tape, edge, omitted))
        if without is None:
            continue
        factor = _share(wrong, without)
        if factor is None:
            continue
        if len(edge.lines) > 1 and abs(factor) > 1e-6:  # what a loop does to a factor is not linear in it
            whose = search.explains(search.made(changed(tape, edge, negated)))
            if whose is not None:
                return said(search, "negated", f"the partial on this line has the wrong sign{whose}", edge.position)
            continue
        mixed = {n: without[n] + factor * (wrong.right[n] - without[n]) for n in without}
        whose = search.explains(mixed)
        if whose is None:
            continue
        found = _by_share(search, factor, edge, whose)
        if found is not None:
            return found
        moved = sum(int(np.sum(np.abs(wrong.right[n] - without[n]) > 0)) for n in wrong.names)
        if unnamed is None and moved >= _FEWEST:
            unnamed = said(
                search,
                "factor",
                f"the contribution through this line is {factor:.6g} times the right one{whose}",
                edge.position,
            )
    return unnamed


def _share(wrong: Wrong, without: Gradient) -> float | None:
    """Return how many times the claim holds the contribution that `without` lacks, by least squares."""
    part = np.concatenate([np.ravel(wrong.right[n] - without[n]) for n in wrong.names])
    held = np.concatenate([np.ravel(wrong.claimed[n] - without[n]) for n in wrong.names])
    scale = float(np.max(np.abs(part), initial=0.0))
    if not scale > 0 or not np.isfinite(scale):
        return None
    factor = float((held / scale) @ (part / scale) / ((part / scale) @ (part / scale)))
    return 0.0 if abs(factor) < 1e-6 else factor


def _by_share(search: Search, factor: float, edge: Edge, whose: str) -> Diagnosis | None:
    if factor == 0:
        if _is_term(search.wrong.q.recording, edge):
            tape, k = search.wrong.q.recording[2], edge.lines[-1]
            term = tape.lines[tape.lines[k][1][edge.i]][5]
            return said(search, "term", f"the gradient of one term of the function is missing{whose}", term)
        uses, position = _fork(search.wrong.q.recording[2], edge)
        if uses > 1:
            says = f"one path is overwritten instead of added: the contribution through one line is missing{whose}"
            return said(search, "overwritten", says, position)
        says = f"what flows through this line is left out: treated as a constant{whose}"
        return said(search, "left out", says, position)
    if abs(factor + 1) < 1e-6:
        return said(search, "negated", f"the partial on this line has the wrong sign{whose}", edge.position)
    named = named_factor(factor, search.wrong)
    return None if named is None else said(search, "slip", f"on this line, {named[1]}{whose}", edge.position)


def _is_term(recording: tuple[Any, Any, Tape], edge: Edge) -> bool:
    """Whether an edge leads into a sum that, up to constant factors, is the result."""
    y, _, tape = recording
    top = y.slot
    while True:
        primitive, slots, _, _, _, _ = tape.lines[top]
        moving = [slot for slot in slots if slot != CONSTANT]
        if primitive is not None and primitive.name in ("add", "subtract"):
            if edge.lines == (top,):
                return True
            if not any(slot >= edge.lines[-1] for slot in moving):
                return False
            top = max(moving) if edge.lines[-1] <= max(moving) else top
        elif len(moving) == 1 and primitive is not None and primitive.name in ("multiply", "divide", "negative"):
            top = moving[0]
        else:
            return False


def _fork(tape: Tape, edge: Edge) -> tuple[int, Any]:
    """Return how often the value is used from which a missing contribution branches off, and where it does.

    Upstream of an edge, what is used once and made of one value alone carries the same contribution.
    """
    uses: dict[int, int] = {}
    for line in tape.lines:
        for slot in line[1]:
            uses[slot] = uses.get(slot, 0) + 1
    k, i = edge.lines[-1], edge.i
    while True:
        slot = tape.lines[k][1][i]
        moving = [n for n, source in enumerate(tape.lines[slot][1]) if source != CONSTANT]
        if uses[slot] > 1 or len(moving) != 1:
            return uses[slot], tape.lines[k][5]
        k, i = slot, moving[0]


def _one_use_alone(search: Search, edges: list[Edge]) -> Diagnosis | None:
    """Find a value used three times or more of whose contributions only the first or the last was kept."""
    q = search.wrong.q
    tape = q.recording[2]
    uses: dict[int, list[tuple[int, int]]] = {}
    for k, line in enumerate(tape.lines):
        for i, slot in enumerate(line[1]):
            if slot != CONSTANT:
                uses.setdefault(slot, []).append((k, i))
    for slot, found in sorted(uses.items()):
        if len(found) < 3:
            continue
        for kept, which in ((found[-1], "last"), (found[0], "first")):
            rules: Changed = {}
            for k, i in found:
                primitive = tape.lines[k][0]
                if (k, i) != kept and primitive is not None:
                    rules.setdefault(k, {})[i] = omitted(primitive.rule(i))
            whose = search.explains(search.made(with_rules(tape, rules)))
            if whose is not None:
                name = q.wrt[slot] if slot < len(q.wrt) else "a value"
                says = (
                    f"{name} is used {len(found)} times and only its {which} use is counted: "
                    f"overwritten instead of added{whose}"
                )
                return said(search, "overwritten", says, tape.lines[kept[0]][5])
    return None


def _other_turns(search: Search, edges: list[Edge]) -> Diagnosis | None:
    """Find a line of a loop whose partial was evaluated one turn too early or too late."""
    tape = search.wrong.q.recording[2]
    for edge in edges:
        rule = edge.primitive.rule(edge.i)
        if len(edge.lines) < 2 or not isinstance(rule, Partial | Linear):
            continue
        for step, when in ((-1, "before"), (1, "after")):
            rules: Changed = {}
            for n, k in enumerate(edge.lines):
                other = edge.lines[n + step] if 0 <= n + step < len(edge.lines) else k
                rules[k] = {edge.i: evaluated_at(rule, tape.lines[other][3], tape.lines[other][2])}
            whose = search.explains(search.made(with_rules(tape, rules)))
            if whose is not None:
                says = f"the partial on this line is taken at the values of the turn {when}{whose}"
                return said(search, "stale", says, edge.position)
    return None


def _in_blocks(search: Search, edges: list[Edge]) -> Diagnosis | None:
    """Find a value whose slope by another, over several lines, was replaced by a slip."""
    for kind, says, tape, position in block_slips(search.wrong.q.recording[2], len(search.wrong.q.xs)):
        whose = search.explains(search.made(tape))
        if whose is not None:
            return said(search, kind, says + whose, position)
        if search.cut:
            break
    return None
