"""The study behind `trace`: the program at one point, by the operations the user wrote, forward and backward."""

import ast
import linecache
import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np

from gradcli.arithmetic import recorded_program
from gradcli.arithmetic.ball import Ball, bound_error, decimal_strings, nearest_float64, precision, radius
from gradcli.arithmetic.recorded_program import RecordedProgram, record
from gradcli.arithmetic.tape import CONSTANT, SPENT, Line, Recorded, Tape, sweep_back, transpose
from gradcli.arithmetic.value_graph import write_formula
from gradcli.checks.framework_claim import describe_environment
from gradcli.checks.on_tape import SlipSearch, find_slip_on_tape
from gradcli.checks.request import Request
from gradcli.checks.wrong import MOST, CauseBudget, Gradient, Wrong
from gradcli.classes import dataclass
from gradcli.errors import BadClaim, GradcliError, Place, Span
from gradcli.modes.claim import Claimed, ClaimedExpressions
from gradcli.modes.mode import Question
from gradcli.modes.recording import Effort
from gradcli.report import numbers
from gradcli.report.check import CheckReport, worst_point
from gradcli.report.common import ABSENT, Absent, SourceLine, Target, finding
from gradcli.report.numbers import split_by_repetition
from gradcli.report.point_report import NativeReport, Part, PointReport
from gradcli.report.trace import CodeBlock, Contribution, Node, Proved, ScalarLine, ScalarProgram, TraceReport
from gradcli.rules.kinds import ConstantSlope, Partial
from gradcli.targets.derived import inner_gradient, original_function, record_checkpoints
from gradcli.targets.layers import Engine
from gradcli.targets.loading import run_user_code
from gradcli.targets.nesting import put_together
from gradcli.tracing.primitive import Primitive, Value
from gradcli.tracing.provenance import code_at, place_of_position
from gradcli.tracing.shapes import shape, zeros_like
from gradcli.tracing.tracer import plain_value
from gradcli.words import Kind, Severity, Verdict

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")
_SHAPE_PRIMITIVES = ("reshape", "transpose", "broadcast_to")


@dataclass(frozen=True)
class WalkthroughStep:
    """The lines recorded by one operation in the user's source; lines outside the step read only the value of its last line."""

    tape: Tape
    slots: tuple[int, ...]
    is_part: bool = False  # of a call that the source has as one operation

    @property
    def last(self) -> int:
        """The line that computes the value of the step."""
        return self.slots[-1]

    @cached_property
    def operands(self) -> tuple[int, ...]:
        """The slots outside the step that it reads, one for each use."""
        inside = set(self.slots)
        return tuple(s for k in self.slots for s in self.tape.operands(k) if s != CONSTANT and s not in inside)

    @cached_property
    def source(self) -> str:
        """The user's code that the step runs; an empty text where it is not known, or where the step is a part of it."""
        return "" if self.is_part else without_assignment(code_at(self.tape.position(self.last)))

    @cached_property
    def operation(self) -> str:
        """The name of the primitive, or of the called function if its call recorded several primitives."""
        every = [p.name for k in self.slots if (p := self.tape.primitive(k)) is not None]
        names = [name for name in every if name not in _SHAPE_PRIMITIVES] or every
        return (called_function_name(self.source) if len(names) > 1 else "") or names[-1]

    @property
    def elementwise(self) -> bool:
        """Whether each entry of the result depends on the same entry of each operand alone."""
        kinds = [p.kind for k in self.slots if (p := self.tape.primitive(k)) is not None]
        same = all(shape(self.tape.value(s)) in ((), shape(self.tape.value(self.last))) for s in self.operands)
        return same and all(kind == "elementwise" for kind in kinds)

    def vjp(self, ybar: Value) -> list[tuple[int, Value]]:
        """Pull the cotangent of the result back: return each operand with its cotangent, once for each use."""
        count = len(self.operands)
        local_slot = {k: count + n for n, k in enumerate(self.slots)}
        operand_slots = iter(range(count))
        local_lines: list[Line] = [SPENT] * count
        for k in self.slots:
            primitive, slots, xs, y, params, position = self.tape.lines[k]
            local_slots = tuple(
                s if s == CONSTANT else local_slot[s] if s in local_slot else next(operand_slots) for s in slots
            )
            local_lines.append((primitive, local_slots, xs, y, params, position))
        cotangents: list[Any] = [None] * len(local_lines)
        cotangents[-1] = ybar
        sweep_back(local_lines, cotangents, len(local_lines) - 1)
        return list(zip(self.operands, cotangents[:count], strict=True))


@lru_cache(maxsize=4096)
def called_function_name(text: str) -> str:
    """Return the name of the function that the text of an operation calls; an empty text if it calls none."""
    whole = parse_operation(text)
    function = whole.func if isinstance(whole, ast.Call) else None
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


@lru_cache(maxsize=4096)
def names_in(text: str, i: int) -> tuple[str, ...]:
    """Return the names that the text of an operation may have for its i-th operand.

    >>> names_in("x + y", 1), names_in("x.dot(y)", 1), names_in("np.outer(x, y)", 0)
    (('y',), ('x', 'y'), ('np', 'x', 'y'))
    """
    whole = parse_operation(text)
    if isinstance(whole, ast.BinOp):
        operands: list[ast.expr] = [whole.left, whole.right][i : i + 1]
    elif isinstance(whole, ast.Call):
        receiver = [whole.func.value] if isinstance(whole.func, ast.Attribute) else []
        operands = [*receiver, *whole.args, *(each.value for each in whole.keywords)]
    else:
        operands = [each for each in ast.walk(whole) if isinstance(each, ast.Name)] if whole else []
    return tuple(each.id for each in operands if isinstance(each, ast.Name))


