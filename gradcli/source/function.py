"""What is differentiated: a function of named inputs, wherever it comes from."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gradcli.core.primitive import Value
from gradcli.errors import Place, Span
from gradcli.words import Severity, TargetKind


@dataclass(frozen=True, slots=True)
class Notice:
    """What deserves a word although the function runs, and whether there can still be a verdict."""

    kind: str
    severity: Severity
    message: str
    at: Span | Place | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """One part of a tuple or dict of outputs, which are laid end to end."""

    name: str
    shape: tuple[int, ...]


class Function(Protocol):
    """A function of named inputs; called on numpy values it is the untouched function, on tracers it is traced."""

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
        """Return the value, sizes checked before anything is allocated, and what deserves a warning."""

    @property
    def seconds(self) -> float | None:
        """The time of one call, where a survey has measured it."""


def of(f: Function, at: Mapping[str, Value], names: Sequence[str]) -> Callable[..., Value]:
    """Return `f` as a function of the inputs `names` alone, the others fixed at their values in `at`."""
    fixed = dict(at)

    def g(*xs: Value) -> Value:
        return f(fixed | dict(zip(names, xs, strict=True)))

    return g
