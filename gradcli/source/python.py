"""Python callables as functions of named inputs."""

import inspect
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from gradcli.core.primitive import Value
from gradcli.core.tracer import Tracer
from gradcli.errors import Span
from gradcli.source.standin import stand_ins


class PythonFunction:
    """A Python function of positional array arguments; traced with the stand-ins in place, untouched on plain arrays."""

    kind = "python"

    def __init__(self, function: Callable[..., Any], text: str | None = None) -> None:
        self.function = function
        self.text = text or getattr(function, "__qualname__", repr(function))
        self.inputs = tuple(inspect.signature(function).parameters)
        module = sys.modules.get(getattr(function, "__module__", ""))
        self.modules: tuple[ModuleType, ...] = (module,) if module is not None else ()

    def __call__(self, values: Mapping[str, Value]) -> Value:
        args = [values[name] for name in self.inputs]
        tracers = [x for x in args if isinstance(x, Tracer)]
        if not tracers:
            return self.function(*args)
        with stand_ins(max(tracers, key=lambda x: x.level).hold, self.modules):
            return self.function(*args)

    def survey(self, values: Mapping[str, Value]) -> tuple[Value, list[tuple[str, Span]]]:
        return self(values), []
