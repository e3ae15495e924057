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
from gradcli.compiling.straight_line import OfNode, Operation, ProgramNode, StraightLine
from gradcli.errors import BadShape, CannotCompile, GradcliError, TraceEnded
from gradcli.rules.kinds import ConstantSlope, Differential, Partial
from gradcli.rules.shaping import PUT, SELECT
from gradcli.tracing import shapes
from gradcli.tracing.domain import REAL
from gradcli.tracing.primitive import Params, Primitive, Transposer, Value, primitive_by_name
from gradcli.tracing.shapes import shape


@dataclass(frozen=True, slots=True)
class Expanded:
    """A program with its rules written out: the numbers of its inputs, of its results, and of scalars that may be nan.

    A program that is checked has plain products of cotangents and slopes, which may be nan where the careful ones are not.
    """

    program: StraightLine
    inputs: list[int]
    results: list[int]
    watched: list[int]
    is_checked: bool


_ADD, _MULTIPLY, _NEGATIVE = map(primitive_by_name, ("add", "multiply", "negative"))


@dataclass(frozen=True, slots=True)
class Same:
    """The operation that returns its operand: what is differentiated is a node of its own."""

    def __call__(self, x: Value) -> Value:
        return x


@dataclass(frozen=True, slots=True)
class Seed:
    """The cotangent of a scalar, with which a reverse sweep begins: one, or nan where the scalar is nan."""

    def __call__(self, y: Value) -> Value:
        return np.where(np.isnan(y), np.nan, 1.0)[()]


@dataclass(frozen=True, slots=True)
class Times:
    """The product of a cotangent and a slope; zero where the cotangent is zero and the slope is not finite."""

    def __call__(self, ybar: Value, slope: Value) -> Value:
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


SAME, SEED, TIMES = Same(), Seed(), Times()


def value_and_gradient(f: Callable[..., Value], xs: Sequence[OfNode | Value]) -> tuple[Value, list[Value]]:
    """Return a scalar function's value and gradient at values of a program that is being written, as nodes of it.

    Raises  BadShape if the value is not a scalar.
    """
    program = next(x.program for x in xs if isinstance(x, OfNode))
    inputs = [program.operation(SAME, [x], {}, again=True) for x in xs]
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
    moving = _nodes_with_derivative(program, {x.number for x in wrt}, range(first, y.number + 1))
    if y.number not in moving:
        return [None for _ in wrt]
    lines = [_tape_line(program, k, first, moving) for k in range(first, y.number + 1)]
    bars: list[Any] = [None] * len(lines)
    bars[-1] = _seed_node(program, y, moving) if ybar is None else ybar
    sweep_back(lines, bars, len(lines) - 1)
    return [bars[x.number - first] if x.number <= y.number else None for x in wrt]


def _seed_node(program: StraightLine, y: OfNode, moving: set[int]) -> OfNode:
    if program.exact or not any(_may_be_nan(program.nodes[k]) for k in moving):
        return program.constant(np.float64(1))
    return program.operation(SEED, [y], {})


def _may_be_nan(node: ProgramNode) -> bool:
    """Whether an operation has no value at some numbers, where its slope may have one all the same."""
    if not isinstance(node.operation, Primitive):
        return node.operation is not SAME and node.operation is not None
    everywhere = all(domain is REAL for domain in node.operation.on) or node.params.get("n", -1) >= 0
    return node.operation.kind == "elementwise" and not everywhere


def _nodes_with_derivative(program: StraightLine, wrt: set[int], among: range) -> set[int]:
    """Return the nodes through which a derivative flows."""
    found = set(wrt)
    for k in among:
        node = program.nodes[k]
        if not found.isdisjoint(node.operands) and not _is_constant(node):
            found.add(k)
    return found


def _is_constant(node: ProgramNode) -> bool:
    """Whether an operation's result carries no derivative."""
    if isinstance(node.operation, Primitive):
        return node.operation.constant or not node.is_float
    return isinstance(node.operation, DetachedFunction | Seed) or not node.is_float


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
    """A rule that writes the cotangent of an argument of node k."""

    program: StraightLine
    k: int

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        return _write_cotangent(self.program, self.k, i, ybar)

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        raise NotImplementedError("only the reverse sweep is written")


