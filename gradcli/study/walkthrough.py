"""The study behind `trace`: the program at one point, by the operations the user wrote, forward and backward."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.provenance import place
from gradcli.core.shapes import shape
from gradcli.errors import Place
from gradcli.interpreters import lines
from gradcli.interpreters.tape import CONSTANT, Line, Recorded, Tape, sweep_back, transpose
from gradcli.modes.mode import Question
from gradcli.primitives.kinds import Factor, Partial
from gradcli.reports import numbers
from gradcli.reports.common import Target, finding
from gradcli.reports.encode import ABSENT
from gradcli.reports.trace import Contribution, Node, TraceReport
from gradcli.study.adjoints import Use, formula
from gradcli.verify.environment import environment
from gradcli.words import Kind, Severity

SHAPING = ("reshape", "transpose", "broadcast_to")


@dataclass(frozen=True)
class Step:
    """The lines that one operation in the user's source recorded; of several, only the last is used elsewhere."""

    tape: Tape
    slots: tuple[int, ...]

    @property
    def last(self) -> int:
        """The line that computes the value of the step."""
        return self.slots[-1]

    @cached_property
    def operands(self) -> tuple[int, ...]:
        """The slots outside the step that it reads, one for each use."""
        inside = set(self.slots)
        return tuple(s for k in self.slots for s in self.tape.operands(k) if s != CONSTANT and s not in inside)

    def operation(self, text: str) -> str:
        """Return the name of the primitive, or of the called function if its call recorded several primitives."""
        made = [p.name for k in self.slots if (p := self.tape.primitive(k)) is not None and p.name not in SHAPING]
        names = made or [p.name for k in self.slots if (p := self.tape.primitive(k)) is not None]
        called = text.partition("(")[0].rpartition(".")[2]
        return called if len(names) > 1 and called.isidentifier() else names[-1]

    @property
    def elementwise(self) -> bool:
        """Whether each entry of the result depends on the same entry of each operand alone."""
        kinds = [p.kind for k in self.slots if (p := self.tape.primitive(k)) is not None]
        same = all(shape(self.tape.value(s)) in ((), shape(self.tape.value(self.last))) for s in self.operands)
        return same and all(kind == "elementwise" for kind in kinds)

    def pulled(self, ybar: Value) -> list[tuple[int, Value]]:
        """Return each outside operand of the step with its cotangent, once for each use, from the cotangent of the result."""
        count, place_of = len(self.operands), {k: len(self.operands) + n for n, k in enumerate(self.slots)}
        outside = iter(range(count))
        own: list[Line] = [(None, (), (), None, None, None)] * count
        for k in self.slots:
            primitive, slots, xs, y, params, position = self.tape.lines[k]
            moved = tuple(s if s == CONSTANT else place_of[s] if s in place_of else next(outside) for s in slots)
            own.append((primitive, moved, xs, y, params, position))
        bars: list[Any] = [None] * len(own)
        bars[-1] = ybar
        sweep_back(own, bars, len(own) - 1)
        return list(zip(self.operands, bars[:count], strict=True))


def walkthrough(q: Question) -> TraceReport:
    """Return the report of the computation, step by step; adjoints are derivatives of the sum of all outputs."""
    y, inputs, tape = q.recording
    steps = _steps(tape, y.slot if isinstance(y, Recorded) else CONSTANT)
    names = _names(q, y, steps, tape, len(inputs))
    with np.errstate(all="ignore"):
        nodes = _Nodes(q, steps, names).made()
    findings = [
        finding(kind, Severity.WARNING, mark.says, at=place(mark.position))
        for kind, marks in ((Kind.KINK, q.kinks), (Kind.STAIRCASE, q.staircases))
        for mark in marks
    ]
    if q.not_finite is not None:
        bad = q.not_finite
        findings.append(finding(Kind.NON_FINITE, Severity.WARNING, bad.says, hint=bad.hint))
    return TraceReport(Target(q.f.kind, q.f.text), q.point.values, q.point.drawn, nodes, tuple(findings), environment())


