"""A problem whose function is recorded once, and what several modes derive from the recorded program."""

import math
import time
from collections.abc import Iterable
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np

from gradcli.arithmetic.recorded_program import RecordedProgram, record
from gradcli.arithmetic.tape import CONSTANT, METER, Line, Recorded, forget_values, held_bytes
from gradcli.classes import dataclass
from gradcli.errors import GradcliError, NotSupported, OutOfTime
from gradcli.modes.jacobians import cotangent_rows, jacobian_by_columns, jacobian_from_rows
from gradcli.modes.kinks import (
    Mark,
    Nearby,
    ScalarComparison,
    find_kinks,
    find_nearest_kink,
    first_not_finite,
    nearest_branches,
)
from gradcli.modes.problem import (
    BALL,
    MANY,
    REVERSE,
    TRACED,
    Effort,
    NotRun,
    Problem,
    work_in_balls,
    work_of_evaluation,
    work_of_line,
)
from gradcli.modes.rounding import EPS, contribution_of_line, roundings_of_operation
from gradcli.modes.solver_changes import SolverChanges, solvers_of
from gradcli.modes.stairs import find_staircases, find_steps_at_jumps
from gradcli.modes.textbook import has_other_slopes
from gradcli.modes.trace_test import random_weights
from gradcli.request.point import Array
from gradcli.rules.kinds import LARGE
from gradcli.targets.derived import inner_gradient, original_function, record_checkpoints
from gradcli.targets.expression import Expression
from gradcli.targets.facts import restrict_to_inputs
from gradcli.targets.instructions import enlarge_constants
from gradcli.targets.solver_tolerances import tolerances_are_smaller
from gradcli.tracing.primitive import Value
from gradcli.tracing.provenance import WRITTEN
from gradcli.tracing.shapes import all_finite, largest_finite, largest_magnitude, shape, shared_zeros, size, zeros_like
from gradcli.tracing.tracer import plain_value

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
    # f in balls, by precision in bits: a by-product
    balls: dict[int, Value] = field(default_factory=dict, init=False, compare=False)
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
    def work(self) -> int:
        """The work of one evaluation in scalar operations, counted on the recorded program."""
        return work_of_evaluation(self.lines)

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
            _ = (
                self.work,
                self.operations,
                self.ball_work,
                self.recorded_bytes,
                self.rows if shape(self.value) else None,
            )
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

    @cached_property
    def operations(self) -> int:
        """Scalar operations of one evaluation, counted on the recorded program."""
        return sum(work_of_line(line).operations for line in self.lines)

    @cached_property
    def ball_work(self) -> float:
        """The work of one reverse sweep in balls, in scalar operations of float64."""
        return work_in_balls(self.lines) * (0.3 + 0.7 * max(1, size(self.value)))

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
