"""A program made ready to be written as text: the rules written out, and what its results do not need left out.

There are two ways to multiply a cotangent by a slope. The plain product is fast, and gives nan for zero times infinity. The
careful one gives zero there, as the tape does; a run whose results have a nan is repeated with it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gradcli.compiling.abstract import Without
from gradcli.compiling.gradient import Pulled, Same, Seed, Slope, Times, followed
from gradcli.compiling.straight_line import Node, OfNode, StraightLine
from gradcli.rules.shaping import PUT, SELECT
from gradcli.tracing.primitive import Value, named

_ADD, _MULTIPLY, _NEGATIVE = map(named, ("add", "multiply", "negative"))


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


def expanded(program: StraightLine, inputs: Sequence[int], results: Sequence[int], careful: bool) -> Expanded:
    """Return the part of a program that its results need, with the rules of elementwise operations written out.

    `watched` are scalars whose derivative was taken: where one is nan, so is the gradient.
    """
    made = StraightLine(program.values, program.level, differentiate=program.differentiate)
    found: dict[int, Value] = {k: made.input(program.nodes[k].value) for k in inputs}
    watched: list[int] = []
    for k in _order(program, [k for k in results if k not in found]):
        node = program.nodes[k]
        if k in found:
            continue
        if node.constant:
            found[k] = made.constant(node.value)
            continue
        xs = [found[j] for j in node.operands]
        if isinstance(node.operation, Seed) and not careful:
            watched.append(xs[0].number)
        found[k] = _as_node(made, _written_out(made, node, xs, careful))
    numbers = [found[k].number for k in (*inputs, *results)]
    place = _compacted(made, numbers[: len(inputs)], [*numbers[len(inputs) :], *watched])
    numbers, watched = [place[k] for k in numbers], [place[k] for k in watched]
    return Expanded(made, numbers[: len(inputs)], numbers[len(inputs) :], watched, not careful)


def _compacted(program: StraightLine, inputs: list[int], results: list[int]) -> dict[int, int]:
    """Leave out of a program what its results do not need, inputs and constants first; return the new numbers."""
    needed = sorted({*program.needed(results), *inputs}, key=lambda k: (program.nodes[k].operation is not None, k))
    place = {k: number for number, k in enumerate(needed)}
    nodes = [program.nodes[k] for k in needed]
    program.nodes[:] = [replace(node, operands=tuple(place[j] for j in node.operands)) for node in nodes]
    return place


def _as_node(program: StraightLine, x: Value) -> OfNode:
    return x if isinstance(x, OfNode) else program.constant(x)


def _written_out(program: StraightLine, node: Node, xs: list[OfNode], careful: bool) -> Value:
    operation, params = node.operation, node.params
    assert operation is not None
    if isinstance(operation, Same) or (isinstance(operation, Without) and operation.is_identity):
        return xs[0]
    if isinstance(operation, Seed) and not careful:
        return np.float64(1)
    if isinstance(operation, Times) and not careful:
        return _times(program, *xs)
    if operation is _ADD:
        return _sum(program, *xs)
    if operation is _NEGATIVE:
        return _negative(program, *xs)
    if isinstance(operation, Slope | Pulled):
        rule = operation if isinstance(operation, Pulled) else operation.rule.kernel or operation.rule.partial
        found = followed(lambda: rule(*(x.node.value if x.is_constant else x for x in xs), **params))
        if found is not None:
            return found
    return program.operation(operation, xs, params)


def _times(program: StraightLine, ybar: OfNode, slope: OfNode) -> OfNode:
    """Return a cotangent times a slope; that of one branch of a selection is computed inside of it."""
    inside = _in_its_branch(program, ybar, lambda part: _times(program, part, slope))
    return program.operation(_MULTIPLY, [ybar, slope], {}) if inside is None else inside


def _sum(program: StraightLine, a: OfNode, b: OfNode) -> OfNode:
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


def _negative(program: StraightLine, x: OfNode) -> OfNode:
    """Return the negative; that of one branch of a selection, zero elsewhere, is taken inside of it."""
    inside = _in_its_branch(program, x, lambda part: _negative(program, part))
    return program.operation(_NEGATIVE, [x], {}) if inside is None else inside


def _in_its_branch(program: StraightLine, x: OfNode, linear: Callable[[OfNode], OfNode]) -> OfNode | None:
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


def _order(program: StraightLine, results: Sequence[int]) -> list[int]:
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
