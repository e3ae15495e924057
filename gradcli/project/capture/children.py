"""Child processes of the program: each writes what it keeps to a file of its own, and the parent puts them together."""

import dataclasses
import functools
import io
import marshal
import os
import pickle
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from types import CellType, CodeType, FunctionType
from typing import Any, BinaryIO

from gradcli.project.capture.definitions import Definition
from gradcli.project.capture.recorder import Kept, Recorded, Recorder
from gradcli.project.capture.state import State
from gradcli.tracing.captured import UNBOUND, content
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


# Carry kept calls from child processes to the parent: functions made inside others as code, all else by pickle.
#
# The files lie in a folder that only this user can read, and both ends run the user's program: nothing in them is less
# trusted than the program itself.


class _Pickler(pickle.Pickler):
    """Pickles functions that no module has under their name, such as lambdas and closures."""

    def reducer_override(self, x: Any) -> Any:
        if not isinstance(x, FunctionType) or _is_importable(x):
            return NotImplemented
        cells = tuple(None if (held := content(cell)) is UNBOUND else (held,) for cell in x.__closure__ or ())
        made = marshal.dumps(x.__code__), x.__module__, x.__qualname__, x.__defaults__, x.__kwdefaults__, cells
        return rebuilt, made


def append(file: BinaryIO, what: Any) -> bool:
    """Write one object to the end of a file at once; return whether it can be pickled."""
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(what)
    except Exception:  # whatever the user's objects raise
        return False
    file.write(buffer.getvalue())
    file.flush()
    return True


def read(path: Path) -> list[Any]:
    """Return the objects of a file, up to the first that is cut off or cannot be made here."""
    found = []
    with path.open("rb") as file:
        while True:
            try:
                found.append(pickle.load(file))
            except EOFError:
                return found
            except Exception:  # whatever the user's objects raise
                return found


def rebuilt(code: bytes, module: str, name: str, defaults: Any, named: Any, cells: tuple[Any, ...]) -> FunctionType:
    """Return a function made of its code, in the module that has it in this process."""
    made: CodeType = marshal.loads(code)
    scope = sys.modules[module].__dict__
    closure = tuple(CellType() if each is None else CellType(each[0]) for each in cells)
    function = FunctionType(made, scope, made.co_name, defaults, closure or None)
    function.__kwdefaults__, function.__qualname__, function.__module__ = named, name, module
    return function


def _is_importable(function: FunctionType) -> bool:
    module: Any = sys.modules.get(function.__module__ or "")
    try:
        return functools.reduce(getattr, function.__qualname__.split("."), module) is function
    except AttributeError:
        return False


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
            append(self._file, _DONE)
            self._file.close()

    def _write(self, recorded: Recorded, call: Kept | None) -> None:
        if self._file is None or self._file.closed:
            return
        carried_call = None if call is None else dataclasses.replace(call, state=State())  # closures hold it themselves
        written = Written(recorded.definition, recorded.kind, recorded.of, recorded.calls, carried_call)
        if not append(self._file, written):
            written.call, written.is_whole = None, False
            append(self._file, written)

    def merge(self) -> None:
        """Add what the children wrote to the record of the parent, and remove the files."""
        if self._folder is None or self.is_child:
            return
        for path in sorted(self._folder.glob("*.calls")):
            self._merge(read(path), int(path.stem))
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
