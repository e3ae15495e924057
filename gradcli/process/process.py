"""A child process with two pipes to it, and its descendants; and the supervisor, which watches one that runs the user's code.

Pebble's pool is not used: it takes 53 ms to import, it leaves the processes that the user's code has started when a task's time
is up, and it does not say where a process that crashed was.
"""

import contextlib
import errno
import io
import marshal
import os
import pickle
import select
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, NoReturn

from gradcli.process.relay import relayed_errors, wait_for_relay
from gradcli.process.start import INTERRUPTED, exit_status_of

_POLLING = 0.01  # seconds between polls, on systems that cannot wait for a pipe and a process at once
_CHILD = "import sys; sys.path[:] = {path!r}; from {module} import started; started(*{ends!r}, {parent})"


# Functions for both ends of the pipes between a process and its child; only the standard library is imported.

LENGTH = 8  # bytes before each message that hold its length
POSIX = os.name == "posix"
FORKS = sys.platform == "linux"  # on other systems, libraries of the system may fail after a fork


def write_message(fd: int, message: tuple[Any, ...]) -> None:
    """Write a message to a pipe: its length, then its content."""
    data = marshal.dumps(message)
    write_all(fd, len(data).to_bytes(LENGTH, "big") + data)


def write_all(fd: int, data: bytes) -> None:
    """Write all of the data to a file descriptor."""
    left = memoryview(data)
    while left:
        left = left[os.write(fd, left) :]


def read_message(fd: int) -> tuple[Any, ...] | None:
    """Return the next message of a pipe; None if the other end was closed."""
    head = _read_exactly(fd, LENGTH)
    data = None if head is None else _read_exactly(fd, int.from_bytes(head, "big"))
    return None if data is None else marshal.loads(data)


def _read_exactly(fd: int, count: int) -> bytes | None:
    """Return so many bytes of a pipe; None if its other end was closed before."""
    found = b""
    while len(found) < count:
        data = os.read(fd, count - len(found))
        if not data:
            return None
        found += data
    return found


def open_pipe_ends(ends: Sequence[int]) -> list[int]:
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


@contextlib.contextmanager
def hold_interrupts() -> Iterator[None]:
    """Let Ctrl-C act at the end of the block: in a fork, Python runs functions of libraries and drops what they raise."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield
        return
    came: list[int] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if came:
        signal.raise_signal(signal.SIGINT)


def prctl(option: int, value: int) -> None:
    """Set an option of this process by the system call prctl. Linux only."""
    import ctypes

    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def describe_exit(status: int) -> str:
    """Return in words how a process ended: by an exit status, or by the name of a signal."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"


def dump_stack_at_exit(file: int) -> None:
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


