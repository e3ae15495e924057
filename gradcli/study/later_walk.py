"""The walkthrough that a page shows of a check, made when it is needed: most checks are never drawn."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gradcli.checks.request import Request
from gradcli.report.check import CheckReport
from gradcli.report.trace import TraceReport

_ELSEWHERE = "The computation is not drawn: the page of this report was not made before the report was copied."


class LaterWalk:
    """The walkthrough of a check, or a sentence that says why there is none; made when it is called first, then kept.

    A pickled copy has what was made before, for the function that is walked through may be in one process alone.
    """

    def __init__(self, make: Callable[[], TraceReport | str] | None, found: TraceReport | str = _ELSEWHERE) -> None:
        self._make = make
        self._found = found

    def __call__(self) -> TraceReport | str:
        if self._make is not None:
            self._found, self._make = self._make(), None
        return self._found

    def __deepcopy__(self, memo: dict[int, Any]) -> "LaterWalk":
        return self

    def __reduce__(self) -> tuple[Callable[..., "LaterWalk"], tuple[None, TraceReport | str]]:
        return LaterWalk, (None, self._found)


def with_walk(request: Request, report: CheckReport, *, later: bool) -> CheckReport:
    """Return the report with the walkthrough of its worst point: made now, where the code of users may run, or when shown."""

    def make() -> TraceReport | str:
        from gradcli.study.walkthrough import point_walkthrough

        return point_walkthrough(request, report)

    walk = LaterWalk(make)
    if not later:
        walk()
    return replace(report, walk=walk)
