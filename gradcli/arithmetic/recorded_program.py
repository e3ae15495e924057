"""The recorded program: what a function computed at one point, to be swept back, run again, or changed at some of its lines."""

import ast
import linecache
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from gradcli.arithmetic.tape import CONSTANT, EndedSweep, Line, Recorded, Tape
from gradcli.classes import dataclass
from gradcli.errors import BadShape, NotSupported, Place, Span
from gradcli.report.numbers import split_by_repetition
from gradcli.rules.reductions import MAX, SUM
from gradcli.tracing import shapes
from gradcli.tracing.primitive import PRIMITIVES, Rule, Value, open_sweep, without_ended_sweeps
from gradcli.tracing.provenance import is_users_file, place_of_position, whole_extent
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import SeldomCollected, Tracer


class RecordedProgram(NamedTuple):
    """A function's value, still recorded, its inputs, and the tape of what was computed on the way."""

    y: Value
    inputs: list[Recorded]
    tape: Tape

    @property
    def value(self) -> Value:
        """The value, no longer recorded."""
        return self.y.primal if isinstance(self.y, Recorded) else self.y

    @property
    def moves(self) -> bool:
        """Whether the value depends on the inputs at all."""
        return isinstance(self.y, Recorded) and self.y.slot != CONSTANT

    @property
    def lines(self) -> list[Line]:
        """What was computed, in order, the inputs first."""
        return self.tape.lines

    def pull(self, ybar: Value) -> list[Value]:
        """Return the cotangents of the inputs, given that of the value; zeros where it does not move."""
        return self.tape.pull(self.y, ybar, self.inputs)

    def on(self, tape: Tape) -> "RecordedProgram":
        """Return the program with the lines of another tape, one for each of its own."""
        y = Recorded(tape.value(self.y.slot), self.y.slot, tape) if self.moves else self.y
        return RecordedProgram(y, self.inputs, tape)

    def with_rules(self, rules: Mapping[int, Mapping[int, Rule]]) -> "RecordedProgram":
        """Return the program with other rules: `rules[k][i]` is that of argument i at line k."""
        lines = {}
        for k, changed in rules.items():
            primitive, slots, xs, y, params, position = self.lines[k]
            if primitive is not None:
                own = tuple(changed.get(i) or primitive.rule(i) for i in range(len(slots)))
                lines[k] = replace(primitive, rules=own), slots, xs, y, params, position
        return self.with_lines(lines)

    def with_lines(self, lines: Mapping[int, Line]) -> "RecordedProgram":
        """Return the program with other lines in place of some."""
        made = Tape(self.tape.level)
        made.lines = list(self.lines)
        for k, line in lines.items():
            made.lines[k] = line
        return self.on(made)

    def with_inputs(self, xs: Sequence[Value]) -> "RecordedProgram":
        """Return the program at other inputs, run again on the branches that were taken."""
        made, given = Tape(self.tape.level), {own.slot: x for own, x in zip(self.inputs, xs, strict=True)}
        for k, (primitive, slots, operands, y, params, position) in enumerate(self.lines):
            if primitive is None:
                y = given.get(k, y)
            else:
                operands = [
                    x if slot == CONSTANT else made.value(slot) for slot, x in zip(slots, operands, strict=True)
                ]
                y = primitive.fun(*operands, **(params or {}))
            made.lines.append((primitive, slots, operands, y, params, position))
        return self.on(made)

    def without_constants(self, lines: frozenset[int]) -> "RecordedProgram":
        """Return the program with zeros as the constants of some lines, and what depends on them run again."""
        made, moved = Tape(self.tape.level), set(lines)
        for k, (primitive, slots, xs, y, params, position) in enumerate(self.lines):
            if primitive is not None and (k in lines or moved.intersection(slots)):
                moved.add(k)
                xs = [
                    made.value(slot) if slot != CONSTANT else 0 * x if k in lines else x
                    for slot, x in zip(slots, xs, strict=True)
                ]
                y = primitive.fun(*xs, **(params or {}))
            made.lines.append((primitive, slots, xs, y, params, position))
        return self.on(made)

    def last_reads(self) -> list[list[int]]:
        """Return, for each line, the slots that no later line or decision reads, nor the caller as the program's value."""
        last = {slot: k for k, (_, slots, *_) in enumerate(self.lines) for slot in slots}
        kept = {slot for _, slots, *_ in self.tape.decisions for slot in slots} | {
            self.y.slot if self.moves else CONSTANT
        }
        found: list[list[int]] = [[] for _ in self.lines]
        for slot, k in last.items():
            if slot != CONSTANT and slot not in kept:
                found[k].append(slot)
        return found

    def run(self, xs: Sequence[Value]) -> Value | None:
        """Return the value at other inputs, or None where the program would have decided otherwise there.

        Decisions are comparisons, orders and steps like rounding: what the record holds as constants.

        Raises  what an operation raises, as where a matrix has no factors.
        """
        values: list[Value] = [None] * len(self.lines)
        for recorded, x in zip(self.inputs, xs, strict=True):
            values[recorded.slot] = x

        def operands(slots: Sequence[int], constants: Sequence[Value]) -> list[Value]:
            return [x if slot == CONSTANT else values[slot] for slot, x in zip(slots, constants, strict=True)]

        last_reads = self.last_reads()
        for k, (primitive, slots, constants, _, params, _) in enumerate(self.lines):
            if primitive is None:
                continue
            if params:
                values[k] = primitive.fun(*operands(slots, constants), **params)
            elif len(slots) == 2:  # most lines: without a list for the operands
                (i, j), (a, b) = slots, constants
                values[k] = primitive.fun(a if i == CONSTANT else values[i], b if j == CONSTANT else values[j])
            else:
                values[k] = primitive.fun(*operands(slots, constants))
            for slot in last_reads[k]:
                values[slot] = None
        for primitive, slots, constants, decided, params, _ in self.tape.decisions:
            if primitive is not None and max(slots) != CONSTANT:
                again = primitive.fun(*operands(slots, constants), **(params or {}))
                if not np.array_equal(again, decided, equal_nan=True):
                    return None
        return values[self.y.slot] if self.moves else self.value


