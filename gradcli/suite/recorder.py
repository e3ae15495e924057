"""Record which files and packages a check reads, and what else its result depends on, so that a cached pass can be trusted.

What a function or a module of the project reads belongs to every check that uses the module: the value may stay in the
process, and a later check would read nothing. Files that C code opens by itself, as HDF5 does, are not seen.
"""

import importlib.util
import os
import re
import stat
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

from gradcli.source import loading
from gradcli.suite import watched

_stat, _realpath = os.stat, os.path.realpath  # as they are before they are watched
Read = tuple[str, str]  # what was read: ("file", its path), or ("reason", why the result depends on more than files)
_GRADCLI = str(Path(__file__).resolve().parents[1]) + os.sep
_WATCHING = (__file__, watched.__file__)
_BASE = {"base": sys.base_prefix, "platbase": sys.base_exec_prefix}
_PYTHON = tuple(
    {str(Path(sysconfig.get_path(name, vars=_BASE)).resolve()) + os.sep for name in ("stdlib", "platstdlib")}
)
_SITES = ("site-packages", "dist-packages")
_SYSTEM = ("/proc/", "/sys/", "/dev/")
_RESOURCES = f"{os.sep}importlib{os.sep}resources{os.sep}"
_HARMLESS = ("linecache.py", "inspect.py", "traceback.py", "tokenize.py")  # of Python: what they read is known
_FOLLOWS = ("realpath", "resolve")  # functions of Python that ask about each link of a path
_UNSTEADY = re.compile(
    r"\bdatetime\w*\b|\.(now|today|utcnow)\b|\bposix\b|\bplatform\.(node|uname)\b|\bgethostname\b|\bgetfqdn\b"
    r"|\b(default_rng|RandomState|Random|SystemRandom)\(\s*(None\s*)?\)|\b(secrets|urandom|getrandom|uuid[14])\b"
    r"|\brandom\.(?!default_rng|RandomState|Generator|Random|SeedSequence|PCG|MT|Philox|SFC)\w+\("
)
_WRITES = re.compile("[wax+]")
_REASONS = {
    "socket.connect": "it uses the network", "socket.getaddrinfo": "it uses the network",
    "socket.bind": "it uses the network", "urllib.Request": "it uses the network",
    "subprocess.Popen": "it starts a process", "os.system": "it starts a process", "os.exec": "it starts a process",
    "os.posix_spawn": "it starts a process", "os.fork": "it starts a process", "os.startfile": "it starts a process",
    "os.listdir": "it lists a folder", "os.scandir": "it lists a folder", "glob.glob": "it lists a folder",
    "sqlite3.connect": "it reads a database",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Used:
    """What a check read: files, relative to the folder of the project, and installed distributions.

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

    def __init__(self, folder: str) -> None:
        self._folder = str(Path(folder).resolve()) + os.sep
        sites = {path for path in sys.path if Path(path).name in _SITES}
        sites |= {_realpath(path) for path in sites}
        self._installed = (*_PYTHON, *(path + os.sep for path in sites if not self._folder.startswith(path + os.sep)))
        self._imports: dict[str, set[str]] = {}  # module of the project -> the modules it imports
        self._of_module: dict[str, set[Read]] = {}  # what was read while a module was imported, or by its functions
        self._now: Record | None = None
        self._is_users = cache(self._in_project)

    def install(self) -> None:
        """Begin to watch; before any code of the project is imported."""
        loading.LISTENERS.append(self._loaded)
        watched.install(self)

    @contextmanager
    def recording(self) -> Iterator[Record]:
        """Record what is read inside the context."""
        self._now = Record(self)
        try:
            yield self._now
        finally:
            self._now = None

    def used(self, record: Record) -> Used:
        """Return what a check depends on: what it read, and what its modules read."""
        modules = self._closure(record.roots)
        reads = record.reads.union(*(self._of_module.get(name, set()) for name in modules))
        own = {name for name in modules if self._is_project(name)}
        files = {path for kind, path in reads if kind == "file"} | {_file_of(name) for name in own} - {""}
        why = sorted(text for kind, text in reads if kind == "reason")
        outside = sorted(path for path in files if not path.startswith(self._folder))
        why += [f"it reads {path}, which is not in the project" for path in outside]
        unsteady = sorted(filter(_is_unsteady, files))
        why += [
            f"{Path(path).name} may read the clock, the name of the machine, or random numbers" for path in unsteady
        ]
        why += ["it runs on a GPU"] if _on_gpu() else []
        return Used(
            tuple(sorted(Path(os.path.relpath(path, self._folder)).as_posix() for path in files)),
            tuple(sorted({name.partition(".")[0] for name in modules - own} - sys.stdlib_module_names)),
            why[0] if why else None,
        )

    # What `watched` sees.

    def event(self, event: str, args: tuple[Any, ...]) -> None:
        """Note what an audit event tells."""
        if event == "open":
            self._opened(*args)
        elif event == "ctypes.dlopen":
            self._library(args[0])
        elif event in _REASONS:
            self._note(("reason", _REASONS[event]), users_only=True)

    def reason(self, reason: str) -> None:
        """Note a reason if code of the project makes the call that gives it."""
        if self._now is not None and self._called_by_user():
            self._note(("reason", reason))

    def resolved(self, path: str) -> None:
        """Note that code of the project asked where a path leads, which a link decides."""
        if self._now is not None and _is_file(path) and self._called_by_user(ignored=()):
            self._note(("file", _absolute(path)))

    def imported(self, scope: Mapping[str, Any], names: Iterable[str]) -> None:
        """Note the imports of code whose globals are `scope`; an import inside a function counts from then on.

        Code that is not in a module, as `exec` runs it, imports for the modules that run it.
        """
        file, name = scope.get("__file__"), scope.get("__name__")
        if isinstance(file, str) and _absolute(file).startswith((*self._installed, _GRADCLI)):
            return
        for importer in [name] if isinstance(file, str) and name in sys.modules else self._running()[0]:
            self._imports.setdefault(str(importer), set()).update(names)

    def _opened(self, name: Any, mode: Any, flags: Any) -> None:
        if self._now is None or not isinstance(name, str | bytes | os.PathLike):
            return
        path = _absolute(os.fsdecode(name))
        writes = bool(_WRITES.search(mode)) if isinstance(mode, str) else bool(flags & (os.O_WRONLY | os.O_RDWR))
        known = path.startswith((*_SYSTEM, *self._installed, _GRADCLI))
        if known or f"{os.sep}.gradcli_cache{os.sep}" in path or path in sys.path:
            return
        if path.endswith(".pyc") and (writes or not (path := _source_of(path))):
            return
        if path.endswith(".py") and not self._called_by_user():
            return  # a module that is imported counts as one
        self._note(("reason", "it writes a file") if writes else ("file", path), users_only=writes)

    def _library(self, name: Any) -> None:
        """Note a library that code of the project loads: a file of the project, or one of the system."""
        path = _absolute(os.fsdecode(name)) if name else ""
        if not path.startswith(self._installed):
            self._note(("file", path) if _is_file(path) else ("reason", "it loads a library"), users_only=True)

    def _note(self, read: Read, users_only: bool = False) -> None:
        """Note what was read: for the modules of the project whose code is running, and for the check."""
        if self._now is None:
            return
        modules, importing, passed = self._running()
        looked_for = users_only and any(
            code.co_filename.startswith("<frozen") for code in passed
        )  # counts when it is found
        by_package = any(code.co_name == "<module>" and code.co_filename.startswith(self._installed) for code in passed)
        if looked_for or by_package or (users_only and not modules):
            return
        for name in modules:
            self._of_module.setdefault(name, set()).add(read)
        if not importing:
            self._now.reads.add(read)

    def _running(self) -> tuple[set[str], bool, list[CodeType]]:
        """Return the modules of the project whose code is running, whether one is being imported, and the code before them."""
        frame: FrameType | None = sys._getframe(1)
        modules, importing, passed = set(), False, []
        while frame is not None:
            code = frame.f_code
            if self._is_users(code.co_filename):
                modules.add(str(frame.f_globals.get("__name__")))
                importing |= code.co_name == "<module>"
            elif not modules:
                passed.append(code)
            frame = frame.f_back
        return modules, importing, passed

    def _called_by_user(self, ignored: Sequence[str] = _FOLLOWS) -> bool:
        """Whether the nearest frame outside Python's own library is code of the project.

        Calls that Python makes to find its sources, or in its functions of the names `ignored`, are not the project's.
        """
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            file = frame.f_code.co_filename
            if file not in _WATCHING:
                if not _is_python(file):
                    return self._is_users(file)
                if file.endswith(_HARMLESS) or _RESOURCES in file or frame.f_code.co_name in ignored:
                    return False
            frame = frame.f_back
        return False

    def _loaded(self, module: ModuleType) -> None:
        if self._now is not None:
            self._now.roots.add(module.__name__)

    def _in_project(self, file: str) -> bool:
        if file.startswith("<"):
            return False
        paths = (_absolute(file), _realpath(file))
        return any(
            path.startswith(self._folder) and not path.startswith((*self._installed, _GRADCLI)) for path in paths
        )

    def _is_project(self, name: str) -> bool:
        file = _file_of(name)
        return bool(file) and not file.startswith((*self._installed, _GRADCLI))

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


@cache
def _is_python(file: str) -> bool:
    """Whether a file is of Python's own library; packages may be installed inside of it."""
    return file.startswith("<frozen") or (file.startswith(_PYTHON) and not {*_SITES} & {*Path(file).parts})


def _absolute(path: str) -> str:
    """Return a path from the root. Links stay: where they lead may change."""
    return os.path.abspath(path)  # noqa: PTH100


def _is_file(path: str) -> bool:
    try:
        return stat.S_ISREG(_stat(path).st_mode)
    except OSError:
        return False


def _source_of(path: str) -> str:
    """Return the source of a compiled file; nothing if it has none."""
    try:
        return importlib.util.source_from_cache(path)
    except ValueError:
        return ""


def _file_of(name: str) -> str:
    file = getattr(sys.modules.get(name), "__file__", None)
    return _absolute(file) if isinstance(file, str) else ""


@cache
def _is_unsteady(path: str) -> bool:
    """Whether a Python file names what gives the time, the machine or random numbers; an import under another name is seen."""
    if not path.endswith(".py"):
        return False
    try:
        return bool(_UNSTEADY.search(Path(path).read_text(encoding="utf-8", errors="replace")))
    except OSError:
        return False


def _on_gpu() -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_available() and torch.cuda.is_initialized()
