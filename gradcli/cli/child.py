"""The child process, which does the work in the same terminal as the supervisor and may end at any time.

Its end of the pipes: the messages that it sends to the supervisor, and its standard streams.
"""

import contextlib
import io
import os
import pickle
import sys
import threading
from collections.abc import Iterator
from typing import IO, Any, NoReturn

from gradcli.cli.command_line import CommandLine
from gradcli.cli.world import Alone, World
from gradcli.errors import SuiteTimeUp
from gradcli.process.process import (
    Earlier,
    adopt_orphans,
    die_with,
    dump_stack_at_exit,
    open_pipe_ends,
    pickle_part,
    read_message,
    write_message,
)
from gradcli.process.start import compile_from_source, exit_status_of, set_threads
from gradcli.words import OUTLINE

_exit = os._exit


def started(up: int, down: int, stack: int, parent: int) -> NoReturn:
    """Run a command in this child process, send the exit status to the supervisor, and end.

    `up`, `down` and `stack` are the file descriptors of the pipes and of the file for stacks.
    """
    up, down, stack = open_pipe_ends((up, down, stack))
    die_with(parent)
    adopt_orphans()
    compile_from_source()
    link = SupervisorLink(up, down)
    line = CommandLine.from_json(link.line)
    set_threads(line.options.threads)
    dump_stack_at_exit(stack)
    out = Documents(link, sys.stdout)
    os.dup2(2, 1)  # only what comes over the pipe goes to standard output

    def work() -> int:
        from gradcli.cli.main import run_line

        return run_line(line, World(stdin=InputLines(), stdout=out, link=link))  # type: ignore[arg-type]

    status = exit_status_of(work)
    with contextlib.suppress(Exception):
        sys.stderr.flush()
    link.done(status)
    _exit(status)


class SupervisorLink(Alone):
    """The connection of a child process to its supervisor; `line` is the command, as JSON, and `earlier` the state
    that earlier children left."""

    def __init__(self, up: int, down: int) -> None:
        self._up, self._down, self._pid = up, down, os.getpid()
        self._lock = threading.Lock()
        self.line, *earlier = read_message(down) or _exit(70)  # the supervisor is gone
        self.earlier = Earlier(*earlier)

    def begin(self, target: str, seconds: float | None) -> None:
        """Tell the supervisor that the work on the target begins, and how many seconds it may take.

        Raises  ProcessEnded if an earlier child ended at this target; SuiteTimeUp if it ran out of time there.
        """
        earlier = self.earlier
        if earlier.stopped:
            from gradcli.project.suite.job import process_ended_error

            if earlier.status is not None:
                raise process_ended_error(earlier.status, earlier.stack, target)
            found = {number: pickle.loads(found) for number, found in earlier.points}
            report = found.pop(OUTLINE, None)
            raise SuiteTimeUp(seconds or 0.0, tuple(point for _, point in sorted(found.items())), report)
        self._send_and_wait("begin", seconds)

    def point(self, number: int, found: Any) -> None:
        """Send a finished point of a report, in case there is no time for the rest."""
        from gradcli.report.common import Opaque

        self._send_message("point", number, pickle_part(found, Opaque))

    def end(self) -> None:
        """Tell the supervisor that the work on the target is over, so that no time limit holds for writing the report."""
        self._send_message("end")

    def write(self, data: bytes) -> None:
        """Let the supervisor write a document to standard output. Raises OSError if that fails."""
        self._send_and_wait("write", data)

    def done(self, status: int) -> None:
        """Tell the supervisor that all work is done, and the exit status."""
        self._send_message("done", int(status))

    def _send_and_wait(self, *message: Any) -> None:
        self._send_message(*message)
        (number,) = read_message(self._down) or _exit(70)  # the supervisor is gone
        if number:
            raise OSError(number, os.strerror(number))

    def _send_message(self, *message: Any) -> None:
        if os.getpid() != self._pid:
            _exit(0)  # a copy of this process, forked by the user's code, must send nothing
        with self._lock:
            try:
                write_message(self._up, message)
            except BrokenPipeError:
                _exit(70)  # the supervisor is gone


class Documents(io.TextIOBase):
    """Standard output: text between two flushes is one document, which the supervisor writes as a whole."""

    def __init__(self, link: SupervisorLink, stream: IO[str] | None) -> None:
        self._link = link
        self._texts: list[str] = []
        self._encoding = getattr(stream, "encoding", None) or "utf-8"
        self._terminal = os.dup(1)

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return self._encoding

    def fileno(self) -> int:
        return self._terminal

    def isatty(self) -> bool:
        return os.isatty(self._terminal)

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self._texts.append(text)
        return len(text)

    def flush(self) -> None:
        whole, self._texts = "".join(self._texts), []
        if whole:
            self._link.write(whole.replace("\n", os.linesep).encode(self._encoding, "replace"))


class InputLines:
    """Standard input by lines, each as soon as it is there."""

    def isatty(self) -> bool:
        """Whether standard input is a terminal."""
        return os.isatty(0)

    def __iter__(self) -> Iterator[str]:
        known = sys.stdin
        if known is not None:
            with io.FileIO(0, closefd=False) as stream:
                for line in stream:
                    yield line.decode(known.encoding, known.errors or "strict")
