"""Record which files and packages a check reads, and what else its result depends on, so that a cached pass can be trusted.

Files are seen by Python's audit hook, so also those that numpy opens. What is read while a module of the project is imported
belongs to every check that uses the module, although only the first one imports it. Files that C code opens by itself, as
HDF5 does, are not seen.
"""

import builtins
import importlib
import os
import re
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from gradcli.source import loading

Read = tuple[str, str]  # what was read: ("file", its path), or ("reason", why the result depends on more than files)
_GRADCLI = str(Path(__file__).resolve().parents[1]) + os.sep
_PYTHON = tuple({str(Path(sysconfig.get_path(name)).resolve()) + os.sep for name in ("stdlib", "platstdlib")})
_SYSTEM = ("/proc/", "/sys/", "/dev/")
_NETWORK = ("socket.connect", "socket.getaddrinfo", "socket.bind", "urllib.Request")
_PROCESSES = ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.fork", "os.startfile")
_LISTINGS = ("os.listdir", "os.scandir", "glob.glob")
_CLOCKS = ("time", "time_ns", "monotonic", "perf_counter", "localtime", "gmtime", "ctime", "strftime")
_DATES = re.compile(r"\b(datetime|date)\b[\w.]*\.(now|today|utcnow)\b")
_WRITES = re.compile("[wax+]")


@dataclass(frozen=True, slots=True)
class Used:
    """What a check read: files of the project, relative to its folder, and installed distributions.

    `why_not` is the reason why its result must not be used again, or None.
    """

    files: tuple[str, ...] = ()
    distributions: tuple[str, ...] = ()
    why_not: str | None = None


class Record:
    """What one check reads."""

    def __init__(self, recorder: "Recorder") -> None:
        self._recorder = recorder
        self.reads: set[Read] = set()
        self.roots: set[str] = set()  # modules of the project that the check names

    def used(self) -> Used:
        """Return the files and distributions that the check depends on, or why its result must not be used again."""
        return self._recorder.used(self)


