"""Dual numbers, a value and its tangent along one direction; and Jacobians by columns (forward) and by rows (reverse)."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gradcli.arithmetic.recorded_program import RecordedProgram
from gradcli.request.point import Array
from gradcli.tracing.primitive import Params, Primitive, Value, kept_value_error, open_sweep, without_ended_sweeps
from gradcli.tracing.shapes import broadcast_like, shape, size, zeros_like
from gradcli.tracing.tracer import Tracer, nan_where_undefined


class Dual(Tracer):
    """The number `primal + tangent e` with e**2 = 0; a tangent of None stays zero even where a slope is infinite."""

    __slots__ = ("level", "primal", "tangent")

    def __init__(self, primal: Value, tangent: Value, level: float) -> None:
        self.primal = primal
        self.tangent = tangent
        self.level = level
        self.storage = None

    def settle(self) -> Value:
        if self.tangent is not None:
            raise kept_value_error()
        return self.primal

    def hold(self, x: Value) -> "Dual":
        return Dual(self.primal.hold(x) if isinstance(self.primal, Tracer) else x, None, self.level)

    @property
    def moves(self) -> bool:
        return self.tangent is not None or (
            isinstance(self.primal, Tracer) and self.primal.level >= 1 and self.primal.moves
        )

    def process(self, primitive: Primitive, xs: Sequence[Value], params: Params) -> Value:
        level = self.level
        duals = [isinstance(x, Dual) and x.level == level for x in xs]
        primals = [x.primal if dual else x for x, dual in zip(xs, duals, strict=True)]
        y = primitive(*primals, **params)
        if primitive.constant:
            return y
        ydot: Any = None
        for i, dual in enumerate(duals):
            if dual and xs[i].tangent is not None:
                part = primitive.rule(i).push(primitive, i, y, primals, xs[i].tangent, params)
                ydot = part if ydot is None else ydot + part
        return Dual(y, None if ydot is None else broadcast_like(ydot, y), level)


def jvp(f: Callable[..., Value], primals: Sequence[Value], tangents: Sequence[Value]) -> tuple[Value, Value]:
    """Return f(*primals) and its derivative along `tangents`.

    A tangent of None marks a constant primal, by which slopes may be infinite.

    Shapes  each tangent has the shape of its primal; the derivative has the shape of the value.
    Raises  TraceEnded if f returns a value that it kept from an earlier trace.
    """
    with open_sweep() as level:
        duals = [Dual(x, xdot, level) for x, xdot in zip(primals, tangents, strict=True)]
        y = without_ended_sweeps(f(*duals))
        if isinstance(y, Dual) and y.level == level:
            return y.primal, zeros_like(y.primal) if y.tangent is None else nan_where_undefined(y.primal, y.tangent)
        return y, zeros_like(y)


# Jacobians by rows (reverse sweeps) and by columns (forward sweeps), as one array for each input.
#
# Shapes  the output's shape, then the input's.


def cotangent_rows(program: RecordedProgram, one: Value) -> list[list[Value]]:
    """Return the cotangents of all inputs for each entry of the value; each reverse sweep starts from `one`.

    Shapes  a list over the entries of the value (in C order) of lists over inputs.
    Cost    one reverse sweep for each entry of the value.
    """
    if shape(program.y) == ():
        return [program.pull(one)]
    return [program.pull(one * direction) for direction in unit_directions(program.y)]


def jacobian_from_rows(rows: list[list[Value]], like: Value, number: int, x: Value) -> Any:
    """Return the Jacobian of one input from its cotangents, given row by row."""
    if len(rows) == 1 and shape(like) == ():
        return np.asarray(rows[0][number], dtype=float)[()]
    entries = [np.asarray(row[number], dtype=float) for row in rows]
    if not entries:
        return np.zeros(shape(like) + shape(x))
    return np.stack(entries).reshape(shape(like) + np.shape(entries[0]))[()]


def jacobian_by_columns(f: Callable[..., Value], xs: Sequence[Array], k: int, y: Array) -> Array:
    """Return the Jacobian of f with respect to its k-th input.

    Cost    one dual evaluation for each entry of that input.
    """
    still: list[Any] = [None] * len(xs)
    ways = ([*still[:k], direction, *still[k + 1 :]] for direction in unit_directions(xs[k]))
    return jacobian_from_columns([np.asarray(jvp(f, xs, way)[1]) for way in ways], y, xs[k])


def unit_directions(x: Value) -> Iterator[Array]:
    """Yield the unit directions of an input, in C order."""
    if shape(x) == ():
        yield np.float64(1)
        return
    for k in range(size(x)):
        yield np.eye(1, size(x), k).reshape(shape(x))


def jacobian_from_columns(columns: list[Array], y: Array, x: Array) -> Array:
    """Return the Jacobian of one input from its columns, one for each entry of the input."""
    if not columns or not np.size(columns[0]):
        return np.zeros(shape(y) + shape(x))
    return np.stack(columns, axis=-1).reshape(shape(y) + shape(x))[()]