@lru_cache(maxsize=4096)
def without_assignment(text: str) -> str:
    """Return the text of an operation, `h + x` for `h += x`."""
    if "=" not in text or len(text) > _LONGEST or parse_operation(text) is not None:
        return text
    try:
        statement = ast.parse(text).body[0]
    except (SyntaxError, ValueError, RecursionError):
        return text
    if not isinstance(statement, ast.AugAssign):
        return text
    target = ast.parse(ast.unparse(statement.target), mode="eval").body
    return ast.unparse(ast.BinOp(target, statement.op, statement.value))


_LONGEST = 1_000  # letters of an operation that is read: each of a long sum has all before it in its text


@lru_cache(maxsize=4096)
def parse_operation(text: str) -> ast.expr | None:
    """Return the text of an operation as Python reads it; None where it is not Python, or long."""
    try:
        return ast.parse(text, mode="eval").body if len(text) <= _LONGEST else None
    except (SyntaxError, ValueError, RecursionError):
        return None


# The user's code around recorded operations, line by line.

_AROUND = 2  # lines that are shown before and after one that was recorded
_MOST = 400  # lines that are shown


def source_around(places: Iterable[Place]) -> tuple[SourceLine, ...]:
    """Return the recorded lines of each file in their order, with the lines between and around them."""
    recorded: dict[str, set[int]] = {}
    texts: dict[tuple[str, int], str] = {}
    for at in places:
        recorded.setdefault(at.file, set()).add(at.line)
        texts[at.file, at.line] = at.text
    found: list[SourceLine] = []
    for file, marked in recorded.items():
        near = {k for line in marked for k in range(line - _AROUND, line + _AROUND + 1)}
        code = {k: texts.get((file, k)) or linecache.getline(file, k).rstrip("\n") for k in sorted(near)}
        filled = {k for k, text in code.items() if text.strip() or k in marked}
        found += [SourceLine(file, k, text) for k, text in code.items() if k in filled or {k - 1, k + 1} <= filled]
    return tuple(found[:_MOST])


_UNEVEN = (  # what is run another number of times than the statements around it, or not at all
    ast.If, ast.IfExp, ast.Match, ast.Try, ast.While, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda,
)  # fmt: skip


