"""What the supervisor hands from one child to the next."""

import signal
from typing import NamedTuple


class Earlier(NamedTuple):
    """What the children before this one did, and how the last of them ended."""

    word: int = -1  # the target it was at: its number among the targets
    line: int = 0  # its line of standard input, from 1; 0 for an argument
    text: str = ""  # that line
    stopped: bool = False  # whether it ended at that target
    status: int | None = None  # how: an exit status, negative for a signal; None where its time was up
    stack: str = ""  # where, most recent call first, as faulthandler writes it
    points: tuple[tuple[int, bytes], ...] = ()  # what it had finished of that target, by number
    statuses: tuple[int, ...] = ()  # of the targets before
    written: bool = False  # whether one of them has a report, which is in the files then
    rows: tuple[bytes, ...] = ()  # what the last page says of them, where they are shown together


def name_of(status: int) -> str:
    """Return how a process ended, in words: an exit status, or a signal by its name."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