def record(f: Callable[..., Value], xs: Sequence[Value], swept_once: bool = False) -> RecordedProgram:
    """Run `f` on a new tape and return the program."""
    shapes.reuse_pages()
    with SeldomCollected(), open_sweep() as level:
        tape = Tape(level, swept_once)
        inputs = [tape.variable(x) for x in xs]
        y = without_ended_sweeps(f(*inputs))
        tape.lines, tape.decisions = EndedSweep(tape.lines), EndedSweep(tape.decisions)
        return RecordedProgram(y, inputs, tape)


def vjp(f: Callable[..., Value], xs: Sequence[Value]) -> tuple[Value, Callable[[Value], list[Value]]]:
    """Return f(*xs) and `pull`, which takes a cotangent of the value to the cotangents of the inputs."""
    y, inputs, tape = record(f, xs)
    value = y.primal if isinstance(y, Recorded) and y.tape is tape else y
    return value, lambda ybar: tape.pull(y, ybar, inputs)


def value_and_gradient(
    f: Callable[..., Value], xs: Sequence[Value], one: Callable[[Value], Value]
) -> tuple[Value, list[Value]]:
    """Return f(*xs), a scalar, and its gradient; the tape is used up. `one` gives the cotangent to begin with.

    Raises  BadShape where the value is no scalar.
    """
    for x in xs:
        if isinstance(x, Tracer) and x.differentiated is not None:
            return x.differentiated(f, xs)
    y, inputs, tape = record(f, xs, swept_once=True)
    value = y.primal if isinstance(y, Recorded) and y.tape is tape else y
    if shape(value) != ():
        says = f"the value has shape {shape(value)}, and only a scalar has a gradient"
        raise BadShape(says, do="use gradcli.jacobian")
    xbars = tape.pull(y, one(value), inputs, once=True)
    if any(map(_has_nan, xbars)):
        y, inputs, tape = record(f, xs)
        xbars = tape.pull(y, one(value), inputs)
    return value, xbars


