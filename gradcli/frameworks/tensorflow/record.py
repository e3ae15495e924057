"""Recording of a TensorFlow function as a program in numpy: its graph at one point, operation by operation."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from gradcli.core.primitive import Value
from gradcli.errors import GradcliError, NotSupported
from gradcli.frameworks.framework import EPS
from gradcli.frameworks.recorder import RecordedSteps, Slot, Step, rounds_to
from gradcli.frameworks.tensorflow.calls import without_rules
from gradcli.frameworks.tensorflow.evaluate import Line, Plan, evaluated, planned, settled
from gradcli.frameworks.tensorflow.ops import TABLE
from gradcli.frameworks.tensorflow.ops.lists import Items
from gradcli.point import Array
from gradcli.source.python import message_of
from gradcli.source.structure import put_together, taken_apart

_NAMES = {
    "StopGradient": "stop_gradient", "Cast": "convert_element_type", "Greater": "gt", "GreaterEqual": "ge", "Less": "lt",
    "LessEqual": "le", "AddV2": "add",
}  # fmt: skip

_FUNCTIONS = ("f", "then_branch", "else_branch", "cond", "body")  # attributes that name a function of the graph


def host(x: Any) -> Array:
    """Return a tensor in numpy: floats in float64, an array without axes as a number."""
    x = tf.convert_to_tensor(x)
    if x.dtype.is_floating:
        x = tf.cast(x, tf.float64)
    return np.array(x.numpy())[()]


def recorded(
    function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], xs: Sequence[Any]
) -> tuple[RecordedSteps, Any]:
    """Record a call as a program of the tensors `xs`; return it with the call's result.

    Custom gradients are ignored: the program computes the function's value.

    Raises  NotSupported if no graph can be made, or the program's value differs from TensorFlow's.
    """
    node, leaves = taken_apart("", (tuple(args), kwargs))
    order = {id(x): k for k, x in enumerate(xs)}

    def call(*inputs: Any) -> Any:
        given, named = put_together(
            node, {path: inputs[order[id(x)]] if id(x) in order else x for path, x in leaves.items()}
        )
        return _floats(function(*given, **named))

    y = function(*args, **kwargs)
    floats = _floats(y)
    program = _program(_graph(call, xs), len(xs), len(floats))
    program.confirm([host(x) for x in xs], [(host(t), t.dtype.name) for t in floats], "TensorFlow")
    return program, y


def _program(graph: Any, inputs: int, outputs: int) -> RecordedSteps:
    """Return a concrete function as a program: one step for each operation if `TABLE` has them all, else a single step."""
    plan = planned(graph.graph)
    inner = [line for each in _inner(plan) for line in each.lines]
    lines = [*plan.lines, *inner]
    formats = [
        dtype.name for line in [*_moving(plan, inputs), *inner] for _, dtype in line.outputs if dtype.name in EPS
    ]
    narrowest = max(["float64", *formats], key=lambda name: EPS[name])
    cuts = [("stop", line.at) for line in lines if line.type == "StopGradient"]
    if len(plan.inputs) > inputs or any(line.type not in TABLE for line in plan.lines):
        outs = list(range(inputs, inputs + outputs))
        compute = lambda *values: evaluated(graph, list(values))
        step = Step("tf.graph", compute, tuple(map(Slot, range(inputs))), {}, tuple(outs))
        return RecordedSteps([step], {}, list(range(inputs)), outs, cuts, narrowest, True)
    steps = [_step(line) for line in plan.lines]
    numbers = [number for number, _ in plan.inputs]
    return RecordedSteps(steps, dict(plan.constants), numbers, list(plan.outputs), cuts, narrowest, True)


def _moving(plan: Plan, inputs: int) -> Iterator[Line]:
    """Yield the operations whose values depend on the inputs."""
    moving = {number for number, _ in plan.inputs[:inputs]}
    for line in plan.lines:
        if not moving.isdisjoint(line.inputs):
            moving.update(number for number, _ in line.outputs)
            yield line


def _step(line: Line) -> Step:
    outs = tuple(number for number, _ in line.outputs)
    runs_functions = any(name in line.attributes for name in _FUNCTIONS)
    return Step(
        _named(line), partial(_ran, line), tuple(map(Slot, line.inputs)), {}, outs, line.at,
        rounds_to=None if runs_functions else rounds_to(dtype.name for _, dtype in line.outputs),
    )  # fmt: skip


def _inner(plan: Plan) -> Iterator[Plan]:
    """Yield the plans of the functions that a graph calls."""
    for line in plan.lines:
        for name in _FUNCTIONS:
            called = getattr(line.attributes.get(name), "name", None)
            found = plan.graph._get_function(called) if called is not None else None
            if found is not None and getattr(found, "graph", None) is not None:
                inner = planned(found.graph)
                yield inner
                yield from _inner(inner)


def _ran(line: Line, *xs: Value) -> list[Value]:
    """Return the outputs of one operation."""
    with np.errstate(all="ignore"):
        y = TABLE[line.type](*xs, **line.attributes)
    found = y if isinstance(y, tuple) and not isinstance(y, Items) else (y,)
    return [settled(x, dtype) for x, (_, dtype) in zip(found, line.outputs, strict=False)]


def _named(line: Line) -> str:
    return f"tf.{_NAMES.get(line.type, line.type.lower())}"


def _graph(call: Callable[..., Any], xs: Sequence[Any]) -> Any:
    """Return the concrete function of a call; AutoGraph is used only if the control flow needs the values of tensors."""
    specs = [tf.TensorSpec(x.shape, x.dtype) for x in xs]
    try:
        with without_rules():
            try:
                return tf.function(call, autograph=False).get_concrete_function(*specs)
            except tf.errors.OperatorNotAllowedInGraphError:
                return tf.function(call).get_concrete_function(*specs)
    except GradcliError:
        raise
    except Exception as error:
        raise NotSupported(f"TensorFlow cannot make a graph of it: {message_of(error)[:160]}") from error


def _floats(y: Any) -> list[Any]:
    leaves = taken_apart("", y)[1].values()
    return [t for t in leaves if isinstance(t, tf.Tensor | tf.Variable) and t.dtype.is_floating]