def blocks_of_file(file: str) -> Iterator[CodeBlock]:
    """Yield the functions and the loops of a file."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return
    above: list[tuple[ast.AST, str]] = [(tree, "")]
    for node, within in above:
        for child in ast.iter_child_nodes(node):
            is_function = isinstance(child, ast.FunctionDef)
            name = f"{within}{child.name}." if isinstance(child, ast.FunctionDef | ast.ClassDef) else within
            if isinstance(child, ast.FunctionDef | ast.For | ast.While):
                loop = f"for {ast.unparse(child.target)}" if isinstance(child, ast.For) else "while"
                title = name.removesuffix(".") if is_function else loop
                inside = [each for each in ast.walk(child) if isinstance(each, _UNEVEN)]
                uneven = tuple((each.lineno, each.end_lineno or each.lineno) for each in inside)
                yield CodeBlock(file, child.lineno, child.end_lineno or child.lineno, title, is_function, uneven)
            above.append((child, name))


# What ball arithmetic proves of every value of a recorded program, and of its adjoint.

_BITS = 192
_DIGITS = 30  # of the decimals
_MOST_DIGITS = 17.0  # that float64 can have


def proofs_in_balls(q: Question) -> list[Proved | None]:
    """Return what balls prove of each line of the recorded program.

    There are no proofs where the program takes more operations on balls than the certified mode does by default, or runs
    otherwise in balls than in float64.

    Cost  one forward and one backward sweep in balls.
    """
    floats = q.recording
    none: list[Proved | None] = [None] * len(q.lines)
    if not floats.moves or q.ball_work > Effort.DEFAULT.value or not np.all(np.isfinite(q.value)):
        return none
    try:
        with precision(_BITS), np.errstate(all="ignore"):
            balls = record(q.g, [Ball.lift(x) for x in q.xs])
            if not _has_same_operations(balls, floats) or not isinstance(balls.y, Recorded):
                return none
            bars = balls.tape.sweep(balls.y.slot, Ball.lift(np.ones(shape(q.value))[()]))
            pairs = zip(balls.tape.values, floats.tape.values, bars, q.bars, strict=True)
            return [_prove_line(*both) for both in pairs]
    except GradcliError:  # a comparison that is open at this precision, or an operation without balls
        return none


def _has_same_operations(balls: RecordedProgram, floats: RecordedProgram) -> bool:
    """Whether two runs made the same operations, on the same values and constants."""

    def has_same_constant(slot: int, x: Value, y: Value) -> bool:
        return slot != CONSTANT or np.array_equal(nearest_float64(x) if isinstance(x, Ball) else x, y)

    return len(balls.lines) == len(floats.lines) and all(
        one == other and slots == others and all(map(has_same_constant, slots, xs, ys))
        for (one, slots, xs, *_), (other, others, ys, *_) in zip(balls.lines, floats.lines, strict=True)
    )


def _prove_line(ball: Value, y: Value, ball_bar: Value, bar: Value) -> Proved | None:
    number = shape(y) == ()
    zero = zeros_like(y)
    bar, ball_bar = zero if bar is None else bar, Ball.lift(zero) if ball_bar is None else ball_bar
    if not (_is_narrow(ball, y) and _is_narrow(ball_bar, bar)):
        return None
    value, adjoint = (
        str(np.ravel(decimal_strings(Ball.lift(0) + x, _DIGITS))[0]) if number else None for x in (ball, ball_bar)
    )
    return Proved(value, adjoint, _right_digits(ball, y), _right_digits(ball_bar, bar))


def _is_narrow(ball: Value, approximate: Value) -> bool:
    """Whether balls tell all digits of float64 values, as they may not where a value depends on itself in a long loop."""
    size = float(np.max(np.abs(np.asarray(approximate)), initial=0.0))
    return bool(np.all(np.asarray(radius(Ball.lift(0) + ball)) <= 1e-17 * size)) or size == 0


def _right_digits(ball: Value, approximate: Value) -> float:
    """Return the right digits of the worst entry; an entry that is zero counts from the largest one."""
    error = np.asarray(bound_error(Ball.lift(0) + ball, approximate))
    size = np.abs(np.asarray(approximate))
    size = np.where(size == 0, float(np.max(size, initial=0.0)) or 1.0, size)
    worst = float(np.max(error / size, initial=0.0))
    return _MOST_DIGITS if worst == 0 else round(min(_MOST_DIGITS, max(0.0, -math.log10(worst))), 1)


def walkthrough(q: Question, *, prove: bool = False, claimed: Mapping[int, Value] | None = None) -> TraceReport:
    """Return the report of the computation, step by step; each adjoint is the derivative of the sum of all outputs.

    With `prove`, each value has its digits from ball arithmetic, where these are not too many operations. `claimed` has the
    adjoints of a wrong claim, by the number of a recorded line.
    """
    y, inputs, tape = q.recording
    result = y.slot if isinstance(y, Recorded) else CONSTANT
    last = max(result, len(inputs) - 1)  # what is computed after the result is no part of it
    steps = [step for step in _group_steps(tape, result) if step.last <= last]
    names = _name_values(q, result, steps, tape, len(inputs))
    with np.errstate(all="ignore"):
        nodes = _NodeBuilder(q, steps, names, proofs_in_balls(q) if prove else None, claimed or {}).build()
    findings = [
        finding(kind, Severity.WARNING, mark.says, at=place_of_position(mark.position))
        for kind, marks in ((Kind.KINK, q.kinks), (Kind.STAIRCASE, q.staircases))
        for mark in marks
    ]
    if q.not_finite is not None:
        bad = q.not_finite
        findings.append(finding(Kind.NON_FINITE, Severity.WARNING, bad.says, hint=bad.hint))
    places = [at for step in steps if isinstance(at := place_of_position(tape.position(step.last)), Place)]
    # The first node, from the result backward, whose adjoint a claim has otherwise. Where the claim is known at the inputs
    # alone, there is none: the order of the inputs says nothing.
    wrong = (node for node in reversed(nodes) if not isinstance(node.claimed, Absent) and node.operation != "input")
    departs = next((node.name for node in wrong), ABSENT)
    blocks = tuple(block for file in dict.fromkeys(at.file for at in places) for block in blocks_of_file(file))
    return TraceReport(
        Target(q.f.kind, q.f.text), q.point.values, q.point.drawn, q.seed, nodes, tuple(findings), describe_environment(),
        value=plain_value(y), result=names.get(result, ABSENT), departs=departs, source=source_around(places),
        blocks_of_code=blocks, program=scalar_program(tape, result, steps),
    )  # fmt: skip


_MOST_LINES = 200  # of a program that a page computes again


def scalar_program(tape: Tape, result: int, steps: Sequence[WalkthroughStep] = ()) -> ScalarProgram | None:
    """Return the program as one of numbers; None where a value is an array, or a derivative has no formula, or it is long."""
    if len(tape.lines) > _MOST_LINES or any(shape(y) != () for y in tape.values):
        return None
    recorded = (*tape.lines, *tape.decisions)
    if any(shape(x) != () for _, _, xs, *_ in recorded for x in xs):
        return None
    lines = [_scalar_line(line) for line in tape.lines]
    decisions = [_scalar_line(line, decided=True) for line in tape.decisions]
    known = [line for line in lines if line is not None]
    if len(known) < len(lines) or None in decisions:
        return None
    return ScalarProgram(
        tuple(known), result, tuple(step.slots for step in steps), tuple(filter(None, decisions)),
        tuple(float(y) for _, _, _, y, _, _ in tape.decisions),
        tuple(recorded_program.describe_position(at) or "" for *_, at in tape.decisions),
    )  # fmt: skip


def _scalar_line(line: Line, *, decided: bool = False) -> ScalarLine | None:
    primitive, slots, xs, _, params, _ = line
    if primitive is None:
        return ScalarLine("input")
    partials = [
        _rule_template(primitive, i, tuple((params or {}).items()), len(xs)) for i in range(len(xs) * (not decided))
    ]
    if None in partials or len(xs) > len(_LETTERS):
        return None
    try:
        numbers_of = tuple((name, float(x)) for name, x in (params or {}).items())
        operands = tuple(slot if slot != CONSTANT else float(x) for slot, x in zip(slots, xs, strict=True))
    except (TypeError, ValueError):
        return None
    return ScalarLine(primitive.name, operands, tuple(filter(None, partials)), numbers_of)


def _group_steps(tape: Tape, result: int) -> list[WalkthroughStep]:
    """Group the lines into steps: lines with the same source position form one step, unless an inner value is read outside it.

    What is one of several steps of one call, and read by the next of them, is a part of it, and not what the source says.
    """
    runs: list[list[int]] = []
    for k, (primitive, _, _, _, _, position) in enumerate(tape.lines):
        last_position = tape.position(runs[-1][-1]) if runs else None
        if primitive is not None and position is not None and position == last_position:
            runs[-1].append(k)
        else:
            runs.append([k])
    groups = [turn for run in runs for turn in split_by_repetition(run, [tape.primitive(k) for k in run])]
    group_of = {k: n for n, group in enumerate(groups) for k in group}
    operands = [(s, k) for k in range(len(tape.lines)) for s in tape.operands(k) if s != CONSTANT]
    read_outside = {s for s, k in operands if group_of[s] != group_of[k]} | {result}
    steps: list[WalkthroughStep] = []
    for group in groups:
        parts = [group] if not read_outside.intersection(group[:-1]) else [[k] for k in group]
        shared = len(parts) > 1 and bool(recorded_program.unpacked_names(tape.position(group[-1])))
        steps += [WalkthroughStep(tape, tuple(part), is_part=shared or part is not parts[-1]) for part in parts]
    places = (tape.position(k) for k in range(len(tape.lines)))
    here = [(id(at[0]), at[1]) if isinstance(at, tuple) else id(at) for at in places]
    read_here = {s for s, k in operands if here[s] == here[k]}
    for k, step in enumerate(steps):
        # the source has another name than the operation, as `multi_dot` for a product
        if step.last in read_here and called_function_name(step.source) not in ("", step.operation):
            steps[k] = replace(step, is_part=True)
    return steps


def _name_values(q: Question, result: int, steps: Sequence[WalkthroughStep], tape: Tape, inputs: int) -> dict[int, str]:
    """Return a name for the value of each step: that of an input or variable, `result`, or else a new name such as `t1`.

    A variable that gets several values, as in a loop, has their numbers: h₁, h₂.
    """
    variables = recorded_program.names_of_lines(tape.lines)
    reserved = {*q.point.values, *filter(None, variables)}
    numbered = (f"t{k}" for k in range(1, len(tape.lines) + len(reserved) + 2))
    fresh_names = (name for name in numbered if name not in reserved)
    known = {step.last: variables[step.last] for step in steps if not step.is_part} | _unpacked_variables(steps, tape)
    times = Counter([*q.point.values, *filter(None, known.values())])
    names: dict[int, str] = dict(enumerate(q.wrt[:inputs]))
    turn: Counter[str] = Counter()
    for slot in (step.last for step in steps if step.last >= inputs):
        name = known.get(slot)
        if name is not None and times[name] > 1:
            turn[name] += 1
            name += str(turn[name]).translate(_SUBSCRIPTS)
        names[slot] = name or ("result" if slot == result else next(fresh_names))
    return names


def _unpacked_variables(steps: Sequence[WalkthroughStep], tape: Tape) -> dict[int, str]:
    """Return the variables of values that one call shares out, `q, r = np.linalg.qr(A)`, as the operations that read them say."""
    shared = {step.last: set(recorded_program.unpacked_names(tape.position(step.last))) for step in steps}
    read: dict[int, set[str]] = defaultdict(set)
    for step in steps:
        both = len(step.operands) == 2
        for i, slot in enumerate(step.operands):
            sides = {*names_in(step.source, i)} if both else {*names_in(step.source, 0), *names_in(step.source, 1)}
            own = shared.get(slot, set()) & sides
            read[slot] |= own if len(own) == 1 else set()
    return {slot: next(iter(names)) for slot, names in read.items() if len(names) == 1}


# Formulas in matrix notation for the adjoint of an operand from the adjoint of the result: dL/dW = (dL/dz) xᵀ.


@dataclass(frozen=True, slots=True)
class Use:
    """One operation: its name, the names of its operands and of its result, and their shapes.

    `params` are the parameters of a primitive; None for a function that consists of several operations.
    """

    operation: str
    operands: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    y: str
    shape: tuple[int, ...]
    params: Mapping[str, Any] | None
    elementwise: bool

    @property
    def bar(self) -> str:
        """The adjoint of the result."""
        return f"(dL/d{self.y})"

    def times(self, factor: str) -> str:
        """Return the adjoint of the result times a factor; the product is elementwise if the result is an array."""
        return f"{self.bar} {'∘' if self.shape else '*'} {factor}"


def contribution_formula(use: Use, i: int) -> str:
    """Return the formula of the contribution to the adjoint of the i-th operand."""
    if i >= len(use.operands):
        return f"{use.bar} through {use.operation}"
    rule = _RULES.get(use.operation) if use.params is not None else None
    said = rule(use, i) if rule is not None else _function_formula(use)
    narrow = use.operation in _BROADCASTING and use.shapes[i] != use.shape
    return f"sum of {said}" if narrow else said[1:-1] if said == use.bar else said


def _function_formula(use: Use) -> str:
    """Return the formula by the derivative for a function of one operand; by name for any other operation."""
    if len(use.operands) != 1:
        return f"{use.bar} through {use.operation}"
    if use.operation == "mean":
        return f"{use.bar} / {math.prod(use.shapes[0]) // max(1, math.prod(use.shape))} in every entry"
    slope = f"{use.operation}'({use.operands[0]})"
    return use.times(slope) if use.elementwise or not use.shape else f"{slope}ᵀ {use.bar}"


def _matmul(use: Use, i: int) -> str:
    (a, b), (left, right) = use.operands, use.shapes
    if len(left) == len(right) == 1:
        return f"{use.bar} * {use.operands[1 - i]}"
    if i == 0:
        return f"{b} {use.bar}" if len(left) == 1 else f"{use.bar} {b}ᵀ"
    return f"{a} {use.bar}ᵀ" if len(left) == 1 else f"{a}ᵀ {use.bar}"


def _einsum(use: Use, i: int) -> str:
    vectors = len(use.shapes) == 2 and all(len(sizes) == 1 for sizes in use.shapes)
    return f"{use.bar} * {use.operands[1 - i]}" if vectors and not use.shape else f"{use.bar} through einsum"


def _power(use: Use, i: int) -> str:
    n = (use.params or {})["n"]
    return use.times(f"{n} {use.operands[0]}" if n == 2 else f"{n} {use.operands[0]}^{n - 1}")


def _divide(use: Use, i: int) -> str:
    a, b = use.operands
    return f"{use.bar} / {b}" if i == 0 else f"-{use.bar} {'∘' if use.shape else '*'} {a} / {b}^2"


_RULES: dict[str, Callable[[Use, int], str]] = {
    "add": lambda use, i: use.bar,
    "subtract": lambda use, i: use.bar if i == 0 else f"-{use.bar}",
    "negative": lambda use, i: f"-{use.bar}",
    "multiply": lambda use, i: use.times(use.operands[1 - i]),
    "divide": _divide,
    "matmul": _matmul,
    "einsum": _einsum,
    "integer_power": _power,
    "sum": lambda use, i: f"{use.bar} in every entry",
    "transpose": lambda use, i: f"{use.bar}ᵀ",
    "reshape": lambda use, i: f"{use.bar} in the shape of {use.operands[i]}",
    "getitem": lambda use, i: f"{use.bar} at its place, else 0",
}  # fmt: skip
_BROADCASTING = ("add", "subtract", "multiply", "divide")


@dataclass(frozen=True)
class _NodeBuilder:
    """Builds the nodes of the report from the steps."""

    q: Question
    steps: Sequence[WalkthroughStep]
    names: Mapping[int, str]
    proofs: Sequence[Proved | None] | None
    claimed: Mapping[int, Value]

    def build(self) -> tuple[Node, ...]:
        contributions: dict[int, list[Contribution]] = defaultdict(list)
        partials: dict[int, dict[str, Any]] = defaultdict(dict)  # the local ones by operand, summed over its uses
        uses: dict[int, Use] = {}  # by the last line of a step that is no input
        for step in self.steps:
            if step.tape.primitive(step.last) is None:
                continue
            found, own = self._step_partials(step), partials[step.last]
            for name, partial in ((self.names[slot], partial) for slot, partial in found):
                seen = own.get(name)
                is_text = isinstance(seen, str) or isinstance(partial, str)
                own[name] = partial if seen is None else f"{seen} and {partial}" if is_text else seen + partial
            uses[step.last], operands = self._use_and_operands(step)
            self._add_contributions(contributions, step, found, uses[step.last], operands)
        return tuple(
            self._make_node(k, step, uses.get(step.last), partials[step.last], contributions[step.last])
            for k, step in enumerate(self.steps)
        )

    def _step_partials(self, step: WalkthroughStep) -> list[tuple[int, Any]]:
        """Return `(slot, partial)` for each use of an operand.

        A partial is an array, or the string `transpose of NAME` if the local Jacobian is not elementwise.
        """
        if len(step.slots) == 1:
            line = step.tape.lines[step.last]
            operands = enumerate(step.tape.operands(step.last))
            return [(slot, _local_partial(line, i)) for i, slot in operands if slot != CONSTANT]
        value = step.tape.value(step.last)
        if shape(value) == () or step.elementwise:
            return [(slot, np.asarray(x, dtype=float)[()]) for slot, x in step.vjp(np.ones(shape(value))[()])]
        says = f"transpose of {step.operation}"
        return [(slot, says) for slot, _ in step.vjp(np.zeros(shape(value)))]

    def _add_contributions(
        self, to: dict[int, list[Contribution]], step: WalkthroughStep, partials: Sequence[tuple[int, Any]], use: Use,
        unmatched_slots: list[int],
    ) -> None:  # fmt: skip
        """Add what the step contributes to the adjoint of each of its operands."""
        ybar = self.q.bars[step.last]
        if ybar is None:
            return
        for (slot, partial), (_, product) in zip(partials, step.vjp(ybar), strict=True):
            i = unmatched_slots.index(slot) if slot in unmatched_slots else len(unmatched_slots)
            adjoint_formula = contribution_formula(use, i)
            rule = _rule_text(step.tape.lines[step.last], i, use) if len(step.slots) == 1 else ABSENT
            if slot in unmatched_slots:
                unmatched_slots[i] = CONSTANT  # so that a second use matches the next operand
            to[slot].append(Contribution(self.names[step.last], ybar, partial, product, adjoint_formula, rule))

    def _use_and_operands(self, step: WalkthroughStep) -> tuple[Use, list[int]]:
        """Return the data of a step that the formula of an adjoint needs, and the slots of its operands."""
        primitive_slots = [
            k for k in step.slots if (p := step.tape.primitive(k)) is not None and p.name not in _SHAPE_PRIMITIVES
        ]
        line = step.tape.lines[primitive_slots[0] if len(primitive_slots) == 1 else step.last]
        primitive, _, _, _, params, _ = line
        is_single_primitive = primitive is not None and len(primitive_slots) <= 1
        operands = [(s, step.tape.value(s)) for s in step.operands]
        if is_single_primitive:
            operands = self._written_operands(step, line)
        names = tuple(self._operand_name(step, i, slot, x) for i, (slot, x) in enumerate(operands))
        name = primitive.name if primitive is not None and is_single_primitive else step.operation
        shapes = tuple(shape(x) for _, x in operands)
        y = shape(step.tape.value(step.last))
        parameters = params or {} if is_single_primitive else None
        use = Use(name, names, shapes, self.names[step.last], y, parameters, step.elementwise)
        return use, [slot for slot, _ in operands]

    def _written_operands(self, step: WalkthroughStep, line: Line) -> list[tuple[int, Value]]:
        """Return the operands as the user wrote them, before reshaping and broadcasting inside the step."""
        _, slots, xs, _, _, _ = line
        inside = set(step.slots)
        found = []
        for slot, x in zip(slots, xs, strict=True):
            while slot in inside:
                _, before, values, _, _, _ = step.tape.lines[slot]
                slot, x = before[0], values[0]
            found.append((slot, x))
        return found

    def _operand_name(self, step: WalkthroughStep, i: int, slot: int, x: Value) -> str:
        """Return the name of the i-th operand; a constant has that in the source, of an input or an array, or its value."""
        if slot != CONSTANT:
            return self.names[slot]
        given = {n: v for n, v in self.q.point.values.items() if n not in self.q.wrt}
        names = names_in(step.source, i)
        if shape(x) and len(names) == 1 and isinstance(parse_operation(step.source), ast.BinOp):
            return names[0]
        return next((n for n in names if n in given and _has_same_numbers(given[n], x)), numbers.write_value(x))

    def _make_node(
        self, k: int, step: WalkthroughStep, use: Use | None, partials: dict[str, Any], contributions: list[Contribution]
    ) -> Node:  # fmt: skip
        tape, slot = step.tape, step.last
        y, bar = tape.value(slot), self.q.bars[slot]
        adjoint = np.zeros(shape(y))[()] if bar is None else bar
        span = place_of_position(tape.position(slot))
        line = span.line if span else None
        file = span.file if isinstance(span, Place) else ABSENT
        proved = (self.proofs[slot] if self.proofs else None) or ABSENT
        column = span.column + 1 if span and not step.is_part and (isinstance(span, Span) or span.length) else ABSENT
        operands: tuple[str, ...] = ()
        text: str | Absent = ABSENT
        if use is not None:
            operands = use.operands if len(step.slots) == 1 else tuple(dict.fromkeys(use.operands))
            # where the source does not have it as one operation: t1 / 3.0, sum(t1)
            sign = _SIGNS.get(use.operation) if len(use.operands) == 2 else None
            in_words = f" {sign} ".join(use.operands) if sign else f"{use.operation}({', '.join(use.operands)})"
            text = step.source or in_words
        return Node(
            k, self.names[slot], "input" if use is None else step.operation, operands, y, adjoint, partials, tuple(contributions),
            line, text, column=column, file=file, proved=proved, claimed=self.claimed.get(slot, ABSENT),
        )  # fmt: skip


_SIGNS = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "matmul": "@"}


def _local_partial(line: Line, i: int) -> Any:
    """Return the local partial with respect to operand i.

    It is an array if the operation is elementwise or its result a scalar, else the string `transpose of NAME`.
    """
    primitive, _, xs, y, params, _ = line
    assert primitive is not None  # no input
    rule = primitive.rule(i)
    if isinstance(rule, Partial | ConstantSlope):
        return np.asarray(rule.slope(y, xs, params or {}), dtype=float)[()]
    if shape(y) == ():
        return np.asarray(rule.pull(np.float64(1), i, y, xs, params or {}, transpose), dtype=float)[()]
    return f"transpose of {primitive.name}"


def _rule_text(line: Line, i: int, use: Use) -> str | Absent:
    """Return the local partial with respect to operand i as a formula in the names of the program."""
    primitive, _, _, _, params, _ = line
    if primitive is None or i >= len(use.operands) or len(use.operands) > len(_LETTERS):
        return ABSENT
    template = _rule_template(primitive, i, tuple((params or {}).items()), len(use.operands))
    names = dict(zip(_LETTERS, use.operands, strict=False), y=use.y)
    return ABSENT if template is None else _LETTER.sub(lambda found: names.get(found[0], found[0]), template)


_LETTERS = ("a", "b", "c", "d")  # of the operands in a rule; y is the result
_LETTER = re.compile(r"\b[abcdy]\b")


def _rule_template(primitive: Primitive, i: int, params: tuple[Any, ...], operands: int) -> str | None:
    """Return the local partial as a formula of y and of the letters of the operands; None if it is not elementwise."""
    try:
        return _written_rule(primitive, i, params, operands)
    except TypeError:  # parameters that cannot be hashed
        return None


@cache
def _written_rule(primitive: Primitive, i: int, params: tuple[Any, ...], operands: int) -> str | None:
    rule = primitive.rule(i)
    if isinstance(rule, ConstantSlope):
        return f"{rule.factor:g}"
    return write_formula(rule.partial, _LETTERS[:operands], dict(params)) if isinstance(rule, Partial) else None


def _has_same_numbers(value: Any, x: Value) -> bool:
    """Whether two values hold the same numbers in the same order, whatever their shapes."""
    if np.size(value) != np.size(x):
        return False
    try:
        return np.array_equal(np.ravel(np.asarray(value, dtype=float)), np.ravel(np.asarray(x, dtype=float)))
    except (TypeError, ValueError):
        return False


# The walkthrough of a point that was checked, with the adjoints of a wrong claim beside the right ones.

_ROUNDED = 1e-6  # relative, also of a value in float32
MOST_NODES = 200_000  # lines of a program that is walked through


# Where a wrong claim departs from the right gradient: the node, and the line of code with the mistake.

_MOST_SHOWN = 60  # lines of a function that are shown


def locate_mistake(trace: TraceReport, report: CheckReport, number: int) -> TraceReport:
    """Return the walkthrough of a point with the line of code that makes its claim depart.

    Where a custom gradient of a framework is wrong, the claim departs at what enters it.
    """
    said = report.points[number].diagnosis
    for part in report.native.parts if isinstance(report.native, NativeReport) else ():
        node = _last_node_read(trace, part) if part.verdict == Verdict.FAIL else None
        if node is not None and isinstance(part.file, str) and isinstance(part.line, int):
            at = SourceLine(part.file, part.line, str(part.source or ""))
            same_file = said is not None and said.file == at.file
            if said is not None and same_file and said.line in _innermost_lines(at.file, at.line, ast.FunctionDef):
                at = SourceLine(at.file, said.line or at.line, said.source or "")
            return replace(show_function_around(trace, at.file, at.line), departs=node, mistake=at)
    if said is None or said.file is None or said.line is None:
        return trace
    return replace(
        show_function_around(trace, said.file, said.line), mistake=SourceLine(said.file, said.line, said.source or "")
    )


def show_function_around(trace: TraceReport, file: str, line: int) -> TraceReport:
    """Return the walkthrough with the whole function around a line among the lines of code that are shown."""
    lines = _innermost_lines(file, line, ast.FunctionDef)[:_MOST_SHOWN]
    known = {(shown.file, shown.line) for shown in trace.source}
    more = [SourceLine(file, k, linecache.getline(file, k).rstrip("\n")) for k in lines if (file, k) not in known]
    files = list(dict.fromkeys(shown.file for shown in (*trace.source, *more)))
    return replace(trace, source=tuple(sorted((*trace.source, *more), key=lambda s: (files.index(s.file), s.line))))


def _last_node_read(trace: TraceReport, part: Part) -> str | None:
    """Return the name of the last node that a custom gradient reads; None if its forward function was not recorded."""
    lines = _innermost_lines(part.file, part.line, ast.ClassDef) if part.file and part.line else range(0)
    inside = {node.name for node in trace.nodes if node.file == part.file and node.line in lines}
    read = {name for node in trace.nodes if node.name in inside for name in node.partials} - inside
    return next((node.name for node in reversed(trace.nodes) if node.name in read), None)


def _innermost_lines(file: str, line: int, kind: type[ast.ClassDef] | type[ast.FunctionDef]) -> range:
    """Return the lines of the innermost class or function that holds a line; none where there is none."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return range(0)
    found = [node for node in ast.walk(tree) if isinstance(node, kind)]
    ranges = [range(node.lineno, (node.end_lineno or node.lineno) + 1) for node in found]
    return min((lines for lines in ranges if line in lines), key=len, default=range(0))


