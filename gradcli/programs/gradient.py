"""The gradient of a program, written by its rules: the reverse sweep as further nodes.

A rule that can be followed becomes the operations it consists of; one that looks at values, as accurate kernels and
decompositions do, is one operation, called as it is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NoReturn

import numpy as np

from gradcli.core import shapes
from gradcli.core.primitive import Params, Primitive, Rule, Transposer, Value, named
from gradcli.errors import GradcliError
from gradcli.interpreters.tape import CONSTANT, SPENT, Line, sweep_back, transpose
from gradcli.primitives.kinds import Differential, Factor, Partial
from gradcli.programs.straight_line import AbstractValue, CannotCompile, StraightLine

_MULTIPLY, _NEGATIVE, _ADD = named("multiply"), named("negative"), named("add")


def gradient(program: StraightLine, y: AbstractValue, wrt: Sequence[AbstractValue]) -> list[AbstractValue | None]:
    """Return the cotangent of each input in `wrt`, that of the scalar `y` being one; None where nothing flows."""
    moving = _moving(program, {x.number for x in wrt})
    lines = [_line(program, k, moving) for k in range(y.number + 1)]
    bars: list[Any] = [None] * len(lines)
    bars[y.number] = program.constant(np.float64(1))
    sweep_back(lines, bars, y.number)
    return [bars[x.number] if x.number < len(bars) else None for x in wrt]


def _line(program: StraightLine, k: int, moving: set[int]) -> Line:
    """Return a node as a line of a tape whose rules write what they compute as further nodes."""
    node = program.nodes[k]
    if node.operation is None or k not in moving:
        return SPENT
    if not isinstance(node.operation, Primitive):
        raise CannotCompile("an operation without rules")
    rules = tuple(_Written(program, k, node.operation) for _ in node.operands)
    slots = tuple(operand if operand in moving else CONSTANT for operand in node.operands)
    return replace(node.operation, rules=rules), slots, (), None, None, None


@dataclass(frozen=True, slots=True)
class _Written:
    """A rule that writes the cotangent of an argument of node k."""

    program: StraightLine
    k: int
    primitive: Primitive

    def pull(self, ybar: Value, i: int, y: Value, xs: Sequence[Value], params: Params, transpose: Transposer) -> Value:
        return _pulled(self.program, self.k, self.primitive, i, ybar)

    def push(self, primitive: Primitive, i: int, y: Value, xs: Sequence[Value], xdot: Value, params: Params) -> Value:
        raise NotImplementedError("only the reverse sweep is written")


def _moving(program: StraightLine, inputs: set[int]) -> set[int]:
    found = set(inputs)
    for k, node in enumerate(program.nodes):
        if not found.isdisjoint(node.operands):
            found.add(k)
    return found


def _pulled(program: StraightLine, k: int, primitive: Primitive, i: int, ybar: Value) -> Value:
    """Return the cotangent of argument i of node k."""
    node = program.nodes[k]
    rule, params = primitive.rule(i), node.params
    y, xs = program.unseen(k), [_operand(program, j) for j in node.operands]
    if isinstance(rule, Factor):
        if rule.factor == -1.0:
            ybar = program.operation(_NEGATIVE, [ybar], {})
        elif rule.factor != 1.0:
            ybar = program.operation(_MULTIPLY, [np.float64(rule.factor), ybar], {})
        return shapes.unbroadcast(ybar, xs[i])
    if isinstance(rule, Partial):
        own = rule.partial if program.exact else rule.kernel or rule.partial
        slope = _followed(program, own, [y, *xs], params)
        return shapes.unbroadcast(program.operation(_MULTIPLY, [ybar, slope], {}), xs[i])
    if not isinstance(rule, Differential):
        try:
            return rule.pull(ybar, i, y, xs, params, _not_here)
        except (GradcliError, TypeError, ValueError):
            pass
    return program.operation(partial(_pull, rule, i, params), [ybar, y, *xs], {})


def _operand(program: StraightLine, k: int) -> Value:
    node = program.nodes[k]
    return node.value if node.constant and not program.exact else program.unseen(k)


def _followed(program: StraightLine, function: Callable[..., Value], xs: Sequence[Value], params: Params) -> Value:
    """Return a slope, by the operations of its rule where these do not depend on values."""
    try:
        return function(*xs, **params)
    except (GradcliError, TypeError, ValueError):
        if program.exact:
            raise
        return program.operation(partial(function, **params), list(xs), {})


def _pull(rule: Rule, i: int, params: Params, ybar: Value, y: Value, *xs: Value) -> Any:
    return rule.pull(ybar, i, y, xs, params, transpose)


def _not_here(program: Callable[[Value], Value], x: Value, ybar: Value) -> NoReturn:
    raise CannotCompile("a rule with a program of its own")
