"""One watched program: begin to watch, end, and what was recorded. There is one at a time in a process."""

import atexit
import contextlib
import dataclasses
import functools
import importlib
import importlib.machinery
import io
import marshal
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any, BinaryIO, NoReturn, TypeVar

from gradcli.classes import dataclass
from gradcli.project.capture import scipy_functions
from gradcli.project.capture.backward_passes import Layers
from gradcli.project.capture.definitions import Definition, ReportedDefinitions, definition_name
from gradcli.project.capture.recorder import GradientPair, Kept, Last, RecordedCalls, Recorder, record_calls
from gradcli.project.capture.state import State
from gradcli.tracing.captured import UNBOUND, content_of_cell
from gradcli.words import DerivativeKind

G = TypeVar("G", bound=Callable[..., Any])
_FRAMEWORKS = {
    "torch": "gradcli.project.capture.torch", "jax": "gradcli.project.capture.jax",
    "tensorflow": "gradcli.project.capture.tensorflow", "mlx.core": "gradcli.project.capture.mlx",
}  # fmt: skip
DEFAULT_BYTES = 256 * 2**20
_CURRENT: list["Session"] = []


@dataclass(frozen=True, slots=True)
class RecordingRequest:
    """What is recorded: how many calls of each gradient, in how many bytes, of which definitions, and the seed."""

    keep: int = 3
    keep_bytes: int = DEFAULT_BYTES
    sources: tuple[str, ...] = ()
    seed: int = 0


# Replace functions of modules when the program imports them, in every module that holds them, and put them back.

# of a module: the holder, the name there, what replaces it
Replacements = Callable[[str], Iterator[tuple[Any, str, Any]]]


class Patches:
    """What is replaced, and how it was before."""

    def __init__(self) -> None:
        self._waiting: Mapping[str, Replacements] = {}
        self._before: list[tuple[Any, str, Any, bool]] = []
        self._inside: list[tuple[Any, Any]] = []  # of modules: what was replaced, and by what

    def begin(self, replacements: Mapping[str, Replacements]) -> None:
        """Replace functions of these modules: now of those that are loaded, else when one has been imported."""
        self._waiting = replacements
        for name in replacements:
            if name in sys.modules:
                self.imported(name)

    def end(self) -> None:
        """Put everything back."""
        for holder, name, before, own in reversed(self._before):
            with contextlib.suppress(AttributeError, TypeError):
                if own:
                    setattr(holder, name, before)
                else:
                    delattr(holder, name)
        self._before.clear()
        imported = {id(replacement): before for before, replacement in self._inside}
        for module in [m for m in [*sys.modules.values()] if isinstance(m, ModuleType)] if imported else ():
            for name in [name for name, x in [*vars(module).items()] if id(x) in imported]:
                setattr(module, name, imported[id(vars(module)[name])])  # imported while it was replaced
        self._inside.clear()

    def imported(self, name: str) -> None:
        """Replace the functions of a module that has just been imported, in every module that holds them.

        The modules of its own package are left out: their functions call each other.
        """
        inside: dict[int, tuple[Any, Any]] = {}
        for holder, attribute, replacement in [*self._waiting[name](name)] if name in self._waiting else ():
            own = attribute in vars(holder)
            before = vars(holder)[attribute] if own else getattr(holder, attribute)
            self._set_attribute(holder, attribute, replacement, before, own)
            if isinstance(holder, ModuleType):
                inside[id(before)] = before, replacement
        self._inside += inside.values()
        package = name.partition(".")[0]
        for module in [*sys.modules.values()] if inside else ():
            if not isinstance(module, ModuleType) or module.__name__.partition(".")[0] == package:
                continue
            for other in [name for name, x in [*vars(module).items()] if id(x) in inside]:
                before, replacement = inside[id(vars(module)[other])]
                self._set_attribute(module, other, replacement, before, True)

    def replace(self, holder: Any, name: str, before: Any, replacement: Any) -> None:
        """Replace one attribute of a module or a class."""
        self._set_attribute(holder, name, replacement, before, True)
        if isinstance(holder, ModuleType):
            self._inside.append((before, replacement))

    def _set_attribute(self, holder: Any, name: str, replacement: Any, before: Any, own: bool) -> None:
        setattr(holder, name, replacement)
        self._before.append((holder, name, before, own))


# Child processes of the program: each writes what it keeps to a file of its own, and the parent puts them together.