def _has_nan(x: Value) -> bool:
    """Whether a plain value has a nan: the least entry is nan then."""
    if type(x) is np.ndarray:
        return bool(np.isnan(np.minimum.reduce(x, axis=None, initial=np.inf)))
    return type(x) is np.float64 and bool(np.isnan(x))


# The origin of a recorded line: a line of user code or a piece of an expression, and the name that the statement assigns.


def describe_position(position: Any) -> str | None:
    """Return a recorded position as text: `loss.py:5`, or `columns 7-9` of an expression; None if it is unknown."""
    found = place_of_position(position)
    if isinstance(found, Place):
        return f"{found.file}:{found.line}"
    if isinstance(found, Span):
        first, last = found.column + 1, found.column + len(found.source.split("\n")[0])
        column = f"column {first}" if first >= last else f"columns {first}-{last}"
        return f"line {found.line}, {column}" if "\n" in found.text else column
    return None


def names_of_lines(lines: Sequence[Line]) -> list[str | None]:
    """Return, for each line of a tape, the variable that its statement assigns its value to, or None.

    Of the lines that one operation of the source records, the last has the name; in a loop, the last of each turn.
    """
    places = [(k, primitive, position) for k, (primitive, _, _, _, _, position) in enumerate(lines)]
    found: list[str | None] = [None] * len(lines)
    for position, run in groupby(places, lambda place: place[2]):
        name = None if position is None else _name_at_position(position)
        here = [(k, primitive) for k, primitive, _ in run] if name else []
        for turn in split_by_repetition(here, [primitive for _, primitive in here]):
            found[turn[-1][0]] = name
    return found


def inner_lines_of_products(lines: Sequence[Line]) -> set[int]:
    """Return the inner lines of products recorded as exp(sum(log(x))): the logarithm and the sum."""
    found: set[int] = set()
    for k in range(len(lines) - 2):
        (log, _, _, _, _, at), (add, summed, _, _, _, also), (exp, raised, _, _, _, still) = lines[k : k + 3]
        made = [primitive.name if primitive is not None else "" for primitive in (log, add, exp)]
        if made == ["log", "sum", "exp"] and (summed, raised) == ((k,), (k + 1,)) and at == also == still:
            found |= {k, k + 1}
    return found


def unpacked_names(position: Any) -> tuple[str, ...]:
    """Return the variables that share what is computed at a position: q and r of `q, r = np.linalg.qr(A)`."""
    found = _names_at_position(position) if isinstance(position, tuple) else ()
    return found if len(found) > 1 else ()


def _name_at_position(position: Any) -> str | None:
    """Return the variable that is assigned what is computed at a position."""
    if not isinstance(position, tuple):
        return getattr(position, "name", None)
    found = _names_at_position(position)
    return found[0] if len(found) == 1 else None


def _names_at_position(position: tuple[Any, int]) -> tuple[str, ...]:
    code, instruction = position
    if not is_users_file(code.co_filename):
        return ()
    assigned = _assignments_of_source("".join(linecache.getlines(code.co_filename)))
    return assigned.get(whole_extent(code, instruction), ())


