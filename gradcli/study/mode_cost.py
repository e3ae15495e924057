"""The cost of modes: operations counted on recorded programs, and measured memory and time."""

import time
import tracemalloc
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gradcli.arithmetic.dual import jvp
from gradcli.arithmetic.recorded_program import record, value_and_gradient, vjp
from gradcli.arithmetic.tape import Line
from gradcli.modes.mode import Question
from gradcli.request.point import EstimateCost
from gradcli.targets.derived import lines_of_checkpoint, record_checkpoints
from gradcli.tracing.primitive_cost import Operations
from gradcli.tracing.shapes import shape, size

_AGAIN = 10**8  # operations of one run: longer ones are not repeated to measure time or memory
_CALL = 1_000  # operations that take as long as running one line of numpy code
_TIMES = 5
MOST_LINES = 20_000  # of a program whose operations are counted by recording its gradient


def count_line_operations(lines: Iterable[Line]) -> Operations:
    """Return the operations of recorded lines, also inside checkpointed calls; moving entries counts nothing."""
    total = Operations()
    for line in lines:
        primitive, _, xs, y, params, _ = line
        again = lines_of_checkpoint(line)
        if again:
            total += count_line_operations(again)
        elif primitive is not None:
            total += primitive.cost.operations(xs, y, params or {})
    return total


def operations_of_function(q: Question) -> Operations:
    """Return the operations of one evaluation of f."""
    return count_line_operations(q.lines)


def operations_of_reverse(q: Question) -> Operations:
    """Return the operations of a gradient by the reverse mode: f, reverse sweeps, and what checkpoints recompute.

    They are counted by recording the gradient itself. For a vector result: f once, and one reverse sweep for each row of
    the Jacobian.
    """
    once, f = count_recorded(*gradient_of(q)), operations_of_function(q)
    return f + (once - f).times(size(q.value))


def recomputed_operations(q: Question) -> Operations:
    """Return the operations that one reverse sweep repeats because f is checkpointed."""
    if not q.checkpointed:
        return Operations()
    again = count_recorded(*gradient_of(q))
    with record_checkpoints():
        return again - count_recorded(*gradient_of(q))


def operations_of_forward(q: Question) -> Operations:
    """Return the operations of one directional derivative by the forward mode."""
    return count_recorded(*tangent_of(q))


def gradient_of(q: Question) -> tuple[Callable[..., Any], list[Any]]:
    """Return f with one reverse sweep as a function, and the arguments to record it at."""

    def gradient(*xs: Any) -> Any:
        *primals, ybar = xs
        return as_one_vector(vjp(q.g, primals)[1](ybar))

    return gradient, [*q.xs, np.ones(shape(q.value))[()]]


def tangent_of(q: Question) -> tuple[Callable[..., Any], list[Any]]:
    """Return f with one tangent as a function, and the arguments to record it at."""
    count = len(q.xs)
    vs = [np.ones(shape(x))[()] for x in q.xs]
    return lambda *at: as_one_vector([jvp(q.g, at[:count], at[count:])[1]]), [*q.xs, *vs]


def as_one_vector(parts: list[Any]) -> Any:
    """Return the entries of all parts as one vector."""
    return np.concatenate([np.zeros(0), *(np.reshape(part, (-1,)) for part in parts)])


def count_recorded(f: Callable[..., Any], xs: list[Any]) -> Operations:
    """Return the operations of a function, counted by recording it."""
    with np.errstate(all="ignore"):
        _, _, tape = record(f, xs)
    return count_line_operations(tape.lines)


def peak_bytes(work: Callable[[], Any]) -> int:
    """Return the peak memory of `work` in bytes, beyond what was held before.

    Memory that C libraries do not report to Python, such as python-flint's numbers, is not included.
    """
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        with np.errstate(all="ignore"):
            work()
        return max(0, tracemalloc.get_traced_memory()[1] - before)
    finally:
        tracemalloc.stop()


def takes_at_most(q: Question, most: int, runs: int) -> bool:
    """Whether this many runs of f take at most `most` operations; a numpy call counts as 1,000. False without a trace."""
    return not q.untraced and runs * (q.operations + _CALL * len(q.lines)) <= most


def measure_bytes(q: Question, mode: str) -> int | None:
    """Return the peak memory of one run of a mode in bytes; None if it cannot be measured, or is too much work."""
    run = one_run(q, mode) if takes_at_most(q, _AGAIN, 1) else None
    return None if run is None else min(peak_bytes(run) for _ in range(2))  # the first run also fills caches


def least_seconds(q: Question, mode: str, cost: EstimateCost) -> float:
    """Return the seconds of a mode; if its repeated part is quick, at most the best time of this part times its repeats."""
    rows = size(q.value) if mode == "reverse" else cost.evaluations
    run = one_run(q, mode) if takes_at_most(q, _AGAIN, _TIMES) else None
    return cost.seconds if run is None else min(cost.seconds, rows * time_runs(run)[1])


def time_runs(run: Callable[[], Any], times: int = _TIMES) -> tuple[Any, float]:
    """Return the result of a run and its seconds, the best of several."""
    best, value = np.inf, None
    with np.errstate(all="ignore"):
        for _ in range(times):
            start = time.perf_counter()
            value = run()
            best = min(best, time.perf_counter() - start)
    return value, float(best)


def one_run(q: Question, mode: str) -> Callable[[], Any] | None:
    """Return the part of a mode that repeats, a sweep or an evaluation; None for modes that cannot be measured."""
    vs = [np.ones(shape(x))[()] for x in q.xs]
    if mode == "reverse":
        return lambda: value_and_gradient(lambda *xs: np.sum(q.g(*xs)), q.xs, lambda y: np.float64(1))
    if mode == "forward":
        return lambda: jvp(q.g, q.xs, vs)
    if mode == "complex-step":
        return lambda: q.g(*[x + 1e-20j for x in q.xs])
    return (lambda: q.g(*q.xs)) if mode == "finite-difference" else None
