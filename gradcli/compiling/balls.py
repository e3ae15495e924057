"""A scalar function and its gradient as straight-line code on balls, at whatever precision is set.

Rules are the mathematics, not their float64 kernels, and constants are exact, so that what the code encloses is what the
function is. It is written for functions of numbers alone that have no kinks and never look at a value.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from flint import arb

from gradcli.arithmetic.arb import ENTRIES
from gradcli.arithmetic.ball import Ball, ball_of_constant
from gradcli.classes import dataclass
from gradcli.compiling.abstract import WRITING, Exact, NamedConstant
from gradcli.compiling.gradient_nodes import write_gradient
from gradcli.compiling.straight_line import ProgramNode, StraightLine
from gradcli.compiling.written import ARITHMETIC, compile_text, program_text
from gradcli.errors import CannotCompile
from gradcli.tracing import primitive
from gradcli.tracing.primitive import Primitive, Value
from gradcli.tracing.shapes import shape

MOST = 500  # operations of the function


@dataclass(frozen=True, slots=True)
class BallCode:
    """`value` takes all inputs, as `arb`, to f; `both` takes them to f and its gradient by some, 0 where nothing flows."""

    value: Callable[..., arb]
    both: Callable[..., tuple[arb, list[arb]]]


def compile_to_balls(
    f: Callable[[Mapping[str, Value]], Value], at: Mapping[str, Value], wrt: Sequence[str]
) -> BallCode:
    """Return a function of named numbers, and its gradient by some of them, as code on balls.

    Raises  CannotCompile where that cannot be written, and what f raises on values that it cannot see.
    """
    if any(shape(x) for x in at.values()):
        raise CannotCompile("an input is an array")
    with primitive.open_sweep() as level:
        program = StraightLine(Exact, level, exact=True, most=MOST)
        token = WRITING.set(program)
        try:
            inputs = {name: program.input(np.float64(x)) for name, x in at.items()}
            y = f(inputs)
            if type(y) is not Exact or y.shape:
                raise CannotCompile("the value is no number of the trace")
            program.most = 10 * MOST
            bars = write_gradient(program, y, [inputs[name] for name in wrt])
        finally:
            WRITING.reset(token)
    numbers = [x.number for x in inputs.values()]
    slopes = [None if x is None else x.number for x in bars]
    value, both = (_compile_nodes(program, numbers, y.number, own) for own in (None, slopes))
    return BallCode(value, both)


def _compile_nodes(
    program: StraightLine, inputs: Sequence[int], y: int, slopes: Sequence[int | None] | None
) -> Callable[..., Any]:
    wanted = [y, *(k for k in slopes or () if k is not None)]
    space: dict[str, Any] = {"zero": arb(0)}
    lines = []
    for k in program.needed([*wanted, *inputs]):
        node = program.nodes[k]
        if node.constant:
            space[f"v{k}"] = Ball.entry(node.value)
        elif node.operation is not None:
            lines.append(f"v{k} = {_statement_text(node, k, space)}")
    found = "" if slopes is None else f", [{', '.join('zero' if k is None else f'v{k}' for k in slopes)}]"
    return compile_text(program_text(inputs, [*lines, f"return v{y}{found}"]), space)


def _statement_text(node: ProgramNode, k: int, space: dict[str, Any]) -> str:
    """Return the text of one operation. Raises CannotCompile for one that balls do not have by name."""
    operation, params, names = node.operation, node.params, [f"v{j}" for j in node.operands]
    if isinstance(operation, NamedConstant):
        space[f"call{k}"] = partial(ball_of_constant, operation.name, operation.value)
        return f"call{k}()"
    if not isinstance(operation, Primitive) or operation.name not in ENTRIES or operation.body:
        raise CannotCompile("an operation that balls do not have by its name")
    if operation.name in ARITHMETIC:
        return f" {ARITHMETIC[operation.name]} ".join(names)
    space[f"call{k}"] = ENTRIES[operation.name]
    if params:
        space[f"given{k}"] = params
    return f"call{k}({', '.join(names)}{f', **given{k}' if params else ''})"
