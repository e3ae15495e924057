"""The trace test of functions that are differentiated from Python: it runs once for each function, at its first call."""

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradcli.core import levels
from gradcli.core.primitive import named
from gradcli.core.shapes import shape
from gradcli.core.tracer import plain
from gradcli.core.unmoving import is_zero
from gradcli.errors import GradcliError, TraceDiffers
from gradcli.interpreters.program import record
from gradcli.numerics.kinks import kinks
from gradcli.numerics.steps import quick_derivative
from gradcli.numerics.trace_test import TraceTest, contributions, displacement, random_weights, roundings, trace_test
from gradcli.source.call import Call, Wrt

_EQUALITIES = (named("equal"), named("not_equal"))
_KNOWN: weakref.WeakSet[Callable[..., Any]] = weakref.WeakSet()  # functions whose trace was tested
_DO = "let it depend on its arguments alone: keep no state, draw no random numbers; verify=False skips this test"


class FirstCall:
    """Tests, at the first call of a function, that its recorded program computes the function."""

    def __init__(self, f: Callable[..., Any], wrt: Wrt) -> None:
        self.f, self.wrt = f, wrt
        self.done = _is_known(f)

    def test(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Compare the function with its recorded program near these arguments.

        Cost    recording f, two or three evaluations of it and one of its program.
        Raises  TraceDiffers if the two differ; whatever f raises.
        """
        if levels.depth():
            return  # the function is part of another, which is tested itself
        call = Call(self.f, args, kwargs, self.wrt)
        self.done = True
        _remember(self.f)
        with np.errstate(all="ignore"):
            found = _tested(call)
        if found.agrees is False:
            name = getattr(self.f, "__name__", type(self.f).__name__)
            raise TraceDiffers(f"the trace of {name} differs from the function: {found.why}", do=_DO)


def _tested(call: Call) -> TraceTest:
    program = record(call, call.xs)
    y, inputs, tape = program
    if not program.moves or shape(y) != () or not np.isfinite(plain(y)):
        return TraceTest(None)
    bars = tape.swept(y.slot, np.float64(1), inputs)
    if any(mark.primitive in _EQUALITIES for mark in kinks(program, bars)):
        return _at_an_equality(call, [bars[x.slot] for x in inputs])
    contributed = contributions(program, bars)
    sizes = [np.where(is_zero(x), 1.0, np.abs(x)) for x in call.xs]

    def room(value: Any) -> Any:
        return roundings(contributed) * max(1.0, abs(float(value)) / max(abs(float(plain(y))), 1e-300)) + roundings(
            abs(value)
        )

    return trace_test(call, program, call.xs, displacement(random_weights(0, call.xs), sizes), room)


def _at_an_equality(call: Call, slopes: Sequence[Any]) -> TraceTest:
    """Compare the recorded slope with function values if a comparison for equality holds only at the point itself.

    The comparison may be a branch of the function, with the same slope as nearby, or the key of a cache.
    """
    sizes = [np.where(is_zero(x), 1.0, np.abs(x)) for x in call.xs]
    vs = displacement(random_weights(0, call.xs), sizes)

    def along(t: float) -> float:
        try:
            return float(call(*[x + t * v for x, v in zip(call.xs, vs, strict=True)]))
        except GradcliError:
            return float("nan")

    found = quick_derivative(along, 0.0)
    slope = sum(float(np.sum(g * v)) for g, v in zip(slopes, vs, strict=True) if g is not None)
    apart = abs(float(found.value) - slope)
    size = max(abs(float(found.value)), abs(slope))
    if not np.isfinite(apart) or apart <= 3 * float(found.bound) + 1e-9 * size:
        return TraceTest(None)
    return TraceTest(
        False, f"along one direction the slope of its values is {float(found.value):.9g}, that of the trace {slope:.9g}"
    )


def _is_known(f: Callable[..., Any]) -> bool:
    try:
        return f in _KNOWN
    except TypeError:  # it is not hashable, or has no weak references
        return False


def _remember(f: Callable[..., Any]) -> None:
    try:
        _KNOWN.add(f)
    except TypeError:
        return
