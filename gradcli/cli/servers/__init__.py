"""Servers for agents and editors, and checks on every save; each loads what its extra installs when it begins."""

import importlib
import os
import signal
from collections.abc import Callable
from types import ModuleType

from gradcli.errors import BadOption, install_command


def import_with_extra(module: str, extra: str) -> ModuleType:
    """Import a module that needs what an extra installs. Raises BadOption if that is not installed."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] == "gradcli":
            raise
        says = f"the Python package {error.name} is not installed, which this needs"
        raise BadOption(says, do=install_command(extra)) from None


def end_on_signals(end: Callable[[], None]) -> None:
    """End this process at once on Ctrl-C and SIGTERM, after `end` was called: a thread that reads its input would hold it."""

    def handle(number: int, frame: object) -> None:
        end()
        os._exit(128 + number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handle)
