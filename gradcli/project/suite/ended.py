"""Errors and reports for a check whose process ended early, or whose time was up."""

import linecache
import re
import signal
from dataclasses import replace
from typing import TYPE_CHECKING

from gradcli.errors import OutOfTime, Place, ProcessEnded
from gradcli.process.process import describe_exit
from gradcli.request.target_text import is_python
from gradcli.tracing.provenance import is_users_file, path_for_display
from gradcli.words import Kind, Severity, Verdict

if TYPE_CHECKING:
    from gradcli.report.check import CheckReport
    from gradcli.report.point_report import PointReport
    from gradcli.targets.target_request import TargetRequest

_SHOWN = 300  # the last characters of a target are shown, because they name the file
_ENOUGH = 10.0  # seconds: the shortest time limit that is suggested
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
_EXIT = "return a value or raise an error, rather than end the process"
_FAULT = "code in C failed, or a recursion went too deep"
_DO = {
    "SIGKILL": "something ended it from outside, as a system does where memory is short: use smaller arrays or fewer modes",
    "SIGSEGV": _FAULT, "SIGBUS": _FAULT, "SIGILL": _FAULT, "SIGFPE": _FAULT,
    "SIGABRT": "something called abort(): code in C that found an error of its own, or os.abort()",
}  # fmt: skip


class SuiteTimeUp(OutOfTime):
    """The time limit of `--timeout` is over.

    `points` are the reports that were finished by then, and `report` says what is checked; where it has points itself, the
    verdict was decided, and only the cause was still looked for.
    """

    def __init__(
        self, seconds: float, points: tuple["PointReport", ...] = (), report: "CheckReport | None" = None
    ) -> None:
        super().__init__(f"time is up after {seconds:g} s", do=f"--timeout {max(_ENOUGH, 4 * seconds):g}s")
        self.points, self.report = points, report


def process_ended_error(status: int, stack: str, target: str) -> ProcessEnded:
    """Return the error for a target that ended its process; `stack` is what faulthandler wrote."""
    name = describe_exit(status)
    by = f"was ended by {name}{_describe_signal(status)}" if status < 0 else f"ended with {name}"
    says = f"the process that ran {target[-_SHOWN:]} {by}"
    return ProcessEnded(says, where=_innermost_user_line(stack), do=_DO.get(name, _EXIT))


def _describe_signal(status: int) -> str:
    try:
        said = signal.strsignal(-status)
    except ValueError:
        return ""
    return f" ({said.lower()})" if said else ""


def _innermost_user_line(stack: str) -> Place | None:
    """Return the innermost line of the user's code in a stack; None if there is none."""
    for match in _FRAME.finditer(stack):
        file, line = match["file"], int(match["line"])
        if not file.startswith("<") and is_users_file(file):
            return Place(path_for_display(file), line, linecache.getline(file, line).rstrip("\n"))
    return None


def report_unfinished_check(over: SuiteTimeUp, ask: "TargetRequest", command: tuple[str, ...]) -> "CheckReport":
    """Return the report of the points that were checked in time, with a finding that time is up.

    The exit status is 1 if one of them failed; else 0 if a timeout is allowed, or 3. Where the verdict was decided, it
    stands, and the finding says that the cause is not known.
    """
    from gradcli.checks.implementation import describe_environment
    from gradcli.report.check import CheckReport
    from gradcli.report.common import ABSENT, Target, finding
    from gradcli.report.point_report import Detects, Entries, PointReport

    if over.report is not None and over.report.points:  # the verdict was decided
        says = finding(Kind.TIMEOUT, Severity.INFO, f"{over.what}, before the cause was found", hint=over.do)
        decided = (
            replace(point, findings=(*point.findings, says)) if point.verdict == Verdict.FAIL else point
            for point in over.report.points
        )
        return replace(over.report, points=tuple(decided))
    says = finding(Kind.TIMEOUT, Severity.INCONCLUSIVE, over.what, hint=over.do)
    nothing = PointReport(
        at={}, drawn=(), differentiated=(), constant=(), value=ABSENT, verdict=Verdict.INCONCLUSIVE, reference=None,
        gradient={}, jacobian=ABSENT, entries=Entries(0, 0, 0), mismatches=(), modes={}, findings=(), diagnosis=None,
        detects=Detects(None, None),
    )  # fmt: skip
    *points, last = over.points or (nothing,)
    verdict = last.verdict if last.verdict == Verdict.FAIL else Verdict.INCONCLUSIVE
    points.append(replace(last, verdict=verdict, findings=(*last.findings, says)))
    failed = any(point.verdict == Verdict.FAIL for point in points)
    report = over.report or CheckReport(
        target=Target("python" if is_python(ask.target) else "expression", ask.target), claim=ask.claim and ask.claim[1],
        seed=ask.options.seed, command=command, exit_status=3, verdict=Verdict.INCONCLUSIVE, detects=Detects(None, None),
        points=(), environment={},
    )  # fmt: skip
    status = 1 if failed else 0 if Kind.TIMEOUT in ask.options.allow else 3
    return replace(
        report, exit_status=status, verdict=Verdict.FAIL if failed else Verdict.INCONCLUSIVE, points=tuple(points),
        environment=describe_environment(),
    )  # fmt: skip
