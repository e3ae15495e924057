"""Ranks: copies of this process that answer questions in step, as the processes of a distributed program do.

This module imports only the standard library.
"""

import atexit
import contextlib
import faulthandler
import os
import re
import signal
import time
import warnings
from collections.abc import Callable, Sequence
from itertools import takewhile
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

from gradcli.classes import dataclass
from gradcli.process.process import FORKS, describe_exit, die_with, hold_interrupts

_GRACE = 0.5  # seconds that the other ranks have once one has failed: what they wait for may never come
_LONGEST = 1 << 16  # bytes of a stack
_DUMPED = 10.0  # seconds in which a rank writes its stack
_FRAME = re.compile(r'^  File "(?P<file>.+)", line (?P<line>\d+) in (?P<function>.+)$', re.MULTILINE)

Answer = Callable[[Any], Any]  # what a rank answers to a question; an answer of a failure has `failed` set
Frame = tuple[str, int, str]  # file, line and function


@dataclass(frozen=True, slots=True)
class Silent:
    """A rank that gave no answer: how it ended, "" if it has not, and its stack from the inside out."""

    ended: str
    stack: tuple[Frame, ...] = ()
    failed: bool = True


class Ranks:
    """So many copies of this process; rank k answers by `serve(k, file)`, with the path of an empty file that all of them share.

    A rank that waits `limit` seconds longer than another one is stopped, with all of them. At most one group of ranks is
    alive: a new one ends the last. Linux only.
    """

    available = FORKS
    _alive: "list[Ranks]" = []  # noqa: RUF012 (of all instances)

    def __init__(self, count: int, serve: Callable[[int, str], Answer], limit: float) -> None:
        end_ranks()
        self.limit, self._parent = limit, os.getpid()
        self._shared = os.memfd_create("ranks")  # in memory, so that it ends with the processes however they end
        self._stacks = [os.memfd_create("stack") for _ in range(count)]
        self._connections: list[Connection] = []
        self._processes = []
        fork = get_context("fork")
        for rank in range(count):
            own, theirs = fork.Pipe()
            args = (serve, rank, f"/proc/self/fd/{self._shared}", theirs, self._stacks[rank], self._parent)
            process = fork.Process(target=_answer_questions, args=args, daemon=True)
            with warnings.catch_warnings(), hold_interrupts():
                warnings.simplefilter("ignore")  # of threads, which a copy does not have: it begins its own
                process.start()
            theirs.close()
            self._connections.append(own)
            self._processes.append(process)
        Ranks._alive.append(self)

    def ask(self, questions: Sequence[Any]) -> list[Any]:
        """Return the answers of all ranks; where one of them failed or gave none, all are ended."""
        for connection, question in zip(self._connections, questions, strict=True):
            with contextlib.suppress(OSError):  # it has ended, which `_answers` sees
                connection.send(question)
        answers = self._answers()
        if any(getattr(answer, "failed", False) for answer in answers):
            self.close()
        return answers

    def _answers(self) -> list[Any]:
        found: dict[int, Any] = {}
        end: float | None = None
        while len(found) < len(self._connections):
            waiting = {c: k for k, c in enumerate(self._connections) if k not in found}
            ready = wait(list(waiting), None if end is None else max(0.0, end - time.monotonic()))
            if not ready:
                break
            for connection in ready:
                rank = waiting[connection]  # type: ignore[index]
                found[rank] = self._receive_answer(rank)
                left = _GRACE if getattr(found[rank], "failed", False) else self.limit
                end = min(end or float("inf"), time.monotonic() + left)
        return [found[k] if k in found else Silent("", self._read_stack(k)) for k in range(len(self._connections))]

    def _receive_answer(self, rank: int) -> Any:
        try:
            return self._connections[rank].recv()
        except (EOFError, OSError):
            self._processes[rank].join()
            return Silent(describe_exit(self._processes[rank].exitcode or 0))

    def _read_stack(self, rank: int) -> tuple[Frame, ...]:
        """Return where a rank is, which writes its stack on a signal, even while it waits."""
        file, end = self._stacks[rank], time.monotonic() + _DUMPED
        os.kill(self._processes[rank].pid or 0, signal.SIGUSR1)
        text = ""
        while time.monotonic() < end and not (text.endswith("\n") and _FRAME.search(text)):
            time.sleep(0.02)
            text = os.pread(file, _LONGEST, 0).decode(errors="replace")
        frames = [(m["file"], int(m["line"]), m["function"]) for m in _FRAME.finditer(text)]
        return tuple(takewhile(lambda frame: frame[0] != __file__, frames))  # the copy goes on where it was made

    def close(self) -> None:
        """End all ranks, which only the process that started them does."""
        if os.getpid() != self._parent:
            return
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.join()
        for connection in self._connections:
            connection.close()
        for file in [] if self.closed else [self._shared, *self._stacks]:
            os.close(file)
        self._connections.clear()
        Ranks._alive[:] = [ranks for ranks in Ranks._alive if ranks is not self]

    @property
    def closed(self) -> bool:
        """Whether the ranks have ended."""
        return not self._connections


def end_ranks() -> None:
    """End the ranks that are alive."""
    for ranks in list(Ranks._alive):
        ranks.close()


atexit.register(end_ranks)


def _answer_questions(
    serve: Callable[[int, str], Answer], rank: int, file: str, to: Connection, stack: int, parent: int
) -> None:
    """Answer questions in a copy of the process, until the process that asks ends."""
    die_with(parent)
    Ranks._alive.clear()  # they are the parent's
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    faulthandler.register(signal.SIGUSR1, file=stack, all_threads=False)
    answer = serve(rank, file)
    with contextlib.suppress(EOFError, OSError):
        while True:
            to.send(answer(to.recv()))