# The adjoints that a wrong claim has: at the inputs those claimed, inside the program those that its mistake makes.

_SAME_ADJOINT = 1e-9  # relative: adjoints that differ by less differ by rounding


def claimed_adjoints(q: Question, point: PointReport) -> dict[int, Value]:
    """Return, by the number of a line, the adjoints that a wrong claim at a point has otherwise than the right gradient.

    Each is the derivative of the sum of all outputs, as the right adjoints are.
    """
    claim = point.modes.get("claim")
    if claim is None or not point.mismatches or point.reference is None:
        return {}
    claimed = {name: np.asarray(x, dtype=float) for name, x in claim.values.items() if name in q.wrt}
    right = {
        name: np.asarray(x, dtype=float) for name, x in point.modes[point.reference].values.items() if name in claimed
    }
    if claimed.keys() != right.keys() or any(claimed[name].shape != right[name].shape for name in claimed):
        return {}
    outputs = tuple(range(np.ndim(q.value)))
    wrong = {m.input for m in point.mismatches}
    inputs = {x.slot: name for x, name in zip(q.recording.inputs, q.wrt, strict=True)}
    found = {k: np.sum(claimed[name], axis=outputs)[()] for k, name in inputs.items() if name in wrong}
    program = _program_with_slip(q, point, claimed, right)
    if program is None:
        return found
    bars = program.tape.sweep(program.y.slot, np.ones(shape(q.value))[()])
    inside = range(len(inputs), len(bars))
    return found | {k: bars[k] for k in inside if bars[k] is not None and _is_changed(bars[k], q.bars[k])}