_DONE = "done"


@dataclass(slots=True)
class ChildCalls:
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
        cells = tuple(None if (held := content_of_cell(cell)) is UNBOUND else (held,) for cell in x.__closure__ or ())
        made = marshal.dumps(x.__code__), x.__module__, x.__qualname__, x.__defaults__, x.__kwdefaults__, cells
        return rebuild_function, made


def append_object(file: BinaryIO, what: Any) -> bool:
    """Write one object to the end of a file at once; return whether it can be pickled."""
    buffer = io.BytesIO()
    try:
        _Pickler(buffer, protocol=pickle.HIGHEST_PROTOCOL).dump(what)
    except Exception:  # whatever the user's objects raise
        return False
    file.write(buffer.getvalue())
    file.flush()
    return True


def read_objects(path: Path) -> list[Any]:
    """Return the objects of a file, up to the first that is cut off or cannot be made here."""
    found = []
    with path.open("rb") as file, contextlib.suppress(Exception):  # at its end, and whatever the user's objects raise
        while True:
            found.append(pickle.load(file))
    return found


def rebuild_function(
    code: bytes, module: str, name: str, defaults: Any, named: Any, cells: tuple[Any, ...]
) -> FunctionType:
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
        self.folder: Path | None = None
        self._file: BinaryIO | None = None

    @property
    def is_child(self) -> bool:
        """Whether this process is a child of the one that was started."""
        return os.getpid() != self._parent

    def begin(self, folder: Path | None) -> None:
        """Have child processes write files of their own; `folder` is that of the parent, in a child that was not forked."""
        self.folder = folder or Path(tempfile.mkdtemp(prefix="gradcli-run-"))
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forked)
        if folder is not None:
            self._parent = 0
            self.forked()
            atexit.register(self.ended)

    def forked(self) -> None:
        """Begin again in a child: forget what the parent recorded, and write what is kept from now on."""
        if self.folder is None or not self._recorder.is_on:
            return
        for recorded in self._recorder.found.values():
            recorded.restart()
        self._file = (self.folder / f"{os.getpid()}.calls").open("ab")
        self._recorder.on_kept = self._write_calls

    def ended(self) -> None:
        """Write the counts of a child that ends."""
        if self._file is not None and not self._file.closed:
            for recorded in self._recorder.all():
                self._write_calls(recorded, None)
            append_object(self._file, _DONE)
            self._file.close()

    def _write_calls(self, recorded: RecordedCalls, call: Kept | None) -> None:
        if self._file is None or self._file.closed:
            return
        carried_call = None if call is None else dataclasses.replace(call, state=State())  # closures hold it themselves
        written = ChildCalls(recorded.definition, recorded.kind, recorded.of, recorded.calls, carried_call)
        if not append_object(self._file, written):
            written.call, written.is_whole = None, False
            append_object(self._file, written)

    def merge(self) -> None:
        """Add what the children wrote to the record of the parent, and remove the files."""
        if self.folder is None or self.is_child:
            return
        for path in sorted(self.folder.glob("*.calls")):
            self._merge_child(read_objects(path), int(path.stem))
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder = None

    def _merge_child(self, found: list[Any], process: int) -> None:
        calls: dict[Any, int] = {}
        for written in found:
            if not isinstance(written, ChildCalls):
                continue
            recorded = self._recorder.of_definition(written.definition, written.kind, written.of)
            key = written.definition, written.kind
            recorded.elsewhere += written.calls - calls.get(key, 0)
            calls[key] = written.calls
            if not written.is_whole:
                says = "what it holds in a child process cannot be carried to the parent: calls are counted alone"
                recorded.unclear.add(says)
            if written.call is not None and len(recorded.places) < self._recorder.most_kept:
                written.call.process = process
                recorded.keep(process, (len(recorded.places),), written.call)
        if found and found[-1] != _DONE:
            for definition, kind in calls:
                record = self._recorder.of_definition(definition, kind, None)
                record.unclear.add("a process was ended before it wrote its last counts: there may be more calls")


