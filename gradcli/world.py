"""The outside world as one object: streams, terminal, environment, clock. Nothing below floor 7 touches them otherwise."""

import contextlib
import io
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from gradcli.errors import BadOption
from gradcli.reports.escape import visible

if TYPE_CHECKING:
    from threading import Event

    from gradcli.earlier import Earlier
    from gradcli.link import Link

_QUIET_SECONDS = 30.0
_SOON_SECONDS = 1.0
_WIDEST = 120
_PIPE_WIDTH = 80


class Alone:
    """No supervisor: the work is done in this process, which the user's code can end."""

    @property
    def earlier(self) -> "Earlier":
        """What other processes did before: nothing."""
        from gradcli.earlier import Earlier

        return Earlier()

    def begin(self, target: str, word: int, line: int, text: str, seconds: float | None) -> None:
        """Begin a target. Raises BadOption for a time limit, which only a supervisor can keep."""
        if seconds is not None:
            raise BadOption("--timeout needs a process of its own", do="run gradcli from the command line")

    def is_done(self, word: int, line: int) -> bool:
        """Whether another process gave the result of a target."""
        return False

    def point(self, number: int, found: Any) -> None:
        """Give a part of a report that is finished."""

    def end(self) -> None:
        """Say that the work at the target is over."""

    def result(self, word: int, line: int, status: int, written: bool, row: Any = None) -> None:
        """Say that all that there is about a target was written."""


@dataclass
class World:
    """What the program can see and touch."""

    stdin: TextIO = field(default_factory=lambda: sys.stdin or io.StringIO())
    stdout: TextIO = field(default_factory=lambda: sys.stdout or io.StringIO())
    stderr: TextIO = field(default_factory=lambda: sys.stderr or io.StringIO())
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    link: "Alone | Link" = field(default_factory=Alone)
    _seconds: float | None = None

    def width(self, stream: TextIO) -> int:
        """Return the columns of a stream's terminal, 120 at most; 80 in a pipe."""
        if self.environ.get("COLUMNS", "").isdecimal():
            return max(40, min(int(self.environ["COLUMNS"]), _WIDEST))
        try:
            return max(40, min(os.get_terminal_size(stream.fileno()).columns or _PIPE_WIDTH, _WIDEST))
        except (OSError, ValueError, AttributeError):
            return _PIPE_WIDTH

    def color(self, stream: TextIO, wanted: bool | None) -> bool:
        """Whether to colour what goes to a stream: the option, then NO_COLOR and FORCE_COLOR, then whether it is a terminal."""
        if wanted is not None:
            return wanted
        if self.environ.get("NO_COLOR"):
            return False
        if self.environ.get("FORCE_COLOR"):
            return True
        return bool(stream.isatty()) and self.environ.get("TERM") != "dumb"

    def encoding(self, stream: TextIO) -> str:
        """Return the encoding of a stream."""
        return getattr(stream, "encoding", None) or "utf-8"

    @property
    def on_github(self) -> bool:
        """Whether this is a GitHub Actions job."""
        return self.environ.get("GITHUB_ACTIONS") == "true"

    def lines(self) -> Iterator[tuple[int, str]]:
        """Yield the lines of standard input with their numbers, from the one at which an earlier process ended."""
        earlier = self.link.earlier
        if earlier.line and earlier.stopped:
            yield earlier.line, earlier.text
        typed = getattr(self.stdin, "isatty", None)
        if typed is not None and typed() and not earlier.line:
            self.tell("reading lines; Ctrl-D ends")
        yield from enumerate(self.stdin, earlier.line + 1)

    @contextmanager
    def users_code(
        self, target: str = "", word: int = 0, line: int = 0, text: str = "", seconds: float | None = None
    ) -> Iterator[None]:
        """Run the user's code inside: the work at a target, which may take so many seconds.

        What it prints goes to standard error; only gradcli writes to standard output. The file descriptor is turned over
        for good, so that what C code has buffered cannot come after the result.

        Raises  ProcessEnded, TimeIsUp where an earlier process ended at this target.
        """
        self.link.begin(target, word, line, text, seconds)
        self._seconds = seconds
        try:
            own = self.stdout.fileno() == 1
        except (OSError, ValueError, AttributeError):
            own = False
        if own:
            self.stdout.flush()
            kept = os.dup(1)
            os.dup2(2, 1)
            self.stdout = open(kept, "w", encoding=self.encoding(self.stdout), errors="replace")  # noqa: SIM115, PTH123
        try:
            with contextlib.redirect_stdout(self.stderr):
                yield
        finally:
            self.link.end()

    @contextmanager
    def working(self, what: str, quiet: bool = False) -> Iterator[None]:
        """Show on standard error that long work goes on, and what ends it: a spinner on a terminal, else a line every 30 s."""
        if quiet:
            yield
            return
        import threading  # not for --version

        done = threading.Event()
        thread = threading.Thread(target=self._wait, args=(what, done), daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def tell(self, what: str) -> None:
        """Say on standard error what is begun."""
        self.stderr.write(f"{visible(what)}\n")
        self.stderr.flush()

    def _wait(self, what: str, done: "Event") -> None:
        if done.wait(_SOON_SECONDS if self.stderr.isatty() else _QUIET_SECONDS):
            return
        limit = "--timeout 60s ends it" if self._seconds is None else f"--timeout ends it after {self._seconds:g} s"
        if self.stderr.isatty():
            from rich.console import Console

            with Console(file=self.stderr, highlight=False, markup=False).status(f"{visible(what)} ...  ({limit})"):
                done.wait()
            return
        spent = _QUIET_SECONDS
        while True:
            self.stderr.write(f"{visible(what)}: {spent:.0f} s so far; {limit}\n")
            self.stderr.flush()
            if done.wait(_QUIET_SECONDS):
                return
            spent += _QUIET_SECONDS
