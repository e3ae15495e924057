"""The protocol of the modes, and the question that every mode is asked."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from gradcli.errors import GradcliError, NotSupported, SlopeNotFinite, Undecided
from gradcli.modes.bounds import SAFETY, RoundingError, has_kernels, infinite, rounding_of, solver_bounds
from gradcli.modes.budget import Budget
from gradcli.modes.kinks import Mark
from gradcli.modes.lapack import solves_singular
from gradcli.modes.pieces import rules_hold_at
from gradcli.modes.recording import Recording
from gradcli.modes.trace_test import TraceTest
from gradcli.modes.tracing import tested
from gradcli.request.point import Array, Estimate, Witness
from gradcli.tracing.provenance import WRITTEN, place
from gradcli.tracing.shapes import end_to_end

_MOST_TIES = 8  # that are looked at, those that the same entries reach counted once; others are taken for kinks
_REACHED = 1e-3  # of the slope: an entry with a wider bound depends on a singular matrix


class Contradiction(GradcliError):
    """Two witnesses inside one mode contradict each other: a rule is wrong, or the trace is not the function."""

    kind = "contradiction"


@dataclass(frozen=True)
class Question(Recording):
    """A recorded problem, with the rounding error of its gradient, and the test that the recording is the function."""

    failed_test: TraceTest | None = None  # of a trace that was rejected

    @cached_property
    def trace_test(self) -> TraceTest:
        """The test that the recorded program is the function near the point, too."""
        return self.failed_test or tested(self)

    @cached_property
    def kinks(self) -> list[Mark]:
        """The ties at which f has a kink, or at which the rules give another slope than f has.

        There is none where all pieces that meet have one gradient, and the rules give it.
        """
        return [mark for mark, holds in zip(self.ties, self._rules_hold, strict=True) if not holds]

    @property
    def by_convention(self) -> bool:
        """Whether f is smooth at all ties, and the rules give another slope at one, as for relu(x) - relu(-x) at 0."""
        return bool(self.kinks) and None not in self._rules_hold

    @cached_property
    def _rules_hold(self) -> list[bool | None]:
        """For each tie, whether f is smooth there, and the rules give its gradient; None if f may have a kink.

        A function that its trace is not, as one that compares with values it kept, is traced at no other point: it may keep
        traced values of it.
        """
        if not self.ties or self.trace_test.agrees is False:
            return [None] * len(self.ties)
        keys = [tuple(np.asarray(mask).tobytes() for mask in mark.reach) for mark in self.ties]
        known: dict[tuple[bytes, ...], bool | None] = {}
        for key, mark in zip(keys, self.ties, strict=True):
            if key not in known:
                known[key] = rules_hold_at(self, mark.reach, self._room_at_ties) if len(known) < _MOST_TIES else None
        return [known[key] for key in keys]

    @cached_property
    def _room_at_ties(self) -> Array:
        """The rounding error of the gradient of the sum of all outputs, entry by entry."""
        if not self.affords_slopes:
            return np.zeros(self.entries)
        axes = tuple(range(np.ndim(self.value)))
        return np.asarray(SAFETY * end_to_end([np.sum(self.rounding[name], axis=axes) for name in self.wrt]))

    def unbelieved(self, why: str, failed: TraceTest | None = None) -> "Question":
        """Return the same question without a trace, to be answered by function values only; `why` says what is wrong with it.

        `failed` is the trace test that showed it. If a traced value was written as text, the error points there: reading
        the text back loses the trace.
        """
        where = place(WRITTEN[0]) if WRITTEN else None
        says = f"{why}; a traced value is written as text" if where else why
        return replace(self, blind=NotSupported(says, where=where), failed_test=failed)

    def by_values_at_infinite_slopes(self) -> "Question":
        """Return the question without a trace if a rule of the recorded program has no finite slope; else this question.

        f may still have a gradient there, as `cos(norm(x))` has at 0, and custom gradients exist for such points.
        """
        bad = None if self.untraced else self.not_finite
        if bad is None or not np.all(np.isfinite(self.value)):
            return self
        return replace(self, blind=SlopeNotFinite(bad.says, where=place(bad.position), do=bad.hint))

    def within(self, budget: Budget) -> "Question":
        """Return the same question with another budget; the recording is kept."""
        other = replace(self, budget=budget)
        other.__dict__["_traced"] = self._traced
        return other

    def prepare(self) -> None:
        """Compute what all modes share, so that its time is not counted for one of them."""
        with np.errstate(all="ignore"):
            _ = self.untraced, self.value
            self.summarise_adjoints()
            if not self.untraced and self.affords_slopes:
                _ = self.rounding

    @cached_property
    def rounding(self) -> dict[str, Array]:
        """The error of our float64 gradient, entry by entry: from rounding, and from solvers in f.

        It is infinite where a matrix is singular up to rounding, in the entries that this reaches.
        """
        bounds = self._rounding.errors
        if not self._rounding.proved and solves_singular(self.lines):
            bounds = {n: np.where(b > _REACHED * np.abs(self.slopes[n]), np.inf, b)[()] for n, b in bounds.items()}
        return {name: bound + self.solver_error[name] for name, bound in bounds.items()} if self.solvers else bounds

    @cached_property
    def solver_error(self) -> dict[str, Array]:
        """The error of our gradient because solvers in f stop at a tolerance, entry by entry; zero without solvers."""
        try:
            with np.errstate(all="ignore"):
                return solver_bounds(self)
        except Undecided:
            return infinite(self)

    @cached_property
    def unbounded(self) -> str:
        """Why the rounding error of our gradient has no bound, in words; empty if it has one."""
        return "" if self.untraced or not self.affords_slopes else self._rounding.unbounded

    @property
    def rounding_is_estimated(self) -> bool:
        """Whether the rounding error is estimated by shaken runs, not bounded by balls."""
        return not self._rounding.proved

    @cached_property
    def _rounding(self) -> RoundingError:
        # many entries use the textbook's bound for both, since its partials round more
        if self.crowded or not has_kernels(self.lines):
            return self.rounding_of_textbook
        with np.errstate(all="ignore"):
            return rounding_of(self, kernels=True)

    @cached_property
    def rounding_of_textbook(self) -> RoundingError:
        """The rounding error of a gradient by the textbook's partials, as a claim may use."""
        with np.errstate(all="ignore"):
            return rounding_of(self, kernels=False)


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