class Recorder:
    """Records what checks of one project read. There is one in a process, as an audit hook cannot be removed."""

    active: "Recorder | None" = None

    def __init__(self, folder: str) -> None:
        self._folder = str(Path(folder).resolve()) + os.sep
        self._imports: dict[str, set[str]] = {}  # module of the project -> the modules it imports
        self._of_module: dict[str, set[Read]] = {}  # what was read while a module was imported
        self._now: Record | None = None
        self._is_users = cache(self._in_project)

    def install(self) -> None:
        """Begin to watch; before any code of the project is imported."""
        Recorder.active = self
        sys.addaudithook(_heard)
        builtins.__import__ = _watched_import(builtins.__import__)
        importlib.import_module = _watched_import_module(importlib.import_module)
        loading.LISTENERS.append(self._loaded)
        environ: Any = type(os.environ)
        environ.__getitem__ = self._watched(environ.__getitem__, "it reads the environment")
        environ.__iter__ = self._watched(environ.__iter__, "it reads the environment")
        for name in _CLOCKS:
            setattr(time, name, self._watched(getattr(time, name), "it reads the clock"))

    @contextmanager
    def recording(self) -> Iterator[Record]:
        """Record what is read inside the context."""
        self._now = Record(self)
        try:
            yield self._now
        finally:
            self._now = None

    def used(self, record: Record) -> Used:
        """Return what a check depends on: what it read, and what its modules read when they were imported."""
        modules = self._closure(record.roots)
        reads = record.reads.union(*(self._of_module.get(name, set()) for name in modules))
        own = {name for name in modules if self._is_project(name)}
        files = {path for kind, path in reads if kind == "file"} | {_file_of(name) for name in own} - {""}
        why = sorted(text for kind, text in reads if kind == "reason")
        outside = sorted(path for path in files if not path.startswith(self._folder))
        why += [f"it reads {path}, which is not in the project" for path in outside]
        why += [f"{Path(path).name} reads the clock" for path in sorted(files) if _tells_the_date(path)]
        why += ["it runs on a GPU"] if _on_gpu() else []
        return Used(
            tuple(sorted(Path(path).relative_to(self._folder).as_posix() for path in files - {*outside})),
            tuple(sorted({name.partition(".")[0] for name in modules - own} - sys.stdlib_module_names)),
            why[0] if why else None,
        )

    def read(self, event: str, args: tuple[Any, ...]) -> None:
        """Note what an audit event tells; only while a check is recorded."""
        if self._now is None:
            return
        if event == "open":
            self._opened(args)
        elif event in _NETWORK:
            self._note(("reason", "it uses the network"), users_only=True)
        elif event in _PROCESSES:
            self._note(("reason", "it starts a process"), users_only=True)
        elif event in _LISTINGS:
            self._note(("reason", "it lists a folder"), users_only=True)

    def imported(self, importer: str, names: Iterator[str]) -> None:
        """Note that a module of the project imports others; an import inside a function counts from then on."""
        self._imports.setdefault(importer, set()).update(names)

    def is_users_module(self, name: str) -> bool:
        """Whether a module that imports another belongs to the project."""
        return self._is_project(name)

    def _opened(self, args: tuple[Any, ...]) -> None:
        name, mode, flags = args[0], args[1], args[2]
        if not isinstance(name, str | bytes | os.PathLike):
            return
        path = os.path.realpath(os.fsdecode(name))
        writes = bool(_WRITES.search(mode)) if isinstance(mode, str) else bool(flags & (os.O_WRONLY | os.O_RDWR))
        known = path.startswith((*_SYSTEM, *_PYTHON, _GRADCLI)) or "site-packages" in path
        if known or path.endswith((".pyc", ".so", ".pyd")) or ".gradcli_cache" in path or path in sys.path:
            return
        if path.endswith(".py") and not self._called_by_user(sys._getframe(2)):
            return  # a module that is imported counts as one
        self._note(("reason", "it writes a file") if writes else ("file", path), users_only=writes)

    def _note(self, read: Read, users_only: bool = False) -> None:
        """Note what was read: for the modules of the project that are being imported, or else for the check."""
        frame: FrameType | None = sys._getframe(2)
        importing, users = set(), False
        while frame is not None:
            code = frame.f_code
            if self._is_users(code.co_filename):
                users = True
                if code.co_name == "<module>":
                    importing.add(str(frame.f_globals.get("__name__")))
            elif not users and users_only and code.co_filename.startswith("<frozen"):
                return  # a module is looked for; it counts when it is found
            elif not users and code.co_name == "<module>" and _is_installed(code.co_filename):
                return  # an installed package is being imported; its version counts
            frame = frame.f_back
        if users_only and not users:
            return
        for name in importing:
            self._of_module.setdefault(name, set()).add(read)
        if self._now is not None and not importing:
            self._now.reads.add(read)

    def _watched(self, function: Callable[..., Any], reason: str) -> Callable[..., Any]:
        """Return a function that notes a reason when code of the project calls it."""

        def watched(*args: Any, **kwargs: Any) -> Any:
            if self._now is not None and self._called_by_user(sys._getframe(1)):
                self._note(("reason", reason))
            return function(*args, **kwargs)

        return watched

    def _called_by_user(self, frame: FrameType | None) -> bool:
        """Whether the nearest frame outside Python's own library is code of the project."""
        while frame is not None:
            file = frame.f_code.co_filename
            if not file.startswith((*_PYTHON, "<frozen")):
                return self._is_users(file)
            frame = frame.f_back
        return False

    def _loaded(self, module: ModuleType) -> None:
        if self._now is not None:
            self._now.roots.add(module.__name__)

    def _in_project(self, file: str) -> bool:
        path = os.path.realpath(file)
        return (
            not file.startswith("<")
            and path.startswith(self._folder)
            and "site-packages" not in path
            and not path.startswith(_GRADCLI)
        )

    def _is_project(self, name: str) -> bool:
        file = _file_of(name)
        return bool(file) and "site-packages" not in file and not file.startswith((*_PYTHON, _GRADCLI))

    def _closure(self, roots: set[str]) -> set[str]:
        """Return all modules that some modules import, at any depth within the project, and the packages that hold them."""
        found: set[str] = set()
        left = [*roots]
        while left:
            name = left.pop()
            if name not in found and name in sys.modules:
                found.add(name)
                left += [name.rpartition(".")[0]] if "." in name else []
                left += self._imports.get(name, ())
        return found


def _is_installed(file: str) -> bool:
    return "site-packages" in file or file.startswith(_PYTHON)


def _heard(event: str, args: tuple[Any, ...]) -> None:
    if Recorder.active is not None:
        Recorder.active.read(event, args)


def _watched_import(original: Callable[..., Any]) -> Callable[..., Any]:
    def __import__(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> ModuleType:
        module: ModuleType = original(name, globals, locals, fromlist, level)
        importer = (globals or {}).get("__name__")
        recorder = Recorder.active
        if recorder is not None and isinstance(importer, str) and recorder.is_users_module(importer):
            leaf = getattr(module, "__name__", name) if fromlist or level else name
            inside = (f"{leaf}.{part}" for part in fromlist or ())
            recorder.imported(importer, iter([leaf, *(full for full in inside if full in sys.modules)]))
        return module

    return __import__


def _watched_import_module(original: Callable[..., Any]) -> Callable[..., Any]:
    def import_module(name: str, package: str | None = None) -> ModuleType:
        module: ModuleType = original(name, package)
        importer = sys._getframe(1).f_globals.get("__name__")
        recorder = Recorder.active
        if recorder is not None and isinstance(importer, str) and recorder.is_users_module(importer):
            recorder.imported(importer, iter([module.__name__]))
        return module

    return import_module


def _file_of(name: str) -> str:
    file = getattr(sys.modules.get(name), "__file__", None)
    return os.path.realpath(file) if isinstance(file, str) else ""


@cache
def _tells_the_date(path: str) -> bool:
    if not path.endswith(".py"):
        return False
    try:
        return bool(_DATES.search(Path(path).read_text(encoding="utf-8", errors="replace")))
    except OSError:
        return False


def _on_gpu() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()
