"""The gradient of a program, written by its rules: the reverse sweep as further nodes.

A rule that needs no values becomes the operations it consists of. Any other is one operation, which calls the rule on the
values of each run.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from gradcli.arithmetic.recorded_program import vjp
from gradcli.arithmetic.tape import CONSTANT, SPENT, Line, sweep_back, transpose
from gradcli.classes import dataclass
from gradcli.compiling.abstract import DetachedFunction
from gradcli.compiling.straight_line import OfNode, Operation, ProgramNode, StraightLine, is_zero
from gradcli.errors import BadShape, CannotCompile, GradcliError, TraceEnded
from gradcli.rules.kinds import ConstantSlope, Differential, Partial
from gradcli.rules.shaping import PUT, SELECT
from gradcli.tracing import shapes
from gradcli.tracing.domain import REAL
from gradcli.tracing.primitive import Params, Primitive, Transposer, Value, primitive_by_name
from gradcli.tracing.shapes import shape

_ADD, _MULTIPLY, _NEGATIVE = map(primitive_by_name, ("add", "multiply", "negative"))


def same(x: Value) -> Value:
    """Return the operand: what is differentiated is a node of its own."""
    return x


def seed(y: Value) -> Value:
    """Return the cotangent of a scalar, with which a reverse sweep begins: one, or nan where the scalar is nan."""
    return np.where(np.isnan(y), np.nan, 1.0)[()]


def times(ybar: Value, slope: Value) -> Value:
    """Return the product of a cotangent and a slope; zero where the cotangent is zero and the slope is not finite."""
    return np.where(np.equal(ybar, 0) & ~np.isfinite(slope), 0.0, np.multiply(ybar, slope))[()]


@dataclass(frozen=True, slots=True)
class Slope:
    """The slope of an elementwise primitive by argument `i`, from its value and its operands."""

    primitive: Primitive
    i: int

    @property
    def rule(self) -> Partial:
        """The rule that has the slope."""
        rule = self.primitive.rule(self.i)
        assert isinstance(rule, Partial)
        return rule

    def __call__(self, y: Value, *xs: Value, **params: Any) -> Value:
        return self.rule.slope(y, xs, params)


@dataclass(frozen=True, slots=True)
class Pulled:
    """The cotangent of argument `i` of a primitive, by its rule: from that of the value, the value and the operands."""

    primitive: Primitive
    i: int

    def __call__(self, ybar: Value, y: Value, *xs: Value, **params: Any) -> Value:
        return self.primitive.rule(self.i).pull(ybar, self.i, y, xs, params, transpose)


@dataclass(frozen=True, slots=True)
class Through:
    """The cotangent of argument `i` of any operation, by a tape that is recorded at each run."""

    operation: Operation
    i: int

    def __call__(self, ybar: Value, *xs: Value, **params: Any) -> Value:
        def alone(x: Value) -> Value:
            return self.operation(*xs[: self.i], x, *xs[self.i + 1 :], **params)

        return vjp(alone, [xs[self.i]])[1](ybar)[0]


def value_and_gradient(f: Callable[..., Value], xs: Sequence[OfNode | Value]) -> tuple[Value, list[Value]]:
    """Return a scalar function's value and gradient at values of a program that is being written, as nodes of it.

    Raises  BadShape if the value is not a scalar.
    """
    program = next(x.program for x in xs if isinstance(x, OfNode))
    inputs = [program.operation(same, [x], {}, again=True) for x in xs]
    y = f(*inputs)
    if getattr(y, "program", None) is not program:
        return y, [np.zeros(x.shape)[()] for x in inputs]
    if y.shape:
        raise BadShape(f"the value has shape {y.shape}, and only a scalar has a gradient", do="use gradcli.jacobian")
    bars = write_gradient(program, y, inputs)
    return y, [np.zeros(x.shape)[()] if bar is None else bar for x, bar in zip(inputs, bars, strict=True)]


def write_gradient(
    program: StraightLine, y: OfNode, wrt: Sequence[OfNode], ybar: OfNode | None = None
) -> list[OfNode | None]:
    """Return the cotangents of `wrt`, given that of `y`, which for a scalar is one; None where nothing flows."""
    first = min((x.number for x in wrt), default=y.number)
    moving = {x.number for x in wrt}  # the nodes through which a derivative flows
    for k in range(first, y.number + 1):
        node = program.nodes[k]
        if not moving.isdisjoint(node.operands) and not _is_constant(node):
            moving.add(k)
    if y.number not in moving:
        return [None for _ in wrt]
    lines = [_tape_line(program, k, first, moving) for k in range(first, y.number + 1)]
    bars: list[Any] = [None] * len(lines)
    if ybar is None and not program.exact and any(_may_be_nan(program.nodes[k]) for k in moving):
        ybar = program.operation(seed, [y], {})
    bars[-1] = program.constant(np.float64(1)) if ybar is None else ybar
    sweep_back(lines, bars, len(lines) - 1)
    return [bars[x.number - first] if x.number <= y.number else None for x in wrt]


def _may_be_nan(node: ProgramNode) -> bool:
    """Whether an operation has no value at some numbers, where its slope may have one all the same."""
    if not isinstance(node.operation, Primitive):
        return node.operation is not same and node.operation is not None
    everywhere = all(domain is REAL for domain in node.operation.on) or node.params.get("n", -1) >= 0
    return node.operation.kind == "elementwise" and not everywhere


def _is_constant(node: ProgramNode) -> bool:
    """Whether an operation's result carries no derivative."""
    if isinstance(node.operation, Primitive):
        return node.operation.constant or not node.is_float
    return isinstance(node.operation, DetachedFunction) or node.operation is seed or not node.is_float


