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

_LARGEST = 1 << 26  # bytes of a document
_PATIENCE = 5.0  # seconds in which a command ends that is told to
_RUNNING: set[asyncio.subprocess.Process] = set()


@asynccontextmanager
async def documents(argv: Sequence[str]) -> AsyncIterator[AsyncIterator[dict[str, Any]]]:
    """Run a command that writes JSON documents; at the end of the block it has ended, with all that it started."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "gradcli", *argv,
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, limit=_LARGEST, start_new_session=True,
    )  # fmt: skip
    assert process.stdout is not None
    _RUNNING.add(process)
    try:
        yield _parsed(process.stdout)
    finally:
        await asyncio.shield(_ended(process))
        _RUNNING.discard(process)


def end_all() -> None:
    """Tell every command that runs to end, without waiting for it."""
    for process in _RUNNING:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()


async def _parsed(lines: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
    text = b""  # of a document, which takes several lines where it is an error
    async for line in lines:
        text += line
        with contextlib.suppress(ValueError):
            yield json.loads(text)
            text = b""


async def _ended(process: asyncio.subprocess.Process) -> None:
    """End a process that still runs: its supervisor ends all that it started; what is left of its group is killed."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _PATIENCE)
    if os.name == "posix":
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    await process.wait()
