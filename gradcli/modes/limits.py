"""`--mode-timeout`: a mode is stopped before its next evaluation of f, once its time is up. Time decides nothing else."""

import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from math import inf

from gradcli.errors import OutOfTime
from gradcli.request.point import Estimate
from gradcli.tracing.primitive import Value

_DEADLINE: ContextVar[float] = ContextVar("deadline", default=inf)  # of the mode that runs, on the monotonic clock


def stopped(g: Callable[..., Value], seconds: float) -> Callable[..., Value]:
    """Return a function that raises OutOfTime once the time of the mode that calls it is up."""

    def called(*xs: Value) -> Value:
        if time.monotonic() > _DEADLINE.get():
            raise out_of_time(seconds)
        return g(*xs)

    return called


def out_of_time(seconds: float) -> OutOfTime:
    """Return the error of a mode whose time is up."""
    return OutOfTime(f"it was stopped after {seconds:g} s", do=f"--mode-timeout {4 * seconds:g}s, or drop the limit")


def timed(compute: Callable[[], Estimate], seconds: float | None) -> Estimate:
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
