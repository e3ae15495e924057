"""`--timeout`: the work in a child process that can be stopped wherever it is, and what it had finished by then."""

import os
import pickle
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from gradcli.errors import BadOption, GradcliError, OutOfTime
from gradcli.modes.workers import WORKERS

if TYPE_CHECKING:
    from gradcli.report.check import CheckReport, PointReport
    from gradcli.report.common import Target

Made = TypeVar("Made")
_ENOUGH = 10.0  # seconds: no shorter time is worth trying again
Progress = Callable[[int, "PointReport"], None]


class Child:
    """A forked process that runs `work(progress)`; what it makes, and what it finishes on the way, comes back here."""

    def __init__(self, work: Callable[[Progress], Any]) -> None:
        if not hasattr(os, "fork"):
            raise BadOption("--timeout needs a system that can fork", do="use --mode-timeout")
        self._read, write = os.pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        self._pid = os.fork()
        if self._pid == 0:
            os.setpgid(0, 0)
            os.close(self._read)
            _run(work, write)
        os.close(write)
        WORKERS.hand_over()
        self._buffer = b""

    def result(self, seconds: float, unfinished: Callable[[list["PointReport"]], Any]) -> Any:
        """Return the report, or after `seconds` what `unfinished` makes of what was finished. Raises what the work raised."""
        finished: dict[int, PointReport] = {}
        deadline = time.monotonic() + seconds
        try:
            while (left := deadline - time.monotonic()) > 0:
                message = self._message(left)
                if message is None:
                    continue
                kind, found = message
                if kind == "report":
                    return found
                if kind == "error":
                    raise found
                if kind == "crash":
                    raise RuntimeError(found)
                finished[found[0]] = found[1]
        finally:
            self._stop()
        return unfinished([finished[k] for k in sorted(finished)])

    def _message(self, left: float) -> tuple[str, Any] | None:
        """Return the next whole message, or None if none came in time."""
        while True:
            if len(self._buffer) >= 8:
                size = int.from_bytes(self._buffer[:8], "big")
                if len(self._buffer) >= 8 + size:
                    whole, self._buffer = self._buffer[8 : 8 + size], self._buffer[8 + size :]
                    return pickle.loads(whole)  # type: ignore[no-any-return]
            if not select.select([self._read], [], [], left)[0]:
                return None
            piece = os.read(self._read, 1 << 20)
            if not piece:
                raise GradcliError("the process that ran the function ended", do="run it without --timeout to see why")
            self._buffer += piece

    def _stop(self) -> None:
        try:
            os.killpg(self._pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._read)


def _run(work: Callable[[Progress], Any], write: int) -> None:
    """Do the work in the child and send every result; never return."""

    def send(kind: str, found: Any) -> None:
        data = pickle.dumps((kind, found))
        whole = len(data).to_bytes(8, "big") + data
        while whole:
            whole = whole[os.write(write, whole) :]

    try:
        try:
            send("report", work(lambda number, point: send("point", (number, point))))
        except GradcliError as error:
            send("error", error)
        except Exception as error:
            send("crash", f"{type(error).__name__}: {error}")
    finally:
        os._exit(0)


def within(timeout: float | None, work: Callable[[], Made]) -> Made:
    """Return what the work makes; after `timeout` seconds it is stopped. Raises OutOfTime."""
    if timeout is None:
        return work()

    def over(finished: list["PointReport"]) -> Any:
        raise OutOfTime(f"time is up after {timeout:g} s", do=_longer(timeout))

    made: Made = Child(lambda progress: work()).result(timeout, over)
    return made


def _longer(seconds: float) -> str:
    """Return the option for a time that may be enough."""
    return f"--timeout {max(_ENOUGH, 4 * seconds):g}s"


def unfinished_check(
    seconds: float,
    target: "Target",
    claim: str | None,
    command: tuple[str, ...],
    seed: int,
    allowed: bool,
    finished: list["PointReport"],
) -> "CheckReport":
    """Return the report of what was checked in time."""
    from gradcli.report.check import CheckReport, Detects, Entries, PointReport
    from gradcli.report.common import finding
    from gradcli.report.encode import ABSENT
    from gradcli.verify.environment import environment

    says = finding("timeout", "inconclusive", f"time is up after {seconds:g} s", hint=_longer(seconds))
    nothing = PointReport(
        at={}, drawn=(), differentiated=(), constant=(), value=ABSENT, verdict="inconclusive", reference=None,
        gradient={}, jacobian=ABSENT, entries=Entries(0, 0, 0), mismatches=(), modes={}, findings=(), diagnosis=None,
        detects=Detects(None, None),
    )  # fmt: skip
    points = finished or [nothing]
    points[-1] = _with(points[-1], says)
    failed = any(point.verdict == "fail" for point in points)
    return CheckReport(
        target=target, claim=claim, seed=seed, command=command, exit_status=1 if failed else 0 if allowed else 3,
        verdict="fail" if failed else "inconclusive",
        detects=Detects(None, None), points=tuple(points), environment=environment(),
    )  # fmt: skip


def _with(point: "PointReport", says: Any) -> "PointReport":
    verdict = point.verdict if point.verdict == "fail" else "inconclusive"
    return replace(point, verdict=verdict, findings=(*point.findings, says))
