"""Where checks run: in this process, in workers on this machine, or by an executor that another package registers."""

import dataclasses
import json
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any

from gradcli.errors import BadOption, ProcessEnded, SuiteTimeUp, install_command
from gradcli.process.process import Process, describe_exit, wait_for_message
from gradcli.process.relay import relayed_errors, wait_for_relay
from gradcli.project.suite.config import Suite, SuiteCheck
from gradcli.project.suite.job import (
    Executor,
    Job,
    JobResult,
    answer_job,
    job_of_check,
    process_ended_error,
    report_unfinished_check,
    row_of_answer,
)
from gradcli.report.common import ErrorDetail, error_detail
from gradcli.report.encode import NotADocument, decode_document, encode
from gradcli.report.suite import CheckRow
from gradcli.words import OUTLINE, Severity, Verdict

GROUP = "gradcli.executors"
Function = Callable[[str], str]  # a job as JSON to its answer as JSON
Remote = Callable[[str, Function, Iterable[str]], Iterator[tuple[int, str | None]]]


class Inline:
    """Runs jobs in this process: for expressions, which run no code of the user's and cannot end it."""

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[int, JobResult]]:
        """Yield each answer when it is there."""
        for number, job in enumerate(jobs):
            yield number, answer_job(job)


# Run jobs in worker processes. A check that ends its process, or whose time is up, is an answer too, and no other's matter.

_AT_START = 3  # processes that end before they are ready, after which the reason is not in the checks


class Pool:
    """So many workers, each a process that is started anew and runs one check at a time."""

    def __init__(self, count: int, threads: int = 1) -> None:
        self._slots = [_Slot(threads) for _ in range(count)]

    def wait_until_ready(self) -> None:
        """Wait until every worker has loaded what all checks need."""
        for slot in self._slots:
            slot.wait_until_ready()

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[int, JobResult]]:
        """Yield the number of each job and its answer, as they come. A job is taken when a worker is free.

        Raises  ProcessEnded if no worker can be started.
        """
        left = enumerate(jobs)
        more = True
        while True:
            for slot in self._slots:
                if more and slot.job is None:
                    number, job = next(left, (0, None))
                    more = job is not None
                    if job is not None:
                        slot.begin(number, job)
            busy = [slot for slot in self._slots if slot.job is not None]
            if not busy:
                return
            found = [(slot.number, answer) for slot in busy if (answer := slot.answer()) is not None]
            if not found:
                wait_for_message([slot.process for slot in busy], min(slot.left() for slot in busy))
            yield from found

    def end(self) -> None:
        """End what the workers do; another thread than that which runs jobs may call it. Their jobs are answered by an error."""
        for slot in self._slots:
            if slot.process.status is None:
                slot.process.end_family()

    def close(self) -> None:
        """End all workers, with the processes that they started."""
        for slot in self._slots:
            slot.close()

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


class _Slot:
    """One worker, which is replaced when it ends."""

    def __init__(self, threads: int) -> None:
        self.job: Job | None = None
        self.number = 0
        self._threads = threads
        self._points: dict[int, Any] = {}  # documents of what was finished of the job
        self._ended_at_start = 0
        self._start_worker()

    def _start_worker(self) -> None:
        self.process = Process((self._threads,), module="gradcli.project.suite.worker", forks=False)
        self._ready = False
        self._deadline: float | None = None

    def begin(self, number: int, job: Job) -> None:
        """Send a job to the worker. Its time begins when the worker is ready for it."""
        self.number, self.job, self._points = number, job, {}
        self.process.send((job.text(),))
        self._set_deadline()

    def _set_deadline(self) -> None:
        seconds = None if self.job is None else self.job.ask.options.timeout
        self._deadline = time.monotonic() + seconds if seconds is not None and self._ready else None

    def left(self) -> float:
        """Return how many seconds to wait at most, for a message or for the end of the time."""
        return 3600.0 if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def wait_until_ready(self) -> None:
        """Wait until the worker can take its first job at once."""
        while not self._ready and self.process.status is None:
            message = self.process.receive(None)
            self._ready = message is not None and message[0] == "ready"

    def answer(self) -> JobResult | None:
        """Return the answer to the job if there is one: also that the worker has ended, or that its time is up."""
        if self.job is None:
            return None
        while (message := self.process.next()) is not None:
            if message[0] == "ready":
                self._ready, self._ended_at_start = True, 0
                self._set_deadline()
            elif message[0] == "point":
                self._points[message[1]] = json.loads(message[2])
            else:
                self.job = None
                return decode_document(JobResult, json.loads(message[1]))
        is_late = self._deadline is not None and time.monotonic() >= self._deadline
        if is_late:
            self.process.end_family()
            self.process.finish()
        elif self.process.status is None:
            return None
        return self._replace_worker(self.job, is_late)

    def _replace_worker(self, job: Job, is_late: bool) -> JobResult | None:
        """Start a worker in place of one that has ended, and return the answer to its job; None if that begins again."""
        status, was_ready = self.process.status or 0, self._ready
        self.process.end_group()
        stack = self.process.close()
        self.job = None
        self._start_worker()
        if is_late:
            seconds = job.ask.options.timeout or 0.0
            return JobResult(_unfinished_document(job, seconds, self._points), seconds)
        if was_ready:
            error = process_ended_error(status, stack, job.ask.target)
            return JobResult(job.error_document(error_detail(error)), 0.0)
        self._ended_at_start += 1
        if self._ended_at_start == _AT_START:
            says = f"the process that does the work ended with {describe_exit(status)} before it could say anything"
            hint = "run gradcli modes: where that fails too, Python or a library is broken, or memory is short"
            raise ProcessEnded(says, do=hint)
        self.begin(self.number, job)
        return None

    def close(self) -> None:
        if self.process.status is None:
            self.process.end_family()
            self.process.finish()
        self.process.close()


