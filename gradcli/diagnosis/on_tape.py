"""Find a mistake in one line of the recorded program: a partial that is missing, negated or replaced, or a lost path."""

from typing import Any

import numpy as np

from gradcli.core.provenance import code_at, place
from gradcli.core.shapes import end_to_end, size
from gradcli.diagnosis.blocks import block_slips
from gradcli.diagnosis.budget import BudgetSpent
from gradcli.diagnosis.factors import named_factor
from gradcli.diagnosis.iterations import other_iterations, other_values
from gradcli.diagnosis.partial_slips import negated, omitted, replacements, scaled
from gradcli.diagnosis.paths import overwritten
from gradcli.diagnosis.search import Edge, Search, changed, edges_of, key_of, said, through
from gradcli.diagnosis.wrong import Gradient, Wrong
from gradcli.errors import Place, Span
from gradcli.interpreters.program import Program
from gradcli.interpreters.tape import CONSTANT, Tape
from gradcli.reports.point_report import Diagnosis
from gradcli.words import DiagnosisKind

_FEWEST = 3  # entries that must change together before a factor with no known cause explains them
_MOST_OUTPUTS = 64


def on_tape(wrong: Wrong) -> Diagnosis | None:
    """Return the one line of the program whose slip turns the right gradient into the claim; None if none is found.

    Cost  a sweep a trial, within the budget.
    """
    q = wrong.q
    if q.untraced is not None or size(q.value) > _MOST_OUTPUTS:
        return None
    search = Search(wrong)
    edges = [edge for edge in edges_of(q.recording) if wrong.only_line in (None, _line_of(edge))]
    with np.errstate(all="ignore"):
        for search.partly in (False, True) if len(wrong.names) < len(wrong.claimed) else (False,):
            for find in (
                _missing,
                _known_slips,
                _contributions,
                other_iterations,
                overwritten,
                _in_blocks,
                other_values,
            ):
                try:
                    found = find(search, edges)
                except BudgetSpent:  # what was computed before is compared in the next round
                    wrong.note_limit()
                    continue
                if found is not None:
                    return found
    return None


def _line_of(edge: Edge) -> tuple[str | None, int | None]:
    at = place(edge.position)
    return (at.file, at.line) if isinstance(at, Place) else (None, at.line) if isinstance(at, Span) else (None, None)


def by_share(wrong: Wrong) -> Diagnosis | None:
    """Return the line whose contribution the claim multiplies by a factor with no known cause, as `on_tape` found it."""
    return next(iter(wrong.unnamed), None)


def _known_slips(search: Search, edges: list[Edge]) -> Diagnosis | None:
    """Try each slip in the tables: a wrong partial, a forgotten transpose, a wrong axis."""
    program = search.wrong.q.recording
    recorded: dict[Any, set[str]] = {}
    for edge in edges:
        recorded.setdefault(key_of(edge.position, edge.lines[-1]), set()).add(edge.primitive.name)
    for edge in edges:
        _, _, xs, y, _, _ = program.lines[edge.lines[-1]]
        code, alone = code_at(edge.position), len(recorded[key_of(edge.position, edge.lines[-1])]) == 1
        for kind, says, rule in replacements(edge.primitive, edge.i, y, xs, code, alone):
            whose = search.tried(changed(program, edge, rule))
            if whose is not None:
                return said(search, kind, says + whose, edge.position)
    return None


def _missing(search: Search, edges: list[Edge]) -> Diagnosis | None:
    """Find the edge whose contribution is missing in the claim."""
    program = search.wrong.q.recording
    for n, edge in enumerate(edges):
        operands = program.tape.operands(edge.lines[-1])
        if operands.count(operands[edge.i]) > 1:
            continue  # half of x*x is missing: reported as a factor 2
        whose = search.explains(_without(search, n, edge))
        if whose is not None:
            search.wrong.slipped.append(changed(program, edge, omitted))
            return _by_share(search, 0.0, edge, whose)
    return None


def _without(search: Search, n: int, edge: Edge) -> Gradient | None:
    """Return the gradient without the contribution through an edge; it is computed once and cached."""
    if n not in search.lacking:
        search.lacking[n] = search.made(changed(search.wrong.q.recording, edge, omitted))
    return search.lacking[n]


