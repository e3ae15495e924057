"""Child processes that answer requests, one of which loads sympy in the background.

This module imports nothing heavy, as it is needed first.
"""

import atexit
import contextlib
import importlib
import os
import select
import signal
import subprocess
import sys
import threading
import time
import warnings
from typing import Any, NoReturn

from gradcli.process.process import LENGTH, die_with, hold_interrupts
from gradcli.process.start import may_use_bytecode

# Without the garbage collector sympy loads a tenth faster; `main` turns it on.
# The site module is not needed, because the child gets this process's sys.path. Ctrl-C is for this process only.
# What a module prints while it is loaded is no answer.
_PROGRAM = (
    "import sys; sys.path[:] = {path!r}; import gc, os, signal; gc.disable(); signal.signal(signal.SIGINT, signal.SIG_IGN); "
    "answers = os.dup(1); os.dup2(2, 1); from {module} import main; sys.stdout.flush(); os.dup2(answers, 1); main()"
)
SYMBOLIC = "gradcli.modes.symbolic_worker"
_AT_ONCE = 4096 - LENGTH  # bytes that fit into the buffer of any pipe, so that writing them never waits
_GRACE = 0.1  # seconds in which an answer that is there already can be read
_HIGHEST = 1024  # of the files that a copy closes, which are its parent's
_MOST = 2000  # answers, after which a process is replaced: sympy's caches grow by some kilobytes with each


class WorkerTimeout(Exception):
    """A worker did not answer in time; it has been ended."""


class Worker:
    """One child process, which answers one request after the other; `main` of its module reads and answers them.

    It is a new Python, or a copy of this process, which has loaded already what this one has.
    """

    def __init__(self, module: str = SYMBOLIC, *, copied: bool = False) -> None:
        self.answers, self._owner, self._sent = 0, os.getpid(), 0.0
        self._sending: threading.Thread | None = None
        self.process = _Copy(module) if copied else _start_worker(module)

    def ask(self, request: bytes, timeout: float | None) -> bytes:
        """Return the answer to a request, or no bytes if the process died. Raises WorkerTimeout after `timeout` seconds."""
        self.send(request)
        return self.receive(timeout)

    def send(self, request: bytes) -> None:
        """Send a request without waiting for the process to read it; if it has died, `receive` says so."""
        self._sent = time.monotonic()
        if len(request) <= _AT_ONCE:
            self._write_request(request)
        else:
            self._sending = threading.Thread(target=self._write_request, args=(request,), daemon=True)
            self._sending.start()

    def receive(self, timeout: float | None) -> bytes:
        """Return the answer to what was sent, or no bytes if the process died.

        Raises  WorkerTimeout if there is no answer `timeout` seconds after the request was sent.
        """
        found: list[bytes] = []
        if timeout is None:
            found.append(self._read_answer())
        else:
            reading = threading.Thread(target=lambda: found.append(self._read_answer()), daemon=True)
            reading.start()
            reading.join(max(timeout - (time.monotonic() - self._sent), _GRACE))
            if reading.is_alive():
                self.stop()
                raise WorkerTimeout
        self.answers += 1
        return found[0] if found else b""

    def _write_request(self, request: bytes) -> None:
        to = self.process.stdin
        with contextlib.suppress(OSError, ValueError):  # the process, or its pipe, is gone
            if to is not None:
                to.write(len(request).to_bytes(LENGTH, "big") + request)
                to.flush()

    def _read_answer(self) -> bytes:
        back = self.process.stdout
        if back is None or os.getpid() != self._owner:
            return b""  # a copy that the user's code has forked must not read the answer for its parent
        if self._sending is not None:
            self._sending.join()
        try:
            return back.read(int.from_bytes(back.read(LENGTH), "big"))
        except (OSError, ValueError):
            return b""

    @property
    def status(self) -> int:
        """The exit status of a process that died."""
        return self.process.wait()

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what is left in the buffer cannot be written any more
                    pipe.close()


