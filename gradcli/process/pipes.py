"""Functions for both ends of the pipes between a process and its child; only the standard library is imported."""

import marshal
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

LENGTH = 8  # bytes before each message that hold its length
POSIX = os.name == "posix"
FORKS = sys.platform == "linux"  # on other systems, libraries of the system may fail after a fork


def framed(message: tuple[Any, ...]) -> bytes:
    """Return a message as the bytes that travel through a pipe: its length, then its content."""
    data = marshal.dumps(message)
    return len(data).to_bytes(LENGTH, "big") + data


def write_all(fd: int, data: bytes) -> None:
    """Write all of the data to a file descriptor."""
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def inherited(ends: Sequence[int]) -> list[int]:
    """Return the ends of the pipes as file descriptors that processes started by the child do not inherit."""
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
    """End this process when its parent ends, in whatever way. Linux only; elsewhere nothing is done."""
    if FORKS:
        prctl(1, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(70)


def adopt_orphans() -> None:
    """Let descendants whose parent ends become children of this process, so that they are found with it. Linux only."""
    if FORKS:
        prctl(36, 1)


def prctl(option: int, value: int) -> None:
    """Set an option of this process by the system call prctl. Linux only."""
    import ctypes

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def name_of(status: int) -> str:
    """Return in words how a process ended: by an exit status, or by the name of a signal."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def leave_stacks_in(file: int) -> None:
    """Write the stack to a file if os._exit or the signal of a fault, such as SIGSEGV, ends the process."""
    import faulthandler

    own, exit_now = os.getpid(), os._exit

    def exit(status: int) -> NoReturn:
        if os.getpid() == own:
            faulthandler.dump_traceback(file, all_threads=False)
        exit_now(status)

    os._exit = exit
    if not faulthandler.is_enabled():
        faulthandler.enable(file, all_threads=False)