def _tape_line(program: StraightLine, k: int, first: int, moving: set[int]) -> Line:
    """Return a node as a line of a tape whose rules write what they compute as further nodes."""
    node = program.nodes[k]
    if node.operation is None or k not in moving or moving.isdisjoint(node.operands):
        return SPENT
    rules = tuple(_Written(program, k) for _ in node.operands)
    slots = tuple(operand - first if operand in moving else CONSTANT for operand in node.operands)
    return replace(_MULTIPLY, rules=rules), slots, (), None, None, None


@dataclass(frozen=True, slots=True)
class _Written:
    """A rule that writes the cotangent of an argument of node k; the line of the tape has no values."""

    program: StraightLine
    k: int

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        program, node = self.program, self.program.nodes[self.k]
        operation, params = node.operation, node.params
        y = program.abstract(self.k)
        xs = [
            x.value if (x := program.nodes[j]).constant and not program.exact else program.abstract(j)
            for j in node.operands
        ]
        if operation is same:
            return ybar
        if operation is times:
            return shapes.unbroadcast(program.operation(times, [ybar, xs[1 - i]], {}), xs[i])
        if isinstance(operation, Slope):
            return _pull_through_slope(program, operation, i, ybar, xs, params)
        assert operation is not None
        if not isinstance(operation, Primitive):
            return program.operation(Through(operation, i), [ybar, *xs], params)
        rule = operation.rule(i)
        if isinstance(rule, ConstantSlope):
            if rule.factor == -1.0:
                ybar = program.operation(_NEGATIVE, [ybar], {})
            elif rule.factor != 1.0:
                ybar = program.operation(_MULTIPLY, [np.float64(rule.factor), ybar], {})
            return shapes.unbroadcast(ybar, xs[i])
        if isinstance(rule, Partial):
            slope = _write_slope(program, operation, rule, i, [y, *xs], params)
            return shapes.unbroadcast(
                program.operation(_MULTIPLY if program.exact else times, [ybar, slope], {}), xs[i]
            )
        if not isinstance(rule, Differential):
            found = try_rule(lambda: rule.pull(ybar, i, y, xs, params, _refuse_program))
            if found is not None:
                return found
        return program.operation(Pulled(operation, i), [ybar, y, *xs], params)

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        raise NotImplementedError("only the reverse sweep is written")


def _write_slope(
    program: StraightLine, primitive: Primitive, rule: Partial, i: int, operands: Sequence[Value], params: Params
) -> Value:
    """Return a slope: the operations of its formula, unless these need values or another form is more accurate."""
    if program.exact:
        return rule.partial(*operands, **params)
    found = None if rule.kernel else try_rule(lambda: rule.partial(*operands, **params))
    return program.operation(Slope(primitive, i), operands, params) if found is None else found


def _pull_through_slope(
    program: StraightLine, slope: Slope, i: int, ybar: Value, xs: Sequence[Value], params: Params
) -> Value:
    """Return the cotangent of argument i of a slope; its formula is differentiated, not its more accurate form."""
    inputs = [program.operation(same, [x], {}, again=True) for x in xs]
    partial = try_rule(lambda: slope.rule.partial(*inputs, **params))
    if partial is None or getattr(partial, "program", None) is not program:
        return program.operation(Through(slope, i), [ybar, *xs], params)
    (found,) = write_gradient(program, partial, [inputs[i]], ybar)
    return np.zeros(shape(xs[i]))[()] if found is None else found


def try_rule(compute: Callable[[], Value]) -> Value | None:
    """Return what a rule writes; None where it needs plain values."""
    before = TraceEnded.raised
    try:
        return compute()
    except (GradcliError, TypeError, ValueError):
        TraceEnded.raised = before
        return None


def _refuse_program(program: Callable[[Value], Value], x: Value, ybar: Value) -> NoReturn:
    raise CannotCompile("a rule with a program of its own")


