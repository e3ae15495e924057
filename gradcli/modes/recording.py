"""A problem whose function is recorded once, and what several modes derive from the recorded program."""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import field, replace
from enum import Enum
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from gradcli.arithmetic.dual import cotangent_rows, jacobian_by_columns, jacobian_from_columns, jacobian_from_rows
from gradcli.arithmetic.recorded_program import RecordedProgram, record
from gradcli.arithmetic.tape import CONSTANT, METER, Line, Recorded, forget_values, held_bytes
from gradcli.classes import dataclass
from gradcli.errors import BadExpression, FunctionFailed, GradcliError, NotSupported, OutOfTime
from gradcli.modes.kinks import (
    Mark,
    Nearby,
    ScalarComparison,
    find_kinks,
    find_nearest_kink,
    find_staircases,
    find_steps_at_jumps,
    first_not_finite,
    nearest_branches,
)
from gradcli.modes.rounding import EPS, contribution_of_line, has_other_slopes, roundings_of_operation
from gradcli.modes.trace_test import random_weights
from gradcli.request.point import DEFAULT_STEPPING, Array, Estimate, Point, Stepping
from gradcli.rules.kinds import LARGE
from gradcli.targets.derived import inner_gradient, original_function, random_signs, record_checkpoints
from gradcli.targets.expression import Expression
from gradcli.targets.facts import Function, restrict_to_inputs
from gradcli.targets.instructions import enlarge_constants
from gradcli.targets.replacement_scope import solver_tolerances
from gradcli.targets.solver_tolerances import TIGHTER, tolerances_are_smaller
from gradcli.tracing.primitive import Value, Work
from gradcli.tracing.provenance import WRITTEN
from gradcli.tracing.shapes import all_finite, largest_finite, largest_magnitude, shape, shared_zeros, size, zeros_like
from gradcli.tracing.tracer import plain_value

# The problem that all modes solve: the gradient of one function at one point.

MANY = 5_000  # entries: if there are more, a claim is compared with the reverse sweep, unless more is requested
_TIMED = 3  # evaluations, of which the fastest is reported


# The budget of one gradient: scalar operations and evaluations, which are counted, and the user's time limit.


class NotRun(GradcliError):
    """A mode was not run, because it was predicted to cost too much."""

    kind = "not run"


class OverBudget(NotRun):
    """A mode was not run, because it would take more evaluations than the user allows."""


class ValueChanged(NotRun):
    """Differences were not taken, because another call with the same arguments gave another value."""


# How much work a mode is, counted on the recorded program: scalar operations, never seconds.
#
# What runs by default is decided by these counts, so that it is the same on every machine and under every load.

CALL = 1_000  # scalar operations that take as long as one call of numpy
FUNCTION = 10_000  # the same, for one call of the user's function
TRACED = 4  # times the function: one traced evaluation
REVERSE = 5  # times the function: recording it and sweeping back
BALL = 6_000  # scalar operations that take as long as one on balls, forward and backward
_BALL_PRODUCT = 30  # the same, for one multiply-add of a matrix product in balls
MOST_EVALUATIONS = 100_000  # of a function that can only be called, unless the user allows another number


class Effort(Enum):
    """How many scalar operations a mode may take.

    A claim is looked at quickly first, with 1,000 operations on balls; what that leaves open gets the default, 30,000.
    `--modes all` allows what takes about ten seconds, and a mode that is requested by name has no limit.
    """

    QUICK = 1_000.0 * BALL
    DEFAULT = 30_000.0 * BALL
    ALL = 1e10
    NAMED = inf


def work_of_line(line: Any) -> Work:
    """Return the work of one line."""
    primitive, _, xs, y, params, _ = line
    return Work() if primitive is None else primitive.cost.work(xs, y, params or {})


def work_of_lines(lines: Iterable[Any]) -> Work:
    """Return the work of all lines."""
    entries = products = 0
    for found in map(work_of_line, lines):
        entries += found.entries
        products += found.products
    return Work(entries, products)


def work_in_balls(found: Work) -> int:
    """Return the work of a forward and a backward sweep in balls, in scalar operations of float64."""
    return found.entries * BALL + found.products * _BALL_PRODUCT


