"""What every mode is asked, and what it answers."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.shapes import shape, size
from gradcli.errors import GradcliError, NotSupported, Undecided
from gradcli.interpreters.tape import CONSTANT, Recorded, Tape, record
from gradcli.numerics.kinks import Mark, first_not_finite, kinks, staircases
from gradcli.numerics.rounding import EPS, ULPS, jacobian, rounding_bounds, stacked
from gradcli.point import Array, Estimate, Point, Witness
from gradcli.source.function import Function, of

MOST_JACOBIAN = 2**24
_SECONDS_PER_ENTRY = 6e-6  # one elementwise operation in balls, forward and backward
_SECONDS_PER_PRODUCT = 3e-8  # one multiply-add of a matrix product in balls, forward and backward


class NotRun(GradcliError):
    """A mode was not run, because it was predicted to cost too much."""

    kind = "not run"


class Contradiction(GradcliError):
    """Two witnesses inside one mode contradict each other: a rule is wrong, or the trace is not the function."""

    kind = "contradiction"


@dataclass(frozen=True)
class Question:
    """One function at one point, and what several modes want to know of it, computed once when first asked for."""

    f: Function
    point: Point
    wrt: tuple[str, ...]
    seed: int = 0
    mode_timeout: float = 10.0

    @cached_property
    def xs(self) -> list[Array]:
        """The values of the inputs that are differentiated."""
        return [self.point.values[name] for name in self.wrt]

    @cached_property
    def g(self) -> Callable[..., Value]:
        """The function of those inputs alone."""
        return of(self.f, self.point.values, self.wrt)

    @cached_property
    def value(self) -> Array:
        """The untouched function's value."""
        with np.errstate(all="ignore"):
            return np.asarray(self.g(*self.xs), dtype=float)[()]

    @cached_property
    def seconds(self) -> float:
        """The time of one evaluation: the best of several, for at most 20 ms."""
        best, spent = np.inf, 0.0
        with np.errstate(all="ignore"):
            for _ in range(20):
                start = time.perf_counter()
                self.g(*self.xs)
                took = time.perf_counter() - start
                best, spent = min(best, took), spent + took
                if spent > 0.02:
                    break
        return float(best)

    @cached_property
    def recording(self) -> tuple[Value, list[Recorded], Tape]:
        """The function recorded on float64 values."""
        with np.errstate(all="ignore"):
            return record(self.g, self.xs)

    @cached_property
    def rows(self) -> list[list[Value]]:
        """The float64 reverse sweep: for each entry of the output, the cotangents of the inputs. Raises NotRun."""
        self.refuse_large_jacobian()
        with np.errstate(all="ignore"):
            return jacobian(*self.recording, np.float64(1))

    def refuse_large_jacobian(self) -> None:
        """Raise NotRun if there are so many outputs that sweeping back from each would take too long or too much room."""
        outputs, entries = size(self.value), sum(size(x) for x in self.xs)
        if outputs * entries > MOST_JACOBIAN:
            raise NotRun(
                f"a Jacobian of {outputs:,} by {entries:,} entries is too large", do="reduce the result: sum(...)"
            )
        self.affordable(4 * outputs)

    def prepare(self) -> None:
        """Compute what all modes share, before a second thread can ask for it."""
        with np.errstate(all="ignore"):
            _ = self.recording, self.value

    def affordable(self, evaluations: float) -> None:
        """Refuse work predicted to take longer than a mode may. Raises NotRun."""
        predicted = evaluations * self.seconds
        if predicted > self.mode_timeout:
            raise NotRun(f"it would take about {predicted:.0f} s", do=f"--mode-timeout {2 * predicted:.0f}s")

    @cached_property
    def bars(self) -> list[Value]:
        """The adjoint of every line, for the sum of all outputs."""
        y, _, tape = self.recording
        if not isinstance(y, Recorded) or y.slot == CONSTANT:
            return [None] * len(tape.lines)
        with np.errstate(all="ignore"):
            return tape.sweep(y.slot, np.ones(shape(y))[()])

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
            for bar, line in zip(self.bars, self.recording[2].lines, strict=True)
            if bar is not None and line[0] is not None
        ]
        squares = sum(float(np.sum(np.square(m[np.isfinite(m)]))) for m in map(np.atleast_1d, moved))
        return EPS / 2 * float(np.sqrt(squares))

    @cached_property
    def kinks(self) -> list[Mark]:
        """The kinks and branch ties hit exactly at this point."""
        _, inputs, tape = self.recording
        with np.errstate(all="ignore"):
            return kinks(tape, self.bars, inputs)

    @cached_property
    def staircases(self) -> list[Mark]:
        """The staircases on the path."""
        _, inputs, tape = self.recording
        with np.errstate(all="ignore"):
            return staircases(tape, inputs)

    @cached_property
    def not_finite(self) -> Mark | None:
        """The operation that made the first inf or nan."""
        _, _, tape = self.recording
        return first_not_finite(tape, self.bars)

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
        return sum(_work(line)[0] + 2 * _work(line)[1] for line in self.recording[2].lines)

    @cached_property
    def ball_seconds(self) -> float:
        """The predicted time of one reverse sweep in balls."""
        work = [_work(line) for line in self.recording[2].lines]
        sweeps = max(1, size(self.value))
        return sum(a * _SECONDS_PER_ENTRY + b * _SECONDS_PER_PRODUCT for a, b in work) * (0.3 + 0.7 * sweeps)

    @cached_property
    def rounding(self) -> dict[str, Array]:
        """A bound on what rounding can have done to our float64 gradient, entry by entry.

        Error   proved up to a few ulps where balls of 53 bits can say; else estimated from the length of the program.
        """
        return self._rounding(kernels=True)

    @cached_property
    def rounding_of_textbook(self) -> dict[str, Array]:
        """The same for a gradient written with the textbook's partials, as a claim may be."""
        return self._rounding(kernels=False)

    def _rounding(self, kernels: bool) -> dict[str, Array]:
        found = self._rounding_by_balls(kernels)
        bounds = {}
        for k, name in enumerate(self.wrt):
            slopes = np.abs(stacked(self.rows, self.value, k, self.xs[k]))
            length = np.sqrt(len(self.recording[2].lines))
            spread = found[k] if found is not None else 8 * EPS * length * np.max(slopes, initial=0.0)
            bounds[name] = np.asarray(2 * spread + ULPS * slopes + 1e-320)[()]
        return bounds

    def _rounding_by_balls(self, kernels: bool) -> list[Any] | None:
        if self.ball_seconds > self.mode_timeout / 4:
            return None
        try:
            _, radii = rounding_bounds(self.g, self.xs, kernels)
        except (Undecided, NotSupported):
            return None
        return radii if all(np.all(np.isfinite(r)) for r in radii) else None


def _work(line: Any) -> tuple[int, int]:
    """Return the entries and the multiply-adds of one line."""
    primitive, _, xs, y, _, _ = line
    if primitive is None:
        return 0, 0
    if primitive.name == "matmul":
        return 0, size(y) * shape(xs[0])[-1]
    if primitive.name in ("solve", "inv", "det", "logdet"):
        return 0, size(xs[0]) * shape(xs[0])[0]
    if primitive.name == "einsum":
        return 0, size(y) * max(1, *(size(x) for x in xs))
    return max(size(y), *(size(x) for x in xs)), 0


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
    return replace(estimate, cost=replace(estimate.cost, seconds=time.perf_counter() - start))
