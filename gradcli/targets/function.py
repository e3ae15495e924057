"""The protocol of the functions that are differentiated: functions of named inputs, wherever they come from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gradcli.errors import Place, Span
from gradcli.tracing.primitive import Value
from gradcli.words import Kind, Severity, TargetKind


@dataclass(frozen=True, slots=True)
class Notice:
    """A remark about a function that runs; `severity` says whether a verdict is still possible."""

    kind: Kind
    severity: Severity
    message: str
    at: Span | Place | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """One part of a tuple or dict of outputs; the parts are concatenated into one vector."""

    name: str
    shape: tuple[int, ...]


class Function(Protocol):
    """A function of named inputs: on numpy values the user's function runs unchanged; on tracers it is traced."""

    @property
    def text(self) -> str:
        """What the user wrote."""

    @property
    def kind(self) -> TargetKind:
        """`expression` or `python`."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs, in order."""

    @property
    def outputs(self) -> tuple[Output, ...]:
        """The parts of the result, where it is a tuple or a dict of outputs."""

    def __call__(self, values: Mapping[str, Value]) -> Value:
        """Return the value at named inputs."""

    def survey(self, values: Mapping[str, Value]) -> tuple[Value, list[Notice]]:
        """Return the value on plain inputs and the notices about it; an expression's sizes are checked before allocation."""

    @property
    def seconds(self) -> float | None:
        """The time of one call in seconds, or None if no survey has measured it."""


def of(f: Function, at: Mapping[str, Value], names: Sequence[str]) -> Callable[..., Value]:
    """Return `f` as a function of the inputs `names` alone, the others fixed at their values in `at`."""
    fixed = dict(at)

    def g(*xs: Value) -> Value:
        return f(fixed | dict(zip(names, xs, strict=True)))

    return g