class Process:
    """A child that runs `started` of a module, and gets the message `first`.

    After its end, `status` is its exit status, negative for a signal.
    """

    wake: tuple[int, int] | None = None  # a pipe that each signal writes to, shared by all children

    def __init__(self, first: tuple[Any, ...], *, module: str, forks: bool = FORKS) -> None:
        self.status: int | None = None
        self._buffer = b""
        self.up, up = os.pipe()
        down, self._down = os.pipe()
        self._stack = _open_unnamed_file()
        if POSIX:
            os.set_blocking(self.up, False)
            _wake_on_signals()
        ends = (up, down, self._stack)
        self.is_open, self._popen, self.pid = True, None, 0
        if forks:
            self.pid = self._fork_child(module, ends)
        else:
            self._popen = _start_python(module, ends)
            self.pid = self._popen.pid
        os.close(up)
        os.close(down)
        self.send(first)

    def _fork_child(self, module: str, ends: tuple[int, int, int]) -> int:
        parent, usual = os.getpid(), {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
        held = signal.pthread_sigmask(signal.SIG_BLOCK, usual)  # until each process has its own handlers
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            for number in (*usual, signal.SIGCHLD):
                if callable(signal.getsignal(number)):
                    is_interrupt = number == signal.SIGINT
                    signal.signal(number, signal.default_int_handler if is_interrupt else signal.SIG_DFL)
            for fd in (self.up, self._down, *(Process.wake or ())):
                os.close(fd)
            Process.wake = None
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
            import importlib

            os._exit(exit_status_of(lambda: importlib.import_module(module).started(*ends, parent)))
        signal.pthread_sigmask(signal.SIG_SETMASK, held)
        return pid

    def receive(self, seconds: float | None) -> tuple[Any, ...] | None:
        """Return the next message; None if time is over, a signal came, or the child has ended and all messages were read."""
        whole = self.next()
        if whole is None and self.status is None:
            wait_for_message([self], seconds)
        return whole

    def send(self, message: tuple[Any, ...]) -> None:
        """Send the child a message; if it has ended, `receive` notices."""
        with contextlib.suppress(OSError):
            write_message(self._down, message)

    def next(self) -> tuple[Any, ...] | None:
        """Return the next message that has come, without waiting; None if there is none."""
        self._poll_status()
        while self.is_open and (POSIX or _count_waiting_bytes(self.up)):
            try:
                data = os.read(self.up, 1 << 20)
            except BlockingIOError:
                break
            self.is_open = bool(data)
            self._buffer += data
        end = LENGTH + int.from_bytes(self._buffer[:LENGTH], "big")
        if len(self._buffer) < end:
            return None
        whole, self._buffer = self._buffer[LENGTH:end], self._buffer[end:]
        found: tuple[Any, ...] = marshal.loads(whole)
        return found

    def signal(self, number: int) -> None:
        """Send the child a signal, if it still runs."""
        if self.status is None:
            with contextlib.suppress(OSError):
                os.kill(self.pid, number)

    def finish(self) -> None:
        """Wait until the child has ended."""
        while self.status is None:
            self._poll_status()
            if self.status is None:
                wait_for_message([self], None)

    def close(self) -> str:
        """Close the pipes and return the stack that the child wrote at its end, or an empty string."""
        size = os.lseek(self._stack, 0, os.SEEK_END)
        os.lseek(self._stack, 0, os.SEEK_SET)
        text = os.read(self._stack, size).decode(errors="replace")
        for fd in (self.up, self._down, self._stack):
            os.close(fd)
        return text

    def end_family(self) -> None:
        """End the child and all its descendants; on Linux also those whose own parent has ended, as the child adopts them."""
        import psutil

        stopped: set[Any] = set()
        with contextlib.suppress(psutil.NoSuchProcess):
            child = psutil.Process(self.pid)
            while new := {child, *child.children(recursive=True)} - stopped:
                for process in new:
                    with contextlib.suppress(psutil.Error):
                        process.suspend()  # stopped processes start no others
                stopped |= new
        for process in stopped:
            with contextlib.suppress(psutil.Error):
                process.kill()

    def end_group(self) -> None:
        """End what a child that leads a process group left in it at its end."""
        if POSIX:
            with contextlib.suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)

    def _poll_status(self) -> None:
        if self.status is not None:
            return
        if self._popen is not None:
            self.status = self._popen.poll()
            return
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self.status = os.waitstatus_to_exitcode(status)


def wait_for_message(processes: Sequence[Process], seconds: float | None) -> None:
    """Wait until a message of a process or a signal may have come, at most `seconds`."""
    if Process.wake is None:
        time.sleep(_POLLING if seconds is None else min(seconds, _POLLING))
        return
    woken = Process.wake[0]
    pipes = [process.up for process in processes if process.is_open]
    ready = select.select([woken, *pipes], [], [], seconds)[0]
    if woken in ready:
        with contextlib.suppress(BlockingIOError):
            os.read(woken, 4096)


