"""What every mode is asked, and what it answers."""

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.provenance import WRITTEN, place
from gradcli.core.shapes import shape, size, zeros_like
from gradcli.errors import BadExpression, FunctionFailed, GradcliError, NotSupported
from gradcli.interpreters.tape import CONSTANT, METER, Line, Recorded, Tape, record
from gradcli.modes import limits
from gradcli.modes.bounds import rounding_of, roundings_of
from gradcli.modes.stepping import AS_WE_LIKE, Stepping
from gradcli.modes.tracing import tested
from gradcli.modes.work import REVERSE, TRACED, Effort, balls, work, work_in_balls, work_of
from gradcli.numerics.jacobians import by_columns, by_rows, stacked
from gradcli.numerics.kinks import Branch, Mark, branches, first_not_finite, kinks, staircases
from gradcli.numerics.rounding import EPS
from gradcli.numerics.trace_test import TraceTest
from gradcli.point import Array, Estimate, Point, Witness
from gradcli.source.checkpoint import keeping
from gradcli.source.derived import gradient_in, root_of
from gradcli.source.function import Function, of

MOST_JACOBIAN = 2**24
MANY = 5_000  # entries: beyond them a claim is compared with the reverse sweep unless more is asked for
_BOUNDING = 2.5e9  # scalar operations that a bound of rounding may take
_TIMED = 3  # evaluations by which one is timed


class NotRun(GradcliError):
    """A mode was not run, because it was predicted to cost too much."""

    kind = "not run"


class OverBudget(NotRun):
    """The same, because it would take more evaluations than the user allows."""


class Contradiction(GradcliError):
    """Two witnesses inside one mode contradict each other: a rule is wrong, or the trace is not the function."""

    kind = "contradiction"


@dataclass(frozen=True, slots=True)
class Traced:
    """The function recorded, or what ended the trace."""

    recorded: tuple[Value, list[Recorded], Tape] | None
    ended: GradcliError | None
    checkpointed: bool = False


