"""How a server ends that is interrupted."""

import os
import signal
from collections.abc import Callable


def end_on_signals(end: Callable[[], None]) -> None:
    """End this process at once on Ctrl-C and SIGTERM, after `end` was called: a thread that reads its input would hold it."""

    def handle(number: int, frame: object) -> None:
        end()
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