def _start_python(module: str, ends: tuple[int, int, int]) -> Any:
    """Start a new Python with the same flags and path, which inherits the pipes."""
    import subprocess

    numbers = list(ends)
    for k, fd in enumerate(ends):
        os.set_inheritable(fd, True)
        if not POSIX:
            import msvcrt

            numbers[k] = msvcrt.get_osfhandle(fd)  # type: ignore[attr-defined]
    path = [str(folder) for folder in sys.path]
    code = _CHILD.format(path=path, module=module, ends=tuple(numbers), parent=os.getpid())
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    return subprocess.Popen([sys.executable, *flags, "-c", code], close_fds=False)


def is_foreground_group() -> bool:
    """Whether Ctrl-C in a terminal reaches the whole process group, and with it the child."""
    if not POSIX:
        return True
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


def _wake_on_signals() -> None:
    """Let every signal, and the end of a child, write to a pipe; in the main thread, as signals reach no other."""
    if Process.wake is None and threading.current_thread() is threading.main_thread():
        Process.wake = os.pipe()
        for fd in Process.wake:
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(Process.wake[1], warn_on_full_buffer=False)


def _open_unnamed_file() -> int:
    if hasattr(os, "memfd_create"):
        return os.memfd_create("stack")
    import tempfile

    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _count_waiting_bytes(fd: int) -> int:
    """Return how many bytes wait in a pipe on Windows; 1 if it is closed, so that the next read notices."""
    import _winapi
    import msvcrt

    try:
        return int(_winapi.PeekNamedPipe(msvcrt.get_osfhandle(fd), 0)[0])  # type: ignore[attr-defined]
    except OSError:
        return 1


# The state that the supervisor passes from one child process to the next.


class Earlier(NamedTuple):
    """How an earlier child process ended, and what it had finished."""

    stopped: bool = False  # whether it ended at the target
    status: int | None = None  # its exit status, negative for a signal; None if its time was up
    stack: str = ""  # the stack at its end, most recent call first, as faulthandler writes it
    points: tuple[tuple[int, bytes], ...] = ()  # the finished points of the target, pickled, by number


_EVERYWHERE = ("gradcli", "numpy", "builtins", "copyreg", "enum")  # packages whose types every child process can load


class _Pickler(pickle.Pickler):
    """Pickles parts of reports; in place of a value whose type another child may be unable to load, `opaque(its type's name)`."""

    def __init__(self, stream: io.BytesIO, opaque: Callable[[str], Any]) -> None:
        super().__init__(stream)
        self._opaque = opaque

    def reducer_override(self, x: Any) -> Any:
        named = isinstance(x, type | types.FunctionType | types.BuiltinFunctionType)
        home = (x if named else type(x)).__module__ or "builtins"
        if home.partition(".")[0] in _EVERYWHERE:
            return NotImplemented
        return self._opaque, (x.__name__ if named else type(x).__name__,)


def pickle_part(x: Any, opaque: Callable[[str], Any]) -> bytes:
    """Return a part of a report as bytes, which the supervisor passes to the next child."""
    stream = io.BytesIO()
    _Pickler(stream, opaque).dump(x)
    return stream.getvalue()


# The supervisor: the program's own process, which watches a child that runs the user's code and may end at any time.
#
# The supervisor imports only the standard library and has no threads, so that it can fork on Linux; other systems start a
# new Python. The child does all work, in the same terminal and process group. It sends its standard output over a pipe, one
# document at a time. If it ends before it reports that it is done, or its time is up, a new child reports that.

_UNUSABLE = 2
_PATIENCE = 5.0  # seconds in which an interrupt ends a child: the user's code, or a library, may have dropped it


