"""Recording of an MLX function as a program in numpy: its exported graph at one point, primitive by primitive."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import mlx.core as mx
import numpy as np

from gradcli.core.provenance import position
from gradcli.errors import GradcliError, NotSupported
from gradcli.frameworks.mlx.operations import TABLE
from gradcli.frameworks.mlx.rules import without_rules
from gradcli.frameworks.recorder import RecordedSteps, Slot, Step, rounds_to
from gradcli.point import Array
from gradcli.source.python import message_of
from gradcli.source.structure import put_together, taken_apart

_FLOAT64 = 1e-6  # relative: MLX computes some float64 in float32
_NAMES = {
    "AsType": "convert_element_type",
    "Greater": "gt",
    "GreaterEqual": "ge",
    "Less": "lt",
    "LessEqual": "le",
    "Multiply": "mul",
    "StopGradient": "stop_gradient",
    "Subtract": "sub",
}  # names by which `surrogate` recognises step functions


def host(x: Any) -> Array:
    """Return an array in numpy: floats in float64, an array without axes as a number."""
    if x.dtype == mx.bfloat16:
        x = x.astype(mx.float32)
    y = np.array(x)
    return (y.astype(np.float64) if y.dtype.kind == "f" else y)[()]


def floats(y: Any) -> list[Any]:
    """Return the float arrays of a result."""
    leaves = taken_apart("", y)[1].values()
    return [t for t in leaves if isinstance(t, mx.array) and mx.issubdtype(t.dtype, mx.floating)]


def recorded(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: dict[str, Any],
    xs: Sequence[Any],
    again: Callable[[], None],
) -> tuple[RecordedSteps, Any]:
    """Record a call as a program of the arrays `xs`; return it with the call's result.

    Custom gradients are ignored: the program computes the function's value. `again` resets the random seed.

    Raises  NotSupported if MLX cannot export the graph, a primitive is not known, or the program's value differs from MLX's.
    """
    node, leaves = taken_apart("", (tuple(args), kwargs))
    order = {id(x): k for k, x in enumerate(xs)}

    def call(*inputs: Any) -> Any:
        given, named = put_together(
            node, {path: inputs[order[id(x)]] if id(x) in order else x for path, x in leaves.items()}
        )
        again()
        return floats(function(*given, **named))

    again()
    y = function(*args, **kwargs)
    told: list[dict[str, Any]] = []
    cuts: list[tuple[str, Any]] = []
    try:
        with without_rules(), _cuts(cuts):
            mx.export_function(told.append, call, *xs)
    except GradcliError:
        raise
    except Exception as error:
        raise NotSupported(f"MLX cannot export its graph: {message_of(error)[:160]}") from error
    program = _program(told)
    program.cuts, program.holds_everywhere = cuts, True
    theirs = [(host(t), _format(t.dtype)) for t in floats(y)]
    program.confirm([host(x) for x in xs], theirs, "MLX", _FLOAT64)
    return program, y


@contextmanager
def _cuts(found: list[tuple[str, Any]]) -> Iterator[None]:
    """Collect the lines where gradients are stopped, which the exported graph does not contain."""
    own = mx.stop_gradient

    def stop_gradient(*args: Any, **kwargs: Any) -> Any:
        found.append(("stop", position()))
        return own(*args, **kwargs)

    mx.stop_gradient = stop_gradient
    try:
        yield
    finally:
        mx.stop_gradient = own


def _program(told: Sequence[dict[str, Any]]) -> RecordedSteps:
    """Return an exported graph as a program. Raises NotSupported for a primitive that is not replayed."""
    program, numbers = RecordedSteps(), dict[str, int]()

    def number(name: str) -> int:
        return numbers.setdefault(name, len(numbers))

    for part in told:
        if part["type"] == "inputs":
            program.inputs = [number(name) for name, *_ in part["inputs"]]
        elif part["type"] == "outputs":
            program.results = [number(name) for name, *_ in part["outputs"]]
        elif part["type"] == "constants":
            program.constants = {number(name): host(x) for name, x in part["constants"]}
        elif part["type"] == "primitive":
            name = part["name"]
            if name not in TABLE:
                raise NotSupported(f"MLX's {name} is not replayed")
            operands = tuple(Slot(number(given)) for given, *_ in part["inputs"])
            for *_, dtype in part["outputs"]:
                program.narrow(_format(dtype))
            outs = tuple(number(made) for made, *_ in part["outputs"])
            compute = partial(TABLE[name], own=part["arguments"])
            form = rounds_to(_format(dtype) for *_, dtype in part["outputs"])
            program.steps.append(Step(_step(name), compute, operands, {}, outs, rounds_to=form))
    return program


def _step(name: str) -> str:
    return f"mlx.{_NAMES.get(name, name.lower())}"


def _format(dtype: Any) -> str:
    return str(dtype).rpartition(".")[2]
