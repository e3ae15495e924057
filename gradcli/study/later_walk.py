"""The walkthrough that a page shows of a check, made when it is needed: most checks are never drawn."""

from dataclasses import replace

from gradcli.reports.check import CheckReport
from gradcli.reports.trace import TraceReport
from gradcli.verify.request import Request


class LaterWalk:
    """The walkthrough of a check, made when a page needs it; a copy of the report in another process has none."""

    def __init__(self, request: Request, report: CheckReport) -> None:
        self._request, self._report = request, report
        self._found: TraceReport | str | None = None

    def __call__(self) -> TraceReport | str:
        if self._found is None:
            from gradcli.study.point_walkthrough import point_walkthrough

            self._found = point_walkthrough(self._request, self._report)
        return self._found

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()


def with_walk(request: Request, report: CheckReport) -> CheckReport:
    """Return the report with the walkthrough of its worst point, made now: the function is run where users' code may run."""
    walk = LaterWalk(request, report)
    walk()
    return replace(report, walk=walk)
