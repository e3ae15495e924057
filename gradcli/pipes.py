"""What both ends of the pipes between the supervisor and its child need. Nothing but the standard library."""

import marshal
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

LENGTH = 8  # bytes before each message, which say how long it is
POSIX = os.name == "posix"
FORKS = sys.platform == "linux"  # elsewhere the system's own libraries may not survive a fork


def framed(message: tuple[Any, ...]) -> bytes:
    """Return a message as it travels through a pipe."""
    data = marshal.dumps(message)
    return len(data).to_bytes(LENGTH, "big") + data


def write_all(fd: int, data: bytes) -> None:
    """Write all of it."""
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def inherited(ends: Sequence[int]) -> list[int]:
    """Return the pipes' ends as file descriptors, which nothing that the child starts inherits."""
    if POSIX:
        fds = list(ends)
    else:
        import msvcrt

        modes = (os.O_WRONLY, os.O_RDONLY, os.O_RDWR)
        fds = [msvcrt.open_osfhandle(handle, mode) for handle, mode in zip(ends, modes, strict=True)]  # type: ignore[attr-defined]
    for fd in fds:
        os.set_inheritable(fd, False)
    return fds


def die_with(parent: int) -> None:
    """On Linux: end when the parent does, however it ends, so that nothing is left running."""
    if FORKS:
        prctl(1, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(70)


def prctl(option: int, value: int) -> None:
    """Set an option of this process. Linux only."""
    import ctypes

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)
