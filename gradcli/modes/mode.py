"""What every mode is asked, and what it answers."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.provenance import WRITTEN, place
from gradcli.core.shapes import shape, size, zeros_like
from gradcli.errors import BadExpression, FunctionFailed, GradcliError, NotSupported
from gradcli.interpreters.tape import CONSTANT, METER, Line, Recorded, Tape, record
from gradcli.modes.bounds import rounding_of
from gradcli.modes.stepping import AS_WE_LIKE, Stepping
from gradcli.modes.work import seconds_in_balls, work
from gradcli.numerics.jacobians import by_columns, by_rows, stacked
from gradcli.numerics.kinks import Branch, Mark, branches, first_not_finite, kinks, staircases
from gradcli.numerics.rounding import EPS
from gradcli.point import Array, Estimate, Point, Witness
from gradcli.source.checkpoint import keeping
from gradcli.source.derived import gradient_in, root_of
from gradcli.source.function import Function, of

MOST_JACOBIAN = 2**24
CALL = 1e-5  # seconds that calling the user's function takes beside what it does
MANY = 5_000  # entries: beyond them a claim is compared with the reverse sweep unless more is asked for
_LONG = 2e-2  # seconds: what takes longer is not timed again
_TIMED = 1e-3  # seconds that timing takes, about


class NotRun(GradcliError):
    """A mode was not run, because it was predicted to cost too much."""

    kind = "not run"


class OverBudget(NotRun):
    """The same, because it would take more evaluations than the user allows."""


class TraceDiffers(GradcliError):
    """What was traced is not what the function does: nothing traced can confirm anything."""

    kind = "trace"


class Contradiction(GradcliError):
    """Two witnesses inside one mode contradict each other: a rule is wrong, or the trace is not the function."""

    kind = "contradiction"


@dataclass(frozen=True, slots=True)
class Traced:
    """The function recorded, or what ended the trace."""

    recorded: tuple[Value, list[Recorded], Tape] | None
    ended: GradcliError | None
    seconds: float = 0.0
    checkpointed: bool = False


@dataclass(frozen=True)
class Question:
    """One function at one point, and what several modes want to know of it, computed once when first asked for."""

    f: Function
    point: Point
    wrt: tuple[str, ...]
    seed: int = 0
    mode_timeout: float = 10.0
    unasked: float | None = None  # seconds that a mode may take which the user did not name; as long as any, where None
    stepping: Stepping = AS_WE_LIKE
    blind: GradcliError | None = None  # why the trace is not to be believed, where it is not
    balls: dict[int, Value] = field(
        default_factory=dict, init=False, compare=False
    )  # f in balls, by bits: found on the way

    @cached_property
    def xs(self) -> list[Array]:
        """The values of the inputs that are differentiated."""
        return [self.point.values[name] for name in self.wrt]

    @cached_property
    def g(self) -> Callable[..., Value]:
        """The function of those inputs alone."""
        return of(self.f, self.point.values, self.wrt)

    def near(self, *xs: Value) -> Value:
        """The untouched function at another place: nan beyond the user's bounds, and where it raises, outside its domain."""
        if not self.stepping.edges or self.stepping.inside(self.wrt, xs):
            try:
                return self.g(*xs)
            except (FunctionFailed, BadExpression):
                pass
        return np.full(shape(self.value), np.nan)[()]

    @cached_property
    def value(self) -> Array:
        """The untouched function's value."""
        if self.point.value is not None:
            return self.point.value
        with np.errstate(all="ignore"):
            return np.asarray(self.g(*self.xs), dtype=float)[()]

    @cached_property
    def seconds(self) -> float:
        """The time of one evaluation: the best of several where it is quick."""
        if self.point.seconds is not None and self.point.seconds > _LONG:
            return self.point.seconds
        best, spent = np.inf, 0.0
        with np.errstate(all="ignore"):
            for _ in range(5):
                start = time.perf_counter()
                self.g(*self.xs)
                took = time.perf_counter() - start
                best, spent = min(best, took), spent + took
                if spent > _TIMED:
                    break
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
        start = time.perf_counter()
        try:
            with np.errstate(all="ignore"), keeping():
                recorded = record(self.g, self.xs)
        except NotSupported as ended:
            return Traced(None, ended)
        return Traced(recorded, None, time.perf_counter() - start, METER.kept)

    def unbelieved(self, why: str) -> "Question":
        """Return the same question for function values alone; the trace may be lost where a value was made a text."""
        where = place(WRITTEN[0]) if WRITTEN else None
        says = f"{why}; a traced value is written as text" if where else why
        return replace(self, blind=NotSupported(says, where=where))

    @property
    def checkpointed(self) -> bool:
        """Whether the function recomputes parts of itself, so that its reverse sweep is not that of the recording."""
        return self._traced.checkpointed

    @cached_property
    def reverse_seconds(self) -> float:
        """The time of recording the function and of sweeping back."""
        start = time.perf_counter()
        _ = self.rows
        return self._traced.seconds + time.perf_counter() - start

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
        self.affordable(4 * outputs * self.seconds, essential=True)

    @property
    def entries(self) -> int:
        """The number of entries that are differentiated."""
        return sum(size(x) for x in self.xs)

    @property
    def affords_slopes(self) -> bool:
        """Whether the Jacobian is small and quick enough to be computed by rows or columns."""
        outputs, entries = size(self.value), self.entries
        return outputs * entries <= MOST_JACOBIAN and 4 * min(outputs, entries) * self.seconds <= self.mode_timeout

    def refuse_untraced(self) -> None:
        """Raise what ended the trace, for modes that need one."""
        if self.untraced is not None:
            raise self.untraced

    @cached_property
    def slopes(self) -> dict[str, Array]:
        """Our float64 Jacobian: by rows or by columns, whichever are fewer. Raises NotRun where both are too many."""
        if size(self.value) <= sum(size(x) for x in self.xs):
            return {name: stacked(self.rows, self.value, k, self.xs[k]) for k, name in enumerate(self.wrt)}
        self.affordable(4 * self.entries * self.seconds, essential=True)
        with np.errstate(all="ignore"):
            return {name: by_columns(self.g, self.xs, k, self.value) for k, name in enumerate(self.wrt)}

    def prepare(self) -> None:
        """Compute what all modes share, before a second thread can ask for it."""
        with np.errstate(all="ignore"):
            _ = self.untraced, self.value, self.seconds
            if not self.untraced and self.affords_slopes:
                _ = self.reverse_seconds if size(self.value) <= self.entries else 0.0
                _ = self.rounding

    @property
    def patience(self) -> float:
        """The seconds that a mode may take beside those without which there is no verdict."""
        return self.mode_timeout if self.unasked is None else min(self.unasked, self.mode_timeout)

    @property
    def crowded(self) -> bool:
        """Whether there are so many entries that balls are for those who ask."""
        return self.unasked is not None and self.entries > MANY

    def affordable(self, seconds: float, *, essential: bool = False) -> None:
        """Refuse work predicted to take longer than a mode may. Raises NotRun."""
        if seconds <= (self.mode_timeout if essential else self.patience):
            return
        more = "" if seconds <= self.mode_timeout else f"--mode-timeout {max(2, round(2 * seconds))}s"
        asked = "" if essential or self.unasked is None else "--modes all"
        raise NotRun(f"it would take about {seconds:.2g} s", do=" ".join(filter(None, (asked, more))))

    @property
    def traced_seconds(self) -> float:
        """The time of one traced evaluation, about; the first one, which was timed, does more than others."""
        return 4 * self.seconds + CALL * (5 + len(self.lines))

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

        Source  Moré and Wild (2011), section on noise from automatic differentiation; here for rounding alone.
        """
        moved = [
            np.asarray(bar) * np.asarray(line[3])
            for bar, line in zip(self.bars, self.lines, strict=True)
            if bar is not None and line[0] is not None
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
        masks = [np.zeros(shape(x), dtype=bool) for x in self.xs]
        for mark in (*self.kinks, *self.staircases):
            for mask, reached in zip(masks, mark.reach, strict=True):
                mask |= reached
        return tuple(masks)

    @cached_property
    def operations(self) -> int:
        """Scalar operations of one evaluation, counted on the recorded program."""
        return sum(work(line)[0] + 2 * work(line)[1] for line in self.lines)

    @cached_property
    def ball_seconds(self) -> float:
        """The predicted time of one reverse sweep in balls."""
        return seconds_in_balls(self.lines) * (0.3 + 0.7 * max(1, size(self.value)))

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
        """Whether a sweep in balls is quick enough to bound the rounding of the others."""
        return not self.crowded and self.ball_seconds <= min(self.mode_timeout / 4, self.patience)


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


def timed(compute: Callable[[Question], Estimate], q: Question) -> Estimate:
    """Return the estimate with the seconds it took."""
    start = time.perf_counter()
    estimate = compute(q)
    if estimate.cost.seconds:
        return estimate  # what it rests on was computed, and timed, before
    return replace(estimate, cost=replace(estimate.cost, seconds=time.perf_counter() - start))