def _steps(tape: Tape, result: int) -> list[Step]:
    """Return the steps: lines with the same source position form one, unless its inner values are used elsewhere."""
    runs: list[list[int]] = []
    for k, (primitive, _, _, _, _, position) in enumerate(tape.lines):
        before = tape.position(runs[-1][-1]) if runs else None
        if primitive is not None and position is not None and position == before:
            runs[-1].append(k)
        else:
            runs.append([k])
    groups = [part for run in runs for part in _loop_iterations(tape, run)]
    of = {k: n for n, group in enumerate(groups) for k in group}
    used = {s for k in range(len(tape.lines)) for s in tape.operands(k) if s != CONSTANT and of[s] != of[k]} | {result}
    found: list[Step] = []
    for group in groups:
        parts = [group] if not used.intersection(group[:-1]) else [[k] for k in group]
        found += [Step(tape, tuple(part)) for part in parts]
    return found


def _loop_iterations(tape: Tape, run: Sequence[int]) -> list[Sequence[int]]:
    """Split the lines of one source position by their shortest repeating sequence: one part for each iteration of a loop."""
    made = [tape.primitive(k) for k in run]
    length = next(n for n in range(1, len(run) + 1) if len(run) % n == 0 and made == made[:n] * (len(run) // n))
    return [run[k : k + length] for k in range(0, len(run), length)]


def _names(q: Question, y: Value, steps: Sequence[Step], tape: Tape, inputs: int) -> dict[int, str]:
    """Return a name for the value of each step: that of an input or variable, `result`, or else a new name such as `t1`."""
    own = lines.names(tape.lines)
    result = y.slot if isinstance(y, Recorded) else CONSTANT
    used = {*q.point.values, *filter(None, own)}
    free = (name for k in range(1, len(tape.lines) + len(used) + 2) if (name := f"t{k}") not in used)
    names: dict[int, str] = {}
    taken: dict[str, int] = defaultdict(int)
    for step in steps:
        slot = step.last
        name = q.wrt[slot] if slot < inputs else own[slot] or ("result" if slot == result else next(free))
        taken[name] += 1
        names[slot] = name if taken[name] == 1 else f"{name}#{taken[name]}"
    return names


@dataclass(frozen=True)
class _Nodes:
    """Makes the nodes of the report from steps."""

    q: Question
    steps: Sequence[Step]
    names: Mapping[int, str]

    def made(self) -> tuple[Node, ...]:
        uses: dict[int, list[Contribution]] = defaultdict(list)
        partials = {}
        for step in self.steps:
            if self._is_input(step):
                continue
            found = self._partials(step)
            partials[step.last] = self._summed(found)
            self._contribute(uses, step, found)
        return tuple(
            self._node(k, step, partials.get(step.last, {}), uses[step.last]) for k, step in enumerate(self.steps)
        )

    def _summed(self, partials: Sequence[tuple[int, Any]]) -> dict[str, Any]:
        """Return the local partials by operand, summed over its uses."""
        found: dict[str, Any] = {}
        for slot, partial in partials:
            seen = found.get(self.names[slot])
            is_text = isinstance(seen, str) or isinstance(partial, str)
            found[self.names[slot]] = (
                partial if seen is None else f"{seen} and {partial}" if is_text else seen + partial
            )
        return found

    def _is_input(self, step: Step) -> bool:
        return step.tape.primitive(step.last) is None

    def _partials(self, step: Step) -> list[tuple[int, Any]]:
        """Return each operand with its local partial, once for each use: an array, or the name of the transpose."""
        if len(step.slots) == 1:
            line = step.tape.lines[step.last]
            return [
                (slot, _partial(line, i)) for i, slot in enumerate(step.tape.operands(step.last)) if slot != CONSTANT
            ]
        value = step.tape.value(step.last)
        if shape(value) == () or step.elementwise:
            return [(slot, np.asarray(x, dtype=float)[()]) for slot, x in step.pulled(np.ones(shape(value))[()])]
        says = f"transpose of {step.operation(self._text(step))}"
        return [(slot, says) for slot, _ in step.pulled(np.zeros(shape(value)))]

    def _contribute(self, uses: dict[int, list[Contribution]], step: Step, partials: Sequence[tuple[int, Any]]) -> None:
        ybar = self.q.bars[step.last]
        if ybar is None:
            return
        use, sources = self._use(step)
        for (slot, partial), (_, product) in zip(partials, step.pulled(ybar), strict=True):
            i = sources.index(slot) if slot in sources else len(sources)
            said = formula(use, i)
            if slot in sources:
                sources[i] = CONSTANT  # so that a second use matches the next operand
            uses[slot].append(Contribution(self.names[step.last], ybar, partial, product, said))

    def _use(self, step: Step) -> tuple[Use, list[int]]:
        """Return the data of a step that the formula of an adjoint needs, and the slots of its operands."""
        made = [k for k in step.slots if (p := step.tape.primitive(k)) is not None and p.name not in SHAPING]
        core = step.tape.lines[made[0] if len(made) == 1 else step.last]
        primitive, _, _, _, params, _ = core
        given = self._operands(step, core) if len(made) <= 1 else [(s, step.tape.value(s)) for s in step.operands]
        names = tuple(self.names[slot] if slot != CONSTANT else self._constant(x) for slot, x in given)
        one = primitive is not None and len(made) <= 1
        name = primitive.name if primitive is not None and one else step.operation(self._text(step))
        shapes = tuple(shape(x) for _, x in given)
        y = shape(step.tape.value(step.last))
        use = Use(name, names, shapes, self.names[step.last], y, params or {} if one else None, step.elementwise)
        return use, [slot for slot, _ in given]

    def _operands(self, step: Step, core: Line) -> list[tuple[int, Value]]:
        """Return the operands as the user wrote them, before reshaping and broadcasting inside the step."""
        _, slots, xs, _, _, _ = core
        inside = set(step.slots)
        found = []
        for slot, x in zip(slots, xs, strict=True):
            while slot in inside:
                _, before, values, _, _, _ = step.tape.lines[slot]
                slot, x = before[0], values[0]
            found.append((slot, x))
        return found

    def _constant(self, x: Value) -> str:
        """Return the name of the first input outside `wrt` with the same numbers, else the value as text."""
        held = (n for n, v in self.q.point.values.items() if n not in self.q.wrt and _same(v, x))
        return next(held, numbers.value(x))

    def _text(self, step: Step) -> str:
        where = place(step.tape.position(step.last))
        return where.operation if isinstance(where, Place) else where.source if where else ""

    def _node(self, k: int, step: Step, partials: dict[str, Any], uses: list[Contribution]) -> Node:
        tape, slot = step.tape, step.last
        y, bar = tape.value(slot), self.q.bars[slot]
        adjoint = np.zeros(shape(y))[()] if bar is None else bar
        span = place(tape.position(slot))
        line = span.line if span else None
        if self._is_input(step):
            return Node(k, self.names[slot], "input", (), y, adjoint, partials, tuple(uses), line, ABSENT)
        written = self._text(step)
        operation = step.operation(written)
        if len(step.slots) == 1:
            _, slots, xs, _, _, _ = tape.lines[slot]
            pairs = zip(slots, xs, strict=True)
            operands = tuple(self.names[s] if s != CONSTANT else self._constant(x) for s, x in pairs)
        else:
            operands = tuple(dict.fromkeys(self.names[s] for s in step.operands))
        text = written or f"{operation}({', '.join(operands)})"
        return Node(k, self.names[slot], operation, operands, y, adjoint, partials, tuple(uses), line, text)


def _partial(line: Line, i: int) -> Any:
    """Return one local partial: an array if it is elementwise or the result is a scalar, else the transpose by name."""
    primitive, _, xs, y, params, _ = line
    if primitive is None:
        raise ValueError("an input has no partials")
    rule = primitive.rule(i)
    if isinstance(rule, Partial | Factor):
        return np.asarray(rule.slope(y, xs, params or {}), dtype=float)[()]
    if shape(y) == ():
        return np.asarray(rule.pull(np.float64(1), i, y, xs, params or {}, transpose), dtype=float)[()]
    return f"transpose of {primitive.name}"


def _same(value: Any, x: Value) -> bool:
    """Whether two values hold the same numbers in the same order, whatever their shapes."""
    try:
        return np.array_equal(np.ravel(np.asarray(value, dtype=float)), np.ravel(np.asarray(x, dtype=float)))
    except (TypeError, ValueError):
        return False