def engine_walkthrough(q: Question, engine: Engine, *, prove: bool) -> TraceReport:
    """Return the walkthrough of a function of an engine's values, with the gradients that its objects have otherwise.

    The function is run twice, on tracers and on numbers: the objects that are made first, second and so on are the same ones.
    """
    f = original_function(q.f)
    arguments = {name: put_together(node, q.point.values) for name, node in getattr(f, "arguments", {}).items()}
    with np.errstate(all="ignore"):
        with engine.objects() as traced:
            program = record(q.g, q.xs)
        with engine.objects() as run, run_user_code(f"{engine.name}.backward", BadClaim):
            engine.gradients(**arguments)
    claimed: dict[int, Value] = {}
    if not traced or len(traced) != len(run) or len(program.lines) != len(q.lines):
        says = f"the objects of {engine.name} cannot be followed: two runs make {len(traced)} and {len(run)} of them"
        found = walkthrough(q, prove=prove)
        return replace(found, findings=(*found.findings, finding(Kind.NOTICE, Severity.WARNING, says)))
    with run_user_code(f"{engine.name}.backward", BadClaim):
        for y, slope in zip(engine.values_of(traced), engine.slopes_of(run), strict=True):
            given = np.asarray(slope, dtype=float)[()]
            right = q.bars[y.slot] if isinstance(y, Recorded) else None
            if isinstance(y, Recorded) and _is_changed(given, zeros_like(plain_value(y)) if right is None else right):
                claimed[y.slot] = given
    return replace(walkthrough(q, prove=prove, claimed=claimed), engine=engine.name)


