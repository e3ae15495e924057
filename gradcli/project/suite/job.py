"""One check as data: the request and the answer are JSON texts, so that any process on any machine can run it."""

import contextlib
import dataclasses
import json
import linecache
import re
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any, Protocol

from gradcli.classes import dataclass
from gradcli.errors import BadOption, BadTarget, GradcliError, Place, ProcessEnded, SuiteTimeUp, TooLarge
from gradcli.process.process import describe_exit
from gradcli.project.suite.config import Suite, SuiteCheck
from gradcli.report.check import rewrite_hints
from gradcli.report.common import ABSENT, ErrorDetail, ErrorReport, error_detail
from gradcli.report.encode import encode
from gradcli.report.suite import CheckRow, row_of_document
from gradcli.request.option_values import seed_words
from gradcli.request.options import hint_in_suite
from gradcli.request.target_text import is_python
from gradcli.targets.target_request import TargetRequest
from gradcli.tracing.provenance import is_users_file, path_for_display
from gradcli.words import Kind, Severity, Verdict

if TYPE_CHECKING:
    from gradcli.report.check import CheckReport
    from gradcli.report.point_report import PointReport
    from gradcli.targets.target_request import TargetRequest


Progress = Callable[[int, "PointReport | CheckReport"], None]


@dataclass(frozen=True, slots=True)
class Job:
    """A check to run.

    `folder` is the folder that its paths start from, and `importable` are those from which its modules are imported.
    A worker that stays for another `run` is replaced, as the code may be another one.
    """

    id: str
    ask: TargetRequest
    folder: str
    importable: tuple[str, ...] = ()
    run: str = ""

    def text(self) -> str:
        """Return the job as JSON."""
        return json.dumps(encode(self))

    def error_document(self, detail: ErrorDetail) -> dict[str, Any]:
        """Return the document that says why there is no verdict."""
        document: dict[str, Any] = encode(ErrorReport(detail, line=self.ask.line, id=self.id))
        return document


@dataclass(frozen=True, slots=True)
class JobResult:
    """What a check gave: its document, which is that of an error if there is no verdict, and its time in seconds."""

    document: dict[str, Any]
    seconds: float

    def text(self) -> str:
        """Return the answer as JSON; the document is JSON data already."""
        return json.dumps({"document": self.document, "seconds": self.seconds})


def job_of_check(suite: Suite, check: SuiteCheck, *, run: str = "") -> Job:
    """Return the job of a check of a suite."""
    if not suite.declared:
        return Job(check.id, check.ask, str(suite.folder), run=run)
    profile = () if suite.profile is None else ("--profile", suite.profile)
    name = check.id
    if set(name) & set(" \t()'\"") or name in ("and", "or", "not"):  # which -k reads in quotes alone
        name = '"' + re.sub(r'(["\\])', r"\\\1", name) + '"'
    named = ("-k", name, *profile, *seed_words(check.ask.options.seed))
    ask = dataclasses.replace(check.ask, command=("gradcli", "check", *suite.words, *named))
    return Job(check.id, ask, str(suite.folder), suite.importable, run)


def answer_job(job: Job, progress: Progress | None = None) -> JobResult:
    """Run a job in this process; every error is an answer too."""
    started = time.perf_counter()
    try:
        if not Path(job.folder).is_dir():
            says = f"there is no folder {job.folder} on this machine"
            raise BadTarget(says, do="put the project at the same place there")
        for folder in reversed(job.importable):
            if folder not in sys.path:
                sys.path.insert(0, folder)
        with contextlib.chdir(job.folder):
            document = encode(_check_job(job, progress))
    except GradcliError as error:
        document = _error_in_suite(job, error)
    except MemoryError:
        document = _error_in_suite(job, TooLarge("there is not enough memory for this", do="use smaller arrays"))
    except Exception as error:
        says = f"internal error: {type(error).__name__}: {str(error)[:300]}"
        do = "please report it, with the command: https://github.com/gradcli/gradcli/issues"
        document = job.error_document(ErrorDetail("internal", says, None, do))
    return JobResult(document, time.perf_counter() - started)