def _unfinished_document(job: Job, seconds: float, parts: dict[int, Any]) -> dict[str, Any]:
    """Return the document of the points that were finished in time, with a finding that time is up.

    `parts` are documents of points, by number, and under OUTLINE one that says what is checked; where that has points, the
    verdict was decided, and stands.
    """
    outline = parts.get(OUTLINE, {})
    points = outline.get("points") or [point for number, point in sorted(parts.items()) if number != OUTLINE]
    report = report_unfinished_check(SuiteTimeUp(seconds), job.ask, job.ask.command)
    document: dict[str, Any] = encode(dataclasses.replace(report, id=job.id))
    line = {} if job.ask.line is None else {"line": job.ask.line}
    (says,) = document["points"][0]["findings"]
    document |= {key: outline[key] for key in ("claim", "derivative", "claimed_at", "native") if key in outline}
    if outline.get("points"):
        says |= {"severity": Severity.INFO, "message": f"{says['message']}, before the cause was found"}
        for point in points:
            point["findings"] += [says] if point["verdict"] == Verdict.FAIL else []
        return {**outline, "id": job.id, **line}
    if points:
        document["points"] = points
        points[-1]["findings"].append(says)
        points[-1]["verdict"] = Verdict.FAIL if points[-1]["verdict"] == Verdict.FAIL else Verdict.INCONCLUSIVE
        if any(point["verdict"] == Verdict.FAIL for point in points):
            document |= {"verdict": Verdict.FAIL, "exit_status": 1}
    return document | line


class _Local(threading.local):
    """The worker of a thread, which ends with it, and the run that it works for."""

    pool: Pool | None = None
    run: str | None = None


_LOCAL = _Local()


def run_apart(text: str) -> str:
    """Return the answer to a job, both as JSON. The check cannot end this process, and its time limit holds."""
    return _answer_in_worker(decode_document(Job, json.loads(text))).text()


def run_check(suite: Suite, check: SuiteCheck) -> CheckRow:
    """Run one check of a suite, and return its row."""
    job = job_of_check(suite, check)
    return row_of_answer(job, _answer_in_worker(job))


def end_thread_worker() -> None:
    """End the worker of this thread, if it has one."""
    if _LOCAL.pool is not None:
        _LOCAL.pool.close()
        _LOCAL.pool = None


def _answer_in_worker(job: Job) -> JobResult:
    if _LOCAL.pool is None or _LOCAL.run != job.run:
        end_thread_worker()
        _LOCAL.pool, _LOCAL.run = Pool(1, job.ask.options.threads), job.run
    ((_, answer),) = _LOCAL.pool.run([job])
    return answer


