"""A function in balls, as the certified mode runs it: traced at each precision, or compiled once for all of them."""

import weakref
from typing import Any, Protocol

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.shapes import shape
from gradcli.errors import GradcliError
from gradcli.interpreters.ball import Ball
from gradcli.interpreters.program import record
from gradcli.interpreters.tape import Line
from gradcli.modes.mode import Question
from gradcli.numerics.jacobians import by_rows
from gradcli.point import Array
from gradcli.programs.balls import Code, in_balls
from gradcli.source.derived import either_way
from gradcli.source.function import Function

_SEED = 0x5EED  # of the directions
_CODE: weakref.WeakKeyDictionary[Function, dict[Any, Code | None]] = weakref.WeakKeyDictionary()
_DIRECTIONS: dict[tuple[int, int], list[float]] = {}  # by seed and count: a generator costs more than the rest
_MOST_KEPT = 64


class InBalls(Protocol):
    """A function of balls, and its reverse sweep, at whatever precision is set."""

    def value(self, xs: list[Value]) -> Value:
        """Return the function's value."""

    def value_at_53(self, xs: list[Value]) -> Value:
        """Return its value at the point itself, at 53 bits."""

    def swept(self, xs: list[Value]) -> tuple[Value, list[list[Value]], list[Line]]:
        """Return the value, the cotangents of the inputs for each entry of it, and the lines of the trace."""

    def directions(self, count: int) -> tuple[list[Any], Any]:
        """Return a random direction in the inputs, and random weights of so many outputs."""


class Traced:
    """The function, traced at each precision."""

    def __init__(self, q: Question) -> None:
        self.q = q

    def value(self, xs: list[Value]) -> Value:
        return self.q.g(*xs)

    def value_at_53(self, xs: list[Value]) -> Value:
        return Ball.lift(0) + (self.q.balls[53] if 53 in self.q.balls else self.value(xs))

    def swept(self, xs: list[Value]) -> tuple[Value, list[list[Value]], list[Line]]:
        program = record(self.q.g, xs)
        return program.y, by_rows(program, Ball.lift(1)), program.lines[len(program.inputs) :]

    def directions(self, count: int) -> tuple[list[Any], Any]:
        q = self.q
        rng = np.random.default_rng([q.seed, _SEED])
        weights = either_way(rng, (count,)) if shape(q.value) else [1.0]
        return [np.where(mask, 0.0, _direction(rng, x)) for x, mask in zip(q.xs, q.undecided, strict=True)], weights


class Coded:
    """An expression of numbers without kinks, as code that was written once and runs at every point and precision."""

    def __init__(self, q: Question, code: Code) -> None:
        self.q, self.code = q, code

    def _inputs(self, xs: list[Value]) -> list[Any]:
        """Return all inputs of the code, given those that are differentiated."""
        moved = dict(zip(self.q.wrt, xs, strict=True))
        return [(moved[name] if name in moved else Ball.lift(x)).value for name, x in self.q.point.values.items()]

    def value(self, xs: list[Value]) -> Value:
        return Ball(self.code.value(*self._inputs(xs)))

    def value_at_53(self, xs: list[Value]) -> Value:
        return self.value(xs)

    def swept(self, xs: list[Value]) -> tuple[Value, list[list[Value]], list[Line]]:
        y, slopes = self.code.both(*self._inputs(xs))
        return Ball(y), [list(map(Ball, slopes))], []

    def directions(self, count: int) -> tuple[list[Any], Any]:
        key = (self.q.seed, len(self.q.xs))
        if key not in _DIRECTIONS:
            if len(_DIRECTIONS) >= _MOST_KEPT:
                _DIRECTIONS.clear()
            _DIRECTIONS[key] = either_way(np.random.default_rng([self.q.seed, _SEED]), (key[1],)).tolist()
        return [way * (abs(x) or 1.0) for way, x in zip(_DIRECTIONS[key], self.q.xs, strict=True)], [1.0]


def coded(q: Question) -> Coded | None:
    """Return the compiled code of a question's function; None where there is none, which is then traced."""
    numbers = all(isinstance(x, float) for x in q.point.values.values())
    if q.f.kind != "expression" or q.blind is not None or not numbers:
        return None
    known = _CODE.setdefault(q.f, {})
    key = (tuple(q.point.values), q.wrt)
    if key not in known:
        try:
            with np.errstate(all="ignore"):
                known[key] = in_balls(q.f, q.point.values, q.wrt)
        except (GradcliError, TypeError, ValueError, ArithmeticError):  # the traced function says what the matter is
            known[key] = None
    code = known[key]
    return None if code is None else Coded(q, code)


def _direction(rng: Any, x: Array) -> Any:
    """Return random steps in proportion to the entries, so that small entries do not hide behind large ones."""
    scale = np.abs(x)
    if not np.all(scale):
        scale = np.where(scale == 0, float(np.median(scale)) or 1.0, scale)
    return either_way(rng, shape(x)) * scale
