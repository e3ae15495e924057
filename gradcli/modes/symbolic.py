"""The symbolic mode: sympy's own `diff` of the traced expression, in a child process that can be stopped."""

import pickle

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import GradcliError, NotSupported, Undecided
from gradcli.modes.kinks import TO_FINITE
from gradcli.modes.mode import Available, Question
from gradcli.modes.plan import make_plan
from gradcli.modes.problem import NotRun, time_limit_error
from gradcli.process.workers import WORKERS, Worker, WorkerTimeout
from gradcli.request.point import Estimate, EstimateCost, Witness
from gradcli.tracing.shapes import size

MOST_TERMS = 20_000  # of the formula, times the entries of the inputs: about ten seconds of sympy
OPERATIONS_BY_DEFAULT = 30  # of the formula, over all entries: a few milliseconds of sympy
MEMORY_BYTES = 2 * 2**30


class Symbolic:
    """Differentiates with sympy and evaluates at 30 and 60 digits with mpmath."""

    name = "symbolic"
    rests_on = frozenset({Witness.SYMPY, Witness.TRACING})

    def available(self) -> Available:
        return Available()

    def gradient(self, q: Question) -> Estimate:
        """Return the gradient by sympy.

        Error   estimated from the two precisions, plus the rounding of our float64 gradient, as constants of the formula
                are rounded while tracing.
        Raises  NotRun if the formula would be too large; OutOfTime; NotSupported; Undecided.
        """
        return self.begin(q).result()

    def begin(self, q: Question) -> "Asked":
        """Ask the child process for the gradient, and do not wait for it. Raises NotRun, NotSupported, Undecided."""
        q.refuse_untraced()
        if not q.program.moves:
            return Asked(q, None)
        if q.not_finite is not None:
            raise Undecided("f or its gradient is not finite here", do=TO_FINITE)
        recorded = make_plan(q.program)
        entries = q.entries
        terms = recorded.terms[recorded.result] * size(q.value)
        by_default = q.budget.by_default
        if terms * entries > MOST_TERMS or (by_default and terms > OPERATIONS_BY_DEFAULT):
            count = f"{terms:,.0f}" if terms < 1e6 else f"{terms:.0e}"
            raise NotRun(
                f"the formula would have about {count} terms, to be differentiated by {entries:,} entries",
                do="--modes all" if terms * entries <= MOST_TERMS else "--modes without symbolic",
            )
        worker = WORKERS.take()
        worker.send(pickle.dumps(((recorded, q.xs, q.value.shape), MEMORY_BYTES)))
        return Asked(q, worker)


@dataclass(frozen=True, slots=True)
class Asked:
    """A gradient that a child process computes; `worker` is None if f does not depend on its inputs."""

    q: Question
    worker: Worker | None

    def result(self) -> Estimate:
        """Wait for the gradient and return it. Raises OutOfTime, NotSupported."""
        q = self.q
        if self.worker is None:
            zeros = {name: np.zeros(np.shape(q.value) + np.shape(x))[()] for name, x in zip(q.wrt, q.xs, strict=True)}
            return Estimate(zeros, zeros, cost=EstimateCost(evaluations=1))
        limit = q.budget.mode_timeout
        try:
            output = self.worker.receive(limit)
        except WorkerTimeout:
            raise time_limit_error(limit or 0.0) from None
        if not output:
            status, allowed = self.worker.status, f"{MEMORY_BYTES / 2**30:g} GiB allowed"
            raise NotSupported(f"sympy ended with status {status}, probably for lack of memory ({allowed})")
        WORKERS.give(self.worker)
        kind, answer = pickle.loads(output)
        if kind == "error":
            raise answer if isinstance(answer, GradcliError) else NotSupported(f"sympy failed: {answer}")
        return Estimate(
            dict(zip(q.wrt, answer["values"], strict=True)),
            {name: bound + q.rounding[name] for name, bound in zip(q.wrt, answer["bounds"], strict=True)},
            cost=EstimateCost(
                evaluations=1, formula=answer["operations"], shared=answer["shared"], seconds=answer["seconds"]
            ),
        )

    def cancel(self) -> None:
        """End the child process."""
        if self.worker is not None:
            self.worker.stop()
