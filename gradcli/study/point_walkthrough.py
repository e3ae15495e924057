"""The walkthrough of a point that was checked, with the adjoints of a wrong claim beside the right ones."""

import numpy as np

from gradcli.core.tracer import plain
from gradcli.errors import GradcliError
from gradcli.reports.absent import Absent
from gradcli.reports.check import CheckReport, worst_point
from gradcli.reports.encode import Values
from gradcli.reports.trace import TraceReport
from gradcli.source.checkpoint import keeping
from gradcli.source.derived import gradient_in
from gradcli.study.claimed_adjoints import claimed_adjoints
from gradcli.study.departure import departing
from gradcli.study.walkthrough import walkthrough
from gradcli.verify.request import Request

_ROUNDED = 1e-6  # relative, also of a value in float32
MOST_NODES = 200_000  # lines of a program that is walked through


def point_walkthrough(request: Request, report: CheckReport) -> TraceReport | str:
    """Return the walkthrough at the point that decides the verdict, or a sentence that says why there is none."""
    number = worst_point(report)
    if number >= len(request.points):
        return "The point was found later, and the function was not recorded there."
    if gradient_in(request.f) is not None:
        return f"The computation is drawn for gradients and Jacobians, not for a {request.derivative}."
    q = request.question(request.points[number])
    try:
        q.refuse_untraced()
        if len(q.lines) > MOST_NODES:
            return f"The computation has {len(q.lines):,} operations, too many to be drawn."
        with np.errstate(all="ignore"), keeping():
            if not _same_value(plain(q.recording.y), report.points[number].value):
                return "The computation is not drawn: the function gave another value when it was called again."
            found = walkthrough(q, prove=True, claimed=claimed_adjoints(q, report.points[number]))
            return departing(found, report, number)
    except GradcliError as error:
        return f"The computation cannot be drawn: {error.what}."


def _same_value(again: Values, value: Values | Absent) -> bool:
    """Whether a function gave the value that its check reports, up to what threads and devices change."""
    return isinstance(value, Absent) or np.allclose(again, value, rtol=_ROUNDED, atol=0, equal_nan=True)