# A program made ready to be written as text: the rules written out, and what its results do not need left out.
#
# There are two ways to multiply a cotangent by a slope. The plain product is fast, and gives nan for zero times infinity. The
# careful one gives zero there, as the tape does; a run whose results have a nan is repeated with it.


def expand_rules(
    program: StraightLine, inputs: Sequence[int], results: Sequence[int], careful: bool
) -> tuple[StraightLine, list[int], list[int], list[int]]:
    """Return the part of a program that its results need, with the rules of elementwise operations written out.

    With it the numbers of its inputs, its results, and of scalars whose derivative was taken: where one is nan, so is
    the gradient. Inputs and constants come first.
    """
    made = StraightLine(program.values, program.level, differentiate=program.differentiate)
    found: dict[int, Value] = {k: made.input(program.nodes[k].value) for k in inputs}
    watched: list[int] = []
    for k in _order_with_late_writes(program, [k for k in results if k not in found]):
        node = program.nodes[k]
        if k in found:
            continue
        if node.constant:
            found[k] = made.constant(node.value)
            continue
        xs = [found[j] for j in node.operands]
        if node.operation is seed and not careful:
            watched.append(xs[0].number)
        y = _write_operation(made, node, xs, careful)
        found[k] = y if isinstance(y, OfNode) else made.constant(y)
    ins, outs = [found[k].number for k in inputs], [found[k].number for k in results]
    needed = {*made.needed([*outs, *watched]), *ins}
    order = sorted(needed, key=lambda k: (made.nodes[k].operation is not None, k))
    place = {k: number for number, k in enumerate(order)}
    nodes = [made.nodes[k] for k in order]
    made.nodes[:] = [replace(node, operands=tuple(place[j] for j in node.operands)) for node in nodes]
    return made, [place[k] for k in ins], [place[k] for k in outs], [place[k] for k in watched]


def _write_operation(program: StraightLine, node: ProgramNode, xs: list[OfNode], careful: bool) -> Value:
    operation, params = node.operation, node.params
    assert operation is not None
    if operation is same or (isinstance(operation, DetachedFunction) and operation.is_identity):
        return xs[0]
    if operation is seed and not careful:
        return np.float64(1)
    if operation is times and not careful:
        return _write_linear(program, xs[0], lambda ybar: program.operation(_MULTIPLY, [ybar, xs[1]], {}))
    if operation is _ADD:
        return _add_nodes(program, *xs)
    if operation is _NEGATIVE:
        return _write_linear(program, xs[0], lambda x: program.operation(_NEGATIVE, [x], {}))
    if isinstance(operation, Slope | Pulled):
        rule = operation if isinstance(operation, Pulled) else operation.rule.kernel or operation.rule.partial
        found = try_rule(lambda: rule(*(x.node.value if x.is_constant else x for x in xs), **params))
        if found is not None:
            return found
    return program.operation(operation, xs, params)


def _write_linear(program: StraightLine, x: OfNode, write: Callable[[OfNode], OfNode]) -> OfNode:
    """Return a linear function of a node; that of a selection, one of whose branches is zero, is taken of the other."""
    if x.node.operation is SELECT:
        condition, *branches = map(program.abstract, x.node.operands)
        for k in (0, 1):
            if is_zero(branches[1 - k].node):
                branches[k] = _write_linear(program, branches[k], write)
                return program.operation(SELECT, [condition, *branches], {})
    return write(x)


def _add_nodes(program: StraightLine, a: OfNode, b: OfNode) -> OfNode:
    """Return a sum; that of the two branches of a selection, each zero elsewhere, is the selection itself."""
    one, other = program.nodes[a.number], program.nodes[b.number]
    if one.operation is SELECT and other.operation is SELECT and one.operands[0] == other.operands[0]:
        condition, *mine = map(program.abstract, one.operands)
        yours = list(map(program.abstract, other.operands[1:]))
        for (x, after), (before, y) in ((mine, yours), (yours, mine)):
            if is_zero(after.node) and is_zero(before.node):
                return program.operation(SELECT, [condition, x, y], {})
    return program.operation(_ADD, [a, b], {})


def _order_with_late_writes(program: StraightLine, results: Sequence[int]) -> list[int]:
    """Return the nodes that results need, in an order in which writes into an array come as late as possible.

    What reads the array before the write comes first then, so that the write can use its memory.
    """
    found: dict[int, None] = {}
    for first in sorted(program.needed(results), key=lambda k: program.nodes[k].operation is PUT):
        pending = [first]
        while pending:  # a write may be read by another write: a chain of them, without recursion
            missing = [j for j in program.nodes[pending[-1]].operands if j not in found]
            if missing:
                pending.extend(reversed(missing))
            else:
                found[pending.pop()] = None
    return list(found)
