"""The protocol of the modes, and the question that every mode is asked."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from gradcli.core.provenance import WRITTEN, place
from gradcli.errors import GradcliError, NotSupported, SlopeNotFinite
from gradcli.modes.bounds import has_kernels, rounding_of, solver_bounds
from gradcli.modes.budget import Budget
from gradcli.modes.lapack import solves_singular
from gradcli.modes.recording import Recording
from gradcli.modes.tracing import tested
from gradcli.numerics.trace_test import TraceTest
from gradcli.point import Array, Estimate, Witness

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
        bounds, known = self._rounding
        if not known and solves_singular(self.lines):
            bounds = {n: np.where(b > _REACHED * np.abs(self.slopes[n]), np.inf, b)[()] for n, b in bounds.items()}
        return {name: bound + self.solver_error[name] for name, bound in bounds.items()} if self.solvers else bounds

    @cached_property
    def solver_error(self) -> dict[str, Array]:
        """The error of our gradient because solvers in f stop at a tolerance, entry by entry; zero without solvers."""
        with np.errstate(all="ignore"):
            return solver_bounds(self)

    @property
    def rounding_is_estimated(self) -> bool:
        """Whether the rounding error is estimated by shaken runs, not bounded by balls."""
        return not self._rounding[1]

    @cached_property
    def _rounding(self) -> tuple[dict[str, Array], bool]:
        # many entries use the textbook's bound for both, since its partials round more
        if self.crowded or not has_kernels(self.lines):
            return self.rounding_of_textbook
        with np.errstate(all="ignore"):
            return rounding_of(self, kernels=True)

    @cached_property
    def rounding_of_textbook(self) -> tuple[dict[str, Array], bool]:
        """The rounding error of a gradient by the textbook's partials, as a claim may use, and whether balls bound it."""
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
