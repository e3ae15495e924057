"""Straight-through estimators: the smooth function whose true gradient a deliberately wrong backward pass returns."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradcli.frameworks.recorder import RecordedSteps, Slot, Step, filled, ran
from gradcli.tracing.primitive import Value

_STAIRS = {"round", "rint", "floor", "ceil", "trunc", "fix", "sign", "sgn", "heaviside"}
_TESTS = {"gt", "ge", "lt", "le"}
_CHOICES = {"where", "select_n", "masked_fill"}
_STOPS = {"detach", "stop_gradient"}
_CASTS = {"_to_copy", "convert_element_type", "mul", "add", "sub", "type_as"}

# the smooth function that replaces a step function, up to a constant that keeps its value
SURROGATES: dict[str, Callable[[Value], Value]] = {
    "passes the gradient through":                  lambda x: x,
    "passes the gradient through within [-1, 1]":   lambda x: np.clip(x, -1.0, 1.0),
    "passes the gradient through within [0, 1]":    lambda x: np.clip(x, 0.0, 1.0),
    "has no slope, beside what is detached":         lambda x: 0.0 * x,
}  # fmt: skip


def stairs(program: RecordedSteps) -> list[Step]:
    """Return the steps that a surrogate may replace: step functions, and comparisons whose result is used as a number."""
    return [
        step
        for step in program.steps
        if _base(step) in _STAIRS or (_base(step) in _TESTS and _is_number(step, program))
    ]


def stops(program: RecordedSteps) -> list[Step]:
    """Return the steps that are not differentiated: detached values, and values computed under no_grad."""
    return [step for step in program.steps if _is_stop(step)]


def _is_stop(step: Step) -> bool:
    return step.stopped or _base(step) in _STOPS


def is_choice(step: Step) -> bool:
    """Whether a step chooses between values by a mask."""
    return _base(step) in _CHOICES


def surrogate(program: RecordedSteps, xs: Sequence[Value], smooth: Callable[[Value], Value] | None) -> RecordedSteps:
    """Return the program with stopped values held constant and its step functions replaced by `smooth`, if that is given.

    Its value at `xs` equals that of the original program.
    """
    values: dict[int, Any] = dict(zip(program.inputs, xs, strict=True)) | dict(program.constants)
    chosen, steps = {id(step) for step in stairs(program)}, []
    for step in program.steps:
        first = filled(step.args[0], values) if step.args else None
        ran(step, values)
        y = values[step.outs[0]] if step.outs else None
        if smooth is not None and id(step) in chosen:
            x0 = np.asarray(first, dtype=float)
            steps.append(_stair(step, smooth, np.asarray(y, dtype=float) - np.asarray(smooth(x0))))
        elif _is_stop(step) and step.outs and not step.writes:
            steps.append(replace(step, compute=_constant([np.array(values[number]) for number in step.outs])))
        else:
            steps.append(step)
    return replace(program, steps=steps)


def _stair(step: Step, smooth: Callable[[Value], Value], offset: Any) -> Step:
    def compute(x: Value, *args: Any, **kwargs: Any) -> Value:
        return smooth(x) + offset[()]

    return replace(step, compute=compute)


def _constant(ys: Sequence[Any]) -> Callable[..., Any]:
    """Return a function that returns fresh copies of the same values at each call: later steps may write into them."""

    def constant(*args: Any, **kwargs: Any) -> Any:
        held = [np.array(y)[()] for y in ys]
        return held if len(held) > 1 else held[0]

    return constant


def _base(step: Step) -> str:
    return step.name.rpartition(".")[2]


def _is_number(step: Step, program: RecordedSteps) -> bool:
    """Whether the booleans of a comparison are used only as numbers, by casts and arithmetic."""
    users = [other for other in program.steps if Slot(step.outs[0]) in other.args]
    return bool(users) and all(_base(other) in _CASTS for other in users)
