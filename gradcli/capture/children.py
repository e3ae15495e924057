"""Child processes of the program: each writes what it keeps to a file of its own, and the parent puts them together."""

import dataclasses
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from gradcli.capture import carried
from gradcli.capture.definitions import Definition
from gradcli.capture.recorder import Kept, Recorded, Recorder
from gradcli.capture.state import State
from gradcli.words import DerivativeKind

_DONE = "done"


@dataclass(slots=True)
class Written:
    """What a child writes: how often a gradient was called so far, and a call that it keeps."""

    definition: Definition
    kind: DerivativeKind
    of: str | None
    calls: int
    call: Kept | None = None
    is_whole: bool = True  # whether a call that was kept could be written


class Children:
    """The files of the child processes, in a folder that is removed at the end."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._parent = os.getpid()
        self._folder: Path | None = None
        self._file: BinaryIO | None = None

    @property
    def is_child(self) -> bool:
        """Whether this process is a child of the one that was started."""
        return os.getpid() != self._parent

    def begin(self) -> Path:
        """Have processes that are forked from now on write their own files; return the folder of the files."""
        self._folder = Path(tempfile.mkdtemp(prefix="gradcli-run-"))
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forked)
        return self._folder

    def begin_in(self, folder: Path) -> None:
        """Write to a folder that the parent made; for a child that was not forked."""
        self._folder = folder
        self._parent = 0
        self.forked()

    def forked(self) -> None:
        """Begin again in a child: forget what the parent recorded, and write what is kept from now on."""
        if self._folder is None or not self._recorder.is_on:
            return
        for recorded in self._recorder.found.values():
            recorded.restart()
        self._file = (self._folder / f"{os.getpid()}.calls").open("ab")
        self._recorder.on_kept[:] = [self._write]

    def ended(self) -> None:
        """Write the counts of a child that ends."""
        if self._file is not None and not self._file.closed:
            for recorded in self._recorder.all():
                self._write(recorded, None)
            carried.append(self._file, _DONE)
            self._file.close()

    def _write(self, recorded: Recorded, call: Kept | None) -> None:
        if self._file is None or self._file.closed:
            return
        carried_call = None if call is None else dataclasses.replace(call, state=State())  # closures hold it themselves
        written = Written(recorded.definition, recorded.kind, recorded.of, recorded.calls, carried_call)
        if not carried.append(self._file, written):
            written.call, written.is_whole = None, False
            carried.append(self._file, written)

    def merge(self) -> None:
        """Add what the children wrote to the record of the parent, and remove the files."""
        if self._folder is None or self.is_child:
            return
        for path in sorted(self._folder.glob("*.calls")):
            self._merge(carried.read(path), int(path.stem))
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder = None

    def _merge(self, found: list[Any], process: int) -> None:
        calls: dict[Any, int] = {}
        for written in found:
            if not isinstance(written, Written):
                continue
            recorded = self._recorder.of_definition(written.definition, written.kind, written.of)
            key = written.definition, written.kind
            recorded.elsewhere += written.calls - calls.get(key, 0)
            calls[key] = written.calls
            if not written.is_whole:
                recorded.unclear.add(
                    "what it holds in a child process cannot be carried to the parent: calls are counted alone"
                )
            if written.call is not None and len(recorded.places) < recorded.keep:
                written.call.process = process
                self._recorder.keep(recorded, process, (len(recorded.places),), written.call)
        if found and found[-1] != _DONE:
            for definition, kind in calls:
                record = self._recorder.of_definition(definition, kind, None)
                record.unclear.add("a process was ended before it wrote its last counts: there may be more calls")
