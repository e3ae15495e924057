"""The protocol of the modes, and the question that every mode is asked."""

from dataclasses import replace
from functools import cached_property
from typing import Protocol

import numpy as np

from gradcli.arithmetic.ball import radius
from gradcli.classes import dataclass
from gradcli.errors import GradcliError, NotSupported, SlopeNotFinite, Undecided
from gradcli.frameworks.native import native_of
from gradcli.modes.bounds import (
    SAFETY,
    RoundingError,
    gradient_rounding_error,
    has_kernels,
    infinite_errors,
    rounding_with_other_inputs,
    solver_bounds,
)
from gradcli.modes.kinks import EQUALITIES, Mark
from gradcli.modes.pieces import rules_hold_at
from gradcli.modes.recording import Budget, Recording
from gradcli.modes.rounding import FUNCTION_ERROR, has_factored_matrix, has_other_slopes, has_singular_matrix
from gradcli.modes.trace_test import TraceTest, allowed_distance, displacement, trace_test
from gradcli.request.point import Array, Estimate, Witness
from gradcli.targets.derived import inner_gradient, original_function
from gradcli.tracing.primitive import Value
from gradcli.tracing.provenance import WRITTEN, place_of_position
from gradcli.tracing.shapes import concatenate_entries, shape
from gradcli.tracing.tracer import IS_ZERO

_MOST_TIES = 8  # that are looked at, those that the same entries reach counted once; others are taken for kinks
_REACHED = 1e-3  # of the slope: an entry with a wider bound depends on a singular matrix


class Contradiction(GradcliError):
    """Two witnesses inside one mode contradict each other: a rule is wrong, or the trace is not the function."""

    kind = "contradiction"


# The trace test at a question's point: where it applies, how far the point is displaced, what rounding may do.

_BESIDE = 8.0  # how much larger than at the point the radius of f may be beside it


def run_trace_test(q: Recording) -> TraceTest:
    """Return whether the recorded program is the function beside the point too.

    There is no test of functions of frameworks, which are compared with their recording operation by operation, unless they
    take values out of the framework's graph; nor of gradients of a function, where that function is tested itself.
    """
    if q.untraced is not None or inner_gradient(q.f) is not None or not np.all(np.isfinite(q.value)):
        return TraceTest(None)
    native = native_of(original_function(q.f))
    if native is not None and not native.cuts:
        return TraceTest(None)
    if q.f.kind == "python" and any(mark.primitive in EQUALITIES for mark in q.ties):
        why = "a comparison for equality holds only at this exact point, for example because a value comes from a cache"
        return TraceTest(False, why)
    steps = _first_displacement(q)
    if not any(map(np.any, steps)):
        return TraceTest(None, "every input lies at a tie of a comparison")
    with np.errstate(all="ignore"):
        found = _test_at_steps(q, steps)
        if found.agrees is None and not found.failed:
            nonzero = [np.where(np.equal(x, 0), 0.0, v) for x, v in zip(q.xs, steps, strict=True)]
            still = any(np.any(v != w) for v, w in zip(steps, nonzero, strict=True))
            if still and any(map(np.any, nonzero)):
                found = _test_at_steps(q, nonzero)  # a rule may have another form at zero alone
    if found.agrees is None and not found.failed and q.f.kind == "python":
        decisions = q.program.tape.decisions  # a rule may have another form at the point itself, of the same function
        if not any(question is IS_ZERO and np.any(answer) for question, _, _, answer, _, _ in decisions):
            return replace(found, agrees=False)  # what was recorded is the function at this point alone
    with np.errstate(all="ignore"):
        return found.with_limit([q.slopes[name] for name in q.wrt]) if q.affords_slopes else found


def _test_at_steps(q: Recording, steps: list[Array]) -> TraceTest:
    def within_bounds(*xs: Value) -> Value:
        inside = not q.stepping.edges or q.stepping.are_inside(q.wrt, xs)
        return q.g(*xs) if inside else np.full(shape(q.value), np.nan)[()]

    return trace_test(within_bounds, q.program, q.xs, steps, lambda y: _rounding_beside_point(q, y))


def _first_displacement(q: Recording) -> list[Array]:
    """Return the first displacement: of entries that are at no tie of a decision, into the user's bounds."""
    ties = q.entries_of(m for m in q.ties if m.primitive.constant)
    sizes = [q.stepping.sizes_of_entries(name, x) for name, x in zip(q.wrt, q.xs, strict=True)]
    moved = displacement(q.weights, sizes)
    inward = [q.stepping.turn_inward(name, x, v) for name, x, v in zip(q.wrt, q.xs, moved, strict=True)]
    return [np.where(tie, 0.0, v) if np.any(tie) else v for tie, v in zip(ties, inward, strict=True)]