@dataclass(frozen=True, slots=True)
class Budget:
    """What a mode may take: scalar operations, limited by its effort, and seconds, limited only if the user says so."""

    effort: Effort = Effort.NAMED
    mode_timeout: float | None = None

    @property
    def by_default(self) -> bool:
        """Whether the user did not choose the modes."""
        return self.effort in (Effort.QUICK, Effort.DEFAULT)

    def at_least(self, effort: Effort) -> "Budget":
        """Return the same budget with this effort, or its own effort if that is greater."""
        return replace(self, effort=max(self.effort, effort, key=lambda e: e.value))

    def admit(self, work: float, what: str, *, essential: bool = False) -> None:
        """Check that a mode may make `work` scalar operations, which `what` describes in the message.

        `essential` work gets at least the limit of `--modes all`.

        Raises  NotRun if the work is over the limit.
        """
        allowed = max(self.effort.value, Effort.ALL.value) if essential else self.effort.value
        if work <= allowed:
            return
        asked = "--modes all" if work <= Effort.ALL.value else "request the mode by name: --modes"
        raise NotRun(f"it takes {what}, about {work:.0e} operations in all, over the limit of {allowed:.0e}", do=asked)


WITHOUT_LIMITS = Budget()


# `--mode-timeout`: a mode is stopped before its next evaluation of f, once its time is up. Time decides nothing else.

_DEADLINE: ContextVar[float] = ContextVar("deadline", default=inf)  # of the mode that runs, on the monotonic clock


def time_limit_error(seconds: float) -> OutOfTime:
    """Return the error of a mode whose time is up."""
    return OutOfTime(f"it was stopped after {seconds:g} s", do=f"--mode-timeout {4 * seconds:g}s, or drop the limit")


def compute_with_deadline(compute: Callable[[], Estimate], seconds: float | None) -> Estimate:
    """Compute an estimate, and return it with the seconds it took; within `compute`, OutOfTime is raised after `seconds`."""
    start = time.perf_counter()
    token = _DEADLINE.set(time.monotonic() + (inf if seconds is None else seconds))
    try:
        estimate = compute()
    finally:
        _DEADLINE.reset(token)
    if estimate.cost.seconds:
        return estimate  # the mode has timed itself
    return replace(estimate, cost=replace(estimate.cost, seconds=time.perf_counter() - start))


@dataclass(frozen=True)
class Problem:
    """One function at one point, the inputs that are differentiated, and what may be spent on it.

    `device` is what frameworks run on if the user chose it, and the CPU else.
    """

    f: Function
    point: Point
    wrt: tuple[str, ...]
    seed: int = 0
    budget: Budget = WITHOUT_LIMITS
    stepping: Stepping = DEFAULT_STEPPING
    device: str | None = None

    @cached_property
    def xs(self) -> list[Array]:
        """The values of the inputs that are differentiated."""
        return [self.point.values[name] for name in self.wrt]

    @cached_property
    def g(self) -> Callable[..., Value]:
        """The function of those inputs alone. Raises OutOfTime in a mode whose time is up."""
        g = restrict_to_inputs(self.f, self.point.values, self.wrt)
        seconds = self.budget.mode_timeout
        if seconds is None:
            return g

        def in_time(*xs: Value) -> Value:
            if time.monotonic() > _DEADLINE.get():
                raise time_limit_error(seconds)
            return g(*xs)

        return in_time

    def near(self, *xs: Value) -> Value:
        """Return the user's function at another point: nan beyond the user's bounds, and where it raises or changes shape."""
        if not self.stepping.edges or self.stepping.are_inside(self.wrt, xs):
            try:
                y = self.g(*xs)
            except (FunctionFailed, BadExpression):
                pass
            else:
                if shape(y) == shape(self.value):
                    return y
        return np.full(shape(self.value), np.nan)[()]

    @cached_property
    def value(self) -> Array:
        """The value of the user's function at the point, on plain numbers."""
        if self.point.value is not None:
            return self.point.value
        with np.errstate(all="ignore"):
            return np.asarray(self.g(*self.xs), dtype=float)[()]

    @property
    def own_value(self) -> Array:
        """The value of the user's function with the user's tolerances, where `value` is that with smaller ones."""
        return self.value if self.point.own_value is None else self.point.own_value

    @cached_property
    def seconds(self) -> float:
        """The time of one evaluation in seconds, the best of three. It is reported, and decides nothing."""
        best = np.inf
        with np.errstate(all="ignore"):
            for _ in range(_TIMED):
                start = time.perf_counter()
                self.g(*self.xs)
                best = min(best, time.perf_counter() - start)
        return float(best)

    @cached_property
    def entries(self) -> int:
        """The number of entries that are differentiated."""
        return sum(size(x) for x in self.xs)

    @property
    def crowded(self) -> bool:
        """Whether there are so many entries that balls are used only on request."""
        return self.budget.effort is Effort.DEFAULT and self.entries > MANY


