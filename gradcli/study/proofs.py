"""What ball arithmetic proves of every value of a recorded program, and of its adjoint."""

import math

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.shapes import shape, zeros_like
from gradcli.errors import GradcliError
from gradcli.interpreters.ball import Ball, decimals, error_of, nearest, precision
from gradcli.interpreters.program import Program, record
from gradcli.interpreters.tape import CONSTANT, Recorded
from gradcli.modes.mode import Question
from gradcli.modes.work import Effort
from gradcli.reports.trace import Proved

_BITS = 192
_DIGITS = 30  # of the decimals
_MOST_DIGITS = 17.0  # that float64 can have


def proofs(q: Question) -> list[Proved | None]:
    """Return what balls prove of each line of the recorded program.

    There are no proofs where the program takes more operations on balls than the certified mode does by default, or runs
    otherwise in balls than in float64.

    Cost  one forward and one backward sweep in balls.
    """
    floats, none = q.recording, [None] * len(q.lines)
    if not floats.moves or q.ball_work > Effort.DEFAULT.value or not np.all(np.isfinite(q.value)):
        return list(none)
    try:
        with precision(_BITS), np.errstate(all="ignore"):
            balls = record(q.g, [Ball.lift(x) for x in q.xs])
            if not _is_same(balls, floats) or not isinstance(balls.y, Recorded):
                return list(none)
            bars = balls.tape.sweep(balls.y.slot, Ball.lift(np.ones(shape(q.value))[()]))
            values = zip(balls.tape.values, floats.tape.values, bars, q.bars, strict=True)
            return [_proved(*both) for both in values]
    except GradcliError:  # a comparison that is open at this precision, or an operation without balls
        return list(none)


def _is_same(balls: Program, floats: Program) -> bool:
    """Whether two runs made the same operations, on the same values and constants."""
    if len(balls.lines) != len(floats.lines):
        return False
    pairs = zip(balls.lines, floats.lines, strict=True)
    return all(
        one == other and slots == others and all(map(_is_constant, slots, xs, ys))
        for (one, slots, xs, *_), (other, others, ys, *_) in pairs
    )


def _is_constant(slot: int, x: Value, y: Value) -> bool:
    """Whether an operand is no constant, or the same one in balls as in float64."""
    return slot != CONSTANT or np.array_equal(nearest(x) if isinstance(x, Ball) else x, y)


def _proved(ball: Value, y: Value, ball_bar: Value, bar: Value) -> Proved:
    number = shape(y) == ()
    zero = zeros_like(y)
    bar, ball_bar = zero if bar is None else bar, Ball.lift(zero) if ball_bar is None else ball_bar
    return Proved(
        _decimal(ball) if number else None,
        _decimal(ball_bar) if number else None,
        _digits(ball, y),
        _digits(ball_bar, bar),
    )


def _decimal(ball: Value) -> str:
    return str(np.ravel(decimals(Ball.lift(0) + ball, _DIGITS))[0])


def _digits(ball: Value, approximate: Value) -> float:
    """Return the right digits of the worst entry; an entry that is zero counts from the largest one."""
    error = np.asarray(error_of(Ball.lift(0) + ball, approximate))
    size = np.abs(np.asarray(approximate))
    size = np.where(size == 0, float(np.max(size, initial=0.0)) or 1.0, size)
    worst = float(np.max(error / size, initial=0.0))
    return _MOST_DIGITS if worst == 0 else round(min(_MOST_DIGITS, max(0.0, -math.log10(worst))), 1)
