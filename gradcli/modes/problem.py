"""The problem that all modes solve: the gradient of one function at one point."""

import time
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from dataclasses import replace
from enum import Enum
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import BadExpression, FunctionFailed, GradcliError, OutOfTime
from gradcli.request.point import Array, Estimate, Point
from gradcli.request.stepping import DEFAULT_STEPPING, Stepping
from gradcli.targets.facts import Function, restrict_to_inputs
from gradcli.tracing.primitive import Value
from gradcli.tracing.primitive_cost import Work
from gradcli.tracing.shapes import shape, size

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


def work_of_evaluation(lines: Iterable[Any]) -> int:
    """Return the work of one evaluation, in scalar operations: those of the lines, and what calling numpy costs."""
    return FUNCTION + sum(CALL + found.entries + found.products for found in map(work_of_line, lines))


def work_in_balls(lines: Iterable[Any]) -> int:
    """Return the work of a forward and a backward sweep in balls, in scalar operations of float64."""
    return sum(found.entries * BALL + found.products * _BALL_PRODUCT for found in map(work_of_line, lines))


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
