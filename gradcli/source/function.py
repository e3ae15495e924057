"""What is differentiated: a function of named inputs, wherever it comes from."""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from gradcli.core.primitive import Value
from gradcli.errors import Span


class Function(Protocol):
    """A function of named inputs; called on numpy values it is the untouched function, on tracers it is traced."""

    @property
    def text(self) -> str:
        """What the user wrote."""

    @property
    def kind(self) -> str:
        """`expression` or `python`."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """The names of the inputs, in order."""

    def __call__(self, values: Mapping[str, Value]) -> Value:
        """Return the value at named inputs."""

    def survey(self, values: Mapping[str, Value]) -> tuple[Value, list[tuple[str, Span]]]:
        """Return the value, sizes checked before anything is allocated, and what deserves a warning."""


def of(f: Function, at: Mapping[str, Value], names: Sequence[str]) -> Callable[..., Value]:
    """Return `f` as a function of the inputs `names` alone, the others fixed at their values in `at`."""
    fixed = dict(at)

    def g(*xs: Value) -> Value:
        return f(fixed | dict(zip(names, xs, strict=True)))

    return g
