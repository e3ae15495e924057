"""The state of a process while the checks call the user's functions again: what they change is put back afterwards."""

import contextlib
import io
import os
import random
import signal
import sys
import threading
from collections.abc import Iterator
from typing import Any, NoReturn


class TimeIsUp(BaseException):
    """The time for the checks is over."""


class Exits(Exception):
    """A function that is called again ends the process."""


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Check in the block: standard input is empty, `os._exit` raises, and random generators are as before afterwards."""
    np, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    python = random.getstate()
    legacy = None if np is None else np.random.get_state()
    torchs = None if torch is None else torch.get_rng_state()
    leave, stdin = os._exit, sys.stdin

    def refuse(status: int) -> NoReturn:
        raise Exits(f"os._exit({status})")

    os._exit, sys.stdin = refuse, io.StringIO()
    try:
        yield
    finally:
        os._exit, sys.stdin = leave, stdin
        random.setstate(python)
        if np is not None:
            np.random.set_state(legacy)
        if torch is not None:
            torch.set_rng_state(torchs)


@contextlib.contextmanager
def within(seconds: float | None) -> Iterator[None]:
    """Raise TimeIsUp in the block after so many seconds, where the system has timers and this is the main thread."""
    here = threading.current_thread() is threading.main_thread()
    if seconds is None or not here or not hasattr(signal, "setitimer"):
        yield
        return

    def over(number: int, frame: Any) -> NoReturn:
        raise TimeIsUp

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 1e-6))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
