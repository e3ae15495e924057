"""The supervisor: the program's own process, which watches a child that runs the user's code and may end at any time.

The supervisor imports only the standard library and has no threads, so that it can fork on Linux; other systems start a
new Python. The child does all work, in the same terminal and process group. It sends its standard output over a pipe, one
document at a time. If it ends before it reports that it is done, or its time is up, a new child reports that.
"""

import errno
import os
import signal
import time

from gradcli.process.apart import INTERRUPTED
from gradcli.process.earlier import Earlier
from gradcli.process.process import Process, describe_exit, is_foreground_group, write_all
from gradcli.process.relay import relayed_errors, wait_for_relay

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
