"""What a framework's function did at one point, as a list of steps that gradcli can run on values of its own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.provenance import HERE
from gradcli.core.shapes import shape
from gradcli.core.tracer import Tracer
from gradcli.errors import GradcliError, NotSupported

CANCELS = (
    0.5  # of the largest value on the way: a smaller result in a narrow format may be what is left of terms that cancel
)


@dataclass(frozen=True, slots=True)
class Slot:
    """Where a step's operand is kept."""

    number: int


@dataclass(frozen=True, slots=True)
class Step:
    """One operation: what computes it, its operands (slots among them), where its results go, and the user's line.

    A step that writes puts its result into the memory of its first operand. One that is `stopped` was made where the user
    lets nothing be differentiated.
    """

    name: str
    compute: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outs: tuple[int, ...]
    position: Any = None
    writes: bool = False
    stopped: bool = False


@dataclass
class RecordedSteps:
    """Steps in order, with the constants they use; `cuts` are the lines where a value leaves the framework's graph.

    `narrowest` is the format of fewest digits that a value on the way has; `holds_everywhere` says that values could not
    be looked at while it was recorded, so that it is what the function does at every point.
    """

    steps: list[Step] = field(default_factory=list)
    constants: dict[int, Any] = field(default_factory=dict)
    inputs: list[int] = field(default_factory=list)
    results: list[int] = field(default_factory=list)
    cuts: list[tuple[str, Any]] = field(default_factory=list)
    narrowest: str = "float64"
    holds_everywhere: bool = False

    @property
    def writes(self) -> bool:
        """Whether any step writes into memory that others may see."""
        return any(step.writes or step.name == "put" for step in self.steps)

    def __call__(self, xs: Sequence[Value]) -> list[Value]:
        """Return the results at other inputs, which may be traced. Raises what an operation raises."""
        traced = [x for x in xs if isinstance(x, Tracer)]
        hold = max(traced, key=lambda x: x.level).hold if traced else None
        values = dict(zip(self.inputs, (own(x) if self.writes else x for x in xs), strict=True))
        for number, x in self.constants.items():
            values[number] = held(x, hold) if self.writes else x
        before = HERE.position
        try:
            for step in self.steps:
                HERE.position = step.position
                ran(step, values)
        finally:
            HERE.position = before
        return [values[number] for number in self.results]


def own(x: Value) -> Value:
    """Return a value in memory of its own."""
    if isinstance(x, Tracer):
        return x.twin()
    return np.array(x)[()] if isinstance(x, np.ndarray) else x


def held(x: Any, hold: Callable[[Value], Value] | None) -> Any:
    """Return a constant that traced values may be written into."""
    if not isinstance(x, np.ndarray) or x.dtype not in (np.float64, np.complex128):
        return x
    return x.copy() if hold is None else hold(x.copy())


def ran(step: Step, values: dict[int, Any]) -> None:
    """Run one step on the values there are so far. Raises NotSupported, naming it, where it cannot be run on these."""
    args = [filled(a, values) for a in step.args]
    try:
        y = step.compute(*args, **{name: filled(a, values) for name, a in step.kwargs.items()})
        if step.writes and shape(args[0]):
            args[0][...] = y
            y = args[0]
    except GradcliError:
        raise
    except (TypeError, ValueError, IndexError, AttributeError, KeyError) as error:
        raise NotSupported(f"{step.name} cannot be run on these operands: {error}") from error
    if len(step.outs) == 1 and not isinstance(y, tuple | list):
        values[step.outs[0]] = y
    else:
        values.update(zip(step.outs, y, strict=False))


def filled(a: Any, values: dict[int, Any]) -> Any:
    """Return an operand with its slots filled, inside lists and tuples too."""
    if isinstance(a, Slot):
        return values[a.number]
    if isinstance(a, list | tuple):
        return type(a)(filled(part, values) for part in a)
    return a


def largest(x: Any) -> float:
    """Return the largest finite entry of an array of floats, by size; 0 for anything else."""
    x = np.asarray(x)
    return float(np.max(np.abs(x), initial=0.0, where=np.isfinite(x))) if x.dtype.kind == "f" else 0.0