def _check_job(job: Job, progress: Progress | None) -> "CheckReport":
    from gradcli.checks.build import build_request, end_ranks_on_exit
    from gradcli.derivation.right_answer import right_answer
    from gradcli.repair.full_check import full_check

    options = job.ask.options
    if options.assume and not (options.structure or options.looks_at_hard_points):
        raise BadOption("assume is for the points of stress, unless structure = true", do="add structure = true")
    with end_ranks_on_exit(options):
        request = dataclasses.replace(build_request(job.ask), for_verdict=True)
        report = full_check(request, job.ask, right_answer, progress)
    line = ABSENT if job.ask.line is None else job.ask.line
    report = dataclasses.replace(report, id=job.id, points=_name_points(report.points, job.ask), line=line)
    return rewrite_hints(report, hint_in_suite) if job.ask.command else report


def _name_points(points: tuple["PointReport", ...], ask: TargetRequest) -> tuple["PointReport", ...]:
    """Return the points with the names that the suite gives them: the file they are in, or their number."""
    if not ask.separate_points or len(ask.at) < 2:
        return points
    names = [
        PurePath(text.strip()[1:]).stem if text.strip().startswith("@") else f"at[{number}]"
        for number, text in enumerate(ask.at, 1)
    ]
    return tuple(dataclasses.replace(point, name=name) for point, name in zip(points, names, strict=False))


def _error_in_suite(job: Job, error: GradcliError) -> dict[str, Any]:
    """Return the document of an error, in which the options of a check of a suite are called as in its file."""
    detail = error_detail(error)
    if job.ask.command:
        message, hint = hint_in_suite(detail.message, values=False), detail.hint and hint_in_suite(detail.hint)
        detail = dataclasses.replace(detail, message=message, hint=hint)
    return job.error_document(detail)


# Run checks, in whatever order and place, and give their rows in the order in which they are declared.


class Executor(Protocol):
    """Runs jobs, and yields the number of each with its answer, as they come."""

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[int, JobResult]]: ...


Executors = AbstractContextManager[Executor]


def run_jobs(jobs: Iterable[Job], executor: Executor, seconds: Mapping[str, float] | None = None) -> Iterator[CheckRow]:
    """Yield the rows of jobs in their order; the jobs may come one after the other, as lines of standard input do.

    With `seconds`, the times of the last run by id, the longest are run first, and those without a time before them.
    """
    numbered: Iterable[tuple[int, Job]] = enumerate(jobs)
    if seconds is not None:
        numbered = sorted(numbered, key=lambda pair: -seconds.get(pair[1].id, float("inf")))
    taken: list[tuple[int, Job]] = []

    def listed() -> Iterator[Job]:
        for number, job in numbered:
            taken.append((number, job))
            yield job

    waiting: dict[int, CheckRow] = {}
    following = 0
    for k, answer in executor.run(listed()):
        number, job = taken[k]
        waiting[number] = row_of_answer(job, answer)
        while following in waiting:
            yield waiting.pop(following)
            following += 1


def row_of_answer(job: Job, answer: JobResult) -> CheckRow:
    """Return the row of a job's answer."""
    return row_of_document(job.id, job.ask.target, answer.document, answer.seconds)


# Errors and reports for a check whose process ended early, or whose time was up.

_SHOWN = 300  # the last characters of a target are shown, because they name the file
_FRAME = re.compile(r'^  File "(?P<file>[^"]+)", line (?P<line>\d+)', re.MULTILINE)
_EXIT = "return a value or raise an error, rather than end the process"
_FAULT = "code in C failed, or a recursion went too deep"
_DO = {
    "SIGKILL": "something ended it from outside, as a system does where memory is short: use smaller arrays or fewer modes",
    "SIGSEGV": _FAULT, "SIGBUS": _FAULT, "SIGILL": _FAULT, "SIGFPE": _FAULT,
    "SIGABRT": "something called abort(): code in C that found an error of its own, or os.abort()",
}  # fmt: skip


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
    from gradcli.checks.framework_claim import describe_environment
    from gradcli.report.check import CheckReport
    from gradcli.report.common import ABSENT, Target, finding
    from gradcli.report.point_report import Detects, Entries, PointReport

    if over.report is not None and over.report.points:  # the verdict was decided
        says = finding(Kind.TIMEOUT, Severity.INFO, f"{over.what}, before the cause was found", hint=over.do)
        decided: CheckReport = over.report
        finished = (
            replace(point, findings=(*point.findings, says)) if point.verdict == Verdict.FAIL else point
            for point in decided.points
        )
        return replace(decided, points=tuple(finished))
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