def _rounding_beside_point(q: Recording, value: Array) -> Array:
    """Return how far the program's value and the function's may be apart beside the point, by rounding alone.

    By the radius of f in balls of 53 bits at the point, in proportion, where it is known; else by the size of all that the
    value is summed from.
    """
    own = np.abs(q.value)
    grown = np.maximum(1.0, np.abs(value) / np.where(own > 0, own, 1.0))
    if 53 in q.balls and not has_factored_matrix(q.lines):
        several = FUNCTION_ERROR * np.sqrt(len(q.lines) + 1)
        return np.asarray(grown * (_BESIDE * radius(q.balls[53].value) + several * own) + several * np.abs(value))
    return np.asarray(grown * allowed_distance(q.contributions) + allowed_distance(1.0) * np.abs(value))


@dataclass(frozen=True)
class Question(Recording):
    """A recorded problem, with the rounding error of its gradient, and the test that the recording is the function."""

    failed_test: TraceTest | None = None  # of a trace that was rejected

    @cached_property
    def trace_test(self) -> TraceTest:
        """The test that the recorded program is the function near the point, too."""
        return self.failed_test or run_trace_test(self)

    @cached_property
    def kinks(self) -> list[Mark]:
        """The ties at which f has a kink, or at which the rules give another slope than f has.

        There is none where all pieces that meet have one gradient, and the rules give it.
        """
        return [mark for mark, holds in zip(self.ties, self._rules_hold_at_ties, strict=True) if not holds]

    @property
    def by_convention(self) -> bool:
        """Whether f is smooth at all ties, and the rules give another slope at one, as for relu(x) - relu(-x) at 0."""
        return bool(self.kinks) and None not in self._rules_hold_at_ties

    @cached_property
    def _rules_hold_at_ties(self) -> list[bool | None]:
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
                examined = len(known) < _MOST_TIES
                known[key] = rules_hold_at(self, mark.reach, self._summed_rounding_error) if examined else None
        return [known[key] for key in keys]

    @cached_property
    def _summed_rounding_error(self) -> Array:
        """The rounding error of the gradient of the sum of all outputs, entry by entry."""
        if not self.affords_slopes:
            return np.zeros(self.entries)
        axes = tuple(range(np.ndim(self.value)))
        return np.asarray(SAFETY * concatenate_entries([np.sum(self.rounding[name], axis=axes) for name in self.wrt]))

    def without_trace(self, why: str, failed: TraceTest | None = None) -> "Question":
        """Return the same question without a trace, to be answered by function values only; `why` says what is wrong with it.

        `failed` is the trace test that showed it. If a traced value was written as text, the error points there: reading
        the text back loses the trace.
        """
        where = place_of_position(WRITTEN[0]) if WRITTEN else None
        says = f"{why}; a traced value is written as text" if where else why
        return replace(self, blind=NotSupported(says, where=where), failed_test=failed)

    def by_values_where_the_trace_differs(self) -> "Question":
        """Return the question without a trace if the recorded program is not the function beside the point; else this question.

        Cost  that of the trace test: one evaluation of f and one of the program.
        """
        if self.untraced is not None or self.trace_test.agrees is not False:
            return self
        return self.without_trace(f"the trace differs from the function: {self.trace_test.why}", self.trace_test)

    def by_values_at_infinite_slopes(self) -> "Question":
        """Return the question without a trace if a rule of the recorded program has no finite slope; else this question.

        f may still have a gradient there, as `cos(norm(x))` has at 0, and custom gradients exist for such points.
        """
        self.summarise_adjoints()
        bad = None if self.untraced else self.not_finite
        if bad is None or not np.all(np.isfinite(self.value)):
            return self
        return replace(self, blind=SlopeNotFinite(bad.says, where=place_of_position(bad.position), do=bad.hint))

    def within(self, budget: Budget) -> "Question":
        """Return the same question with another budget; the recording is kept."""
        other = replace(self, budget=budget)
        if self._traced.whole:
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
        if not self._rounding.proved and has_singular_matrix(self.program_lines):
            bounds = {n: np.where(b > _REACHED * np.abs(self.slopes[n]), np.inf, b)[()] for n, b in bounds.items()}
        return {name: bound + self.solver_error[name] for name, bound in bounds.items()} if self.solvers else bounds

    @cached_property
    def solver_error(self) -> dict[str, Array]:
        """The error of our gradient because solvers in f stop at a tolerance, entry by entry; zero without solvers."""
        try:
            with np.errstate(all="ignore"):
                return solver_bounds(self)
        except Undecided:
            return infinite_errors(self)

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
        if self.crowded or not (has_kernels(self.program_lines) or has_other_slopes(self.program_lines)):
            return self.rounding_of_textbook
        with np.errstate(all="ignore"):
            return gradient_rounding_error(self, kernels=True)

    @cached_property
    def rounding_of_textbook(self) -> RoundingError:
        """The rounding error of a gradient by the textbook's partials, as a claim may use."""
        with np.errstate(all="ignore"):
            return gradient_rounding_error(self, kernels=False)

    @cached_property
    def rounding_with_other_inputs(self) -> dict[str, Array] | None:
        """The rounding error where operations on inputs that are not differentiated are rounded, too; None if unknown."""
        if self.untraced is not None or not self.affords_slopes:
            return None
        with np.errstate(all="ignore"):
            return rounding_with_other_inputs(self)


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
