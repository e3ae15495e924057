"""Slips in the derivative of a value that several lines compute from another, such as a sigmoid written out."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradcli.core.primitive import Primitive
from gradcli.core.shapes import shape, size
from gradcli.diagnosis.search import key_of
from gradcli.interpreters.program import Program
from gradcli.interpreters.tape import CONSTANT, Line, Tape
from gradcli.primitives.kinds import Partial
from gradcli.words import DiagnosisKind

_FARTHEST = 14  # lines between the start and the end of a block, at most
_MOST_ENTRIES = 64  # of a value whose Jacobian is computed row by row

_WRITTEN_OUT: tuple[tuple[Callable[..., Any], str], ...] = (
    (lambda y, x, p: y, "the derivative of this value is computed as y, the value itself"),
    (lambda y, x, p: 1 - y, "the derivative of this value is computed as 1 - y"),
    (lambda y, x, p: y * (1 + y), "the derivative of this value is computed as y*(1 + y)"),
    (lambda y, x, p: y * (1 - y), "the derivative of this value is computed as y*(1 - y), which is that of a sigmoid"),
    (lambda y, x, p: 1 - y * y, "the derivative of this value is computed as 1 - y**2, which is that of tanh"),
    (lambda y, x, p: y * y, "the derivative of this value is computed as y**2"),
    (lambda y, x, p: x * (1 - x), "the derivative of this value is computed as x*(1 - x) of its argument"),
    (lambda y, x, p: 1 - x * x, "the derivative of this value is computed as 1 - x**2 of its argument"),
    (lambda y, x, p: 1 + 0 * y, "the derivative of this value is missing (used as if it were 1)"),
    (lambda y, x, p: np.exp(-x * x), "the derivative of this value is computed as exp(-x**2)"),
    (lambda y, x, p: np.exp(-x * x / 2), "the derivative of this value is computed as exp(-x**2/2)"),
    (lambda y, x, p: 1 / p, "the derivative of this value is inverted"),
)
_DIAGONAL: tuple[tuple[Callable[..., Any], str], ...] = (
    (
        lambda y, x, p: p,
        "only the diagonal of the Jacobian of this value is used, but its entries depend on each other too",
    ),
    (lambda y, x, p: 1 + 0 * y, "the derivative of this value is missing (used as if it were 1)"),
)


def block_slips(program: Program) -> Iterator[tuple[DiagnosisKind, str, Program, Any]]:
    """Yield `(kind, says, program, position)` for each slip: the derivative of one block is replaced in the program.

    A block computes a value that depends on the inputs only through one other value, of the same shape. If a loop runs a
    block several times, all runs are replaced at once.
    """
    tape = program.tape
    for blocks in _blocks(tape, len(program.inputs)):
        slopes = [_slope(tape, u, v) for u, v in blocks]
        if any(slope is None for slope in slopes):
            continue
        found = [slope for slope in slopes if slope is not None]
        diagonal = not all(whole for _, whole in found)
        for makes, says in _DIAGONAL if diagonal else _WRITTEN_OUT:
            lines = {
                v: _block(tape, u, v, makes(tape.value(v), tape.value(u), slope))
                for (u, v), (slope, _) in zip(blocks, found, strict=True)
            }
            yield DiagnosisKind.SLIP, says, program.with_lines(lines), tape.position(blocks[0][1])


def _blocks(tape: Tape, inputs: int) -> list[list[tuple[int, int]]]:
    """Return the blocks as pairs of slots, grouped by their place in the source, the last in the program first."""
    found: dict[Any, list[tuple[int, int]]] = {}
    for v in range(len(tape.lines) - 1, inputs - 1, -1):
        for far, u in enumerate(_only_sources(tape, v, inputs)):
            if shape(tape.value(u)) == shape(tape.value(v)):
                found.setdefault((key_of(tape.position(v), v), far), []).append((u, v))
    return list(found.values())


def _only_sources(tape: Tape, v: int, inputs: int) -> Iterator[int]:
    """Yield each slot through which alone `v` depends on the inputs, nearest first; the operand of a unary `v` is left out."""
    frontier = {slot for slot in tape.operands(v) if slot != CONSTANT}
    for steps in range(_FARTHEST):
        if not frontier:
            return
        if len(frontier) == 1 and (steps or len(tape.operands(v)) > 1):
            yield next(iter(frontier))
        last = max(frontier)
        if last < inputs:
            return
        frontier.remove(last)
        frontier |= {slot for slot in tape.operands(last) if slot != CONSTANT}


def _slope(tape: Tape, u: int, v: int) -> tuple[Any, bool] | None:
    """Return the diagonal of the Jacobian of `v` with respect to `u`, and whether the rest is zero; None if it is too large."""
    x = tape.value(u)
    cut = Tape(tape.level)
    cut.lines = [*tape.lines[:u], (None, (), (), x, None, None), *tape.lines[u + 1 : v + 1]]
    n = size(x)
    if all(_elementwise(line) for line in tape.lines[u + 1 : v + 1] if _reaches(line, u)):
        bar = cut.sweep(v, np.ones(shape(x))[()])[u]
        return (bar, True) if bar is not None and shape(bar) == shape(x) else None
    if n > _MOST_ENTRIES:
        return None
    diagonal = np.zeros(n)
    for k in range(n):
        bar = cut.sweep(v, np.eye(1, n, k).reshape(shape(x)))[u]
        diagonal[k] = 0.0 if bar is None else np.ravel(bar)[k]
    return diagonal.reshape(shape(x))[()], False


def _reaches(line: Line, u: int) -> bool:
    _, slots, _, _, _, _ = line
    return any(slot >= u for slot in slots)


def _elementwise(line: Line) -> bool:
    primitive, _, xs, y, _, _ = line
    return primitive is not None and primitive.kind == "elementwise" and all(shape(x) in ((), shape(y)) for x in xs)


def _block(tape: Tape, u: int, v: int, slope: Any) -> Line:
    """Return a line that computes `v` from `u` in one step, with the given derivative."""
    whole = Primitive("block", np.positive, (Partial(lambda y, x: slope),))
    return whole, (u,), (tape.value(u),), tape.value(v), None, tape.position(v)