def _start_worker(module: str) -> Any:
    path = sorted(map(str, sys.path), key=_is_users_folder)  # else a user's file random.py would hide Python's
    return subprocess.Popen(
        [sys.executable, "-S", "-c", _PROGRAM.format(path=path, module=module)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


def _is_users_folder(folder: str) -> bool:
    """Whether a folder of modules is neither Python's, nor one of installed packages, nor the one that holds gradcli."""
    whole = os.path.join(folder, "")  # noqa: PTH118 (pathlib is loaded later)
    return not (may_use_bytecode(whole) or __file__.startswith(f"{whole}gradcli{os.sep}"))


class _Copy:
    """What `subprocess.Popen` gives of a process, for a copy of this one; Linux only."""

    def __init__(self, module: str) -> None:
        (given, stdin), (stdout, written) = os.pipe(), os.pipe()
        self._parent, self._status = os.getpid(), 0
        with warnings.catch_warnings(), hold_interrupts():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads, none of which the copy needs
            self.pid = os.fork()
            if self.pid == 0:
                _run_copy(module, given, written, self._parent)
            os.close(given)
            os.close(written)
            self.stdin, self.stdout = os.fdopen(stdin, "wb"), os.fdopen(stdout, "rb")

    def poll(self) -> int | None:
        """Return the exit status, None while the process runs."""
        return self._wait_for_status(os.WNOHANG)

    def kill(self) -> None:
        if self.poll() is None and os.getpid() == self._parent:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        return self._wait_for_status(0) or 0

    def _wait_for_status(self, option: int) -> int | None:
        if self.pid and os.getpid() == self._parent:
            try:
                found, status = os.waitpid(self.pid, option)
            except ChildProcessError:  # the user's code has waited for all children
                found, status = self.pid, 0
            if not found:
                return None
            self.pid, self._status = 0, os.waitstatus_to_exitcode(status)
        return self._status


def _run_copy(module: str, given: int, written: int, parent: int) -> NoReturn:
    """Be the copy: load the module when a request comes, and not before."""
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        die_with(parent)
        for number, fd in enumerate((given, written, os.open(os.devnull, os.O_WRONLY))):
            os.dup2(fd, number)
        os.closerange(3, _HIGHEST)
        _ = sys.stdin, sys.stdout  # whose end would close the descriptors
        sys.stdin, sys.stdout = open(0), open(1, "w")  # noqa: SIM115
        select.select([0], [], [])
        importlib.import_module(module).main()
    finally:
        os._exit(99)


class Workers:
    """Keeps at most one idle worker of a module, which loads it in the background or waits for its next request."""

    every: "list[Workers]" = []  # noqa: RUF012 (of all modules)

    def __init__(self, module: str) -> None:
        self.module = module
        self.every.append(self)
        self.waiting: Worker | None = None
        self.lock = threading.Lock()
        self._parents: list[Worker | None] = []
        atexit.register(self.stop)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._leave_to_parent)

    def _leave_to_parent(self) -> None:
        """Leave the worker to the parent after a fork: two processes with one worker would read each other's answers."""
        self._parents.append(self.waiting)  # a reference, so that the worker does not end with the object
        self.waiting, self.lock = None, threading.Lock()

    def start(self, *, copied: bool = False) -> None:
        """Begin to load the module now; this is harmless if no request follows, and so is a copy that cannot be made."""
        with self.lock, contextlib.suppress(OSError) if copied else contextlib.nullcontext():
            if self.waiting is None:
                self.waiting = Worker(self.module, copied=copied)

    def take(self) -> Worker:
        """Return the waiting worker, or a new one."""
        with self.lock:
            worker, self.waiting = self.waiting, None
        return worker or Worker(self.module)

    def give(self, worker: Worker) -> None:
        """Let a worker that has answered wait for the next request; end it if another one waits, or it has answered often."""
        with self.lock:
            if self.waiting is None and worker.answers < _MOST:
                self.waiting = worker
                return
        worker.stop()

    def stop(self) -> None:
        """End the worker that waits."""
        with self.lock:
            worker, self.waiting = self.waiting, None
        if worker is not None:
            worker.stop()


WORKERS = Workers(SYMBOLIC)


def stop_workers() -> None:
    """End the workers that wait."""
    for workers in Workers.every:
        workers.stop()
