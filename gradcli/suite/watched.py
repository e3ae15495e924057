"""Where a recorder listens: Python's audit events, imports, the clock, the environment, and questions about files."""

import builtins
import importlib
import os
import sys
import time
from collections.abc import Callable
from functools import wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gradcli.suite.recorder import Recorder

_CLOCKS = ("time", "time_ns", "monotonic", "perf_counter", "localtime", "gmtime", "ctime", "strftime")
_ABOUT_FILES = ("stat", "lstat", "access", "readlink")
_SUPPORTS = (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks, os.supports_effective_ids)


def install(recorder: "Recorder") -> None:
    """Listen for a recorder until the process ends. The wrapped functions do what they did before."""
    sys.addaudithook(recorder.event)
    builtins.__import__ = _import(builtins.__import__, recorder)
    importlib.import_module = _import_module(importlib.import_module, recorder)
    environ: Any = type(os.environ)
    environ.__getitem__ = _noted(environ.__getitem__, "it reads the environment", recorder)
    environ.__iter__ = _noted(environ.__iter__, "it reads the environment", recorder)
    for name in _CLOCKS:
        setattr(time, name, _noted(getattr(time, name), "it reads the clock", recorder))
    os.path.realpath = _realpath(os.path.realpath, recorder)
    for name in _ABOUT_FILES:
        original = getattr(os, name)
        noted = _noted(original, "it asks whether a file is there, or what it is like", recorder)
        for supporting in _SUPPORTS:
            if original in supporting:
                supporting.add(noted)
        setattr(os, name, noted)


def _noted(function: Callable[..., Any], reason: str, recorder: "Recorder") -> Callable[..., Any]:
    """Return a function that notes a reason when code of the project calls it."""

    @wraps(function)
    def noted(*args: Any, **kwargs: Any) -> Any:
        recorder.reason(reason)
        return function(*args, **kwargs)

    return noted


def _realpath(original: Callable[..., Any], recorder: "Recorder") -> Callable[..., Any]:
    @wraps(original)
    def realpath(path: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.resolved(os.fsdecode(path))
        return original(path, *args, **kwargs)

    return realpath


def _import(original: Callable[..., Any], recorder: "Recorder") -> Callable[..., Any]:
    def __import__(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> ModuleType:
        module: ModuleType = original(name, globals, locals, fromlist, level)
        leaf = getattr(module, "__name__", name) if fromlist or level else name
        inside = (f"{leaf}.{part}" for part in fromlist or ())
        scope = sys._getframe(1).f_globals if globals is None else globals
        recorder.imported(scope, [leaf, *(full for full in inside if full in sys.modules)])
        return module

    return __import__


def _import_module(original: Callable[..., Any], recorder: "Recorder") -> Callable[..., Any]:
    @wraps(original)
    def import_module(name: str, package: str | None = None) -> ModuleType:
        module: ModuleType = original(name, package)
        recorder.imported(sys._getframe(1).f_globals, [module.__name__])
        return module

    return import_module
