"""What an MLX function did, as a program of gradcli's own: its exported graph at one point, primitive by primitive."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import mlx.core as mx
import numpy as np

from gradcli.core.provenance import position
from gradcli.errors import GradcliError, NotSupported
from gradcli.frameworks.framework import EPS
from gradcli.frameworks.mlx.operations import TABLE
from gradcli.frameworks.mlx.rules import without_rules
from gradcli.frameworks.recorded_steps import CANCELS, RecordedSteps, Slot, Step, largest, ran
from gradcli.point import Array
from gradcli.source.python import message_of
from gradcli.source.structure import put_together, taken_apart

_SAME = {mx.float64: 1e-6, mx.float32: 1e-3}  # of the largest entry: some of its float64 is computed in float32
_LOOSE = 5e-2  # for narrower formats
_NAMES = {
    "AsType": "convert_element_type",
    "Greater": "gt",
    "GreaterEqual": "ge",
    "Less": "lt",
    "LessEqual": "le",
    "Multiply": "mul",
    "StopGradient": "stop_gradient",
    "Subtract": "sub",
}  # by which staircases are known


def host(x: Any) -> Array:
    """Return an array as numpy has it: floats in float64, 0-d as a number."""
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
    """Return what a call does as a program of the arrays `xs`, and the call's result. Raises NotSupported.

    Functions with gradients of their own are what they compute; `again` sets the random numbers back. The program is
    used if it gives what MLX gives.
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
    _compared(program, xs, floats(y))
    return program, y


@contextmanager
def _cuts(found: list[tuple[str, Any]]) -> Iterator[None]:
    """Note where gradients are stopped: the graph does not tell."""
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
    """Return what an export told as a program. Raises NotSupported for a primitive that is not replayed."""
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
                program.narrowest = _narrowest(dtype, program.narrowest)
            outs = tuple(number(made) for made, *_ in part["outputs"])
            program.steps.append(Step(_step(name), partial(TABLE[name], own=part["arguments"]), operands, {}, outs))
    return program


def _step(name: str) -> str:
    return f"mlx.{_NAMES.get(name, name.lower())}"


def _narrowest(y: Any, so_far: str) -> str:
    name = str(y).rpartition(".")[2]
    return max(name, so_far, key=lambda known: EPS.get(known, 0.0))


def _compared(program: RecordedSteps, xs: Sequence[Any], theirs: Sequence[Any]) -> None:
    """Refuse a reading of the graph that gives another value than MLX does."""
    values: dict[int, Any] = dict(zip(program.inputs, map(host, xs), strict=True)) | program.constants
    with np.errstate(all="ignore"):
        for step in program.steps:
            ran(step, values)
    most = max(map(largest, values.values()), default=0.0)
    for number, y in zip(program.results, theirs, strict=True):
        right, ours = host(y), values[number]
        size = float(np.max(np.abs(right), initial=0.0, where=np.isfinite(right)))
        size = max(size, CANCELS * most) if y.dtype not in _SAME else size
        room = _SAME.get(y.dtype, _LOOSE) * size + 1e-300
        if np.shape(ours) != np.shape(right) or not np.allclose(ours, right, rtol=0.0, atol=room, equal_nan=True):
            raise NotSupported("gradcli reads the graph differently from MLX")
