"""A summary of error against step size for `compare-modes`: a few schemes along one ray."""

from collections.abc import Mapping
from dataclasses import replace

from gradcli.lowering.floats import FLOAT64
from gradcli.modes.mode import Question
from gradcli.numerics.noise import EPS
from gradcli.numerics.schemes import SCHEMES
from gradcli.reports import numbers
from gradcli.reports.compare_rows import SchemeSummary
from gradcli.study.cost import takes_at_most
from gradcli.study.curves import steps
from gradcli.study.sweep import Study, SweepOptions, calls_of
from gradcli.verdict.evidence import Outcome

_IN_SUMMARY = ("forward", "central", "5-point", "complex")
_MOST_WORK = 2 * 10**9  # operations of all evaluations of the summary in `compare-modes`
_MOST_CALLS = 100  # of the summary for a function without a trace, whose operations cannot be counted


def left_out_of_summary(q: Question) -> str | None:
    """Return why there is no summary: no input, too much work, or no higher derivatives; None if there is a summary."""
    calls = calls_of([scheme for scheme in SCHEMES if scheme.name in _IN_SUMMARY]) * len(steps(EPS))
    if not q.wrt or not q.entries:
        return "there is no input to step in"
    if q.solvers:
        return "solvers in f have rules for first derivatives only"
    if not q.untraced and not takes_at_most(q, _MOST_WORK, calls):
        return f"it would take {calls:,} evaluations of f, about {numbers.about(calls * q.work)} operations"
    return None


def summary(q: Question, found: Mapping[str, Outcome], imaginary: bool = True) -> tuple[SchemeSummary, ...]:
    """Return the order, best step and error of a few schemes along one ray; outcomes in `found` are reused."""
    schemes = [scheme for scheme in SCHEMES if scheme.name in _IN_SUMMARY and (imaginary or not scheme.imaginary)]
    if q.untraced:
        q = replace(q, stepping=replace(q.stepping, budget=min(_MOST_CALLS, q.stepping.budget or _MOST_CALLS)))
    study = Study(q, schemes, SweepOptions(), found=found)
    curves, _ = study.curves([FLOAT64], ())
    return tuple(
        SchemeSummary(
            c.scheme, c.order, c.best.h, c.best.relative_error, c.best.digits,
            *((c.predicted.h, c.predicted.relative_error) if c.predicted else (None, None)),
        )
        for c in curves
    )  # fmt: skip
