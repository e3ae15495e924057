"""Record the calls of MLX's functions with a gradient of their own, `mx.custom_function`."""

from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import numpy as np

from gradcli.frameworks.mlx import function_and_rule
from gradcli.project.capture.recorder import GradientPair, Recorder, definition_name, find_caller


def replacements(recorder: Recorder) -> Iterator[tuple[Any, str, Any]]:
    """Yield what is replaced in MLX: by the same call of a function with a gradient of its own, which is recorded."""
    plain = mx.custom_function.__call__

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        function, rule = function_and_rule(self) if recorder.is_on else (None, None)
        recorded = None if rule is None else recorder.recorded(rule, "vjp", definition_name(function))
        if recorded is not None and rule is not None:
            pair = GradientPair("vjp", self, rule, "framework", options={"framework": "mlx"})
            shapes = tuple(map(_shape_and_format, (*args, *kwargs.values())))

            def given() -> Any:
                return tuple(map(_as_array, args)), {name: _as_array(x) for name, x in kwargs.items()}

            kept = recorded.keep_call(pair, shapes, given, at=find_caller("mlx"))
            if kept is not None:
                kept.drawn = any(isinstance(x, _Drawn) for x in (*kept.args, *kept.kwargs.values()))
        return plain(self, *args, **kwargs)

    yield mx.custom_function, "__call__", call


class _Drawn(np.ndarray):
    """An array whose values were drawn, as MLX would not show those of the call."""


def _as_array(x: Any) -> Any:
    if not isinstance(x, mx.array):
        return x
    wide = x.astype(mx.float32) if x.dtype == mx.bfloat16 else x
    try:
        return np.array(mx.stop_gradient(wide))
    except (RuntimeError, ValueError):  # under compile and vmap arrays have no values
        return np.random.default_rng(0).normal(size=x.shape).view(_Drawn)


def _shape_and_format(x: Any) -> Any:
    return (tuple(x.shape), str(x.dtype)) if isinstance(x, mx.array) else type(x).__name__
