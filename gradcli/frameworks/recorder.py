"""The operations that a framework's function ran at one point, as steps that gradcli can replay on its own values."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gradcli.errors import GradcliError, NotSupported
from gradcli.tracing import shapes
from gradcli.tracing.primitive import Value
from gradcli.tracing.provenance import HERE
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import Tracer

EPS = {
    "float64": 2.0**-52, "float32": 2.0**-23, "tf32": 2.0**-10, "bfloat16": 2.0**-7, "float16": 2.0**-10,
    "float8_e4m3fn": 2.0**-3, "float8_e5m2": 2.0**-2,
}  # fmt: skip
EXACT = "exact"  # the format of a step that moves values and rounds none
_SAME = {"float64": 1e-9, "float32": 1e-3}  # relative to the largest entry; the rounding order may differ
_LOOSE = 5e-2  # for narrower formats


def rounds_to(dtypes: Iterable[str]) -> str:
    """Return the format to which an operation with results of these types rounds; it is exact if none are floats."""
    return next((dtype for dtype in dtypes if dtype in EPS), EXACT)


@dataclass(frozen=True, slots=True)
class Slot:
    """A reference to the value that a step takes as an operand."""

    number: int


@dataclass(frozen=True, slots=True)
class Step:
    """One operation: the function that computes it, its operands (slots or constants), its result slots, its source line.

    If `writes` is set, the step stores its result in the memory of its first operand. If `stopped` is set, it ran in a block
    where the user switched differentiation off, such as no_grad. `rounds_to` is the format of its results, `EXACT` if it
    only moves values; None if it computes values in between that are rounded too.
    """

    name: str
    compute: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    outs: tuple[int, ...]
    position: Any = None
    writes: bool = False
    stopped: bool = False
    rounds_to: str | None = None


@dataclass
class RecordedSteps:
    """A recorded program: steps in order, and the constants they use.

    `cuts` are the lines where a value leaves the framework's graph. `narrowest` is the format with the fewest digits among
    the intermediate values. `holds_everywhere` says that the function was recorded with abstract values, which it could not
    read, so that the program is valid at every point.
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
        """Whether any step writes into memory that other values may share."""
        return any(step.writes or step.name == "put" for step in self.steps)

    def narrow(self, dtype: str) -> None:
        """Update the narrowest format by that of an intermediate value."""
        if EPS.get(dtype, 0.0) > EPS[self.narrowest]:
            self.narrowest = dtype

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


def is_same(ours: Any, theirs: Any, dtype: str, least_size: float = 0.0) -> bool:
    """Return whether two results of the same operation in a format differ by rounding alone.

    The difference is compared with the largest entry of `theirs`, or with `least_size` if that is larger.
    """
    room = _SAME.get(dtype, _LOOSE) * max(largest(theirs), least_size) + 1e-300
    return np.shape(ours) == np.shape(theirs) and np.allclose(ours, theirs, rtol=0.0, atol=room, equal_nan=True)


def own(x: Value) -> Value:
    """Return a copy of a value that shares no memory with it."""
    if isinstance(x, Tracer):
        return x.twin()
    return np.array(x)[()] if isinstance(x, np.ndarray) else x


def held(x: Any, hold: Callable[[Value], Value] | None) -> Any:
    """Return a copy of a constant; traced values may be written into one of floats."""
    if not isinstance(x, np.ndarray):
        return x
    return hold(x.copy()) if hold is not None and x.dtype in (np.float64, np.complex128) else x.copy()


def ran(step: Step, values: dict[int, Any]) -> None:
    """Run one step on `values` and store its results there. Raises NotSupported, naming the step, if it fails."""
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
    """Return an operand with each slot replaced by its value, also inside lists and tuples."""
    if isinstance(a, Slot):
        return values[a.number]
    if isinstance(a, list | tuple):
        return type(a)(filled(part, values) for part in a)
    return a


def largest(x: Any) -> float:
    """Return the largest absolute value among the finite entries of a float array; 0 for anything else."""
    x = np.asarray(x)
    return shapes.largest(x) if x.dtype.kind == "f" else 0.0
