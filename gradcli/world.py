"""The outside world as one object: streams, terminal, environment, clock. Nothing below floor 7 touches them otherwise."""

import contextlib
import io
import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

from gradcli.report.escape import visible

_QUIET_SECONDS = 30.0
_SOON_SECONDS = 1.0
_WIDEST = 120
_PIPE_WIDTH = 80


@dataclass
class World:
    """What the program can see and touch."""

    stdin: TextIO = field(default_factory=lambda: sys.stdin or io.StringIO())
    stdout: TextIO = field(default_factory=lambda: sys.stdout or io.StringIO())
    stderr: TextIO = field(default_factory=lambda: sys.stderr or io.StringIO())
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)

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

    @contextmanager
    def users_code(self) -> Iterator[None]:
        """Send what runs inside to standard error when it prints; only gradcli writes to standard output.

        The file descriptor is turned over for good, so that what C code has buffered cannot come after the result.
        """
        try:
            own = self.stdout.fileno() == 1
        except (OSError, ValueError, AttributeError):
            own = False
        if own:
            self.stdout.flush()
            kept = os.dup(1)
            os.dup2(2, 1)
            self.stdout = open(kept, "w", encoding=self.encoding(self.stdout), errors="replace")  # noqa: SIM115, PTH123
        with contextlib.redirect_stdout(self.stderr):
            yield

    @contextmanager
    def working(self, what: str, quiet: bool = False) -> Iterator[None]:
        """Show on standard error that long work goes on: a spinner on a terminal, else a plain line every 30 s."""
        if quiet:
            yield
            return
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

    def _wait(self, what: str, done: threading.Event) -> None:
        if done.wait(_SOON_SECONDS if self.stderr.isatty() else _QUIET_SECONDS):
            return
        if self.stderr.isatty():
            from rich.console import Console

            with Console(file=self.stderr, highlight=False, markup=False).status(f"{visible(what)} ..."):
                done.wait()
            return
        spent = _QUIET_SECONDS
        while True:
            self.stderr.write(f"{visible(what)}: {spent:.0f} s so far\n")
            self.stderr.flush()
            if done.wait(_QUIET_SECONDS):
                return
            spent += _QUIET_SECONDS
