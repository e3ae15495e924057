"""The child's end of the pipes to the supervisor: the messages it sends, and its standard streams."""

import io
import os
import pickle
import sys
import threading
from collections.abc import Iterator
from typing import IO, Any

from gradcli.process.earlier import Earlier, pickle_part
from gradcli.process.process import read_message, write_message
from gradcli.words import OUTLINE

_exit = os._exit


class SupervisorLink:
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
            from gradcli.project.suite.ended import SuiteTimeUp, process_ended_error

            if earlier.status is not None:
                raise process_ended_error(earlier.status, earlier.stack, target)
            found = {number: pickle.loads(found) for number, found in earlier.points}
            report = found.pop(OUTLINE, None)
            raise SuiteTimeUp(seconds or 0.0, tuple(point for _, point in sorted(found.items())), report)
        self._send_and_wait("begin", seconds)

    def point(self, number: int, found: Any) -> None:
        """Send a finished point of a report, in case there is no time for the rest."""
        from gradcli.report.encode import Opaque

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
