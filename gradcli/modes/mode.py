"""What every mode is asked, and what it answers."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from gradcli.core.provenance import WRITTEN, place
from gradcli.errors import GradcliError, NotSupported, SlopeNotFinite
from gradcli.modes.bounds import rounding_of
from gradcli.modes.budget import Budget
from gradcli.modes.recording import Recording
from gradcli.modes.tracing import tested
from gradcli.numerics.trace_test import TraceTest
from gradcli.point import Array, Estimate, Witness


class Contradiction(GradcliError):
    """Two witnesses inside one mode contradict each other: a rule is wrong, or the trace is not the function."""

    kind = "contradiction"


@dataclass(frozen=True)
class Question(Recording):
    """A recorded problem, with how far rounding can carry its gradient, and whether the recording is the function."""

    failed_test: TraceTest | None = None  # of the trace that is not believed

    @cached_property
    def trace_test(self) -> TraceTest:
        """Whether the recorded program is the function beside the point too."""
        return self.failed_test or tested(self)

    def unbelieved(self, why: str, failed: TraceTest | None = None) -> "Question":
        """Return the same question for function values alone; the trace may be lost where a value was made a text.

        `failed` is the trace test that showed it.
        """
        where = place(WRITTEN[0]) if WRITTEN else None
        says = f"{why}; a traced value is written as text" if where else why
        return replace(self, blind=NotSupported(says, where=where), failed_test=failed)

    def by_values_at_infinite_slopes(self) -> "Question":
        """Return the question for function values alone where a rule of the recorded program has no finite slope.

        f may have a gradient there all the same, as `cos(norm(x))` at 0, and custom gradients exist for such points.
        """
        bad = None if self.untraced else self.not_finite
        if bad is None or not np.all(np.isfinite(self.value)):
            return self
        return replace(self, blind=SlopeNotFinite(bad.says, where=place(bad.position), do=bad.hint))

    def within(self, budget: Budget) -> "Question":
        """Return the same question with another budget; what was recorded is kept."""
        other = replace(self, budget=budget)
        other.__dict__["_traced"] = self._traced
        return other

    def prepare(self) -> None:
        """Compute what all modes share, before a second thread can ask for it."""
        with np.errstate(all="ignore"):
            _ = self.untraced, self.value
            if not self.untraced and self.affords_slopes:
                _ = self.rounding

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