def _is_changed(slipped: Value, right: Value | None) -> bool:
    """Whether a mistake changes an adjoint; both are computed by the same operations, up to where the mistake is."""
    if right is None or shape(slipped) != shape(right):
        return True
    with np.errstate(invalid="ignore"):
        apart = np.abs(np.asarray(slipped) - right) > _SAME_ADJOINT * np.abs(right)
    return bool(np.any(apart | (np.isfinite(slipped) != np.isfinite(right))))


def _program_with_slip(q: Question, point: PointReport, claimed: Gradient, right: Gradient) -> RecordedProgram | None:
    """Return the recorded program with the one slip that makes the whole claim; None if none on a line of it does."""
    if point.diagnosis is None or point.diagnosis.line is None:
        return None
    masks = {name: np.zeros(x.shape, dtype=bool) for name, x in claimed.items()}
    room = {name: np.zeros(x.shape) for name, x in claimed.items()}
    for mismatch in point.mismatches:
        at = (*(mismatch.output if isinstance(mismatch.output, tuple) else ()), *mismatch.index)
        masks[mismatch.input][at], room[mismatch.input][at] = True, mismatch.bound
    wrong = Wrong(q, claimed, right, masks, room)
    if find_slip_on_tape(wrong) is None or not wrong.slipped:
        return None
    program = wrong.slipped[-1]
    search = SlipSearch(replace(wrong, budget=CauseBudget(MOST)), program)
    return program if search.explains(search.made(program)) == "" else None