@cache
def _assignments_of_source(source: str) -> dict[tuple[int, int | None, int | None, int | None], tuple[str, ...]]:
    """Return the variables that a file assigns, by the place of what they are assigned: line, last line, column, end."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return {}
    found: dict[tuple[int, int | None, int | None, int | None], tuple[str, ...]] = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) or node.value is None:
            continue
        at = node if isinstance(node, ast.AugAssign) else node.value
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target, value in _pair_targets(targets[0], at) if len(targets) == 1 else ():
            several = [target] if isinstance(target, ast.Name) else getattr(target, "elts", [])
            names = tuple(each.id for each in several if isinstance(each, ast.Name))
            if names and len(names) == len(several):
                found[value.lineno, value.end_lineno, value.col_offset, value.end_col_offset] = names
    return found


def _pair_targets(target: ast.expr, value: ast.expr | ast.stmt) -> Iterator[tuple[ast.expr, ast.expr | ast.stmt]]:
    """Yield what is assigned, and what to: of `a, b = x, y` each of both."""
    if isinstance(target, ast.Tuple | ast.List) and isinstance(value, ast.Tuple | ast.List):
        starred = any(isinstance(x, ast.Starred) for x in (*target.elts, *value.elts))
        if len(target.elts) == len(value.elts) and not starred:
            for each, part in zip(target.elts, value.elts, strict=True):
                yield from _pair_targets(each, part)
    else:
        yield target, value


# A recorded run as plain data: what another arithmetic, in another process, needs to run it again.


@dataclass(slots=True)
class Plan:
    """Steps `(primitive, operand slots, constants, params)` after the inputs; branches are already taken.

    `terms[k]` is the size of slot k written out as a formula, in terms per entry.
    """

    inputs: int
    steps: list[tuple[str, tuple[int, ...], tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    terms: list[float] = field(default_factory=list)
    result: int = CONSTANT

    def run(self, xs: list[Value]) -> Value:
        """Return the result for other inputs, in their arithmetic."""
        values = list(xs)
        for name, slots, constants, params in self.steps:
            pairs = zip(slots, constants, strict=True)
            operands = (constant if slot == CONSTANT else values[slot] for slot, constant in pairs)
            values.append(PRIMITIVES[name](*operands, **params))
        return values[self.result]

    def add(self, name: str, operands: list[tuple[int, Any]], params: dict[str, Any], terms: float) -> int:
        """Append a step on `(slot, constant)` operands and return its slot."""
        slots, constants = tuple(slot for slot, _ in operands), tuple(constant for _, constant in operands)
        self.steps.append((name, slots, constants, params))
        self.terms.append(terms)
        return len(self.terms) - 1


def make_plan(program: RecordedProgram) -> Plan:
    """Return a recorded program as plain data, with every kink replaced by the branch that was taken."""
    y, inputs, tape = program
    made = Plan(len(inputs), terms=[1.0] * len(inputs))
    moved = {x.slot: k for k, x in enumerate(inputs)}
    for slot, line in enumerate(tape.lines[: y.slot + 1]):
        if tape.primitive(slot) is not None:
            moved[slot] = _add_line(made, line, moved)
    made.result = moved[y.slot]
    return made


def _add_line(made: Plan, line: Line, moved: dict[int, int]) -> int:
    primitive, slots, xs, y, params, _ = line
    if primitive is None:
        raise ValueError("an input is no step")
    if PRIMITIVES.get(primitive.name) is not primitive:
        raise NotSupported(f"{primitive.name} is a rule of your own, which sympy does not know")
    operands = [(CONSTANT, x) if slot == CONSTANT else (moved[slot], None) for slot, x in zip(slots, xs, strict=True)]
    inside = [1.0 if slot == CONSTANT else made.terms[slot] for slot, _ in operands]
    weights = None if primitive.branch is None else primitive.branch(y, *xs, **(params or {}))
    if weights is not None:
        weighted = zip(operands, weights, inside, strict=True)
        products = [made.add("multiply", [x, (CONSTANT, w)], {}, t) for x, w, t in weighted]
        if primitive is MAX:
            return made.add(SUM.name, [(products[0], None)], dict(params or {}), inside[0])
        return products[0] if len(products) == 1 else made.add("add", [(k, None) for k in products], {}, max(inside))
    fan = primitive.cost.terms(xs, y)
    return made.add(primitive.name, operands, dict(params or {}), 1.0 + fan * sum(inside))
