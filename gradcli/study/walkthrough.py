"""`trace`: the recorded program at one point, told node by node, forward and back."""

from collections import defaultdict
from typing import Any

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.provenance import place
from gradcli.core.shapes import shape
from gradcli.errors import Place
from gradcli.interpreters.tape import CONSTANT, Line, Recorded, Tape, transpose
from gradcli.modes.mode import Question
from gradcli.primitives.kinds import Factor, Partial
from gradcli.report import numbers
from gradcli.report.common import Target, finding
from gradcli.report.encode import ABSENT
from gradcli.report.trace import Contribution, Node, TraceReport
from gradcli.verify.environment import environment
from gradcli.words import Kind, Severity


def walkthrough(q: Question) -> TraceReport:
    """Return the computation as a walkthrough; the adjoints are those of the sum of all outputs."""
    y, inputs, tape = q.recording
    bars = q.bars
    names = _names(q, y, inputs, tape)
    uses: dict[int, list[Contribution]] = defaultdict(list)
    partials: dict[int, dict[str, Any]] = {}
    with np.errstate(all="ignore"):
        for slot, line in enumerate(tape.lines):
            if tape.primitive(slot) is not None:
                partials[slot] = _partials(line, names)
                _contribute(uses, slot, line, bars[slot], names)
    last = {id(tape.position(slot)): slot for slot in range(len(tape.lines))}
    nodes = tuple(
        _node(slot, line, last[id(tape.position(slot))] == slot, names, bars, partials.get(slot, {}), uses[slot])
        for slot, line in enumerate(tape.lines)
    )
    findings = [
        finding(kind, Severity.WARNING, mark.says, at=place(mark.position))
        for kind, marks in ((Kind.KINK, q.kinks), (Kind.STAIRCASE, q.staircases))
        for mark in marks
    ]
    if q.not_finite is not None:
        bad = q.not_finite
        findings.append(finding(Kind.NON_FINITE, Severity.WARNING, bad.says, hint=bad.hint))
    return TraceReport(Target(q.f.kind, q.f.text), q.point.values, q.point.drawn, nodes, tuple(findings), environment())


def _names(q: Question, y: Value, inputs: list[Recorded], tape: Tape) -> list[str]:
    """Return a name for every line: the user's for the last line of a named statement, `result` for the last of all."""
    positions = [position for _, _, _, _, _, position in tape.lines]
    last = {id(position): slot for slot, position in enumerate(positions) if position is not None}
    result = y.slot if isinstance(y, Recorded) else CONSTANT
    names: list[str] = []
    taken: dict[str, int] = defaultdict(int)
    for slot, position in enumerate(positions):
        if slot < len(inputs):
            name = q.wrt[slot]
        elif position is not None and last[id(position)] == slot and getattr(position, "name", None):
            name = str(position.name)
        else:
            name = "result" if slot == result else f"%{slot - len(inputs) + 1}"
        taken[name] += 1
        names.append(name if taken[name] == 1 else f"{name}#{taken[name]}")
    return names


def _partials(line: Line, names: list[str]) -> dict[str, Any]:
    """Return the local partials by operand name, summed over its uses."""
    _, slots, _, _, _, _ = line
    found: dict[str, Any] = {}
    for i, slot in enumerate(slots):
        if slot == CONSTANT:
            continue
        partial = _partial(line, i)
        seen = found.get(names[slot])
        both = isinstance(seen, str) or isinstance(partial, str)
        found[names[slot]] = partial if seen is None else f"{seen} and {partial}" if both else seen + partial
    return found


def _partial(line: Line, i: int) -> Any:
    """Return one local partial: numbers where it is elementwise or the result a scalar, else the name of the transpose."""
    primitive, _, xs, y, params, _ = line
    if primitive is None:
        raise ValueError("an input has no partials")
    rule = primitive.rule(i)
    if isinstance(rule, Partial | Factor):
        return np.asarray(rule.slope(y, xs, params or {}), dtype=float)[()]
    if shape(y) == ():
        return np.asarray(rule.pull(np.float64(1), i, y, xs, params or {}, transpose), dtype=float)[()]
    return f"transpose of {primitive.name}"


def _contribute(uses: dict[int, list[Contribution]], slot: int, line: Line, ybar: Value, names: list[str]) -> None:
    primitive, slots, xs, y, params, _ = line
    if primitive is None or ybar is None:
        return
    for i, operand in enumerate(slots):
        if operand != CONSTANT:
            product = primitive.rule(i).pull(ybar, i, y, xs, params or {}, transpose)
            uses[operand].append(Contribution(names[slot], ybar, _partial(line, i), product))


def _node(
    slot: int,
    line: Line,
    last: bool,
    names: list[str],
    bars: list[Value],
    partials: dict[str, Any],
    uses: list[Contribution],
) -> Node:
    primitive, slots, xs, y, _, position = line
    operands = tuple(names[s] if s != CONSTANT else numbers.value(x) for s, x in zip(slots, xs, strict=True))
    adjoint = np.zeros(shape(y))[()] if bars[slot] is None else bars[slot]
    operation = "input" if primitive is None else primitive.name
    span = place(position)
    text = ABSENT if primitive is None else _said(operation, operands, position, last)
    return Node(
        slot, names[slot], operation, operands, y, adjoint, partials, tuple(uses), span.line if span else None, text
    )


def _said(operation: str, operands: tuple[str, ...], position: Any, last: bool) -> str:
    """Return what the user wrote for the line that finishes it, and the operation for lines on the way there."""
    where = place(position)
    source = where.operation if isinstance(where, Place) else where.source if where else ""
    return source if source and last else f"{operation}({', '.join(operands)})"