def _write_cotangent(program: StraightLine, k: int, i: int, ybar: Value) -> Value:
    """Return the cotangent of argument i of node k."""
    node = program.nodes[k]
    operation, params = node.operation, node.params
    y, xs = program.abstract(k), [_operand_value(program, j) for j in node.operands]
    if isinstance(operation, Same):
        return ybar
    if isinstance(operation, Times):
        return shapes.unbroadcast(program.operation(TIMES, [ybar, xs[1 - i]], {}), xs[i])
    if isinstance(operation, Slope):
        return _pull_through_slope(program, operation, i, ybar, xs, params)
    assert operation is not None
    if not isinstance(operation, Primitive):
        return program.operation(Through(operation, i), [ybar, *xs], params)
    rule = operation.rule(i)
    if isinstance(rule, ConstantSlope):
        return shapes.unbroadcast(_multiply_by_number(program, rule.factor, ybar), xs[i])
    if isinstance(rule, Partial):
        slope = _write_slope(program, operation, i, y, xs, params)
        times = _MULTIPLY if program.exact else TIMES
        return shapes.unbroadcast(program.operation(times, [ybar, slope], {}), xs[i])
    if not isinstance(rule, Differential):
        found = try_rule(lambda: rule.pull(ybar, i, y, xs, params, _refuse_program))
        if found is not None:
            return found
    return program.operation(Pulled(operation, i), [ybar, y, *xs], params)


def _multiply_by_number(program: StraightLine, number: float, ybar: Value) -> Value:
    if number == 1.0:
        return ybar
    if number == -1.0:
        return program.operation(_NEGATIVE, [ybar], {})
    return program.operation(_MULTIPLY, [np.float64(number), ybar], {})


def _operand_value(program: StraightLine, k: int) -> Value:
    node = program.nodes[k]
    return node.value if node.constant and not program.exact else program.abstract(k)


def _write_slope(
    program: StraightLine, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], params: Params
) -> Value:
    """Return a slope: the operations of its formula, unless these need values or another form is more accurate."""
    rule = primitive.rule(i)
    assert isinstance(rule, Partial)
    if program.exact:
        return rule.partial(y, *xs, **params)
    found = None if rule.kernel else try_rule(lambda: rule.partial(y, *xs, **params))
    return program.operation(Slope(primitive, i), [y, *xs], params) if found is None else found


def _pull_through_slope(
    program: StraightLine, slope: Slope, i: int, ybar: Value, xs: Sequence[Value], params: Params
) -> Value:
    """Return the cotangent of argument i of a slope; its formula is differentiated, not its more accurate form."""
    inputs = [program.operation(SAME, [x], {}, again=True) for x in xs]
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


