"""Test that a recorded program is the function: at a displaced point, on plain numbers, both must give the same value.

The test has no truncation error. A term that the trace lost, because it came from a cache or lost its derivative on the
way, shows down to rounding, however small it is beside the others. The test does not see caches whose keys are rounded
values, shapes or identities: they are hit at displaced points too.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from gradcli.arithmetic.recorded_program import RecordedProgram
from gradcli.classes import dataclass
from gradcli.errors import GradcliError, OutOfTime
from gradcli.modes.rounding import EPS, contribution_of_line
from gradcli.request.point import Array
from gradcli.targets.derived import random_signs
from gradcli.targets.python import message_of
from gradcli.tracing.primitive import Value
from gradcli.tracing.shapes import shape

_RAISES_ONCE = "the first of two equal calls raises an error, the second does not"
_FAR = 0.5  # of the size of each entry: the first displacement
_NEARER = 4.0  # the factor by which each displacement is smaller than the one before
_NEAREST = 64 * EPS  # of the size: smaller displacements are lost in rounding
_CONTRIBUTIONS = 1e3  # roundings of a value's contributions: by so much two ways to compute it may differ


@dataclass(frozen=True, slots=True)
class TraceTest:
    """The result of a trace test: whether the two agree (None if nothing could be compared), and why, in words.

    `failed` means that the function fails at displaced points: it raises an error, or its value has another shape.
    `room` is the allowed distance of two equal values, and `step` the displacement that it belongs to, for each input.
    `detects` is the smallest lost term that the test would have seen, relative to all contributions of the gradient; None if
    it is not known.
    """

    agrees: bool | None
    why: str = ""
    failed: bool = False
    evaluations: int = 0
    room: float = np.inf
    step: tuple[Array, ...] = ()
    detects: float | None = None

    def with_limit(self, slopes: Sequence[Array]) -> "TraceTest":
        """Return the result with what it detects in place of the displacement, which may be large.

        Shapes  `slopes` are Jacobians, `[output, input]`, one for each input.
        """
        if not self.agrees:
            return self
        moved = sum(float(np.sum(np.abs(g * v))) for g, v in zip(slopes, self.step, strict=True))
        return replace(self, step=(), detects=self.room / moved if moved > 0 else None)


def trace_test(
    f: Callable[..., Value],
    program: RecordedProgram,
    xs: Sequence[Array],
    steps: Sequence[Array],
    room: Callable[[Array], Array],
) -> TraceTest:
    """Compare the recorded program with the function at `xs` plus a part of `steps`.

    Every decision of the program (comparison, order, rounding) is taken again; if one differs, the displacement is made
    smaller. The two count as different only if they differ at two displacements in a row, because a rule that chooses its
    form by the values may choose another one far away.

    Shapes  `xs` and `steps` have the shapes of the inputs; `room` returns the allowed distance of two equal values.
    Cost    one evaluation of f and one of the program if all is well; none of f if a decision differs.
    """

    def displace_inputs(
        part: float,
    ) -> list[Array]:  # new arrays for every call, which the user's code may keep or write to
        return [x + step if part == 1.0 else x + part * step for x, step in zip(xs, steps, strict=True)]

    calls, raised, apart, stopped = 0, "", "", ""
    for part in _shrinking_parts():
        try:
            again = program.run(displace_inputs(part))
        except (OutOfTime, MemoryError):
            raise
        except Exception as error:
            stopped = f"beside the point the trace raises {message_of(error)}"
            continue
        if again is None or not np.all(np.isfinite(again)):
            continue
        calls += 1
        try:
            value = np.asarray(f(*displace_inputs(part)), dtype=float)
        except GradcliError as error:
            if _can_evaluate(f, displace_inputs(part)):
                return TraceTest(None, _RAISES_ONCE, True)
            raised = raised or f"the function cannot be evaluated: {error.what}"
            continue
        if shape(value) != shape(again):
            says = f"the result has the shape {shape(value)}, and {shape(again)} at the point"
            return TraceTest(None, says, True, calls)
        if not np.all(np.isfinite(value)):
            continue
        allowed = np.asarray(room(value))
        says = _describe_difference(value, again, allowed)
        if not says:
            step = tuple(steps if part == 1.0 else (np.asarray(part * step) for step in steps))
            return TraceTest(True, "", False, calls, float(np.sum(allowed)), step)
        if apart:
            return TraceTest(False, apart, False, calls)
        apart = says
    if not calls:
        nearest = [x + _NEAREST / _FAR * step for x, step in zip(xs, steps, strict=True)]
        calls, raised = 1, _explain_missing_value(f, nearest, program.y)
    return _result_without_agreement(apart, raised, calls, stopped)


def _explain_missing_value(f: Callable[..., Value], xs: Sequence[Array], y: Value) -> str:
    """Return in words why the function has no value of the same shape at a point; empty if it has one."""
    try:
        value = f(*map(_copy_array, xs))
    except GradcliError as error:
        return f"the function cannot be evaluated: {error.what}"
    return "" if shape(value) == shape(y) else f"the result has the shape {shape(value)}, and {shape(y)} at the point"


def _describe_difference(value: Array, again: Array, allowed: Array) -> str:
    """Return in words where the function's value differs from the program's; empty if they agree."""
    excess = np.abs(value - np.asarray(again, dtype=float)) - allowed
    if not np.any(excess > 0):
        return ""
    k = int(np.argmax(np.ravel(excess)))
    return f"near the point the function gives {np.ravel(value)[k]:.17g}, the trace {np.ravel(again)[k]:.17g}"


def _result_without_agreement(apart: str, raised: str, calls: int, stopped: str) -> TraceTest:
    """Return the result if the two agreed at no displacement; `stopped` says which error the trace raises, if it does."""
    if apart:
        return TraceTest(False, apart, False, calls)
    if raised:
        return TraceTest(None, raised, True, calls)
    why = stopped or "the function takes another branch there, however near the point"
    return TraceTest(None, why, False, calls)


def _copy_array(x: Array) -> Array:
    """Return a copy of a value, which the user's code may keep or write to."""
    return x.copy() if isinstance(x, np.ndarray) else x


def _can_evaluate(f: Callable[..., Value], xs: Sequence[Array]) -> bool:
    try:
        f(*map(_copy_array, xs))
    except GradcliError:
        return False
    return True


def _shrinking_parts() -> Iterator[float]:
    """Yield parts of the first displacement, each a quarter of the one before."""
    part = 1.0
    while part * _FAR >= _NEAREST:
        yield part
        part /= _NEARER


def random_weights(seed: int, xs: Sequence[Array]) -> list[Array]:
    """Return random numbers from -1 to -0.5 and from 0.5 to 1, one for each entry of the inputs."""
    rng = np.random.default_rng([seed, 0x7ACE])
    return [random_signs(rng, shape(x)) for x in xs]


def displacement(weights: Sequence[Array], sizes: Sequence[Array]) -> list[Array]:
    """Return steps in proportion to the sizes of the entries, of both signs, given random weights."""
    return [np.asarray(w * _FAR * s) for w, s in zip(weights, sizes, strict=True)]


def sum_contributions(program: RecordedProgram, bars: Sequence[Value]) -> float:
    """Return the sum of all contributions to the value: the size of each line's value times its adjoint."""
    return sum(
        contribution_of_line(bar, y)[0]
        for bar, (primitive, _, _, y, _, _) in zip(bars, program.lines, strict=True)
        if bar is not None and primitive is not None
    )


def allowed_distance(contributed: float) -> float:
    """Return the allowed distance of two ways to compute a value, given the sum of its contributions."""
    return _CONTRIBUTIONS * EPS * contributed
