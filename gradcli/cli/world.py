"""The outside world as one object: streams, terminal, environment. Layers below the command line do not touch them."""

import contextlib
import io
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TextIO

from gradcli.classes import dataclass
from gradcli.errors import BadOption
from gradcli.report.blocks import make_visible

if TYPE_CHECKING:
    from threading import Event

    from gradcli.process.process import Earlier

_QUIET_SECONDS = 30.0
_SOON_SECONDS = 1.0
_REFRESH_SECONDS = 0.2
_WIDEST = 120
_PIPE_WIDTH = 80


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


class Alone:
    """Stands in for the link to a supervisor if there is none: the user's code runs in this process and can end it."""

    @cached_property
    def earlier(self) -> "Earlier":
        """The state of earlier processes, which is empty."""
        from gradcli.process.process import Earlier

        return Earlier()

    def begin(self, target: str, seconds: float | None) -> None:
        """Begin the target. Raises BadOption for a time limit, which only a supervisor can enforce."""
        if seconds is not None:
            raise BadOption("--timeout needs a process of its own", do="run gradcli from the command line")

    def point(self, number: int, found: Any) -> None:
        """Take a finished point of a report; nothing is done with it."""

    def end(self) -> None:
        """Note that the work on the target is over; nothing is done."""


@dataclass
class World:
    """The streams, the environment and the supervisor that the program uses."""

    stdin: TextIO = field(default_factory=lambda: sys.stdin or io.StringIO())
    stdout: TextIO = field(default_factory=lambda: sys.stdout or io.StringIO())
    stderr: TextIO = field(default_factory=lambda: sys.stderr or io.StringIO())
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    link: Alone = field(default_factory=Alone)
    afterwards: Callable[[], int] | None = None  # what `gradcli run` does when the command line was read and left
    _seconds: float | None = None

    def width(self, stream: TextIO) -> int:
        """Return the width of a stream's terminal in columns, at most 120; 80 for a pipe."""
        if self.environ.get("COLUMNS", "").isdecimal():
            return max(40, min(int(self.environ["COLUMNS"]), _WIDEST))
        try:
            return max(40, min(os.get_terminal_size(stream.fileno()).columns or _PIPE_WIDTH, _WIDEST))
        except (OSError, ValueError, AttributeError):
            return _PIPE_WIDTH

    def color(self, stream: TextIO, wanted: bool | None) -> bool:
        """Whether to colour the text of a stream, by the option, else NO_COLOR and FORCE_COLOR, else if it is a terminal."""
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
        """Yield the lines of standard input with their numbers."""
        typed = getattr(self.stdin, "isatty", None)
        if typed is not None and typed():
            self.tell("reading lines; Ctrl-D ends")
        yield from enumerate(self.stdin, 1)

    @contextmanager
    def users_code(self, target: str = "", seconds: float | None = None) -> Iterator[None]:
        """Enter a context in which the user's code may run, with a time limit in seconds.

        What the user's code prints goes to standard error; only gradcli writes to standard output. The file descriptor is
        redirected for good, so that text buffered by C code cannot follow the result.

        Raises  ProcessEnded, SuiteTimeUp if an earlier process ended at this target.
        """
        self.link.begin(target, seconds)
        self._seconds = seconds
        try:
            own = self.stdout.fileno() == 1
        except (OSError, ValueError, AttributeError):
            own = False
        if own:
            self.stdout.flush()
            kept = os.dup(1)
            os.dup2(2, 1)
            # left open until the process ends; a file that closes it would warn that nobody closed the file
            self.stdout = open(kept, "w", encoding=self.encoding(self.stdout), errors="replace", closefd=False)  # noqa: SIM115
        try:
            with contextlib.redirect_stdout(self.stderr):
                yield
        finally:
            self.link.end()

    @contextmanager
    def stdout_kept_clean(self) -> Iterator[None]:
        """Send what is printed in the block to standard error, also by C code; standard output is as before afterwards."""
        kept = os.dup(1) if _is_open(1) and _is_open(2) else None
        if kept is not None:
            os.dup2(2, 1)
        try:
            with contextlib.redirect_stdout(self.stderr):
                yield
        finally:
            if kept is not None:
                os.dup2(kept, 1)
                os.close(kept)

    @contextmanager
    def working(self, what: str, quiet: bool = False, *, ends: str = "") -> Iterator[Callable[[str], None]]:
        """Show on standard error that long work goes on: by a spinner on a terminal, else by a line every 30 s.

        The function that the block gets says what is done now; `ends` what shortens it, where that is not --timeout.
        """
        doing = [what]
        if quiet:
            yield doing.append
            return
        import threading  # loaded late, because --version does not need it

        done = threading.Event()
        thread = threading.Thread(target=self._show_progress, args=(doing, done, ends), daemon=True)
        thread.start()
        try:
            yield doing.append
        finally:
            done.set()
            thread.join()

    def tell(self, what: str) -> None:
        """Write a line to standard error."""
        self.stderr.write(f"{make_visible(what)}\n")
        self.stderr.flush()

    def _show_progress(self, doing: list[str], done: "Event", ends: str) -> None:
        if done.wait(_SOON_SECONDS if self.stderr.isatty() else _QUIET_SECONDS):
            return
        limit = f"--timeout ends it after {self._seconds or 0.0:g} s"
        if self._seconds is None:
            limit = ends or "--timeout 60s ends it"
        if self.stderr.isatty():
            from rich.console import Console

            def says() -> str:
                return f"{make_visible(doing[-1])} ...  ({limit})"

            with Console(file=self.stderr, highlight=False, markup=False).status(says()) as status:
                while not done.wait(_REFRESH_SECONDS):
                    status.update(says())
            return
        spent = _QUIET_SECONDS
        while True:
            self.stderr.write(f"{make_visible(doing[-1])}: {spent:.0f} s so far; {limit}\n")
            self.stderr.flush()
            if done.wait(_QUIET_SECONDS):
                return
            spent += _QUIET_SECONDS