class Supervisor:
    """One run of a command in child processes, one after the other; `module` has what they run, `started`.

    `line` is the command as text for them; `data` is the format for programs, if one was asked for, of an error that is
    reported here.
    """

    def __init__(self, line: str, data: str | None, module: str) -> None:
        self._line, self._data, self._module = line, data, module
        self._earlier = Earlier()
        self._at_work = False  # a child has begun its target
        self._deadline: float | None = None
        self._late = False
        self._heard = False  # whether the running child has sent a message about a target
        self._interrupts = self._passed_on = 0
        self._patience: float | None = None  # when a child that was interrupted is ended
        self._ended_by: int | None = None
        self._writing = False

    def run(self) -> int:
        """Start children until one reports that it is done, and return its exit status."""
        for fd in (0, 1, 2):  # the null device for each closed standard stream, so that no pipe gets its number
            try:
                os.fstat(fd)
            except OSError:
                os.open(os.devnull, os.O_RDWR)
        for number in (signal.SIGINT, signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM)):
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._note_signal)
        while True:
            self._late, self._deadline, self._heard = False, None, False
            with relayed_errors(os.environ.get("GITHUB_ACTIONS") == "true") as relay:
                process = Process((self._line, *self._earlier), module=self._module)
            status = self._follow_child(process)
            stack = process.close()
            wait_for_relay(relay)
            if status is not None:
                return status
            if self._interrupts:
                os.write(2, b"interrupted\n")
                return INTERRUPTED
            how = None if self._late else process.status
            self._earlier = self._earlier._replace(stopped=self._at_work, status=how, stack=stack)
            if not self._heard:
                return self._give_up(process.status or 0)  # another child would end the same way

    def _note_signal(self, number: int, frame: object) -> None:
        if number == signal.SIGINT:
            self._interrupts += 1
            if self._writing:  # the reader of standard output may block the write
                raise KeyboardInterrupt
        else:
            self._ended_by = number

    def _follow_child(self, process: Process) -> int | None:
        """Handle the messages of the child until it ends; return its exit status, or None if it reported none."""
        try:
            while True:
                ends = [end for end in (self._deadline, self._patience) if end is not None]
                left = max(0.0, min(ends) - time.monotonic()) if ends else None
                match process.receive(left):
                    case "done", status:
                        process.finish()
                        return int(status)
                    case "write", data:
                        process.send((self._write_document(data),))
                    case "begin", seconds:
                        self._heard = self._at_work = True
                        if seconds is not None:
                            self._deadline = time.monotonic() + seconds
                        process.send((0,))
                    case "point", number, found:
                        self._earlier = self._earlier._replace(points=(*self._earlier.points, (number, found)))
                    case ("end",):
                        self._deadline = None
                    case None if process.status is not None:
                        return None
                self._act_on_signals(process, left)
        except KeyboardInterrupt:
            process.end_family()
            process.finish()
            return None

    def _act_on_signals(self, process: Process, left: float | None) -> None:
        """Act on received signals, and on the time limit."""
        if self._ended_by is not None:
            process.end_family()
            signal.signal(self._ended_by, signal.SIG_DFL)
            os.kill(os.getpid(), self._ended_by)
        if self._interrupts > self._passed_on:
            if self._passed_on:  # the first interrupt had no effect
                process.end_family()
            elif not is_foreground_group():  # it came to this process alone, and who sent it may send no second one
                process.signal(signal.SIGINT)
                self._patience = time.monotonic() + _PATIENCE
            self._passed_on = self._interrupts
        if left == 0.0:
            self._late = self._patience is None
            self._deadline = self._patience = None
            process.end_family()

    def _write_document(self, data: bytes) -> int:
        """Write a document to standard output; return the error number, or 0."""
        self._writing = True
        try:
            write_all(1, data)
        except OSError as error:
            return error.errno or errno.EIO
        finally:
            self._writing = False
        return 0

    def _give_up(self, status: int) -> int:
        """Report that no child lives long enough to report anything, and return the exit status."""
        says = f"the process that does the work ended with {describe_exit(status)} before it could say anything"
        hint = "run gradcli modes: where that fails too, Python or a library is broken, or memory is short"
        if self._data == "brief":
            self._write_document(f"ERROR gradcli: {says} | next: {hint}\n".encode())
        elif self._data is not None:
            import json

            error = {"kind": "ended the process", "message": says, "where": None, "hint": hint}
            self._write_document(json.dumps({"schema": "gradcli.error/1", "error": error}).encode() + b"\n")
        else:
            os.write(2, f"error: {says}\n  {hint}\n".encode())
        return _UNUSABLE
