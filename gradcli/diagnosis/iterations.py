"""Partials evaluated at the wrong value: of the previous or next iteration of a loop, or of another variable."""

from typing import Any

from gradcli.core.shapes import shape, unbroadcast
from gradcli.diagnosis.partial_slips import Replaced, evaluated_at
from gradcli.diagnosis.search import Changed, Edge, Search, key_of, said
from gradcli.interpreters.tape import Tape
from gradcli.primitives.kinds import Linear, Partial
from gradcli.reports.point_report import Diagnosis
from gradcli.words import DiagnosisKind


def other_iterations(search: Search, edges: list[Edge]) -> Diagnosis | None:
    """Find a line of a loop whose partial uses the values of the previous or the next iteration."""
    program = search.wrong.q.recording
    tape = program.tape
    for edge in edges:
        rule = edge.primitive.rule(edge.i)
        if len(edge.lines) < 2 or not isinstance(rule, Partial | Linear):
            continue
        for step, when in ((-1, "before"), (1, "after")):
            rules: Changed = {}
            for n, k in enumerate(edge.lines):
                other = edge.lines[n + step] if 0 <= n + step < len(edge.lines) else k
                _, _, xs, y, _, _ = tape.lines[other]
                rules[k] = {edge.i: evaluated_at(rule, y, xs)}
            whose = search.tried(program.with_rules(rules))
            if whose is not None:
                says = f"the derivative on this line uses the values of the iteration {when}{whose}"
                return said(search, DiagnosisKind.STALE, says, edge.position)
    return None


def other_values(search: Search, edges: list[Edge]) -> Diagnosis | None:
    """Find a product whose partial is not the other factor, but a different value of the program."""
    program = search.wrong.q.recording
    tape = program.tape
    families = _families(tape)
    for edge in edges:
        if edge.primitive.name != "multiply":
            continue
        for lines in families:
            rules = _with_factor(tape, edge, lines)
            if rules is None:
                continue
            whose = search.tried(program.with_rules(rules))
            if whose is not None:
                says = f"the derivative of a product is the other factor, but another value is used{whose}"
                return said(search, DiagnosisKind.SWAPPED, says, edge.position)
    return None


def _families(tape: Tape) -> list[tuple[int, ...]]:
    """Return the lines of the program, inputs included, grouped by their place in the source."""
    found: dict[Any, list[int]] = {}
    for k, (primitive, _, _, _, _, position) in enumerate(tape.lines):
        found.setdefault((key_of(position, k), primitive and primitive.name), []).append(k)
    return [tuple(lines) for lines in found.values()]


def _with_factor(tape: Tape, edge: Edge, lines: tuple[int, ...]) -> Changed | None:
    """Return rules that use the values of `lines` as the partial of a product, iteration by iteration; None if none fit."""
    if len(lines) not in (1, len(edge.lines)):
        return None
    rules: Changed = {}
    for n, k in enumerate(edge.lines):
        value = tape.value(lines[0] if len(lines) == 1 else lines[n])
        _, _, xs, y, _, _ = tape.lines[k]
        if value is xs[1 - edge.i] or not _fits(value, y):
            return None
        rules[k] = {edge.i: Replaced(edge.primitive.rule(edge.i), _times(value))}
    return rules


def _fits(value: Any, y: Any) -> bool:
    return shape(value) in (shape(y), ())


def _times(value: Any) -> Any:
    return lambda pulled, ybar, i, y, xs, params: unbroadcast(ybar * value, xs[i])
