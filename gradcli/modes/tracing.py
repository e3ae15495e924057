"""The trace test at a question's point: where it applies, how far the point is displaced, what rounding may do."""

from dataclasses import replace

import numpy as np

from gradcli.arithmetic.ball import radius
from gradcli.frameworks.native import native_of
from gradcli.modes.lapack import factored
from gradcli.modes.recording import Recording
from gradcli.modes.rounding import FUNCTION_ERROR
from gradcli.modes.trace_test import TraceTest, displacement, roundings, trace_test
from gradcli.request.point import Array
from gradcli.targets.derived import gradient_in, root_of
from gradcli.tracing.primitive import Value, named
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import IS_ZERO

_EQUALITIES = (named("equal"), named("not_equal"))
_BESIDE = 8.0  # how much larger than at the point the radius of f may be beside it


def tested(q: Recording) -> TraceTest:
    """Return whether the recorded program is the function beside the point too.

    There is no test of functions of frameworks, which are compared with their recording operation by operation, nor of
    gradients of a function, where that function is tested itself.
    """
    if q.untraced is not None or gradient_in(q.f) is not None or not np.all(np.isfinite(q.value)):
        return TraceTest(None)
    if native_of(root_of(q.f)) is not None:
        return TraceTest(None)
    if q.f.kind == "python" and any(mark.primitive in _EQUALITIES for mark in q.ties):
        why = "a comparison for equality holds only at this exact point, for example because a value comes from a cache"
        return TraceTest(False, why)
    steps = _steps(q)
    if not any(map(np.any, steps)):
        return TraceTest(None, "every input lies at a tie of a comparison")
    with np.errstate(all="ignore"):
        found = _at(q, steps)
        if found.agrees is None and not found.failed:
            nonzero = [np.where(np.equal(x, 0), 0.0, v) for x, v in zip(q.xs, steps, strict=True)]
            still = any(np.any(v != w) for v, w in zip(steps, nonzero, strict=True))
            if still and any(map(np.any, nonzero)):
                found = _at(q, nonzero)  # a rule may have another form at zero alone
    if found.agrees is None and not found.failed and q.f.kind == "python" and not _at_a_form_of_zero(q):
        return replace(found, agrees=False)  # what was recorded is the function at this point alone
    with np.errstate(all="ignore"):
        return found.with_limit([q.slopes[name] for name in q.wrt]) if q.affords_slopes else found


def _at_a_form_of_zero(q: Recording) -> bool:
    """Whether a rule has another form at the point itself, of the same function."""
    decisions = q.recording.tape.decisions
    return any(question is IS_ZERO and np.any(answer) for question, _, _, answer, _, _ in decisions)


def _at(q: Recording, steps: list[Array]) -> TraceTest:
    return trace_test(lambda *xs: _within(q, xs), q.recording, q.xs, steps, lambda y: _rounding(q, y))


def _steps(q: Recording) -> list[Array]:
    """Return the first displacement: of entries that are at no tie of a decision, into the user's bounds."""
    ties = q.entries_of(m for m in q.ties if m.primitive.constant)
    sizes = [q.stepping.sizes(name, x) for name, x in zip(q.wrt, q.xs, strict=True)]
    moved = displacement(q.weights, sizes)
    inward = [q.stepping.inward(name, x, v) for name, x, v in zip(q.wrt, q.xs, moved, strict=True)]
    return [np.where(tie, 0.0, v) if np.any(tie) else v for tie, v in zip(ties, inward, strict=True)]


def _within(q: Recording, xs: tuple[Value, ...]) -> Value:
    """Return the function's value; nan beyond the user's bounds."""
    inside = not q.stepping.edges or q.stepping.inside(q.wrt, xs)
    return q.g(*xs) if inside else np.full(shape(q.value), np.nan)[()]


def _rounding(q: Recording, value: Array) -> Array:
    """Return how far the program's value and the function's may be apart beside the point, by rounding alone.

    By the radius of f in balls of 53 bits at the point, in proportion, where it is known; else by the size of all that the
    value is summed from.
    """
    own = np.abs(q.value)
    grown = np.maximum(1.0, np.abs(value) / np.where(own > 0, own, 1.0))
    if 53 in q.balls and not factored(q.lines):
        several = FUNCTION_ERROR * np.sqrt(len(q.lines) + 1)
        return np.asarray(grown * (_BESIDE * radius(q.balls[53]) + several * own) + several * np.abs(value))
    return np.asarray(grown * roundings(q.contributions) + roundings(1.0) * np.abs(value))