def _contributions(search: Search, edges: list[Edge]) -> Diagnosis | None:
    """Find the edge whose contribution the claim holds with a wrong factor, such as -1 or 2 instead of 1."""
    program, wrong = search.wrong.q.recording, search.wrong
    for n, edge in enumerate(edges):
        without = _without(search, n, edge)
        if without is None:
            continue
        factor = _share(wrong, without)
        if factor is None:
            continue
        if len(edge.lines) > 1 and abs(factor) > 1e-6:  # in a loop the gradient is not linear in the factor
            whose = search.tried(changed(program, edge, negated))
            if whose is not None:
                return said(
                    search,
                    DiagnosisKind.NEGATED,
                    f"the derivative on this line has the wrong sign{whose}",
                    edge.position,
                )
            continue
        mixed = {n: without[n] + factor * (wrong.right[n] - without[n]) for n in without}
        whose = search.explains(mixed)
        if whose is None:
            continue
        wrong.slipped.append(changed(program, edge, scaled(factor)))
        found = _by_share(search, factor, edge, whose)
        if found is not None:
            return found
        moved = sum(int(np.sum(np.abs(wrong.right[n] - without[n]) > 0)) for n in wrong.names)
        if not wrong.unnamed and moved >= _FEWEST:
            says = f"the contribution through this line is {factor:.6g} times the right one{whose}"
            wrong.unnamed.append(said(search, DiagnosisKind.FACTOR, says, edge.position))
    return None


def _share(wrong: Wrong, without: Gradient) -> float | None:
    """Return the factor with which the claim holds the contribution that `without` lacks, by least squares."""
    part, held = (end_to_end(of[n] - without[n] for n in wrong.names) for of in (wrong.right, wrong.claimed))
    scale = float(np.max(np.abs(part), initial=0.0))
    if not scale > 0 or not np.isfinite(scale):
        return None
    factor = float((held / scale) @ (part / scale) / ((part / scale) @ (part / scale)))
    return 0.0 if abs(factor) < 1e-6 else factor


def _by_share(search: Search, factor: float, edge: Edge, whose: str) -> Diagnosis | None:
    if factor == 0:
        if _is_term(search.wrong.q.recording, edge):
            tape, k = search.wrong.q.recording.tape, edge.lines[-1]
            term = tape.position(tape.operands(k)[edge.i])
            return said(search, DiagnosisKind.TERM, f"the gradient of one term of the function is missing{whose}", term)
        uses, position = _fork(search.wrong.q.recording.tape, edge)
        if uses > 1:
            says = f"the gradient through {{}} is missing{whose}: it is dropped, or overwritten instead of added"
            return through(search, DiagnosisKind.OVERWRITTEN, says, position)
        says = f"the gradient through {{}} is missing{whose}: treated as a constant"
        return through(search, DiagnosisKind.LEFT_OUT, says, position)
    if abs(factor + 1) < 1e-6:
        return said(
            search, DiagnosisKind.NEGATED, f"the derivative on this line has the wrong sign{whose}", edge.position
        )
    named = named_factor(factor, search.wrong)
    return (
        None if named is None else said(search, DiagnosisKind.SLIP, f"on this line, {named[1]}{whose}", edge.position)
    )


def _is_term(program: Program, edge: Edge) -> bool:
    """Whether an edge leads into a sum that is the result, up to constant factors."""
    y, _, tape = program
    top = y.slot
    while True:
        primitive, slots, _, _, _, _ = tape.lines[top]
        moving = [slot for slot in slots if slot != CONSTANT]
        if primitive is not None and primitive.name in ("add", "subtract"):
            if edge.lines == (top,):
                return True
            towards = [slot for slot in moving if _depends(tape, slot, edge.lines[-1])]
            if not towards:
                return False
            top = towards[0]
        elif len(moving) == 1 and primitive is not None and primitive.name in ("multiply", "divide", "negative"):
            top = moving[0]
        else:
            return False


def _depends(tape: Tape, slot: int, k: int) -> bool:
    """Whether the value of a slot depends on that of line k."""
    reached = {slot}
    for line in range(slot, k, -1):
        if line in reached:
            reached |= set(tape.operands(line))
    return k in reached


def _fork(tape: Tape, edge: Edge) -> tuple[int, Any]:
    """Return how often the value is used at which a missing contribution branches off, and the position of the branch.

    The search goes upstream from an edge: a value that is used once, and computed from one value, carries the same
    contribution.
    """
    uses: dict[int, int] = {}
    for _, slots, _, _, _, _ in tape.lines:
        for slot in slots:
            uses[slot] = uses.get(slot, 0) + 1
    k, i = edge.lines[-1], edge.i
    while True:
        slot = tape.operands(k)[i]
        moving = [n for n, source in enumerate(tape.operands(slot)) if source != CONSTANT]
        if uses[slot] > 1 or len(moving) != 1:
            return uses[slot], tape.position(k)
        k, i = slot, moving[0]


def _in_blocks(search: Search, edges: list[Edge]) -> Diagnosis | None:
    """Find a value, computed over several lines from another, whose derivative was replaced by a slip."""
    for kind, says, program, position in block_slips(search.wrong.q.recording):
        whose = search.tried(program)
        if whose is not None:
            return said(search, kind, says + whose, position)
    return None