def point_walkthrough(request: Request, report: CheckReport) -> TraceReport | str:
    """Return the walkthrough at the point that decides the verdict, or a sentence that says why there is none."""
    number = worst_point(report)
    if number >= len(request.points):
        return "The point was found later, and the function was not recorded there."
    if inner_gradient(request.f) is not None:
        return f"The computation is drawn for gradients and Jacobians, not for a {request.derivative}."
    q = request.question(request.points[number])
    try:
        q.refuse_untraced()
        if len(q.lines) > MOST_NODES:
            return f"The computation has {len(q.lines):,} operations, too many to be drawn."
        with np.errstate(all="ignore"), record_checkpoints():
            value = report.points[number].value
            # up to what threads and devices change
            if not isinstance(value, Absent) and not np.allclose(
                plain_value(q.recording.y), value, rtol=_ROUNDED, atol=0, equal_nan=True
            ):
                return "The computation is not drawn: the function gave another value when it was called again."
            engine = None if request.layer is None else request.layer.engine
            if engine is not None:
                return locate_mistake(engine_walkthrough(q, engine, prove=True), report, number)
            found = walkthrough(q, prove=True, claimed=claimed_adjoints(q, report.points[number]))
            return locate_mistake(replace(found, claims=_claim_programs(request.claim, q)), report, number)
    except GradcliError as error:
        return f"The computation cannot be drawn: {error.what}."


def _claim_programs(claim: Claimed | None, q: Question) -> dict[str, ScalarProgram]:
    """Return the claims that are expressions of numbers as programs, by input: a page can compute them at other values."""
    found: dict[str, ScalarProgram] = {}
    if not isinstance(claim, ClaimedExpressions) or any(map(np.ndim, q.xs)):
        return found
    fixed = {**claim.sizes, **q.point.values}
    for name, instructions in claim.programs.items():
        try:
            made = record(lambda *xs, run=instructions.run: run(fixed | dict(zip(q.wrt, xs, strict=True))), q.xs)
        except GradcliError:  # an operation that has a value and no derivative: this claim stays that of the point
            continue
        program = scalar_program(made.tape, made.y.slot) if made.moves and isinstance(made.y, Recorded) else None
        found |= {} if program is None else {name: program}
    return found
