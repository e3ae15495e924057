"""Where function values contradict a traced gradient: is a rule wrong, or is the trace not the function?"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcli.core.primitive import Params, Primitive, Value
from gradcli.core.shapes import is_plain, shape
from gradcli.errors import GradcliError
from gradcli.interpreters.ball import Ball, nearest, precision, radius
from gradcli.interpreters.tape import CONSTANT, Line
from gradcli.modes.mode import Question
from gradcli.modes.work import work
from gradcli.numerics import steps
from gradcli.numerics.noise import EPS

_MOST_LINES = 400
_BITS = 384  # in which an operation and its rule are compared
_HALVINGS = 96  # of the operand, to the step of the difference of an operation's values
_MOST_OPERATIONS = 200_000  # of one line, beyond which balls cost too much
_CLEAR = 10.0  # bounds that a rule must be off by
_RESOLVED = 1e-11  # of the slope: what a rule may differ by, where it is compared with values of many digits
_KERNEL = 1e-6  # of the slope: what the float64 kernel of a rule may lose where its slope is nearly zero


def wrong_rule(q: Question) -> tuple[Primitive, Any] | None:
    """Return the operation whose rule contradicts its own values, and where it is; None where all agree.

    Operation and rule are compared at that operand in balls, where both truncation and rounding are beyond float64; an
    operation that has no balls, by differences that see no finer structure.

    Cost  four evaluations in balls of each operation, one line for each argument of each primitive.
    """
    rng = np.random.default_rng([q.seed, 0xB1A])
    tried: set[tuple[str, int]] = set()
    with np.errstate(all="ignore"):
        for line in q.lines[:_MOST_LINES]:
            primitive, slots, xs, y, _, position = line
            if primitive is None or not is_plain(y) or not all(map(is_plain, xs)):
                continue
            for i, slot in enumerate(slots):
                if slot != CONSTANT and (primitive.name, i) not in tried:
                    tried.add((primitive.name, i))
                    if _contradicts(primitive, line, i, rng):
                        return primitive, position
    return None


def _contradicts(primitive: Primitive, line: Line, i: int, rng: np.random.Generator) -> bool:
    _, _, xs, y, params, _ = line
    x = np.asarray(xs[i])
    xdot = (rng.choice([-1.0, 1.0], shape(x)) * rng.uniform(0.5, 1.0, shape(x)) * np.where(x == 0, 1.0, np.abs(x)))[()]
    weights = rng.uniform(0.5, 1.5, shape(y)) * ~_at_its_kink(line)  # there a rule states a convention
    by_rule = weights * primitive.rule(i).push(primitive, i, y, xs, xdot, params or {})
    size = float(np.sum(np.abs(by_rule)))
    if work(line).operations > _MOST_OPERATIONS:
        return _by_differences(primitive, line, i, xdot, weights, float(np.sum(by_rule)), size)
    try:
        with precision(_BITS):
            slope, by_ball, bound = _in_balls(primitive, i, xs, xdot, weights, params or {})
    except (GradcliError, ArithmeticError, TypeError, ValueError):  # the operation has no balls
        return _by_differences(primitive, line, i, xdot, weights, float(np.sum(by_rule)), size)
    if not np.isfinite(bound):
        return False
    apart, apart_in_floats = abs(by_ball - slope), abs(float(np.sum(by_rule)) - slope)
    return apart > _CLEAR * bound + _RESOLVED * size or apart_in_floats > _CLEAR * bound + _KERNEL * size


def _in_balls(
    primitive: Primitive, i: int, xs: Sequence[Value], xdot: Value, weights: Any, params: Params
) -> tuple[float, float, float]:
    """Return a weighted sum of the slopes of an operation by its values and by its rule, and what both may be off by."""
    balls, direction = [Ball.lift(x) for x in xs], Ball.lift(xdot)

    def total(y: Value) -> Value:
        return np.sum(Ball.lift(0) + y * Ball.lift(weights)) if shape(y) else Ball.lift(0) + y * Ball.lift(weights)

    def at(h: Value) -> Value:
        return total(primitive.fun(*balls[:i], balls[i] + direction * h, *balls[i + 1 :], **params))

    steps = [Ball.lift(2) ** -halvings for halvings in (_HALVINGS, _HALVINGS - 1)]
    fine, coarse = ((at(h) - at(-h)) / (h * 2) for h in steps)
    y = Ball.lift(0) + primitive.fun(*balls, **params)
    rule = total(primitive.rule(i).push(primitive, i, y, balls, direction, params))
    bound = abs(float(nearest(coarse - fine))) + sum(float(radius(part)) for part in (fine, coarse, rule))
    return float(nearest(fine)), float(nearest(rule)), bound


def _by_differences(
    primitive: Primitive, line: Line, i: int, xdot: Value, weights: Any, by_rule: float, size: float
) -> bool:
    """Whether differences of an operation contradict its rule; where they show a kink or two slopes, they do not."""
    _, _, xs, y, params, _ = line

    def phi(t: float) -> Any:
        moved = list(xs)
        moved[i] = (xs[i] + t * xdot)[()]
        return float(np.sum(weights * primitive.fun(*moved, **(params or {}))))

    found = steps.derivative(steps.Line(phi, at=phi(0.0)), noise=steps.Noise(EPS * float(np.sum(np.abs(weights * y)))))
    room = _CLEAR * float(found.bound) + _RESOLVED * size
    return (
        bool(np.isfinite(room) and not found.kinked and np.isnan(found.other))
        and abs(by_rule - float(found.value)) > room
    )


def on_a_flat_kink(q: Question) -> bool:
    """Whether the run hits a kink through which no slope flows: only higher derivatives jump there."""
    return any(np.any(_at_its_kink(line)) for line in q.lines)


def _at_its_kink(line: Line) -> Any:
    """Return the entries of the result of a line that are at a kink of its operation."""
    primitive, _, xs, y, params, _ = line
    kink = None if primitive is None else primitive.kink
    return np.zeros(shape(y), dtype=bool) if kink is None else np.asarray(kink(y, *xs, **(params or {})))