# How much the tolerances of scipy's solvers in f change its derivatives: measured, by smaller tolerances.

# of the size of an entry: wide, so that a solver's noise is small beside its error
_STEPS = (-0.1, -0.03, 0.0, 0.03, 0.1)
_PAIRS = ((1, 3), (0, 2), (2, 4))  # the steps between which quotients are taken
_DIRECTIONS = 4
_SMALL = 1e-3  # of the largest slope: the changes of smaller ones, relative to them, say nothing of the others
_MOST_ENTRIES = 200  # if there are more, the change along one direction stands for all of them
_ROUNDINGS = 64.0  # roundings of f, divided by the step: a smaller change is none
_TYPICAL = 0.9  # the quantile of the relative changes of all entries that every entry is granted


def solvers_of(f: Function) -> tuple[str, ...]:
    """Return the solvers of scipy that a function calls, with their tolerances: `solve_ivp at rtol=1e-8`."""
    return getattr(original_function(f), "solvers", ())


def smaller_tolerances(f: Function) -> AbstractContextManager[Any]:
    """Context in which solvers that f calls have smaller tolerances, by a factor of a hundred or more."""
    if not solvers_of(f):
        return nullcontext()
    return solver_tolerances(getattr(original_function(f), "tolerance_factor", TIGHTER[0]))


class SolverChanges:
    """How much difference quotients change between the tolerances of f's solvers and smaller ones.

    The change of an entry is the largest of three quotients, over steps of 3 % and of 10 % of the entry, since one may be
    small by accident; and no less, in proportion, than what nine in ten of all entries change. Among many entries the
    relative change along some random directions stands for all.

    Cost    ten evaluations of f for each entry, or for each of four directions, half of them with smaller tolerances.
    """

    def __init__(self, q: Problem) -> None:
        self.error: Array = 0.0  # the largest change of f's values themselves
        self._changes: dict[str, Array] = {}
        self._relative = 0.0
        self.evaluations = 2 * len(_STEPS) * (_DIRECTIONS if q.entries > _MOST_ENTRIES else q.entries)
        with np.errstate(all="ignore"):
            if q.entries > _MOST_ENTRIES:
                self._relative = self._relative_change(q)
            else:
                self._changes = {name: self._changes_of_input(q, k) for k, name in enumerate(q.wrt)}

    def of(self, name: str, slopes: Array) -> Array:
        """Return the change of each entry of an input whose derivatives are about `slopes`.

        Shapes  as the Jacobian of f by this input.
        """
        return self._changes[name] if name in self._changes else self._relative * np.abs(slopes)

    def _changes_of_input(self, q: Problem, k: int) -> Array:
        x, sizes = q.xs[k], np.asarray(q.stepping.sizes_of_entries(q.wrt[k], q.xs[k]))
        changes, slopes = [], []
        for at in np.ndindex(shape(x)):
            v = np.zeros(shape(x))
            v[at] = sizes[at]
            vs = [v[()] if j == k else np.zeros(shape(other)) for j, other in enumerate(q.xs)]
            change, slope = self._change_along_direction(q, vs)
            changes.append(change / sizes[at])
            slopes.append(slope / sizes[at])
        change, slope = (jacobian_from_columns(columns, q.value, x) for columns in (changes, slopes))
        size = np.abs(slope)
        known = size > _SMALL * np.max(size, initial=0.0)
        relative = np.divide(change, size, out=np.zeros(np.shape(change)), where=known)[known]
        typical = float(np.quantile(relative, _TYPICAL)) if relative.size else 0.0
        return np.fmax(change, typical * size)

    def _relative_change(self, q: Problem) -> float:
        rng = np.random.default_rng([q.seed, 0x50153])
        found = []
        for _ in range(_DIRECTIONS):
            vs = [
                random_signs(rng, shape(x)) * q.stepping.sizes_of_entries(name, x)
                for name, x in zip(q.wrt, q.xs, strict=True)
            ]
            change, slope = self._change_along_direction(q, vs)
            found.append((float(np.max(change, initial=0.0)), float(np.max(np.abs(slope), initial=0.0))))
        change, slope = (max(part) for part in zip(*found, strict=True))
        return change / slope if slope > 0 else 0.0

    def _change_along_direction(self, q: Problem, vs: Sequence[Array]) -> tuple[Array, Array]:
        """Return the change of the difference quotient along a direction, and the quotient with the smaller tolerances."""

        def values() -> list[Array]:
            places = ([x + t * v for x, v in zip(q.xs, vs, strict=True)] for t in _STEPS)
            return [np.asarray(q.near(*place), dtype=float) for place in places]

        smaller = values()
        with solver_tolerances(1.0):
            errors = [own - y for own, y in zip(values(), smaller, strict=True)]
        self.error = np.fmax(self.error, np.fmax.reduce(np.abs(errors)))
        changes = [np.abs(errors[b] - errors[a]) / (_STEPS[b] - _STEPS[a]) for a, b in _PAIRS]
        change, slope = np.fmax.reduce(changes), (smaller[3] - smaller[1]) / (_STEPS[3] - _STEPS[1])
        least = _ROUNDINGS * EPS * np.fmax.reduce(np.abs(smaller)) / _STEPS[3]
        return np.where(np.isfinite(change) & (change > least), change, 0.0), np.where(np.isfinite(slope), slope, 0.0)