def expand_rules(program: StraightLine, inputs: Sequence[int], results: Sequence[int], careful: bool) -> Expanded:
    """Return the part of a program that its results need, with the rules of elementwise operations written out.

    `watched` are scalars whose derivative was taken: where one is nan, so is the gradient.
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
        if isinstance(node.operation, Seed) and not careful:
            watched.append(xs[0].number)
        found[k] = _as_node(made, _write_operation(made, node, xs, careful))
    numbers = [found[k].number for k in (*inputs, *results)]
    place = _compact_program(made, numbers[: len(inputs)], [*numbers[len(inputs) :], *watched])
    numbers, watched = [place[k] for k in numbers], [place[k] for k in watched]
    return Expanded(made, numbers[: len(inputs)], numbers[len(inputs) :], watched, not careful)


def _compact_program(program: StraightLine, inputs: list[int], results: list[int]) -> dict[int, int]:
    """Leave out of a program what its results do not need, inputs and constants first; return the new numbers."""
    needed = sorted({*program.needed(results), *inputs}, key=lambda k: (program.nodes[k].operation is not None, k))
    place = {k: number for number, k in enumerate(needed)}
    nodes = [program.nodes[k] for k in needed]
    program.nodes[:] = [replace(node, operands=tuple(place[j] for j in node.operands)) for node in nodes]
    return place


def _as_node(program: StraightLine, x: Value) -> OfNode:
    return x if isinstance(x, OfNode) else program.constant(x)


def _write_operation(program: StraightLine, node: ProgramNode, xs: list[OfNode], careful: bool) -> Value:
    operation, params = node.operation, node.params
    assert operation is not None
    if isinstance(operation, Same) or (isinstance(operation, DetachedFunction) and operation.is_identity):
        return xs[0]
    if isinstance(operation, Seed) and not careful:
        return np.float64(1)
    if isinstance(operation, Times) and not careful:
        return _multiply_slope(program, *xs)
    if operation is _ADD:
        return _add_nodes(program, *xs)
    if operation is _NEGATIVE:
        return _negate_node(program, *xs)
    if isinstance(operation, Slope | Pulled):
        rule = operation if isinstance(operation, Pulled) else operation.rule.kernel or operation.rule.partial
        found = try_rule(lambda: rule(*(x.node.value if x.is_constant else x for x in xs), **params))
        if found is not None:
            return found
    return program.operation(operation, xs, params)


def _multiply_slope(program: StraightLine, ybar: OfNode, slope: OfNode) -> OfNode:
    """Return a cotangent times a slope; that of one branch of a selection is computed inside of it."""
    inside = _apply_in_branch(program, ybar, lambda part: _multiply_slope(program, part, slope))
    return program.operation(_MULTIPLY, [ybar, slope], {}) if inside is None else inside


def _add_nodes(program: StraightLine, a: OfNode, b: OfNode) -> OfNode:
    """Return a sum; that of the two branches of a selection, each zero elsewhere, is the selection itself."""
    one, other = program.nodes[a.number], program.nodes[b.number]
    if one.operation is SELECT and other.operation is SELECT and one.operands[0] == other.operands[0]:
        condition, *mine = map(program.abstract, one.operands)
        yours = list(map(program.abstract, other.operands[1:]))
        for k in (0, 1):
            if _is_zero(mine[1 - k]) and _is_zero(yours[k]):
                branches = (mine[k], yours[1 - k]) if k == 0 else (yours[1 - k], mine[k])
                return program.operation(SELECT, [condition, *branches], {})
    return program.operation(_ADD, [a, b], {})


def _negate_node(program: StraightLine, x: OfNode) -> OfNode:
    """Return the negative; that of one branch of a selection, zero elsewhere, is taken inside of it."""
    inside = _apply_in_branch(program, x, lambda part: _negate_node(program, part))
    return program.operation(_NEGATIVE, [x], {}) if inside is None else inside


def _apply_in_branch(program: StraightLine, x: OfNode, linear: Callable[[OfNode], OfNode]) -> OfNode | None:
    """Return a linear function of a selection, one of whose branches is zero, taken of the other; None for other nodes."""
    if x.node.operation is not SELECT:
        return None
    condition, *branches = map(program.abstract, x.node.operands)
    for k in (0, 1):
        if _is_zero(branches[1 - k]):
            branches[k] = linear(branches[k])
            return program.operation(SELECT, [condition, *branches], {})
    return None


def _is_zero(x: OfNode) -> bool:
    return x.is_constant and x.shape == () and float(x.node.value) == 0.0


def _order_with_late_writes(program: StraightLine, results: Sequence[int]) -> list[int]:
    """Return the nodes that results need, in an order in which writes into an array come as late as possible.

    What reads the array before the write comes first then, so that the write can use its memory.
    """
    found: dict[int, None] = {}
    late = [k for k in program.needed(results) if program.nodes[k].operation is PUT]
    for first in [k for k in program.needed(results) if program.nodes[k].operation is not PUT] + late:
        pending = [first]
        while pending:  # a write may be read by another write: a chain of them, without recursion
            missing = [j for j in program.nodes[pending[-1]].operands if j not in found]
            if missing:
                pending.extend(reversed(missing))
            else:
                found[pending.pop()] = None
    return list(found)
