"""Jacobians by rows (reverse sweeps) and by columns (forward sweeps), as one array for each input.

Shapes  the output's shape, then the input's.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from gradcli.arithmetic.dual import jvp
from gradcli.arithmetic.recorded_program import RecordedProgram
from gradcli.request.point import Array
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape, size


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
