"""A command of gradcli as a process of its own, whose documents are read as they come, and which can be ended at any time."""

import asyncio
import contextlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from gradcli.errors import TooLarge

_LARGEST = 1 << 26  # bytes of a document
_PATIENCE = 5.0  # seconds in which a command ends that is told to
_RUNNING: set[asyncio.subprocess.Process] = set()


@asynccontextmanager
async def run_for_documents(argv: Sequence[str]) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """Run a command that writes a JSON document a line; at the end of the block it has ended, with all that it started."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "gradcli", *argv,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, limit=_LARGEST, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    _RUNNING.add(process)
    try:
        yield _read_documents(process.stdout)
    except BaseException:  # the call is cancelled, or its time is over
        terminate_command(process)
        raise
    finally:
        await asyncio.shield(_wait_for_end(process))
        _RUNNING.discard(process)


def end_all_commands() -> None:
    """Tell every command that runs to end, without waiting for it."""
    for process in _RUNNING:
        terminate_command(process)


def terminate_command(process: asyncio.subprocess.Process) -> None:
    """Send the signal on which the command's supervisor ends all that it started."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()


async def _read_documents(lines: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    while True:
        try:
            line = await lines.readline()
        except ValueError:  # it is longer than the limit
            raise TooLarge(f"the result is larger than {_LARGEST >> 20} MB", do="ask for fewer entries") from None
        if not line:
            return
        yield json.loads(line)


async def _wait_for_end(process: asyncio.subprocess.Process) -> None:
    """Wait until a process has ended, for some seconds; what is left of its group is killed, and what it wrote is discarded."""
    assert process.stdout is not None
    rest = asyncio.ensure_future(_discard_rest(process.stdout))  # a pipe that nobody reads stays open
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _PATIENCE)
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
    with contextlib.suppress(TimeoutError):  # a process outside of the group may have kept its end open
        await asyncio.wait_for(rest, _PATIENCE)


async def _discard_rest(lines: asyncio.StreamReader) -> None:
    while await lines.read(1 << 16):
        pass