@dataclass(frozen=True)
class Question:
    """One function at one point, and what several modes want to know of it, computed once when first asked for."""

    f: Function
    point: Point
    wrt: tuple[str, ...]
    seed: int = 0
    effort: Effort = Effort.NAMED
    mode_timeout: float | None = None  # seconds after which a mode is stopped: the user's, no limit of gradcli's
    stepping: Stepping = AS_WE_LIKE
    blind: GradcliError | None = None  # why the trace is not to be believed, where it is not
    failed_test: TraceTest | None = None  # of the trace that is not believed
    balls: dict[int, Value] = field(
        default_factory=dict, init=False, compare=False
    )  # f in balls, by bits: found on the way

    @cached_property
    def xs(self) -> list[Array]:
        """The values of the inputs that are differentiated."""
        return [self.point.values[name] for name in self.wrt]

    @cached_property
    def g(self) -> Callable[..., Value]:
        """The function of those inputs alone. Raises OutOfTime in a mode whose time is up."""
        g = of(self.f, self.point.values, self.wrt)
        return g if self.mode_timeout is None else limits.stopped(g, self.mode_timeout)

    def near(self, *xs: Value) -> Value:
        """The untouched function at another place: nan beyond the user's bounds, and where it raises or changes its shape."""
        if not self.stepping.edges or self.stepping.inside(self.wrt, xs):
            try:
                y = self.g(*xs)
            except (FunctionFailed, BadExpression):
                pass
            else:
                if shape(y) == shape(self.value):
                    return y
        return np.full(shape(self.value), np.nan)[()]

    @cached_property
    def trace_test(self) -> TraceTest:
        """Whether the recorded program is the function beside the point too."""
        return self.failed_test or tested(self)

    @cached_property
    def value(self) -> Array:
        """The untouched function's value."""
        if self.point.value is not None:
            return self.point.value
        with np.errstate(all="ignore"):
            return np.asarray(self.g(*self.xs), dtype=float)[()]

    @cached_property
    def seconds(self) -> float:
        """The time of one evaluation, to be reported: the best of three. It decides nothing."""
        best = np.inf
        with np.errstate(all="ignore"):
            for _ in range(_TIMED):
                start = time.perf_counter()
                self.g(*self.xs)
                best = min(best, time.perf_counter() - start)
        return float(best)

    @cached_property
    def untraced(self) -> GradcliError | None:
        """What ended the trace, for a function that can only be called; None for one that was recorded."""
        return self._traced.ended

    @property
    def recording(self) -> tuple[Value, list[Recorded], Tape]:
        """The function recorded on float64 values. Raises what ended the trace."""
        traced = self._traced
        if traced.recorded is None:
            raise traced.ended or NotSupported("the function cannot be traced")
        return traced.recorded

    @cached_property
    def _traced(self) -> "Traced":
        if self.blind is not None:
            return Traced(None, self.blind)
        METER.kept = False
        WRITTEN.clear()
        try:
            with np.errstate(all="ignore"), keeping():
                recorded = record(self.g, self.xs)
        except NotSupported as ended:
            return Traced(None, ended)
        return Traced(recorded, None, METER.kept)

    def unbelieved(self, why: str, failed: TraceTest | None = None) -> "Question":
        """Return the same question for function values alone; the trace may be lost where a value was made a text.

        `failed` is the trace test that showed it.
        """
        where = place(WRITTEN[0]) if WRITTEN else None
        says = f"{why}; a traced value is written as text" if where else why
        return replace(self, blind=NotSupported(says, where=where), failed_test=failed)

    @property
    def checkpointed(self) -> bool:
        """Whether the function recomputes parts of itself, so that its reverse sweep is not that of the recording."""
        return self._traced.checkpointed

    @property
    def lines(self) -> list[Line]:
        """The lines of the recorded run; none where it could not be recorded."""
        return [] if self.untraced else self.recording[2].lines

    @cached_property
    def rows(self) -> list[list[Value]]:
        """The float64 reverse sweep: for each entry of the output, the cotangents of the inputs. Raises NotRun."""
        self.refuse_large_jacobian()
        if shape(self.value) == ():
            bars = [self.bars[x.slot] for x in self.recording[1]]
            return [[zeros_like(x) if bar is None else bar for x, bar in zip(self.xs, bars, strict=True)]]
        with np.errstate(all="ignore"):
            return by_rows(*self.recording, np.float64(1))

    def refuse_large_jacobian(self) -> None:
        """Raise NotRun if there are so many outputs that sweeping back from each would take too long or too much room."""
        outputs, entries = size(self.value), sum(size(x) for x in self.xs)
        if outputs * entries > MOST_JACOBIAN:
            raise NotRun(
                f"a Jacobian of {outputs:,} by {entries:,} entries is too large", do="reduce the result: sum(...)"
            )
        self.affordable(TRACED * outputs * self.work, f"{outputs:,} reverse sweeps", essential=True)

    @property
    def entries(self) -> int:
        """The number of entries that are differentiated."""
        return sum(size(x) for x in self.xs)

    @property
    def affords_slopes(self) -> bool:
        """Whether the Jacobian is small enough, and little enough work, to be computed by rows or columns."""
        outputs, entries = size(self.value), self.entries
        return outputs * entries <= MOST_JACOBIAN and TRACED * min(outputs, entries) * self.work <= Effort.ALL.value

    def refuse_untraced(self) -> None:
        """Raise what ended the trace, for modes that need one."""
        if self.untraced is not None:
            raise self.untraced

    @cached_property
    def slopes(self) -> dict[str, Array]:
        """Our float64 Jacobian: by rows or by columns, whichever are fewer. Raises NotRun where both are too many."""
        if size(self.value) <= sum(size(x) for x in self.xs):
            return {name: stacked(self.rows, self.value, k, self.xs[k]) for k, name in enumerate(self.wrt)}
        self.affordable(TRACED * self.entries * self.work, f"{self.entries:,} forward sweeps", essential=True)
        with np.errstate(all="ignore"):
            return {name: by_columns(self.g, self.xs, k, self.value) for k, name in enumerate(self.wrt)}

    def prepare(self) -> None:
        """Compute what all modes share, before a second thread can ask for it."""
        with np.errstate(all="ignore"):
            _ = self.untraced, self.value
            if not self.untraced and self.affords_slopes:
                _ = self.rounding

    @property
    def crowded(self) -> bool:
        """Whether there are so many entries that balls are for those who ask."""
        return self.effort is Effort.DEFAULT and self.entries > MANY

    def affordable(self, work: float, what: str, *, essential: bool = False) -> None:
        """Refuse more scalar operations than a mode may take; `what` names them. Raises NotRun."""
        allowed = max(self.effort.value, Effort.ALL.value) if essential else self.effort.value
        if work <= allowed:
            return
        asked = "--modes all" if work <= Effort.ALL.value else "request the mode by name: --modes"
        raise NotRun(f"it takes {what}, about {work:.0e} operations in all; at most {allowed:.0e} are made", do=asked)

    @cached_property
    def work(self) -> int:
        """The work of one evaluation in scalar operations, counted on the recorded program."""
        return work_of(self.lines)

    @property
    def reverse_work(self) -> int:
        """The work of recording the function and of sweeping back from each output."""
        return REVERSE * self.work * max(1, size(self.value))

    @cached_property
    def bars(self) -> list[Value]:
        """The adjoint of every line, for the sum of all outputs."""
        if self.untraced:
            return []
        y, _, tape = self.recording
        if not isinstance(y, Recorded) or y.slot == CONSTANT:
            return [None] * len(tape.lines)
        with np.errstate(all="ignore"):
            return tape.swept(y.slot, np.ones(shape(y))[()], self.recording[1])

    @cached_property
    def largest_adjoint(self) -> float:
        """The largest adjoint of any line: the size a slope would have if nothing cancelled."""
        found = [np.abs(np.asarray(bar)) for bar in self.bars if bar is not None]
        return max((float(np.max(a[np.isfinite(a)], initial=0.0)) for a in found), default=0.0)

    @cached_property
    def noise_floor(self) -> float:
        """The size of rounding in f, from the recorded run: every line's rounding carried to the result by its adjoint.

        What LAPACK computes rounds by n eps times the condition number, a priori: its kernels differ between processors, and
        repeated values on one of them show less.

        Source  Moré and Wild (2011), section on noise from automatic differentiation; here for rounding alone.
        """
        moved = [
            np.asarray(bar) * np.asarray(y) * roundings_of(primitive, xs)
            for bar, (primitive, _, xs, y, _, _) in zip(self.bars, self.lines, strict=True)
            if bar is not None and primitive is not None
        ]
        finite = [m[np.isfinite(m)] for m in map(np.atleast_1d, moved)]
        size = max((float(np.max(np.abs(m), initial=0.0)) for m in finite), default=0.0) or 1.0
        return EPS / 2 * size * float(np.sqrt(sum(float(np.sum(np.square(m / size))) for m in finite)))

    @cached_property
    def kinks(self) -> list[Mark]:
        """The kinks and branch ties hit exactly at this point."""
        if self.untraced:
            return []
        _, inputs, tape = self.recording
        with np.errstate(all="ignore"):
            return kinks(tape, self.bars, inputs)

    @cached_property
    def branches(self) -> list[Branch]:
        """The branches that a Python function took."""
        if self.untraced or self.f.kind != "python":
            return []
        _, inputs, tape = self.recording
        return branches(tape, inputs)

    @cached_property
    def staircases(self) -> list[Mark]:
        """The staircases on the path; the steps of gradcli's own rules (the slope of abs) are none."""
        if self.untraced or (gradient_in(self.f) is not None and not self._steps_itself):
            return []
        _, inputs, tape = self.recording
        with np.errstate(all="ignore"):
            return staircases(tape, inputs)

    @property
    def _steps_itself(self) -> bool:
        """Whether the function that a gradient was made of has staircases of its own."""
        root = root_of(self.f)
        names = [name for name in self.point.values if name in root.inputs]
        with np.errstate(all="ignore"), keeping():
            _, inputs, tape = record(of(root, self.point.values, names), [self.point.values[name] for name in names])
            return bool(staircases(tape, inputs))

    @cached_property
    def not_finite(self) -> Mark | None:
        """The operation that made the first inf or nan."""
        return None if self.untraced else first_not_finite(self.recording[2], self.bars)

    @cached_property
    def undecided(self) -> tuple[Any, ...]:
        """For each input, the entries whose derivative a kink or a staircase leaves open."""
        return self.entries_of((*self.kinks, *self.staircases))

    def entries_of(self, marks: Iterable[Mark]) -> tuple[Any, ...]:
        """Return, for each input, the entries that reach one of the marks."""
        masks = [np.zeros(shape(x), dtype=bool) for x in self.xs]
        for mark in marks:
            for mask, reached in zip(masks, mark.reach, strict=True):
                mask |= reached
        return tuple(masks)

    @cached_property
    def operations(self) -> int:
        """Scalar operations of one evaluation, counted on the recorded program."""
        return sum(work(line)[0] + 2 * work(line)[1] for line in self.lines)

    @cached_property
    def ball_work(self) -> float:
        """The work of one reverse sweep in balls, in scalar operations of float64."""
        return work_in_balls(self.lines) * (0.3 + 0.7 * max(1, size(self.value)))

    @property
    def ball_work_text(self) -> str:
        """The same in words."""
        return f"{balls(self.ball_work):,.0f} operations on balls"

    @property
    def rounding(self) -> dict[str, Array]:
        """What rounding can have done to our float64 gradient, entry by entry."""
        return self._rounding[0]

    @property
    def rounding_is_estimated(self) -> bool:
        """Whether shaken runs, and no balls, say what rounding can have done."""
        return not self._rounding[1]

    @cached_property
    def _rounding(self) -> tuple[dict[str, Array], bool]:
        with np.errstate(all="ignore"):  # of many entries once for both: the textbook's partials round more
            return self.rounding_of_textbook if self.crowded else rounding_of(self, kernels=True)

    @cached_property
    def rounding_of_textbook(self) -> tuple[dict[str, Array], bool]:
        """The same for a gradient written with the textbook's partials, as a claim may be, and whether balls bound it."""
        with np.errstate(all="ignore"):
            return rounding_of(self, kernels=False)

    @property
    def affords_balls(self) -> bool:
        """Whether a sweep in balls is little enough work to bound the rounding of the others."""
        return not self.crowded and self.ball_work <= min(_BOUNDING, self.effort.value)


@dataclass(frozen=True, slots=True)
class Available:
    """Whether a mode can run here; if not, why and the command that would change it."""

    yes: bool = True
    why: str = ""
    install: str = ""


class Mode(Protocol):
    """One way to obtain a gradient. Modes are stateless: everything is in the question."""

    name: str
    rests_on: frozenset[Witness]

    def available(self) -> Available:
        """Whether the mode can run here."""

    def gradient(self, q: Question) -> Estimate:
        """Return the gradient at the question's point.

        Raises  a GradcliError that says why there is none.
        """
