"""Pass on what the user's code prints in a job of GitHub Actions, so that the runner takes no line of it for a command.

The runner reads commands from both streams: `::error::` at the start of a line, `##[error]` anywhere. What gradcli itself
says to it goes another way. This file runs as a process of its own, for what is printed may end in the middle, with the
standard library alone.
"""

import contextlib
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from subprocess import Popen

_MOST = 1 << 16  # bytes that are held back until a line ends
_PATIENCE = 5.0  # seconds
_COMMAND = re.compile(r"((?:^|(?<=\r))\s*):(?=:)", re.MULTILINE)


def without_commands(text: str) -> str:
    """Return text in which a runner of GitHub recognises no workflow command: a blank is put into its first signs."""
    return _COMMAND.sub(r"\1: ", text).replace("##[", "# #[")


@contextmanager
def relayed_errors(on_github: bool) -> Iterator["Popen[bytes] | None"]:
    """Context in which a process that is started has a relay as its standard error, where this is a job of GitHub."""
    if not on_github:
        yield None
        return
    import subprocess  # loaded late, for jobs of GitHub alone

    command = [sys.executable, "-I", "-S", __file__]
    relay = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=2, start_new_session=True)
    assert relay.stdin is not None
    kept = os.dup(2)
    os.dup2(relay.stdin.fileno(), 2)
    relay.stdin.close()
    try:
        yield relay
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def wait_for_relay(relay: "Popen[bytes] | None") -> None:
    """Wait until all that was printed is passed on; a process that lives on may hold the relay open for some seconds."""
    if relay is not None:
        import subprocess

        with contextlib.suppress(subprocess.TimeoutExpired):
            relay.wait(_PATIENCE)


def _relay_lines() -> None:
    """Copy standard input to standard output line by line, without commands."""
    held = b""
    while data := os.read(0, _MOST):
        held += data
        end = len(held) if len(held) > _MOST else held.rfind(b"\n") + 1
        _write_without_commands(held[:end])
        held = held[end:]
    _write_without_commands(held)


def _write_without_commands(data: bytes) -> None:
    left = without_commands(data.decode(errors="surrogateescape")).encode(errors="surrogateescape")
    while left:
        left = left[os.write(1, left) :]


if __name__ == "__main__":
    _relay_lines()