class Elsewhere:
    """Runs jobs by an executor of the entry points `gradcli.executors`, to which only JSON and one function travel."""

    def __init__(self, url: str, remote: Remote) -> None:
        self._url, self._remote = url, remote

    def run(self, jobs: Iterable[Job]) -> Iterator[tuple[int, JobResult]]:
        """Yield each answer when it comes; a job that was lost, and what is no answer, is that check's error."""
        listed = list(jobs)
        left = set(range(len(listed)))
        for number, text in self._remote(self._url, run_apart, [job.text() for job in listed]):
            left.discard(number)
            yield number, self._read_answer(listed[number], text)
        for number in sorted(left):
            yield number, self._read_answer(listed[number], None)

    def _read_answer(self, job: Job, text: str | None) -> JobResult:
        try:
            if text is not None:
                answer = decode_document(JobResult, json.loads(text))
                if answer.document.keys().isdisjoint(("error", "verdict")):
                    raise NotADocument("there is no verdict")
                return answer
            says = f"the workers of {self._url} that ran this check were lost"
        except (ValueError, NotADocument):
            says = f"{self._url} gave no answer that can be read"
        detail = ErrorDetail("ended the process", says, None, "run it here: without --executor")
        return JobResult(job.error_document(detail), 0.0)


@contextmanager
def local_executor(count: int, threads: int, apart: bool, on_github: bool = False) -> Iterator[Executor]:
    """Run checks on this machine, `count` at a time; in processes of their own if there are several, or if `apart`.

    In a job of GitHub, what these processes print is relayed, also that of workers which replace others.
    """
    if count == 1 and not apart:
        yield Inline()
        return

    with relayed_errors(on_github) as relay, Pool(count, threads) as pool:
        yield pool
    wait_for_relay(relay)


@contextmanager
def remote_executor(url: str) -> Iterator[Executor]:
    """Run checks by the executor of a URL such as `dask://host:8786`. Raises BadOption if there is none of this scheme."""
    scheme = url.partition("://")[0]
    known: dict[str, Any] = {entry.name: entry for entry in entry_points(group=GROUP)}
    if "://" not in url or scheme not in known:
        listed = ", ".join(f"{name}://" for name in sorted(known))
        raise BadOption(f"there is no executor for '{url}'", do=f"known: {listed}" if known else "reinstall gradcli")
    yield Elsewhere(url, known[scheme].load())


# Run checks on a cluster of dask.distributed that has gradcli and the project.

_PATIENCE = "10s"  # to reach the scheduler


def run(url: str, function: Callable[[str], str], texts: Iterable[str]) -> Iterator[tuple[int, str | None]]:
    """Yield the number of each job and its answer, as they come; None for a job whose workers were lost.

    A job whose worker is lost is run again by another one, as often as the cluster's `allowed-failures` says.

    Raises  BadOption if dask is not installed, or the cluster cannot be reached.
    """
    try:
        from distributed import Client, as_completed
    except ImportError:
        raise BadOption("dask.distributed is not installed", do=install_command("dask")) from None
    address = url.replace("dask://", "tcp://", 1)
    try:
        client = Client(address, timeout=_PATIENCE, set_as_default=False)
    except OSError as error:
        raise BadOption(f"no Dask scheduler answers at {url}: {error}", do="start one: dask scheduler") from None
    with client:
        futures = {client.submit(function, text, pure=False): number for number, text in enumerate(texts)}
        for future in as_completed(futures, loop=client.loop):
            yield futures[future], future.result() if future.status == "finished" else None


# Checks of files that were saved, by a worker that is ready before they are asked for, and new in every run.


class Checker:
    """Runs checks one after the other. It belongs to one thread, which outlives it: on Linux a worker ends with the thread that
    started it. Another thread may stop it.
    """

    def __init__(self) -> None:
        self._pool = Pool(1)
        self._lock = threading.RLock()  # a signal may come while it is held
        self._busy = False

    def rows(
        self, suite: Suite, checks: Sequence[SuiteCheck], wanted: Callable[[], bool] = lambda: True
    ) -> Iterator[CheckRow]:
        """Yield the row of each check while they are wanted. The code is loaded anew, as it may have changed."""
        if not checks:
            return
        self._pool.wait_until_ready()
        with self._lock:
            if not wanted():
                return
            self._busy = True
        jobs = [job_of_check(suite, check) for check in checks]
        try:
            for number, answer in self._pool.run(jobs):
                if not wanted():
                    return
                yield row_of_answer(jobs[number], answer)
        finally:
            with self._lock:
                self._busy = False
                self._pool.close()
                self._pool = Pool(1)

    def stop(self) -> None:
        """End the check that runs, with all that it started, where it is no longer wanted."""
        with self._lock:
            if self._busy:
                self._pool.end()

    def close(self) -> None:
        """End the worker."""
        self._pool.close()