# A problem whose function is recorded once.

MOST_JACOBIAN = 2**24
_BOUNDING = 2.5e9  # scalar operations that a bound of rounding may take
_MORE_ULPS = 16  # by which pi and e are moved too: what grows with them is slope, what does not is a jump


@dataclass(frozen=True, slots=True)
class TraceOutcome:
    """The function recorded, or what ended the trace; `whole` says that no values of its lines have been forgotten."""

    recorded: RecordedProgram | None
    ended: GradcliError | None
    checkpointed: bool = False
    solvers: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    whole: bool = True


@dataclass(frozen=True)
class Recording(Problem):
    """A problem with its function recorded on float64 values; each property is computed once, when it is first needed."""

    blind: GradcliError | None = None  # why the trace must not be used, if so
    # f recorded on balls, by precision in bits: kept for its value, and for a second sweep
    balls: dict[int, RecordedProgram] = field(default_factory=dict, init=False, compare=False)
    sweeping: dict[str, float] = field(default_factory=dict, init=False, compare=False)  # seconds; they decide nothing

    @cached_property
    def untraced(self) -> GradcliError | None:
        """The error that ended the trace, for a function that can only be called; None if it was recorded."""
        return self._traced.ended

    @property
    def recording(self) -> RecordedProgram:
        """The function recorded on float64 values. Raises the error that ended the trace."""
        if not self._traced.whole:
            del self.__dict__["_traced"]
        return self.program

    @property
    def program(self) -> RecordedProgram:
        """The recorded program, to be run with other values: its own may have been forgotten. Raises as `recording` does."""
        if self._traced.recorded is None and not self._traced.whole:
            del self.__dict__["_traced"]
        traced = self._traced
        if traced.recorded is None:
            raise traced.ended or NotSupported("the function cannot be traced")
        return traced.recorded

    @cached_property
    def drops_values(self) -> bool:
        """Whether the program is so large that the values of its lines are held no longer than they are needed."""
        large = self.entries >= LARGE and self.untraced is None and self.affords_slopes
        return large and not self.solvers and not has_other_slopes(self.lines)

    def drop_recording(self) -> None:
        """Drop the recorded program; the function is recorded again if that is needed again."""
        self.__dict__["_traced"] = replace(self._traced, recorded=None, whole=False)

    @cached_property
    def _traced(self) -> TraceOutcome:
        if self.blind is not None:
            return TraceOutcome(None, self.blind)
        METER.kept, start = False, time.perf_counter()
        WRITTEN.clear()
        solvers: dict[str, float] = {}
        try:
            with np.errstate(all="ignore"), record_checkpoints():
                recorded = record(self.g, self.xs)
                for primitive, _, xs, _, params, _ in recorded.lines:
                    if primitive is not None and primitive.error is not None:  # raises NoRule if it has not converged
                        error = primitive.error(xs, params or {})
                        solvers[primitive.name] = max(error, solvers.get(primitive.name, error))
        except NotSupported as ended:
            return TraceOutcome(None, ended)
        return TraceOutcome(recorded, None, METER.kept, solvers, time.perf_counter() - start)

    @property
    def solvers(self) -> dict[str, float]:
        """The largest relative errors of the operations that iterate to a tolerance, by their name."""
        return self._traced.solvers

    @cached_property
    def solver_changes(self) -> SolverChanges | None:
        """How much smaller tolerances of f's solvers change its derivatives; None if it calls none, or the user's are in use."""
        return SolverChanges(self) if solvers_of(self.f) and tolerances_are_smaller() else None

    @property
    def checkpointed(self) -> bool:
        """Whether the function recomputes parts of itself, so that its reverse sweep is not that of the recording."""
        return self._traced.checkpointed

    @property
    def lines(self) -> list[Line]:
        """The lines of the recorded run; none where it could not be recorded."""
        return [] if self.untraced else self.recording.lines

    @property
    def program_lines(self) -> list[Line]:
        """The same lines, some of which may have lost their values."""
        return [] if self.untraced else self.program.lines

    def refuse_untraced(self) -> None:
        """Raise the error that ended the trace, if any, for modes that need a trace."""
        if self.untraced is not None:
            raise self.untraced

    @cached_property
    def rows(self) -> list[list[Value]]:
        """The float64 reverse sweep: for each entry of the output, the cotangents of the inputs. Raises NotRun."""
        self.refuse_large_jacobian()
        if shape(self.value) == ():
            bars = [self.bars[x.slot] for x in self.recording.inputs]
            return [[zeros_like(x) if bar is None else bar for x, bar in zip(self.xs, bars, strict=True)]]
        start = time.perf_counter()
        with np.errstate(all="ignore"):
            found = cotangent_rows(self.recording, np.float64(1))
        self.sweeping["rows"] = time.perf_counter() - start
        return found

    @property
    def reverse_seconds(self) -> float:
        """The seconds that the recording took, and the reverse sweeps from each output."""
        _ = self.rows
        return self._traced.seconds + self.sweeping.get("rows", self.sweeping.get("bars", 0.0))

    def refuse_large_jacobian(self) -> None:
        """Raise NotRun if there are so many outputs that sweeping back from each would take too much work or memory."""
        outputs, entries = size(self.value), self.entries
        if outputs * entries > MOST_JACOBIAN:
            says = f"a Jacobian of {outputs:,} by {entries:,} entries is too large"
            raise NotRun(says, do="reduce the result: sum(...)")
        self.budget.admit(TRACED * outputs * self.work, f"{outputs:,} reverse sweeps", essential=True)

    @property
    def affords_slopes(self) -> bool:
        """Whether the Jacobian is small enough, and little enough work, to be computed by rows or columns."""
        outputs, entries = size(self.value), self.entries
        return outputs * entries <= MOST_JACOBIAN and TRACED * min(outputs, entries) * self.work <= Effort.ALL.value

    @cached_property
    def slopes(self) -> dict[str, Array]:
        """Our float64 Jacobian: by rows or by columns, whichever are fewer. Raises NotRun where both are too many."""
        if size(self.value) <= self.entries:
            return {name: jacobian_from_rows(self.rows, self.value, k, self.xs[k]) for k, name in enumerate(self.wrt)}
        self.budget.admit(TRACED * self.entries * self.work, f"{self.entries:,} forward sweeps", essential=True)
        with np.errstate(all="ignore"):
            return {name: jacobian_by_columns(self.g, self.xs, k, self.value) for k, name in enumerate(self.wrt)}

    @property
    def weights(self) -> list[Array]:
        """Random numbers from -1 to -0.5 and from 0.5 to 1, one for each entry of the inputs, for random directions."""
        return self._weights if self.entries < LARGE else random_weights(self.seed, self.xs)

    @cached_property
    def _weights(self) -> list[Array]:
        return random_weights(self.seed, self.xs)

    @cached_property
    def work_of_lines(self) -> Work:
        """The work of the lines of the recorded program."""
        return work_of_lines(self.lines)

    @cached_property
    def work(self) -> int:
        """The work of one evaluation in scalar operations: that of the lines, and what calling numpy costs."""
        return FUNCTION + CALL * len(self.lines) + self.work_of_lines.entries + self.work_of_lines.products

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
        start = time.perf_counter()
        with np.errstate(all="ignore"):
            found = tape.swept(y.slot, np.ones(shape(y))[()], self.recording.inputs)
        self.sweeping["bars"] = time.perf_counter() - start
        return found

    def summarise_adjoints(self) -> None:
        """Compute what a check needs of the adjoints of large arrays, and drop them; they are computed again if needed again.

        The values of very large programs are dropped too, all but those with which they are run again.
        """
        if self.entries <= MANY or self.untraced or not self.affords_slopes:
            return
        drops_values = self.drops_values and self._traced.whole
        if drops_values:
            _ = self.work, self.recorded_bytes, self.rows if shape(self.value) else None
            self._sweep_back_in_turn()
        _ = self.rows, self.largest_adjoint, self._contributions_of_lines, self.not_finite
        _ = self.kinks, self.staircases, self.nearest_kink
        self.__dict__.pop("bars", None)
        if drops_values:
            lines = self.program_lines
            lines[:] = map(forget_values, lines)
            self.__dict__["_traced"] = replace(self._traced, whole=False)

    def _sweep_back_in_turn(self) -> None:
        """Sum up the adjoints of all lines, each before the next is computed, and keep those of inputs and near kinks alone.

        What is not finite is left to a sweep that keeps all.
        """
        y, _, tape = self.recording
        if not isinstance(y, Recorded) or y.slot == CONSTANT:
            return
        may_have_kinks = [p is not None and not (p.kink is None and p.margin is None) for p, *_ in tape.lines]
        smooth = not any(may_have_kinks) and not tape.decisions and shape(y) == ()
        bars, sums, largest = list[Value]([None] * len(tape.lines)), [(0.0, 0.0)] * len(tape.lines), 0.0
        start = time.perf_counter()
        with np.errstate(all="ignore"):
            for k, bar in tape.iterate_cotangents(y.slot, np.ones(shape(y))[()], forget=smooth):
                primitive, _, _, value, _, _ = tape.lines[k]
                most = largest_magnitude(bar)
                if not math.isfinite(most) or not all_finite(value):
                    self.drop_recording()
                    return
                largest = max(largest, most)
                if primitive is not None:
                    sums[k] = contribution_of_line(bar, value)
                if primitive is None or may_have_kinks[k]:
                    bars[k] = bar
        self.sweeping["bars"] = time.perf_counter() - start
        self.__dict__.update(bars=bars, largest_adjoint=largest, _contributions_of_lines=sums)

    @cached_property
    def nearest_kink(self) -> Nearby | None:
        """The kink that is nearest to the point and not hit, or None."""
        if self.untraced:
            return None
        with np.errstate(all="ignore"):
            return find_nearest_kink(self.recording, self.bars)

    @cached_property
    def largest_adjoint(self) -> float:
        """The largest adjoint of any line: the size a slope would have if nothing cancelled."""
        return max((largest_finite(bar) for bar in self.bars if bar is not None), default=0.0)

    @cached_property
    def noise_floor(self) -> float:
        """The rounding error of f, from the recorded run: the rounding of every line, times its adjoint.

        For LAPACK, this is the a priori bound n eps times the condition number: its kernels differ between processors, and
        repeated values on one processor show less.

        Units   those of f.
        Source  Moré and Wild (2011), section on noise from automatic differentiation; here for rounding alone.
        """
        norms = [
            norm * roundings_of_operation(primitive, xs)
            for (_, norm), (primitive, _, xs, _, _, _) in zip(
                self._contributions_of_lines, self.program_lines, strict=True
            )
            if norm > 0 and primitive is not None
        ]
        return EPS / 2 * math.hypot(*norms)

    @property
    def contributions(self) -> float:
        """The sum of all contributions to the value: the size of each line's value times its adjoint."""
        return sum(total for total, _ in self._contributions_of_lines)

    @cached_property
    def _contributions_of_lines(self) -> list[tuple[float, float]]:
        """The sum and the norm of each line's contributions; those of inputs are left out."""
        return [
            (0.0, 0.0) if bar is None or primitive is None else contribution_of_line(bar, y)
            for bar, (primitive, _, _, y, _, _) in zip(self.bars, self.lines, strict=True)
        ]

    @cached_property
    def ties(self) -> list[Mark]:
        """The ties of operations and branches that are hit exactly at this point, whether f has a kink there or not."""
        if self.untraced:
            return []
        with np.errstate(all="ignore"):
            return [*find_kinks(self.recording, self.bars), *find_steps_at_jumps(self.near, self.recording, self.bars)]

    @cached_property
    def kinks(self) -> list[Mark]:
        """The ties at which f has a kink; here all of them are taken for one."""
        return list(self.ties)

    @cached_property
    def branches(self) -> list[ScalarComparison]:
        """The branches that a Python function took."""
        if self.untraced or self.f.kind != "python":
            return []
        return nearest_branches(self.program)

    @cached_property
    def staircases(self) -> list[Mark]:
        """The steps that are the only path of some entries to the result; those of gradcli's own rules are left out."""
        if self.untraced or (inner_gradient(self.f) is not None and not self._has_own_staircases):
            return []
        with np.errstate(all="ignore"), record_checkpoints():
            inputs = self.recording.inputs
            slopes = [zeros_like(x) if self.bars[x.slot] is None else self.bars[x.slot] for x in inputs]
            allowed = lambda xs: self.stepping.are_inside(self.wrt, tuple(xs))
            return find_staircases(self.g, self.xs, self.recording, slopes, allowed)

    @property
    def _has_own_staircases(self) -> bool:
        """Whether the function that a gradient was made of has staircases of its own."""
        root = original_function(self.f)
        names = [name for name in self.point.values if name in root.inputs]
        with np.errstate(all="ignore"), record_checkpoints():
            own, xs = restrict_to_inputs(root, self.point.values, names), [self.point.values[name] for name in names]
            program = record(own, xs)
            return bool(find_staircases(own, xs, program, program.pull(np.ones(shape(plain_value(program.y)))[()])))

    @cached_property
    def not_finite(self) -> Mark | None:
        """The operation that made the first inf or nan, or None."""
        return None if self.untraced else first_not_finite(self.recording, self.bars)

    @cached_property
    def undecided(self) -> tuple[Any, ...]:
        """For each input, a mask of the entries whose derivative a kink or a staircase leaves undecided."""
        return self.entries_of((*self.kinks, *self.staircases))

    def entries_of(self, marks: Iterable[Mark]) -> tuple[Any, ...]:
        """Return, for each input, a mask of the entries that reach one of the marks."""
        masks = [shared_zeros(shape(x), bool) for x in self.xs]
        for mark in marks:
            masks = [mask | reached for mask, reached in zip(masks, mark.reach, strict=True)]
        return tuple(masks)

    @cached_property
    def recorded_bytes(self) -> int:
        """The bytes of the values that were recorded."""
        return held_bytes(self.recording.tape)

    @property
    def operations(self) -> int:
        """Scalar operations of one evaluation, counted on the recorded program."""
        return self.work_of_lines.operations

    @property
    def ball_work(self) -> float:
        """The work of one reverse sweep in balls, in scalar operations of float64."""
        return work_in_balls(self.work_of_lines) * (0.3 + 0.7 * max(1, size(self.value)))

    @property
    def ball_work_text(self) -> str:
        """The work of one reverse sweep in balls, in words."""
        return f"{self.ball_work / BALL:,.0f} operations on balls"

    @cached_property
    def by_constants(self) -> dict[str, Array]:
        """How much each entry of the Jacobian changes where pi and e are off by one ulp; empty without such constants.

        Entries whose change does not grow with that of the constants, as at a jump of a slope, get 0. All are infinite where
        an operation raises an error with other constants.
        """
        f = original_function(self.f)
        if not isinstance(f, Expression) or not f.has_constants:
            return {}
        changes = []
        for ulps in (1, _MORE_ULPS):
            try:
                with enlarge_constants(ulps):
                    found = replace(self).slopes
            except OutOfTime:
                raise
            except (GradcliError, ValueError, ArithmeticError, np.linalg.LinAlgError):
                return {name: np.full(shape(x), np.inf)[()] for name, x in self.slopes.items()}
            changes.append({name: np.abs(x - self.slopes[name]) for name, x in found.items()})
        near, far = changes
        room = {name: EPS * np.abs(x) for name, x in self.slopes.items()}
        grows = {name: np.isfinite(x) & (x <= far[name] / 2 + room[name]) for name, x in near.items()}
        return {name: np.where(grows[name], x, 0.0)[()] for name, x in near.items()}

    @property
    def affords_balls(self) -> bool:
        """Whether a sweep in balls is little enough work to be used for the rounding error of other modes."""
        return not self.crowded and self.ball_work <= min(_BOUNDING, self.budget.effort.value)
