"""Convert what a function returns into one number or array; the parts of a tuple or dict are concatenated."""

from typing import Any

import numpy as np

from gradcli.errors import FunctionFailed
from gradcli.rules.shaping import as_value
from gradcli.targets.function import Output
from gradcli.targets.structure import taken_apart
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import FloatResult, Tracer, settle, traced_result

_NUMBER = "return a float, an array of floats, or a tuple or dict of these"


def flattened(y: Any, text: str) -> tuple[Value, tuple[Output, ...]]:
    """Return a result as one value, and its parts in order if it is a tuple or dict (none for a single value).

    Shapes  a single value keeps its shape; the parts of a tuple or dict become one vector.
    Raises  FunctionFailed for None, strings and other objects, empty tuples and dicts, and lists of parts that differ in
            shape. Complex numbers pass, for the complex step.
    """
    y = traced_result(settle(y))
    if isinstance(y, Tracer | np.ndarray | float | np.floating):
        return _value(y, text), ()
    if isinstance(y, list):
        y = _joined(y, text)
        return _value(y, text), ()
    if not isinstance(y, tuple | dict):
        return _value(y, text), ()
    leaves = {path: _value(x, text) for path, x in taken_apart("", y)[1].items()}
    if not leaves:
        raise FunctionFailed(f"{text} returns an empty {type(y).__name__}", do=_NUMBER)
    outputs = tuple(Output(path.removeprefix("."), shape(x)) for path, x in leaves.items())
    return np.concatenate([np.reshape(x, (-1,)) for x in leaves.values()]), outputs


def _joined(y: list[Any], text: str) -> Any:
    try:
        return as_value(_without_floats(y)) if _holds_tracer(y) else np.asarray(y)
    except ValueError:
        raise FunctionFailed(
            f"{text} returns a list of parts with different shapes", do="return a tuple of them"
        ) from None


def _without_floats(y: Any) -> Any:
    return list(map(_without_floats, y)) if isinstance(y, list | tuple) else traced_result(y)


def _holds_tracer(y: Any) -> bool:
    return any(map(_holds_tracer, y)) if isinstance(y, list | tuple) else isinstance(y, Tracer | FloatResult)


def _value(y: Any, text: str) -> Value:
    y = traced_result(y)
    if isinstance(y, Tracer):
        return y
    if y is None:
        raise FunctionFailed(f"{text} returns None", do="does it lack a return statement?")
    array = np.asarray(y)
    if array.dtype == object and array.size and _holds_tracer(array.reshape(-1).tolist()):
        return as_value(array.tolist())
    if array.dtype.kind == "c":
        return array.copy()[()]  # from the complex step; `survey` has checked that the result is real on real inputs
    if array.dtype.kind not in "fiub":
        raise FunctionFailed(f"{text} returns {_described(y)}, which has no gradient", do=_NUMBER)
    return array.astype(np.float64)[()]  # a copy: the function may use its array again


def _described(y: Any) -> str:
    if isinstance(y, str):
        return "a string"
    if isinstance(y, np.ndarray):
        return f"an array of {'strings' if y.dtype.kind in 'US' else y.dtype.name}"
    return f"a value of type {type(y).__name__}"


def named_outputs(outputs: tuple[Output, ...]) -> list[str]:
    """Return a name for every entry of the concatenated outputs: `loss`, `aux[3]`."""
    names = []
    for output in outputs:
        for at in np.ndindex(*output.shape):
            names.append(output.name + (f"[{','.join(map(str, at))}]" if at else ""))
    return names
