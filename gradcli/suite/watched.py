"""Where a recorder listens: Python's audit events, imports, the clock, the environment, and questions about files."""

import builtins
import importlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from types import ModuleType
from typing import Any, Protocol

_CLOCKS = (
    "time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "process_time", "process_time_ns",
    "thread_time", "thread_time_ns", "clock_gettime", "clock_gettime_ns", "localtime", "gmtime", "ctime", "asctime", "strftime",
)  # fmt: skip
_ABOUT_FILES = ("stat", "lstat", "access", "readlink")
_SUPPORTS = (os.supports_fd, os.supports_dir_fd, os.supports_follow_symlinks, os.supports_effective_ids)


class Listener(Protocol):
    """What is called when code asks for what a result may depend on."""

    def event(self, event: str, args: tuple[Any, ...]) -> None:
        """Hear an audit event."""

    def reason(self, reason: str) -> None:
        """Hear that a function was called whose answer is not that of a file, and what it does."""

    def resolved(self, path: str) -> None:
        """Hear that the links of a path are followed."""

    def imported(self, scope: Mapping[str, Any], names: Iterable[str]) -> None:
        """Hear that code whose globals are `scope` imports modules."""


def install(listener: Listener) -> None:
    """Listen until the process ends. The wrapped functions do what they did before."""
    sys.addaudithook(listener.event)
    builtins.__import__ = _import(builtins.__import__, listener)
    importlib.import_module = _import_module(importlib.import_module, listener)
    environ: Any = type(os.environ)
    environ.__getitem__ = _noted(environ.__getitem__, "it reads the environment", listener)
    environ.__iter__ = _noted(environ.__iter__, "it reads the environment", listener)
    for name in filter(lambda name: hasattr(time, name), _CLOCKS):
        setattr(time, name, _noted(getattr(time, name), "it reads the clock", listener))
    os.path.realpath = _realpath(os.path.realpath, listener)
    for name in _ABOUT_FILES:
        original = getattr(os, name)
        noted = _noted(original, "it asks whether a file is there, or what it is like", listener)
        for supporting in _SUPPORTS:
            if original in supporting:
                supporting.add(noted)
        setattr(os, name, noted)


def _noted(function: Callable[..., Any], reason: str, listener: Listener) -> Callable[..., Any]:
    """Return a function that notes a reason when code of the project calls it."""

    @wraps(function)
    def noted(*args: Any, **kwargs: Any) -> Any:
        listener.reason(reason)
        return function(*args, **kwargs)

    return noted


def _realpath(original: Callable[..., Any], listener: Listener) -> Callable[..., Any]:
    @wraps(original)
    def realpath(path: Any, *args: Any, **kwargs: Any) -> Any:
        listener.resolved(os.fsdecode(path))
        return original(path, *args, **kwargs)

    return realpath


def _import(original: Callable[..., Any], listener: Listener) -> Callable[..., Any]:
    def __import__(
        name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0
    ) -> ModuleType:
        module: ModuleType = original(name, globals, locals, fromlist, level)
        leaf = getattr(module, "__name__", name) if fromlist or level else name
        inside = (f"{leaf}.{part}" for part in fromlist or ())
        scope = sys._getframe(1).f_globals if globals is None else globals
        listener.imported(scope, [leaf, *(full for full in inside if full in sys.modules)])
        return module

    return __import__


def _import_module(original: Callable[..., Any], listener: Listener) -> Callable[..., Any]:
    @wraps(original)
    def import_module(name: str, package: str | None = None) -> ModuleType:
        module: ModuleType = original(name, package)
        listener.imported(sys._getframe(1).f_globals, [module.__name__])
        return module

    return import_module
