"""Find the operation whose derivative rule is wrong, when function values contradict a traced gradient."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradcli.arithmetic.ball import Ball, nearest, precision, radius
from gradcli.arithmetic.tape import CONSTANT, Line
from gradcli.errors import GradcliError
from gradcli.modes import steps
from gradcli.modes.mode import Question
from gradcli.modes.problem import work
from gradcli.modes.steps import EPS
from gradcli.tracing.primitive import Params, Primitive, Value
from gradcli.tracing.shapes import is_plain, shape

_MOST_LINES = 400
_BITS = 384  # the precision in which an operation and its rule are compared
_STEP_EXPONENT = 96  # the step is 2**-96 of a direction of the operand's own size
_MOST_OPERATIONS = 200_000  # in one line: beyond this, balls cost too much
_CONTRADICTION_FACTOR = 10.0  # a rule contradicts the values only if it is off by more than this many bounds
_RULE_TOLERANCE = 1e-11  # relative to the sum of |rule|, allowed in addition to the bound
_FLOAT64_RULE_TOLERANCE = 1e-6  # the same for a rule evaluated in float64, where terms may cancel


def wrong_rule(q: Question) -> tuple[Primitive, Any] | None:
    """Return the first operation whose rule contradicts its values, and its position in the source; None if none is found.

    Each operation is compared at its recorded operands in 384-bit balls, so that truncation and rounding errors are far
    below those of float64. Operations that balls do not support, or that are too large, are compared by float64
    differences. Only the first 400 lines of the program are searched, and for each argument of a primitive only the first
    line that uses it.

    Cost  five evaluations of the operation and one of its rule, in balls, for each comparison.
    """
    rng = np.random.default_rng([q.seed, 0xB1A])
    tried: set[tuple[str, int]] = set()
    with np.errstate(all="ignore"):
        for line in q.lines[:_MOST_LINES]:
            primitive, slots, xs, y, _, position = line
            if primitive is None or not is_plain(y) or not all(map(is_plain, xs)):
                continue
            if primitive.error is not None:
                continue  # its values have the error of a solver, of which differences know nothing
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
    weights = rng.uniform(0.5, 1.5, shape(y)) * ~_entries_at_a_kink(line)  # at a kink, any slope is a convention
    by_rule = weights * primitive.rule(i).push(primitive, i, y, xs, xdot, params or {})
    size = float(np.sum(np.abs(by_rule)))
    if work(line).operations > _MOST_OPERATIONS:
        return _by_differences(primitive, line, i, xdot, weights, float(np.sum(by_rule)), size)
    try:
        with precision(_BITS):
            slope, rule_slope_in_balls, bound = _in_balls(primitive, i, xs, xdot, weights, params or {})
    except (GradcliError, ArithmeticError, TypeError, ValueError):  # balls do not support the operation
        return _by_differences(primitive, line, i, xdot, weights, float(np.sum(by_rule)), size)
    if not np.isfinite(bound):
        return False
    apart, apart_in_floats = abs(rule_slope_in_balls - slope), abs(float(np.sum(by_rule)) - slope)
    return (
        apart > _CONTRADICTION_FACTOR * bound + _RULE_TOLERANCE * size
        or apart_in_floats > _CONTRADICTION_FACTOR * bound + _FLOAT64_RULE_TOLERANCE * size
    )


def _in_balls(
    primitive: Primitive, i: int, xs: Sequence[Value], xdot: Value, weights: Any, params: Params
) -> tuple[float, float, float]:
    """Return a weighted sum of the slopes by values, the same sum by the rule, and a bound on the error of both."""
    balls, direction = [Ball.lift(x) for x in xs], Ball.lift(xdot)

    def total(y: Value) -> Value:
        return np.sum(Ball.lift(0) + y * Ball.lift(weights)) if shape(y) else Ball.lift(0) + y * Ball.lift(weights)

    def at(h: Value) -> Value:
        return total(primitive.fun(*balls[:i], balls[i] + direction * h, *balls[i + 1 :], **params))

    step_sizes = [Ball.lift(2) ** -halvings for halvings in (_STEP_EXPONENT, _STEP_EXPONENT - 1)]
    fine, coarse = ((at(h) - at(-h)) / (h * 2) for h in step_sizes)
    y = Ball.lift(0) + primitive.fun(*balls, **params)
    rule = total(primitive.rule(i).push(primitive, i, y, balls, direction, params))
    bound = abs(float(nearest(coarse - fine))) + sum(float(radius(part)) for part in (fine, coarse, rule))
    return float(nearest(fine)), float(nearest(rule)), bound


def _by_differences(
    primitive: Primitive, line: Line, i: int, xdot: Value, weights: Any, by_rule: float, size: float
) -> bool:
    """Whether differences of an operation contradict its rule; False if the differences show a kink or a second slope."""
    _, _, xs, y, params, _ = line

    def phi(t: float) -> Any:
        moved = list(xs)
        moved[i] = (xs[i] + t * xdot)[()]
        return float(np.sum(weights * primitive.fun(*moved, **(params or {}))))

    found = steps.derivative(steps.Line(phi, at=phi(0.0)), noise=steps.Noise(EPS * float(np.sum(np.abs(weights * y)))))
    room = _CONTRADICTION_FACTOR * float(found.bound) + _RULE_TOLERANCE * size
    return (
        bool(np.isfinite(room) and not found.kinked and np.isnan(found.other))
        and abs(by_rule - float(found.value)) > room
    )


def hits_a_kink(q: Question) -> bool:
    """Whether any recorded operation is evaluated at its kink, even if the slope of f is continuous there."""
    return any(np.any(_entries_at_a_kink(line)) for line in q.lines)


def _entries_at_a_kink(line: Line) -> Any:
    """Return a mask of the entries of a line's result at which the operation has a kink."""
    primitive, _, xs, y, params, _ = line
    kink = None if primitive is None else primitive.kink
    return np.zeros(shape(y), dtype=bool) if kink is None else np.asarray(kink(y, *xs, **(params or {})))
