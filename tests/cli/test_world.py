"""What the program says on standard error while it works."""

import io
import threading

import pytest

from gradcli.cli import world as module
from gradcli.cli.world import Alone, World
from tests.rows import for_rows


class Stream(io.StringIO):
    """A standard error that says when something was written to it."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal
        self.has_line = threading.Event()

    def isatty(self) -> bool:
        return self.terminal

    def write(self, text: str) -> int:
        written = super().write(text)
        if "ends it" in self.getvalue():
            self.has_line.set()
        return written


class Timed(Alone):
    """A link that keeps a time limit."""

    def begin(self, *_: object) -> None:
        """Accept every limit."""


@for_rows("terminal", [True, False])
@for_rows(("seconds", "limit"), [(None, "--timeout 60s ends it"), (90.0, "--timeout ends it after 90 s")])
def test_work_that_goes_on_says_so_and_what_ends_it(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, seconds: float | None, limit: str
) -> None:
    monkeypatch.setattr(module, "_SOON_SECONDS" if terminal else "_QUIET_SECONDS", 0.0)
    stream = Stream(terminal)
    world = World(io.StringIO(), io.StringIO(), stream, {}, Timed())
    with world.users_code("f", seconds=seconds), world.working("checking f"):
        assert stream.has_line.wait(60)
    assert limit in stream.getvalue() and "checking f" in stream.getvalue()


def test_quiet_work_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_QUIET_SECONDS", 0.0)
    stream = Stream(False)
    with World(io.StringIO(), io.StringIO(), stream, {}).working("checking f", quiet=True):
        assert not stream.has_line.wait(0.05)
