"""The trace test of functions that are differentiated from Python: each is tested until it passes once, or is refused."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradcli.arithmetic.recorded_program import record
from gradcli.errors import GradcliError, TraceDiffers
from gradcli.modes.difference_steps import quick_derivative
from gradcli.modes.kinks import EQUALITIES, find_kinks
from gradcli.modes.trace_test import (
    TraceTest,
    allowed_distance,
    displacement,
    random_weights,
    sum_contributions,
    trace_test,
)
from gradcli.targets.call import Call, Wrt, has_passed, name_of_callable, refuse_again, remember_pass, remember_refusal
from gradcli.targets.derived import random_signs
from gradcli.tracing import primitive
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import is_zero, plain_value

_MOST_TESTS = 3  # calls at which nothing could be compared, after which a function is tested no more
_DO = "let it depend on its arguments alone: keep no state, draw no random numbers; verify=False skips this test"


class FirstCall:
    """Tests, at the first call of a function, that its recorded program computes the function.

    A function that differs once is refused at every later call, since a second test may agree by accident.
    """

    def __init__(self, f: Callable[..., Any], wrt: Wrt) -> None:
        self.f, self.wrt = f, wrt
        self.done = has_passed(f)
        self.refusal: str | None = None
        self.tests = 0

    def test(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Compare the function with its recorded program near these arguments.

        Cost    recording f, two or three evaluations of it and one of its program.
        Raises  TraceDiffers if the two differ, or did at an earlier call; whatever f raises.
        """
        if primitive.sweep_depth():
            return  # the function is part of another, which is tested itself
        refuse_again(self.f, self.refusal)
        call = Call(self.f, args, kwargs, self.wrt)
        with np.errstate(all="ignore"):
            found = _test_trace(call)
        if found.agrees is False:
            self.refusal = f"the trace of {name_of_callable(self.f)} differs from the function: {found.why}"
            remember_refusal(self.f, self.refusal)
            raise TraceDiffers(self.refusal, do=_DO)
        self.tests += 1
        self.done = bool(found.agrees) or self.tests >= _MOST_TESTS
        if self.done:
            remember_pass(self.f)


def _test_trace(call: Call) -> TraceTest:
    program = record(call, call.xs)
    y, inputs, tape = program
    if not program.moves or not np.all(np.isfinite(plain_value(y))):
        return TraceTest(None)
    weights = np.float64(1) if shape(y) == () else random_signs(np.random.default_rng(0), shape(y))
    bars = tape.swept(y.slot, weights, inputs)
    sizes = [np.where(is_zero(x), 1.0, np.abs(x)) for x in call.xs]
    steps = displacement(random_weights(0, call.xs), sizes)
    if any(mark.primitive in EQUALITIES for mark in find_kinks(program, bars)):
        return _test_at_equality(call, weights, [bars[x.slot] for x in inputs], steps)
    contributed = sum_contributions(program, bars)
    largest = max(float(np.max(np.abs(plain_value(y)), initial=0.0)), 1e-300)

    def room(value: Any) -> Any:
        grown = max(1.0, float(np.max(np.abs(value), initial=0.0)) / largest)
        return allowed_distance(contributed) * grown + allowed_distance(np.abs(value))

    return trace_test(call, program, call.xs, steps, room)


def _test_at_equality(call: Call, weights: Any, slopes: Sequence[Any], vs: Sequence[Any]) -> TraceTest:
    """Compare the recorded slope with function values if a comparison for equality holds only at the point itself.

    The comparison may be a branch of the function, with the same slope as nearby, or the key of a cache. Several results
    are summed with their `weights`.
    """

    def along(t: float) -> float:
        try:
            y = call(*[x + t * v for x, v in zip(call.xs, vs, strict=True)])
        except GradcliError:
            return float("nan")
        return float(np.sum(weights * y)) if shape(y) == shape(weights) else float("nan")

    found = quick_derivative(along, 0.0)
    slope = sum(float(np.sum(g * v)) for g, v in zip(slopes, vs, strict=True) if g is not None)
    apart = abs(float(found.value) - slope)
    size = max(abs(float(found.value)), abs(slope))
    if not np.isfinite(apart) or apart <= 3 * float(found.bound) + 1e-9 * size:
        return TraceTest(None)
    return TraceTest(
        False, f"along one direction the slope of its values is {float(found.value):.9g}, that of the trace {slope:.9g}"
    )