class Session:
    """The watching of one program."""

    def __init__(self, wanted: RecordingRequest) -> None:
        self.recorder = Recorder(wanted.keep, wanted.keep_bytes, wanted.seed, ReportedDefinitions(wanted.sources))
        self._wanted = wanted
        self._patches = Patches()
        self.layers = Layers(self.recorder, self._patches.replace)
        self.children = Children(self.recorder)
        self._exit = os._exit

    def begin(self, at_exit: Callable[[int], int] | None = None, folder: Path | None = None) -> None:
        """Begin to watch. `at_exit` is called with the status before `os._exit` ends the process, and returns the status.

        In a child that was not forked, `folder` is where it writes.
        """
        self.children.begin(folder)
        of_framework = lambda package: importlib.import_module(_FRAMEWORKS[package]).replacements(self.recorder)
        self._patches.begin({
            **dict.fromkeys(scipy_functions.MODULES, partial(scipy_functions.replacements, self.recorder)),
            **dict.fromkeys(_FRAMEWORKS, of_framework),
            "multiprocessing.spawn": self._patch_spawning,
            "importlib.machinery": self._patch_imports,
        })  # fmt: skip

        def leave(status: int) -> NoReturn:
            if self.children.is_child:
                self.children.ended()
            elif at_exit is not None:
                status = at_exit(status)
            self._exit(status)

        os._exit = leave
        _CURRENT.append(self)

    def end(self) -> Recorder:
        """Stop watching, put everything back, and return what was recorded."""
        self.recorder.is_on = False
        self._patches.end()
        os._exit = self._exit
        if self in _CURRENT:
            _CURRENT.remove(self)
        self.children.merge()
        return self.recorder

    def watch(self, function: Callable[..., Any], gradient: G, kind: DerivativeKind) -> G:
        """Return a gradient that records its calls."""
        recorded = self.recorder.recorded(gradient, kind, definition_name(function))
        if recorded is None:
            return gradient
        frame = sys._getframe(2)
        at = frame.f_code.co_filename, frame.f_lineno
        of_hvp = kind == "hvp"
        pair = GradientPair(kind, function, gradient, "along" if of_hvp else "plain", own=2 if of_hvp else 1)
        return record_calls(recorded, pair, Last(), at, gradient)  # type: ignore[return-value]

    def _patch_imports(self, name: str) -> Iterator[tuple[Any, str, Any]]:
        """Yield what lets modules be looked at, and have their functions replaced, when they have been imported."""
        machinery = sys.modules[name]

        def after(plain: Callable[[Any, ModuleType], None]) -> Callable[[Any, ModuleType], None]:
            def exec_module(loader: Any, module: ModuleType) -> None:
                plain(loader, module)
                if isinstance(loader, machinery.SourceFileLoader):
                    self.layers.look_at_module(module)
                self._patches.imported(module.__name__)

            return exec_module

        for kind in (machinery.SourceFileLoader, machinery.SourcelessFileLoader, machinery.ExtensionFileLoader):
            yield kind, "exec_module", after(kind.exec_module)

    def _patch_spawning(self, name: str) -> Iterator[tuple[Any, str, Any]]:
        """Yield what makes a process that is started anew watch its gradients too."""
        spawn = sys.modules[name]
        plain = spawn.get_preparation_data

        def get_preparation_data(name: str) -> dict[str, Any]:
            folder = self.children.folder
            return {**plain(name), **({} if folder is None else {"gradcli": Stowaway(self._wanted, str(folder))})}

        yield spawn, "get_preparation_data", get_preparation_data


class Stowaway:
    """Travels with the data of a process that is started anew, and begins to watch there when it is unpacked."""

    def __init__(self, wanted: RecordingRequest, folder: str) -> None:
        self._state = wanted, folder

    def __getstate__(self) -> tuple[RecordingRequest, str]:
        return self._state

    def __setstate__(self, state: tuple[RecordingRequest, str]) -> None:
        self._state = state
        Session(state[0]).begin(folder=Path(state[1]))


def watch(function: Callable[..., Any], gradient: G, kind: DerivativeKind = "grad") -> G:
    """Return a gradient that `gradcli run` checks with the function, at arguments that it was called with.

    For pairs that a program calls by itself; outside `gradcli run` it returns the gradient untouched. `kind` says what
    `gradient` returns: `grad`, `jac`, `hess`, or `hvp` for a function of the arguments and a vector.

    >>> def loss(x): return (x * x).sum()
    >>> def loss_grad(x): return 2 * x
    >>> watch(loss, loss_grad) is loss_grad
    True
    """
    return _CURRENT[-1].watch(function, gradient, kind) if _CURRENT else gradient
